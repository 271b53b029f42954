#include "base/base.h"
#include "plan/pass.h"

// Every second row and column of a picture, four ways, as channels of a convolution's input (the "focus" of YOLO
// networks): the same convolution reads the picture itself with a kernel of twice the size and twice the stride. Each
// output sums the same products.

enum { WAYS = 4 };

struct way {
    struct tachy_value *x;
    int64_t row, column; // 0 or 1: first index of the slice
};

// Recognises `v` as every second row and column of a picture, in one slice or in two of one axis each.
static bool way_of(struct tachy_value *v, struct way *w)
{
    int64_t step[4] = {1, 1, 1, 1}, start[4] = {0};
    const struct tachy_node *n = v->made_by;
    w->x = v;
    for (int k = 0; k < 2 && n && n->op == TACHY_OP_SLICE && n->out->rank == 4; k++, n = n->in[0]->made_by) {
        for (int i = 0; i < 4; i++) {
            start[i] = n->attr.slice.start[i] + start[i] * n->attr.slice.step[i];
            step[i] *= n->attr.slice.step[i];
        }
        w->x = n->in[0];
        if (step[2] == 2 && step[3] == 2)
            break;
    }
    w->row = start[2], w->column = start[3];
    const int64_t *from = w->x->shape, *to = v->shape;
    return step[0] == 1 && step[1] == 1 && step[2] == 2 && step[3] == 2 && start[2] < 2 && start[3] < 2 &&
           !start[0] && !start[1] && from[0] == to[0] && from[1] == to[1] && from[2] == 2 * to[2] &&
           from[3] == 2 * to[3];
}

// The ways of a convolution's input, all of one picture and each once.
static bool ways_of(const struct tachy_node *conv, struct way *way)
{
    const struct tachy_node *c = conv->in[0]->made_by;
    unsigned seen = 0;
    if (!c || c->op != TACHY_OP_CONCAT || c->nb_in != WAYS || c->attr.axis != 1 || c->out->rank != 4)
        return false;
    for (int i = 0; i < WAYS; i++) {
        if (!way_of(c->in[i], &way[i]) || way[i].x != way[0].x)
            return false;
        seen |= 1u << (2 * way[i].row + way[i].column);
    }
    return seen == 15;
}

static bool fits(const struct tachy_node *n)
{
    const struct tachy_plan_attr *a = &n->attr;
    return n->op == TACHY_OP_CONV && n->in[1]->data && n->in[1]->dtype == TACHY_F32 && a->conv.groups == 1 &&
           a->conv.dilation[0] == 1 && a->conv.dilation[1] == 1 && (n->nb_in < 5 || !n->in[4]);
}

// [out][ways][c][kh][kw] as [out][c][2 kh][2 kw].
static void spread(const float *from, const struct tachy_value *w, const struct way *way, float *to)
{
    int64_t c = w->shape[1] / WAYS, kh = w->shape[2], kw = w->shape[3];
    for (int64_t o = 0; o < w->shape[0]; o++)
        for (int i = 0; i < WAYS; i++)
            for (int64_t k = 0; k < c; k++)
                for (int64_t y = 0; y < kh; y++)
                    for (int64_t x = 0; x < kw; x++)
                        to[((o * c + k) * 2 * kh + 2 * y + way[i].row) * 2 * kw + 2 * x + way[i].column] = *from++;
}

static int read_directly(struct tachy_graph *g, struct tachy_node *n, const struct way *way)
{
    const struct tachy_value *w = n->in[1];
    int64_t shape[] = {w->shape[0], w->shape[1] / WAYS, 2 * w->shape[2], 2 * w->shape[3]};
    float *data = tachy_graph_alloc(g, sizeof(*data) * (size_t)tachy_value_elements(w));
    struct tachy_value *wide = tachy_graph_constant(g, w->name, TACHY_F32, 4, shape, data);
    if (!data || !wide)
        return TACHY_ERR_NOMEM;
    spread(w->data, w, way, data);
    tachy_node_set_input(n, 0, way[0].x);
    tachy_node_set_input(n, 1, wide);
    for (int i = 0; i < 2; i++) {
        n->attr.conv.kernel[i] *= 2;
        n->attr.conv.stride[i] *= 2;
        n->attr.conv.pad[i] *= 2;
        n->attr.conv.pad[2 + i] *= 2;
    }
    return TACHY_OK;
}

int tachy_plan_focus(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first; n && err == TACHY_OK; n = n->next) {
        struct way way[WAYS];
        if (fits(n) && ways_of(n, way))
            err = read_directly(g, n, way);
    }
    return err < 0 ? err : tachy_plan_dead(g);
}
