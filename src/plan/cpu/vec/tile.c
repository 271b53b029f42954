#include "plan/cpu/kernels.h"
#include "plan/cpu/vec/vec_finish.h"

// Register tiles of convolution and matrix product: pixels x vectors accumulators. Each adds the taps in order with one
// rounding per tap (if the processor has fused multiply-add), chunk by chunk, with the bias first or last. So an
// output's bits depend neither on its tile nor on how its taps were cut into parts. Adding or skipping a zero (of the
// padding, or of an empty chunk) changes nothing: it can only turn a sum of -0 into +0, and the bias, which is never
// -0, is added before or after.

#define LAST(v, n) ((v) == (n) - 1)
#define ADD_AT(p, v) load_last(add + (p) * add_step + (v) * VW, LAST(v, vectors), tail)
#define SLOPE_AT(v) load_last(t->act->slope + (v) * VW, LAST(v, vectors), tail)
#define STORE_AT(acc, p, v) store_last(y + (p) * y_step + (v) * VW, acc, LAST(v, vectors), tail);

static inline VF load_last(const float *p, bool last, int tail)
{
    return last ? vload_upto(p, tail) : vload(p);
}

static inline void store_last(float *p, VF v, bool last, int tail)
{
    if (last)
        vstore_upto(p, v, tail);
    else
        vstore(p, v);
}

