#include "postprocess/fit_cuda.h"

#include "base/ycbcr.h"
#include "cuda/kernels.h"
#include "cuda/mem.h"
#include "ref/ref_resample.h"

#include <stdlib.h>

enum { LUMA, CHROMA, KINDS };
enum { ACROSS, DOWN, AXES };

// The tables' parameters.
struct key {
    int from_w, from_h, to_w, to_h, sub, to_sub; // sub: log2 of the chroma step
    int pairs; // chroma for each pixel, from which that of `to` is made
};

struct tachy_fit_cuda {
    struct tachy_fit_cuda_params p;
    const struct tachy_cuda_kernels *kernels;
    struct key key;
    struct tachy_block tables, scratch;
    struct tachy_cuda_taps taps[KINDS][AXES];
};

struct colors {
    struct tachy_color from, to;
};

// Untagged colours follow from the size.
static struct colors colors_of(const tachy_frame *from, const tachy_frame *to)
{
    return (struct colors){tachy_color_resolve(from->color, from->format, from->width, from->height),
                           tachy_color_resolve(to->color, to->format, to->width, to->height)};
}

static bool same_codes(const struct colors *c)
{
    return tachy_same_matrix(c->from.matrix, c->to.matrix) && c->from.range == c->to.range;
}

// Planes of bytes with chroma, whose samples can be resized one by one.
static bool has_planes(const struct tachy_pix_desc *d)
{
    return d && !d->rgb && !d->alpha && d->bytes == 1 && d->planes > 1 && d->chroma_shift_x == d->chroma_shift_y;
}

bool tachy_fit_cuda_takes(const tachy_frame *from, const tachy_frame *to)
{
    const struct tachy_pix_desc *f = tachy_pix_desc(from->format), *t = tachy_pix_desc(to->format);
    if (!tachy_cuda_kernels() || !has_planes(f) || !t)
        return false;
    struct colors c = colors_of(from, to);
    if (has_planes(t) && same_codes(&c))
        return true;
    double kr, kb;
    return f->chroma_shift_x && (to->format == TACHY_PIX_NV12 || to->format == TACHY_PIX_P010) &&
           tachy_luma_weights(c.from.matrix, &kr, &kb) && tachy_luma_weights(c.to.matrix, &kr, &kb);
}

int tachy_fit_cuda_open(tachy_fit_cuda **out, const struct tachy_fit_cuda_params *p)
{
    struct tachy_fit_cuda *f = *out = calloc(1, sizeof(*f));
    if (!f)
        return TACHY_ERR_NOMEM;
    f->p = *p;
    f->kernels = tachy_cuda_kernels();
    return TACHY_OK;
}

void tachy_fit_cuda_close(tachy_fit_cuda **fit)
{
    struct tachy_fit_cuda *f = *fit;
    *fit = NULL;
    if (!f)
        return;
    tachy_memory_give(f->p.memory, &f->tables);
    tachy_memory_give(f->p.memory, &f->scratch);
    free(f);
}

static int wait_for(struct tachy_fit_cuda *f, cuda_stream stream)
{
    return tachy_cu_check(f->p.cu, f->p.cu->stream_wait(stream), f->p.log, "waiting for a stream");
}

static int need(struct tachy_fit_cuda *f, struct tachy_block *b, size_t size, cuda_stream stream)
{
    struct tachy_gpu_scratch s = {f->p.memory, f->p.mem, f->p.cu, stream, f->p.log};
    return tachy_gpu_scratch_need(&s, b, size);
}

// ---- Tables

static size_t table_bytes(const struct tachy_taps *t)
{
    return TACHY_ALIGN((size_t)t->outputs * (2 * sizeof(int32_t) + (size_t)t->max * sizeof(float)), 64u);
}

// Puts a table into `to` (of what goes to the GPU), which will lie at `there`.
static struct tachy_cuda_taps lay(const struct tachy_taps *t, char *to, cuda_address there)
{
    size_t n = (size_t)t->outputs * sizeof(int32_t);
    memcpy(to, t->start, n);
    memcpy(to + n, t->count, n);
    memcpy(to + 2 * n, t->weight, (size_t)t->outputs * (size_t)t->max * sizeof(float));
    return (struct tachy_cuda_taps){there, there + n, there + 2 * n, t->max};
}

