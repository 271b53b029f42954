#include "base/base.h"
#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

// Convolutions of a volume. The front end has put the planes that a window sees side by side as channels of pictures
// (provider/read_volumes.c): three times the volume, or more, that was copied only to be read once. Here the convolution reads each
// plane where it lies. What lies between such convolutions becomes pictures as well, so that pixels may end in more than their
// channels, as tensor cores want them: volumes side by side, and moves to a volume and back. A volume that is added to what a
// convolution made becomes its added input.

enum { VOLUME = 5, LEAST = 32 }; // [1][planes][h][w][c]; fewer channels would fill the steps of tensor cores badly

static struct tachy_value *made(struct tachy_graph *g, struct tachy_node *before, enum tachy_plan_op op, const struct tachy_plan_attr *a,
                                struct tachy_value *x, int rank, const int64_t *shape)
{
    struct tachy_value *to = x ? tachy_graph_value(g, NULL, x->dtype, rank, shape) : NULL;
    return to && tachy_graph_node(g, before, op, before->name, a, &x, 1, to) ? to : NULL;
}

static bool is_move(const struct tachy_value *v, enum tachy_plan_op op, const int *perm)
{
    const struct tachy_node *n = v->made_by;
    return n && n->op == op && (!perm || !memcmp(n->attr.perm, perm, sizeof(int) * (size_t)v->rank));
}

static const int to_last[] = {0, 2, 3, 1}, to_first[] = {0, 3, 1, 2};

// The pictures that one volume with its channels last was made of; NULL: it was made otherwise.
static struct tachy_value *made_of(const struct tachy_value *v)
{
    const int64_t *s = v->shape, last[] = {s[1], s[2], s[3], s[4]};
    const struct tachy_value *rows = is_move(v, TACHY_OP_RESHAPE, NULL) ? v->made_by->in[0] : NULL;
    bool turned = rows && rows->rank == 4 && !memcmp(rows->shape, last, sizeof(last)) && is_move(rows, TACHY_OP_TRANSPOSE, to_last);
    return turned ? rows->made_by->in[0] : NULL;
}

// The volume as pictures. NULL: no memory.
static struct tachy_value *pictures(struct tachy_graph *g, struct tachy_node *before, struct tachy_value *v)
{
    const int64_t *s = v->shape, last[] = {s[1], s[2], s[3], s[4]}, first[] = {s[1], s[4], s[2], s[3]};
    if (made_of(v))
        return made_of(v);
    struct tachy_plan_attr a = {.perm = {0}};
    struct tachy_value *four = made(g, before, TACHY_OP_RESHAPE, &a, v, 4, last);
    memcpy(a.perm, to_first, sizeof(to_first));
    return made(g, before, TACHY_OP_TRANSPOSE, &a, four, 4, first);
}

// Pictures as one volume with its channels last.
static struct tachy_value *volume(struct tachy_graph *g, struct tachy_node *before, struct tachy_value *p, const struct tachy_value *like)
{
    const int64_t *s = like->shape, last[] = {s[1], s[2], s[3], s[4]};
    struct tachy_plan_attr a = {.perm = {0}};
    memcpy(a.perm, to_last, sizeof(to_last));
    struct tachy_value *rows = made(g, before, TACHY_OP_TRANSPOSE, &a, p, 4, last);
    return made(g, before, TACHY_OP_RESHAPE, &(struct tachy_plan_attr){.perm = {0}}, rows, VOLUME, s);
}

// Volumes side by side, by their channels: pictures side by side.
static int join(struct tachy_graph *g, struct tachy_node *n)
{
    const struct tachy_value *y = n->out;
    const int64_t *s = y->shape, first[] = {s[1], s[4], s[2], s[3]};
    struct tachy_plan_attr a = {.axis = 1};
    for (int i = 0; i < n->nb_in; i++) {
        struct tachy_value *p = pictures(g, n, n->in[i]);
        if (!p)
            return TACHY_ERR_NOMEM;
        tachy_node_set_input(n, i, p);
    }
    struct tachy_value *all = tachy_graph_value(g, NULL, y->dtype, 4, first);
    if (!all || !tachy_graph_node(g, n, TACHY_OP_CONCAT, n->name, &a, n->in, n->nb_in, all))
        return TACHY_ERR_NOMEM;
    struct tachy_value *back = volume(g, n, all, y);
    if (!back)
        return TACHY_ERR_NOMEM;
    pass_rewritten(g, n, back);
    return TACHY_OK;
}

// A convolution of planes that were put side by side.
struct found {
    struct tachy_value *x; // the volume
    int planes, before;
};

