#include "ref/ref_int8.h"

static float end_of(const struct tachy_int8_end *e, float v)
{
    if (e->act.kind != TACHY_ACT_NONE)
        v = (float)tachy_ref_act(&e->act, (double)v, 0);
    return e->whole ? tachy_ref_level(v * (1 / e->out_scale), e->out_zero, e->out_least) : v;
}

static float number_of(const struct tachy_int8_end *e, int i, float q)
{
    return (q - e->zero[i]) * e->scale[i];
}

float tachy_ref_int8_end(const struct tachy_int8_end *e, float v, float added)
{
    if (e->adds) {
        float own = number_of(e, 0, tachy_ref_level(v, e->zero[0], e->least)), more = number_of(e, 1, added);
        v = own + more;
    }
    return end_of(e, v);
}

static int32_t sum_of(const struct tachy_conv_shape *s, float in_zero, const float *w, const struct tachy_view *in, int n, int y, int x,
                      int first)
{
    int32_t sum = 0;
    int cin = s->cin / s->groups;
    for (int i = 0; i < s->kh; i++)
        for (int k = 0; k < s->kw; k++) {
            int at_y = y + i * s->dil_h, at_x = x + k * s->dil_w;
            if (at_y < 0 || at_x < 0 || at_y >= s->h || at_x >= s->w)
                continue;
            const float *from = tachy_view_at(in, n, at_y, at_x) + first;
            for (int c = 0; c < cin; c++)
                sum += (int32_t)(from[c] - in_zero) * (int32_t)w[(c * s->kh + i) * s->kw + k];
        }
    return sum;
}

void tachy_ref_conv_int8(const struct tachy_conv_shape *s, const struct tachy_int8_end *e, float in_zero, const float *weights,
                         const float *multiplier, const int32_t *bias, const struct tachy_view *in, const struct tachy_view *add,
                         const struct tachy_view *out, int row0, int row1)
{
    int cin = s->cin / s->groups, cout = s->cout / s->groups;
    ptrdiff_t terms = (ptrdiff_t)cin * s->kh * s->kw;
    for (int row = row0; row < row1; row++)
        for (int x = 0; x < out->w; x++)
            for (int o = 0; o < s->cout; o++) {
                int n = row / out->h, y = row % out->h;
                int32_t sum = bias[o] + sum_of(s, in_zero, weights + o * terms, in, n, y * s->stride_h - s->pad_top,
                                               x * s->stride_w - s->pad_left, o / cout * cin);
                float v = (float)sum * multiplier[o];
                tachy_view_at(out, n, y, x)[o] = tachy_ref_int8_end(e, v, add ? tachy_view_at(add, n, y, x)[o] : 0);
            }
}

void tachy_ref_binary_int8(const struct tachy_int8_end *e, bool times, const struct tachy_view *a, const struct tachy_view *b,
                           const struct tachy_view *out, int row0, int row1)
{
    for (int row = row0; row < row1; row++)
        for (int x = 0; x < out->w; x++)
            for (int c = 0; c < out->c; c++) {
                int n = row / out->h, y = row % out->h;
                float u = number_of(e, 0, tachy_view_at(a, n, y, x)[c]), v = number_of(e, 1, tachy_view_at(b, n, y, x)[c]);
                tachy_view_at(out, n, y, x)[c] = end_of(e, times ? u * v : u + v);
            }
}

void tachy_ref_table(const float table[256], const struct tachy_view *in, const struct tachy_view *out, int row0, int row1)
{
    for (int row = row0; row < row1; row++)
        for (int x = 0; x < out->w; x++)
            for (int c = 0; c < out->c; c++) {
                int n = row / out->h, y = row % out->h;
                tachy_view_at(out, n, y, x)[c] = table[(int)tachy_view_at(in, n, y, x)[c] & 255];
            }
}
