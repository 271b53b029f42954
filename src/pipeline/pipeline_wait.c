#include "pipeline/pipeline_wait.h"

#include "base/base.h"
#include "base/clock.h"

#include <errno.h>

enum { SPIN_MIN = 2, SPIN_MAX = 32, SPIN_RETRY = 32 };

void pipeline_event_init(struct pipeline_event *e)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->cond, &attr);
    pthread_condattr_destroy(&attr);
}

void pipeline_event_destroy(struct pipeline_event *e)
{
    pthread_cond_destroy(&e->cond);
    pthread_mutex_destroy(&e->lock);
}

void pipeline_event_broadcast(struct pipeline_event *e)
{
    pthread_mutex_lock(&e->lock);
    pthread_cond_broadcast(&e->cond);
    pthread_mutex_unlock(&e->lock);
}

bool pipeline_event_wait(struct pipeline_event *e, bool (*holds)(void *user), void *user,
                         uint64_t timeout_ns)
{
    struct timespec t;
    if (timeout_ns != UINT64_MAX) {
        uint64_t until = tachy_now_ns() + timeout_ns;
        t = (struct timespec){.tv_sec = (time_t)(until / 1000000000u),
                              .tv_nsec = (long)(until % 1000000000u)};
    }
    bool held = false, late = false;
    pthread_mutex_lock(&e->lock);
    atomic_fetch_add(&e->waiters, 1);
    while (!(held = holds(user)) && !late) {
        tachy_pipeline_delay();
        if (timeout_ns == UINT64_MAX)
            pthread_cond_wait(&e->cond, &e->lock);
        else
            late = pthread_cond_timedwait(&e->cond, &e->lock, &t) == ETIMEDOUT;
    }
    atomic_fetch_sub(&e->waiters, 1);
    pthread_mutex_unlock(&e->lock);
    return held;
}

bool pipeline_spin(struct pipeline_spin *s, bool (*holds)(void *user), void *user)
{
    int budget = atomic_load_explicit(&s->budget, memory_order_relaxed);
    if (!budget) {
        int skipped = atomic_load_explicit(&s->skipped, memory_order_relaxed) + 1;
        atomic_store_explicit(&s->skipped, skipped % SPIN_RETRY, memory_order_relaxed);
        if (skipped < SPIN_RETRY)
            return holds(user);
        budget = SPIN_MIN;
    }
    bool held = false;
    for (int i = 0; i < budget && !(held = holds(user)); i++)
        sched_yield();
    budget = held ? TACHY_MIN(2 * budget, SPIN_MAX) : budget / 2;
    atomic_store_explicit(&s->budget, budget, memory_order_relaxed);
    return held || holds(user);
}
