#include "base/team.h"

#include "base/base.h"
#include "base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

// A helper spins so long before it sleeps: the next step of a run is there within microseconds, the next run
// of a busy caller not much later, and one that sleeps is missed for tens of microseconds.
enum { SPIN_NS = 100000 };
// Number of times that a waiting thread looks, about a microsecond, before it yields: on a busy machine the thread that
// it waits for may be on the same core.
enum { LOOKS = 64 };

enum { LINE = 64 }; // bytes that cores pass to each other

struct piece {
    _Alignas(LINE) atomic_uint taken; // in which call last
};

struct member {
    struct tachy_team *team;
    int index;
    pthread_t thread;
};

struct tachy_team {
    _Alignas(LINE) atomic_uint call; // counts calls; what follows is that call's
    void (*fn)(void *user, int thread, int piece);
    void *user;
    _Alignas(LINE) atomic_int done; // pieces of this call
    _Alignas(LINE) atomic_int asleep;
    int threads, started;
    pthread_mutex_t lock; // of those who sleep
    pthread_cond_t wake;
    bool end; // under the lock
    struct member *member; // [threads - 1]
    struct piece piece[];
};

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Takes piece `i` of a call unless it is taken; calls only go forward, so one that came late finds
// everything of its call taken.
static bool take(struct tachy_team *t, unsigned call, int i)
{
    atomic_uint *taken = &t->piece[i].taken;
    unsigned last = atomic_load_explicit(taken, memory_order_relaxed);
    return (int)(call - last) > 0 &&
           atomic_compare_exchange_strong_explicit(taken, &last, call, memory_order_acquire, memory_order_relaxed);
}

static void work(struct tachy_team *t, unsigned call, int thread)
{
    int mine = 0;
    for (int k = 0, i = thread; k < t->threads; k++, i = i + 1 < t->threads ? i + 1 : 0)
        if (take(t, call, i)) {
            t->fn(t->user, thread, i);
            mine++;
        }
    if (mine)
        atomic_fetch_add_explicit(&t->done, mine, memory_order_release);
}

// False at the end.
static bool sleep_until_work(struct tachy_team *t, unsigned seen)
{
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->asleep, 1);
    while (atomic_load(&t->call) == seen && !t->end)
        pthread_cond_wait(&t->wake, &t->lock);
    atomic_fetch_sub(&t->asleep, 1);
    bool end = t->end;
    pthread_mutex_unlock(&t->lock);
    return !end;
}

// Works on calls until there has been none for SPIN_NS. Returns the last one.
static unsigned work_while_busy(const struct member *m, unsigned seen)
{
    uint64_t until = 0; // set by the first look at the clock after a call
    for (unsigned looks = 1;; looks++) {
        unsigned call = atomic_load_explicit(&m->team->call, memory_order_acquire);
        if (call != seen) {
            work(m->team, call, m->index);
            seen = call;
            until = 0;
        }
        relax();
        if (looks % LOOKS)
            continue;
        sched_yield();
        uint64_t now = tachy_now_ns();
        until = until ? until : now + SPIN_NS;
        if (now >= until)
            return seen;
    }
}

static void *member_main(void *arg)
{
    const struct member *m = arg;
    unsigned seen = 0;
    do
        seen = work_while_busy(m, seen);
    while (sleep_until_work(m->team, seen));
    return NULL;
}

struct tachy_team *tachy_team_open(int threads)
{
    size_t size = sizeof(struct tachy_team) + sizeof(struct piece) * (size_t)threads;
    struct tachy_team *t = tachy_aligned_alloc(size);
    if (!t)
        return NULL;
    memset(t, 0, size);
    t->threads = threads;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    t->member = calloc((size_t)threads - 1, sizeof(*t->member));
    for (; t->member && t->started < threads - 1; t->started++) {
        struct member *m = &t->member[t->started];
        m->team = t;
        m->index = t->started + 1;
        if (pthread_create(&m->thread, NULL, member_main, m))
            break;
    }
    if (t->started < threads - 1) {
        tachy_team_close(t);
        return NULL;
    }
    return t;
}

void tachy_team_close(struct tachy_team *t)
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
    free(t->member);
    tachy_aligned_free(t);
}

void tachy_team_run(struct tachy_team *t, void (*fn)(void *user, int thread, int piece), void *user)
{
    unsigned call = atomic_load_explicit(&t->call, memory_order_relaxed) + 1;
    t->fn = fn;
    t->user = user;
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    atomic_store(&t->call, call);
    if (atomic_load(&t->asleep)) {
        pthread_mutex_lock(&t->lock);
        pthread_cond_broadcast(&t->wake);
        pthread_mutex_unlock(&t->lock);
    }
    work(t, call, 0);
    for (int i = 1; atomic_load_explicit(&t->done, memory_order_acquire) < t->threads; i++) {
        if (i % LOOKS)
            relax();
        else
            sched_yield();
    }
}

void tachy_team_once(int pieces, void (*fn)(void *user, int thread, int piece), void *user)
{
    struct tachy_team *t = pieces > 1 ? tachy_team_open(pieces) : NULL;
    if (t)
        tachy_team_run(t, fn, user);
    for (int i = 0; i < pieces && !t; i++)
        fn(user, 0, i);
    tachy_team_close(t);
}
