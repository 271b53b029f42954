#pragma once
#include "cuda/gpu.h"
#include "cuda/kernels.h"
#include "postprocess/composite_cuda.h"
#include "preprocess/preprocess_cuda.h"
#include "profile/gpu.h"
#include "task/segment_devices.h"
#include "task/segment_gpu.h"
#include "task/segment_gpu_eye.h"
#include "task/segment_gpu_flight.h"

// What the files of segment's GPU worker share. A worker is one thread's at a time.

enum {
    SEGMENT_GPU_GROUP = 8,   // items that a worker takes at once
    SEGMENT_GPU_ALIGN = 256, // what tensors of one block begin at multiples of, as what the driver gives does
};

struct segment_gpu_size {
    struct tachy_preprocess_gpu *preprocess[TACHY_MAX_EYES];
    // On the device; `out` where the engine runs there. They are the first of segment_gpu_group() pictures each.
    struct tachy_tensor in, out;
    // Of such an engine: all that it reads and writes, in the model's order, with these two. A stream's state
    // stands in the place of the worker's own memory for it while a frame is run.
    struct tachy_tensor all_in[TACHY_MAX_IO], all_out[TACHY_MAX_IO];
    tachy_engine *engine;        // that runs there: the worker's, or of further devices its own
    tachy_engine *own_engine;
    void *own_in;                // the host's input that pinned memory stands in for
    struct tachy_block in_block, out_block, rest, pinned; // rest: of what is neither
};

struct segment_gpu_worker {
    struct segment_worker *w;
    struct segment_device *device;
    struct tachy_gpu *gpu; // of the device, a reference
    const struct tachy_cu *cu;
    const struct tachy_cuda_kernels *kernels;
    cuda_stream stream;
    cuda_event arrived, done; // done: of what the host's engine waits for
    struct segment_gpu_size size[SEGMENT_SIZES];
    tachy_composite_cuda *composite;
    tachy_frame_pool *surfaces, *uploads; // composited; copies of the host's frames
    struct segment_gpu_flight *flight; // with frames that the pipeline lets go of while the GPU reads them
    struct segment_eye *made; // whose mask was made last
    struct tachy_block coefficients; // refine: a, then b, eye by eye
    struct tachy_block luma;         // of a frame of R'G'B', for its guide
    // Times of the stream's kernels and copies; NULL: there is no profile.
    struct tachy_gpu_timer *kernel_times, *copy_times;
    struct tachy_prof_item at_work; // the item that this worker has
};

// The row under which it is counted: that of the stage, or of the last one.
static inline int segment_gpu_row(const struct segment_gpu_worker *g, enum segment_step step)
{
    const tachy_task *t = g->w->task;
    return t->stage[step == SEGMENT_STEP_COMPOSITE ? t->nb_stages - 1 : (int)step]->step;
}

// Between the two is what the stream does for a step of the item that the worker has.
static inline void segment_gpu_kernels(struct segment_gpu_worker *g, enum segment_step step)
{
    tachy_gpu_timer_begin(g->kernel_times, segment_gpu_row(g, step), g->at_work);
}
// `bytes`: that have to be read and written.
static inline void segment_gpu_kernels_end(struct segment_gpu_worker *g, double bytes)
{
    tachy_gpu_timer_end(g->kernel_times, &(struct tachy_gpu_work){.bytes = bytes});
}
static inline void segment_gpu_copies(struct segment_gpu_worker *g, enum segment_step step)
{
    tachy_gpu_timer_begin(g->copy_times, segment_gpu_row(g, step), g->at_work);
}
static inline void segment_gpu_copies_end(struct segment_gpu_worker *g)
{
    tachy_gpu_timer_end(g->copy_times, NULL);
}
static inline void segment_gpu_works_at(struct segment_gpu_worker *g, const struct tachy_item *item)
{
    g->at_work = (struct tachy_prof_item){item->result.frame_id, item->stream};
}
static inline double segment_gpu_bytes(const tachy_frame *f)
{
    return (double)tachy_frame_bytes(f->format, f->width, f->height);
}

// The code for a call's status, logged with `what` where it is an error.
static inline int segment_gpu_failed(struct segment_gpu_worker *g, int status, const char *what)
{
    return tachy_cu_check(g->cu, status, g->w->task->log, what);
}

