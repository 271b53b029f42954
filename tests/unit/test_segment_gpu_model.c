#include "test.h"

#include "pipeline/stage_save.h"

#include "base/clock.h"
#include "cuda/kernels.h"
#include "engine/engine_ops.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"
#include "media/device.h"
#include "pipeline/pipeline.h"

#include <tachy/run.h>
#include <tachy/settings.h>
#include <tachy/sink.h>
#include <tachy/source.h>
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
    usleep(50); // what asking for a run takes
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

// ---- Streams

struct way {
    const char *mode;
    bool on_gpu; // decoded frames are
    int workers, streams, eyes, frames, devices;
    bool flat;
    int batch; // pictures a run of the host's engine; 0: one
};

enum { CARDS = 3, IN_A_ROW = 7 }; // frames on one device

struct guest {
    const struct way *way;
    tachy_stream *s;
    tachy_frame_pool *pool[CARDS];
    pthread_t thread;
};

static void *feed_main(void *arg)
{
    struct guest *g = arg;
    for (int i = 0; i < g->way->frames; i++) {
        tachy_frame *f = NULL;
        if (tachy_frame_pool_get(g->pool[i / IN_A_ROW % g->way->devices], &f) < 0)
            break;
        draw(f, i);
        int err = tachy_stream_push(g->s, f);
        tachy_frame_unref(&f);
        if (err < 0)
            break;
    }
    tachy_stream_push(g->s, NULL);
    return NULL;
}

