#include "check_cuda.h"

#include "base/base.h"
#include "ref/ref_convert.h"
#include "ref/ref_preprocess.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Between R'G'B' and Y'CbCr: the twin's bits, and no write outside the pictures.

static const struct {
    const char *name;
    int bytes, samples; // of a sample; samples of a pixel in a row of memory
} types[] = {
    [TACHY_RGB_BYTES3] = {"rgb24", 1, 3},
    [TACHY_RGB_BYTES4] = {"rgba", 1, 4},
    [TACHY_RGB_F16] = {"planes of fp16", 2, 1},
    [TACHY_RGB_F32] = {"planes of fp32", 4, 1},
};

// A plane here and on the GPU, ending with its last sample.
struct plane {
    uint8_t *data, *got;
    size_t size;
    int64_t first, stride; // of the rows, bytes
    cuda_address gpu;
};

struct rows {
    int64_t bytes, stride;
    int offset, count;
    bool upside_down;
};

static struct rows rows_of(struct check *c, int64_t bytes, int count)
{
    struct rows r = {.bytes = bytes, .count = count, .stride = TACHY_ALIGN(bytes, 16)};
    if (check_range(c, 0, 1)) {
        r.stride = bytes + check_range(c, 0, 40);
        r.offset = check_range(c, 0, 15);
    }
    r.upside_down = check_range(c, 0, 5) == 0;
    return r;
}

static float any_value(struct check *c)
{
    switch (check_range(c, 0, 40)) {
    case 0: return NAN;
    case 1: return check_range(c, 0, 1) ? INFINITY : -INFINITY;
    case 2: return check_float(c, -3, 3);
    default: return check_range(c, 0, 1) ? check_float(c, -0.1f, 1.1f) : (float)check_range(c, 0, 255) / 255;
    }
}

// bytes: of a float, 0: any words
static void fill(struct check *c, uint8_t *data, size_t size, int bytes)
{
    if (bytes < 2) {
        check_fill(c, data, size);
        return;
    }
    for (size_t i = 0; i + (size_t)bytes <= size; i += (size_t)bytes) {
        float v = any_value(c);
        uint16_t half = tachy_ref_half(v);
        memcpy(data + i, bytes == 2 ? (void *)&half : (void *)&v, (size_t)bytes);
    }
}

// `source`: filled; else a pattern.
static struct plane plane_of(struct check *c, const struct rows *r, bool source, int bytes)
{
    int64_t all = r->stride * (r->count - 1);
    struct plane p = {.size = (size_t)(r->offset + all + r->bytes), .stride = r->upside_down ? -r->stride : r->stride};
    p.first = r->offset + (r->upside_down ? all : 0);
    p.data = malloc(p.size);
    p.got = malloc(p.size);
    if (!p.data || !p.got)
        abort();
    memset(p.data, 0xcd, p.size);
    if (source)
        fill(c, p.data + r->offset, p.size - (size_t)r->offset, bytes);
    p.gpu = check_gpu_put(c, p.data, p.size);
    return p;
}

struct picture {
    struct plane rgb[3], luma, chroma;
};

static struct tachy_cuda_convert random_job(struct check *c)
{
    static const int matrices[] = {1, 4, 5, 6, 7, 9};
    struct tachy_cuda_convert p = {
        .width = check_range(c, 1, check_range(c, 0, 1) ? 40 : 700), .height = check_range(c, 1, 40),
        .count = check_range(c, 1, check_range(c, 0, 3) ? 2 : TACHY_CUDA_CONVERT_FRAMES),
        .to_rgb = check_range(c, 0, 1), .type = (enum tachy_rgb_type)check_range(c, 0, TACHY_RGB_F32),
    };
    p.blue_first = p.type <= TACHY_RGB_BYTES4 && check_range(c, 0, 1);
    tachy_yuv_codes_of(&p.codes, check_range(c, 0, 1) ? 8 : 10, matrices[check_range(c, 0, 5)], check_range(c, 0, 1),
                       check_range(c, 0, 4));
    struct tachy_yuv_side from = {matrices[check_range(c, 0, 5)], check_range(c, 0, 1)},
                          to = {matrices[check_range(c, 0, 5)], check_range(c, 0, 1)};
    if (!p.to_rgb && p.type == TACHY_RGB_BYTES3 && !p.blue_first) // from Y'CbCr to Y'CbCr
        tachy_yuv_codes_between(&p.codes, &from, &to, p.codes.bits);
    return p;
}

static void twin(const struct tachy_cuda_convert *p, const struct picture *i)
{
    struct tachy_rgb_picture rgb = {.type = p->type, .blue_first = p->blue_first, .stride = p->rgb_stride};
    for (int k = 0; k < 3; k++)
        rgb.plane[k] = i->rgb[k].data ? i->rgb[k].data + i->rgb[k].first : NULL;
    struct tachy_yuv_picture yuv = {i->luma.data + i->luma.first, i->chroma.data + i->chroma.first, p->luma_stride,
                                    p->chroma_stride};
    if (p->to_rgb)
        tachy_ref_yuv_to_rgb(&p->codes, &yuv, &rgb, p->width, p->height);
    else
        tachy_ref_rgb_to_yuv(&p->codes, &rgb, &yuv, p->width, p->height);
}

