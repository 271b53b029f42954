#pragma once
#include "test.h"

#include "base/clock.h"
#include "cuda/kernels.h"
#include "engine/engine_ops.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"
#include "media/device.h"

#include <tachy/settings.h>
#include <tachy/task.h>
#include <unistd.h>

// segment with the model on the device too, over a driver without one (fakes/): the provider cuda-ort is an engine of
// this file that works on the caller's stream, recurrent or without states. Every tensor records when it was ready on
// its stream, and every reader must have been ordered after that, or have waited. Under another provider's name the
// engine is the host's, also in batches. tests/gpu/run uses a real model on a device.

enum { W = 64, H = 32, SIDE = 16, STEP = 3, KERNEL_NS = 30000, RUN_NS = 80000, ANEW_EVERY = 13, START = 5 };

static void *symbol(const char *name) { return fake_symbol("libcuda.so.1", name); }

static struct fake_cuda_counts *(*counts)(void);
static int (*launch)(cuda_stream s, uint64_t ns);
static uint64_t (*busy)(cuda_stream s);
static void (*list)(int gpus);
static void (*others)(size_t bytes);

static uint8_t *at(cuda_address a) { return (uint8_t *)(uintptr_t)a; }

// ---- What a tensor holds: a value, and when it is there. Numbers below 2^24, which a float holds.

enum { TENSOR_FLOATS = 3 };
static uint64_t origin_us; // long before the first; what a state begins with counts as ready

// No stream: the host, which has written it at once.
static void put(void *data, int value, cuda_stream written_on)
{
    uint64_t us = written_on ? busy(written_on) / 1000 - origin_us : 0;
    float *f = data;
    f[0] = (float)value;
    f[1] = (float)(us & 0xffffff);
    f[2] = (float)(us >> 24);
}

static _Atomic int early, elsewhere; // reads that were not ordered after the write; tensors that lie elsewhere

static int get(const void *data, cuda_stream read_on)
{
    const float *f = data;
    uint64_t us = (uint64_t)f[1] + ((uint64_t)f[2] << 24);
    early += (read_on ? busy(read_on) : tachy_now_ns()) / 1000 - origin_us < us;
    return (int)f[0];
}

// ---- The kernels

static int run_preprocess(const struct tachy_cuda_preprocess *a, cuda_stream stream)
{
    launch(stream, KERNEL_NS);
    for (int i = 0; i < a->frames; i++)
        put(at(a->frame[i].dst), *at(a->frame[i].plane[0]), stream);
    return CUDA_OK;
}

static int run_border(const struct tachy_cuda_pre_border *a, cuda_stream stream) { return CUDA_OK; }

static int run_prob(const struct tachy_cuda_prob *a, cuda_stream stream)
{
    for (int i = 0; i < a->count; i++)
        *at(a->each[i]) = (uint8_t)(get(at(a->src + 4 * (cuda_address)(i * a->next_src)), stream) % 251);
    launch(stream, KERNEL_NS);
    return CUDA_OK;
}

static int run_composite(const struct tachy_cuda_composite *a, cuda_stream stream)
{
    for (int i = 0; i < a->count; i++) {
        const struct tachy_cuda_composite_frame *f = &a->frame[i];
        *at(f->out[0]) = a->own ? *at(f->in[0]) : *at(f->eye[0].mask);
        ++*(uint32_t *)(void *)at(f->counted);
    }
    launch(stream, KERNEL_NS);
    return CUDA_OK;
}

// Guides, and their use, leave the mask unchanged.
static int run_guide(const struct tachy_cuda_guide *a, cuda_stream stream)
{
    for (int i = 0; i < a->count; i++)
        *at(a->eye[i].guide) = *at(a->eye[i].luma);
    launch(stream, KERNEL_NS);
    return CUDA_OK;
}
static int run_refine(const struct tachy_cuda_refine *a, cuda_stream stream) { return CUDA_OK; }

