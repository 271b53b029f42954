#include "test.h"

#include "cuda/kernels.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"
#include "flow/flow_cuda.h"
#include "flow/variational.h"
#include "media/device.h"
#include "pipeline/pipeline.h"
#include "postprocess/mask.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <tachy/settings.h>
#include <unistd.h>

// motion and inpaint on a GPU over a driver without one (fakes/): the kernels are their C twins, so numbers and pictures are the
// CPU's, also by way of kept flow. With true kernels: tests/gpu/run.

enum { W = 96, H = 64, FRAMES = 40, VALUES = 16, KERNEL_NS = 5000 };

static struct fake_cuda_counts *(*counts)(void);
static int (*launch)(cuda_stream s, uint64_t ns);
static int (*fail_at)(int n, int status, int how);
static const char *(*failed)(void);

static void *at(cuda_address a) { return (void *)(uintptr_t)a; }

// ---- The kernels

static _Atomic int searched, most_pairs; // levels of pairs; pairs of a launch
static bool may_fail;                    // some call does, the test's own too: nobody looks at pictures, so no kernel makes any

static int run_guide(const struct tachy_cuda_guide *a, cuda_stream stream)
{
    for (int i = 0; i < a->count && !may_fail; i++) {
        const struct tachy_cuda_guide_eye *e = &a->eye[i];
        const tachy_frame f = {.format = TACHY_PIX_GRAY8, .width = e->x + e->w, .height = e->y + e->h, .data = {at(e->luma)},
                               .stride = {(ptrdiff_t)e->luma_stride}};
        CHECK_INT(tachy_luma_guide(&f, &(struct tachy_rect){e->x, e->y, e->w, e->h}, at(e->guide), (ptrdiff_t)a->stride, a->width, a->height), TACHY_OK);
    }
    return launch(stream, KERNEL_NS);
}

static void repeat_edges(float *p, int w, int h, int stride)
{
    for (int y = -FLOW_PAD; y < h + FLOW_PAD; y++)
        for (int x = -FLOW_PAD; x < w + FLOW_PAD; x++)
            p[y * stride + x] = p[TACHY_CLAMP(y, 0, h - 1) * stride + TACHY_CLAMP(x, 0, w - 1)];
}

static int run_pyramid(const struct tachy_cuda_flow_pyramid *a, cuda_stream stream)
{
    for (int k = 0; k < a->count && !may_fail; k++) {
        const cuda_address skip = (cuda_address)(k % 2 * a->next[0] + k / 2 * a->next[1]);
        const uint8_t *in = at(a->in[k]);
        float *from = NULL;
        for (int i = a->finest; i < a->levels; i++) {
            int w = a->width >> i, h = a->height >> i, n = 1 << a->finest, wide = i > a->finest ? a->stride[i - 1] : 0;
            float *to = at(a->level[i] + skip);
            for (int y = 0; y < h; y++)
                for (int x = 0; x < w; x++) {
                    const float *b = from ? from + 2 * y * wide + 2 * x : NULL;
                    const uint8_t *c = in + n * y * a->in_stride + n * x;
                    to[y * a->stride[i] + x] = b ? 0.25f * ((b[0] + b[1]) + (b[wide] + b[wide + 1]))
                                               : n == 1 ? (float)c[0]
                                                        : 0.25f * (float)((c[0] + c[1]) + (c[a->in_stride] + c[a->in_stride + 1]));
                }
            repeat_edges(to, w, h, a->stride[i]);
            from = to;
        }
    }
    most_pairs = TACHY_MAX(most_pairs, a->count / 2);
    return launch(stream, KERNEL_NS);
}

static int run_search(const struct tachy_cuda_flow_search *a, cuda_stream stream)
{
    float *weight = malloc((size_t)a->width * (size_t)a->height * sizeof(float));
    for (int k = 0; k < a->count && !may_fail; k++) {
        const cuda_address skip = (cuda_address)(k * a->next);
        const struct flow_level l = {a->width, a->height, a->stride, at(a->here + skip), at(a->there + skip)};
        flow_search_run(&(struct flow_search){
            .level = &l, .coarse_width = a->coarse_u ? a->coarse_width : 0, .coarse_height = a->coarse_u ? a->coarse_height : 0,
            .coarse_u = at(a->coarse_u + skip), .coarse_v = at(a->coarse_v + skip), .grid = at(a->grid + skip), .u = at(a->u + skip),
            .v = at(a->v + skip), .weight = weight});
        searched++;
    }
    free(weight);
    return launch(stream, KERNEL_NS);
}

