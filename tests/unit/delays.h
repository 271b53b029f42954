#pragma once
// With TACHY_PIPELINE_DELAYS a test's pipeline waits for a random time at every hand-over, so that
// threads meet in every order.
#include "pipeline/pipeline_wait.h"

#include <sched.h>
#include <stdint.h>
#include <unistd.h>

#ifdef TACHY_PIPELINE_DELAYS
void tachy_pipeline_delay(void)
{
    static _Thread_local uint32_t seed;
    if (!seed)
        seed = (uint32_t)(uintptr_t)&seed | 1;
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    if (seed % 8 == 0)
        usleep(seed / 8 % 50);
    else if (seed % 8 == 1)
        sched_yield();
}
#endif
