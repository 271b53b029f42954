#include "base/base.h"
#include "plan/pass.h"

// Reshape, Transpose, Reshape between two pictures (depth to space, space to depth and to batches, shuffled channels),
// rewritten for channels last: pieces of the channels are adjacent there and move as blocks, and no picture has to
// change its layout before and after.

enum { AXES = 4 };
static const int last_order[AXES] = {0, 2, 3, 1}; // N H W C of N C H W

// For each dimension of the reshaped `v`, the axis of the picture `shape` that it is a piece of. False: a dimension is
// a piece of two.
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

// The dimensions in channels-last order; unchanged if the picture has its channels last already.
static void order_of(const int *axis, int rank, bool last, int *order)
{
    int n = 0;
    for (int a = 0; a < AXES; a++)
        for (int d = 0; d < rank; d++)
            if (axis[d] == (last ? a : last_order[a]))
                order[n++] = d;
}

// Height and width are split alike, the channels are not, or the other way round: whether the channels
// are axis 3 (else axis 1). False: it cannot be told.
static bool channels_at(const int *axis, int rank, bool *last)
{
    int pieces[AXES] = {0};
    for (int d = 0; d < rank; d++)
        pieces[axis[d]]++;
    bool split1 = pieces[1] > 1, split2 = pieces[2] > 1, split3 = pieces[3] > 1;
    *last = split1 == split2;
    return split1 != split3;
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
    bool in_last, out_last; // channels of the two pictures
};

// Determines which axis of the other picture the channels of one become, if they are one piece: 3 is last. `out`: the
// channels are those of the later picture.
static bool follow(const struct shuffle *s, bool out, bool last, bool *other)
{
    int rank = s->turn->out->rank, found = -1;
    for (int i = 0; i < rank; i++) {
        int before = s->in[s->turn->attr.perm[i]], after = s->out[i];
        if ((out ? after : before) != (last ? 3 : 1))
            continue;
        if (found >= 0)
            return false;
        found = out ? before : after;
    }
    *other = found == 3;
    return found == 1 || found == 3;
}

// Determines where both pictures have their channels.
static bool tell(struct shuffle *s)
{
    int rank = s->turn->out->rank;
    bool in = channels_at(s->in, rank, &s->in_last), out = channels_at(s->out, rank, &s->out_last);
    if (in && !out)
        return follow(s, false, s->in_last, &s->out_last);
    return in || (out && follow(s, true, s->out_last, &s->in_last));
}

static bool is_move(const struct tachy_node *n, enum tachy_plan_op op)
{
    return n && n->op == op && tachy_value_user(n->out);
}

static bool find(struct tachy_node *join, struct shuffle *s)
{
    s->join = join;
    s->turn = join->op == TACHY_OP_RESHAPE ? join->in[0]->made_by : NULL;
    s->split = is_move(s->turn, TACHY_OP_TRANSPOSE) ? s->turn->in[0]->made_by : NULL;
    if (!is_move(s->split, TACHY_OP_RESHAPE) || join->out->rank != AXES)
        return false;
    const struct tachy_value *x = s->split->in[0];
    return x->rank == AXES && x->dtype == TACHY_F32 && !x->data && pieces_of(x->shape, s->split->out, s->in) &&
           pieces_of(join->out->shape, s->turn->out, s->out) && tell(s) && !(s->in_last && s->out_last);
}

static int rewrite(struct tachy_graph *g, const struct shuffle *s)
{
    struct tachy_value *v = s->split->in[0];
    const struct tachy_value *pieces = s->split->out, *turned = s->turn->out, *y = s->join->out;
    int rank = pieces->rank, first[TACHY_MAX_RANK], second[TACHY_MAX_RANK], perm[TACHY_MAX_RANK];
    int64_t in[TACHY_MAX_RANK], out[TACHY_MAX_RANK], picture[2][AXES];
    order_of(s->in, rank, s->in_last, first);
    order_of(s->out, rank, s->out_last, second);
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
    if (!s->in_last)
        v = add(g, s->join, TACHY_OP_TRANSPOSE, last_order, v, AXES, picture[0]);
    v = v ? add(g, s->join, TACHY_OP_RESHAPE, NULL, v, rank, in) : NULL;
    v = v ? add(g, s->join, TACHY_OP_TRANSPOSE, perm, v, rank, out) : NULL;
    if (!s->out_last) {
        v = v ? add(g, s->join, TACHY_OP_RESHAPE, NULL, v, AXES, picture[1]) : NULL;
        s->join->op = TACHY_OP_TRANSPOSE;
        s->join->attr = (struct tachy_plan_attr){.perm = {0, 3, 1, 2}};
    }
    if (!v)
        return TACHY_ERR_NOMEM;
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
        if (find(n, &s))
            err = rewrite(g, &s);
    }
    return err;
}