static void pull_all(struct guest *g)
{
    const struct way *way = g->way;
    struct pair state[2] = {first, first};
    for (int n = 0; n < way->frames; n++) {
        tachy_frame *f = NULL;
        const struct tachy_result *r;
        int err = tachy_stream_pull(g->s, &f, &r);
        CHECK_INT(err, TACHY_OK);
        if (err < 0)
            return;
        CHECK_INT(r->frame_id, n);
        CHECK_INT(r->eyes, way->eyes);
        int want[2];
        for (int eye = 0; eye < way->eyes; eye++) {
            want[eye] = mask_of(state, n, eye, way->flat);
            CHECK(smooths || r->mask[eye].data[0] == want[eye]); // test_composite covers the effect of smoothing
        }
        if (f)
            CHECK(f->data[0][0] == (strcmp(way->mode, "mask") ? byte_of(n, 0) : want[0]) || (smooths && !strcmp(way->mode, "mask")));
        tachy_frame_unref(&f);
    }
    CHECK_INT(tachy_stream_pull(g->s, NULL, NULL), TACHY_ERR_EOF);
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

static void open_guest(struct guest *g, const struct way *way, tachy_pipeline *p, tachy_task *t, struct tachy_gpu **gpu)
{
    struct tachy_video_info in = video;
    in.mem = way->on_gpu ? TACHY_DEVICE : TACHY_HOST;
    in.stereo = way->eyes == 2 ? TACHY_STEREO_SBS : TACHY_STEREO_MONO;
    g->way = way;
    for (int i = 0; i < way->devices; i++)
        CHECK_INT(tachy_frame_pool_open_gpu(&g->pool[i], way->on_gpu ? gpu[i] : NULL, TACHY_PIX_NV12, W, H), TACHY_OK);
    CHECK_INT(tachy_pipeline_join(p, &g->s, tachy_stream_params(.task = t, .input = in, .window = 32)), TACHY_OK);
    pthread_create(&g->thread, NULL, feed_main, g);
}

static void close_guest(struct guest *g)
{
    pthread_join(g->thread, NULL);
    tachy_stream_leave(&g->s);
    for (int i = 0; i < CARDS; i++)
        tachy_frame_pool_close(&g->pool[i]);
}

// Frames on a device are processed there; host frames of a recurrent model go where the stream's state is.
static void check_shares(const tachy_task *t, const struct way *way)
{
    struct tachy_gpu_share share[TACHY_MAX_GPUS];
    int used = 0, all = 0;
    CHECK_INT(tachy_task_gpus(t, share), way->devices);
    for (int i = 0; i < way->devices; i++) {
        used += share[i].frames > 0;
        all += (int)share[i].frames;
    }
    CHECK_INT(all, way->streams * way->frames);
    CHECK_INT(used, way->on_gpu ? way->devices : TACHY_MIN(way->devices, way->streams));
}

static void run_pipeline(const struct way *way, tachy_task *t, struct tachy_gpu **gpu)
{
    enum { MOST = 3 };
    tachy_pipeline *p = NULL;
    struct guest g[MOST] = {0};
    const struct tachy_pipeline_params params = {.workers = way->workers, .batch = way->batch, .log = &log_errors};
    CHECK_INT(tachy_pipeline_open(&p, &params), TACHY_OK);
    for (int i = 0; i < way->streams; i++)
        open_guest(&g[i], way, p, t, gpu);
    for (int i = 0; i < way->streams; i++)
        pull_all(&g[i]);
    for (int i = 0; i < way->streams; i++)
        close_guest(&g[i]);
    tachy_pipeline_close(&p);
}

static void run(const struct way *way)
{
    list(way->devices);
    tachy_task *t = open_task(way->flat ? "flat" : "rec", way->mode, "all", "0.5");
    struct tachy_gpu *gpu[CARDS] = {0};
    int before = runs;
    bool there = tachy_engine_takes_stream(provider);
    CHECK_INT(opened, there ? way->devices : 1); // an engine each before the first frame
    for (int i = 0; i < way->devices; i++)
        CHECK_INT(tachy_gpu_open(&gpu[i], i, NULL, &log_errors), TACHY_OK);
    run_pipeline(way, t, gpu);
    if (way->on_gpu || (there && !way->flat))
        check_shares(t, way);
    for (int i = 0; i < way->devices; i++)
        tachy_gpu_unref(&gpu[i]);
    tachy_task_close(&t);
    list(1);
    CHECK(way->batch || !strcmp(provider, "tachy") || runs - before == way->streams * way->eyes * way->frames);
    nothing_is_left();
}

TEST(states_stay_on_the_device)
{
    static const char *const modes[] = {"mask", "cutout", "json"};
    for (int i = 0; i < 12; i++)
        run(&(struct way){modes[i % 3], i & 2, i % 4, 1 + i % 3, 1 + (i / 3) % 2, 40, 1, false, 0});
}

TEST(states_go_with_their_frames)
{
    for (int i = 0; i < 8; i++)
        run(&(struct way){i & 1 ? "cutout" : "mask", i & 2, 2 * (i % 3), 1 + i % 3, 1 + (i / 4) % 2, 40, 2 + (i & 1),
                          false, 0});
}

TEST(a_model_on_every_device)
{
    for (int i = 0; i < 8; i++)
        run(&(struct way){i & 1 ? "cutout" : "mask", i & 2, 1 + i % 4, 1 + i % 2, 1 + (i / 4) % 2, 60, 1 + i % 3,
                          true, 0});
}

// The frames that a worker takes at once are a batch on the device: nothing is gathered on the host, whatever --batch says.
TEST(batches_on_the_device)
{
    provider = "tachy";
    for (int i = 0; i < 4 || (!batches && i < 60); i++) // until frames waited for a worker
        run(&(struct way){i & 1 ? "cutout" : "mask", i & 2, 1 + i % 2, 1 + i % 3, 1 + (i / 4) % 2, 60, 1 + i % 2, true,
                          i & 1 ? 4 : 0});
    CHECK(batches > 0);
    provider = "cuda-ort";
}

// Workers of the next input take the engines for batches that those of the input before have left.
TEST(engines_outlive_an_input)
{
    const struct way way = {"mask", true, 1, 1, 1, 24, 2, true, 0};
    struct tachy_gpu *gpu[CARDS] = {0};
    const int before = opened_for_batches;
    provider = "tachy";
    list(way.devices);
    tachy_task *t = open_task("flat", way.mode, "all", "0.5");
    for (int i = 0; i < way.devices; i++)
        CHECK_INT(tachy_gpu_open(&gpu[i], i, NULL, &log_errors), TACHY_OK);
    for (int input = 0; input < 3; input++) {
        run_pipeline(&way, t, gpu);
        CHECK_INT(opened_for_batches - before, way.devices);
    }
    tachy_pipeline *p = NULL;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = 1, .log = &log_errors)), TACHY_OK);
    for (int input = 0; input < 3; input++) {
        struct guest g = {0};
        open_guest(&g, &way, p, t, gpu);
        pull_all(&g);
        close_guest(&g);
        CHECK_INT(opened_for_batches - before, way.devices);
    }
    tachy_pipeline_close(&p);
    for (int i = 0; i < way.devices; i++)
        tachy_gpu_unref(&gpu[i]);
    tachy_task_close(&t);
    list(1);
    nothing_is_left();
    provider = "cuda-ort";
}

