#include "profile/ticks.h"

#include "base/base.h"

#include <pthread.h>
#include <stdio.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

struct tachy_tick_rate tachy_tick_rate = {.mult = (uint64_t)1 << 32};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t read_counter(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
#else
    return 0;
#endif
}

// True if the processor promises a constant rate and the system still offers the counter as a clock source: it stops
// doing so if it finds the cores' counters apart.
static bool counter_is_steady(void)
{
#if defined(__aarch64__)
    return true; // by the architecture
#elif defined(__x86_64__)
    unsigned a, b, c, d;
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8)) // invariant TSC
        return false;
    FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/available_clocksource", "r");
    if (!f)
        return true;
    char list[256] = "";
    bool offered = fgets(list, sizeof(list), f) && strstr(list, "tsc");
    fclose(f);
    return offered;
#else
    return false;
#endif
}

// The tightest of a few pairs, so that an interrupt between the two readings does not count.
static struct tachy_tick_anchor pair(uint64_t *slack)
{
    struct tachy_tick_anchor best = {0};
    *slack = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = read_counter(), ns = tachy_now_ns(), after = read_counter();
        if (after - before < *slack) {
            *slack = after - before;
            best = (struct tachy_tick_anchor){before + (after - before) / 2, ns};
        }
    }
    return best;
}

struct tachy_tick_rate tachy_ticks_calibrate(bool counter)
{
    struct tachy_tick_rate plain = {.mult = (uint64_t)1 << 32};
    if (!counter || !counter_is_steady())
        return plain;
    uint64_t slack_a, slack_b;
    struct tachy_tick_anchor a = pair(&slack_a);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    struct tachy_tick_anchor b = pair(&slack_b);
    uint64_t ticks = b.ticks - a.ticks, ns = b.ns - a.ns;
    // 10 MHz to 100 GHz, and pairs within 0.2 % of the interval; else it is no clock.
    if (b.ticks <= a.ticks || !ns || ticks < ns / 100 || ticks > ns * 100 ||
        slack_a + slack_b > ticks / 500)
        return plain;
    return (struct tachy_tick_rate){.counter = true,
                                    .mult = (uint64_t)(((unsigned __int128)ns << 32) / ticks)};
}

static void init(void) { tachy_tick_rate = tachy_ticks_calibrate(true); }

void tachy_ticks_init(void) { pthread_once(&once, init); }

struct tachy_tick_anchor tachy_ticks_anchor(void)
{
    uint64_t slack;
    if (tachy_tick_rate.counter)
        return pair(&slack);
    uint64_t now = tachy_now_ns();
    return (struct tachy_tick_anchor){now, now};
}

uint64_t tachy_ticks_at(uint64_t ticks, const struct tachy_tick_anchor *a,
                        const struct tachy_tick_anchor *b)
{
    __int128 away = (__int128)ticks - (__int128)a->ticks;
    uint64_t span = b->ticks - a->ticks;
    if (span < 1000) // one and the same moment: the calibration must do
        return a->ns +
               (uint64_t)(int64_t)(away * (__int128)tachy_tick_rate.mult / ((__int128)1 << 32));
    return a->ns + (uint64_t)(int64_t)(away * (__int128)(b->ns - a->ns) / (__int128)span);
}
