#include "stage/neural.h"

#include "stage/device.h"
#include "stage/stages.h"

#include <stdlib.h>

// Pictures of several items, of one stream or many, that a network makes on a device in one run. Items come together while the run
// before is on the device; engines are for powers of two, so five make runs of four and one. The network that warps fills the GPU with
// one picture and takes them one by one. The host waits for what it queues, so an item's picture is there, in memory of its own, when
// the item goes on.

enum { MOST = 32, SIZES = 6 }; // a plan keeps so many captured runs (CUDA_GRAPHS), and `warp` needs one for each picture

// An engine of `make` for several pictures at once.
struct sized {
    int pictures;
    tachy_engine *engine;
};

struct neural_batch {
    struct device_worker *g; // NULL: it is no worker's part
    struct tachy_gpu *gpu;
    struct tachy_memory *memory;
    const struct tachy_log *log;
    cuda_stream stream;
    cuda_event done;
    struct neural_maker one; // its tensors are the first picture's
    struct sized size[SIZES];   // the most first
    int nb_sizes, most;
    struct tachy_block warp, make; // tensors
    tachy_frame_pool *pictures;    // what frames hold is rows of floats, one after the other
    struct tachy_gpu_timer *times;
};

struct neural_batch *neural_batch_in(void *worker)
{
    struct neural_batch *b = worker;
    return b && !b->g ? b : NULL; // what a worker has begins with the worker, or with its devices
}

void neural_batch_close(struct neural_batch *b)
{
    bool in = tachy_device_enter(&b->gpu->device, NULL) == TACHY_OK;
    if (in && b->stream)
        b->gpu->device.cu->stream_wait(b->stream);
    tachy_gpu_timer_close(&b->times);
    for (int i = 0; i < b->nb_sizes; i++)
        tachy_engine_close(&b->size[i].engine);
    neural_maker_close(&b->one);
    tachy_memory_give(b->memory, &b->warp);
    tachy_memory_give(b->memory, &b->make);
    tachy_frame_pool_close(&b->pictures);
    if (in && b->done)
        b->gpu->device.cu->event_destroy(b->done);
    if (in && b->stream)
        b->gpu->device.cu->stream_destroy(b->stream);
    if (in)
        tachy_device_leave(&b->gpu->device);
    tachy_gpu_unref(&b->gpu);
    tachy_memory_close(&b->memory);
    free(b);
}

// Engines for `most` pictures and for each smaller power of two. Where memory is short the largest are left out.
static int open_sizes(struct neural_batch *b, int most, const struct tachy_engine_setup *setup)
{
    for (int n = TACHY_MIN(most, (int)MOST), next; n > 1; n = next) {
        struct sized e = {.pictures = n};
        int err = family_net_open_batch(&b->one.make, n, setup, &e.engine);
        if (err == TACHY_OK)
            b->size[b->nb_sizes++] = e;
        else if (err != TACHY_ERR_NOMEM)
            return err;
        for (next = 1; 2 * next < n;)
            next *= 2;
    }
    b->most = b->nb_sizes ? b->size[0].pictures : 1;
    return TACHY_OK;
}

