#pragma once
#include "base/base.h"

#include <tachy/live.h>
#include <tachy/preprocess.h>
#include <tachy/result.h>
#include <tachy/run.h>
#include <tachy/task.h>

// What a task fills in and the pipeline runs. The three steps of the worker stage and
// composite are separate calls so that each can be timed, and run alone for the light ratio.

// What mode live keeps of an item, on the clock of live.h.
struct tachy_due {
    uint64_t deadline; // UINT64_MAX: none
    uint64_t taken;    // when a worker began
    bool inferred;     // not all of its result was taken over
};

// One frame on its way through a pipeline.
struct tachy_item {
    tachy_frame *in;  // decoded; NULL in order and composite where the task does not keep it,
                      // and after composite
    tachy_frame head; // all but the pixels of `in`, where that is NULL in order and composite
    tachy_frame *out; // composited; NULL before composite, or where the task makes none
    struct tachy_result result;
    uint64_t arrived;    // into the current queue, tachy_ticks()
    uint64_t pushed;     // into the pipeline, tachy_ticks()
    uint32_t stream;     // number of its stream in the profile
    bool anew;           // the stream's state (smoothing, recurrence) starts anew here
    bool pending;        // composite has only begun what ends in `out` and `result`: see settle
    bool small;          // the model is to see a smaller picture (TACHY_EASE_SMALL_INPUT)
    unsigned reuse;      // eyes (bits 1 << eye) whose result is taken over from an earlier item:
                         // preprocess, model and postprocess are not called for them
    struct tachy_due due;
    void *state;         // of its stream, from state_open; NULL: none, as in a replayed step
    void *priv;          // item_size zeroed bytes of the task's; kept from frame to frame
};

// How full the model's runs are. A session's batch is fixed and padded, so a run costs the same
// however few pictures are in it.
struct tachy_task_batches {
    int max;             // pictures a run may hold
    int64_t runs, items; // runs, and pictures in them
    double run_s;        // of all runs together
};

// What a GPU does of a task.
struct tachy_device;
struct tachy_task_gpu {
    struct tachy_device *device;
    unsigned steps; // bits 1 << enum tachy_step: its multiprocessors do their work
    double to_host, to_device; // bytes that are copied for a frame, besides the pictures of the item itself
};

// What the steps of one eye read and write, in a worker's memory.
struct tachy_task_tensors {
    struct tachy_tensor *in, *out;      // of the model; arrays
    int n_in, n_out;
    struct tachy_placement *placement;  // preprocess -> postprocess; NULL: none
};

// What is known of the decoded frame besides its pixels.
static inline const tachy_frame *tachy_item_head(const struct tachy_item *item)
{
    return item->in ? item->in : &item->head;
}

struct tachy_surface_spec;
struct tachy_task_ops {
    const char *name;
    size_t priv_size; // zeroed bytes at tachy_task.priv
    size_t item_size; // zeroed bytes at tachy_item.priv
    int (*open)(tachy_task *t, const tachy_settings *s);
    void (*close)(tachy_task *t); // also after a failed open

    // A pipeline starts on a stream: maps input to output; may keep what it needs of `in`.
    // t->eyes is set here.
    int (*start)(tachy_task *t, const struct tachy_video_info *in, struct tachy_video_info *out);

    // After start(): whether composite reads the pixels of item->in; NULL: yes. Where it does
    // not, they are dropped before, so that many frames can wait for their turn.
    bool (*keeps_input)(const tachy_task *t);
    // After start(): about how many bytes item->priv holds; NULL: next to nothing.
    size_t (*item_bytes)(const tachy_task *t);

    // Each worker has its own engine, tables and buffers (never NULL). One thread a worker; one
    // thread at a time is in worker_open.
    int (*worker_open)(tachy_task *t, void **worker);
    void (*worker_close)(void *worker);

    // After open(): how many workers are enough, where their steps only put work on another device. 0: one a
    // core is not too many. NULL: 0.
    int (*workers)(const tachy_task *t);