static int run_refine(const struct tachy_cuda_flow_refine *a, cuda_stream stream)
{
    struct flow_variational *r = flow_variational_open(a->width, a->height);
    const size_t bytes = (size_t)a->width * (size_t)a->height * sizeof(float);
    for (int k = 0; k < a->count && !may_fail; k++) {
        const cuda_address skip = (cuda_address)(k * a->next);
        const struct flow_level l = {a->width, a->height, a->stride, at(a->here + skip), at(a->there + skip)};
        memcpy(at(a->u[1] + skip), at(a->u[0] + skip), bytes);
        memcpy(at(a->v[1] + skip), at(a->v[0] + skip), bytes);
        flow_variational_run(r, &l, at(a->u[1] + skip), at(a->v[1] + skip));
    }
    flow_variational_close(&r);
    return launch(stream, KERNEL_NS);
}

const struct tachy_cuda_kernels *tachy_cuda_kernels(void)
{
    static const struct tachy_cuda_kernels all = {.guide = run_guide, .flow_pyramid = run_pyramid, .flow_search = run_search, .flow_refine = run_refine};
    return &all;
}
const char *tachy_cuda_refuses(const struct tachy_device *d, char why[256]) { return NULL; }
int tachy_cuda_need(const struct tachy_device *d, const struct tachy_log *log) { return TACHY_OK; }

// ---- A run

static const struct tachy_log log_errors = {.fn = NULL};
static char folder[64];

struct way {
    const char *task;
    bool gpu, on_gpu, keeps; // the form; frames; flow
    int workers;
    const char *size;
};

static struct made {
    int nb[FRAMES];
    double value[FRAMES][VALUES];
    float box[FRAMES][4];
    uint8_t luma[FRAMES][W * H];
} made[2];

static int open_task(const struct way *way, tachy_task **out)
{
    tachy_settings *set = NULL;
    CHECK_INT(tachy_settings_new(&set, NULL), TACHY_OK);
    const char *const with[][2] = {{"gpu.device", way->gpu ? "cuda" : "cpu"}, {"motion.size", way->size}, {"output.file", "x.jsonl"},
                                   {"output.format", "json"}, {"motion.flow_cache", way->keeps ? folder : NULL}, {"inpaint.hole", may_fail ? "30,20,2,2" : "30,20,24,16"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(with); i++)
        if (with[i][1] && (strncmp(with[i][0], "out", 3) != 0 || !strcmp(way->task, "motion")))
            CHECK_INT(tachy_settings_set(set, with[i][0], with[i][1], "test"), TACHY_OK);
    int err = tachy_task_open(out, way->task, set, &log_errors);
    tachy_settings_free(&set);
    return err;
}

// A wall that goes by, two pixels per frame, and something that goes the other way.
static void draw(tachy_frame *f, int n)
{
    uint8_t *luma = tachy_frame_writable(f, 0);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            bool thing = x - 10 - 2 * n % 40 >= 0 && x - 10 - 2 * n % 40 < 24 && y >= 20 && y < 44;
            float px = (float)x + (thing ? -2.f * (float)(n % 20) : 2.f * (float)n), py = (float)y;
            luma[y * f->stride[0] + x] = (uint8_t)(128 + 40 * sinf(0.3f * px + 0.2f * py) + 30 * sinf(0.5f * py - 0.11f * px) + (thing ? 30 : 0));
        }
    memset(tachy_frame_writable(f, 1), 128, H / 2 * (size_t)f->stride[1]);
    f->id = n;
    f->pts = n * 10;
}

