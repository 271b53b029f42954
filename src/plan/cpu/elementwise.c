#include "plan/cpu/elementwise.h"

// If pixels are adjacent in all tensors, a row is one long pixel.

void tachy_unary_run(const struct tachy_plan_kernels *k, const struct tachy_act *act,
                     const struct tachy_view *in, const struct tachy_view *out, int row0, int row1)
{
    static const float zero;
    if (act->kind == TACHY_ACT_PRELU) { // knows its channel: as x + 0
        struct tachy_view none = {(float *)&zero, 0, 0, 0, 1, 1, 1, 1};
        struct tachy_binary_io io = {TACHY_BINARY_ADD, *act, *in, none, *out, NULL};
        tachy_binary_run(k, &io, row0, row1);
        return;
    }
    bool line = in->pixel == in->c && out->pixel == out->c;
    int count = line ? 1 : out->w, n = line ? out->w * out->c : out->c;
    for (int r = row0; r < row1; r++) {
        const float *x = tachy_view_at(in, r / out->h, r % out->h, 0);
        float *y = tachy_view_at(out, r / out->h, r % out->h, 0);
        for (int i = 0; i < count; i++)
            k->unary(y + i * out->pixel, x + i * in->pixel, n, act);
    }
}

// True if an operand is one line along a row like the output, or one value.
static bool is_line(const struct tachy_view *v, const struct tachy_view *out)
{
    bool value = v->w == 1 && v->c == 1;
    return value || (v->w == out->w && v->c == out->c && v->pixel == v->c);
}

static const float *row_of(const struct tachy_view *v, int n, int y)
{
    return tachy_view_at(v, v->n == 1 ? 0 : n, v->h == 1 ? 0 : y, 0);
}

void tachy_binary_run(const struct tachy_plan_kernels *k, const struct tachy_binary_io *io,
                      int row0, int row1)
{
    const struct tachy_view *o = &io->out;
    bool line = is_line(&io->a, o) && is_line(&io->b, o) && (!io->c || is_line(io->c, o)) &&
                o->pixel == o->c && io->act.kind != TACHY_ACT_PRELU;
    struct tachy_binary_row r = {
        .kind = io->kind,
        .act = &io->act,
        .a = {NULL, io->a.w == 1 ? 0 : io->a.pixel, line ? io->a.w * io->a.c > 1 : io->a.c > 1},
        .b = {NULL, io->b.w == 1 ? 0 : io->b.pixel, line ? io->b.w * io->b.c > 1 : io->b.c > 1},
        .y_step = o->pixel,
        .pixels = line ? 1 : o->w,
        .channels = line ? o->w * o->c : o->c,
    };
    if (io->c) {
        r.c.step = io->c->w == 1 ? 0 : io->c->pixel;
        r.c.channel = line ? io->c->w * io->c->c > 1 : io->c->c > 1;
    }
    for (int i = row0; i < row1; i++) {
        int n = i / o->h, y = i % o->h;
        r.a.p = row_of(&io->a, n, y);
        r.b.p = row_of(&io->b, n, y);
        r.c.p = io->c ? row_of(io->c, n, y) : NULL;
        r.y = tachy_view_at(o, n, y, 0);
        k->binary(&r);
    }
}
