#include "test.h"

#include "animate/face.h"
#include "cuda/kernels.h"
#include "engine/engine_ops.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"
#include "media/device.h"
#include "pipeline/pipeline.h"
#include "ref/ref_mesh.h"
#include "ref/ref_paste.h"

#include <math.h>
#include <stdatomic.h>
#include <tachy/settings.h>
#include <unistd.h>

// animate on a GPU over a driver without one (fakes/): the networks are engines of this file that see the same face in every
// picture, and lean it by how bright the picture is; the networks of --backend neural are engines that pass on what they are given; the
// kernels are their C twins. The pictures are those of the CPU's form. With true networks and kernels: bench/gpu_animate.

enum { W = 96, H = 64, SIDE = 16, PW = 128, PH = 112, FRAMES = 12, CARDS = 2 };

static void *symbol(const char *name) { return fake_symbol("libcuda.so.1", name); }

static struct fake_cuda_counts *(*counts)(void);
static int (*launch)(cuda_stream s, uint64_t ns);
static void (*list)(int gpus);
static int (*fail_at)(int n, int status, int how);
static const char *(*failed)(void);

static uint8_t *at(cuda_address a) { return (uint8_t *)(uintptr_t)a; }

// ---- The kernels

static int run_preprocess(const struct tachy_cuda_preprocess *a, cuda_stream stream)
{
    for (int i = 0; i < a->frames; i++)
        *(float *)(void *)at(a->frame[i].dst) = *at(a->frame[i].plane[0]);
    return launch(stream, 0);
}

// A crop that leans has its grid first.
static int run_turn(const struct tachy_cuda_pre_turn *a, cuda_stream stream)
{
    for (int i = 0; i < a->frames; i++)
        *(float *)(void *)at(a->frame[i].dst) = *(const float *)(const void *)at(a->frame[i].grid);
    return launch(stream, 0);
}

static int run_border(const struct tachy_cuda_pre_border *a, cuda_stream stream) { return CUDA_OK; }

// The last triangle that covers the pixel, -1: none; and the position in the texture.
static int covering(const struct tachy_cuda_mesh *a, int x, int y, float *u, float *v)
{
    const struct tachy_mesh_corner *corner = (const void *)at(a->corner);
    const int32_t *triangle = (const void *)at(a->triangle);
    for (int t = a->triangles - 1; t >= 0; t--) {
        const int32_t *k = triangle + 3 * t;
        const struct tachy_mesh_corner *three[3] = {corner + k[0], corner + k[1], corner + k[2]};
        if (tachy_ref_mesh_at(three, x, y, u, v))
            return t;
    }
    return -1;
}

static bool quick; // nobody looks at the pictures

static int run_mesh(const struct tachy_cuda_mesh *a, cuda_stream stream)
{
    for (int i = 0; i < a->width * a->height && !quick; i++) {
        float u = 0, v = 0, four[4];
        int x = i % a->width, y = i / a->width, t = covering(a, x, y, &u, &v);
        const struct tachy_cuda_texture *from = &a->texture[t >= a->other_from && t < a->other_end];
        u = t < 0 ? (float)x : TACHY_CLAMP(u - 0.5f, 0, (float)(from->width - 1));
        v = t < 0 ? (float)y : TACHY_CLAMP(v - 0.5f, 0, (float)(from->height - 1));
        const int left = (int)u, above = (int)v;
        const float weight[2] = {u - (float)left, v - (float)above};
        for (int c = 0; c < a->channels; c++) {
            for (int k = 0; k < 4; k++)
                four[k] = *at(from->data + (cuda_address)(TACHY_MIN(above + k / 2, from->height - 1) * from->row +
                                                          TACHY_MIN(left + k % 2, from->width - 1) * from->col + c * from->chan));
            *at(a->dst + (cuda_address)(y * a->row_dst + x * a->col_dst + c * a->chan_dst)) =
                (uint8_t)lrintf(tachy_ref_mesh_mix(four, weight));
        }
    }
    return launch(stream, 20000);
}

