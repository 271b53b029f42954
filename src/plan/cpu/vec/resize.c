#include "plan/cpu/vec/vec_act.h"
#include "plan/cpu/vec/vec_names.h"

// Resizing: rows are blended into one row, which is then stretched.

void ISA_NAME(tachy_lerp)(float *y, const float *a, const float *b, float t, int n)
{
    const VF f = vset1(t);
    int i = 0;
    for (; i + VW <= n; i += VW) {
        VF v = vload(a + i);
        vstore(y + i, vfma(vsub(vload(b + i), v), f, v));
    }
    if (i < n) {
        VF v = vload_n(a + i, n - i);
        vstore_n(y + i, vfma(vsub(vload_n(b + i, n - i), v), f, v), n - i);
    }
}

static inline VF added(const struct tachy_resize_row *r, const float *add, int c, int n, VF v)
{
    VF a = vload_upto(add + c, n);
    return r->add_scale ? vfma(a, vload_upto(r->add_scale + c, n), v) : vadd(v, a);
}

// Channels c..c+n-1 of output i; n is VW or, at the end, less.
static inline void output(const struct tachy_resize_row *r, int i, int c, int n)
{
    const float *add = r->add ? r->add + i * r->add_step : NULL;
    VF v = vload_upto(r->row + r->left[i] + c, n);
    if (r->frac)
        v = vfma(vsub(vload_upto(r->row + r->right[i] + c, n), v), vset1(r->frac[i]), v);
    if (add && !r->add_last)
        v = added(r, add, c, n, v);
    if (r->act->kind != TACHY_ACT_NONE)
        v = vact(r->act, v, r->act->slope ? vload_upto(r->act->slope + c, n) : v);
    if (add && r->add_last)
        v = added(r, add, c, n, v);
    vstore_upto(r->y + i * r->y_step + c, v, n);
    if (r->sums)
        vstore_upto(r->sums + c, vadd(vload_upto(r->sums + c, n), v), n);
}

// Linear, no activation, no sums; `add` and `scale` are constants.
static inline __attribute__((always_inline)) void plain(const struct tachy_resize_row *r, bool add,
                                                        bool scale)
{
    const int channels = r->channels, pixels = r->pixels;
    const ptrdiff_t y_step = r->y_step, add_step = r->add_step;
    const float *from = r->add, *scales = r->add_scale;
    float *y = r->y;
    for (int i = 0; i < pixels; i++, y += y_step) {
        const float *a = r->row + r->left[i], *b = r->row + r->right[i];
        const VF f = vset1(r->frac[i]);
        for (int c = 0; c + VW <= channels; c += VW) {
            VF v = vload(a + c);
            v = vfma(vsub(vload(b + c), v), f, v);
            if (scale)
                v = vfma(vload(from + c), vload(scales + c), v);
            else if (add)
                v = vadd(v, vload(from + c));
            vstore(y + c, v);
        }
        if (channels % VW)
            output(r, i, channels - channels % VW, channels % VW);
        from = add ? from + add_step : NULL;
    }
}

void ISA_NAME(tachy_resize_row)(const struct tachy_resize_row *r)
{
    if (r->frac && r->act->kind == TACHY_ACT_NONE && !r->sums) {
        if (!r->add)
            plain(r, false, false);
        else if (r->add_scale)
            plain(r, true, true);
        else
            plain(r, true, false);
        return;
    }
    for (int i = 0; i < r->pixels; i++) {
        int c = 0;
        for (; c + VW <= r->channels; c += VW)
            output(r, i, c, VW);
        if (c < r->channels)
            output(r, i, c, r->channels - c);
    }
}
