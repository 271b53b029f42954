#pragma once
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

// Names the calling thread for ps, top and debuggers; at most 15 characters are kept.
static inline void tachy_thread_name(const char *name)
{
#ifdef __linux__
    prctl(PR_SET_NAME, name);
#endif
}

// A condition for waits until a time of tachy_now_ns().
static inline void tachy_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

// pthread_cond_wait() until `ns` at the latest; UINT64_MAX: however long. True: it is that late.
static inline bool tachy_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    return (ns == UINT64_MAX ? pthread_cond_wait(c, lock) : pthread_cond_timedwait(c, lock, &t)) == ETIMEDOUT;
}
