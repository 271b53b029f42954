#include "test.h"

#include "cuda/gpu.h"
#include "cuda/kernels.h"
#include "cuda/places.h"
#include "media/convert.h"
#include "postprocess/fit_cuda.h"
#include "ref/ref_resample.h"

#include <math.h>

// A video's picture fitted behind people on a GPU, held against libswscale, which does it on the CPU. The kernels here
// are their twins, whose bits they have; memory is that of a driver without a GPU (fakes/).

static uint8_t *at(cuda_address a) { return (uint8_t *)(uintptr_t)a; }

static struct tachy_taps taps_of(const struct tachy_cuda_taps *t, int outputs)
{
    return (struct tachy_taps){.outputs = outputs, .max = t->max, .start = (int32_t *)(void *)at(t->start),
                               .count = (int32_t *)(void *)at(t->count), .weight = (float *)(void *)at(t->weight)};
}

static int reach(const struct tachy_taps *t)
{
    int n = 0;
    for (int i = 0; i < t->outputs; i++)
        n = TACHY_MAX(n, t->start[i] + t->count[i]);
    return n;
}

static int run_resize(const struct tachy_cuda_resize *a, cuda_stream stream)
{
    struct tachy_taps x = taps_of(&a->x, a->width), y = taps_of(&a->y, a->height);
    int w = reach(&x), h = reach(&y);
    float *src = malloc(sizeof(float) * (size_t)w * (size_t)h);
    for (int i = 0; i < w * h; i++)
        src[i] = at(a->src)[i / w * a->row_src + i % w * a->col_src];
    for (int i = 0; i < a->width * a->height; i++) {
        long v = lrintf(tachy_ref_resample(src, w, 1, &y, &x, i / a->width, i % a->width));
        at(a->dst)[i / a->width * a->row_dst + i % a->width * a->col_dst] = (uint8_t)TACHY_CLAMP(v, 0, 255);
    }
    free(src);
    return CUDA_OK;
}

static int run_convert(const struct tachy_cuda_convert *a, cuda_stream stream)
{
    const struct tachy_cuda_convert_frame *f = &a->frame[0];
    struct tachy_rgb_picture rgb = {.type = a->type, .plane = {at(f->rgb[0]), at(f->rgb[1]), at(f->rgb[2])},
                                    .stride = a->rgb_stride};
    struct tachy_yuv_picture yuv = {at(f->luma), at(f->chroma), a->luma_stride, a->chroma_stride};
    if (a->to_rgb)
        tachy_ref_yuv_to_rgb(&a->codes, &yuv, &rgb, a->width, a->height);
    else
        tachy_ref_rgb_to_yuv(&a->codes, &rgb, &yuv, a->width, a->height);
    return CUDA_OK;
}

const struct tachy_cuda_kernels *tachy_cuda_kernels(void)
{
    static const struct tachy_cuda_kernels all = {.resize = run_resize, .convert = run_convert};
    return &all;
}
const char *tachy_cuda_refuses(const struct tachy_device *d, char why[256]) { return NULL; }
int tachy_cuda_need(const struct tachy_device *d, const struct tachy_log *log) { return TACHY_OK; }

// ---- Pictures

static int samples(enum tachy_pix format, int plane, int width, int height, int *w)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    int sub = plane ? d->chroma_shift_x : 0;
    *w = ((width + sub) >> sub) * d->components[plane];
    return (height + sub) >> sub;
}

// Waves of a colour each, of the length that `scale` says, within the limited range.
static tachy_frame *draw(enum tachy_pix format, int w, int h, struct tachy_color color, double scale)
{
    tachy_frame *f = NULL;
    struct tachy_frame_params p = {.format = format, .width = w, .height = h, .color = color};
    CHECK_INT(tachy_frame_new(&f, &p), TACHY_OK);
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    for (int plane = 0; plane < d->planes; plane++) {
        int n, rows = samples(format, plane, w, h, &n);
        double step = plane ? 1 << d->chroma_shift_x : 1;
        for (int i = 0; i < n * rows; i++) {
            int c = d->components[plane], k = plane + i % n % c;
            double x = i % n / c * step / scale, y = i / n * step / scale;
            double v = 128 + (k ? 40 : 90) * sin(x * (0.11 + 0.03 * k)) * cos(y * (0.07 + 0.02 * k) + k);
            tachy_frame_writable(f, plane)[i / n * f->stride[plane] + i % n] = (uint8_t)lrint(v);
        }
    }
    return f;
}

// In dB of eight bits, over all planes.
static double psnr(const tachy_frame *a, const tachy_frame *b)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(a->format);
    double sum = 0, all = 0, unit = d->bytes == 2 ? 4.0 * (1 << d->shift) : 1;
    for (int p = 0; p < d->planes; p++) {
        int n, rows = samples(a->format, p, a->width, a->height, &n);
        for (int i = 0; i < n * rows; i++) {
            const uint8_t *x = a->data[p] + i / n * a->stride[p], *y = b->data[p] + i / n * b->stride[p];
            const uint16_t *u = (const void *)x, *w = (const void *)y;
            double v = d->bytes == 2 ? u[i % n] - w[i % n] : x[i % n] - y[i % n];
            sum += v / unit * (v / unit);
        }
        all += n * rows;
    }
    return sum > 0 ? 10 * log10(255 * 255 * all / sum) : 99;
}