#define T_INIT(acc, p, v) VF acc = b##v;
#define T_ADD_BIAS(acc, p, v) acc = vadd(acc, c##v);
#define T_SUM(acc, p, v) s##v = vadd(s##v, acc);
#define T_TOTAL(acc, p, v) acc = vadd(vload(sofar + ((p) * vectors + (v)) * VW), acc);
#define T_ZERO(acc, p, v) acc = vset1(0);
#define T_KEEP(acc, p, v) vstore(keep + ((p) * vectors + (v)) * VW, acc);
#define T_CHUNK(acc, p, v) vstore(total + ((p) * vectors + (v)) * VW, acc);
#define T_POINTER(p, M) const float *x##p = x[p] + skip;
#define T_PADDING(p, M) &&x[p] == zeros
#define T_STEP1(p, M)                                                                              \
    {                                                                                              \
        const VF xv = vbroadcast(x##p + c);                                                        \
        a##p##_0 = vfma(xv, w0, a##p##_0);                                                         \
    }
#define T_STEP2(p, M)                                                                              \
    {                                                                                              \
        const VF xv = vbroadcast(x##p + c);                                                        \
        a##p##_0 = vfma(xv, w0, a##p##_0);                                                         \
        a##p##_1 = vfma(xv, w1, a##p##_1);                                                         \
    }
#define T_STEP3(p, M)                                                                              \
    {                                                                                              \
        const VF xv = vbroadcast(x##p + c);                                                        \
        a##p##_0 = vfma(xv, w0, a##p##_0);                                                         \
        a##p##_1 = vfma(xv, w1, a##p##_1);                                                         \
        a##p##_2 = vfma(xv, w2, a##p##_2);                                                         \
    }
// Four taps at a time if a multiply-add can take one lane of a vector: one load instead of four, and no time of the
// vector units for broadcasting a number.
#if TACHY_VEC == 3
#define T_QUAD(p, M) const VF q##p = vload(x##p + c);
#define T_LANE1(p, l) a##p##_0 = vfma_lane(w0, q##p, l, a##p##_0);
#define T_LANE2(p, l) T_LANE1(p, l) a##p##_1 = vfma_lane(w1, q##p, l, a##p##_1);
#define T_LANE3(p, l) T_LANE2(p, l) a##p##_2 = vfma_lane(w2, q##p, l, a##p##_2);
#define T_TAP(P, N, l)                                                                             \
    {                                                                                              \
        T_VECTORS##N(T_WEIGHTS)                                                                    \
        ROWS##P(T_LANE##N, l)                                                                      \
        w += vectors * VW;                                                                         \
    }
#define T_QUADS(P, N)                                                                              \
    for (; c + 4 <= end; c += 4) {                                                                 \
        ROWS##P(T_QUAD, )                                                                          \
        T_TAP(P, N, 0) T_TAP(P, N, 1) T_TAP(P, N, 2) T_TAP(P, N, 3)                                \
    }
#else
#define T_QUADS(P, N)
#endif
#define T_VECTORS1(M) M(0)
#define T_VECTORS2(M) M(0) M(1)
#define T_VECTORS3(M) M(0) M(1) M(2)
#define T_START(v) const VF b##v = vload(start + (v) * VW);
#define T_BIAS(v) const VF c##v = vload(bias + (v) * VW);
#define T_WEIGHTS(v) const VF w##v = vload(w + (v) * VW);
#define T_SUMS_LOAD(v) VF s##v = load_last(t->sums + (v) * VW, LAST(v, vectors), tail);
#define T_SUMS_STORE(v) store_last(t->sums + (v) * VW, s##v, LAST(v, vectors), tail);

#define TILE(P, N)                                                                                 \
    static void tile_##N##_##P(const struct tachy_tile *t)                                         \
    {                                                                                              \
        enum { vectors = N };                                                                      \
        const ptrdiff_t len = t->len, x_run = t->x_run, skip = t->skip;                            \
        const ptrdiff_t y_step = t->y_step, add_step = t->add_step;                                \
        const int runs = t->runs, tail = t->tail;                                                  \
        const float *const *x_tile = t->x, *add = t->add;                                          \
        const float *resume = t->resume, *start = t->start, *bias = t->bias;                       \
        float *y = t->y, *keep = t->keep;                                                          \
        const float *ahead = t->ahead, *zeros = t->zeros;                                          \
        float chunks[P * N * VW], *total = chunks;                                                 \
        VARRAY_POINTER(total);                                                                     \
        for (int i = t->tiles; i > 0; i--, x_tile += P, y += P * y_step) {                         \
            for (int l = t->ahead_lines; l > 0; l--, ahead += 16)                                  \
                __builtin_prefetch(ahead, 0, 2);                                                   \
            T_VECTORS##N(T_START)                                                                  \
            ROWS##P(EACH##N, T_INIT)                                                               \
            const float *w = t->w, *const *x = x_tile, *sofar = resume;                            \
            for (int r = runs, left = t->group; r > 0; r--, x += x_run) {                          \
                ROWS##P(T_POINTER, )                                                               \
                ptrdiff_t c = 0, end = t->piece;                                                   \
                if (true ROWS##P(T_PADDING, )) {                                                   \
                    w += len * vectors * VW;                                                       \
                    c = end = len;                                                                 \
                }                                                                                  \
                for (;; end = end + t->piece < len ? end + t->piece : len) {                       \
                    T_QUADS(P, N)                                                                  \
                    _Pragma("GCC unroll 4") for (; c < end; c++, w += vectors * VW) {              \
                        T_VECTORS##N(T_WEIGHTS)                                                    \
                        ROWS##P(T_STEP##N, )                                                       \
                    }                                                                              \
                    if (end == len && (r == 1 || --left > 0))                                      \
                        break;                                                                     \
                    if (sofar) {                                                                   \
                        ROWS##P(EACH##N, T_TOTAL)                                                  \
                    }                                                                              \
                    sofar = total;                                                                 \
                    ROWS##P(EACH##N, T_CHUNK)                                                      \
                    ROWS##P(EACH##N, T_ZERO)                                                       \
                    left = left > 0 ? left : t->group;                                             \
                    if (end == len)                                                                \
                        break;                                                                     \
                }                                                                                  \
            }                                                                                      \
            if (sofar) {                                                                           \
                ROWS##P(EACH##N, T_TOTAL)                                                          \
            }                                                                                      \
            resume = resume ? resume + P * vectors * VW : NULL;                                    \
            if (keep) {                                                                            \
                ROWS##P(EACH##N, T_KEEP)                                                           \
                keep += P * vectors * VW;                                                          \
                continue;                                                                          \
            }                                                                                      \
            if (bias) {                                                                            \
                T_VECTORS##N(T_BIAS)                                                               \
                ROWS##P(EACH##N, T_ADD_BIAS)                                                       \
            }                                                                                      \
            FINISH(ROWS##P, EACH##N)                                                               \
            if (t->sums) {                                                                         \
                T_VECTORS##N(T_SUMS_LOAD)                                                          \
                ROWS##P(EACH##N, T_SUM)                                                            \
                T_VECTORS##N(T_SUMS_STORE)                                                         \
            }                                                                                      \
            add = add ? add + P * add_step : NULL;                                                 \
        }                                                                                          \
    }

#define TILES_TO_4(N) TILE(1, N) TILE(2, N) TILE(3, N) TILE(4, N)
#define TILES_TO_6(N) TILES_TO_4(N) TILE(5, N) TILE(6, N)
#define TILES_TO_8(N) TILES_TO_6(N) TILE(7, N) TILE(8, N)
#define TILES_TO_10(N) TILES_TO_8(N) TILE(9, N) TILE(10, N)
#define NAMES_TO_4(N) tile_##N##_1, tile_##N##_2, tile_##N##_3, tile_##N##_4
#define NAMES_TO_6(N) NAMES_TO_4(N), tile_##N##_5, tile_##N##_6
#define NAMES_TO_8(N) NAMES_TO_6(N), tile_##N##_7, tile_##N##_8
#define NAMES_TO_10(N) NAMES_TO_8(N), tile_##N##_9, tile_##N##_10

// As many accumulators as leave registers for the weights and one input (NEON: one per pixel), and as many pixels as
// leave registers for their addresses.
TILES_TO_10(1)
#if TACHY_VEC == 2 // 32 registers
TILES_TO_10(2)
TILES_TO_8(3)
#elif TACHY_VEC == 3 // 32 registers; the compilers spill with one pixel more
TILES_TO_8(2)
TILES_TO_6(3)
#else // 16 registers
TILES_TO_6(2)
TILES_TO_4(3)
#endif

void (*const ISA_NAME(tachy_tiles)[TACHY_TILE_VECTORS][TACHY_TILE_PIXELS])(
    const struct tachy_tile *t) = {
    {NAMES_TO_10(1)},
#if TACHY_VEC == 2
    {NAMES_TO_10(2)},
    {NAMES_TO_8(3)},
#elif TACHY_VEC == 3
    {NAMES_TO_8(2)},
    {NAMES_TO_6(3)},
#else
    {NAMES_TO_6(2)},
    {NAMES_TO_4(3)},
#endif
};
