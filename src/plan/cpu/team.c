#include "plan/cpu/team.h"

#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

// The next step of a run is there within microseconds: a helper spins that long before it sleeps.
enum { SPINS = 1000 };

struct member {
    struct plan_team *team;
    int index;
    pthread_t thread;
};

struct plan_team {
    // Pieces that nobody has taken, below a count of the calls that makes each call's claims its own.
    _Alignas(64) atomic_ullong open;
    _Alignas(64) atomic_int done; // pieces of this call
    _Alignas(64) atomic_int asleep;
    int threads, started;
    void (*fn)(void *user, int thread, int piece); // of this call
    void *user;
    pthread_mutex_t lock; // of those who sleep
    pthread_cond_t wake;
    bool end; // under the lock
    struct member member[];
};

enum { CALL_SHIFT = 32 };
static int left(unsigned long long open) { return (int)(open & 0xffffffffu); }

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Takes pieces while there are any.
static void work(struct plan_team *t, int thread)
{
    unsigned long long open = atomic_load_explicit(&t->open, memory_order_acquire);
    while (left(open) > 0) {
        if (!atomic_compare_exchange_weak_explicit(&t->open, &open, open - 1, memory_order_acquire,
                                                   memory_order_acquire))
            continue;
        t->fn(t->user, thread, left(open) - 1);
        atomic_fetch_add_explicit(&t->done, 1, memory_order_release);
        open = atomic_load_explicit(&t->open, memory_order_acquire);
    }
}

// False at the end.
static bool sleep_until_work(struct plan_team *t)
{
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->asleep, 1);
    while (!left(atomic_load(&t->open)) && !t->end)
        pthread_cond_wait(&t->wake, &t->lock);
    atomic_fetch_sub(&t->asleep, 1);
    bool end = t->end;
    pthread_mutex_unlock(&t->lock);
    return !end;
}

static void *member_main(void *arg)
{
    const struct member *m = arg;
    do {
        for (int i = 0; i < SPINS; i++) {
            if (left(atomic_load_explicit(&m->team->open, memory_order_relaxed))) {
                work(m->team, m->index);
                i = 0;
            }
            relax();
        }
    } while (sleep_until_work(m->team));
    return NULL;
}

struct plan_team *plan_team_open(int threads)
{
    size_t size = sizeof(struct plan_team) + sizeof(struct member) * (size_t)(threads - 1);
    struct plan_team *t = tachy_aligned_alloc(size);
    if (!t)
        return NULL;
    memset(t, 0, size);
    t->threads = threads;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    for (; t->started < threads - 1; t->started++) {
        struct member *m = &t->member[t->started];
        m->team = t;
        m->index = t->started + 1;
        if (pthread_create(&m->thread, NULL, member_main, m)) {
            plan_team_close(t);
            return NULL;
        }
    }
    return t;
}

void plan_team_close(struct plan_team *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->end = true;
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < t->started; i++)
        pthread_join(t->member[i].thread, NULL);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    tachy_aligned_free(t);
}

void plan_team_for(struct plan_team *t, int pieces, void (*fn)(void *user, int thread, int piece),
                   void *user)
{
    unsigned long long call = (atomic_load_explicit(&t->open, memory_order_relaxed) >> CALL_SHIFT) + 1;
    t->fn = fn;
    t->user = user;
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    atomic_store(&t->open, call << CALL_SHIFT | (unsigned)pieces);
    if (atomic_load(&t->asleep)) {
        pthread_mutex_lock(&t->lock);
        pthread_cond_broadcast(&t->wake);
        pthread_mutex_unlock(&t->lock);
    }
    work(t, 0);
    for (int i = 0; atomic_load_explicit(&t->done, memory_order_acquire) < pieces; i++) {
        if (i < SPINS)
            relax();
        else
            sched_yield(); // a helper was stopped in the middle of a piece
    }
}