static int run_paste(const struct tachy_cuda_paste *a, cuda_stream stream)
{
    for (int i = 0; i < a->planes && !quick; i++) {
        const struct tachy_cuda_paste_plane *q = &a->plane[i];
        for (int k = 0; k < q->width * q->height; k++) {
            const int x = k % q->width, y = k / q->width;
            uint8_t code = *at(q->src + (cuda_address)(y * q->row_src + x));
            if (x >= q->how.x0 && x < q->how.x1 && y >= q->how.y0 && y < q->how.y1)
                code = tachy_ref_paste(&q->how, (const float *)(const void *)at(a->rgb), x, y, code);
            *at(q->dst + (cuda_address)(y * q->row_dst + x * q->col_dst)) = code;
        }
    }
    return launch(stream, 20000);
}

const struct tachy_cuda_kernels *tachy_cuda_kernels(void)
{
    static const struct tachy_cuda_kernels all = {.preprocess = run_preprocess, .preprocess_border = run_border,
                                                  .preprocess_turn = run_turn, .mesh = run_mesh, .paste = run_paste};
    return &all;
}
const char *tachy_cuda_refuses(const struct tachy_device *d, char why[256]) { return NULL; }
int tachy_cuda_need(const struct tachy_device *d, const struct tachy_log *log) { return TACHY_OK; }

// ---- The engines: one box in the middle, and a face of scattered points that leans

static _Atomic int opened;
static bool one_each;   // networks take one picture per run
static atomic_int seen_by_motion, largest_run; // pictures
static int gathers;     // of so many pictures the motion is to be known before one of them is made
static bool on_gpu; // the form: a picture's byte is the first number there, and any number of the CPU's
static const char *const family[] = {"appearance", "motion", "stitching", "warping", "generator", NULL};
struct network {
    bool points;
    int role; // in `family`, negative: none
};

static struct tachy_io io_of(const char *name, int rank, const int64_t *shape)
{
    struct tachy_io io = {.name = name, .spec = {.dtype = TACHY_F32, .rank = rank}};
    memcpy(io.spec.shape, shape, (size_t)rank * sizeof(*shape));
    return io;
}

// The networks of --backend neural: their inputs, then their outputs.
static const struct shape {
    const char *name;
    int rank;
    int64_t shape[4];
} shapes[][10] = {
    {{"img", 4, {1, 3, SIDE, SIDE}}, {"feature_3d", 2, {1, 8}}},
    {{"img", 4, {1, 3, SIDE, SIDE}}, {"pitch", 2, {1, 66}}, {"yaw", 2, {1, 66}}, {"roll", 2, {1, 66}}, {"t", 2, {1, 3}},
     {"exp", 2, {1, 63}}, {"scale", 2, {1, 1}}, {"kp", 2, {1, 63}}},
    {{"input", 2, {1, 126}}, {"output", 2, {1, 65}}},
    {{"kp_source", 2, {1, 63}}, {"feature_3d", 2, {1, 8}}, {"kp_driving", 2, {1, 63}}, {"out", 2, {1, 4}}},
    {{"feature", 2, {1, 4}}, {"out", 4, {1, 3, SIDE, SIDE}}},
};

static void open_role(tachy_engine *e, int role)
{
    e->n_in = role == 3 ? 3 : 1;
    e->n_out = role == 1 ? 7 : 1;
    for (int i = 0; i < e->n_in + e->n_out; i++) {
        struct tachy_io *io = i < e->n_in ? &e->in[i] : &e->out[i - e->n_in];
        *io = io_of(shapes[role][i].name, shapes[role][i].rank, shapes[role][i].shape);
        io->spec.shape[0] = one_each ? 1 : TACHY_MAX(e->params.batch_max, 1);
    }
}

static float sum(const struct tachy_tensor *t, int n)
{
    float all = 0;
    for (int i = 0; i < n; i++)
        all += ((const float *)t->data)[i] * (float)(1 + i % 5);
    return all;
}

