#pragma once
#include "task/segment.h"

// The steps of segment on a GPU (--device cuda). Frames stay there from the decoder to the composited
// picture; what comes back is the mask at its own size and the finished picture. A frame that a
// software decoder made is copied there first.
//
// A worker queues what belongs to a frame on a stream of its own, behind the stream that the frame was
// written in, and waits for nothing: who pulls the picture does, with segment_gpu_finish(). Who reads a mask
// before that waits with segment_gpu_sync().

struct segment_gpu_worker;
struct segment_device;

// What a device does for an item: of the stages with these indices, and of those that write.
enum segment_step { SEGMENT_STEP_PREPROCESS, SEGMENT_STEP_MODEL, SEGMENT_STEP_POSTPROCESS, SEGMENT_STEP_COMPOSITE };

static inline enum segment_step segment_step_of(const struct tachy_stage *st)
{
    return (enum segment_step)TACHY_MIN(st->index, (int)SEGMENT_STEP_COMPOSITE);
}

// Before the first worker. Takes and logs what does not work on a GPU yet as TACHY_ERR_UNSUPPORTED.
int segment_gpu_open(tachy_task *t, struct segment *s);
// Whether the engine that was opened with the task runs there too.
bool segment_gpu_runs_model(const struct segment *s);
// Before the engine: where the provider works on a stream that it is given, one on each GPU.
int segment_gpu_model_open(tachy_task *t, struct segment *s);
// Behind the first engine and the devices: where it runs on its device, an engine for each of the others.
int segment_gpu_model_spread(tachy_task *t, struct segment *s);
// After the engines and the devices.
void segment_gpu_model_close(struct segment *s);
// The stream's memory manager gets the devices' memory as its places.
int segment_gpu_start(tachy_task *t, struct segment *s);
void segment_gpu_close(struct segment *s);

// What a worker has on one device.
int segment_gpu_worker_open(struct segment_gpu_worker **out, struct segment_worker *w, struct segment_device *device);
void segment_gpu_worker_close(struct segment_gpu_worker **g);

// The steps of a worker; see struct tachy_stage_ops. Composite is queued and sets item->pending; on failure nothing is
// on its way any more.
int segment_gpu_step(struct segment_worker *w, enum segment_step step, struct tachy_item *item, int eye);
// Of several items at once, where a worker only queues.
int segment_gpu_group(const struct segment *s); // items at most
void segment_gpu_group_step(struct segment_worker *w, enum segment_step step, struct tachy_item *const items[], int n,
                            int eye, int err[]);
// Preprocess and postprocess around a batch; `batch`: the eye's input or output of the model, on the host.
int segment_gpu_batch_step(struct segment_worker *w, enum segment_step step, struct tachy_item *item, int eye,
                           const struct tachy_tensor *batch);
// For who looks at the host's tensors: what the last run of an engine on the device left there, and its mask. Waits.
int segment_gpu_fetch_tensors(struct segment_worker *w);
// segment_gpu_out.c: an encoder's surfaces; see struct tachy_stage_ops.
int segment_gpu_surfaces(tachy_task *t, const struct tachy_surface_spec *spec);
// Ends an item that is pending: `sync` of struct tachy_stage_ops.
int segment_gpu_finish(struct tachy_item *item);

// For the light ratio; see struct tachy_stage_ops.
void *segment_gpu_stream(const void *worker); // a CUstream
// Whether the model ran on the host for this eye.
bool segment_gpu_mask_from_host(const struct tachy_item *item, int eye);
int segment_gpu_queue(void *worker, enum segment_step step, struct tachy_item *const items[], int n);

// segment_gpu_state.c: the states of a stream, all eyes, where the engine runs on the device. One thread at a time but
// for close(). The bytes of save and load are those of the host's states: eye by eye, and of each the model card's order.
struct segment_gpu_state;
int segment_gpu_state_open(struct segment_gpu_state **out, tachy_task *t);
void segment_gpu_state_reset(struct segment_gpu_state *st, int eye);
struct segment_device *segment_gpu_state_device(struct segment_gpu_state *st); // any thread: where they are
int segment_gpu_state_save(struct segment_gpu_state *st, void *to);
int segment_gpu_state_load(struct segment_gpu_state *st, const void *from);
void segment_gpu_state_close(struct segment_gpu_state **st);

// Memory for the eye's mask and guide that the GPU can write, and its counterpart there.
int segment_gpu_ensure_eye(const struct segment *s, struct segment_eye *e, size_t bytes);
void segment_gpu_eye_free(struct segment_eye *e);
// The eye's mask is on the host when it returns; nothing where it was not made on a GPU.
int segment_gpu_sync(struct segment_eye *e);
// The same of its guide.
int segment_gpu_guide_sync(struct segment_eye *e);
// The host's mask and guide were written: the GPU's are made of them when they are needed.
void segment_gpu_touched(struct segment_eye *e);
