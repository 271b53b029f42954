#include "test.h"

#include "base/ycbcr.h"
#include "cuda/gpu.h"
#include "cuda/kernels.h"
#include "cuda/mem.h"
#include "media/convert.h"
#include "media/media.h"
#include "postprocess/fit_cuda.h"
#include "ref/ref_resample.h"

#include <libswscale/swscale.h>
#include <math.h>

// A background video's picture, scaled on the CPU and on a GPU, compared with the expected one. The kernels here are
// their twins, with the same bits; memory is that of a driver without a GPU (fakes/).

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

struct plane {
    int w, h, c, shift; // samples a row and rows of a component; how many components lie side by side, log2 of the step
};

static struct plane plane_of(const struct tachy_pix_desc *d, int component, int width, int height)
{
    int s = component ? d->chroma_shift_x : 0;
    return (struct plane){(width + s) >> s, (height + s) >> s, d->components[d->planes == 2 && component ? 1 : component], s};
}

// Sample (x, y) of a component.
static uint8_t *sample_at(const tachy_frame *f, int component, int x, int y)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    struct plane p = plane_of(d, component, f->width, f->height);
    int plane = d->planes == 2 && component ? 1 : component;
    return (uint8_t *)(uintptr_t)f->data[plane] + y * f->stride[plane] +
           (x * p.c + (d->planes == 2 && component == 2)) * d->bytes;
}

static void from_rgb(double v[3], struct tachy_color c);

// Waves of a colour each, of the length that `scale` says, within the limited range; or fields of one colour with
// sharp edges, as test pictures and writing have them.
static double drawn(bool fields, struct tachy_color color, int component, double x, double y)
{
    if (!fields)
        return 128 + (component ? 40 : 90) * sin(x * (0.11 + 0.03 * component)) * cos(y * (0.07 + 0.02 * component) + component);
    uint32_t n = (uint32_t)(x / 13) * 7 + (uint32_t)(y / 11) * 31;
    n = (n ^ n >> 3) * 0x2c1b3c6du;
    double v[3] = {(n >> 24) / 255.0, (n >> 16 & 255) / 255.0, (n >> 8 & 255) / 255.0};
    from_rgb(v, color);
    return v[component];
}

static tachy_frame *draw(enum tachy_pix format, int w, int h, struct tachy_color color, bool fields)
{
    tachy_frame *f = NULL;
    struct tachy_frame_params size = {.format = format, .width = w, .height = h, .color = color};
    CHECK_INT(tachy_frame_new(&f, &size), TACHY_OK);
    double scale = fields ? 1 : w / 104.0;
    color = tachy_color_resolve(color, format, w, h);
    for (int c = 0; c < 3; c++) {
        struct plane p = plane_of(tachy_pix_desc(format), c, w, h);
        for (int i = 0; i < p.w * p.h; i++)
            *sample_at(f, c, i % p.w, i / p.w) =
                (uint8_t)lrint(drawn(fields, color, c, (i % p.w << p.shift) / scale, (i / p.w << p.shift) / scale));
    }
    return f;
}

// ---- What it should be, in double: the filter that media/convert.h names, straight from its words

// The part of sample k of `src` in sample i of n.
static double part_of(int src, int n, int i, int k)
{
    double scale = (double)src / n;
    if (n <= src)
        return fmax(0, fmin(k + 1, (i + 1) * scale) - fmax(k, i * scale)) / scale;
    double mem = fmin(fmax((i + 0.5) * scale - 0.5, 0), src - 1);
    return fmax(0, 1 - fabs(mem - k));
}

// A component at another size.
static double *resized(const tachy_frame *f, int component, int w, int h)
{
    struct plane p = plane_of(tachy_pix_desc(f->format), component, f->width, f->height);
    double *wide = calloc((size_t)w * (size_t)p.h, sizeof(double)), *all = calloc((size_t)w * (size_t)h, sizeof(double));
    for (int x = 0; x < w; x++)
        for (int k = TACHY_MAX(x * p.w / w - 2, 0); k < TACHY_MIN((x + 1) * p.w / w + 2, p.w); k++)
            for (int y = 0; y < p.h && part_of(p.w, w, x, k) > 0; y++)
                wide[y * w + x] += part_of(p.w, w, x, k) * *sample_at(f, component, k, y);
    for (int y = 0; y < h; y++)
        for (int k = TACHY_MAX(y * p.h / h - 2, 0); k < TACHY_MIN((y + 1) * p.h / h + 2, p.h); k++)
            for (int x = 0; x < w; x++)
                all[y * w + x] += part_of(p.h, h, y, k) * wide[k * w + x];
    free(wide);
    return all;
}