static int send_tables(struct tachy_fit_cuda *f, struct tachy_taps t[KINDS][AXES], cuda_stream stream)
{
    size_t all = 0, at = 0;
    for (int i = 0; i < KINDS * AXES; i++)
        all += table_bytes(&t[i / AXES][i % AXES]);
    char *host = calloc(1, all);
    int err = host ? need(f, &f->tables, all, stream) : TACHY_ERR_NOMEM;
    for (int i = 0; i < KINDS * AXES && err == TACHY_OK; i++) {
        struct tachy_taps *one = &t[i / AXES][i % AXES];
        f->taps[i / AXES][i % AXES] = lay(one, host + at, tachy_cu_address(f->tables.data) + at);
        at += table_bytes(one);
    }
    if (err == TACHY_OK) // memory that is not pinned has been read when it returns
        err = tachy_cu_check(f->p.cu, f->p.cu->copy_to_device_async(tachy_cu_address(f->tables.data), host, all, stream),
                             f->p.log, "copying a table to the GPU");
    free(host);
    return err;
}

static double weight_at(const struct tachy_taps *t, int i, int sample)
{
    int k = sample - t->start[i];
    return k >= 0 && k < t->count[i] ? (double)t->weight[(size_t)i * (size_t)t->max + (size_t)k] : 0;
}

// Output i of `t`: what `fine` has of it, moved by what the pair that it belongs to is off the `coarse` one in the mean.
static void pair_output(struct tachy_taps *t, const struct tachy_taps *fine, const struct tachy_taps *coarse, int i)
{
    int j = i / 2, a = 2 * j, b = TACHY_MIN(a + 1, fine->outputs - 1);
    int first = TACHY_MIN(coarse->start[j], fine->start[a]);
    int end = TACHY_MAX(coarse->start[j] + coarse->count[j], fine->start[b] + fine->count[b]);
    t->start[i] = first;
    t->count[i] = end - first;
    for (int k = first; k < end; k++)
        t->weight[(size_t)i * (size_t)t->max + (size_t)(k - first)] =
            (float)(weight_at(fine, i, k) + weight_at(coarse, j, k) - (weight_at(fine, a, k) + weight_at(fine, b, k)) / 2);
}

static int make_axis(struct tachy_taps *t, int src, int n)
{
    return tachy_resample_make(t, n > src ? TACHY_RESAMPLE_BILINEAR : TACHY_RESAMPLE_AREA, src, n);
}

// Chroma for each of n pixels, such that the mean of two equals a sample for both.
static int make_pairs(struct tachy_taps *t, int src, int n)
{
    struct tachy_taps fine = {0}, coarse = {0};
    int err = make_axis(&fine, src, n);
    if (err == TACHY_OK)
        err = make_axis(&coarse, src, (n + 1) / 2);
    *t = (struct tachy_taps){.outputs = n, .hi = src, .max = coarse.max + 2 * fine.max};
    t->start = calloc((size_t)n, sizeof(t->start[0]));
    t->count = calloc((size_t)n, sizeof(t->count[0]));
    t->weight = calloc((size_t)n * (size_t)t->max, sizeof(t->weight[0]));
    if (!t->start || !t->count || !t->weight)
        err = TACHY_ERR_NOMEM;
    for (int i = 0; i < n && err == TACHY_OK; i++)
        pair_output(t, &fine, &coarse, i);
    tachy_resample_free(&fine);
    tachy_resample_free(&coarse);
    return err;
}

static int make_tables(struct tachy_fit_cuda *f, const struct key *k, cuda_stream stream)
{
    struct tachy_taps t[KINDS][AXES] = {0};
    int err = f->tables.data ? wait_for(f, stream) : TACHY_OK; // the last picture's may still be read
    f->key = (struct key){0};
    for (int i = 0; i < KINDS * AXES && err == TACHY_OK; i++) {
        struct tachy_taps *one = &t[i / AXES][i % AXES];
        bool chroma = i / AXES == CHROMA;
        int sub = chroma ? k->sub : 0, to_sub = chroma ? k->to_sub : 0;
        int src = ((i % AXES ? k->from_h : k->from_w) + sub) >> sub, n = i % AXES ? k->to_h : k->to_w;
        err = chroma && k->pairs ? make_pairs(one, src, n) : make_axis(one, src, (n + to_sub) >> to_sub);
    }
    if (err == TACHY_OK)
        err = send_tables(f, t, stream);
    for (int i = 0; i < KINDS * AXES; i++)
        tachy_resample_free(&t[i / AXES][i % AXES]);
    if (err == TACHY_OK)
        f->key = *k;
    return err;
}