// Without the memory for a batch smaller ones run, and the masks are the same.
TEST(a_batch_that_fits)
{
    static const int rooms[][2] = {{4, 256}, {256, 4}, {256, 2}, {3, 2}, {1, 256}, {256, 1}};
    provider = "tachy";
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(rooms); i++) {
        const int most = TACHY_MIN(rooms[i][0], rooms[i][1]);
        batches = largest = 0;
        room_open = rooms[i][0], room_run = rooms[i][1];
        for (int k = 0; k < 4 || (most > 1 && !batches && k < 60); k++)
            run(&(struct way){k & 1 ? "cutout" : "mask", false, 1 + k % 2, 1 + k % 3, 1, 60, 1 + k % 2, true, 0});
        CHECK(most > 1 ? batches > 0 : !batches);
        CHECK_INT(largest, most);
    }
    room_open = room_run = 256;
    provider = "cuda-ort";
}

// The model's picture comes to the host, and the mask goes to the device.
TEST(a_model_on_the_host)
{
    static const char *const modes[] = {"mask", "cutout", "json"};
    provider = "openvino";
    for (int i = 0; i < 12; i++) {
        bool flat = i & 1;
        smooths = i % 5 > 2;
        refines = i % 4 == 3;
        run(&(struct way){modes[i % 3], i & 2, i % 4, 1 + i % 2, 1 + (i / 3) % 2, 40, 1 + (i / 2) % 3, flat,
                          flat ? i / 2 : 0});
    }
    provider = "cuda-ort";
    smooths = refines = false;
}

// ---- The light ratio

// The model's time is that of its runs on each device, one per frame, on the stream that all workers share.
TEST(the_light_ratio_counts_the_model)
{
    struct tachy_summary s;
    tachy_source *source = NULL;
    tachy_sink *sink = NULL;
    list(2);
    setenv("XDG_CACHE_HOME", folder, 1);
    tachy_task *t = open_task("flat", "cutout", "all", "0.5");
    CHECK_INT(tachy_source_open(&source, tachy_source_params(.url = "null:64x32@25,frames=40")), TACHY_OK);
    CHECK_INT(tachy_sink_open(&sink, tachy_sink_params(.url = "-", .format = "null")), TACHY_OK);
    CHECK_INT(tachy_run(tachy_run_params(.task = t, .source = source, .sink = sink, .workers = 2, .calibrate = true,
                                         .log = &log_errors), &s), TACHY_OK);
    tachy_sink_close(&sink);
    tachy_source_close(&source);
    tachy_task_close(&t);
    list(1);
    remove_one("tachy/light.json");
    remove_one("tachy/gpu-rates.json");
    remove_one("tachy");
    CHECK(s.frames == 40 && s.nb_gpus == 2 && s.light_ratio > 0);
    for (int i = 0; i < 2; i++) {
        const struct tachy_resource_stats *r = s.gpus[i].resources;
        CHECK(r[TACHY_RESOURCE_SMS].light_ms > RUN_NS * 1e-6 && r[TACHY_RESOURCE_SMS].light_ms < 4 * RUN_NS * 1e-6);
        CHECK(r[TACHY_RESOURCE_TO_HOST].light_ms > 0 && r[TACHY_RESOURCE_TO_DEVICE].light_ms > 0);
        CHECK(r[TACHY_RESOURCE_NVDEC].light_ms == 0);
    }
    nothing_is_left();
}

// ---- The steps by themselves

struct bench {
    tachy_task *t;
    struct tachy_memory *memory;
    void *worker[TACHY_MAX_STAGES], *state;
    struct tachy_stage *model; // whose state it is
};

