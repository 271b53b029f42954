#include "pipeline/tuner.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const uint64_t MS = 1000000;
static const double GAIN = 1.03, CERTAIN = 1.2, STRANGE = 0.2;
enum { LEAST_FRAMES = 24, SETTLE = 150, LEAST = 400, MOST = 2000, HOLD = 1000, AGAIN = 30000, AGAIN_MOST = 480000 }; // ms
enum { FINEST = 4 };                               // no step is smaller than this part of the best
enum { UP, DOWN, NEAR, MOVES };                    // of one part
enum { FIRST, ALL_UP, ALL_DOWN, PARTS, HELD = PARTS + MOVES * TACHY_TUNER_PARTS };

static bool same(const int *a, const int *b) { return !memcmp(a, b, sizeof(int) * TACHY_TUNER_PARTS); }

static bool was_tried(const struct tachy_tuner *t, const int *n)
{
    for (int i = 0; i < t->nb_tried; i++)
        if (same(t->tried[i], n))
            return true;
    return t->nb_tried == TACHY_TUNER_TRIED;
}

static void set(struct tachy_tuner *t, const int *n, uint64_t now)
{
    if (!was_tried(t, n))
        memcpy(t->tried[t->nb_tried++], n, sizeof(t->n));
    memmove(t->n, n, sizeof(t->n));
    t->changed = now;
    t->window = 0;
}

static void search(struct tachy_tuner *t, uint64_t now)
{
    t->phase = FIRST;
    t->strange = t->nb_tried = 0;
    t->other_rate = 0;
    set(t, t->n, now);
}

void tachy_tuner_open(struct tachy_tuner *t, const int n[TACHY_TUNER_PARTS], const int most[TACHY_TUNER_PARTS],
                      const struct tachy_log *log, uint64_t now)
{
    *t = (struct tachy_tuner){.again = AGAIN * MS, .log = log};
    memcpy(t->n, n, sizeof(t->n));
    memcpy(t->most, most, sizeof(t->most));
    search(t, now);
}

static int twice(const struct tachy_tuner *t, int part) { return TACHY_MIN(2 * t->best[part], t->most[part]); }

static int half(const struct tachy_tuner *t, int part) { return TACHY_MAX(t->best[part] / 2, 1); }

// The next step around the best, ever smaller ones both ways.
static bool near(struct tachy_tuner *t, int part, int *n)
{
    for (; t->step >= TACHY_MAX(t->best[part] / FINEST, 1); t->step /= 2)
        for (int side = 1; side >= -1; side -= 2) {
            n[part] = t->best[part] + side * t->step;
            if (n[part] >= 1 && n[part] <= t->most[part] && !was_tried(t, n))
                return true;
        }
    return false;
}

// The next choice to try; false: none is left.
static bool candidate(struct tachy_tuner *t, int *n)
{
    for (; t->phase < HELD; t->phase++) {
        int part = (t->phase - PARTS) / MOVES, move = (t->phase - PARTS) % MOVES;
        memcpy(n, t->best, sizeof(t->best));
        if (t->phase < PARTS) {
            for (int i = 0; i < TACHY_TUNER_PARTS; i++)
                n[i] = t->phase == ALL_UP ? twice(t, i) : half(t, i);
        } else if (move == NEAR) {
            if (part == TACHY_TUNER_WORKERS && near(t, part, n))
                return true;
            continue;
        } else {
            n[part] = move == UP ? twice(t, part) : half(t, part);
            t->step = half(t, part);
        }
        if (!was_tried(t, n))
            return true;
    }
    return false;
}

// "4 workers, 2 decoders"; decoders only if there may be several.
static void words(const struct tachy_tuner *t, const int *n, char *buf, size_t size)
{
    int used = snprintf(buf, size, "%d worker%s", n[TACHY_TUNER_WORKERS], n[TACHY_TUNER_WORKERS] == 1 ? "" : "s");
    if (t->most[TACHY_TUNER_DECODERS] > 1)
        snprintf(buf + used, size - (size_t)used, ", %d decoder%s", n[TACHY_TUNER_DECODERS], n[TACHY_TUNER_DECODERS] == 1 ? "" : "s");
}

