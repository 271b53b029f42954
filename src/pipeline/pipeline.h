#pragma once
#include "base/memory.h"
#include "batcher/backoff.h"
#include "pipeline/intake.h"
#include "pipeline/pipeline_wait.h"
#include "pipeline/sched.h"
#include "pipeline/spans.h"
#include "profile/profile.h"
#include "stage/stage.h"

#include <tachy/batcher.h>
#include <tachy/control.h>

// The runner: streams, each a ring of items in its order, and one set of workers. Workers take from two queues whatever
// was pushed first, of any stream. A task's stages are cut into spans (spans.h), and an item goes
//
//   push -> span 0 -> span 1 -> ... -> DONE -> pull
//
// A worker carries an item as far as it can: until it must wait for its turn in an ordered span, is too far ahead of
// pull for a span that writes, or joins a batch. The item is then parked. Whoever ends the turn before it, pulls the
// item in front of it, or ran the batch puts it into a queue.
//
//   pipeline.c          opening, pausing, draining, closing
//   pipeline_stream.c   streams: bounds, joining, leaving
//   pipeline_bind.c     a task on one format, with its workers' objects
//   pipeline_queue.c    the two queues
//   pipeline_turn.c     turns in ordered spans, and the gate before the one that writes
//   pipeline_work.c     the workers
//   pipeline_batch.c    stages in batches
//   pipeline_stats.c    figures
//   stream.c            push and pull
//
// Ownership: a slot belongs to the pusher until it is READY or PARKED, then to whoever took it from a queue, and from
// DONE on to the puller; its `state` hands it over. tachy_pipeline.lock guards the queues and their counts, .list the
// list of streams, .join the tasks' bindings.
//
// Mode live is separate: a stream's `policy` (below) is asked before an item's steps and told when an item has come
// out; its decisions (deadlines, shedding, reuse of results, the controller) are in src/pipeline/live*.c.

enum slot_state {
    SLOT_FREE = 0,
    SLOT_FILLING, // a pusher writes it
    SLOT_READY,   // in a queue, in a batch or with a worker
    SLOT_PARKED,  // waits before `span`
    SLOT_DONE,    // `err`: the stream ends before this item; item.pending: pull waits for another device
    SLOT_HOLE,    // nothing is pulled here
};

// A region of an item on its way through a batch.
struct pipeline_eye {
    struct tachy_stream *stream;
    int64_t seq;
    int region;
    uint64_t start, end, wait; // of the call, ticks
};

struct pipeline_slot {
    struct tachy_item item;
    _Atomic int state;
    int span; // that the item is in or waits for; of who has the slot
    int err;
    struct pipeline_eye eye[TACHY_MAX_PARTS]; // by region; the batcher's until eyes_left is 0
    _Atomic int eyes_left, batch_err;
    bool batched; // it went through the batch; of who has the slot
};

// The task's bytes of an item. A position takes one and gives it back once it has been pulled, the warmest first: there
// are as many as were ever in flight at once.
struct pipeline_priv {
    struct pipeline_priv *next;
    max_align_t data[];
};

// A task on one format: what the streams share that have both in common.
struct pipeline_bind {
    struct pipeline_bind *next;
    tachy_task *task;
    struct tachy_video_info input, output;
    int streams;          // that use it
    pthread_mutex_t open; // one thread at a time is in worker_open
    int nb_workers;
    // By worker, and of each by stage; written by that worker's thread. The spare ones were opened by the thread
    // that joined.
    struct pipeline_objects {
        void *of[TACHY_MAX_STAGES];
        bool open;
    } *worker, spare;
    struct pipeline_batcher *batcher; // NULL: workers run the model themselves
};

// The turn of an ordered span. Under the pipeline's lock, except `prof`.
struct pipeline_turn {
    int64_t next; // everything below has passed
    bool taken;   // the item there, and maybe some after it, are in the queue or with a worker
    _Atomic uint64_t busy; // ticks that turns have taken; written by whose turn it is
    struct tachy_prof *prof; // of a span without workers' objects, written by whose turn it is; NULL: the worker's is
};

// Decides about single items, see above. All may be NULL. Called from any thread, at most once
// for each item and step.
struct pipeline_policy {
    void *user;
    // The item has been filled and is not queued yet; on the pusher's thread, in order where
    // frames are pushed in order.
    void (*arrived)(void *user, struct tachy_item *item);
    // Before the first span and before the one that `writes`, on the worker's thread: false drops the item, its
    // position becomes a hole. Before the first it may put another picture into the item.
    bool (*wanted)(void *user, struct tachy_item *item, bool writes);
    // Microseconds that the item can wait for others of a batch; may be negative. On the worker's thread.
    int64_t (*patience)(void *user, const struct tachy_item *item);
    // Results may be taken over (tachy_item.reuse): they are kept in order.
    bool copies;
    // The item can be pulled: on a worker's thread, in any order.
    void (*finished)(void *user, const struct tachy_item *item);
    // Pull has gone past positions; on the puller's thread.
    void (*passed)(void *user);
};

