#pragma once
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// Waiting for what another thread will do, without a lock on the way of who does it: the waiter
// counts itself and looks again, the other changes the state and looks at the count. Both are
// sequentially consistent, so at least one of them sees the other.

// Tests define this to a random delay; every hand-over has one in front.
#ifdef TACHY_PIPELINE_DELAYS
void tachy_pipeline_delay(void);
#else
static inline void tachy_pipeline_delay(void) {}
#endif

struct pipeline_event {
    _Atomic int waiters;
    pthread_mutex_t lock;
    pthread_cond_t cond;
};

void pipeline_event_init(struct pipeline_event *e);
void pipeline_event_destroy(struct pipeline_event *e);
void pipeline_event_broadcast(struct pipeline_event *e);

// After the state has changed.
static inline void pipeline_event_wake(struct pipeline_event *e)
{
    tachy_pipeline_delay();
    if (atomic_load(&e->waiters))
        pipeline_event_broadcast(e);
}

// Waits until holds(user), or for `timeout_ns` (UINT64_MAX: no limit): then returns false.
bool pipeline_event_wait(struct pipeline_event *e, bool (*holds)(void *user), void *user,
                         uint64_t timeout_ns);

// Spins for a while before sleeping, if that has paid off recently: a thread that gets work every few microseconds
// never sleeps, one that waits for milliseconds sleeps at once. Threads may share one, since it is only a guess.
struct pipeline_spin {
    _Atomic int budget;  // looks; 0: not for now
    _Atomic int skipped; // waits since then
};

// Looks at holds(user) as often as the budget says, giving the core away in between.
bool pipeline_spin(struct pipeline_spin *s, bool (*holds)(void *user), void *user);
