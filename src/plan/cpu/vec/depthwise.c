#include "plan/cpu/kernels.h"
#include "plan/cpu/vec/vec_finish.h"

// Depthwise convolution, one tile of a row: for each block of channels the weights of a row of
// taps stay in registers and each input column is read once for all the outputs that use it.
// A tile at an edge looks at each column before reading it; the rest of the code is the same.

#define ADD_AT(p, v) (p < n ? load_part(add + (p) * t->add_step, tail) : vset1(0))
#define SLOPE_AT(v) load_part(t->act->slope + c, tail)
#define STORE_AT(acc, p, v)                                                                        \
    if (p < n)                                                                                     \
        store_part(y + (p) * t->y_step, acc, tail);
#define D_INIT(acc, p, v) VF acc = vset1(0);
#define D_BIAS(acc, p, v) acc = vadd(acc, bias);
#define D_SUM(acc, p, v)                                                                           \
    if (p < n)                                                                                     \
        sum = vadd(sum, acc);

// Output p takes weight j of the column.
#define K(p, j) a##p##_0 = vfma(x, w##j, a##p##_0);
#define COLUMN(q, ...)                                                                             \
    if (!edge || (q >= t->first && q < t->end)) {                                                  \
        const VF x = load_part(row + (q) * t->pixel, tail);                                        \
        __VA_ARGS__                                                                                \
    }
#define W(j) const VF w##j = vload(w + (j) * VW);

static inline VF load_part(const float *p, int tail) { return tail ? vload_n(p, tail) : vload(p); }

static inline void store_part(float *p, VF v, int tail)
{
    if (tail)
        vstore_n(p, v, tail);
    else
        vstore(p, v);
}

