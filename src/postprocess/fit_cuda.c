#include "postprocess/fit_cuda.h"

#include "cuda/kernels.h"
#include "cuda/places.h"
#include "ref/ref_resample.h"

#include <stdlib.h>

enum { LUMA, CHROMA, KINDS };
enum { ACROSS, DOWN, AXES };

// What the tables are made for.
struct key {
    int from_w, from_h, to_w, to_h, sub; // sub: log2 of the chroma step
};

struct tachy_fit_cuda {
    struct tachy_fit_cuda_params p;
    const struct tachy_cuda_kernels *kernels;
    struct key key;
    struct tachy_block tables, scratch;
    struct tachy_cuda_taps taps[KINDS][AXES];
};

static cuda_address address(const void *p) { return (cuda_address)(uintptr_t)p; }

struct colors {
    struct tachy_color from, to;
};

// What is not tagged follows from the size, which is another one behind it.
static struct colors colors_of(const tachy_frame *from, enum tachy_pix format, int width, int height)
{
    return (struct colors){tachy_color_resolve(from->color, from->format, from->width, from->height),
                           tachy_color_resolve(from->color, format, width, height)};
}

static bool same_codes(const struct colors *c)
{
    return c->from.matrix == c->to.matrix && c->from.range == c->to.range;
}

// Planes of bytes with chroma, whose samples can be resized one by one.
static bool has_planes(const struct tachy_pix_desc *d)
{
    return d && !d->rgb && !d->alpha && d->bytes == 1 && d->planes > 1 && d->chroma_shift_x == d->chroma_shift_y;
}

bool tachy_fit_cuda_takes(const tachy_frame *from, enum tachy_pix format, int width, int height)
{
    const struct tachy_pix_desc *f = tachy_pix_desc(from->format), *t = tachy_pix_desc(format);
    if (!tachy_cuda_kernels() || !has_planes(f) || !t)
        return false;
    struct colors c = colors_of(from, format, width, height);
    if (has_planes(t) && same_codes(&c))
        return f->chroma_shift_x == t->chroma_shift_x;
    double kr, kb;
    return f->chroma_shift_x && (format == TACHY_PIX_NV12 || format == TACHY_PIX_P010) &&
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
    struct tachy_gpu_scratch s = {f->p.memory, f->p.place, f->p.cu, stream, f->p.log};
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
        f->taps[i / AXES][i % AXES] = lay(one, host + at, address(f->tables.data) + at);
        at += table_bytes(one);
    }
    if (err == TACHY_OK) // memory that is not pinned has been read when it returns
        err = tachy_cu_check(f->p.cu, f->p.cu->copy_to_device_async(address(f->tables.data), host, all, stream),
                             f->p.log, "copying a table to the GPU");
    free(host);
    return err;
}