// Codes of eight bits, possibly fractional.
static void to_rgb(double v[3], struct tachy_color c)
{
    double kr, kb, y = (v[0] - (c.range == 2 ? 0 : 16)) / (c.range == 2 ? 255 : 219), per = c.range == 2 ? 255 : 224;
    tachy_luma_weights(c.matrix, &kr, &kb);
    v[0] = y + 2 * (1 - kr) * (v[2] - 128) / per;
    v[2] = y + 2 * (1 - kb) * (v[1] - 128) / per;
    v[1] = (y - kr * v[0] - kb * v[2]) / (1 - kr - kb);
}

static void from_rgb(double v[3], struct tachy_color c)
{
    double kr, kb, r = v[0], b = v[2], per = c.range == 2 ? 255 : 224;
    tachy_luma_weights(c.matrix, &kr, &kb);
    double y = kr * r + (1 - kr - kb) * v[1] + kb * b;
    v[0] = c.range == 2 ? 255 * y : 16 + 219 * y;
    v[1] = 128 + per * (b - y) / (2 * (1 - kb));
    v[2] = 128 + per * (r - y) / (2 * (1 - kr));
}

// The expected result for component c if all three have w x h samples.
static double *recoded(double *const in[3], int c, int n, struct tachy_color from, struct tachy_color to)
{
    double *all = malloc(sizeof(double) * (size_t)n);
    for (int i = 0; i < n; i++) {
        double v[3] = {in[0][i], in[1][i], in[2][i]};
        to_rgb(v, from);
        from_rgb(v, to);
        all[i] = fmin(fmax(v[c], 0), 255);
    }
    return all;
}

// Three planes of the size of `like`'s, in codes of eight bits: each component resized for itself, to the pixels and to
// the places of chroma, and there in the other codes.
static void ideal(const tachy_frame *from, const tachy_frame *like, double *out[3])
{
    struct tachy_color a = tachy_color_resolve(from->color, from->format, from->width, from->height);
    struct tachy_color b = tachy_color_resolve(like->color, like->format, like->width, like->height);
    for (int kind = 0; kind < 2; kind++) {
        struct plane p = plane_of(tachy_pix_desc(like->format), kind, like->width, like->height);
        double *in[3];
        for (int c = 0; c < 3; c++)
            in[c] = resized(from, c, p.w, p.h);
        for (int c = kind; c <= 2 * kind; c++)
            out[c] = recoded(in, c, p.w * p.h, a, b);
        for (int c = 0; c < 3; c++)
            free(in[c]);
    }
}

// In dB of eight bits, of the plane that is the farthest off.
static double psnr(const tachy_frame *f, double *const want[3])
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    double least = 99;
    for (int c = 0; c < 3; c++) {
        struct plane p = plane_of(d, c, f->width, f->height);
        double sum = 0;
        for (int i = 0; i < p.w * p.h; i++) {
            const uint8_t *at_byte = sample_at(f, c, i % p.w, i / p.w);
            uint16_t word = 0;
            if (d->bytes == 2)
                memcpy(&word, at_byte, 2);
            double v = (d->bytes == 2 ? (double)(word >> d->shift) / (1 << (d->bits - 8)) : *at_byte) - want[c][i];
            sum += v * v;
        }
        least = sum > 0 ? fmin(least, 10 * log10(255 * 255.0 * p.w * p.h / sum)) : least;
    }
    return least;
}

static const struct tachy_color untagged = {0}, bt709 = {.matrix = 1, .range = 1}, bt601 = {.matrix = 6, .range = 1},
                                full = {.matrix = 6, .range = 2};
