#pragma once
#include "batcher/batch_queue.h"
#include "profile/hist.h"

#include <stdatomic.h>

// Shared by the files of the batcher.

struct tachy_ticket {
    atomic_int refs; // the caller's and, until it is done, the item's
    const tachy_batcher *owner;
    struct tachy_bq_slot *slot; // slot of the waiting item; NULL once it no longer waits. Batcher's lock
    struct tachy_clock clock;
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool finished; // and below: the ticket's own lock
    int err;
};

// Notification of how an item ended.
struct batch_ending {
    void (*done)(void *user, int err);
    tachy_ticket *ticket;
};

struct batch {
    struct tachy_batch pub; // first: what the caller of take sees
    struct batch *next;     // of the free ones
    struct batch_ending *endings;
    struct tachy_batch_item items[];
};

struct batch_worker {
    tachy_batcher *batcher;
    pthread_t thread;
    int index;
    struct batch *batch; // what it runs
    bool running;   // self is set; batcher's lock
    pthread_t self;
};

struct tachy_batcher {
    struct tachy_batcher_params params; // defaults filled in
    struct tachy_clock clock;
    struct batch_worker *workers;
    int started; // threads to join

    pthread_mutex_t lock; // everything below
    pthread_cond_t work;  // idle takers: something to take, or an earlier deadline to watch
    pthread_cond_t space; // blocked submits
    pthread_cond_t quiet; // a worker has ended, a guest has left
    struct tachy_bq queue;
    struct batch *free;  // what takers gave back
    int max_batch;       // now
    int idle, woken;     // takers that sleep, and how many of them were signalled
    int blocked;         // submits that wait for space
    int guests;          // threads of others that sleep in a call
    int alive;           // workers that have not ended
    bool stopping;
    uint64_t now;        // latest time seen: time does not go back
    uint64_t watched;    // deadline that an idle taker sleeps until; TACHY_NEVER: none does
    struct tachy_batcher_stats count; // of these only the counters
    uint64_t items_out;  // handed out
    struct tachy_hist wait, late; // adding: under the lock
};

// Now, and what is due by now is ripe.
void tachy_batcher_tick(tachy_batcher *b);
// Wakes an idle taker if there is something for it. Call it after each change of the queue.
void tachy_batcher_wake(tachy_batcher *b);
// `n` slots have become free.
void tachy_batcher_space(tachy_batcher *b, int n);
// A thread leaves the batcher after having slept in it.
void tachy_batcher_leave(tachy_batcher *b);
// The three above: with the lock held.

struct batch *tachy_batch_new(const tachy_batcher *b); // NULL: out of memory
void *tachy_batcher_worker(void *worker);              // a thread's main function

tachy_ticket *tachy_ticket_new(const tachy_batcher *b);
void tachy_ticket_unref(tachy_ticket *t); // NULL allowed
// Tells who waits for an item: `done`, then the ticket (whose reference this takes). No lock held.
void tachy_batch_end_item(void *user, const struct batch_ending *e, int err);