static const struct tachy_color untagged = {0}, bt709 = {.matrix = 1, .range = 1}, bt601 = {.matrix = 6, .range = 1},
                                full = {.matrix = 6, .range = 2};
static const struct fit {
    enum tachy_pix from, to;
    int w, h, to_w, to_h;
    const struct tachy_color *color;
    double least; // dB
} fits[] = {
    {TACHY_PIX_YUV420P, TACHY_PIX_NV12, 104, 60, 240, 136, &bt709, 60},   // grows
    {TACHY_PIX_NV12, TACHY_PIX_YUV420P, 320, 180, 128, 72, &bt601, 60},   // shrinks
    {TACHY_PIX_YUV420P, TACHY_PIX_NV12, 320, 60, 127, 135, &full, 60},    // one each, odd
    {TACHY_PIX_YUV444P, TACHY_PIX_YUV444P, 90, 50, 200, 111, &bt601, 60},
    {TACHY_PIX_YUV420P, TACHY_PIX_P010, 104, 60, 240, 136, &bt709, 44},   // ten bits
    {TACHY_PIX_YUV420P, TACHY_PIX_NV12, 416, 240, 1280, 720, &untagged, 50}, // BT.601 to BT.709
    {TACHY_PIX_NV12, TACHY_PIX_P010, 1280, 720, 416, 240, &untagged, 50},    // and back
};

static tachy_frame *on_gpu(const struct fit *c, const tachy_frame *from, struct tachy_memory *m, struct tachy_gpu *g)
{
    tachy_fit_cuda *f = NULL;
    tachy_frame *to = NULL;
    struct tachy_fit_cuda_params p = {.memory = m, .place = tachy_place_of_gpu(0), .cu = g->device.cu};
    CHECK(tachy_fit_cuda_takes(from, c->to, c->to_w, c->to_h));
    struct tachy_frame_params size = {.format = c->to, .width = c->to_w, .height = c->to_h};
    CHECK_INT(tachy_frame_new(&to, &size), TACHY_OK);
    CHECK_INT(tachy_fit_cuda_open(&f, &p), TACHY_OK);
    for (int i = 0; i < 2; i++) // the second time with tables that are there
        CHECK_INT(tachy_fit_cuda_run(f, from, to, g->stream), TACHY_OK);
    tachy_fit_cuda_close(&f);
    return to;
}

TEST(as_libswscale)
{
    struct tachy_memory *m;
    struct tachy_gpu *g = NULL;
    if (tachy_gpu_open(&g, 0, NULL, NULL) < 0) {
        puts("FAIL the fake driver is not there: `meson test test_fit` sets LD_LIBRARY_PATH");
        exit(1);
    }
    CHECK_INT(tachy_memory_open(&m, &(struct tachy_memory_params){0}), TACHY_OK);
    CHECK_INT(tachy_gpu_places_open(m, &g->device, &(struct tachy_gpu_places_params){0}), TACHY_OK);
    CHECK_INT(tachy_device_enter(&g->device, NULL), TACHY_OK);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(fits); i++) {
        const struct fit *c = &fits[i];
        struct tachy_convert *sws = NULL;
        tachy_frame *from = draw(c->from, c->w, c->h, *c->color, (double)c->w / 104), *want = NULL;
        CHECK_INT(tachy_convert_frame(&sws, from, c->to, c->to_w, c->to_h, &want, NULL), TACHY_OK);
        tachy_frame *got = on_gpu(c, from, m, g);
        double db = psnr(want, got);
        printf("figure fit_%zu %.1f dB\n", i, db);
        CHECK(db >= c->least);
        tachy_frame_unref(&from);
        tachy_frame_unref(&want);
        tachy_frame_unref(&got);
        tachy_convert_close(&sws);
    }
    tachy_device_leave(&g->device);
    tachy_memory_close(&m);
    tachy_gpu_unref(&g);
}

// What is left to libswscale.
TEST(takes)
{
    static const struct {
        enum tachy_pix from, to;
        struct tachy_color color;
        int to_w;
        bool taken;
    } all[] = {
        {TACHY_PIX_YUV420P, TACHY_PIX_YUV420P, {.matrix = 1}, 1920, true},
        {TACHY_PIX_YUV420P, TACHY_PIX_YUV420P, {0}, 1920, false}, // another matrix, and planes behind it
        {TACHY_PIX_YUV420P, TACHY_PIX_NV12, {0}, 1920, true},
        {TACHY_PIX_YUV420P, TACHY_PIX_RGB24, {.matrix = 1}, 640, false},
        {TACHY_PIX_YUV420P10, TACHY_PIX_P010, {.matrix = 1}, 640, false},
        {TACHY_PIX_YUV444P, TACHY_PIX_NV12, {.matrix = 1}, 640, false},
        {TACHY_PIX_YUV422P, TACHY_PIX_NV12, {.matrix = 1}, 640, false},
        {TACHY_PIX_GRAY8, TACHY_PIX_NV12, {.matrix = 1}, 640, false},
        {TACHY_PIX_YUVA420P, TACHY_PIX_NV12, {.matrix = 1}, 640, false},
        {TACHY_PIX_RGB24, TACHY_PIX_NV12, {0}, 640, false},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++) {
        tachy_frame f = {.format = all[i].from, .width = 416, .height = 240, .color = all[i].color};
        CHECK_INT(tachy_fit_cuda_takes(&f, all[i].to, all[i].to_w, 480), all[i].taken);
    }
}

TEST_MAIN(TEST_CASE(as_libswscale), TEST_CASE(takes))
