#include "postprocess/composite_cuda_priv.h"

// Interleaved R'G'B', 4:2:2, planes of transparency, and all formats where an edge is moved: alpha is made by the composite's kernel, as bytes, and every plane
// is blended by them. More is read and written than in one pass, and a picture is never converted.

struct tachy_cuda_luma tachy_luma_cuda_of(const tachy_frame *f, int n, int64_t stride)
{
    return (struct tachy_cuda_luma){.in_stride = f->stride[0], .out_stride = stride, .count = n, .width = f->width,
                                    .height = f->height, .step = tachy_pix_desc(f->format)->components[0],
                                    .blue_first = f->format == TACHY_PIX_BGRA};
}

int tachy_composite_cuda_luma(struct tachy_composite_cuda *c, const item *it, int n,
                              struct tachy_composite_cuda_luma *out)
{
    const tachy_frame *f = it[0].in;
    struct tachy_cuda_luma k = tachy_luma_cuda_of(f, n, (int64_t)TACHY_ALIGN((size_t)f->width, 16u));
    size_t size = (size_t)k.out_stride * (size_t)f->height;
    int err = tachy_composite_cuda_need(c, &c->luma, size * (size_t)n);
    if (err < 0)
        return err;
    for (int i = 0; i < n; i++) {
        k.in[i] = tachy_cu_address(it[i].in->data[0]);
        k.out[i] = out->at[i] = tachy_cu_address(c->luma.data) + (cuda_address)i * size;
    }
    out->stride = k.out_stride;
    out->bytes = 1;
    out->shift = 0;
    return tachy_composite_cuda_launched(c, c->kernels->luma(&k, c->stream));
}

int tachy_composite_cuda_place(enum tachy_pix f, int component, int *sample)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f);
    int plane = d->rgb ? 0 : d->planes == 2 && component ? 1 : component;
    *sample = 0;
    while (tachy_component_at(f, plane, *sample) != component)
        ++*sample;
    return plane;
}

// From the frames and their alpha to the blurred picture of cells. A frame's scratch holds, in this order: alpha,
// cells, spare, plane.
static int blur(struct tachy_composite_cuda *c, const item *it, int n, const struct tachy_composite_cuda_blur *s,
                const cuda_address alpha[], int64_t stride)
{
    const tachy_frame *f = it[0].in;
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    struct tachy_cuda_cells g = {.alpha_stride = stride, .count = n, .width = f->width, .height = f->height,
                                 .bytes = d->bytes, .shift = d->shift, .narrow = d->chroma_shift_x,
                                 .low = d->chroma_shift_y, .log2 = s->b.log2, .sw = s->b.sw, .sh = s->b.sh};
    struct tachy_cuda_blur b = {.count = n, .bits = d->bits,
                                .chroma = s->b.comps == 1 ? TACHY_CUDA_CHROMA_NONE : TACHY_CUDA_CHROMA_FULL, .log2 = s->b.log2,
                                .radius = s->b.radius, .sw = s->b.sw, .sh = s->b.sh, .stride = s->stride,
                                .gathered = 1};
    for (int i = 0; i < n; i++) {
        g.frame[i].alpha = alpha[i];
        g.frame[i].cells = b.frame[i].cells = alpha[i] + s->alpha;
        b.frame[i].spare = b.frame[i].cells + s->cells;
        b.frame[i].plane = b.frame[i].spare + s->cells;
        for (int k = 0; k < 3; k++) {
            int sample, plane = tachy_composite_cuda_place(f->format, k < s->b.comps ? k : 0, &sample); // for grey only luma counts
            g.frame[i].in[k] = tachy_cu_address(it[i].in->data[plane]) + (cuda_address)(sample * d->bytes);
            g.in_stride[k] = f->stride[plane];
            g.step[k] = d->components[plane];
        }
    }
    int err = tachy_composite_cuda_launched(c, c->kernels->cells(&g, c->stream));
    return err < 0 ? err : tachy_composite_cuda_launched(c, c->kernels->blur(&b, c->stream));
}

