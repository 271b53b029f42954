#pragma once
#include "base/memory.h"
#include "cuda/gpu.h"
#include "cuda/kernels.h"
#include "media/device.h"
#include "profile/gpu.h"
#include "stage/device_flight.h"
#include "stage/stage.h"

// The device context of the stages' CUDA forms: the devices (GPUs) of a task, and for each worker on each of them a
// stream, its order relative to other streams, copies of host frames, frames kept until the device has read them, and
// timings.
//
// A frame is processed where it lies. A host frame goes to the device that holds its stream's state of a recurrent
// model, else to the one with the fewest active workers. A worker queues a frame's work on its own stream, after the
// stream that wrote the frame, and does not wait; whoever pulls the finished picture waits.

enum {
    DEVICE_GROUP = 8,   // items that a worker takes at once, unless the task asks for more
    DEVICE_MOST = 64,   // and then at most; parts of pictures that a network sees at once, at most
    DEVICE_ALIGN = 256, // what tensors of one block begin at multiples of, as what the driver gives does
};

struct device_worker;

// One of the task's.
struct task_device {
    struct tachy_gpu *gpu; // reference
    enum tachy_mem mem;    // of its memory
    struct mask_pieces *masks; // mask_cuda.h: memory for masks there; the mask stage's
    atomic_int busy;       // workers that are at a frame there, from its preprocess to its mask
};

// The devices of a task, from the open of its first stage to that stage's close.
struct task_devices {
    struct tachy_stage *st; // the first stage
    size_t item_at;         // of struct device_item in that stage's bytes of an item
    struct task_device list[TACHY_MAX_GPUS]; // in the order of the settings
    int nb;
    int ids[TACHY_MAX_GPUS], nb_ids; // asked for
    double fraction, vram;           // settings gpu.*
    // The memory of the task's last pipeline. The reference keeps its address from being used again.
    struct tachy_memory *memory; // NULL until a stream starts
    int group;        // items that a worker takes at once, up to DEVICE_MOST; 0: DEVICE_GROUP. More only of tasks without masks
    bool only_queues; // workers: the model runs on devices too
    bool waits;       // a stage waits for the device for each item, so items are processed singly
    bool states;      // streams have states there
};

// An item's, for all stages.
struct device_item {
    tachy_frame *frame; // copy of a frame of the host's, until it is composited
    // The worker whose stream comes after the frame's writer, and the frame.
    const struct device_worker *behind;
    int64_t behind_id;
    // From its preprocess on: who has it in hand, its place among the pictures there, and what kind of item it is: only
    // neighbours of one kind go together.
    struct device_worker *at;
    int picture, kind;
};

// A worker's contexts on all devices: on the first from the start, on another once a frame of it comes. The worker of every
// CUDA form of a task begins with it.
struct device_set {
    struct task_devices *devices;
    struct device_worker *on[TACHY_MAX_GPUS]; // in the order of the task's; NULL: not opened yet
    struct device_worker *now;                // of the device that the frame in hand is on
    struct task_device *counted;              // as busy on that device; NULL: between frames
};

// A worker on one device; one thread's at a time.
struct device_worker {
    struct device_set *set;
    tachy_task *task;
    struct task_device *device;
    struct tachy_gpu *gpu; // of the device, a reference
    const struct tachy_cu *cu;
    const struct tachy_cuda_kernels *kernels;
    cuda_stream stream;
    cuda_event arrived, done; // done: of what the host waits for
    tachy_frame_pool *uploads; // copies of the host's frames
    tachy_frame_pool *pinned;  // copies on the way there
    struct device_flight *flight; // with frames that the pipeline lets go of while the device reads them
    // Times of the stream's kernels and copies; NULL: there is no profile.
    struct tachy_gpu_timer *kernel_times, *copy_times;
    struct tachy_prof_item at_work; // the item that this worker has
    int step;                       // of the stage that it is at
    // Waits for results on their way to the host, of the last item; NULL: there are none.
    int (*wait)(void *of);
    void *waits_for;
    void *part[TACHY_MAX_STAGES]; // by stage: what those that share the worker keep, see tachy_stage_ops.worker_open
};

// Consecutive items of one kind that a worker processes together on one device. A single item is a group of one. Items
// are always single if the host is waited for per item, in batches, or if the stream has states.
struct device_group {
    struct device_worker *g;
    struct tachy_stage *st;
    void *part; // of the stage
    void *state; // of the stream; NULL: it has none
    struct tachy_item *const *items;
    int *err; // one per item
    int n, region;
    int kind;
    cuda_stream behind[2 * DEVICE_GROUP]; // that the worker's stream comes after, since this call began
    int nb_behind;
};

// ---- The task's

// Reads which devices the settings ask for (numbers only); then opens each and tests its kernels.
int device_read_settings(struct task_devices *d, struct tachy_stage *st, const tachy_settings *set);
int device_open(struct task_devices *d);
void device_close(struct task_devices *d);
// True if device_start() has not been called yet for the pipeline's memory: stages must first drop memory of an earlier
// pipeline. Afterwards the memory manager owns the devices' memory.
bool device_starts_anew(const struct task_devices *d);
int device_start(struct task_devices *d);
// The one with this ordinal of CUDA's; NULL: none of the task's.
struct task_device *device_with(struct task_devices *d, int ordinal);
// Items that a worker takes at once.
int device_group_size(const struct task_devices *d);

