#pragma once
#include "preprocess/preprocess_cuda.h"
#include "stage/device.h"
#include "stage/infer_priv.h"

#include <pthread.h>
#include <stdatomic.h>

// Networks whose frames are on devices: what the files of that form share, and what decode stages there ask.

// The network on one of the task's devices, if the provider runs there.
struct infer_device {
    struct tachy_gpu *gpu; // reference; its stream is that of all runs there
    size_t free_before;    // bytes, before the first engine there was opened
    pthread_mutex_t running; // held while a run is queued
    // Open as long as the task, as tachy_infer_net.first: for one picture, NULL on the first device; and those for several that
    // the last worker had, which workers of the next input take.
    tachy_engine *first;
    struct infer_many {
        tachy_engine *engine;
        int pictures;
    } many[2];
    size_t model_bytes;    // that the engines were seen to take
    struct tachy_memory *memory; // reference; NULL: they are not counted
    struct tachy_block model;    // reservation of them
    atomic_int states;     // streams whose states are there
};

// A network. The memory of the preprocess stage begins with it.
struct infer_cuda {
    struct tachy_infer infer; // first
    struct task_devices *devices;
    struct infer_device device[TACHY_MAX_GPUS]; // in the order of `devices`
    int nb_locks;
    _Atomic int most;   // pictures of a run that may be tried: those that the model takes and there was memory for; 0: any
};

struct infer_cuda_item {
    struct infer_item infer; // first
    struct device_item device;
};

// The worker of all stages of the task.
struct infer_cuda_worker {
    struct device_set set; // first
    struct infer_worker host;
};

// A worker's network in one of its sizes on a device: pictures there, and an engine.
struct infer_there {
    struct infer_cuda *c;
    struct infer_engine *host; // the worker's, whose tensors are the host's
    cuda_stream stream; // on which its pictures are made and its outputs fetched: the worker's, or the engine's
    struct tachy_preprocess_gpu *preprocess[TACHY_MAX_EYES];
    // On the device; `out` if the engine runs there. They are the first of some pictures each.
    struct tachy_tensor in, out;
    // All tensors of such an engine, in the model's order, with these two. While a frame runs, a stream's state replaces
    // the worker's own memory for it.
    struct tachy_tensor all_in[TACHY_MAX_IO], all_out[TACHY_MAX_IO];
    uint8_t *kept[TACHY_MAX_IO]; // the first picture's outputs that an item can hold, with the others' after them
    size_t apart[TACHY_MAX_IO];  // bytes from one picture's to the next one's
    tachy_engine *engine;        // that runs there: the worker's, or of further devices its own
    tachy_engine *own_engine;
    // The same for several of them in one run, the most first; where both are NULL they go one by one.
    struct infer_many many[2];
    int pictures;
    struct tachy_block in_block, out_block, rest, pinned; // rest: of what is neither; pinned: infer_there_pin()'s
};

// A worker's part of a device.
struct infer_part {
    struct device_worker *g;
    struct infer_there size[TACHY_INFER_SIZES];
};

static inline struct infer_cuda *infer_cuda_of(const struct device_worker *g)
{
    return tachy_stage_priv(g->task->devices->st);
}
static inline struct infer_there *infer_part_of(const struct device_worker *g, int size)
{
    return &((struct infer_part *)g->part[g->task->devices->st->index])->size[size];
}
static inline struct infer_region *infer_region_in(const struct device_group *p, int i)
{
    return infer_region_of(tachy_stage_priv(p->g->task->devices->st), &(struct tachy_piece){p->items[i], p->region});
}