// The device's context is current.
static int open_all(struct neural_batch *b, const struct neural *n, int most, struct task_device *device)
{
    const struct tachy_cu *cu = b->gpu->device.cu;
    const int ordinal = b->gpu->device.ordinal;
    int err = tachy_cu_check(cu, cu->stream_create(&b->stream, CUDA_STREAM_OWN_ORDER), b->log, "a stream");
    if (err == TACHY_OK)
        err = tachy_cu_check(cu, cu->event_create(&b->done, CUDA_EVENT_BLOCKS), b->log, "an event");
    struct tachy_engine_setup setup = n->setup, host = n->setup;
    setup.gpu = ordinal;
    setup.gpu_stream = b->stream;
    host.device = host.precision = NULL;
    if (err == TACHY_OK)
        err = neural_maker_open(&b->one, n, &setup, &host, b->log);
    if (err == TACHY_OK)
        err = open_sizes(b, most, &setup);
    if (err < 0)
        return err;
    if (b->one.warp.engine) {
        b->one.warp.in[b->one.feature].mem = TACHY_DEVICE;
        b->one.make.lent = 0;
        err = neural_tensors_there(&(struct neural_place){b->memory, device->mem, ordinal, b->log}, &b->one.warp, b->most, &b->warp);
        b->one.make.in[0] = b->one.warp.out[0];
    } else {
        b->one.make.lent = -1; // features of several portraits are copied to one place
    }
    if (err == TACHY_OK)
        err = neural_tensors_there(&(struct neural_place){b->memory, device->mem, ordinal, b->log}, &b->one.make, b->most, &b->make);
    if (err == TACHY_OK)
        err = tachy_frame_pool_open_gpu(&b->pictures, b->gpu, TACHY_PIX_GRAY8, 3 * (int)sizeof(float) * b->one.side, b->one.side);
    if (err == TACHY_OK)
        tachy_frame_pool_account(b->pictures, b->memory);
    return err;
}

int neural_batch_open(struct tachy_stage *st, int most, struct neural_batch **out)
{
    struct task_device *device = st->task->devices->list;
    struct neural_batch *b = *out = calloc(1, sizeof(*b));
    if (!b)
        return TACHY_ERR_NOMEM;
    b->gpu = tachy_gpu_ref(device->gpu);
    b->memory = tachy_memory_ref(st->task->memory);
    b->log = st->task->log;
    b->one.stitch.lent = b->one.warp.lent = b->one.make.lent = -1;
    int err = tachy_device_enter(&b->gpu->device, b->log);
    if (err == TACHY_OK) {
        err = open_all(b, neural_of(st), most, device);
        if (err == TACHY_OK)
            err = tachy_gpu_timer_open(&b->times, &(struct tachy_gpu_timer_params){.profile = st->task->profile, .device = &b->gpu->device,
                                                                                   .stream = b->stream});
        tachy_device_leave(&b->gpu->device);
    }
    if (err < 0) {
        neural_batch_close(b);
        *out = NULL;
    }
    return err;
}

// ---- A run

static int copy_there(const struct neural_batch *b, void *to, const void *from, size_t bytes, bool from_host)
{
    const struct tachy_cu *cu = b->gpu->device.cu;
    int status = from_host ? cu->copy_to_device_async(tachy_cu_address(to), from, bytes, b->stream)
                           : cu->copy_on_device(tachy_cu_address(to), tachy_cu_address(from), bytes, b->stream);
    return tachy_cu_check(cu, status, b->log, "a copy");
}

// Queues what the network that takes keypoints needs for picture `i`. One that warps has one picture per run.
static int send(struct neural_batch *b, const struct neural_item *of, int i)
{
    struct family_net *warp = neural_warps(&b->one);
    struct tachy_tensor *feature = &warp->in[b->one.feature];
    const int slot = b->one.warp.engine ? 0 : i;
    float driving[TACHY_KEYPOINTS][3];
    memcpy(driving, of->placed, sizeof(driving));
    int err = neural_stitch(&b->one, of->look, driving);
    if (err == TACHY_OK && b->one.warp.engine)
        feature->data = of->features;
    else if (err == TACHY_OK)
        err = copy_there(b, device_picture(feature, slot).data, of->features, tachy_tensor_bytes(feature), false);
    if (err == TACHY_OK)
        err = copy_there(b, device_picture(&warp->in[b->one.source], slot).data, of->look->placed, sizeof(of->look->placed), true);
    return err < 0 ? err : copy_there(b, device_picture(&warp->in[b->one.driving], slot).data, driving, sizeof(driving), true);
}

// Queues the run of the network that warps for picture `i`.
static int warp_one(struct neural_batch *b, int i)
{
    const struct family_net *warp = &b->one.warp;
    struct tachy_tensor out = device_picture(&warp->out[0], i);
    return tachy_engine_run(warp->engine, warp->in, &out);
}