// All of the memory is as the twin left it.
static void compare(struct check *c, const struct tachy_cuda_convert *p, struct plane *i, const char *what)
{
    if (i->data) {
        check_gpu_get(c, i->got, i->gpu, i->size);
        size_t at = 0;
        while (at < i->size && i->got[at] == i->data[at])
            at++;
        check_case(c, at == i->size, "convert %dx%d to %s %s, %d bits, %s of %d: byte %zu of %zu is %d, not %d",
                   p->width, p->height, p->to_rgb ? "rgb" : "yuv", types[p->type].name, p->codes.bits, what, p->count,
                   at, i->size, at < i->size ? i->got[at] : 0, at < i->size ? i->data[at] : 0);
        check_gpu_free(c, i->gpu);
    }
    free(i->data), free(i->got);
}

static void one(struct check *c)
{
    struct tachy_cuda_convert p = random_job(c);
    int bytes = types[p.type].bytes, deep = p.codes.bits == 8 ? 1 : 2, planes = bytes > 1 ? 3 : 1;
    struct rows rgb = rows_of(c, (int64_t)p.width * bytes * types[p.type].samples, p.height);
    struct rows luma = rows_of(c, (int64_t)p.width * deep, p.height);
    struct rows chroma = rows_of(c, (int64_t)(p.width + 1) / 2 * 2 * deep, (p.height + 1) / 2);
    struct picture pic[TACHY_CUDA_CONVERT_FRAMES] = {0};
    for (int i = 0; i < p.count; i++) {
        struct picture *f = &pic[i];
        for (int k = 0; k < planes; k++) {
            f->rgb[k] = plane_of(c, &rgb, !p.to_rgb, bytes);
            p.frame[i].rgb[k] = f->rgb[k].gpu + (cuda_address)f->rgb[k].first;
        }
        f->luma = plane_of(c, &luma, p.to_rgb, 0);
        f->chroma = plane_of(c, &chroma, p.to_rgb, 0);
        p.frame[i].luma = f->luma.gpu + (cuda_address)f->luma.first;
        p.frame[i].chroma = f->chroma.gpu + (cuda_address)f->chroma.first;
    }
    p.rgb_stride = pic[0].rgb[0].stride, p.luma_stride = pic[0].luma.stride, p.chroma_stride = pic[0].chroma.stride;
    check_gpu_launched(c, c->gpu->kernels->convert(&p, c->gpu->stream), "convert");
    for (int i = 0; i < p.count; i++) {
        twin(&p, &pic[i]);
        for (int k = 0; k < 3; k++)
            compare(c, &p, &pic[i].rgb[k], "rgb");
        compare(c, &p, &pic[i].luma, "luma");
        compare(c, &p, &pic[i].chroma, "chroma");
    }
}

CHECK_GPU_TIMED(convert, struct tachy_cuda_convert)

static void bench(struct check *c, int bits, enum tachy_rgb_type type, bool to_rgb, int w, int h, int n)
{
    int deep = bits == 8 ? 1 : 2, planes = types[type].bytes > 1 ? 3 : 1;
    int64_t row = (int64_t)w * types[type].bytes * types[type].samples;
    size_t rgb = (size_t)(row * h * planes), yuv = (size_t)w * (size_t)h * 3 / 2 * (size_t)deep, each = rgb + yuv;
    uint8_t *noise = malloc(each * (size_t)n);
    check_fill(c, noise, each * (size_t)n);
    cuda_address all = check_gpu_put(c, noise, each * (size_t)n);
    struct timed_convert t = {c, {.rgb_stride = row, .luma_stride = w * deep, .chroma_stride = w * deep, .width = w,
                          .height = h, .count = n, .to_rgb = to_rgb, .type = type}};
    tachy_yuv_codes_of(&t.p.codes, bits, 1, false, 1);
    for (int i = 0; i < n; i++) {
        struct tachy_cuda_convert_frame *f = &t.p.frame[i];
        cuda_address at = all + (cuda_address)i * each;
        for (int k = 0; k < planes; k++)
            f->rgb[k] = at + (cuda_address)(row * h * k);
        f->luma = at + rgb;
        f->chroma = f->luma + (cuda_address)w * (cuda_address)h * (cuda_address)deep;
    }
    char what[64];
    snprintf(what, sizeof(what), "%d x %dx%d %s %s %s", n, w, h, bits == 8 ? "nv12" : "p010", to_rgb ? "to" : "from",
             types[type].name);
    check_gpu_row(c, "convert", what, check_gpu_time(c, launch_convert, &t), (double)each * n);
    check_gpu_free(c, all);
    free(noise);
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 200); i++)
        one(c);
    for (int type = 0; c->bench && type <= TACHY_RGB_F32; type++)
        for (int i = 0; i < 4; i++)
            bench(c, i / 2 ? 10 : 8, (enum tachy_rgb_type)type, i % 2, 3840, 2160, 8);
    if (c->bench) {
        bench(c, 8, TACHY_RGB_BYTES3, true, 1920, 1080, 1);
        bench(c, 8, TACHY_RGB_BYTES3, false, 1920, 1080, 1);
    }
}

const struct check_op check_cuda_convert = {.name = "convert", .run = run, .cuda = true};