// One block of channels from c on; `edge` and `tail` (channels of a block that is not full,
// or 0) are constants or rare. `size`: outputs of the whole tile.
#define BLOCK(name, size, taps, WEIGHTS, COLUMNS)                                                  \
    static inline __attribute__((always_inline)) void name##_block(                                \
        const struct tachy_dw_tile *t, int c, const float *w, bool edge, int tail)                 \
    {                                                                                              \
        const int n = edge ? t->pixels : size;                                                     \
        const VF bias = vload(t->bias + c);                                                        \
        const float *row = t->x + c, *add = t->add ? t->add + c : NULL;                            \
        float *y = t->y + c;                                                                       \
        ROWS##size(EACH1, D_INIT)                                                                  \
        for (int r = t->rows; r > 0; r--, row += t->row, w += (taps) * VW) {                       \
            WEIGHTS COLUMNS                                                                        \
        }                                                                                          \
        ROWS##size(EACH1, D_BIAS)                                                                  \
        FINISH(ROWS##size, EACH1)                                                                  \
        if (t->sums) {                                                                             \
            VF sum = load_part(t->sums + c, tail);                                                 \
            ROWS##size(EACH1, D_SUM)                                                               \
            store_part(t->sums + c, sum, tail);                                                    \
        }                                                                                          \
    }                                                                                              \
    static void name##_tile(const struct tachy_dw_tile *t)                                         \
    {                                                                                              \
        const float *w = t->w;                                                                     \
        const bool edge = t->first > 0 || t->end < columns_of(size, taps, stride_##name) ||        \
                          t->pixels < size;                                                        \
        int c = 0;                                                                                 \
        for (; !edge && c + VW <= t->channels; c += VW, w += t->w_block)                           \
            name##_block(t, c, w, false, 0);                                                       \
        for (; c + VW <= t->channels; c += VW, w += t->w_block)                                    \
            name##_block(t, c, w, true, 0);                                                        \
        if (c < t->channels)                                                                       \
            name##_block(t, c, w, true, t->channels - c);                                          \
    }                                                                                              \
    static void name(const struct tachy_dw_tile *tiles)                                            \
    {                                                                                              \
        struct tachy_dw_tile t = *tiles;                                                           \
        for (int i = t.tiles; i > 0; i--) {                                                        \
            name##_tile(&t);                                                                       \
            t.x += (size) * stride_##name * t.pixel;                                               \
            t.y += (size) * t.y_step;                                                              \
            t.add = t.add ? t.add + (size) * t.add_step : NULL;                                    \
        }                                                                                          \
    }

#define columns_of(size, taps, stride) (((size) - 1) * (stride) + (taps))

#define COLUMNS_3_1_8                                                                              \
    COLUMN(0, K(0, 0))                                                                             \
    COLUMN(1, K(0, 1) K(1, 0))                                                                     \
    COLUMN(2, K(0, 2) K(1, 1) K(2, 0))                                                             \
    COLUMN(3, K(1, 2) K(2, 1) K(3, 0))                                                             \
    COLUMN(4, K(2, 2) K(3, 1) K(4, 0))                                                             \
    COLUMN(5, K(3, 2) K(4, 1) K(5, 0))                                                             \
    COLUMN(6, K(4, 2) K(5, 1) K(6, 0))                                                             \
    COLUMN(7, K(5, 2) K(6, 1) K(7, 0))                                                             \
    COLUMN(8, K(6, 2) K(7, 1))                                                                     \
    COLUMN(9, K(7, 2))
enum { stride_dw3s1x8 = 1 };
BLOCK(dw3s1x8, 8, 3, W(0) W(1) W(2), COLUMNS_3_1_8)

#define COLUMNS_3_1_4                                                                              \
    COLUMN(0, K(0, 0))                                                                             \
    COLUMN(1, K(0, 1) K(1, 0))                                                                     \
    COLUMN(2, K(0, 2) K(1, 1) K(2, 0))                                                             \
    COLUMN(3, K(1, 2) K(2, 1) K(3, 0))                                                             \
    COLUMN(4, K(2, 2) K(3, 1))                                                                     \
    COLUMN(5, K(3, 2))
enum { stride_dw3s1x4 = 1 };
BLOCK(dw3s1x4, 4, 3, W(0) W(1) W(2), COLUMNS_3_1_4)

#define COLUMNS_3_2_4                                                                              \
    COLUMN(0, K(0, 0))                                                                             \
    COLUMN(1, K(0, 1))                                                                             \
    COLUMN(2, K(0, 2) K(1, 0))                                                                     \
    COLUMN(3, K(1, 1))                                                                             \
    COLUMN(4, K(1, 2) K(2, 0))                                                                     \
    COLUMN(5, K(2, 1))                                                                             \
    COLUMN(6, K(2, 2) K(3, 0))                                                                     \
    COLUMN(7, K(3, 1))                                                                             \
    COLUMN(8, K(3, 2))
enum { stride_dw3s2x4 = 2 };
BLOCK(dw3s2x4, 4, 3, W(0) W(1) W(2), COLUMNS_3_2_4)

#define COLUMNS_3_2_8                                                                              \
    COLUMN(0, K(0, 0))                                                                             \
    COLUMN(1, K(0, 1))                                                                             \
    COLUMN(2, K(0, 2) K(1, 0))                                                                     \
    COLUMN(3, K(1, 1))                                                                             \
    COLUMN(4, K(1, 2) K(2, 0))                                                                     \
    COLUMN(5, K(2, 1))                                                                             \
    COLUMN(6, K(2, 2) K(3, 0))                                                                     \
    COLUMN(7, K(3, 1))                                                                             \
    COLUMN(8, K(3, 2) K(4, 0))                                                                     \
    COLUMN(9, K(4, 1))                                                                             \
    COLUMN(10, K(4, 2) K(5, 0))                                                                    \
    COLUMN(11, K(5, 1))                                                                            \
    COLUMN(12, K(5, 2) K(6, 0))                                                                    \
    COLUMN(13, K(6, 1))                                                                            \
    COLUMN(14, K(6, 2) K(7, 0))                                                                    \
    COLUMN(15, K(7, 1))                                                                            \
    COLUMN(16, K(7, 2))
enum { stride_dw3s2x8 = 2 };
BLOCK(dw3s2x8, 8, 3, W(0) W(1) W(2), COLUMNS_3_2_8)

#define COLUMNS_5_1_8                                                                              \
    COLUMN(0, K(0, 0))                                                                             \
    COLUMN(1, K(0, 1) K(1, 0))                                                                     \
    COLUMN(2, K(0, 2) K(1, 1) K(2, 0))                                                             \
    COLUMN(3, K(0, 3) K(1, 2) K(2, 1) K(3, 0))                                                     \
    COLUMN(4, K(0, 4) K(1, 3) K(2, 2) K(3, 1) K(4, 0))                                             \
    COLUMN(5, K(1, 4) K(2, 3) K(3, 2) K(4, 1) K(5, 0))                                             \
    COLUMN(6, K(2, 4) K(3, 3) K(4, 2) K(5, 1) K(6, 0))                                             \
    COLUMN(7, K(3, 4) K(4, 3) K(5, 2) K(6, 1) K(7, 0))                                             \
    COLUMN(8, K(4, 4) K(5, 3) K(6, 2) K(7, 1))                                                     \
    COLUMN(9, K(5, 4) K(6, 3) K(7, 2))                                                             \
    COLUMN(10, K(6, 4) K(7, 3))                                                                    \
    COLUMN(11, K(7, 4))
enum { stride_dw5s1x8 = 1 };
BLOCK(dw5s1x8, 8, 5, W(0) W(1) W(2) W(3) W(4), COLUMNS_5_1_8)

#define COLUMNS_5_1_4                                                                              \
    COLUMN(0, K(0, 0))                                                                             \
    COLUMN(1, K(0, 1) K(1, 0))                                                                     \
    COLUMN(2, K(0, 2) K(1, 1) K(2, 0))                                                             \
    COLUMN(3, K(0, 3) K(1, 2) K(2, 1) K(3, 0))                                                     \
    COLUMN(4, K(0, 4) K(1, 3) K(2, 2) K(3, 1))                                                     \
    COLUMN(5, K(1, 4) K(2, 3) K(3, 2))                                                             \
    COLUMN(6, K(2, 4) K(3, 3))                                                                     \
    COLUMN(7, K(3, 4))
enum { stride_dw5s1x4 = 1 };
BLOCK(dw5s1x4, 4, 5, W(0) W(1) W(2) W(3) W(4), COLUMNS_5_1_4)

#define COLUMNS_5_2_4                                                                              \
    COLUMN(0, K(0, 0))                                                                             \
    COLUMN(1, K(0, 1))                                                                             \
    COLUMN(2, K(0, 2) K(1, 0))                                                                     \
    COLUMN(3, K(0, 3) K(1, 1))                                                                     \
    COLUMN(4, K(0, 4) K(1, 2) K(2, 0))                                                             \
    COLUMN(5, K(1, 3) K(2, 1))                                                                     \
    COLUMN(6, K(1, 4) K(2, 2) K(3, 0))                                                             \
    COLUMN(7, K(2, 3) K(3, 1))                                                                     \
    COLUMN(8, K(2, 4) K(3, 2))                                                                     \
    COLUMN(9, K(3, 3))                                                                             \
    COLUMN(10, K(3, 4))
enum { stride_dw5s2x4 = 2 };
BLOCK(dw5s2x4, 4, 5, W(0) W(1) W(2) W(3) W(4), COLUMNS_5_2_4)

// Any number of taps, any stride and dilation: one output, taps outside of the input skipped.
static void any_block(const struct tachy_dw_tile *t, int c, const float *w, int tail)
{
    const int n = 1;
    const float *row = t->x + c, *add = t->add ? t->add + c : NULL;
    float *y = t->y + c;
    VF a0_0 = vset1(0);
    for (int r = t->rows; r > 0; r--, row += t->row, w += t->kw * VW)
        for (int q = t->first; q < t->end; q++)
            a0_0 = vfma(load_part(row + q * t->pixel, tail), vload(w + q * VW), a0_0);
    a0_0 = vadd(a0_0, vload(t->bias + c));
    FINISH(ROWS1, EACH1)
    if (t->sums)
        store_part(t->sums + c, vadd(load_part(t->sums + c, tail), a0_0), tail);
}

static void any(const struct tachy_dw_tile *t)
{ // one tile
    const float *w = t->w;
    int c = 0;
    for (; c + VW <= t->channels; c += VW, w += t->w_block)
        any_block(t, c, w, 0);
    if (c < t->channels)
        any_block(t, c, w, t->channels - c);
}

const struct tachy_dw_kernel ISA_NAME(tachy_depthwise)[TACHY_DW_KERNELS] = {
    {3, 1, 8, 10, dw3s1x8},
    {3, 1, 4, 6, dw3s1x4},
    {3, 2, 8, 17, dw3s2x8},
    {3, 2, 4, 9, dw3s2x4},
    {5, 1, 8, 12, dw5s1x8},
    {5, 1, 4, 8, dw5s1x4},
    {5, 2, 4, 11, dw5s2x4},
    {0, 0, 1, 1, any},
};