const struct tachy_cuda_kernels *tachy_cuda_kernels(void)
{
    static const struct tachy_cuda_kernels all = {.composite = run_composite, .prob = run_prob,
                                                  .preprocess = run_preprocess, .preprocess_border = run_border,
                                                  .guide = run_guide, .refine = run_refine};
    return &all;
}
const char *tachy_cuda_refuses(const struct tachy_device *d, char why[256]) { return NULL; }
int tachy_cuda_need(const struct tachy_device *d, const struct tachy_log *log) { return TACHY_OK; }

// ---- The engine: h' and k' from h, k and the picture; the mask is their sum. Without states it is their value after
// one picture.

enum { TAKEN = 900 << 20, OTHERS = 1 << 30 }; // bytes: that an engine takes, and other programs
struct recurrent {
    int gpu, batch;
    bool flat;
};
enum { IN_H, IN_X, IN_K, OUT_K = 0, OUT_MORE, OUT_H, OUT_Y };

static const int64_t shapes[][4] = {{1, 8}, {1, SIDE, SIDE, 1}, {1, 4, 4}, {1, 2000}};
static _Atomic int runs, opened, batches; // batches: runs of several pictures on a device
static _Atomic int opened_for_batches;    // engines so far, on a device
static int room_open = 256, room_run = 256; // pictures of an engine that there is memory for; of its run
static _Atomic int largest;                 // that ran
static unsigned asking_us = 50;             // that asking for a run takes

static struct tachy_io io_of(const char *name, const int64_t shape[4])
{
    struct tachy_io io = {.name = name, .spec = {.dtype = TACHY_F32}};
    while (io.spec.rank < 4 && shape[io.spec.rank]) {
        io.spec.shape[io.spec.rank] = shape[io.spec.rank];
        io.spec.rank++;
    }
    return io;
}

static int recurrent_open(tachy_engine *e)
{
    struct recurrent *r = (void *)e->priv;
    r->gpu = e->params.gpu;
    r->flat = strstr(e->params.model_path, "flat");
    r->batch = TACHY_MAX(e->params.batch_max, 1);
    e->stream = e->params.gpu_stream;
    e->on_device = e->stream != NULL;
    others(OTHERS + (size_t)++opened * TAKEN);
    opened_for_batches += e->stream && r->batch > 1;
    if (r->batch > room_open)
        return TACHY_ERR_NOMEM;
    snprintf(e->version, sizeof(e->version), "test");
    if (r->flat) {
        e->n_in = e->n_out = 1;
        e->in[0] = io_of("x", shapes[1]);
        e->out[0] = io_of("y", shapes[1]);
        e->in[0].spec.shape[0] = e->out[0].spec.shape[0] = r->batch;
        return TACHY_OK;
    }
    e->n_in = 3;
    e->n_out = 4;
    e->in[IN_H] = io_of("h_in", shapes[0]);
    e->in[IN_X] = io_of("x", shapes[1]);
    e->in[IN_K] = io_of("k_in", shapes[2]);
    e->out[OUT_K] = io_of("k_out", shapes[2]);
    e->out[OUT_MORE] = io_of("more", shapes[3]);
    e->out[OUT_H] = io_of("h_out", shapes[0]);
    e->out[OUT_Y] = io_of("y", shapes[1]);
    return TACHY_OK;
}

struct pair {
    int h, k;
};

static struct pair next_of(struct pair p, int x)
{
    int h = (p.h * 7 + x + 1) % 9973;
    return (struct pair){h, (p.k * 3 + h + 2) % 9973};
}

static const struct pair first = {0, START};

static _Atomic int on_gpu[TACHY_MAX_GPUS], most_on_gpu; // runs that are being queued

// The host makes the mask of probabilities, the device's kernel of this file of the sum itself.
static void put_mask(tachy_engine *e, float *to, struct pair after)
{
    put(to, after.h + after.k, e->stream);
    if (!e->stream)
        *to = (float)((after.h + after.k) % 251) / 255;
}