static void *feed(void *of)
{
    void **to = of;
    for (int i = 0; i < FRAMES; i++) {
        tachy_frame *f = NULL;
        if (tachy_frame_pool_get(to[1], &f) < 0)
            break;
        draw(f, i);
        int err = tachy_stream_push(to[0], f);
        tachy_frame_unref(&f);
        if (err < 0)
            break;
    }
    tachy_stream_push(to[0], NULL);
    return NULL;
}

static int pull(tachy_stream *s, struct made *m)
{
    int n = 0, err;
    tachy_frame *f = NULL;
    const struct tachy_result *r;
    while ((err = tachy_stream_pull(s, &f, &r)) == TACHY_OK) {
        CHECK(n < FRAMES && (!f || f->id == n));
        m->nb[n] = r->nb_values;
        for (int i = 0; i < r->nb_values && i < VALUES; i++)
            m->value[n][i] = r->values[i].value;
        if (r->nb_regions)
            memcpy(m->box[n], (float[]){r->regions[0].x, r->regions[0].y, r->regions[0].w, r->regions[0].h}, sizeof(m->box[n]));
        for (int y = 0; y < H && f && f->width == W; y++)
            memcpy(&m->luma[n][y * W], f->data[0] + y * f->stride[0], W);
        n++;
        tachy_frame_unref(&f);
    }
    CHECK(err < 0 && (err != TACHY_ERR_EOF || n == FRAMES || may_fail));
    return err == TACHY_ERR_EOF ? TACHY_OK : err;
}

static int run_pipeline(const struct way *way, tachy_task *t, tachy_frame_pool *pool, struct made *m)
{
    struct tachy_video_info in = {.format = TACHY_PIX_NV12, .width = W, .height = H, .time_base = {1, 250}, .fps = {25, 1},
                                  .mem = way->on_gpu ? TACHY_DEVICE : TACHY_HOST};
    tachy_pipeline *p = NULL;
    tachy_stream *s = NULL;
    pthread_t thread;
    CHECK_INT(tachy_pipeline_open(&p, tachy_pipeline_params(.workers = way->workers, .log = &log_errors)), TACHY_OK);
    int err = tachy_pipeline_join(p, &s, tachy_stream_params(.task = t, .input = in));
    if (err == TACHY_OK) {
        void *to[] = {s, pool};
        CHECK_INT(pthread_create(&thread, NULL, feed, to), 0);
        err = pull(s, m);
        pthread_join(thread, NULL);
    }
    tachy_stream_leave(&s);
    tachy_pipeline_close(&p);
    return err;
}

// `fails` >= 0: the driver's call of that number fails. Returns true if it was reached.
static bool run(const struct way *way, int fails, int *out, struct made *m)
{
    tachy_task *t = NULL;
    tachy_frame_pool *pool = NULL;
    struct tachy_gpu *gpu = NULL;
    const struct fake_cuda_counts before = *counts();
    memset(m, 0, sizeof(*m));
    CHECK_INT(tachy_gpu_open(&gpu, 0, NULL, &log_errors), TACHY_OK);
    CHECK_INT(tachy_frame_pool_open_gpu(&pool, way->on_gpu ? gpu : NULL, TACHY_PIX_NV12, W, H), TACHY_OK);
    fail_at(fails, CUDA_OUT_OF_MEMORY, FAKE_ONCE);
    *out = open_task(way, &t);
    if (*out == TACHY_OK)
        *out = run_pipeline(way, t, pool, m);
    tachy_task_close(&t);
    const char *name = failed();
    bool came = name, lost = came && !strncmp(name, "cuCtxPushCurrent", 16);
    fail_at(-1, 0, FAKE_ONCE);
    tachy_frame_pool_close(&pool);
    tachy_gpu_unref(&gpu);
    const struct fake_cuda_counts *c = counts();
    CHECK(lost || (c->allocations == before.allocations && c->events == before.events && c->streams == before.streams));
    return came;
}

static void run_well(const struct way *way, struct made *m)
{
    int err;
    run(way, -1, &err, m);
    CHECK_INT(err, TACHY_OK);
}

static int files(bool remove)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            n++;
            CHECK(!remove || unlinkat(dirfd(d), e->d_name, 0) == 0);
        }
    closedir(d);
    return n;
}

// ---- Tests