static void open_bench(struct bench *b, const char *model, int eyes)
{
    list(1);
    struct tachy_video_info out, in = video;
    in.stereo = eyes == 2 ? TACHY_STEREO_SBS : TACHY_STEREO_MONO;
    *b = (struct bench){.t = open_task(model, "mask", "0", "0.5")};
    CHECK_INT(tachy_memory_open(&b->memory, &(struct tachy_memory_params){.log = &log_errors}), TACHY_OK);
    b->t->memory = b->memory;
    CHECK_INT(tachy_stages_start(b->t, &in, &out), TACHY_OK);
    CHECK_INT(tachy_task_worker_open(b->t, b->worker), TACHY_OK);
    b->model = tachy_stage_save_of(b->t);
    CHECK_INT(b->model->ops->state_open(b->model, &b->state), TACHY_OK);
}

static void close_bench(struct bench *b)
{
    b->model->ops->state_close(b->state);
    tachy_task_worker_close(b->t, b->worker);
    tachy_task_close(&b->t);
    tachy_memory_close(&b->memory);
    nothing_is_left();
}

// Frame `id` through the model from `state`; each region's mask.
struct stepped {
    struct bench *b;
    int *mask;
};

static void look(struct tachy_stage_pass *p, int region)
{
    const struct stepped *s = p->user;
    struct tachy_stage_tensors t;
    const struct tachy_piece piece = {p->items[0], region};
    void *worker = tachy_stage_worker(s->b->model, p->worker);
    CHECK_INT(s->b->model->ops->tensors(s->b->model, worker, &piece, &t), TACHY_OK); // also waits for the mask
    CHECK_INT(t.n_in, 3);
    CHECK_INT(t.n_out, 4);
    const float *h = t.out[OUT_H].data, *k = t.out[OUT_K].data, *y = t.out[OUT_Y].data;
    CHECK(h[0] + k[0] == y[0]); // states are fetched with the rest
    s->mask[region] = p->items[0]->result.mask[region].data[0];
}

static void step(struct bench *b, void *state, int64_t id, bool anew, int mask[2])
{
    struct tachy_item one = {.priv = calloc(1, b->t->item_size), .anew = anew}, *item = &one;
    void *states[TACHY_MAX_STAGES] = {0};
    int err = TACHY_OK;
    CHECK_INT(tachy_frame_new(&one.in, &(struct tachy_frame_params){.format = TACHY_PIX_NV12, .width = W, .height = H}),
              TACHY_OK);
    draw(one.in, id);
    one.result.frame_id = id;
    states[b->model->index] = state;
    struct stepped s = {b, mask};
    struct tachy_stage_pass p = {.task = b->t, .worker = b->worker, .state = states, .items = &item, .n = 1, .err = &err,
                                 .region_done = look, .user = &s};
    tachy_stage_pass(&p, 0, tachy_task_copies(b->t)->index + 1);
    CHECK_INT(err, TACHY_OK);
    tachy_frame_unref(&one.in);
    tachy_task_item_close(b->t, one.priv);
    free(one.priv);
}

TEST(states_are_saved_and_loaded)
{
    for (int eyes = 1; eyes <= 2; eyes++) {
        struct bench b;
        void *data[2] = {0}, *other;
        size_t size[2];
        int one[2], two[2];
        open_bench(&b, "rec", eyes);
        const struct tachy_stage_ops *ops = b.model->ops;
        CHECK_INT(ops->state_save(b.state, &data[0], &size[0]), TACHY_OK);
        CHECK_INT(size[0], (sizeof(int32_t) + (8 + 16) * sizeof(float)) * (size_t)eyes);
        const int32_t *warm_up = data[0]; // as the host's: none, zeros, then the start of the other
        const float *f = (const float *)(warm_up + 1);
        CHECK_INT(*warm_up, 0);
        CHECK(f[0] == 0 && f[7] == 0 && f[8] == START && f[23] == START);
        for (int i = 0; i < 7; i++)
            step(&b, b.state, i, false, one);
        CHECK_INT(ops->state_save(b.state, &data[1], &size[1]), TACHY_OK);
        CHECK(size[1] == size[0] && memcmp(data[0], data[1], size[0]));
        CHECK_INT(ops->state_open(b.model, &other), TACHY_OK);
        CHECK_INT(ops->state_load(other, data[1], size[1] - 1), TACHY_ERR_FORMAT);
        CHECK_INT(ops->state_load(other, data[1], size[1]), TACHY_OK);
        struct pair state[2] = {first, first};
        for (int i = 0; i < 12; i++) {
            int want[2];
            for (int eye = 0; eye < eyes; eye++)
                want[eye] = mask_of(state, i, eye, false);
            if (i < 7)
                continue;
            step(&b, b.state, i, false, one);
            step(&b, other, i, false, two);
            for (int eye = 0; eye < eyes; eye++) {
                CHECK_INT(one[eye], want[eye]);
                CHECK_INT(two[eye], want[eye]);
            }
        }
        state[0] = state[1] = first; // after a discontinuity a frame is like the first one
        step(&b, other, 3, true, two);
        for (int eye = 0; eye < eyes; eye++)
            CHECK_INT(two[eye], mask_of(state, 3, eye, false));
        ops->state_close(other);
        for (int i = 0; i < 2; i++)
            free(data[i]);
        close_bench(&b);
    }
}