// For decode stages, about a group's items: true if the model's outputs are on the host, available through
// tachy_infer_output().
bool infer_cuda_on_host(const struct device_group *p);
// Else the card's output on the device, of one picture.
struct tachy_tensor infer_cuda_output(const struct device_group *p, int i);
// The outputs that decoders may read, of all items of a group, into `to`: net.out_bytes of pinned memory for each picture that a
// group may have. They are there when it returns; o->out points to those of item i then.
int infer_cuda_outputs_to_host(struct device_group *p, void *to);
void infer_cuda_output_in(const struct device_group *p, int i, void *to, struct tachy_infer_output *o);
// The index of that picture among those there.
static inline int infer_cuda_picture(const struct device_group *p, int i)
{
    return device_item_of(p->g->task->devices, p->items[i])->picture;
}
// True if the model's results for the item are on the host.
bool infer_cuda_from_host(const struct tachy_infer *in, const struct tachy_item *item);
// For items whose tensors are their own, another worker may have run the stages before: chooses where this one works.
void infer_cuda_choose(struct device_set *set, void *state, const struct tachy_piece pieces[], int n, int err[]);

// infer_cuda_model.c: queues the model for the pictures of a group, err[i] of item i; from the region's state if the stream
// has one.
void infer_cuda_queue_models(struct device_group *p);
// infer_open_first() of a model whose frames are on c->devices; opens these, if they are not, and an engine for each further
// one.
int infer_cuda_open_first(struct infer_cuda *c);
// True if it is one of our own plans on a device; NULL: false.
bool infer_runs_plans(const tachy_engine *e);
int infer_cuda_count_models(struct infer_cuda *c); // a share of a device has to hold the engines too; after device_start()
void infer_cuda_leave_memory(struct infer_cuda *c); // of the pipeline before
void infer_cuda_close(struct infer_cuda *c); // also the network itself

// A worker's network on the device, for this many regions, with room for this many pictures at once; `size` of enum
// TACHY_INFER_*. `one_stream`: the host waits for each run, so pictures and outputs may share the engine's stream, and
// no stream has to follow another. With a profile they do not, since its timers are on the worker's stream. Must be
// closed also on failure. The device's context must be current.
struct infer_there_params {
    struct infer_cuda *c;
    struct infer_engine *host;
    const struct tachy_preprocess_params *preprocess;
    int regions, pictures, size;
    bool one_stream;
};
int infer_there_open(struct infer_there *t, struct device_worker *g, const struct infer_there_params *p);
void infer_there_close(struct infer_there *t, struct device_worker *g);
// Queues the engine's run for some of the pictures there, err[i] of picture[i]. `prompt`: few of them run one by one, else in a batch.
void infer_there_run(struct infer_there *t, struct device_worker *g, bool prompt, const int picture[], int n, int err[]);
// Tensors of the device's into host memory, best pinned; there when it returns.
int infer_cuda_fetch(struct device_worker *g, const struct tachy_tensor from[], void *const to[], int n);
// The outputs that an item can hold, of the first n pictures of an engine there: net.out_bytes each, as net.out_at says. On
// t->stream; there when it returns.
int infer_cuda_fetch_kept(struct device_worker *g, const struct infer_there *t, void *to, int n);
// Fills out[] with the tensors of one picture in such memory.
void infer_cuda_kept_in(const struct tachy_infer_net *net, void *at, struct tachy_tensor out[TACHY_MAX_IO]);
// Pinned memory for what comes to the host.
int infer_cuda_pin(struct device_worker *g, struct tachy_block *b, size_t bytes);
// `worker_open` and `worker_close` of the preprocess stage: a worker's part.
int infer_part_open(struct tachy_stage *st, int batch, void **part);
void infer_part_close(void *part);

// infer_state_cuda.c: a stream's states if the engine runs on a device. One thread at a time, except for close(). save
// and load use the same bytes as the host's states.
struct infer_state_cuda;
int infer_state_cuda_open(struct infer_state_cuda **out, struct infer_cuda *c);
void infer_state_cuda_reset(struct infer_state_cuda *st, int region);
struct task_device *infer_state_cuda_device(struct infer_state_cuda *st); // any thread: the device that holds them
size_t infer_state_cuda_size(const struct infer_state_cuda *st); // of save()
int infer_state_cuda_save(struct infer_state_cuda *st, void *to);
int infer_state_cuda_load(struct infer_state_cuda *st, const void *from);
void infer_state_cuda_close(struct infer_state_cuda **st);
// Queues the model for the first picture from the region's state, which is moved to the device.
int infer_state_cuda_run(struct device_group *p, struct infer_state_cuda *st);