struct tachy_stream {
    struct tachy_pipeline *pipeline;
    struct pipeline_bind *bind;
    struct tachy_stream *before, *next;  // in the pipeline's list
    char *name;                          // NULL: none
    uint32_t number;                     // in the profile
    int group;                           // items that a worker takes through its steps at once, at most; 1: one by one
    int turns;                           // that it takes one right after the other, at least `group`
    const struct pipeline_policy *policy; // NULL: none. Set before the first push

    struct pipeline_slot *slots; // position n is in slot n & mask
    _Atomic(struct pipeline_priv *) privs; // free ones; added by any thread, taken under the
                                           // pipeline's lock
    int64_t mask;
    struct sched_stream sched; // what the bounds follow from
    struct sched_bounds bounds;
    struct tachy_block held[TACHY_MAX_GPUS]; // of the pipeline's budget: decoded pictures, in each memory they may be in
    struct tachy_block results;              // and priv of items

    // Push.
    struct pipeline_intake intake;
    int64_t next_seq;            // of the thread that pushes in order
    _Atomic int64_t next_push;   // highest position pushed + 1
    _Atomic int64_t begun;       // highest position that a worker has begun + 1
    _Atomic int64_t end;         // positions in all; INT64_MAX: not known
    _Atomic int64_t flushed;     // positions after which nobody waits for the next; 0: none
    _Atomic int64_t inputs;      // decoded pictures held by items that are not inferred
    struct pipeline_event space; // push waits here
    struct pipeline_spin push_spin;
    _Atomic int64_t space_at; // next_pull for which a waiting push is woken

    // The way of an item.
    struct pipeline_span span[PIPELINE_SPANS];
    struct pipeline_turn turn[PIPELINE_SPANS]; // by span
    int worked_at; // the span that writes, which items far ahead wait for, or nb_spans
    int nb_spans, first_turn; // the latter: nb_spans where nothing is ordered
    void *state[TACHY_MAX_STAGES];
    struct tachy_item kept;   // results for later items to take over; of whose turn that is
    _Atomic int nb_gated;     // items parked before the span that writes
    int64_t gate_from;        // those below may go on. Pipeline's lock
    // Positions after which the next item is a restart, whether or not they have one: pull passes holes before they are
    // ordered. `nb_breaks` is also read without the lock.
    pthread_mutex_t break_lock;
    int64_t *breaks;
    _Atomic int nb_breaks;
    int break_room;
    // After each item in an ordered stage, by whose turn it is; `st` NULL: results were kept. NULL: nothing to do. Set
    // before the first push.
    int (*after)(void *user, const struct tachy_stage *st, const void *state, int64_t frame_id);
    void *after_user;
    struct tachy_prof *sample_prof; // its samples under the pipeline's lock; NULL: there is no profile

    // Pull.
    _Atomic int64_t next_pull;
    int64_t pulled_at;          // the pulled item, kept until the next pull; -1: none
    struct pipeline_event done; // pull waits here
    struct pipeline_spin pull_spin;
    _Atomic int64_t nb_pulled, nb_holes, nb_done;
    _Atomic int64_t nb_worked; // items that have come to span `worked_at`

    // Failure: `err` is set once err_at is, and both under `fail`.
    pthread_mutex_t fail;
    _Atomic int err;
    _Atomic int64_t err_at; // items after it are dropped

    // Under the pipeline's lock.
    int busy; // items in queues and with workers
    int waiting[2][1 + TACHY_MAX_GPUS]; // items in the queues `composite` and `infer`, by place
    _Atomic int to_infer, to_composite; // read without it
    bool leaving;
    uint64_t sampled, sampled_memory; // last sample, and last one with the process's memory, ticks

    // Figures of this stream only, one per worker, for a run that shares a pipeline; NULL: off.
    struct tachy_prof **figures;
};

enum {
    PIPELINE_BATCH = 64,  // jobs that a worker takes at once, at most
    PIPELINE_ENOUGH = 16, // that it takes of items that do not go through their steps together
};