// The volume of which Concat's input i is the planes from i on; `before` of them are padding.
static struct tachy_value *volume_of(const struct tachy_node *concat, int i, int64_t *before, int64_t *after)
{
    const struct tachy_node *slice = concat->in[i]->made_by, *apart = slice ? slice->in[0]->made_by : NULL;
    if (!apart || apart->op != TACHY_OP_RESHAPE || slice->out->rank != VOLUME + 1 || !pass_cuts(slice, 1) || slice->attr.slice.start[1] != i)
        return NULL;
    struct tachy_value *x = apart->in[0];
    const struct tachy_node *pad = x->made_by;
    *before = *after = 0;
    if (pad && pad->op == TACHY_OP_PAD && pad->attr.pad.value == 0) {
        for (int d = 0; d < x->rank; d++)
            if (d != 1 && (pad->attr.pad.before[d] || pad->attr.pad.after[d]))
                return NULL;
        *before = pad->attr.pad.before[1];
        *after = pad->attr.pad.after[1];
        x = pad->in[0];
    }
    return x->rank == VOLUME && x->shape[0] == 1 && slice->in[0]->shape[4] == 1 ? x : NULL;
}

static bool find(const struct tachy_node *n, struct found *f)
{
    const struct tachy_value *rows = n->op == TACHY_OP_CONV && n->attr.conv.groups == 1 && !pass_input(n, 4) &&
                                     is_move(n->in[0], TACHY_OP_TRANSPOSE, to_first) ? n->in[0]->made_by->in[0] : NULL;
    const struct tachy_value *all = rows && is_move(rows, TACHY_OP_RESHAPE, NULL) ? rows->made_by->in[0] : NULL;
    const struct tachy_node *concat = all ? all->made_by : NULL;
    int64_t before = 0, after = 0;
    if (!concat || concat->op != TACHY_OP_CONCAT || all->rank != VOLUME + 1 || concat->attr.axis != VOLUME || concat->nb_in < 2)
        return false;
    *f = (struct found){.planes = concat->nb_in};
    for (int i = 0; i < concat->nb_in; i++) {
        struct tachy_value *x = volume_of(concat, i, &before, &after);
        if (!x || (f->x && f->x != x))
            return false;
        f->x = x;
    }
    f->before = (int)before;
    return f->x->shape[4] >= LEAST && before < concat->nb_in && after < concat->nb_in && n->out->shape[0] == f->x->shape[1] + before + after - concat->nb_in + 1 &&
           n->in[0]->shape[1] == f->x->shape[4] * concat->nb_in && n->in[0]->shape[2] == f->x->shape[2] && n->in[0]->shape[3] == f->x->shape[3];
}

// Planes as the channels of one picture: [1][c][planes][h][w] as [1][c planes][h][w], whose convolution has one picture.
static bool find_flat(const struct tachy_node *n, struct found *f)
{
    static const int first[] = {0, 4, 1, 2, 3};
    const struct tachy_value *x = n->op == TACHY_OP_CONV && n->attr.conv.groups == 1 && !n->attr.conv.planes && !pass_input(n, 4) ? n->in[0] : NULL;
    const struct tachy_value *v = x && is_move(x, TACHY_OP_RESHAPE, NULL) ? x->made_by->in[0] : NULL;
    if (!v || v->rank != VOLUME || v->shape[0] != 1 || x->shape[0] != 1 || x->shape[2] != v->shape[3] || x->shape[3] != v->shape[4] ||
        !is_move(v, TACHY_OP_TRANSPOSE, first) || !n->in[1]->data || n->in[1]->dtype != TACHY_F32)
        return false;
    *f = (struct found){.x = v->made_by->in[0], .planes = (int)v->shape[2]};
    return f->planes > 1 && v->shape[1] >= LEAST;
}

// Weights whose channels are those of the planes, one plane after the other.
static struct tachy_value *by_planes(struct tachy_graph *g, const struct tachy_value *w, int planes)
{
    const int64_t taps = w->shape[2] * w->shape[3], all = w->shape[1], c = all / planes;
    float *to = tachy_graph_alloc(g, sizeof(*to) * (size_t)tachy_value_elements(w));
    for (int64_t i = 0; to && i < tachy_value_elements(w); i++) {
        const int64_t k = i / taps % all;
        to[i] = ((const float *)w->data)[(i / taps / all * all + k % c * planes + k / c) * taps + i % taps];
    }
    return to ? tachy_graph_constant(g, w->name, TACHY_F32, 4, w->shape, to) : NULL;
}

static int read_planes(struct tachy_graph *g, struct tachy_node *n, const struct found *f)
{
    struct tachy_value *p = pictures(g, n, f->x);
    if (p && p->shape[1] % 8 && (!p->made_by || p->made_by->op != TACHY_OP_CONCAT)) // pixels of their own
        p = made(g, n, TACHY_OP_CONCAT, &(struct tachy_plan_attr){.axis = 1}, p, 4, p->shape);
    if (!p)
        return TACHY_ERR_NOMEM;
    tachy_node_set_input(n, 0, p);
    n->attr.conv.planes = f->planes;
    n->attr.conv.before = f->before;
    return TACHY_OK;
}

static int read_flat(struct tachy_graph *g, struct tachy_node *n, const struct found *f)
{
    struct tachy_value *w = by_planes(g, n->in[1], f->planes);
    if (!w)
        return TACHY_ERR_NOMEM;
    tachy_node_set_input(n, 1, w);
    return read_planes(g, n, f);
}