static int flat_run(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    const struct recurrent *r = (void *)e->priv;
    for (int i = 0; i < r->batch; i++) {
        const float *from = (const float *)in[0].data + i * SIDE * SIDE;
        struct pair after = next_of(first, get(from, e->stream));
        if (e->stream)
            launch(e->stream, RUN_NS);
        put_mask(e, (float *)out[0].data + i * SIDE * SIDE, after);
    }
    return TACHY_OK;
}

static int queue(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    struct pair before = {get(in[IN_H].data, e->stream), get(in[IN_K].data, e->stream)};
    struct pair after = next_of(before, get(in[IN_X].data, e->stream));
    if (e->stream)
        launch(e->stream, RUN_NS);
    put(out[OUT_H].data, after.h, e->stream);
    put(out[OUT_K].data, after.k, e->stream);
    put_mask(e, out[OUT_Y].data, after);
    memset(out[OUT_MORE].data, 1, tachy_tensor_bytes(&out[OUT_MORE]));
    return TACHY_OK;
}

static int recurrent_run(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    const struct recurrent *r = (void *)e->priv;
    if (r->batch > room_run)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < e->n_in + e->n_out; i++) {
        const struct tachy_tensor *t = i < e->n_in ? &in[i] : &out[i - e->n_in];
        elsewhere += e->stream ? t->mem != TACHY_DEVICE || t->device != r->gpu : t->mem == TACHY_DEVICE;
    }
    most_on_gpu |= on_gpu[r->gpu]++ > 0 && e->stream;
    runs++;
    batches += e->stream && r->batch > 1;
    largest = TACHY_MAX(largest, e->stream ? r->batch : 0);
    if (asking_us)
        usleep(asking_us);
    int err = r->flat ? flat_run(e, in, out) : queue(e, in, out);
    on_gpu[r->gpu]--;
    return err;
}

static void recurrent_close(tachy_engine *e) { others(OTHERS + (size_t)--opened * TAKEN); }

const struct tachy_engine_ops tachy_engine_ep = {.name = "", .needs_model = true, .priv_size = sizeof(struct recurrent),
                                                 .open = recurrent_open, .run = recurrent_run,
                                                 .close = recurrent_close};
// Under this name groups of pictures are one run.
const struct tachy_engine_ops tachy_engine_tachy = {.name = "tachy", .needs_model = true, .priv_size = sizeof(struct recurrent),
                                                    .open = recurrent_open, .run = recurrent_run,
                                                    .close = recurrent_close};
bool tachy_engine_takes_stream(const char *name) { return name && (!strcmp(name, "cuda-ort") || !strcmp(name, "tachy")); }

// ---- The task

static char folder[64];
static char last[256]; // message
static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    snprintf(last, sizeof(last), "%s", msg);
}
static const struct tachy_log log_errors = {.fn = on_message, .max_level = TACHY_LOG_WARN};

static const char *provider = "cuda-ort";
static bool smooths, refines;

static void remove_one(const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    remove(path);
}

static tachy_task *open_task(const char *model, const char *mode, const char *gpus, const char *fraction)
{
    tachy_settings *set = NULL;
    tachy_task *t = NULL;
    CHECK_INT(tachy_settings_new(&set, NULL), TACHY_OK);
    const char *const with[][2] = {{"model.name", model}, {"model.dir", folder}, {"model.provider", provider},
                                   {"segment.mode", mode}, {"gpu.device", "cuda"}, {"gpu.ids", gpus},
                                   {"segment.smooth", smooths ? "0.5" : "0"},
                                   {"segment.refine", refines ? "yes" : "no"}, {"gpu.memory_fraction", fraction}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(with); i++)
        CHECK_INT(tachy_settings_set(set, with[i][0], with[i][1], "test"), TACHY_OK);
    CHECK_INT(tachy_task_open(&t, "segment", set, &log_errors), TACHY_OK);
    tachy_settings_free(&set);
    return t;
}