// `seen`: of the driver's or portrait's picture, 0 dark to 2 bright.
static void run_role(int role, int seen, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    seen_by_motion += role == 1;
    for (int k = 0; k < (role == 1 ? 7 : 1); k++)
        for (int i = 0; i < (int)tachy_tensor_elements(&out[k]); i++) {
            float *to = (float *)out[k].data + i, wave = sinf((float)(i * (k + 2)));
            if (role == 0)
                *to = (float)i;
            else if (role == 1)
                *to = k < 3 ? -fabsf((float)(i - 32 - 3 * seen)) : k == 5 ? 1 + 0.1f * (float)seen : 0.1f * wave * (k == 6 ? 1 : (float)seen);
            else if (role == 2)
                *to = 0.01f * ((const float *)in[0].data)[i];
            else if (role == 3)
                *to = sum(&in[2], 63) - sum(&in[0], 63) + 0.1f * (float)i * sum(&in[1], 8);
            else
                *to = 0.5f + 0.5f * sinf(0.05f * (float)(i % SIDE) + sum(&in[0], 4));
        }
}

// Each picture of a run by itself.
static void run_roles(const tachy_engine *e, int role, int seen, const struct tachy_tensor in[], const struct tachy_tensor out[])
{
    const int n = (int)in[0].shape[0];
    struct tachy_tensor of[2][TACHY_MAX_IO];
    while (role == 4 && seen_by_motion < gathers)
        usleep(1000);
    largest_run = role == 4 ? TACHY_MAX(largest_run, n) : largest_run;
    for (int p = 0; p < n; p++) {
        for (int i = 0; i < e->n_in + e->n_out; i++) {
            struct tachy_tensor *t = i < e->n_in ? &of[0][i] : &of[1][i - e->n_in];
            *t = i < e->n_in ? in[i] : out[i - e->n_in];
            CHECK_INT((int)t->shape[0], n);
            t->shape[0] = 1;
            t->data = (uint8_t *)t->data + (size_t)p * tachy_tensor_bytes(t);
        }
        run_role(role, seen, of[0], of[1]);
    }
}

static int network_open(tachy_engine *e)
{
    bool points = strstr(e->params.model_path, "points.onnx");
    struct network *d = (void *)e->priv;
    d->points = points;
    d->role = -1;
    e->stream = e->params.gpu_stream;
    e->on_device = e->stream != NULL;
    e->n_in = 1;
    e->n_out = 2;
    e->in[0] = io_of("x", 4, (int64_t[]){1, SIDE, SIDE, 1});
    e->out[0] = io_of("scores", points ? 2 : 3, (int64_t[]){1, 1, 2});
    if (points)
        e->out[0] = io_of("scores", 2, (int64_t[]){1, 1});
    e->out[1] = points ? io_of("boxes", 2, (int64_t[]){1, 3 * TACHY_FACE_SKIN}) : io_of("boxes", 3, (int64_t[]){1, 1, 4});
    for (int i = 0; family[i]; i++)
        if (strstr(e->params.model_path, family[i])) {
            d->role = i;
            open_role(e, i);
        }
    snprintf(e->version, sizeof(e->version), "test");
    opened++;
    return TACHY_OK;
}

static void say_points(float lean, float *to)
{
    uint32_t seed = 1;
    float r[3];
    for (int i = 0; i < TACHY_FACE_SKIN; i++) {
        for (int k = 0; k < 3; k++) {
            seed = seed * 1664525u + 1013904223u;
            r[k] = (float)(seed >> 8) / 16777216.f - 0.5f;
        }
        to[3 * i] = (0.5f + 0.6f * (r[0] * cosf(lean) - r[1] * sinf(lean))) * SIDE;
        to[3 * i + 1] = (0.5f + 0.6f * (r[0] * sinf(lean) + r[1] * cosf(lean))) * SIDE;
        to[3 * i + 2] = 0.2f * r[2] * SIDE;
    }
}

static int network_run(tachy_engine *e, const struct tachy_tensor in[], struct tachy_tensor out[])
{
    const struct network *d = (void *)e->priv;
    float byte = d->role > 1 ? 0 : ((const float *)in[0].data)[on_gpu ? 0 : SIDE * SIDE / 2 + SIDE / 2];
    if (e->stream && launch(e->stream, 0))
        return tachy_fail(NULL, TACHY_ERR_EXTERNAL, "the run cannot be queued");
    for (int i = 0; i < e->n_in + e->n_out; i++)
        CHECK((i < e->n_in ? &in[i] : &out[i - e->n_in])->mem == (e->stream ? TACHY_DEVICE : TACHY_HOST));
    if (d->role >= 0) {
        const float *seen = in[0].data, middle = d->role > 1 ? 0 : e->stream ? seen[0] / 255 : seen[SIDE * SIDE / 2 + SIDE / 2];
        run_roles(e, d->role, middle > 0.65f ? 2 : middle > 0.3f, in, out);
        return TACHY_OK;
    }
    if (d->points) {
        *(float *)out[0].data = 0.95f;
        say_points(byte > 150 ? 0.25f : byte > 70 ? -0.15f : 0, out[1].data);
        return TACHY_OK;
    }
    memcpy(out[0].data, (float[]){0.1f, 0.9f}, 2 * sizeof(float));
    memcpy(out[1].data, (float[]){0.5f, 0.5f, 0.5f, 0.6f}, 4 * sizeof(float));
    return TACHY_OK;
}

