#include "postprocess/composite_cuda_priv.h"

#include "postprocess/chroma.h"
#include "postprocess/key.h"
#include "ref/ref_foreground.h"

#include <math.h>

// The frames of a batch with the person's own colours: what tachy_front_make() makes, on a GPU. Planes that stay as they are
// are the frame's.

bool tachy_composite_cuda_fronts(const struct tachy_composite_cuda *c)
{
    const struct tachy_composite_params *p = &c->params;
    return (p->foreground || p->despill) && p->mode != TACHY_MODE_MASK && p->mode != TACHY_MODE_OVERLAY;
}

// True if a plane is recomputed: with only despill, just those that hold a hue are.
static bool is_made(const struct tachy_composite_cuda *c, const struct tachy_pix_desc *d, int plane)
{
    return plane < 3 && (c->params.foreground || d->rgb || plane > 0);
}

static size_t row_of(const tachy_frame *f, int plane)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    struct tachy_plane p = tachy_plane_of(d, plane, f->width, f->height);
    return TACHY_ALIGN((size_t)p.w * (size_t)p.comps * d->bytes, 64u);
}

int tachy_composite_cuda_front_place(struct tachy_composite_cuda *c, const item *it, int n, struct tachy_composite_cuda_front *s)
{
    const tachy_frame *f = it[0].in;
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    size_t own = TACHY_ALIGN((size_t)tachy_cuda_front_scratch(f->width, f->height), 64u), all = own, at[4] = {0};
    for (int p = 0; p < d->planes; p++) {
        at[p] = all;
        if (is_made(c, d, p))
            all += row_of(f, p) * (size_t)tachy_plane_of(d, p, f->width, f->height).h;
    }
    bool fronts = tachy_composite_cuda_fronts(c);
    int err = fronts ? tachy_composite_cuda_need(c, &c->front, all * (size_t)n) : TACHY_OK;
    for (int i = 0; i < n && err == TACHY_OK; i++) {
        uint8_t *base = fronts ? (uint8_t *)c->front.data + all * (size_t)i : NULL;
        s->scratch[i] = tachy_cu_address(base);
        s->frame[i] = *it[i].in;
        for (int p = 0; p < d->planes && fronts; p++)
            if (is_made(c, d, p)) {
                s->frame[i].data[p] = base + at[p];
                s->frame[i].stride[p] = (ptrdiff_t)row_of(f, p);
            }
    }
    return err;
}

static void set_screen(const struct tachy_composite_cuda *c, const tachy_frame *f, struct tachy_cuda_front *k)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    const struct tachy_yuv_to_rgb m = tachy_yuv_to_rgb(1);
    enum tachy_key_hue hue = c->params.despill == TACHY_SPILL_BLUE ? TACHY_KEY_BLUE : TACHY_KEY_GREEN;
    struct tachy_ycbcr screen = tachy_key_screen(hue, tachy_chroma_matrix(f));
    float length = hypotf(screen.u, screen.v);
    double kr, kb;
    if (c->params.despill == TACHY_SPILL_OFF || length == 0 || (!d->rgb && d->planes == 1)) // grey has no hue
        return;
    tachy_matrix_weights(1, &kr, &kb);
    k->screen[0] = screen.u / length, k->screen[1] = screen.v / length;
    k->narrowness = TACHY_KEY_NARROW;
    k->depth = tachy_despill_depth(f->height);
    k->rv = m.rv, k->gu = m.gu, k->gv = m.gv, k->bu = m.bu;
    k->kr = (float)kr, k->kb = (float)kb;
}

static void set_sizes(struct tachy_cuda_front *k)
{
    int w = (k->width + TACHY_CUDA_FRONT_CELL - 1) / TACHY_CUDA_FRONT_CELL;
    int h = (k->height + TACHY_CUDA_FRONT_CELL - 1) / TACHY_CUDA_FRONT_CELL;
    k->levels = tachy_ref_foreground_levels(w, h);
    for (int i = 0; i <= k->levels && i < TACHY_CUDA_FRONT_LEVELS; i++) {
        k->size[i][0] = tachy_ref_foreground_size(w, i, k->levels);
        k->size[i][1] = tachy_ref_foreground_size(h, i, k->levels);
    }
}

bool tachy_composite_cuda_front_sparse(const struct tachy_composite_cuda *c)
{
    return c->params.foreground && c->params.despill == TACHY_SPILL_OFF && c->params.mode != TACHY_MODE_BLUR;
}

int tachy_composite_cuda_front(struct tachy_composite_cuda *c, const item *it, int n, const struct tachy_composite_cuda_front *s,
                               const cuda_address alpha[], int64_t stride, bool sparse)
{
    const tachy_frame *f = it[0].in;
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    struct tachy_cuda_front k = {.alpha_stride = stride, .count = n, .width = f->width, .height = f->height, .bytes = d->bytes,
                                 .shift = d->shift, .bits = d->bits, .rgb = d->rgb, .narrow = d->rgb ? 0 : d->chroma_shift_x,
                                 .low = d->rgb ? 0 : d->chroma_shift_y, .estimated = c->params.foreground,
                                 .sparse = sparse};
    if (!tachy_composite_cuda_fronts(c))
        return TACHY_OK;
    set_sizes(&k);
    set_screen(c, f, &k);
    int comps = d->rgb ? d->components[0] : d->planes > 1 ? 3 : 1;
    for (int comp = 0; comp < comps; comp++) {
        int first, plane = tachy_composite_cuda_place(f->format, comp, &first);
        k.in_stride[comp] = f->stride[plane];
        k.out_stride[comp] = s->frame[0].stride[plane];
        k.step[comp] = d->components[plane];
        for (int i = 0; i < n; i++) {
            k.frame[i].in[comp] = tachy_cu_address(it[i].in->data[plane]) + (cuda_address)(first * d->bytes);
            k.frame[i].out[comp] = is_made(c, d, plane) ? tachy_cu_address(s->frame[i].data[plane]) + (cuda_address)(first * d->bytes) : 0;
        }
    }
    for (int i = 0; i < n; i++)
        k.frame[i].alpha = alpha[i], k.frame[i].scratch = s->scratch[i];
    return tachy_composite_cuda_launched(c, c->kernels->front(&k, c->stream));
}