// One item in a queue.
struct pipeline_job {
    struct tachy_stream *stream; // NULL: it has been taken
    int64_t seq;
    int place; // of its picture: 0: the host's memory, else a GPU's, 1 + ordinal
};

struct pipeline_queue {
    struct pipeline_job *v;
    uint32_t capacity; // a power of two
    uint32_t head, tail;
};

struct pipeline_worker {
    struct tachy_pipeline *pipeline;
    int index;
    pthread_t thread;
    bool started;
    struct tachy_prof *prof; // written by this thread only
    struct pipeline_spin spin;
    uint64_t cost; // ticks an item took lately; decides how many are taken at once
    long rest_us;  // pause between its jobs, if they run several at once
    bool infers;   // it has jobs from `infer`; under the pipeline's lock
};

struct tachy_pipeline {
    const struct tachy_log *log;
    struct tachy_profile *profile; // NULL: off
    struct tachy_rows own_steps, *steps; // what is measured; `steps`: the profile's, or its own
    int64_t max_bytes;
    struct tachy_memory *memory; // what the streams hold, within the budget
    int batch;                   // items that the model takes at once, at most
    int64_t batch_timeout_us;    // that an item waits for others; 0: the batcher's default
    tachy_stream *first; // of the pipeline's own task; NULL: none

    pthread_mutex_t join; // guards `binds`; taken first
    struct pipeline_bind *binds;
    struct pipeline_batcher *batchers; // changed under `join` and `list`
    pthread_mutex_t list; // guards the next two; taken before `lock`
    tachy_stream *streams;
    struct tachy_prof *left; // figures of the order of streams that have left
    struct pipeline_event drained; // drain waits here for `news`
    _Atomic int news;              // a stream has come to its end, failed or left

    pthread_mutex_t lock; // guards all up to `workers`
    pthread_cond_t work;  // workers wait here
    pthread_cond_t left_one; // leave waits here
    pthread_cond_t rest;     // workers that have been laid off wait here
    _Atomic int active;      // workers below this index work; also read without the lock
    struct pipeline_queue infer, composite;
    bool in_turns;       // a stream's frames are a GPU's: jobs come from the two in turn
    int group;           // items of a stream that go through their steps together; 1: none do
    bool ordered;        // a stream's items take turns: who had one brings the next
    bool took_composite; // last
    int64_t window_sum; // of all streams: what the queues have room for
    int idle;      // workers that wait
    bool waking;   // one of them was signalled and has not woken yet
    int inferring; // workers that have jobs from `infer`
    int resting;   // workers that wait at `enough` until a queue has a whole group
    const struct pipeline_worker *first_back; // the one of them that wakes by a timeout; NULL: none does
    pthread_cond_t enough;
    bool paused, closing;
    _Atomic int ready;    // items in the queues; also read without the lock
    _Atomic int looking;  // workers that look at `ready` before they wait
    _Atomic bool stopped; // drops everything

    struct pipeline_worker *workers;
    int nb_workers;
    _Atomic bool prompt; // workers are woken as soon as any thread, since a live stream joined
};

// ---- pipeline_bind.c ----

// Under `join`. A new one has called the task's start(). TACHY_ERR_STATE as tachy_pipeline_join().
int pipeline_bind_get(struct tachy_pipeline *p, tachy_task *task,
                      const struct tachy_video_info *input, struct pipeline_bind **out);
// Under `join`, when no worker has an item of the stream: the last stream closes it.
void pipeline_bind_put(struct tachy_pipeline *p, struct pipeline_bind *b);
// The objects of worker `index`, by stage, opened by the first call; by that worker's thread, or before the
// threads run.
int pipeline_bind_worker(struct pipeline_bind *b, int index, void *const **worker);

// ---- pipeline_queue.c: all under `lock` ----

int pipeline_queue_reserve(struct tachy_pipeline *p, int64_t items);
// Adds a job and wakes a worker if one is needed.
void pipeline_queue_add(tachy_stream *s, int64_t seq);
// Takes up to `most` jobs, composites first or in turns, or groups of those that go through their steps together; returns
// their number, at most PIPELINE_BATCH.
int pipeline_queue_take(struct tachy_pipeline *p, struct pipeline_job *out, int most);
// True if the stream that is next in a queue has a whole group there.
bool pipeline_queue_whole(const struct tachy_pipeline *p);
// True if a part of a group can be done now: it is to composite, or no other worker infers.
bool pipeline_queue_pays(const struct tachy_pipeline *p);
// Takes a stream's jobs out.
void pipeline_queue_purge(struct tachy_pipeline *p, const tachy_stream *s);
// Wakes a worker if there is work and none is already waking.
void pipeline_queue_wake(struct tachy_pipeline *p);

