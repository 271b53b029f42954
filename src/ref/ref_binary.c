#include "ref/ref_plan.h"

#include <math.h>

static double value(const struct tachy_view *v, int n, int y, int x, int k)
{
    return (double)tachy_view_at(v, v->n > 1 ? n : 0, v->h > 1 ? y : 0,
                                 v->w > 1 ? x : 0)[v->c > 1 ? k : 0];
}

static double apply(enum tachy_binary_kind kind, double a, double b)
{
    switch (kind) {
    case TACHY_BINARY_ADD: return a + b;
    case TACHY_BINARY_SUB: return a - b;
    case TACHY_BINARY_MUL: return a * b;
    case TACHY_BINARY_DIV: return a / b;
    case TACHY_BINARY_MIN: return a < b || a != a ? a : b;
    case TACHY_BINARY_MAX: return a > b || a != a ? a : b;
    default: return pow(a, b);
    }
}

void tachy_ref_binary(const struct tachy_binary_io *io, int row0, int row1)
{
    for (int r = row0; r < row1; r++)
        for (int x = 0; x < io->out.w; x++)
            for (int k = 0; k < io->out.c; k++) {
                int n = r / io->out.h, y = r % io->out.h;
                double v = apply(io->kind, value(&io->a, n, y, x, k), value(&io->b, n, y, x, k));
                v += io->c ? value(io->c, n, y, x, k) : 0;
                double slope = io->act.slope ? (double)io->act.slope[k] : 0;
                tachy_view_at(&io->out, n, y, x)[k] = (float)tachy_ref_act(&io->act, v, slope);
            }
}