static const struct tachy_video_info video = {.format = TACHY_PIX_NV12, .width = W, .height = H,
                                              .time_base = {1, 250}, .fps = {25, 1}};

static uint8_t byte_of(int64_t id, int eye) { return (uint8_t)(id * STEP + 5 + eye * 60); }

static void draw(tachy_frame *f, int64_t id)
{
    for (int eye = 0; eye < 2; eye++)
        tachy_frame_writable(f, 0)[eye * (W / 2)] = byte_of(id, eye);
    f->id = id;
    f->pts = id * 10;
    f->discontinuity = id && id % ANEW_EVERY == 0;
}

// The mask's first byte after frame `id`, by a loop.
static int mask_of(struct pair state[2], int64_t id, int eye, bool flat)
{
    if (id % ANEW_EVERY == 0 || flat)
        state[eye] = first;
    state[eye] = next_of(state[eye], byte_of(id, eye));
    return (state[eye].h + state[eye].k) % 251;
}

static void nothing_is_left(void)
{
    struct fake_cuda_counts *c = counts();
    CHECK_INT(c->allocations, 0);
    CHECK_INT(c->events, 0);
    CHECK_INT(c->streams, 0);
    CHECK_INT(c->contexts, 0);
    CHECK_INT(opened, 0);
    CHECK_INT(early, 0);
    CHECK_INT(elsewhere, 0);
    CHECK_INT(most_on_gpu, 0); // one run is queued at a time
}

TEST(opens)
{
    snprintf(folder, sizeof(folder), "/tmp/test_segment_gpu-XXXXXX");
    CHECK(mkdtemp(folder));
    counts = (__typeof__(counts))symbol("fake_cuda_count");
    launch = (__typeof__(launch))symbol("fake_cuda_launch");
    busy = (__typeof__(busy))symbol("fake_cuda_busy");
    list = (__typeof__(list))symbol("fake_cuda_list");
    others = (__typeof__(others))symbol("fake_cuda_others");
    origin_us = tachy_now_ns() / 1000 - 100000 * (uint64_t)1000000;
    test_write(folder, "rec.json", "{\"name\": \"rec\", \"task\": \"segment\", \"file\": \"rec.onnx\", \"input\": {\"name\": \"x\", "
               "\"width\": 16, \"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"output\": {\"name\": \"y\", "
               "\"meaning\": \"probability\"}, \"state\": [{\"input\": \"h_in\", \"output\": \"h_out\", \"shape\": [1, 8]}, "
               "{\"input\": \"k_in\", \"output\": \"k_out\", \"shape\": [1, 4, 4], \"start\": 5}]}");
    test_write(folder, "flat.json", "{\"name\": \"flat\", \"task\": \"segment\", \"file\": \"flat.onnx\", \"input\": {\"width\": 16, "
               "\"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"output\": {\"meaning\": "
               "\"probability\"}}");
    test_write(folder, "warm.json", "{\"name\": \"warm\", \"task\": \"segment\", \"file\": \"rec.onnx\", \"input\": {\"name\": \"x\", "
               "\"width\": 16, \"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"output\": {\"name\": \"y\", "
               "\"meaning\": \"probability\"}, \"state\": [{\"input\": \"h_in\", \"output\": \"h_out\", \"shape\": [1, 8]}, "
               "{\"input\": \"k_in\", \"output\": \"k_out\", \"shape\": [1, 4, 4], \"start\": 5}], \"warm_up\": 2}");
    test_write(folder, "rec.onnx", "no model"); // nobody reads them
    test_write(folder, "flat.onnx", "no model");
}

TEST(cleans)
{
    static const char *const names[] = {"rec.json", "rec.onnx", "flat.json", "flat.onnx", "warm.json"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++)
        remove_one(names[i]);
    rmdir(folder);
}