// segment_gpu_model.c: queues the model of the worker's size, from the device's input to its output there.
int segment_gpu_run_model(struct segment_gpu_worker *g);
// The same for n of the pictures there, err[i] of the picture at[i].
void segment_gpu_run_models(struct segment_gpu_worker *g, const int at[], int n, int err[]);
// One of the pictures of a tensor like `in`.
static inline struct tachy_tensor segment_gpu_picture(const struct tachy_tensor *first, int at)
{
    struct tachy_tensor t = *first;
    t.data = (uint8_t *)t.data + (size_t)at * tachy_tensor_bytes(first);
    return t;
}
// The engine of the worker's network `i` on the device; its own is to be closed also on failure.
int segment_gpu_model_engine(struct segment_gpu_worker *g, int i);

// segment_gpu_state.c: the same from the eye's state on the device, where what comes out takes its place.
int segment_gpu_state_run(struct segment_gpu_worker *g, struct segment_gpu_state *st, int eye);

// Neighbours of a group that one device's part of the worker has in hand, of one network. An item alone is a group of one,
// and every item is alone where the host is waited for, in batches, and where the stream has states.
struct segment_gpu_part {
    struct segment_gpu_worker *g;
    struct tachy_item *const *items;
    int *err; // one an item
    int n, eye;
    const struct tachy_tensor *batch; // of segment_gpu_batch_step(), and n is 1; NULL: the worker's engine runs
    cuda_stream behind[2 * SEGMENT_GPU_GROUP]; // that the worker's stream comes after, since this step began
    int nb_behind;
};

static inline void segment_gpu_fail_all(const struct segment_gpu_part *p, int err)
{
    for (int i = 0; i < p->n; i++)
        p->err[i] = p->err[i] < 0 ? p->err[i] : err;
}

// segment_gpu.c: the item's frame on the device, where it is copied to if it is the host's. What is queued
// from here on comes after it was written; frames of one decoder are followed once, since all of the part's were on its
// stream before.
int segment_gpu_frame_of(struct segment_gpu_part *p, struct tachy_item *item, const tachy_frame **out);
// What `to` does from here on comes after what `from` has been given.
int segment_gpu_follow(struct segment_gpu_worker *g, cuda_stream to, cuda_stream from);
// The same of the worker's stream, once in a step.
int segment_gpu_come_after(struct segment_gpu_part *p, cuda_stream from);
// Queues the eye's preprocess, from the items' frames to the device's input of the worker's size.
void segment_gpu_queue_preprocess(struct segment_gpu_part *p);
// Queues the masks of n of the items, of one form, into the memory of their eyes on the device: a launch for each row of
// them whose outputs lie next to each other. `at`: the picture's place in the output.
int segment_gpu_queue_masks(struct segment_gpu_part *p, const int of[], int n, const struct tachy_placement *at);

// segment_gpu_host.c: the model's picture to the host, and there when it returns.
int segment_gpu_fetch_input(struct segment_gpu_worker *g, void *to);
// The model where its engine runs on the host, of the only item of a part.
int segment_gpu_model_of_host(struct segment_gpu_worker *g, struct tachy_item *item, int eye);

// segment_gpu_composite.c: queues the composites of a part's items, each up to a part of the flight.
void segment_gpu_composite(struct segment_gpu_part *p);
// What the composite's kernels take; `refine` has room for the coefficients where there are any.
int segment_gpu_laid(struct segment_gpu_part *p, const struct tachy_item *item, const tachy_frame *f,
                     const struct tachy_result *there, tachy_frame *surface, struct tachy_refine refine[TACHY_MAX_EYES],
                     struct tachy_composite_cuda_item *of);
// segment_gpu_out.c: what an item's picture is composited into: a surface where it is worked on beside the encoder,
// else a frame of the host's.
int segment_gpu_out_on(const struct segment *s, const struct segment_device *c, tachy_frame **out);
// What the kernels write for `out`, *to: itself where it is a surface, else one of the worker's, *own, which is the
// caller's; NULL: it is not. Queues what the composite leaves of it.
int segment_gpu_surface_for(struct segment_gpu_worker *g, tachy_frame *out, tachy_frame **own, tachy_frame **to);

// segment_gpu_refine.c: queues the eye's guide, from the item's frame on the device.
int segment_gpu_queue_guide(struct segment_gpu_worker *g, const struct tachy_item *item, const tachy_frame *f, int eye);
// Queues the coefficients of the item's eyes, whose masks and guides are on the device already. They are good
// until the next item's.
int segment_gpu_fit(struct segment_gpu_worker *g, const struct tachy_item *item,
                    struct tachy_refine refine[TACHY_MAX_EYES]);