    // After start(): how many items of a stream that wait anyway a worker takes at once. NULL or at most 1: one.
    // Not for recurrent tasks, batches and saved stages.
    int (*group)(const tachy_task *t);
    // Given with `group`: `step` of an eye (composite: of all, eye 0) for n items; err[i] is set to what the step below
    // would return for items[i]. Preprocess, model and postprocess of an eye come one behind the other, without the
    // items that failed on the way.
    void (*group_step)(void *worker, enum tachy_step step, struct tachy_item *const items[], int n, int eye, int err[]);

    // In any order, in parallel over frames; eye 0 .. t->eyes - 1.
    int (*preprocess)(void *worker, struct tachy_item *item, int eye);
    int (*model)(void *worker, struct tachy_item *item, int eye);
    int (*postprocess)(void *worker, struct tachy_item *item, int eye);

    // After open(), before a stream that a controller holds to a deadline: makes ready what the steps
    // down need besides `reuse`. Returns them as bits 1 << enum tachy_ease: TACHY_EASE_SMALL_INPUT
    // where workers that are opened from now on heed item->small. NULL: none. It may come again.
    unsigned (*eases)(tachy_task *t);

    // A recurrent model. What it keeps from frame to frame, one a stream, all eyes in it: given
    // these, a stream has one frame at a time between preprocess and postprocess, in its order,
    // with its state in item->state. *state NULL: every frame for itself after all.
    bool (*recurrent)(const tachy_task *t); // after open(); NULL: no
    int (*state_open)(tachy_task *t, void **state);
    void (*state_close)(void *state);
    void (*state_reset)(void *state); // before a frame that does not follow the one before
    // The state as bytes that another process of the same build can load into an opened one; *data: to
    // be freed with free(). By the worker whose turn it is. NULL: such a run cannot be resumed.
    // TACHY_ERR_FORMAT: they are of another size.
    int (*state_save)(const void *state, void **data, size_t *size);
    int (*state_load)(void *state, const void *data, size_t size);

    // Batches larger than one: the model runs apart from the workers, so an item keeps the model's
    // input and output in its priv. All of these or none (NULL: batches are of one).
    // What items that share a batch have in common, the model's path; NULL: no batches. Not called
    // for a recurrent task.
    const char *(*batch_key)(const tachy_task *t);
    // An engine for up to `most` pictures; any task of the same key may open it for the others.
    // TACHY_ERR_MISMATCH: the model takes one picture a run.
    int (*batch_open)(tachy_task *t, int most, void **engine);
    void (*batch_close)(void *engine);
    int (*batch_preprocess)(void *worker, struct tachy_item *item, int eye);
    // n = 1..most pictures, eyes[i] of items[i]. One thread an engine. TACHY_ERR_NOMEM: comes again
    // with half of them.
    int (*batch_model)(void *engine, struct tachy_item *const items[], const int eyes[], int n);
    int (*batch_postprocess)(void *worker, struct tachy_item *item, int eye);

    // In the order of the stream, one at a time; NULL: nothing to do in order. order_open may
    // set *state to NULL where the settings leave nothing to do: then `order` is not called, and
    // a worker composites at once.
    int (*order_open)(tachy_task *t, void **state);
    void (*order_close)(void *state);
    int (*order)(void *state, struct tachy_item *item);
    // What `order` knows of the frames before, as bytes that another process of the same build can
    // load; *data: to be freed with free(). NULL although there is `order`: such a run cannot be
    // resumed. Not while `order` runs.
    int (*order_save)(const void *state, void **data, size_t *size);
    int (*order_load)(void *state, const void *data, size_t size);

