#include "plan/cpu/kernels.h"
#include "plan/cpu/vec/vec_finish.h"

// Transforms of Winograd's F(2x2, 3x3) and F(4x4, 3x3), see ../winograd.c: first down the columns, then along the rows,
// one vector of channels at a time. Every multiplication is either a fused multiply-add or separate, so all sets round
// alike.

static inline void input_4(const VF d[4], VF o[4])
{
    o[0] = vsub(d[2], d[0]);
    o[1] = vadd(d[1], d[2]);
    o[2] = vsub(d[2], d[1]);
    o[3] = vsub(d[3], d[1]);
}

static inline void output_4(const VF p[4], VF y[2])
{
    y[0] = vadd(p[0], vadd(p[1], p[2]));
    y[1] = vadd(vsub(p[1], p[2]), p[3]);
}

// The points 0, +-a, +-b and infinity: rows of the polynomials x^4 - (a^2 + b^2) x^2 + a^2 b^2,
// x (x +- a) (x^2 - b^2), x (x +- b) (x^2 - a^2) and x times the first.
#define A 0.75f
#define B 1.5f

static inline void input_6(const VF d[6], VF o[6])
{
    const VF both = vset1(A * A * B * B), sum = vset1(-(A * A + B * B)), aa = vset1(-A * A), bb = vset1(-B * B);
    const VF even_a = vfma(bb, d[2], d[4]), odd_a = vfma(bb, d[1], d[3]);
    const VF even_b = vfma(aa, d[2], d[4]), odd_b = vfma(aa, d[1], d[3]);
    o[0] = vfma(both, d[0], vfma(sum, d[2], d[4]));
    o[1] = vfma(vset1(A), odd_a, even_a);
    o[2] = vfma(vset1(-A), odd_a, even_a);
    o[3] = vfma(vset1(B), odd_b, even_b);
    o[4] = vfma(vset1(-B), odd_b, even_b);
    o[5] = vfma(both, d[1], vfma(sum, d[3], d[5]));
}

static inline void output_6(const VF p[6], VF y[4])
{
    const VF sum_a = vadd(p[1], p[2]), dif_a = vsub(p[1], p[2]), sum_b = vadd(p[3], p[4]), dif_b = vsub(p[3], p[4]);
    y[0] = vadd(p[0], vadd(sum_a, sum_b));
    y[1] = vfma(vset1(B), dif_b, vmul(vset1(A), dif_a));
    y[2] = vfma(vset1(B * B), sum_b, vmul(vset1(A * A), sum_a));
    y[3] = vfma(vset1(B * B * B), dif_b, vfma(vset1(A * A * A), dif_a, p[5]));
}

#define INPUT(N)                                                                                   \
    static void winograd_in_##N(const float *const *x, int channels, float *to, ptrdiff_t step)    \
    {                                                                                              \
        for (int c = 0; c < channels; c += VW, to += VW) {                                         \
            const int n = channels - c < VW ? channels - c : VW;                                   \
            VF t[N][N], d[N], o[N];                                                                \
            for (int i = 0; i < N; i++) {                                                          \
                for (int k = 0; k < N; k++)                                                        \
                    d[k] = vload_upto(x[k * N + i] + c, n);                                        \
                input_##N(d, o);                                                                   \
                for (int k = 0; k < N; k++)                                                        \
                    t[k][i] = o[k];                                                                \
            }                                                                                      \
            for (int k = 0; k < N; k++) {                                                          \
                input_##N(t[k], o);                                                                \
                for (int i = 0; i < N; i++)                                                        \
                    vstore(to + (k * N + i) * step, o[i]);                                         \
            }                                                                                      \
        }                                                                                          \
    }

#define ADD_AT(p, v) vload_upto(add[p] + c, n)
#define SLOPE_AT(v) vload_upto(t->act->slope + c, n)
#define STORE_AT(acc, p, v) vstore_upto(y[p] + c, acc, n);

// Four outputs of one vector of channels from `c` on.
static inline void finish(const struct tachy_winograd_tile *t, const VF o[4], int first, int c, int n)
{
    const VF bias = vload_upto(t->bias + c, n);
    VF a0_0 = vadd(o[0], bias), a1_0 = vadd(o[1], bias), a2_0 = vadd(o[2], bias), a3_0 = vadd(o[3], bias);
    float *const *y = t->y + first;
    const float *const *add = t->add ? t->add + first : NULL;
    FINISH(ROWS4, EACH1)
}

// A tile has M x M outputs, finished four at a time.
#define OUTPUT(N, M)                                                                               \
    static void winograd_out_##N(const struct tachy_winograd_tile *t)                              \
    {                                                                                              \
        const ptrdiff_t step = t->step;                                                            \
        for (int c = 0; c < t->channels; c += VW) {                                                \
            const int n = t->channels - c < VW ? t->channels - c : VW;                             \
            VF s[M][N], d[N], o[M * M];                                                            \
            for (int i = 0; i < N; i++) {                                                          \
                for (int k = 0; k < N; k++)                                                        \
                    d[k] = vload(t->x + (k * N + i) * step + c);                                   \
                output_##N(d, o);                                                                  \
                for (int k = 0; k < M; k++)                                                        \
                    s[k][i] = o[k];                                                                \
            }                                                                                      \
            for (int k = 0; k < M; k++)                                                            \
                output_##N(s[k], o + k * M);                                                       \
            for (int i = 0; i < M * M; i += 4)                                                     \
                finish(t, o + i, i, c, n);                                                         \
        }                                                                                          \
    }

INPUT(4)
INPUT(6)
OUTPUT(4, 2)
OUTPUT(6, 4)

void (*const ISA_NAME(tachy_winograd_in)[2])(const float *const *x, int channels, float *to, ptrdiff_t step) = {
    winograd_in_4, winograd_in_6};
void (*const ISA_NAME(tachy_winograd_out)[2])(const struct tachy_winograd_tile *t) = {winograd_out_4, winograd_out_6};
