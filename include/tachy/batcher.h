#pragma once
#include <pthread.h>
#include <tachy/common.h>

#ifdef __cplusplus
extern "C" {
#endif

// A batcher collects items of many streams into batches and has them run, as a model server does. docs/batcher.md
// defines when a batch closes, the order of items and the bound on their wait.
//
// Thread-safety: every function may be called from any thread, several at once, unless its comment says otherwise;
// tachy_batcher_close() must be the last call on its batcher. Callbacks run without a lock held, so they may call back
// into the batcher. They must not wait there for something that only they themselves can cause. If the batcher can
// detect this (a submit from a worker into a full batcher, a stop from a worker), the call returns an error and does
// not wait. Times: nanoseconds of the batcher's clock, durations in microseconds.
typedef struct tachy_batcher tachy_batcher;

// One submitted item, to wait for or to cancel. It has its own reference, so it may outlive the batcher.
typedef struct tachy_ticket tachy_ticket;

#define TACHY_BATCH_MAX 1024            // items per batch at most
#define TACHY_BATCH_TIMEOUT_US 5000     // from an item's submit to its deadline, unless it is set
#define TACHY_BATCH_PRIORITY_MAX 100    // priorities are -100..100
#define TACHY_NEVER UINT64_MAX          // no time at all

// Why a batch was closed.
enum tachy_batch_reason {
    TACHY_BATCH_FULL = 0, // it has max_batch items
    TACHY_BATCH_DEADLINE, // an item in it was due
    TACHY_BATCH_FLUSH,    // tachy_batcher_flush() or a stop
    TACHY_BATCH_END,      // tachy_batcher_end() of a stream in it
    TACHY_BATCH_REASONS
};
TACHY_API const char *tachy_batch_reason_name(enum tachy_batch_reason r); // "full", ...

struct tachy_batch_item {
    void *user;         // as submitted
    uint64_t stream;    // as submitted
    int priority;       // as submitted
    int err;            // 0; `run` may set a negative code: only this item failed
    uint64_t submit_ns; // when it was submitted
    uint64_t due_ns;    // its own deadline
};

// Items to be run together, in their order. The batcher's memory.
struct tachy_batch {
    struct tachy_batch_item *items;
    int count;  // 1..max_batch
    int worker; // which of the batcher's threads runs it, 0..workers-1; -1: the caller's own
    enum tachy_batch_reason reason;
};

// A source of time; only tests and simulations need their own.
struct tachy_clock {
    uint64_t (*now_ns)(void *user); // never decreases; called with a lock held: must not block
    // Sleeps until `cond` is signalled or now_ns() >= `until_ns` (TACHY_NEVER: no such time);
    // may return early. `lock` is held by the calling thread, is given up during the sleep
    // and held again on return, as in pthread_cond_wait().
    void (*wait_until)(void *user, pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns);
    void *user;
};

#define TACHY_BATCHER_NO_WORKERS (-1)
#define TACHY_BATCH_PREFERRED_MAX 16

struct tachy_batcher_params {
    int max_batch;      // 1..1024; 0: 8
    // Batch sizes that run well, ascending, 1..max_batch, terminated by 0; max_batch is always one. A
    // batch is cut to the largest of them that includes every due item. {0}: every size is good.
    int preferred[TACHY_BATCH_PREFERRED_MAX];
    int64_t timeout_us; // from an item's submit to its deadline, 1..1e9; 0: TACHY_BATCH_TIMEOUT_US; -1: due at once
    int64_t ageing_us;  // each such wait raises an item's priority by 1, 1..1e9; 0: 10000
    int max_items;      // that may wait, max_batch..2^20; 0: 4 * max_batch, at least 256
    int workers;        // threads that call `run`, 1..64; 0: 1; TACHY_BATCHER_NO_WORKERS: none,
                        // the caller takes batches (tachy_batcher_take)
    // Runs one batch; calls with the same worker number never overlap. Required if there are workers. Returns TACHY_OK
    // (items may have their own `err`), or a negative code that each item of the batch gets. TACHY_ERR_NOMEM for more
    // than one item: the same items come again, in order, in batches of at most half that size.
    int (*run)(void *user, const struct tachy_batch *batch);
    void *user;                      // for `run`
    const struct tachy_clock *clock; // NULL: the monotonic clock. Copied; what it calls must
                                     // outlive the batcher and its tickets
    const struct tachy_log *log;     // NULL: silent; must outlive the batcher
};
#define tachy_batcher_params(...) (&(struct tachy_batcher_params){__VA_ARGS__})

// TACHY_ERR_INVAL (named in the log), TACHY_ERR_NOMEM, TACHY_ERR_UNAVAILABLE (no thread).
// Afterwards memory is allocated only for tickets and, without workers, for batches.
TACHY_API int tachy_batcher_open_sized(size_t p_size, tachy_batcher **out, const struct tachy_batcher_params *p);
#define tachy_batcher_open(...) tachy_batcher_open_sized(sizeof(struct tachy_batcher_params), __VA_ARGS__)

struct tachy_submit_params {
    void *user;         // stays the caller's
    uint64_t stream;    // any number; order is kept within a stream and priority
    int priority;       // -100..100, higher goes first
    int64_t timeout_us; // to the deadline; 0: the batcher's; -1: due at once; at most 1e9
    uint64_t due_ns;    // not 0: the deadline itself, by the batcher's clock; wins over timeout_us
    bool nonblocking;   // if the batcher is full, return TACHY_ERR_AGAIN instead of waiting
    // Called exactly once for each submit that returned TACHY_OK, possibly before that call returns: on the worker's
    // thread after its batch, or on the thread that cancels, stops or finishes. May be NULL. `err`: TACHY_OK; the code
    // of `run`; TACHY_ERR_INTERRUPTED: not run. TACHY_ERR_AGAIN from `run` arrives as TACHY_ERR_EXTERNAL.
    void (*done)(void *user, int err);
};
#define tachy_submit_params(...) (&(struct tachy_submit_params){__VA_ARGS__})

// Hands an item over; waits while max_items are inside. `ticket` may be NULL; on success it is
// the caller's, free it with tachy_ticket_close(). On failure `done` is not called, *ticket is
// NULL: TACHY_ERR_AGAIN (full, and must not or cannot wait), TACHY_ERR_INTERRUPTED (the batcher
// is being stopped), TACHY_ERR_INVAL, TACHY_ERR_NOMEM.
TACHY_API int tachy_batcher_submit_sized(size_t p_size, tachy_batcher *b, const struct tachy_submit_params *p,
                                         tachy_ticket **ticket);
#define tachy_batcher_submit(...) tachy_batcher_submit_sized(sizeof(struct tachy_submit_params), __VA_ARGS__)

// Waits up to `timeout_us` (0: does not wait, negative: without limit) and returns the code
// that `done` received, after it has returned; TACHY_ERR_AGAIN: not yet. Any number of threads
// and times.
TACHY_API int tachy_ticket_wait(tachy_ticket *t, int64_t timeout_us);
// Frees the ticket; the item goes on. *t may be NULL. No other thread may be using the ticket.
TACHY_API void tachy_ticket_close(tachy_ticket **t);

// TACHY_OK: the item will not be run, and its `done` has returned after TACHY_ERR_INTERRUPTED.
// TACHY_ERR_STATE: too late: a worker has the item, or it is done or was cancelled before.
// TACHY_ERR_INVAL: a ticket of another batcher.
TACHY_API int tachy_batcher_cancel(tachy_batcher *b, tachy_ticket *t);
// Cancels all waiting items of a stream (a seek, a source that left); returns how many.
TACHY_API int tachy_batcher_cancel_stream(tachy_batcher *b, uint64_t stream);

// Makes all items submitted so far due now. Does not wait.
TACHY_API void tachy_batcher_flush(tachy_batcher *b);
// Ends a stream: makes its items due now; others may share their batch. Does not wait, and
// the stream may go on afterwards.
TACHY_API void tachy_batcher_end(tachy_batcher *b, uint64_t stream);

// From now on batches have at most `n` items (1..the max_batch of open), for a controller that
// runs short of memory or time. TACHY_ERR_INVAL.
TACHY_API int tachy_batcher_set_max_batch(tachy_batcher *b, int n);

// The batcher's clock.
TACHY_API uint64_t tachy_batcher_now(const tachy_batcher *b);
// When the next batch closes if nothing else happens: 0 if one can be taken now, TACHY_NEVER if nothing waits. For a
// caller's own event loop.
TACHY_API uint64_t tachy_batcher_next(tachy_batcher *b);

// Takes the next batch, for the caller to run and return with tachy_batcher_finish(); for an engine with its own loop
// or streams. Waits up to `timeout_us` (0: does not wait, negative: without limit). TACHY_ERR_AGAIN: none in that time;
// TACHY_ERR_EOF: stopped and empty; TACHY_ERR_NOMEM. Batches taken by several threads may finish in any order.
TACHY_API int tachy_batcher_take(tachy_batcher *b, int64_t timeout_us, struct tachy_batch **batch);
// Ends a taken batch: each item gets `err` if that is negative, else its own `err`. Sets *batch to NULL. Every batch
// that was taken must be finished before the batcher is closed.
TACHY_API void tachy_batcher_finish(tachy_batcher *b, struct tachy_batch **batch, int err);

enum tachy_stop_how {
    TACHY_STOP_RUN = 0, // waiting items are run
    TACHY_STOP_CANCEL,  // waiting items are cancelled
};
// Accepts no more items and returns when everything inside is done (without workers: at once; waiting items can be
// taken until TACHY_ERR_EOF). May be called again, also with TACHY_STOP_CANCEL while a TACHY_STOP_RUN waits.
// TACHY_ERR_STATE: called by a worker, which cannot wait for itself; the stop has still begun.
TACHY_API int tachy_batcher_stop(tachy_batcher *b, enum tachy_stop_how how);

// Stops with TACHY_STOP_RUN unless already stopped (without workers: with TACHY_STOP_CANCEL) and frees. Threads that
// wait in a submit or take return first. Must not be called from a callback: called by a worker it stops, logs and
// frees nothing.
TACHY_API void tachy_batcher_close(tachy_batcher **b);

// submitted = done + failed + cancelled + waiting + running at any moment.
struct tachy_batcher_stats {
    uint64_t submitted, done, failed, cancelled;
    uint64_t refused;                      // submits that returned TACHY_ERR_AGAIN
    uint64_t batches[TACHY_BATCH_REASONS]; // handed out, by reason
    uint64_t halved;                       // times that a batch was halved for lack of memory
    int waiting, running;                  // items
    double mean_batch;                     // items per batch; 0: none yet
    // Time in the queue, from submit to hand-out (within 3.2 %).
    double wait_p50_us, wait_p95_us, wait_p99_us, wait_max_us;
    // From the deadline to the hand-out, over the batches closed by a deadline: delays from late wake-ups and busy
    // workers.
    double late_p50_us, late_p99_us, late_max_us;
};
// Does not stop the batcher: a lock is held only while the counters are copied.
TACHY_API void tachy_batcher_stats_sized(size_t s_size, tachy_batcher *b, struct tachy_batcher_stats *s);
#define tachy_batcher_stats(...) tachy_batcher_stats_sized(sizeof(struct tachy_batcher_stats), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