    // Taking over results (docs/live.md); NULL: the task cannot. In the order of the stream, one
    // at a time, before `order`: keep an eye's result as postprocess left it in *kept (NULL at
    // first; one a stream), and fill in that of a later item from it.
    int (*keep)(const tachy_task *t, void **kept, const struct tachy_item *item, int eye);
    int (*reuse)(const tachy_task *t, const void *kept, struct tachy_item *item, int eye);
    void (*kept_close)(void *kept);
    // *kept (NULL: nothing is) as state_save and state_load.
    int (*kept_save)(const tachy_task *t, const void *kept, void **data, size_t *size);
    int (*kept_load)(const tachy_task *t, void **kept, const void *data, size_t size);

    // In any order again, after `order`; sets item->out. NULL: no pictures are made.
    int (*composite)(void *worker, struct tachy_item *item);
    // Composite may return while another device still works at item->out and item->result: then it sets
    // item->pending, and what it reads and writes is kept by the task. Waits until they are there, or have
    // failed, and clears `pending`. Any thread, once for an item, before it is pulled or its memory is used
    // again; not in order. NULL: composite never does.
    int (*settle)(struct tachy_item *item);

    // An encoder's surfaces (media/surface.h), which pictures may be composited into in the place of the host's frames;
    // those that cannot come as frames of the host's still. After start(), before the first item. NULL: it never does.
    int (*surfaces)(tachy_task *t, const struct tachy_surface_spec *spec);

    // The GPUs that items are worked on, with the frames of each since the task was opened; returns how
    // many. NULL: none. Any thread, after the start.
    int (*gpus)(const tachy_task *t, struct tachy_gpu_share share[TACHY_MAX_GPUS]);

    void (*item_close)(void *item_priv); // frees what the item's priv holds
    // For saving and replaying steps. NULL: cannot be done.
    void (*tensors)(void *worker, struct tachy_task_tensors *t);
    // Runs of the model so far, where one holds several pictures. NULL: one each. Any thread.
    void (*batches)(const tachy_task *t, struct tachy_task_batches *b);
    // Of the time of a worker, or of an engine for batches, so far: copies between host and device, ns.
    // NULL: there are none. Any thread, while the other is open.
    uint64_t (*transfer_ns)(const void *worker);
    uint64_t (*batch_transfer_ns)(const void *engine);
    // For the light ratio, while no item is worked on: until -1 follows, the host's frames go to this GPU (CUDA's ordinal),
    // and the three below are about it. NULL: there is one.
    void (*gpu_pin)(tachy_task *t, int gpu);
    // For the light ratio, of an item that has been through all steps. NULL, false: a GPU does nothing.
    bool (*gpu)(const tachy_task *t, const struct tachy_item *item, struct tachy_task_gpu *g);
    // Queues the kernels of one of those steps for all eyes of n items, no more than a worker takes at once, on the
    // worker's stream, without the copies between host and card, and does not wait. The device's context is current.
    int (*gpu_queue)(void *worker, enum tachy_step step, struct tachy_item *const items[], int n);
    void *(*gpu_stream)(const void *worker); // a CUstream
    // Text that names model and mode, key of the stored light figures.
    const char *(*describe)(const tachy_task *t);
    // What runs the model, with its version. NULL: nothing does.
    const char *(*engine)(const tachy_task *t);
};

struct tachy_task {
    const struct tachy_task_ops *ops;
    const struct tachy_log *log;
    int eyes; // 1 or 2
    char *settings; // that the task was opened with: JSON object, text by path; NULL: none
    struct tachy_stage_save *save; // stage_save.h; NULL: nothing is saved
    struct tachy_memory *memory; // of the pipeline, from start() until the last worker is closed
    struct tachy_profile *profile; // the same; NULL: there is none
    max_align_t priv[];
};

// Ends what composite may have begun.
static inline int tachy_task_settle(const struct tachy_task_ops *ops, struct tachy_item *item)
{
    return item->pending ? ops->settle(item) : TACHY_OK;
}

static inline bool tachy_task_recurrent(const tachy_task *t)
{
    return t->ops->recurrent && t->ops->recurrent(t);
}

extern const struct tachy_task_ops tachy_task_segment;