// The network of the card `warm` sees a first picture three times, also after a discontinuity and from a saved state.
TEST(a_first_picture_warms_up)
{
    enum { WARM_UP = 2 };
    for (int eyes = 1; eyes <= 2; eyes++) {
        struct bench b;
        void *fresh, *other;
        size_t size;
        open_bench(&b, "warm", eyes);
        const struct tachy_stage_ops *ops = b.model->ops;
        CHECK_INT(ops->state_save(b.state, &fresh, &size), TACHY_OK);
        CHECK_INT(*(const int32_t *)fresh, WARM_UP);
        CHECK_INT(ops->state_open(b.model, &other), TACHY_OK);
        CHECK_INT(ops->state_load(other, fresh, size), TACHY_OK);
        struct pair state[2] = {first, first};
        for (int i = 1; i < 8; i++) {
            int want[2], one[2], two[2];
            bool anew = i == 4;
            for (int eye = 0; eye < eyes; eye++) {
                state[eye] = anew ? first : state[eye];
                for (int k = 0; k < (i == 1 || anew ? WARM_UP : 0); k++)
                    mask_of(state, i, eye, false);
                want[eye] = mask_of(state, i, eye, false);
            }
            step(&b, b.state, i, anew, one);
            step(&b, other, i, anew, two);
            for (int eye = 0; eye < eyes; eye++) {
                CHECK_INT(one[eye], want[eye]);
                CHECK_INT(two[eye], want[eye]);
            }
        }
        ops->state_close(other);
        free(fresh);
        close_bench(&b);
    }
}

// The engines count in the share of the memory; if they do not fit, an error comes before the first frame.
TEST(engines_are_counted)
{
    for (int i = 0; i < 2; i++) {
        static const char *const fractions[] = {"0.5", "0.05"}; // of 16 GiB
        struct tachy_memory *memory;
        struct tachy_memory_stats stats;
        struct tachy_video_info out;
        list(2);
        tachy_task *t = open_task("flat", "mask", "0,1", fractions[i]);
        CHECK_INT(tachy_memory_open(&memory, &(struct tachy_memory_params){.log = NULL}), TACHY_OK);
        t->memory = memory;
        CHECK_INT(tachy_stages_start(t, &video, &out), i ? TACHY_ERR_NOMEM : TACHY_OK);
        tachy_memory_read(memory, &stats);
        for (int gpu = 0; gpu < 2 && !i; gpu++)
            CHECK(stats.used[tachy_mem_of_gpu(gpu)][TACHY_MEMORY_TENSORS] >= TAKEN);
        CHECK(strstr(last, "takes 900 MiB there, more than gpu.memory_fraction") ? i : !i);
        tachy_task_close(&t);
        tachy_memory_close(&memory);
        list(1);
        nothing_is_left();
    }
}

TEST(opens)
{
    snprintf(folder, sizeof(folder), "/tmp/test_segment_gpu_model-XXXXXX");
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
    char path[128];
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

TEST_MAIN(TEST_CASE(opens), TEST_CASE(states_stay_on_the_device), TEST_CASE(states_go_with_their_frames),
          TEST_CASE(a_model_on_every_device), TEST_CASE(batches_on_the_device), TEST_CASE(engines_outlive_an_input),
          TEST_CASE(a_batch_that_fits),
          TEST_CASE(the_light_ratio_counts_the_model), TEST_CASE(a_model_on_the_host),
          TEST_CASE(engines_are_counted), TEST_CASE(states_are_saved_and_loaded), TEST_CASE(a_first_picture_warms_up),
          TEST_CASE(cleans))
