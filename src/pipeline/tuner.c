#include "pipeline/tuner.h"

#include <math.h>
#include <string.h>

static const uint64_t MS = 1000000;
static const double GAIN = 1.03, STRANGE = 0.2;
enum { LEAST_FRAMES = 24, SETTLE = 150, LEAST = 400, MOST = 2000, HOLD = 1000, AGAIN = 30000 }; // ms
enum { FIRST, UP, DOWN, NEAR, HELD };

static bool was_tried(const struct tachy_tuner *t, int n) { return t->tried[n / 32] >> n % 32 & 1; }

static void set(struct tachy_tuner *t, int n, uint64_t now)
{
    t->n = n;
    t->tried[n / 32] |= 1u << n % 32;
    t->changed = now;
    t->window = 0;
}

static void search(struct tachy_tuner *t, uint64_t now)
{
    t->phase = FIRST;
    t->strange = 0;
    memset(t->tried, 0, sizeof(t->tried));
    set(t, t->n, now);
}

void tachy_tuner_open(struct tachy_tuner *t, int n, int most, const struct tachy_log *log, uint64_t now)
{
    *t = (struct tachy_tuner){.n = n, .most = most, .log = log};
    search(t, now);
}

// The next number to try; 0: none is left. Near the best ever smaller steps, both ways.
static int candidate(struct tachy_tuner *t)
{
    int n = t->phase == UP ? TACHY_MIN(2 * t->best, t->most) : t->phase == DOWN ? TACHY_MAX(t->best / 2, 1) : 0;
    if (n && !was_tried(t, n))
        return n;
    if (t->phase < NEAR) {
        t->phase++;
        return candidate(t);
    }
    for (; t->step > 0; t->step /= 2)
        for (int side = 1; side >= -1; side -= 2) {
            n = t->best + side * t->step;
            if (n >= 1 && n <= t->most && !was_tried(t, n))
                return n;
        }
    return 0;
}

static void hold(struct tachy_tuner *t, uint64_t now)
{
    t->phase = HELD;
    t->held_rate = t->best_rate;
    set(t, t->best, now);
    enum tachy_log_level level = t->best == t->said ? TACHY_LOG_VERBOSE : TACHY_LOG_INFO;
    t->said = t->best;
    tachy_msg(t->log, level, "auto-tune: %d worker%s, %.1f frames per second", t->best, t->best == 1 ? "" : "s",
              t->best_rate * 1e9);
}

// A number has its rate.
static void judge(struct tachy_tuner *t, double rate, uint64_t now)
{
    bool better = t->phase == FIRST || rate > t->best_rate * GAIN;
    if (t->phase != FIRST)
        tachy_msg(t->log, TACHY_LOG_VERBOSE, "auto-tune: %d workers instead of %d: %+.1f %%; %s", t->n, t->best,
                  100 * (rate / t->best_rate - 1), better ? "kept" : "taken back");
    if (better) {
        t->best = t->n;
        t->best_rate = rate;
    }
    t->phase += t->phase == FIRST || (!better && t->phase < NEAR);
    if (t->phase < NEAR)
        t->step = TACHY_MAX(t->best / 2, 1);
    int n = candidate(t);
    if (n)
        set(t, n, now);
    else
        hold(t, now);
}

static void watch(struct tachy_tuner *t, double rate, uint64_t now)
{
    bool same = fabs(rate / t->held_rate - 1) <= STRANGE;
    t->strange = same ? 0 : t->strange + 1;
    t->held_rate = same ? 0.9 * t->held_rate + 0.1 * rate : t->held_rate;
    t->window = 0;
    if (t->strange < 2 && now < t->changed + AGAIN * MS)
        return;
    if (t->strange)
        tachy_msg(t->log, TACHY_LOG_VERBOSE, "auto-tune: the rate went from %.1f to %.1f frames per second; searching again",
                  t->held_rate * 1e9, rate * 1e9);
    search(t, now);
}

int tachy_tuner_tick(struct tachy_tuner *t, uint64_t now, int64_t frames)
{
    if (!t->window) {
        if (now < t->changed + SETTLE * MS)
            return 0;
        t->window = now;
        t->frames = frames;
        return 0;
    }
    uint64_t least = (t->phase == HELD ? HOLD : LEAST) * MS, spent = now - t->window;
    if (spent < least || (frames - t->frames < LEAST_FRAMES && spent < MOST * MS))
        return 0;
    int before = t->n;
    double rate = (double)(frames - t->frames) / (double)spent;
    if (t->phase == HELD)
        watch(t, rate, now);
    else if (rate > 0)
        judge(t, rate, now);
    else
        t->window = 0; // nothing came out: the source waits
    return t->n == before ? 0 : t->n;
}