static int make_tables(struct tachy_fit_cuda *f, const struct key *k, cuda_stream stream)
{
    struct tachy_taps t[KINDS][AXES] = {0};
    int err = f->tables.data ? wait_for(f, stream) : TACHY_OK; // the last picture's may still be read
    f->key = (struct key){0};
    for (int i = 0; i < KINDS * AXES && err == TACHY_OK; i++) {
        int sub = i / AXES == CHROMA ? k->sub : 0;
        int src = ((i % AXES ? k->from_h : k->from_w) + sub) >> sub, n = ((i % AXES ? k->to_h : k->to_w) + sub) >> sub;
        enum tachy_resample how = n > src ? TACHY_RESAMPLE_BILINEAR : TACHY_RESAMPLE_AREA;
        err = tachy_resample_make(&t[i / AXES][i % AXES], how, src, n);
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
    return (struct samples){address(f->data[plane]) + (d->planes == 2 && component == 2), f->stride[plane],
                            d->components[plane], (f->width + sub) >> sub, (f->height + sub) >> sub};
}

static int resize(struct tachy_fit_cuda *f, const tachy_frame *from, const tachy_frame *to, cuda_stream stream)
{
    struct key k = {from->width, from->height, to->width, to->height, tachy_pix_desc(from->format)->chroma_shift_x};
    int err = memcmp(&k, &f->key, sizeof(k)) ? make_tables(f, &k, stream) : TACHY_OK;
    for (int c = 0; c < 3 && err == TACHY_OK; c++) {
        struct samples s = samples_of(from, c), t = samples_of(to, c);
        struct tachy_cuda_resize r = {.src = s.first, .dst = t.first, .x = f->taps[c > 0][ACROSS],
                                      .y = f->taps[c > 0][DOWN], .row_src = s.row, .col_src = s.col, .row_dst = t.row,
                                      .col_dst = t.col, .width = t.w, .height = t.h, .channels = 1, .count = 1,
                                      .dtype = TACHY_U8};
        err = tachy_cu_check(f->p.cu, f->kernels->resize(&r, stream), f->p.log, "starting the resize's kernel");
    }
    return err;
}

static int convert(struct tachy_fit_cuda *f, const tachy_frame *yuv, struct tachy_color color, cuda_address rgb,
                   bool to_rgb, cuda_stream stream)
{
    int64_t plane = (int64_t)yuv->width * yuv->height * (int64_t)sizeof(float);
    struct tachy_cuda_convert k = {.frame[0] = {.rgb = {rgb, rgb + (cuda_address)plane, rgb + 2 * (cuda_address)plane},
                                                .luma = address(yuv->data[0]), .chroma = address(yuv->data[1])},
                                   .rgb_stride = yuv->width * (int64_t)sizeof(float), .luma_stride = yuv->stride[0],
                                   .chroma_stride = yuv->stride[1], .width = yuv->width, .height = yuv->height,
                                   .count = 1, .to_rgb = to_rgb, .type = TACHY_RGB_F32};
    if (!tachy_yuv_codes_of(&k.codes, tachy_pix_desc(yuv->format)->bits, color.matrix, color.range == 2, 2))
        return TACHY_ERR_UNSUPPORTED;
    return tachy_cu_check(f->p.cu, f->kernels->convert(&k, stream), f->p.log, "starting the conversion's kernel");
}

// At the size that is wanted, in other codes: through R'G'B'.
static int through_rgb(struct tachy_fit_cuda *f, const tachy_frame *from, tachy_frame *to, const struct colors *c,
                       cuda_stream stream)
{
    size_t stride = TACHY_ALIGN((size_t)to->width + 1, 64u), luma = stride * (size_t)to->height;
    size_t yuv = luma + stride * (((size_t)to->height + 1) / 2);
    int err = need(f, &f->scratch, yuv + 3 * sizeof(float) * (size_t)to->width * (size_t)to->height, stream);
    if (err < 0)
        return err;
    const uint8_t *at = f->scratch.data;
    tachy_frame between = {.format = TACHY_PIX_NV12, .width = to->width, .height = to->height, .place = TACHY_DEVICE,
                           .data = {at, at + luma}, .stride = {(ptrdiff_t)stride, (ptrdiff_t)stride}};
    cuda_address rgb = address(at + yuv);
    err = resize(f, from, &between, stream);
    if (err == TACHY_OK)
        err = convert(f, &between, c->from, rgb, true, stream);
    return err < 0 ? err : convert(f, to, c->to, rgb, false, stream);
}

int tachy_fit_cuda_run(tachy_fit_cuda *f, const tachy_frame *from, tachy_frame *to, cuda_stream stream)
{
    if (!tachy_fit_cuda_takes(from, to->format, to->width, to->height))
        return tachy_fail(f->p.log, TACHY_ERR_UNSUPPORTED, "the GPU cannot bring %s to %s of %dx%d",
                          tachy_pix_desc(from->format)->name, tachy_pix_desc(to->format)->name, to->width, to->height);
    struct colors c = colors_of(from, to->format, to->width, to->height);
    return same_codes(&c) && has_planes(tachy_pix_desc(to->format)) ? resize(f, from, to, stream)
                                                                    : through_rgb(f, from, to, &c, stream);
}
