#pragma once
#include "base/base.h"
#include "postprocess/bounds.h"

#include <stdatomic.h>
#include <tachy/live.h>
#include <tachy/preprocess.h>
#include <tachy/result.h>
#include <tachy/run.h>
#include <tachy/stage.h>
#include <tachy/task.h>

// The interface of a stage, which an executor runs (docs/stage.md). A stage is one operator between source and sink:
// it reads and writes the frame and the result of an item. A task is a list of stages. The executor is in
// src/pipeline; calibration and replay run the same stages through the same call, tachy_stage_pass() (stage.h).
//
// The work of a call is `n` pieces. A piece is one item or, for a stage with TACHY_STAGE_REGIONS, one region of
// an item: a part that an earlier stage has set (tachy_item.part), or an eye. There is no other way in: a single item is n = 1, a group of items that a
// worker takes together is n > 1, a batch is a group whose pieces may come from several streams. An ordered stage with
// tachy_stage.ahead is given one item to work on and those after it to read.

struct tachy_stage;
struct tachy_stage_save;
struct tachy_surface_spec;
struct tachy_device;
struct task_devices;

enum { TACHY_MAX_STAGES = 18, TACHY_MAX_PARTS = 4 };

// Flags for the executor, besides enum tachy_stage_flag of tachy/stage.h. open() and start() may change
// tachy_stage.flags, which begin as those of the ops. An ordered stage has n = 1 (but see tachy_stage.ahead); items wait for
// their turn, decoders do not. After the last stage that reads tachy_item.in its pixels are dropped.
enum {
    // A piece is a region. The stage is not called for a region whose result is taken over (tachy_item.reuse).
    TACHY_STAGE_REGIONS = 1 << 8,
    // Makes what the sink is given, or what only that needs. Mode live may drop an item before it, and only items
    // that are nearly due are taken that far: finished pictures are large.
    TACHY_STAGE_WRITES = 1 << 9,
    // Several pieces in one call are faster, also those of several streams: see `batch_key`.
    TACHY_STAGE_BATCHES = 1 << 10,
    // Runs a network.
    TACHY_STAGE_MODEL = 1 << 11,
    // Ordered, but no earlier stage waits for its work: another worker runs it concurrently with them.
    TACHY_STAGE_APART = 1 << 12,
    // Its result is text.
    TACHY_STAGE_TEXT = 1 << 13,
    // With TACHY_STAGE_BATCHES: one call at a time, for the pieces that are there when the one before is done. None waits for others.
    TACHY_STAGE_PROMPT = 1 << 14,
};

// Times of an item in mode live, on the clock of live.h.
struct tachy_due {
    uint64_t deadline; // UINT64_MAX: none
    uint64_t taken;    // when a worker began
    bool inferred;     // not all of its result was taken over
    bool prompt;       // in mode live: it is not to wait for others
};

// One frame on its way through a task. Owned by the executor; a stage has it during a call.
struct tachy_item {
    tachy_frame *in;  // decoded; NULL once no stage reads it any more
    tachy_frame head; // all but the pixels of `in`, if that is NULL
    tachy_frame *out; // NULL before the stage that writes, or if the task makes none
    struct tachy_result result;
    uint64_t arrived;    // when the stage before was done with it, tachy_ticks()
    uint64_t pushed;     // into the pipeline, tachy_ticks()
    uint32_t stream;     // number of its stream in the profile
    bool anew;           // ordered stages begin with a new state here
    bool other;          // anew, of another input: numbers that a state gives begin again too
    bool small;          // the model is to see a smaller picture (TACHY_DEGRADE_SMALL_INPUT)
    bool apart;          // the model's call is not the worker's that preprocesses: tensors stay with the item
    bool pending;        // a device still works at `out` and `result`: see `sync`
    unsigned reuse;      // regions (bits 1 << region) whose result is taken over from an earlier item
    // The parts that stages with regions see of a frame with one eye, set by a stage before them: frame pixels, not empty,
    // inside the frame, best last. Their results are joined to one. None while `reuse` is set.
    struct tachy_rect part[TACHY_MAX_PARTS];
    int nb_parts;        // 0: the regions are the eyes
    bool nobody;         // a stage before them found that the frame shows nothing: no network runs, the result is empty
    struct tachy_bounds bounds; // of alpha; {0}: none
    struct tachy_due due;
    struct tachy_named values[TACHY_MAX_VALUES]; // of the result
    void *priv;          // zeroed bytes of the stages', see item_size; kept from frame to frame
};