// Errors of rounding to 8-bit codes in dB: 58.9 for one rounding and 55.9 for two, 55.6 if luma also uses chroma's.
enum { ONCE = 58, TWICE = 55 };
// Fields of saturated colours, where luma takes chroma that is interpolated between two samples (on the CPU), or that
// has the mean of what becomes of it (on the GPU): at their edges a code more or less.
enum { EDGES = 48, SQUEEZED = 41 }; // where chroma has fewer samples across than before
static const struct fit {
    enum tachy_pix from, to;
    int w, h, to_w, to_h;
    const struct tachy_color *color, *to_color;
    int waves, fields; // dB, at least
} fits[] = {
    {TACHY_PIX_YUV420P, TACHY_PIX_NV12, 104, 60, 240, 136, &bt709, &bt709, ONCE, ONCE},   // grows
    {TACHY_PIX_NV12, TACHY_PIX_YUV420P, 320, 180, 128, 72, &bt601, &bt601, ONCE, ONCE},   // shrinks
    {TACHY_PIX_YUV420P, TACHY_PIX_NV12, 320, 60, 127, 135, &full, &full, ONCE, ONCE},     // one each, odd
    {TACHY_PIX_YUV444P, TACHY_PIX_YUV444P, 90, 50, 200, 111, &bt601, &bt601, ONCE, ONCE},
    {TACHY_PIX_YUV444P, TACHY_PIX_NV12, 104, 60, 240, 137, &bt601, &bt601, ONCE, ONCE},
    {TACHY_PIX_YUV420P, TACHY_PIX_P010, 104, 60, 240, 136, &bt709, &bt709, ONCE, ONCE},   // ten bits
    {TACHY_PIX_YUV420P, TACHY_PIX_NV12, 104, 60, 320, 180, &bt601, &bt709, TWICE, TWICE}, // another matrix
    {TACHY_PIX_YUV420P, TACHY_PIX_NV12, 121, 61, 91, 135, &full, &bt709, 52, SQUEEZED},   // and range
    {TACHY_PIX_NV12, TACHY_PIX_NV12, 160, 90, 240, 136, &bt709, &full, TWICE, EDGES},
    {TACHY_PIX_YUV420P, TACHY_PIX_NV12, 416, 240, 1280, 720, &untagged, &untagged, TWICE, TWICE}, // BT.601 to BT.709
    {TACHY_PIX_NV12, TACHY_PIX_P010, 1280, 720, 416, 240, &untagged, &untagged, TWICE, EDGES},    // and back
};

static tachy_frame *on_gpu(const struct fit *c, const tachy_frame *from, struct tachy_memory *m, struct tachy_gpu *g)
{
    tachy_fit_cuda *f = NULL;
    tachy_frame *to = NULL;
    struct tachy_fit_cuda_params p = {.memory = m, .mem = tachy_mem_of_gpu(0), .cu = g->device.cu};
    struct tachy_frame_params size = {.format = c->to, .width = c->to_w, .height = c->to_h, .color = *c->to_color};
    CHECK_INT(tachy_frame_new(&to, &size), TACHY_OK);
    CHECK(tachy_fit_cuda_takes(from, to));
    CHECK_INT(tachy_fit_cuda_open(&f, &p), TACHY_OK);
    for (int i = 0; i < 2; i++) // the second time with tables that are there
        CHECK_INT(tachy_fit_cuda_run(f, from, to, g->stream), TACHY_OK);
    tachy_fit_cuda_close(&f);
    return to;
}

// libswscale's result if it converts the matrix too.
static tachy_frame *by_libswscale(const struct fit *c, const tachy_frame *from)
{
    struct tachy_frame_params size = {.format = c->to, .width = c->to_w, .height = c->to_h, .color = *c->to_color};
    tachy_frame *to = NULL;
    CHECK_INT(tachy_frame_new(&to, &size), TACHY_OK);
    struct tachy_color a = tachy_color_resolve(from->color, from->format, from->width, from->height);
    struct tachy_color b = tachy_color_resolve(to->color, to->format, to->width, to->height);
    struct SwsContext *s = sws_getContext(c->w, c->h, tachy_pix_to_av(c->from), c->to_w, c->to_h, tachy_pix_to_av(c->to),
                                          SWS_AREA | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, NULL, NULL, NULL);
    sws_setColorspaceDetails(s, sws_getCoefficients(a.matrix == 1 ? SWS_CS_ITU709 : SWS_CS_ITU601), a.range == 2,
                             sws_getCoefficients(b.matrix == 1 ? SWS_CS_ITU709 : SWS_CS_ITU601), b.range == 2, 0, 1 << 16,
                             1 << 16);
    uint8_t *to_data[4];
    int strides[2][4];
    for (int i = 0; i < 4; i++)
        to_data[i] = tachy_frame_writable(to, i), strides[0][i] = (int)from->stride[i], strides[1][i] = (int)to->stride[i];
    sws_scale(s, from->data, strides[0], 0, c->h, to_data, strides[1]);
    sws_freeContext(s);
    return to;
}

// The largest errors.
struct worst {
    double gpu, cpu, libswscale;
};