TEST(numbers_are_the_cpu_s)
{
    static const char *const sizes[] = {"0", "72"};
    for (int i = 0; i < 4; i++) {
        run_well(&(struct way){"motion", .workers = 1, .size = sizes[i % 2]}, &made[0]);
        most_pairs = 0;
        run_well(&(struct way){"motion", true, i & 2, .workers = 1 + i, .size = sizes[i % 2]}, &made[1]);
        CHECK(!memcmp(&made[0], &made[1], sizeof(made[0])));
        CHECK(made[0].nb[0] == 0 && made[0].nb[1] > 10 && fabs(made[0].value[5][0]) > 1);
        CHECK(i != 2 || most_pairs > 8); // groups of one stream come together
    }
}

TEST(kept_flow_is_the_cpu_s_and_is_read)
{
    struct way gpu = {"motion", true, true, true, 2, "0"}, cpu = {"motion", .keeps = true, .workers = 2, .size = "0"};
    run_well(&cpu, &made[0]);
    CHECK_INT(files(false), FRAMES - 1);
    searched = 0;
    run_well(&gpu, &made[1]); // of the CPU's files
    CHECK_INT(searched, 0);
    CHECK(!memcmp(&made[0], &made[1], sizeof(made[0])));
    CHECK_INT(files(true), FRAMES - 1);
    run_well(&gpu, &made[1]); // writes them
    CHECK(searched > 0 && files(false) == FRAMES - 1);
    CHECK(!memcmp(&made[0], &made[1], sizeof(made[0])));
    run_well(&cpu, &made[1]);
    CHECK(!memcmp(&made[0], &made[1], sizeof(made[0])));
    files(true);
    gpu.size = cpu.size = "7"; // too small to move
    run_well(&cpu, &made[0]);
    run_well(&gpu, &made[1]);
    CHECK(!memcmp(&made[0], &made[1], sizeof(made[0])));
    files(true);
}

TEST(filled_pictures_are_the_cpu_s)
{
    for (int i = 0; i < 2; i++) {
        run_well(&(struct way){"inpaint", .workers = 2, .size = i ? "7" : "0"}, &made[0]);
        searched = 0;
        run_well(&(struct way){"inpaint", true, .workers = 2, .size = i ? "7" : "0"}, &made[1]);
        CHECK(i ? searched == 0 : searched > 0);
        CHECK(!memcmp(&made[0], &made[1], sizeof(made[0])));
    }
}

TEST(a_call_that_fails_leaves_nothing_behind)
{
    const struct way ways[] = {{"motion", true, true, .workers = 1, .size = "0"}, {"motion", true, true, true, 1, "0"}, {"inpaint", true, .workers = 1, .size = "0"}};
    may_fail = true;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(ways); i++) {
        int n = (int)i, err;
        while (run(&ways[i], n, &err, &made[1])) {
            CHECK(err < 0 || err == TACHY_OK);
            n += n < 40 ? 7 : 101;
        }
        CHECK(n > 40 && err == TACHY_OK);
        files(true);
    }
    may_fail = false;
}

TEST(opens)
{
    counts = (__typeof__(counts))fake_symbol("libcuda.so.1", "fake_cuda_count");
    launch = (__typeof__(launch))fake_symbol("libcuda.so.1", "fake_cuda_launch");
    fail_at = (__typeof__(fail_at))fake_symbol("libcuda.so.1", "fake_cuda_fail_at");
    failed = (__typeof__(failed))fake_symbol("libcuda.so.1", "fake_cuda_failed");
    snprintf(folder, sizeof(folder), "%s/tachy-flow-gpu-XXXXXX", P_tmpdir);
    CHECK(mkdtemp(folder));
}

TEST(cleans) { CHECK_INT(rmdir(folder), 0); }

TEST_MAIN(TEST_CASE(opens), TEST_CASE(numbers_are_the_cpu_s), TEST_CASE(kept_flow_is_the_cpu_s_and_is_read), TEST_CASE(filled_pictures_are_the_cpu_s),
          TEST_CASE(a_call_that_fails_leaves_nothing_behind), TEST_CASE(cleans))