// Everything about the decoded frame but its pixels.
static inline const tachy_frame *tachy_item_head(const struct tachy_item *item)
{
    return item->in ? item->in : &item->head;
}

// Gives the finished picture the number and the times of its frame, and the colour description of what is in it.
static inline void tachy_item_name(struct tachy_item *item, struct tachy_color color)
{
    const tachy_frame *head = tachy_item_head(item);
    item->out->id = head->id;
    item->out->pts = head->pts;
    item->out->duration = head->duration;
    item->out->color = color;
}

// The item's number of regions, for stages with TACHY_STAGE_REGIONS.
static inline int tachy_item_regions(const struct tachy_item *item, int eyes)
{
    return item->nb_parts ? item->nb_parts : eyes;
}

struct tachy_piece {
    struct tachy_item *item;
    int region; // 0 if the stage has no TACHY_STAGE_REGIONS
};

// The tensors of a model for one piece, for code that saves, replays or compares them.
struct tachy_stage_tensors {
    struct tachy_tensor *in, *out;     // arrays; the stage's memory
    int n_in, n_out;
    struct tachy_placement *placement; // from preprocess to postprocess; NULL: none
};

// A GPU's part of a stage, for the light ratio.
struct tachy_stage_load {
    struct tachy_device *device;
    void *stream;  // a CUstream: the worker's
    bool computes; // its multiprocessors do the stage's work
    double to_host, to_device; // bytes that are copied for an item, besides the item's own pictures
};

// All functions return TACHY_OK or a negative code, after a message that says what to do. Any may be NULL
// but `run`. "Worker": an object of one thread at a time, opened by the executor for each of its workers.
struct tachy_stage_ops {
    const char *name;     // in messages and tables
    unsigned flags;       // of enum tachy_stage_flag
    const char *step;     // name under which its time is counted, NULL: its own; not "decode" or "encode"
    const char *remedy;   // how to make it cheaper ("leave out ... (--option)"), shown if it limits a run; NULL: use
                          // smaller pictures
    size_t priv_size;     // zeroed bytes at tachy_stage.priv
    size_t item_size;     // zeroed bytes in each item, see tachy_stage_item()
    size_t state_size;    // zeroed bytes of a stream's state, without pointers; saved as they are
    const struct tachy_option *options; // rows that it reads, for every task with it; ends with {0}; NULL: none

    // ---- The task's. One thread at a time.

    // Reads the settings, which end with the call. TACHY_STAGE_LEFT_OUT: they leave nothing to do, and the stage is
    // closed and not part of the task. Stages are opened in the task's order.
    int (*open)(struct tachy_stage *st, const tachy_settings *s);
    void (*close)(struct tachy_stage *st); // also after a failed open
    // After the last item of the last stream, if all went well: for what needs all of them. Once, on the thread that opened it.
    int (*finish)(struct tachy_stage *st);
    // A pipeline begins: the task's memory, profile and `in` are set; *video comes as the stage before leaves it. Comes
    // again for the next pipeline, when nothing of the last one is left.
    int (*start)(struct tachy_stage *st, struct tachy_video_info *video);
    // A sink reads pictures on a GPU: those written from now on may be its surfaces. After start(), before the
    // first item.
    int (*surfaces)(struct tachy_stage *st, const struct tachy_surface_spec *spec);

    // ---- Workers.