// ---- The picture

// A component's samples.
struct samples {
    cuda_address first;
    int64_t row, col;
    int w, h;
};

static struct samples samples_of(const tachy_frame *f, int component)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    int plane = d->planes == 2 && component ? 1 : component, sub = component ? d->chroma_shift_x : 0;
    return (struct samples){tachy_cu_address(f->data[plane]) + (d->planes == 2 && component == 2), f->stride[plane],
                            d->components[plane], (f->width + sub) >> sub, (f->height + sub) >> sub};
}

static int resize(struct tachy_fit_cuda *f, const tachy_frame *from, const struct samples to[3], bool pairs,
                  cuda_stream stream)
{
    int sub = to[1].w != to[0].w || to[1].h != to[0].h; // of a picture of one pixel it does not matter
    struct key k = {from->width, from->height, to[0].w, to[0].h, tachy_pix_desc(from->format)->chroma_shift_x, sub, pairs};
    int err = memcmp(&k, &f->key, sizeof(k)) ? make_tables(f, &k, stream) : TACHY_OK;
    for (int c = 0; c < 3 && err == TACHY_OK; c++) {
        struct samples s = samples_of(from, c), t = to[c];
        struct tachy_cuda_resize r = {.src = s.first, .dst = t.first, .x = f->taps[c > 0][ACROSS],
                                      .y = f->taps[c > 0][DOWN], .row_src = s.row, .col_src = s.col, .row_dst = t.row,
                                      .col_dst = t.col, .width = t.w, .height = t.h, .channels = 1, .count = 1,
                                      .dtype = TACHY_U8};
        err = tachy_cu_check(f->p.cu, f->kernels->resize(&r, stream), f->p.log, "starting the resize's kernel");
    }
    return err;
}

static int straight(struct tachy_fit_cuda *f, const tachy_frame *from, const tachy_frame *to, cuda_stream stream)
{
    return resize(f, from, (struct samples[3]){samples_of(to, 0), samples_of(to, 1), samples_of(to, 2)}, false,
                  stream);
}

// At the size that is wanted, in other codes: chroma for each pixel, which luma needs there, then the new codes in one
// pass.
static int recoded(struct tachy_fit_cuda *f, const tachy_frame *from, const tachy_frame *to, const struct colors *c,
                   cuda_stream stream)
{
    int64_t row = TACHY_ALIGN(3 * (int64_t)to->width, 64);
    int err = need(f, &f->scratch, (size_t)row * (size_t)to->height, stream);
    if (err < 0)
        return err;
    cuda_address all = tachy_cu_address(f->scratch.data);
    struct samples three[3];
    for (int i = 0; i < 3; i++)
        three[i] = (struct samples){all + (cuda_address)i, row, 3, to->width, to->height};
    struct tachy_cuda_convert k = {.frame[0] = {.rgb = {all}, .luma = tachy_cu_address(to->data[0]),
                                                .chroma = tachy_cu_address(to->data[1])},
                                   .rgb_stride = row, .luma_stride = to->stride[0], .chroma_stride = to->stride[1],
                                   .width = to->width, .height = to->height, .count = 1, .type = TACHY_RGB_BYTES3};
    tachy_yuv_codes_between(&k.codes, &(struct tachy_yuv_side){c->from.matrix, c->from.range == 2},
                            &(struct tachy_yuv_side){c->to.matrix, c->to.range == 2}, tachy_pix_desc(to->format)->bits);
    err = resize(f, from, three, true, stream);
    return err < 0 ? err : tachy_cu_check(f->p.cu, f->kernels->convert(&k, stream), f->p.log,
                                          "starting the conversion's kernel");
}

int tachy_fit_cuda_run(tachy_fit_cuda *f, const tachy_frame *from, tachy_frame *to, cuda_stream stream)
{
    if (!tachy_fit_cuda_takes(from, to))
        return tachy_fail(f->p.log, TACHY_ERR_UNSUPPORTED, "the GPU cannot bring %s to %s of %dx%d",
                          tachy_pix_desc(from->format)->name, tachy_pix_desc(to->format)->name, to->width, to->height);
    struct colors c = colors_of(from, to);
    return same_codes(&c) && has_planes(tachy_pix_desc(to->format)) ? straight(f, from, to, stream)
                                                                    : recoded(f, from, to, &c, stream);
}