static void hold(int number, bool fields, struct worst *all, struct tachy_memory *m, struct tachy_gpu *g)
{
    const struct fit *c = &fits[number];
    struct tachy_convert *convert = NULL;
    tachy_frame *from = draw(c->from, c->w, c->h, *c->color, fields), *host = NULL;
    struct tachy_convert_to to = {c->to, c->to_w, c->to_h, *c->to_color};
    CHECK_INT(tachy_convert_frame(&convert, from, &to, &host, NULL), TACHY_OK);
    tachy_frame *got = on_gpu(c, from, m, g), *sws = by_libswscale(c, from);
    double *want[3];
    ideal(from, host, want);
    struct worst w = {psnr(got, want), psnr(host, want), psnr(sws, want)};
    printf("figure fit_%d_%s gpu %.1f dB, cpu %.1f dB, libswscale alone %.1f dB\n", number, fields ? "fields" : "waves",
           w.gpu, w.cpu, w.libswscale);
    int least = fields ? c->fields : c->waves;
    CHECK(w.gpu >= least);
    CHECK(w.cpu >= least);
    *all = (struct worst){fmin(all->gpu, w.gpu), fmin(all->cpu, w.cpu), fmin(all->libswscale, w.libswscale)};
    for (int i = 0; i < 3; i++)
        free(want[i]);
    tachy_frame_unref(&from);
    tachy_frame_unref(&host);
    tachy_frame_unref(&got);
    tachy_frame_unref(&sws);
    tachy_convert_close(&convert);
}

TEST(as_it_should_be)
{
    struct tachy_memory *m;
    struct tachy_gpu *g = NULL;
    struct worst worst = {99, 99, 99};
    if (tachy_gpu_open(&g, 0, NULL, NULL) < 0) {
        puts("FAIL the fake driver is not there: `meson test test_fit` sets LD_LIBRARY_PATH");
        exit(1);
    }
    CHECK_INT(tachy_memory_open(&m, &(struct tachy_memory_params){0}), TACHY_OK);
    CHECK_INT(tachy_gpu_mem_open(m, &g->device, &(struct tachy_gpu_mem_params){0}), TACHY_OK);
    CHECK_INT(tachy_device_enter(&g->device, NULL), TACHY_OK);
    for (int i = 0; i < (int)TACHY_ARRAY_SIZE(fits); i++) {
        hold(i, false, &worst, m, g);
        hold(i, true, &worst, m, g);
    }
    CHECK(worst.gpu > worst.libswscale && worst.cpu > worst.libswscale);
    tachy_device_leave(&g->device);
    tachy_memory_close(&m);
    tachy_gpu_unref(&g);
}

// Cases left to libswscale.
TEST(takes)
{
    static const struct {
        enum tachy_pix from, to;
        struct tachy_color color;
        int to_w;
        bool taken;
    } all[] = {
        {TACHY_PIX_YUV420P, TACHY_PIX_YUV420P, {.matrix = 1}, 1920, true},
        {TACHY_PIX_YUV420P, TACHY_PIX_YUV420P, {0}, 1920, false}, // another matrix, with more planes
        {TACHY_PIX_YUV420P, TACHY_PIX_NV12, {0}, 1920, true},
        {TACHY_PIX_YUV420P, TACHY_PIX_RGB24, {.matrix = 1}, 640, false},
        {TACHY_PIX_YUV420P10, TACHY_PIX_P010, {.matrix = 1}, 640, false},
        {TACHY_PIX_YUV444P, TACHY_PIX_NV12, {.matrix = 1}, 640, true},
        {TACHY_PIX_YUV444P, TACHY_PIX_NV12, {0}, 1920, false},
        {TACHY_PIX_YUV422P, TACHY_PIX_NV12, {.matrix = 1}, 640, false},
        {TACHY_PIX_GRAY8, TACHY_PIX_NV12, {.matrix = 1}, 640, false},
        {TACHY_PIX_YUVA420P, TACHY_PIX_NV12, {.matrix = 1}, 640, false},
        {TACHY_PIX_RGB24, TACHY_PIX_NV12, {0}, 640, false},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++) {
        tachy_frame f = {.format = all[i].from, .width = 416, .height = 240, .color = all[i].color};
        tachy_frame to = {.format = all[i].to, .width = all[i].to_w, .height = 480, .color = all[i].color};
        CHECK_INT(tachy_fit_cuda_takes(&f, &to), all[i].taken);
    }
}

TEST_MAIN(TEST_CASE(as_it_should_be), TEST_CASE(takes))