    // `batch` > 1: an object for calls of up to this many pieces, of a stage that batches. TACHY_ERR_MISMATCH: it takes
    // only one per call. On failure *worker is NULL and everything is closed. For a stage that uses another's worker
    // (tachy_stage.worker_of), that worker's device context calls this instead, for data kept on each device: *worker
    // is then the struct device_worker (stage/device.h), whose device's context is current.
    int (*worker_open)(struct tachy_stage *st, int batch, void **worker);
    void (*worker_close)(void *worker);
    // Processes pieces. worker, state: of tachy_stage.worker_of; NULL if there is none. The state is the stream's; NULL
    // without a stream (calibration, replay): then each item counts as a first one. err[i] is TACHY_OK on entry and
    // receives the result of piece i; a failure affects only that piece. A stage on a device queues, does not wait, and
    // keeps its inputs until the device has read them. TACHY_ERR_NOMEM from an unordered stage that does not write:
    // called again when others have freed memory; from a batch: called again in halves.
    void (*run)(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[]);

    // ---- The state of a stream, of an ordered stage.

    // *state may stay NULL. `save` gives bytes that `load`, in another process of the same build, takes into an opened
    // state; *data is for free(). Between two calls of run. An ordered stage without `save` cannot be resumed. A stage with
    // state_size needs none of the four; its `load` is called with the loaded state as data, and checks it.
    // Executors call them by tachy_stage_state_open() and its like (stage.h).
    int (*state_open)(struct tachy_stage *st, void **state);
    void (*state_close)(void *state);
    int (*state_save)(const void *state, void **data, size_t *size);
    int (*state_load)(void *state, const void *data, size_t size); // TACHY_ERR_FORMAT: of another size

    // ---- What it keeps in an item.

    void (*item_close)(void *item); // frees what its bytes of an item hold
    // Gives `to` the result of a region of `from`, as this stage left it there: for results that are taken over. `from`
    // has result and priv, no frame. All three or none; given by one stage of a task, the last with
    // TACHY_STAGE_REGIONS.
    int (*copy)(struct tachy_stage *st, struct tachy_item *to, const struct tachy_item *from, int region);
    // All regions of such a `from` as bytes, as state_save and state_load.
    int (*copy_save)(struct tachy_stage *st, const struct tachy_item *from, void **data, size_t *size);
    int (*copy_load)(struct tachy_stage *st, struct tachy_item *to, const void *data, size_t size);
    // Ends what `run` left to a device (tachy_item.pending), waiting for it. Any thread, once an item.
    int (*sync)(struct tachy_stage *st, struct tachy_item *item);

    // ---- For files about all items of all inputs, which `finish` writes.

    // Adds a note of an item of `input`, which `run` has made (stage/note.h), in this process or in an earlier one. Thread-safe.
    // TACHY_ERR_FORMAT: it is no note of this stage. The stage's options say only what is written at the end.
    int (*take)(struct tachy_stage *st, const char *input, const void *note, size_t size);

    // ---- For replay, the light ratio and saved stages.

    // The tensors of a piece that `worker` runs next or ran last.
    int (*tensors)(struct tachy_stage *st, void *worker, const struct tachy_piece *piece, struct tachy_stage_tensors *t);
    // A GPU's part of an item that has been through all stages. false: no device works on it.
    bool (*load)(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *load);
    // Queues the stage's kernels for all regions of n items on the worker's stream, without the copies between host
    // and device, and does not wait. The device's context is current.
    int (*queue)(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n);
};

enum { TACHY_STAGE_LEFT_OUT = 1 };

// A stage's own setting that can change during a run, to any value that its option row accepts (yes: 1).
struct tachy_stage_dial {
    const char *path; // of the row
    double most;      // larger values are refused
    const char *why;  // then: what its values count ("--image names"); NULL: no bound but the row's
    _Atomic double value;
    atomic_int asked; // how often it was set to something but 0
};

struct tachy_stage {
    const struct tachy_stage_ops *ops;
    tachy_task *task;
    int index;       // in tachy_task.stage
    int step;        // its row in the figures, the same for stages that share a name; see tachy_task_count()
    unsigned flags;
    int worker_of;   // index of the stage whose worker and state it is called with: its own, or another's
    int item_of;     // of the stage whose bytes of an item it uses: its own, or an earlier one's
    size_t item_at;  // offset of its bytes in tachy_item.priv
    // For an ordered stage: pieces[0] is the item whose turn it is; up to this many following items come with it, in
    // order. They have passed the earlier stages and are only read, but for the stage's own bytes of them; err[] has no element for them. There are fewer if
    // the stream ends, fails or has a discontinuity there, or in calibration and replay. Each costs one more waiting
    // frame, with all that it holds, and one more frame of delay. Less than TACHY_STAGE_ITEMS. Set by open().
    int ahead;
    int group;       // items of a stream that it pays to take at once; 0, 1: one by one. Set by start()
    size_t item_bytes; // that an item holds besides item_size, about; set by start()
    struct tachy_stage_dial *dials; // the stage's memory, set by open()
    int nb_dials;
    const char *batch_key; // what calls that may be shared have in common (the model's path); NULL: no batches
    bool batched;    // a batcher runs it, so workers need nothing for it. The executor's
    _Atomic uint64_t transfer_ns; // of its calls so far: copies between host and device
    max_align_t priv[];
};