// Pictures of a volume that was made of the same pictures.
static struct tachy_value *same_pictures(const struct tachy_graph *g, const struct tachy_node *n)
{
    const struct tachy_value *rows = n->out->rank == 4 && !pass_is_output(g, n->out) && is_move(n->out, TACHY_OP_TRANSPOSE, to_first) ? n->in[0] : NULL;
    const struct tachy_value *v = rows && rows->rank == 4 && is_move(rows, TACHY_OP_RESHAPE, NULL) ? rows->made_by->in[0] : NULL;
    struct tachy_value *p = v && v->rank == VOLUME && v->shape[0] == 1 ? made_of(v) : NULL;
    return p && p->dtype == n->out->dtype && tachy_value_same_shape(p, n->out) ? p : NULL;
}

// The convolution whose pictures, as a volume, are input `i` of a sum and of nothing else.
static struct tachy_node *summed(const struct tachy_node *n, int i)
{
    struct tachy_node *back = n->op == TACHY_OP_BINARY && n->attr.binary == TACHY_PLAN_ADD && n->out->rank == VOLUME &&
                              made_of(n->in[i]) ? pass_maker(n->in[i], n) : NULL;
    struct tachy_node *rows = back ? pass_maker(back->in[0], back) : NULL, *conv = rows ? pass_maker(rows->in[0], rows) : NULL;
    const struct tachy_value *other = n->in[1 - i];
    return conv && conv->op == TACHY_OP_CONV && !pass_input(conv, 3) && !conv->attr.act.act && !other->data &&
           tachy_value_same_shape(other, n->out) && tachy_value_same_shape(n->in[i], n->out) ? conv : NULL;
}

// The convolution adds the other volume itself, at the place of the sum, where that is ready.
static int sum(struct tachy_graph *g, struct tachy_node *n, int i)
{
    const struct tachy_node *conv = summed(n, i);
    struct tachy_value *in[6] = {NULL};
    struct tachy_plan_attr a = conv->attr;
    memcpy(in, conv->in, sizeof(*in) * (size_t)conv->nb_in);
    in[3] = pictures(g, n, n->in[1 - i]);
    a.act = n->attr.act;
    struct tachy_value *y = in[3] ? tachy_graph_value(g, NULL, conv->out->dtype, 4, conv->out->shape) : NULL;
    if (!y || !tachy_graph_node(g, n, TACHY_OP_CONV, conv->name, &a, in, TACHY_MAX(conv->nb_in, 4), y))
        return TACHY_ERR_NOMEM;
    struct tachy_value *to = volume(g, n, y, n->out);
    if (!to)
        return TACHY_ERR_NOMEM;
    pass_rewritten(g, n, to);
    return TACHY_OK;
}

static bool is_before(const struct tachy_node *a, const struct tachy_node *b)
{
    while (a && a != b)
        a = a->next;
    return a;
}

// GridSample reads a volume that lies there with its channels last as well, since some convolution reads it so, as that one turned back:
// a position's channels are adjacent (seen.c).
static int sample_last(struct tachy_graph *g, struct tachy_node *n)
{
    static const int last[] = {0, 2, 3, 4, 1};
    struct tachy_value *x = n->in[0];
    const struct tachy_plan_attr back = {.perm = {0, 4, 1, 2, 3}};
    for (const struct tachy_use *u = x->used; u && !x->data; u = u->next) {
        struct tachy_node *t = u->by;
        if (t->op != TACHY_OP_TRANSPOSE || memcmp(t->attr.perm, last, sizeof(last)) || !is_before(t, n))
            continue;
        struct tachy_value *to = made(g, n, TACHY_OP_TRANSPOSE, &back, t->out, VOLUME, x->shape);
        if (to)
            tachy_node_set_input(n, 0, to);
        return to ? TACHY_OK : TACHY_ERR_NOMEM;
    }
    return TACHY_OK;
}

static bool joins_pictures(const struct tachy_node *n)
{
    bool any = false;
    for (int i = 0; i < n->nb_in && n->op == TACHY_OP_CONCAT && n->out->rank == VOLUME; i++)
        any = any || made_of(n->in[i]);
    return any && n->attr.axis == VOLUME - 1 && n->out->shape[0] == 1;
}

int cuda_volumes(struct tachy_graph *g)
{
    int err = TACHY_OK;
    for (struct tachy_node *n = g->first, *next; n && err == TACHY_OK; n = next) {
        struct found f;
        next = n->next;
        if (joins_pictures(n))
            err = join(g, n);
        else if (find(n, &f))
            err = read_planes(g, n, &f);
        else if (find_flat(n, &f))
            err = read_flat(g, n, &f);
        else if (same_pictures(g, n))
            pass_rewritten(g, n, same_pictures(g, n));
        else if (n->op == TACHY_OP_GRID_SAMPLE && n->in[0]->rank == VOLUME)
            err = sample_last(g, n);
        else if (n->op == TACHY_OP_BINARY && (summed(n, 1) || summed(n, 0)))
            err = sum(g, n, summed(n, 1) ? 1 : 0);
    }
    return err < 0 ? err : tachy_plan_dead(g);
}