// One plane of the batch. `layers`: has the tables of a blur.
static int blend(struct tachy_composite_cuda *c, const item *it, int n, const struct tachy_composite_cuda_front *front, int plane,
                 const struct tachy_cuda_composite *layers, struct tachy_cuda_blend *k)
{
    const tachy_frame *f = it[0].in;
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    struct tachy_plane p = tachy_plane_of(d, plane, f->width, f->height);
    enum tachy_mode mode = c->params.mode;
    int codes[2][4];
    tachy_composite_fills(&c->params, f, codes);
    k->width = p.w, k->height = p.h, k->comps = p.comps;
    k->narrow = p.chroma ? d->chroma_shift_x : 0;
    k->low = p.chroma ? d->chroma_shift_y : 0;
    k->beside = mode == TACHY_MODE_SIDE_BY_SIDE;
    k->right = k->beside ? tachy_plane_of(d, plane, 2 * f->width, f->height).w - p.w : p.w;
    k->over = mode == TACHY_MODE_OVERLAY;
    k->other = mode == TACHY_MODE_REPLACE ? TACHY_CUDA_LAYER_PICTURE
               : mode == TACHY_MODE_BLUR  ? TACHY_CUDA_LAYER_BLURRED
                                          : TACHY_CUDA_LAYER_FILL;
    k->keep = -1;
    for (int i = 0; i < p.comps; i++) {
        k->component[i] = tachy_component_at(f->format, plane, i);
        k->fill[i] = (uint16_t)(codes[0][k->component[i]] << d->shift);
        if (k->component[i] == 3 && (k->over || mode == TACHY_MODE_BLUR)) // the picture keeps its own transparency
            k->keep = i;
    }
    bool chroma = plane > 0 && plane < 3 && d->chroma_shift_x;
    k->blur_across = layers->blur_across[chroma], k->blur_down = layers->blur_down[chroma];
    k->in_stride = f->stride[plane], k->front_stride = front->frame[0].stride[plane], k->out_stride = it[0].stride[plane];
    for (int i = 0; i < n; i++) {
        k->frame[i].in = tachy_cu_address(it[i].in->data[plane]);
        k->frame[i].front = tachy_cu_address(front->frame[i].data[plane]);
        k->frame[i].out = tachy_cu_address(it[i].data[plane]);
        if (mode == TACHY_MODE_REPLACE) {
            k->other_stride = it[0].background->stride[plane];
            k->frame[i].other = tachy_cu_address(it[i].background->data[plane]);
        }
    }
    return tachy_composite_cuda_launched(c, c->kernels->blend(k, c->stream));
}

int tachy_composite_cuda_any(struct tachy_composite_cuda *c, const item *it, int n)
{
    const tachy_frame *f = it[0].in;
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    bool blurs = c->params.mode == TACHY_MODE_BLUR;
    struct tachy_composite_cuda_blur s = tachy_composite_cuda_blur_of(c, f);
    struct tachy_cuda_composite layers = {0};
    struct tachy_cuda_blend k = {.count = n, .bytes = d->bytes, .shift = d->shift, .frame_width = f->width,
                                 .frame_height = f->height, .blur_stride = s.stride, .blur_h = s.b.sh,
                                 .sparse = tachy_composite_cuda_front_sparse(c)};
    cuda_address alpha[BATCH];
    size_t each = blurs ? s.all : s.alpha;
    struct tachy_composite_cuda_front front;
    int err = tachy_composite_cuda_need(c, &c->scratch, each * (size_t)n);
    if (err < 0 || (err = tachy_composite_cuda_front_place(c, it, n, &front)) < 0)
        return err;
    k.alpha_stride = (int64_t)TACHY_ALIGN((size_t)f->width, 16u);
    for (int i = 0; i < n; i++) {
        alpha[i] = k.frame[i].alpha = tachy_cu_address(c->scratch.data) + (cuda_address)(each * (size_t)i);
        k.frame[i].blurred = alpha[i] + s.alpha + 2 * s.cells;
    }
    int strength = c->params.mode == TACHY_MODE_OVERLAY ? (int)(c->params.color & 255) : 255;
    err = tachy_composite_cuda_alpha(c, it, n, strength, alpha, k.alpha_stride);
    if (err == TACHY_OK)
        err = tachy_composite_cuda_front(c, it, n, &front, alpha, k.alpha_stride, k.sparse);
    if (err == TACHY_OK && blurs)
        err = tachy_composite_cuda_blur_tables(c, &s, &layers);
    if (err == TACHY_OK && blurs)
        err = blur(c, it, n, &s, alpha, k.alpha_stride);
    for (int plane = 0; plane < d->planes && err == TACHY_OK; plane++)
        err = blend(c, it, n, &front, plane, &layers, &k);
    return err;
}