// ---- pipeline_turn.c: all under `lock` unless stated otherwise ----

// Claims the turn of ordered span k, if it is free and the next item is parked there: makes up to `most` consecutive
// items READY. Returns their number, 0: none; seq[] receives their positions.
int pipeline_turn_claim(tachy_stream *s, int k, int64_t seq[], int most);
// Adds parked items after the n of the turn; returns how many it has then.
int pipeline_turn_extend(tachy_stream *s, int k, int64_t seq[], int n, int most);
// The items after position `seq` that a stage with `ahead` reads during its turn; they stay parked. Returns how many.
// Needs no lock: items that were there when the turn was claimed stay.
int pipeline_turn_later(tachy_stream *s, int k, int64_t seq, struct tachy_item *later[]);
// A position has become a hole or has failed: puts the next item of each ordered span into a queue, if its turn is free and it is
// parked there.
void pipeline_turn_look_all(tachy_stream *s);
// The items up to position `last` have had their turn in span k. Beside a GPU the caller may have the next turn as well: returns
// how many items, READY then, at seq[]; 0, or `seq` NULL: whose turn is next is in a queue. Takes the lock.
int pipeline_turn_over(tachy_stream *s, int k, int64_t last, int64_t seq[]);
// Leaves items of the caller that are before a span to other workers. Takes the lock.
void pipeline_turn_leave(tachy_stream *s, const int64_t seq[], int n);
// True if the item may enter the span that writes; false: it is now parked. Takes the lock if needed.
bool pipeline_gate(tachy_stream *s, int64_t seq);
// Pull has gone on: queues what is parked there and may go on now. Takes the lock if needed.
void pipeline_gate_open(tachy_stream *s);

// ---- pipeline_work.c ----

void *pipeline_worker_main(void *worker);
// The item at `seq` failed in `step`; the stream ends before it. `seq` may be a position that has
// no item: then the code is all that is kept.
void pipeline_fail(tachy_stream *s, int64_t seq, int err);

// A failure in `step` of the item at `seq`, which is the caller's; the first one of a stream is logged.
void pipeline_item_failed(tachy_stream *s, int64_t seq, const char *step, int err);
// Ends an item that its stream has ended before.
// `n` items have come to span k.
void pipeline_count_worked(tachy_stream *s, int k, int n);
void pipeline_give_up(tachy_stream *s, struct pipeline_slot *slot);

// ---- pipeline_batch.c ----

// Under `join`. The batcher of the task's model, whose stage is `batched` then; NULL if the batch is one or the model takes one picture
// per run.
int pipeline_batch_get(struct tachy_pipeline *p, tachy_task *task, struct pipeline_batcher **out);
void pipeline_batch_put(struct tachy_pipeline *p, struct pipeline_batcher *b);
// True if its batches do not wait for more pieces (TACHY_STAGE_PROMPT); NULL: false.
bool pipeline_batch_prompt(const struct pipeline_batcher *b);
// The item's regions that the stage of span k, which batches, is to run for: a bit for each; 0: none.
unsigned pipeline_batch_regions(const tachy_stream *s, int k, const struct tachy_item *item);
// Hands an item to the batcher of its span; it comes back as a job of the next span, also if that fails.
void pipeline_batch_submit(tachy_stream *s, int64_t seq);
// The stream has ended: its items wait for no others.
void pipeline_batch_end(tachy_stream *s);
// The stream leaves: items that have not been run come back at once.
void pipeline_batch_cancel(tachy_stream *s);
// The stream has joined its bind's batcher, if there is one, or leaves it.
void pipeline_batch_join(tachy_stream *s, bool joins);
// The workers run the stage themselves for now, and report it for `regions` of an item.
bool pipeline_batch_alone(tachy_stream *s);
void pipeline_batch_ran_alone(tachy_stream *s, int regions, uint64_t ticks);
// The stream, whose bind has a batcher, asks for batches of half the size, or no longer. Each
// `true` is followed by a `false` before the stream leaves.
void pipeline_batch_degrade(tachy_stream *s, bool small);
// Batches have at most `n` items from now on, 1 up to tachy_pipeline.batch. Returns how many models
// run in batches. Any thread.
int pipeline_set_batch(struct tachy_pipeline *p, int n);
// How full the runs were so far, over all streams that share the batcher. A session's batch is fixed and padded, so a
// run costs the same however few pictures are in it.
struct pipeline_batch_use {
    int step;            // that it runs
    int max;             // pictures a run may hold
    int64_t runs, items; // runs, and pictures in them
    double run_s;        // of all runs together
};
void pipeline_batch_use(struct pipeline_batcher *b, struct pipeline_batch_use *use);
// Adds what the batchers' threads measured. Under `list`.
void pipeline_batch_figures(struct tachy_pipeline *p, struct tachy_prof *all);