static void network_close(tachy_engine *e) { opened--; }

const struct tachy_engine_ops tachy_engine_ep = {.name = "", .needs_model = true, .priv_size = sizeof(struct network),
                                                 .open = network_open, .run = network_run, .close = network_close};
bool tachy_engine_takes_stream(const char *name) { return name && !strcmp(name, "cuda-ort"); }

// ---- A run

static char folder[64];
static const struct tachy_log log_errors = {.fn = NULL};

struct way {
    bool gpu, there, mirror, on_gpu; // the form; where the engine is; frames
    int devices, workers;
    bool neural;
    int streams, batch; // 0: one
    bool sheds;         // as mode live may: some items are dropped before their picture is made
};

static bool is_shed(const struct way *way, int64_t id) { return way->sheds && id % 3 == 1; }
static bool wanted(void *way, struct tachy_item *item, bool writes) { return !writes || !is_shed(way, item->result.frame_id); }

static int open_task(const struct way *way, tachy_task **out)
{
    tachy_settings *set = NULL;
    char portrait[128], card[128];
    snprintf(portrait, sizeof(portrait), "%s/portrait.pgm", folder);
    snprintf(card, sizeof(card), "%s/card.json", folder);
    CHECK_INT(tachy_settings_new(&set, NULL), TACHY_OK);
    const char *const with[][2] = {{"model.name", "points"}, {"model.dir", folder}, {"gpu.device", way->gpu ? "cuda" : "cpu"},
                                   {"gpu.ids", "all"}, {"model.provider", way->there ? "cuda-ort" : "openvino"},
                                   {"tracking.detector", "boxes"}, {"tracking.smoothing", "no"}, {"animation.image", portrait},
                                   {"animation.mirror", way->mirror ? "yes" : "no"}, {"output.file", "x.mkv"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(with); i++)
        CHECK_INT(tachy_settings_set(set, with[i][0], with[i][1], "test"), TACHY_OK);
    if (way->neural) {
        CHECK_INT(tachy_settings_set(set, "animation.backend", "neural", "test"), TACHY_OK);
        CHECK_INT(tachy_settings_set(set, "animation.neural_card", card, "test"), TACHY_OK);
    }
    int err = tachy_task_open(out, "animate", set, &log_errors);
    tachy_settings_free(&set);
    return err;
}

// Every stream has frames of its own. It is ended if they are fewer than it should have.
static void feed(tachy_stream *s, tachy_frame_pool *const pool[], int n, int stream)
{
    int err = TACHY_OK;
    for (int i = 0; i < FRAMES && err == TACHY_OK; i++) {
        tachy_frame *f = NULL;
        if ((err = tachy_frame_pool_get(pool[i % n], &f)) < 0)
            break;
        memset(tachy_frame_writable(f, 0), (int[]){20, 110, 210}[(i + stream + i / 4 * stream) % 3], H * (size_t)f->stride[0]);
        memset(tachy_frame_writable(f, 1), 128, H / 2 * (size_t)f->stride[1]);
        f->id = i;
        f->pts = i * 10;
        err = tachy_stream_push(s, f);
        tachy_frame_unref(&f);
    }
    if (err < 0)
        tachy_stream_push(s, NULL);
}

enum { STREAMS = 3 };
static uint8_t made[2][FRAMES][PW * PH * 3 / 2]; // by the CPU, by the device
static uint8_t together[2][STREAMS][sizeof(made[0])]; // of several streams

static void keep(const tachy_frame *f, uint8_t *to)
{
    for (int i = 0; i < 3; i++) {
        int w = i ? PW / 2 : PW, h = i ? PH / 2 : PH;
        for (int y = 0; y < h; y++, to += w)
            memcpy(to, f->data[i] + y * f->stride[i], (size_t)w);
    }
}

static int pull(const struct way *way, tachy_stream *s)
{
    int n = 0, err;
    tachy_frame *f = NULL;
    const struct tachy_result *r;
    while ((err = tachy_stream_pull(s, &f, &r)) == TACHY_OK) {
        n += is_shed(way, n);
        if (n < FRAMES) {
            CHECK(f->width == PW && f->height == PH && f->format == TACHY_PIX_YUV420P && f->id == n && f->pts == n * 10);
            keep(f, made[way->gpu][n]);
        }
        tachy_frame_unref(&f);
        if (++n == FRAMES) // all have come, though no end was in sight
            tachy_stream_push(s, NULL);
    }
    CHECK(err < 0 && (err != TACHY_ERR_EOF || n == FRAMES || quick));
    return err == TACHY_ERR_EOF ? TACHY_OK : err;
}

// But for what is lost when a context cannot be entered to free it.
static void nothing_is_left(const struct fake_cuda_counts *before, bool lost)
{
    const struct fake_cuda_counts *c = counts();
    CHECK(lost || (c->allocations == before->allocations && c->events == before->events && c->streams == before->streams));
    CHECK_INT(c->contexts, 0);
    CHECK_INT(opened, 0);
}

// All of them have their frames in the pipeline before one is pulled.
static int run_pipeline(const struct way *way, tachy_task *const t[], tachy_frame_pool *const pool[])
{
    struct tachy_video_info in = {.format = TACHY_PIX_NV12, .width = W, .height = H, .time_base = {1, 250}, .fps = {25, 1},
                                  .mem = way->on_gpu ? TACHY_DEVICE : TACHY_HOST};
    tachy_pipeline *p = NULL;
    tachy_stream *s[STREAMS] = {0};
    const int n = TACHY_DEF(way->streams, 1);
    int err = TACHY_OK;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = way->workers, .batch = way->batch,
                                                              .batch_timeout_us = 600000000, .log = &log_errors)), TACHY_OK);
    struct way of = *way;
    const struct pipeline_policy sheds = {.user = &of, .wanted = wanted};
    for (int i = 0; i < n && err == TACHY_OK; i++)
        err = pipeline_join(p, &s[i], tachy_stream_params(.task = t[i], .input = in, .window = 32), way->sheds ? &sheds : NULL, false);
    for (int i = 0; i < n && err == TACHY_OK; i++)
        feed(s[i], pool, way->devices, i);
    for (int i = 0; i < n && err == TACHY_OK; i++) {
        err = pull(way, s[i]);
        memcpy(together[way->gpu][i], made[way->gpu], sizeof(made[0]));
    }
    for (int i = 0; i < n; i++)
        tachy_stream_leave(&s[i]);
    tachy_pipeline_close(&p);
    return err;
}