// Mode alpha

// All but addresses.
static struct tachy_cuda_alpha_any alpha_params(const struct tachy_composite_cuda *c, const tachy_frame *f)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format), *t = tachy_pix_desc(c->params.alpha_format);
    struct tachy_color color = tachy_color_resolve(f->color, f->format, f->width, f->height);
    struct tachy_yuv_to_rgb m = tachy_yuv_to_rgb(color.matrix);
    bool full = color.range == 2;
    double kr, kb;
    tachy_matrix_weights(1, &kr, &kb); // R'G'B' becomes BT.709
    struct tachy_cuda_alpha_any k = {.width = f->width, .height = f->height, .bytes = d->bytes, .shift = d->shift,
                                     .rgb = d->rgb, .chroma_loc = color.chroma_loc, .rv = m.rv, .gu = m.gu, .gv = m.gv,
                                     .bu = m.bu, .fr = (float)kr, .fb = (float)kb};
    k.fg = 1 - k.fr - k.fb;
    k.to = t->rgb ? TACHY_CUDA_RGBA : t->bytes == 2 ? TACHY_CUDA_YUVA444P10 : TACHY_CUDA_YUVA420P;
    for (int i = 0; i < 2; i++) {
        k.in[i] = tachy_composite_cuda_range(d, full, i);
        k.out[i] = tachy_composite_cuda_range(t, t->rgb || (full && !d->rgb), i);
    }
    return k;
}

int tachy_composite_cuda_any_alpha(struct tachy_composite_cuda *c, const item *it, int n)
{
    const tachy_frame *f = it[0].in;
    struct tachy_cuda_alpha_any k = alpha_params(c, f);
    bool own_plane = k.to == TACHY_CUDA_YUVA420P; // its plane 3 is the unmodified alpha
    size_t stride = TACHY_ALIGN((size_t)f->width, 16u), size = stride * (size_t)f->height;
    int err = own_plane ? TACHY_OK : tachy_composite_cuda_need(c, &c->scratch, size * (size_t)n);
    struct tachy_composite_cuda_front front;
    if (err < 0 || (err = tachy_composite_cuda_front_place(c, it, n, &front)) < 0)
        return err;
    cuda_address alpha[BATCH];
    k.count = n;
    k.alpha_stride = own_plane ? it[0].stride[3] : (int64_t)stride;
    for (int p = 0; p < 4; p++)
        k.out_stride[p] = it[0].stride[p];
    for (int i = 0; i < n; i++) {
        struct tachy_cuda_alpha_frame *o = &k.frame[i];
        alpha[i] = own_plane ? tachy_cu_address(it[i].data[3])
                             : tachy_cu_address(c->scratch.data) + (cuda_address)(size * (size_t)i);
        o->alpha = alpha[i];
        for (int p = 0; p < 4; p++)
            o->out[p] = tachy_cu_address(it[i].data[p]);
        for (int comp = 0; comp < 3; comp++) {
            int sample, plane = tachy_composite_cuda_place(f->format, comp, &sample);
            o->in[comp] = tachy_cu_address(front.frame[i].data[plane]) + (cuda_address)(sample * k.bytes);
            k.in_stride[comp] = front.frame[0].stride[plane];
            k.step[comp] = tachy_pix_desc(f->format)->components[plane];
        }
    }
    err = tachy_composite_cuda_alpha(c, it, n, 255, alpha, k.alpha_stride);
    if (err == TACHY_OK)
        err = tachy_composite_cuda_front(c, it, n, &front, alpha, k.alpha_stride, false);
    return err < 0 ? err : tachy_composite_cuda_launched(c, c->kernels->alpha_any(&k, c->stream));
}
