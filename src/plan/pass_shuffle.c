#include "base/base.h"
#include "plan/pass.h"

// Reshape, Transpose, Reshape between two pictures (depth to space, space to depth, shuffled
// channels), written for channels last: pieces of the channels are adjacent there and move as
// blocks, and no picture has to change its layout in front and behind.

enum { AXES = 4 };
static const int last_order[AXES] = {0, 2, 3, 1}; // N H W C of N C H W

// Which axis of the picture `shape` each dimension of the reshaped `v` is a piece of. False: some
// dimension is a piece of two.
static bool pieces_of(const int64_t *shape, const struct tachy_value *v, int *axis)
{
    int a = 0, d = 0;
    for (; a < AXES; a++) {
        int64_t product = 1;
        int first = d;
        while (d < v->rank && (product < shape[a] || d == first)) {
            product *= v->shape[d];
            axis[d++] = a;
        }
        if (product != shape[a])
            return false;
    }
    return d == v->rank;
}

// The dimensions in the order of channels last.
static void order_of(const int *axis, int rank, int *order)
{
    int n = 0;
    for (int a = 0; a < AXES; a++)
        for (int d = 0; d < rank; d++)
            if (axis[d] == last_order[a])
                order[n++] = d;
}

static struct tachy_value *add(struct tachy_graph *g, struct tachy_node *before, enum tachy_plan_op op,
                               const int *perm, struct tachy_value *x, int rank, const int64_t *shape)
{
    struct tachy_plan_attr a = {.perm = {0}};
    struct tachy_value *y = tachy_graph_value(g, NULL, x->dtype, rank, shape);
    for (int i = 0; perm && i < rank; i++)
        a.perm[i] = perm[i];
    return y && tachy_graph_node(g, before, op, before->name, &a, &x, 1, y) ? y : NULL;
}

struct shuffle {
    struct tachy_node *split, *turn, *join;
    int in[TACHY_MAX_RANK], out[TACHY_MAX_RANK]; // axes of the pieces before and after turning
};

static bool is_move(const struct tachy_graph *g, const struct tachy_node *n, enum tachy_plan_op op)
{
    return n && n->op == op && tachy_value_user(g, n->out);
}

static bool find(const struct tachy_graph *g, struct tachy_node *join, struct shuffle *s)
{
    static const int to_last[AXES] = {0, 2, 3, 1};
    s->join = join;
    s->turn = join->op == TACHY_OP_RESHAPE ? join->in[0]->made_by : NULL;
    s->split = is_move(g, s->turn, TACHY_OP_TRANSPOSE) ? s->turn->in[0]->made_by : NULL;
    if (!is_move(g, s->split, TACHY_OP_RESHAPE) || join->out->rank != AXES)
        return false;
    const struct tachy_value *x = s->split->in[0];
    const struct tachy_node *by = x->made_by;
    bool is_last = by && by->op == TACHY_OP_TRANSPOSE && by->out->rank == AXES &&
                   !memcmp(by->attr.perm, to_last, sizeof(to_last));
    return x->rank == AXES && x->dtype == TACHY_F32 && !x->data && !is_last && pieces_of(x->shape, s->split->out, s->in) &&
           pieces_of(join->out->shape, s->turn->out, s->out);
}

static int rewrite(struct tachy_graph *g, const struct shuffle *s)
{
    struct tachy_value *v = s->split->in[0];
    const struct tachy_value *pieces = s->split->out, *turned = s->turn->out, *y = s->join->out;
    int rank = pieces->rank, first[TACHY_MAX_RANK], second[TACHY_MAX_RANK], perm[TACHY_MAX_RANK];
    int64_t in[TACHY_MAX_RANK], out[TACHY_MAX_RANK], picture[2][AXES];
    order_of(s->in, rank, first);
    order_of(s->out, rank, second);
    for (int i = 0; i < AXES; i++) {
        picture[0][i] = v->shape[last_order[i]];
        picture[1][i] = y->shape[last_order[i]];
    }
    for (int i = 0; i < rank; i++) {
        int from = s->turn->attr.perm[second[i]]; // of `pieces`
        in[i] = pieces->shape[first[i]];
        out[i] = turned->shape[second[i]];
        perm[i] = 0;
        while (first[perm[i]] != from)
            perm[i]++;
    }
    v = add(g, s->join, TACHY_OP_TRANSPOSE, last_order, v, AXES, picture[0]);
    v = v ? add(g, s->join, TACHY_OP_RESHAPE, NULL, v, rank, in) : NULL;
    v = v ? add(g, s->join, TACHY_OP_TRANSPOSE, perm, v, rank, out) : NULL;
    v = v ? add(g, s->join, TACHY_OP_RESHAPE, NULL, v, AXES, picture[1]) : NULL;
    if (!v)
        return TACHY_ERR_NOMEM;
    s->join->op = TACHY_OP_TRANSPOSE;
    s->join->attr = (struct tachy_plan_attr){.perm = {0, 3, 1, 2}};
    tachy_node_set_input(s->join, 0, v);
    tachy_graph_remove(g, s->turn);
    tachy_graph_remove(g, s->split);
    return TACHY_OK;
}

int tachy_plan_shuffle(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first; n && err == TACHY_OK; n = n->next) {
        struct shuffle s;
        if (find(g, n, &s))
            err = rewrite(g, &s);
    }
    return err;
}