// ---- pipeline.c ----

// tachy_pipeline_open() with a policy for the first stream (may be NULL).
int pipeline_open(tachy_pipeline **out, const struct tachy_pipeline_params *params,
                  const struct pipeline_policy *policy);
// The number of workers that fill the cores, or a GPU.
int pipeline_enough_workers(const tachy_task *t);
// From now on `n` of the workers work, 1 up to as many as there are. Any thread.
void pipeline_set_workers(struct tachy_pipeline *p, int n);

// ---- pipeline_stream.c ----

// tachy_pipeline_join() with a policy and figures of the stream's own (may be NULL, false).
int pipeline_join(struct tachy_pipeline *p, tachy_stream **out,
                  const struct tachy_stream_params *params, const struct pipeline_policy *policy,
                  bool figures);
// Ends a stream from outside: push and pull return, pull with `err` after what is finished.
void pipeline_abort(tachy_stream *s, int err);
// Ends a stream after what workers have begun: pull returns TACHY_ERR_INTERRUPTED after that.
void pipeline_cut(tachy_stream *s);
// Wakes whoever waits in push or pull.
void pipeline_wake_stream(tachy_stream *s);
// Has drain look again.
void pipeline_news(struct tachy_pipeline *p);

// ---- pipeline_stats.c: any thread, at any time ----

// Adds the figures of the workers and of every stream's order to `sum`.
void pipeline_merge(struct tachy_pipeline *p, struct tachy_prof *sum);
// Keeps the figures of what leaves; NULL is allowed. Under `list`.
void pipeline_keep(struct tachy_pipeline *p, const struct tachy_prof *prof);
// Adds the figures of one stream that has `figures`.
void pipeline_merge_stream(const tachy_stream *s, struct tachy_prof *sum);
// Counts a stream's items in flight.
void pipeline_queues(const tachy_stream *s, struct tachy_queues *q);

// Adds what the workers' threads spent on a core and ready without one, in seconds.
void pipeline_threads(const struct tachy_pipeline *p, double *cpu_s, double *queued_s);
// Seconds that the workers were busy, for all streams.
double pipeline_work_s(struct tachy_pipeline *p);
// Seconds of copies between host and device so far, of the workers, or with batches of the model's
// runs, for all streams that share the stream's task and format.
double pipeline_transfer_s(const tachy_stream *s);
// Seconds that the turns of a stream's busiest ordered span took.
double pipeline_order_s(const tachy_stream *s);

// Records queues and memory for the profile, 10000 times a second at most. Under `lock`.
void pipeline_sample(tachy_stream *s, uint64_t now);

// ---- stream.c ----

// tachy_stream_push_at(). `breaks`: the next item starts anew, wherever it is by now.
int pipeline_push_at(tachy_stream *s, tachy_frame *f, int64_t seq, bool breaks);
// Whether an item whose first turn it is starts anew because of a position before it.
bool pipeline_breaks_before(tachy_stream *s, int64_t seq);
// Whether an item at `to` will start anew because of a position from `from` on.
bool pipeline_break_between(tachy_stream *s, int64_t from, int64_t to);
// When a pulled item came and for how long it had waited to be pulled, in ticks; and what mode
// live knows of it.
struct pipeline_times {
    uint64_t pushed, waited;
    struct tachy_due due;
};

// tachy_stream_pull(), but it returns TACHY_ERR_AGAIN after `timeout_ms` without a result.
// `times` may be NULL.
int pipeline_pull_timed(tachy_stream *s, int timeout_ms, tachy_frame **frame,
                        const struct tachy_result **result, struct pipeline_times *times);

// True if pull has an answer for its next position.
bool pipeline_answered(const tachy_stream *s);
// Drops what a slot holds.
void pipeline_empty_slot(tachy_stream *s, struct pipeline_slot *slot);

static inline struct pipeline_slot *pipeline_slot(const tachy_stream *s, int64_t seq)
{
    return &s->slots[seq & s->mask];
}

// True if the stream has ended before item `seq`.
static inline bool pipeline_given_up(tachy_stream *s, int64_t seq)
{
    return atomic_load_explicit(&s->pipeline->stopped, memory_order_relaxed) ||
           (atomic_load(&s->err) && seq > atomic_load(&s->err_at));
}
