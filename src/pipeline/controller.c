#include "pipeline/controller.h"

#define MS 1000000u

static const uint64_t WINDOW = 250 * MS, RECOVERED = 1000 * MS; // the latter: without a bad window
enum { BAD_ONE_IN = 50 }; // a window is bad if more than one frame in this many missed

static const struct {
    const char *name, *now, *again;
} degrades[TACHY_DEGRADE_COUNT] = {
    [TACHY_DEGRADE_SIMILAR] = {"similar", "a frame like the last one takes over its result",
                            "the model runs on similar frames again"},
    [TACHY_DEGRADE_ALTERNATE] = {"alternate", "every other frame takes over the result before it",
                              "the model runs on every frame again"},
    [TACHY_DEGRADE_SMALL_INPUT] = {"small-input", "the model sees a smaller picture",
                                "the model sees the whole size again"},
    [TACHY_DEGRADE_SMALL_BATCH] = {"small-batch", "batches are smaller",
                                "batches have their size again"},
};

const char *tachy_degrade_name(enum tachy_degrade e)
{
    return (unsigned)e < TACHY_DEGRADE_COUNT ? degrades[e].name : "?";
}

void tachy_controller_open(struct tachy_controller *c, const struct tachy_controller_params *p,
                           uint64_t now)
{
    *c = (struct tachy_controller){.p = *p, .window = now, .changed = now, .counted = now};
    c->p.down_ns = TACHY_DEF(p->down_ns, 500 * MS);
    c->p.hold_ns = TACHY_DEF(p->hold_ns, 3000ull * MS);
    c->p.hold_max_ns = TACHY_MAX(TACHY_DEF(p->hold_max_ns, 60000ull * MS), c->p.hold_ns);
    c->hold_ns = c->p.hold_ns;
    for (int e = 0; e < TACHY_DEGRADE_COUNT; e++)
        if (p->steps & 1u << e)
            c->steps[c->nb_steps++] = (enum tachy_degrade)e;
}

static void count_time(struct tachy_controller *c, uint64_t now)
{
    for (int i = 0; i < c->level; i++)
        c->degraded[c->steps[i]].seconds += (double)(now - c->counted) * 1e-9;
    c->counted = now;
}

static void step_down(struct tachy_controller *c, uint64_t now)
{
    if (c->went_up && now - c->changed < c->hold_ns)
        c->hold_ns = TACHY_MIN(2 * c->hold_ns, c->p.hold_max_ns);
    count_time(c, now);
    enum tachy_degrade e = c->steps[c->level++];
    c->degraded[e].times++;
    c->went_up = false;
    tachy_msg(c->p.log, TACHY_LOG_INFO,
              "live: %.0f %% of the frames missed %.0f ms; from now on %s (step %d of %d)",
              100 * c->miss_share, (double)c->p.deadline_ns * 1e-6, degrades[e].now, c->level,
              c->nb_steps);
}

static void step_up(struct tachy_controller *c, uint64_t now)
{
    count_time(c, now);
    enum tachy_degrade e = c->steps[--c->level];
    c->went_up = true;
    tachy_msg(c->p.log, TACHY_LOG_INFO, "live: no frame was late for %.1f s; %s (step %d of %d)",
              (double)(now - c->good_since) * 1e-9, degrades[e].again, c->level, c->nb_steps);
}

static bool judge(struct tachy_controller *c, uint64_t now)
{
    bool bad = c->missed * BAD_ONE_IN > c->frames;
    c->miss_share = (double)c->missed / (double)c->frames;
    if (!bad && now - c->bad_until >= RECOVERED)
        c->bad_since = 0;
    if (bad)
        c->bad_since = TACHY_DEF(c->bad_since, c->window), c->bad_until = now;
    c->good_since = c->missed ? 0 : TACHY_DEF(c->good_since, c->window);
    if (c->went_up && now - c->changed >= c->hold_ns)
        c->hold_ns = c->p.hold_ns; // it has lasted
    int before = c->level;
    uint64_t since = TACHY_MAX(c->bad_since, c->changed);
    uint64_t calm = TACHY_MAX(c->good_since, c->changed);
    if (bad && c->level < c->nb_steps && now - since >= c->p.down_ns)
        step_down(c, now);
    else if (c->good_since && c->level && now - calm >= c->hold_ns)
        step_up(c, now);
    if (c->level != before) {
        c->changed = now;
        c->bad_since = c->good_since = 0;
    }
    return c->level != before;
}

bool tachy_controller_frame(struct tachy_controller *c, uint64_t now, bool missed)
{
    c->frames++;
    c->missed += missed;
    if (now < c->window + WINDOW) // threads may be a little out of turn
        return false;
    // A source that paused says nothing about the time in between.
    if (now - c->window > 4 * WINDOW)
        c->bad_since = c->good_since = 0, c->window = now - WINDOW;
    bool changed = judge(c, now);
    c->window = now;
    c->frames = c->missed = 0;
    return changed;
}

bool tachy_controller_has(const struct tachy_controller *c, enum tachy_degrade e)
{
    return tachy_controller_bits(c) >> e & 1;
}

unsigned tachy_controller_bits(const struct tachy_controller *c)
{
    unsigned bits = 0;
    for (int i = 0; i < c->level; i++)
        bits |= 1u << c->steps[i];
    return bits;
}

void tachy_controller_stats(struct tachy_controller *c, uint64_t now,
                            struct tachy_degraded out[TACHY_DEGRADE_COUNT])
{
    count_time(c, now);
    memcpy(out, c->degraded, sizeof(c->degraded));
}