static inline int device_index(const struct task_devices *d, const struct task_device *of) { return (int)(of - d->list); }
static inline struct device_item *device_item_of(const struct task_devices *d, const struct tachy_item *item)
{
    return (void *)((char *)tachy_stage_item(d->st, item) + d->item_at);
}

// ---- A worker's

// The parts that stages keep are opened with it, in the task's order; `set` is zeroed. To be closed also on failure.
int device_set_open(struct device_set *set, struct task_devices *d);
void device_set_close(struct device_set *set);

// Finds the device of an item: the one that has its picture or, if that is on the host or gone, the one that last worked on
// the item, else the task's first. TACHY_ERR_UNSUPPORTED, logged: the picture is on a device that is not the task's.
int device_of_item(struct task_devices *d, const struct tachy_item *item, struct task_device **out);
// Before a worker's first call for an item: selects the device for all work until device_end(): the one that holds its
// picture, else `preferred`, else (NULL) the idlest.
int device_begin(struct device_set *set, struct tachy_item *item, struct task_device *preferred);
// One region more was begun there.
void device_count(struct device_set *set);
// After the mask of one region, or before the next item.
void device_end(struct device_set *set);

// Calls `call` for runs of neighbouring pieces, all of one region, that are on one device and of one kind. The items'
// device_item.at is set; NULL, with its err: the item is left out. `keeps`: leaves set->now unchanged, because other
// items' calls may surround this one.
void device_run(struct device_set *set, struct tachy_stage *st, void *state, const struct tachy_piece pieces[], int n,
                int err[], bool keeps, void (*call)(struct device_group *p));
// device_run() for a stage with workers of its own, on each item's device, see device_of_item(); set->now stays.
void device_run_where_it_is(struct device_set *set, struct tachy_stage *st, const struct tachy_piece pieces[], int n, int err[],
                            void (*call)(struct device_group *p));
// `queue` of struct tachy_stage_ops: `call` for n items, on set->now, of each of the first `regions`.
int device_queue(struct device_set *set, struct tachy_stage *st, struct tachy_item *const items[], int n, int regions,
                 void (*call)(struct device_group *p));

// ---- In a call

// The item's frame on the device; a host frame is copied there. Work queued from here on runs after the frame was
// written. Frames of one decoder are waited for once, since the whole group was on its stream before.
int device_frame_of(struct device_group *p, struct tachy_item *item, const tachy_frame **out);
// The pipeline may let go of the frame before the device has read it: it is kept until the flight's next part is done,
// unless a later stage than p->st reads it too.
int device_keep_frame(struct device_group *p, struct tachy_item *item);
// The item's frame and its copy are kept until the flight's next part is done.
int device_keep_read(struct device_group *p, struct tachy_item *item);
// Copies of the host's frames go, if no later stage reads them and the region is the last.
void device_let_go(struct device_group *p);
// Makes later work on `to` wait for the work queued on `from`.
int device_follow(struct device_worker *g, cuda_stream to, cuda_stream from);
// Waits until the stream has done what it was given, which takes a moment: a network's stages.
int device_wait(struct device_worker *g, cuda_stream stream);
// Makes the worker's stream wait for `from`, once in a call.
int device_come_after(struct device_group *p, cuda_stream from);
// One of the pictures of a tensor like the first one.
struct tachy_tensor device_picture(const struct tachy_tensor *first, int at);

static inline void device_fail_all(const struct device_group *p, int err)
{
    for (int i = 0; i < p->n; i++)
        p->err[i] = p->err[i] < 0 ? p->err[i] : err;
}

// The code for a call's status, logged with `what` if it is an error.
static inline int device_failed(const struct device_worker *g, int status, const char *what)
{
    return tachy_cu_check(g->cu, status, g->task->log, what);
}

// Between the two is what the stream does for the stage and the item that the worker has.
static inline void device_kernels(struct device_worker *g)
{
    tachy_gpu_timer_begin(g->kernel_times, g->step, g->at_work);
}
// `bytes`: that have to be read and written.
static inline void device_kernels_end(struct device_worker *g, double bytes)
{
    tachy_gpu_timer_end(g->kernel_times, &(struct tachy_gpu_work){.bytes = bytes});
}
static inline void device_copies(struct device_worker *g)
{
    tachy_gpu_timer_begin(g->copy_times, g->step, g->at_work);
}
static inline void device_copies_end(struct device_worker *g) { tachy_gpu_timer_end(g->copy_times, NULL); }

static inline double device_bytes(const tachy_frame *f) { return (double)tachy_frame_bytes(f->format, f->width, f->height); }

// `load` of struct tachy_stage_ops for a stage whose kernels compute, but for the bytes; `worker` NULL: the stream stays.
bool device_load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l);