// `at` >= 0: the driver's call of that number fails. Returns true if it was reached.
static bool run(const struct way *way, int fails, int *out)
{
    tachy_task *t[STREAMS] = {0};
    tachy_frame_pool *pool[CARDS] = {0};
    struct tachy_gpu *gpu[CARDS] = {0};
    const struct fake_cuda_counts before = *counts();
    on_gpu = way->gpu;
    list(way->devices);
    for (int i = 0; i < way->devices; i++) {
        CHECK_INT(tachy_gpu_open(&gpu[i], i, NULL, &log_errors), TACHY_OK);
        CHECK_INT(tachy_frame_pool_open_gpu(&pool[i], way->on_gpu ? gpu[i] : NULL, TACHY_PIX_NV12, W, H), TACHY_OK);
    }
    fail_at(fails, CUDA_OUT_OF_MEMORY, FAKE_ONCE);
    *out = TACHY_OK;
    for (int i = 0; i < TACHY_DEF(way->streams, 1) && *out == TACHY_OK; i++)
        *out = open_task(way, &t[i]);
    if (*out == TACHY_OK)
        *out = run_pipeline(way, t, pool);
    for (int i = 0; i < STREAMS; i++)
        tachy_task_close(&t[i]);
    const char *name = failed();
    bool came = name, lost = came && !strncmp(name, "cuCtxPushCurrent", 16);
    fail_at(-1, 0, FAKE_ONCE);
    for (int i = 0; i < way->devices; i++) {
        tachy_frame_pool_close(&pool[i]);
        tachy_gpu_unref(&gpu[i]);
    }
    list(1);
    nothing_is_left(&before, lost);
    return came;
}