// Queues the run of the network that makes the pictures.
static int make_all(struct neural_batch *b, tachy_engine *engine, int pictures)
{
    const struct family_net *make = &b->one.make;
    struct tachy_tensor in[TACHY_MAX_IO], out[TACHY_MAX_IO];
    memcpy(in, make->in, sizeof(in));
    memcpy(out, make->out, sizeof(out));
    for (int i = 0; i < make->nb_in; i++)
        in[i].shape[0] = pictures;
    for (int i = 0; i < make->nb_out; i++)
        out[i].shape[0] = pictures;
    return tachy_engine_run(engine, in, out);
}

static int hand_out(struct neural_batch *b, struct neural_item *const of[], int n)
{
    const struct tachy_tensor *made = &b->one.make.out[0];
    int err = TACHY_OK;
    for (int i = 0; i < n && err == TACHY_OK; i++) {
        err = tachy_frame_pool_get(b->pictures, &of[i]->made);
        of[i]->side = b->one.side;
        if (err == TACHY_OK)
            err = copy_there(b, tachy_frame_writable(of[i]->made, 0), device_picture(made, i).data, tachy_tensor_bytes(made), false);
    }
    return err;
}

// Queues the largest run that is not larger than `n`; returns its pictures, or a negative code.
static int queue_run(struct neural_batch *b, struct neural_item *const of[], int n)
{
    struct sized e = {1, b->one.make.engine};
    int err = TACHY_OK;
    for (int k = b->nb_sizes - 1; k >= 0; k--)
        e = b->size[k].pictures <= n ? b->size[k] : e;
    for (int i = 0; i < e.pictures && err == TACHY_OK; i++) {
        err = send(b, of[i], i);
        if (err == TACHY_OK && b->one.warp.engine)
            err = warp_one(b, i);
    }
    if (err == TACHY_OK)
        err = make_all(b, e.engine, e.pictures);
    if (err == TACHY_OK)
        err = hand_out(b, of, e.pictures);
    return err < 0 ? err : e.pictures;
}

static int make(struct neural_batch *b, struct neural_item *const of[], int n)
{
    const struct tachy_cu *cu = b->gpu->device.cu;
    int err = TACHY_OK;
    for (int first = 0, pictures; first < n && err == TACHY_OK; first += pictures) {
        pictures = queue_run(b, of + first, n - first);
        err = TACHY_MIN(pictures, 0);
    }
    if (err == TACHY_OK)
        err = tachy_cu_check(cu, cu->event_record(b->done, b->stream), b->log, "an event");
    int end = err < 0 ? cu->stream_wait(b->stream) : cu->event_wait(b->done);
    return err < 0 ? err : tachy_cu_check(cu, end, b->log, "networks of a portrait");
}

// All items, whatever their task, keep their bytes where the first one's does.
static int make_some(struct neural_batch *b, struct tachy_stage *st, const struct tachy_piece pieces[], int n)
{
    struct neural_item *painted[MOST]; // by networks
    int nb = 0, err = TACHY_OK;
    for (int i = 0; i < n; i++) {
        struct neural_item *of = tachy_stage_item(tachy_stage_before(st, "keypoints"), pieces[i].item);
        tachy_frame_unref(&of->made); // of an item that was dropped
        if (of->on)
            painted[nb++] = of;
    }
    tachy_gpu_timer_begin(b->times, st->step, (struct tachy_prof_item){pieces[0].item->result.frame_id, pieces[0].item->stream});
    if (nb)
        err = make(b, painted, nb);
    tachy_gpu_timer_end(b->times, NULL);
    return err;
}

void neural_batch_run(struct neural_batch *b, struct tachy_stage *st, const struct tachy_piece pieces[], int n, int err[])
{
    const int entered = tachy_device_enter(&b->gpu->device, b->log);
    for (int first = 0, some; first < n; first += some) {
        some = TACHY_MIN(n - first, b->most);
        int all = entered < 0 ? entered : make_some(b, st, pieces + first, some);
        for (int i = 0; i < some; i++)
            err[first + i] = all;
    }
    if (entered == TACHY_OK)
        tachy_device_leave(&b->gpu->device);
}
