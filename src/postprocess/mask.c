#include "postprocess/mask_priv.h"

#include "postprocess/kernels.h"
#include "ref/ref_preprocess.h"

#include <math.h>

enum { CHUNK = 256 }; // tensor pixels handled at a time, on the stack

static bool single(enum tachy_output_meaning m)
{
    return m == TACHY_OUT_PROBABILITY || m == TACHY_OUT_LOGIT || m == TACHY_OUT_ALPHA || m == TACHY_OUT_UNKNOWN;
}

static void dense_strides(const struct tachy_tensor *t, int64_t stride[TACHY_MAX_RANK])
{
    bool given = false;
    for (int i = 0; i < t->rank; i++)
        given |= t->stride[i] != 0;
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        stride[i] = given ? t->stride[i] : step;
        step *= t->shape[i];
    }
}

bool mask_grid_of(const struct tachy_mask_spec *spec, const struct tachy_tensor *t, struct mask_grid *g)
{
    if (t->rank < 2 || t->rank > 4 || tachy_tensor_elements(t) <= 0)
        return false;
    int64_t stride[TACHY_MAX_RANK];
    dense_strides(t, stride);
    int first = t->rank == 4, last = t->rank - 1; // dimensions except N
    bool plain = t->rank == 2 || (t->rank == 3 && single(spec->meaning) && t->shape[0] == 1 &&
                                  (t->shape[2] != 1 || spec->layout == TACHY_NCHW));
    int y = plain ? last - 1 : spec->layout == TACHY_NCHW ? first + 1 : first;
    int c = plain ? -1 : spec->layout == TACHY_NCHW ? first : last;
    *g = (struct mask_grid){t,         t->shape[y],   t->shape[y + 1],      c < 0 ? 1 : t->shape[c],
                       stride[y], stride[y + 1], c < 0 ? 0 : stride[c]};
    if (t->rank == 4 && t->shape[0] != 1)
        return false;
    if (g->w > 65535 || g->h > 65535)
        return false;
    return single(spec->meaning) ? g->c == 1 : spec->channel >= 0 && spec->channel < g->c;
}

int tachy_mask_extent(const struct tachy_mask_spec *spec, const struct tachy_tensor *t, int *width,
                      int *height)
{
    struct mask_grid g;
    *width = *height = 0;
    if (!mask_grid_of(spec, t, &g))
        return TACHY_ERR_MISMATCH;
    *width = (int)g.w;
    *height = (int)g.h;
    return TACHY_OK;
}

struct tachy_rect mask_cut(int w, int h, const struct tachy_placement *pl)
{
    if (!pl)
        return (struct tachy_rect){0, 0, w, h};
    int x0 = (int)TACHY_CLAMP(floor(pl->x + 0.5), 0, w - 1);
    int y0 = (int)TACHY_CLAMP(floor(pl->y + 0.5), 0, h - 1);
    int x1 = (int)TACHY_CLAMP(floor(pl->x + pl->w + 0.5), x0 + 1, w);
    int y1 = (int)TACHY_CLAMP(floor(pl->y + pl->h + 0.5), y0 + 1, h);
    return (struct tachy_rect){x0, y0, x1 - x0, y1 - y0};
}

void tachy_mask_size(int tensor_width, int tensor_height, const struct tachy_placement *pl,
                     int rotation, int *width, int *height)
{
    struct tachy_rect r = mask_cut(tensor_width, tensor_height, pl);
    bool turned = rotation == 90 || rotation == 270;
    *width = turned ? r.h : r.w;
    *height = turned ? r.w : r.h;
}

const float *mask_grid_row(const struct mask_grid *g, int64_t y, int64_t x, int64_t c, int n, float *buf)
{
    int64_t at = y * g->row + x * g->col + c * g->chan;
    const float *f = g->t->data;
    const uint16_t *h = g->t->data;
    const uint8_t *u = g->t->data;
    if (g->t->dtype == TACHY_F32 && (g->col == 1 || n == 1))
        return f + at;
    for (int i = 0; i < n; i++, at += g->col)
        buf[i] = g->t->dtype == TACHY_F32   ? f[at]
                 : g->t->dtype == TACHY_F16 ? tachy_ref_float(h[at])
                                            : (float)u[at] * (1.0f / 255.0f);
    return buf;
}

// Probabilities 0..255 of n <= CHUNK pixels of row y from x on.
static void person(const struct tachy_post_kernels *k, const struct tachy_mask_spec *spec,
                   const struct mask_grid *g, int64_t y, int64_t x, int n, uint8_t *dst)
{
    float own[CHUNK], other[CHUNK], sum[CHUNK];
    int channel = single(spec->meaning) ? 0 : spec->channel;
    const float *v = mask_grid_row(g, y, x, channel, n, own);
    if (spec->meaning != TACHY_OUT_LOGIT && spec->meaning != TACHY_OUT_SOFTMAX) {
        k->prob(dst, v, n);
        return;
    }
    // exp(v) / sum of exp(v[c]) = 1 / (1 + sum over the others of exp(v[c] - v)); a sigmoid
    // is the same with one other channel that is 0.
    for (int i = 0; i < n; i++)
        sum[i] = 1.0f;
    if (spec->meaning == TACHY_OUT_LOGIT)
        k->exp_sum(sum, v, NULL, n);
    for (int64_t c = 0; spec->meaning == TACHY_OUT_SOFTMAX && c < g->c; c++)
        if (c != channel)
            k->exp_sum(sum, mask_grid_row(g, y, x, c, n, other), v, n);
    k->recip(sum, n);
    k->prob(dst, sum, n);
}

struct mask_turn mask_turn_back(int rotation, bool flip, int w, int h, ptrdiff_t stride)
{
    struct mask_turn t = {0, 1, stride};
    if (rotation == 90) // x = uy, y = w - 1 - ux
        t = (struct mask_turn){(w - 1) * stride, -stride, 1};
    else if (rotation == 180)
        t = (struct mask_turn){(h - 1) * stride + (w - 1), -1, -stride};
    else if (rotation == 270) // x = h - 1 - uy, y = ux
        t = (struct mask_turn){h - 1, stride, -1};
    if (flip) {
        t.origin += (w - 1) * t.x;
        t.x = -t.x;
    }
    return t;
}

int tachy_mask_from_tensor(const struct tachy_mask_spec *spec, const struct tachy_tensor *t,
                           const struct tachy_placement *pl, int rotation, bool flip, uint8_t *dst,
                           ptrdiff_t stride)
{
    struct mask_grid g;
    if (!mask_grid_of(spec, t, &g) ||
        (t->dtype != TACHY_F32 && t->dtype != TACHY_F16 && t->dtype != TACHY_U8))
        return TACHY_ERR_MISMATCH;
    if (!t->data || t->mem == TACHY_DEVICE)
        return TACHY_ERR_INVAL;
    const struct tachy_post_kernels *k = tachy_post_kernels(NULL);
    struct tachy_rect r = mask_cut((int)g.w, (int)g.h, pl);
    struct mask_turn to = mask_turn_back(rotation, flip, r.w, r.h, stride);
    uint8_t chunk[CHUNK];
    for (int y = 0; y < r.h; y++) {
        for (int x = 0; x < r.w; x += CHUNK) {
            int n = TACHY_MIN(CHUNK, r.w - x);
            uint8_t *d = dst + to.origin + x * to.x + y * to.y;
            person(k, spec, &g, r.y + y, r.x + x, n, to.x == 1 ? d : chunk);
            for (int i = 0; to.x != 1 && i < n; i++)
                d[i * to.x] = chunk[i];
        }
    }
    return TACHY_OK;
}