// Both forms interpolate, in another order: a sample may be rounded the other way.
static void compare(void)
{
    int differ = 0, most = 0, moved = 0;
    for (int n = 0; n < FRAMES; n++)
        for (int i = 0; i < PW * PH * 3 / 2; i++) {
            int d = abs(made[0][n][i] - made[1][n][i]);
            differ += d > 1;
            most = TACHY_MAX(most, d);
            moved += made[1][n][i] != made[1][0][i];
        }
    CHECK(moved > PW * PH);
    CHECK(differ < FRAMES * PW * PH / 1000);
}

TEST(the_pictures_are_the_cpu_s)
{
    static const int all[] = {0, 3, 5, 6}, few[] = {3, 4}; // each bit off and on, of all with both values of the others
    const bool slow = getenv("TACHY_SANITIZER");
    for (size_t k = 0; k < (slow ? TACHY_ARRAY_SIZE(few) : TACHY_ARRAY_SIZE(all)); k++) {
        int err, i = (slow ? few : all)[k];
        struct way way = {.there = i & 1, .mirror = i & 2, .devices = 1, .workers = 1};
        run(&way, -1, &err);
        CHECK_INT(err, TACHY_OK);
        way = (struct way){.gpu = true, .there = i & 1, .mirror = i & 2, .on_gpu = i & 4, .devices = 1 + (i & 1), .workers = 1 + i % 3};
        run(&way, -1, &err);
        CHECK_INT(err, TACHY_OK);
        compare();
    }
}

TEST(pictures_of_networks_are_the_cpu_s)
{
    const bool few = getenv("TACHY_SANITIZER"); // each bit off and on
    for (int i = few; i < 4 - few; i++) {
        int err;
        run(&(struct way){.mirror = i & 1, .devices = 1, .workers = 1, .neural = true}, -1, &err);
        CHECK_INT(err, TACHY_OK);
        run(&(struct way){.gpu = true, .there = true, .mirror = i & 1, .on_gpu = i & 2, .devices = 1 + (i & 1), .workers = 1 + i % 3,
                          .neural = true}, -1, &err);
        CHECK_INT(err, TACHY_OK);
        compare();
        CHECK(!memcmp(made[0], made[1], sizeof(made[0]))); // both forms round alike
    }
}

// The inputs' tasks are their own, and the pictures are those of each alone; none waits for others, of which there is one in the end.
// `one_each`: their networks take one picture per run.
TEST(several_inputs_share_a_run_of_the_networks)
{
    int err;
    struct way way = {.devices = 1, .workers = 2, .neural = true, .streams = STREAMS};
    run(&way, -1, &err);
    CHECK_INT(err, TACHY_OK);
    way = (struct way){.gpu = true, .there = true, .on_gpu = true, .devices = 1, .workers = 2, .neural = true, .streams = STREAMS, .batch = 5};
    for (int i = 0; i < 3; i++) {
        one_each = i == 1;
        way.sheds = i == 2;
        gathers = one_each ? 0 : STREAMS * FRAMES;
        seen_by_motion = largest_run = 0;
        memset(together[1], 0, sizeof(together[1]));
        run(&way, -1, &err);
        CHECK_INT(err, TACHY_OK);
        CHECK_INT(largest_run, one_each ? 1 : way.sheds ? 2 : 5); // three live streams have a picture each: two and one
        for (int k = 0; k < STREAMS * FRAMES; k++)
            if (is_shed(&way, k % FRAMES))
                memcpy(together[1][k / FRAMES] + k % FRAMES * sizeof(made[0][0]), together[0][k / FRAMES] + k % FRAMES * sizeof(made[0][0]), sizeof(made[0][0]));
        CHECK(!memcmp(together[0], together[1], sizeof(together[0])));
        CHECK(memcmp(together[1][0], together[1][1], sizeof(together[0][0])) && memcmp(together[1][1], together[1][2], sizeof(together[0][0])));
    }
    one_each = false;
    gathers = 0;
}

