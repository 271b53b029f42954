#include "pipeline/pipeline_wait.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/thread.h"

enum { SPIN_MIN = 2, SPIN_MAX = 32, SPIN_RETRY = 32 };

void pipeline_event_init(struct pipeline_event *e)
{
    pthread_mutex_init(&e->lock, NULL);
    tachy_cond_init(&e->cond);
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
    uint64_t until = timeout_ns == UINT64_MAX ? UINT64_MAX : tachy_now_ns() + timeout_ns;
    bool held = false, late = false;
    pthread_mutex_lock(&e->lock);
    atomic_fetch_add(&e->waiters, 1);
    while (!(held = holds(user)) && !late) {
        tachy_pipeline_delay();
        late = tachy_cond_wait_until(&e->cond, &e->lock, until);
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