static void hold(struct tachy_tuner *t, uint64_t now)
{
    char text[80];
    bool found_again = same(t->best, t->said);
    t->phase = HELD;
    t->held_rate = t->best_rate;
    t->again = found_again ? TACHY_MIN(2 * t->again, AGAIN_MOST * MS) : AGAIN * MS;
    set(t, t->best, now);
    memcpy(t->said, t->best, sizeof(t->said));
    words(t, t->best, text, sizeof(text));
    tachy_msg(t->log, found_again ? TACHY_LOG_VERBOSE : TACHY_LOG_INFO, "auto-tune: %s, %.1f frames per second", text, t->best_rate * 1e9);
}

static void say_tried(const struct tachy_tuner *t, const int *n, double rate, bool better)
{
    char with[80], before[80];
    words(t, n, with, sizeof(with));
    words(t, t->best, before, sizeof(before));
    tachy_msg(t->log, TACHY_LOG_VERBOSE, "auto-tune: %s instead of %s: %+.1f %%; %s", with, before, 100 * (rate / t->best_rate - 1),
              better ? "kept" : "taken back");
}

// A choice has its rate.
static void judge(struct tachy_tuner *t, double rate, uint64_t now)
{
    int n[TACHY_TUNER_PARTS];
    memcpy(n, t->n, sizeof(n));
    if (t->other_rate > 0) { // it was the best's second window
        t->best_rate = (t->best_rate + rate) / 2;
        rate = t->other_rate;
        memcpy(n, t->other, sizeof(n));
    } else if (t->phase != FIRST && rate > t->best_rate * GAIN && rate < t->best_rate * CERTAIN) {
        t->other_rate = rate;
        memcpy(t->other, t->n, sizeof(t->other));
        set(t, t->best, now);
        return;
    }
    t->other_rate = 0;
    bool better = t->phase == FIRST || rate > t->best_rate * GAIN;
    if (t->phase != FIRST)
        say_tried(t, n, rate, better);
    if (better) {
        memcpy(t->best, n, sizeof(t->best));
        t->best_rate = rate;
    }
    bool steps = t->phase >= PARTS && (t->phase - PARTS) % MOVES == NEAR;
    t->phase += t->phase == FIRST || (!better && !steps);
    if (candidate(t, n))
        set(t, n, now);
    else
        hold(t, now);
}

static void watch(struct tachy_tuner *t, double rate, uint64_t now)
{
    bool usual = fabs(rate / t->held_rate - 1) <= STRANGE;
    t->strange = usual ? 0 : t->strange + 1;
    t->held_rate = usual ? 0.9 * t->held_rate + 0.1 * rate : t->held_rate;
    t->window = 0;
    if (t->strange < 2 && now < t->changed + t->again)
        return;
    if (t->strange)
        tachy_msg(t->log, TACHY_LOG_VERBOSE, "auto-tune: the rate went from %.1f to %.1f frames per second; searching again",
                  t->held_rate * 1e9, rate * 1e9);
    search(t, now);
}

bool tachy_tuner_tick(struct tachy_tuner *t, uint64_t now, int64_t frames)
{
    int before[TACHY_TUNER_PARTS];
    if (!t->window) {
        if (now < t->changed + SETTLE * MS)
            return false;
        t->window = now;
        t->frames = frames;
        return false;
    }
    uint64_t least = (t->phase == HELD ? HOLD : LEAST) * MS, spent = now - t->window;
    if (spent < least || (frames - t->frames < LEAST_FRAMES && spent < MOST * MS))
        return false;
    memcpy(before, t->n, sizeof(before));
    double rate = (double)(frames - t->frames) / (double)spent;
    if (t->phase == HELD)
        watch(t, rate, now);
    else if (rate > 0)
        judge(t, rate, now);
    else
        t->window = 0; // nothing came out: the source waits
    return !same(t->n, before);
}
