#include "plan/cpu/vec/vec.h"
#include "plan/cpu/vec/vec_names.h"

// One output channel of a row; the lanes are pixels. Taps are added in order with one rounding per tap, chunk by chunk,
// the bias first or last, as in tile.c.

#define N_INIT(i) VF a##i = start;
#define N_STEP(i) a##i = vfma(vload(x + i * VW), k, a##i);
#define N_STORE(i) vstore(r->y + p + i * VW, vadd(t##i, bias));
#define N_TOTAL(i) VF t##i = vset1(0);
#define N_CHUNK(i) t##i = vadd(t##i, a##i), a##i = vset1(0);
#define N_ALL(M) M(0) M(1) M(2) M(3)

void ISA_NAME(tachy_narrow_row)(const struct tachy_narrow_row *r)
{
    const VF start = vset1(r->start), bias = vset1(r->bias);
    for (int p = 0; p < r->pixels; p += 4 * VW) {
        const float *w = r->w;
        N_ALL(N_INIT)
        N_ALL(N_TOTAL)
        for (int y = 0, left = r->chunk; y < r->rows; y++)
            for (int kx = 0; kx < r->kw; kx++) {
                const float *x = r->row[y] + p + kx * r->step;
                for (int c = r->channels; c > 0; c--, x += r->line) {
                    const VF k = vset1(*w++);
                    N_ALL(N_STEP)
                    if (--left > 0 && (c > 1 || r->chunk > r->channels))
                        continue;
                    N_ALL(N_CHUNK)
                    left = r->chunk;
                }
            }
        N_ALL(N_CHUNK)
        N_ALL(N_STORE)
    }
}