TEST(a_call_that_fails_leaves_nothing_behind)
{
    quick = true;
    for (int i = 0; i < 4; i++) {
        const struct way way = {.gpu = true, .there = i, .on_gpu = true, .devices = 1, .workers = 1, .neural = i >= 2,
                                .streams = i == 3 ? 2 : 1, .batch = i == 3 ? 4 : 0};
        int at = 13 * i, err;
        while (run(&way, at, &err)) {
            CHECK(err < 0 || err == TACHY_OK);
            at += i == 3 ? 101 : 29;
        }
        CHECK(at > 60 && err == TACHY_OK);
    }
}

TEST(opens)
{
    static char picture[PW * PH + 16];
    int n = snprintf(picture, sizeof(picture), "P5 %d %d 255\n", PW, PH);
    for (int i = 0; i < PW * PH; i++)
        picture[n + i] = (char)(1 + (i % PW * 3 + i / PW * 2) % 60); // no edge that a rounding would show at
    snprintf(folder, sizeof(folder), "/tmp/test_animate_gpu-XXXXXX");
    CHECK(mkdtemp(folder));
    char path[128];
    snprintf(path, sizeof(path), "%s/portrait.pgm", folder);
    FILE *f = fopen(path, "w");
    CHECK(f && fwrite(picture, 1, (size_t)n + PW * PH, f) == (size_t)n + PW * PH && !fclose(f));
    counts = (__typeof__(counts))symbol("fake_cuda_count");
    launch = (__typeof__(launch))symbol("fake_cuda_launch");
    list = (__typeof__(list))symbol("fake_cuda_list");
    fail_at = (__typeof__(fail_at))symbol("fake_cuda_fail_at");
    failed = (__typeof__(failed))symbol("fake_cuda_failed");
    test_write(folder, "boxes.json", "{\"name\": \"boxes\", \"task\": \"detect\", \"file\": \"boxes.onnx\", \"input\": "
               "{\"width\": 16, \"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"outputs\": [{\"meaning\": "
               "\"boxes\", \"form\": \"detr\", \"name\": \"boxes\", \"scores\": \"scores\", \"labels\": [\"one\", \"two\"]}]}");
    test_write(folder, "points.json", "{\"name\": \"points\", \"task\": \"track\", \"file\": \"points.onnx\", \"input\": "
               "{\"width\": 16, \"height\": 16, \"layout\": \"nhwc\", \"channels\": \"luma\"}, \"outputs\": [{\"meaning\": "
               "\"points\", \"name\": \"boxes\", \"points\": 468, \"order\": \"xyz\"}, {\"meaning\": \"score\", \"name\": "
               "\"scores\"}]}");
    test_write(folder, "card.json", "{\"version\": 1, \"name\": \"made\", \"task\": \"animate\", \"license\": \"CC0-1.0\", \"networks\": "
               "{\"appearance\": \"appearance.onnx\", \"motion\": \"motion.onnx\", \"stitching\": \"stitching.onnx\", "
               "\"warping\": \"warping.onnx\", \"generator\": \"generator.onnx\"}}");
    for (int i = 0; family[i]; i++) {
        snprintf(path, sizeof(path), "%s.onnx", family[i]);
        test_write(folder, path, "no model");
    }
    test_write(folder, "boxes.onnx", "no model"); // nobody reads them
    test_write(folder, "points.onnx", "no model");
}

TEST(cleans)
{
    static const char *const names[] = {"boxes.json", "boxes.onnx", "points.json", "points.onnx", "portrait.pgm", "light.json",
                                        "gpu-rates.json", "card.json", "appearance.onnx", "motion.onnx", "stitching.onnx",
                                        "warping.onnx", "generator.onnx"};
    char path[128];
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

TEST_MAIN(TEST_CASE(opens), TEST_CASE(the_pictures_are_the_cpu_s),
          TEST_CASE(pictures_of_networks_are_the_cpu_s), TEST_CASE(several_inputs_share_a_run_of_the_networks), TEST_CASE(a_call_that_fails_leaves_nothing_behind),
          TEST_CASE(cleans))