// A GPU that items are worked on.
struct tachy_task_gpu {
    int ordinal; // CUDA's
    _Atomic int64_t regions; // that were worked on there since the task was opened
};

// A network, and how many pictures it has seen since the task was opened.
struct tachy_task_model {
    const char *name; // of its card; NULL: there is none
    _Atomic int64_t runs;
};

struct tachy_task {
    const char *name;
    const struct tachy_log *log;
    struct tachy_stage *stage[TACHY_MAX_STAGES];
    int nb_stages;
    int eyes;            // regions of a frame without parts, 1 or 2; set by the first stage that has regions
    bool parts;          // items may have parts
    int workers;         // enough workers, if they only queue work on a device; 0: one per core is not too many
    size_t item_size;    // of all stages
    char describe[256];  // model, mode: key of the stored light figures
    char **reads;        // files of its networks, for who compares them: NULL at the end; NULL: none
    char engine[128];    // what runs the model, with its version; "": nothing does
    struct tachy_task_model model[2]; // that the stage preprocess chooses from
    struct tachy_infer *opened;   // by a stage before preprocess, which takes it over; NULL: none
    struct task_devices *devices; // stage/device.h, of the first stage; NULL: all is the host's
    bool offloads;       // frames are on the host, and networks run on a GPU all the same (tachy_infer_setup())
    const char *input;   // of the stream that runs, as the job names it; NULL: nobody said. Whoever starts a run sets it
    bool cut;            // the run was stopped: finish() has a part of the last input. Whoever calls it sets it
    bool beside;         // other tasks share its pipeline: its rows in the figures are "NAME.STEP". Whoever joins them sets it
    bool keeps_notes;    // items keep their notes (stage/note.h); else they are taken at once
    bool taken_before;   // what is taken now was so before an earlier finish() as well. Whoever calls `take` sets it
    const char **label;  // after finish(): of each thing that was taken, in order, or ""; the stage's memory. NULL: none
    size_t nb_labels;
    bool values;         // frames have named values, each the same ones: text without regions tells them
    char *settings;      // that it was opened with: a JSON object, text by path; NULL: none
    struct tachy_stage_save *save; // pipeline/stage_save.h; NULL: nothing is saved

    struct tachy_task_gpu gpu[TACHY_MAX_GPUS];
    int nb_gpus;         // 0: none
    int pinned;          // index in `gpu` of the GPU for host frames; -1: any. For the light ratio

    // From start() until the last worker is closed.
    struct tachy_video_info in;
    struct tachy_memory *memory;   // the pipeline's
    struct tachy_profile *profile; // NULL: there is none
};

// True if streams have a state of this stage.
static inline bool tachy_stage_has_state(const struct tachy_stage *st)
{
    return st->flags & TACHY_STAGE_ORDERED && st->worker_of == st->index;
}

// True if it is ordered and needs no worker object: its time counts for no worker.
static inline bool tachy_stage_of_nobody(const struct tachy_stage *st)
{
    return st->flags & TACHY_STAGE_ORDERED && !st->task->stage[st->worker_of]->ops->worker_open;
}

// The memory of ops->priv_size bytes, which is the stage's own.
static inline void *tachy_stage_priv(const struct tachy_stage *st) { return (void *)(uintptr_t)st->priv; }

// The stage's bytes in an item.
static inline void *tachy_stage_item(const struct tachy_stage *st, const struct tachy_item *item)
{
    return (char *)item->priv + st->item_at;
}
