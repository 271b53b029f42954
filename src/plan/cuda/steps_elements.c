#include "base/base.h"
#include "plan/cuda/walk.h"

// Steps that go element by element: functions, sums and products that stretch, selection, and everything that only
// moves numbers or gives them another type.

static int64_t size_of(int64_t v) { return v < 0 ? -v : v; }

static void swap(struct cuda_walk *w, int a, int b)
{
    int64_t t = w->dim[a];
    w->dim[a] = w->dim[b];
    w->dim[b] = t;
    for (int i = 0; i < w->nb; i++) {
        t = w->step[i][a];
        w->step[i][a] = w->step[i][b];
        w->step[i][b] = t;
    }
}

void cuda_walk_simplify(struct cuda_walk *w)
{
    int rank = 0;
    for (int i = 0; i < w->rank; i++)
        for (int k = i; k > 0 && size_of(w->step[0][k]) > size_of(w->step[0][k - 1]); k--)
            swap(w, k, k - 1);
    for (int d = 0; d < w->rank; d++) {
        bool joins = rank > 0;
        if (w->dim[d] == 1)
            continue;
        for (int i = 0; i < w->nb && joins; i++)
            joins = w->step[i][rank - 1] == w->step[i][d] * w->dim[d];
        int at = joins ? rank - 1 : rank++;
        w->dim[at] = joins ? w->dim[at] * w->dim[d] : w->dim[d];
        for (int i = 0; i < w->nb; i++)
            w->step[i][at] = w->step[i][d];
    }
    w->rank = rank;
}

void cuda_walk_strides(const struct cuda_build *b, const struct tachy_value *v, int64_t *to)
{
    ptrdiff_t own[TACHY_MAX_RANK] = {0};
    struct tachy_value plain = *v;
    plain.nhwc = plain.nhwc && !v->data;
    struct tachy_view dense = plan_view(&plain);
    plan_strides(&plain, v->data ? &dense : &b->places.ref[v->id].v, own);
    for (int i = 0; i < v->rank; i++)
        to[i] = own[i];
}

// Steps of operand `i`, which stretches to the output.
static void walk_operand(const struct cuda_build *b, struct cuda_walk *w, int i, const struct tachy_value *v,
                         const struct tachy_value *y)
{
    int64_t own[TACHY_MAX_RANK] = {0};
    cuda_walk_strides(b, v, own);
    for (int d = 0; d < y->rank; d++) {
        int k = d - (y->rank - v->rank);
        w->step[i][d] = k < 0 || v->shape[k] == 1 ? 0 : own[k];
    }
}

void cuda_walk_operand(struct tachy_nn_operand *o, const struct cuda_walk *w, int i, cuda_address at, enum tachy_dtype t)
{
    o->data = at;
    o->dtype = t;
    for (int d = 0; d < w->rank; d++)
        o->stride[TACHY_NN_RANK - w->rank + d] = w->step[i][d];
}

void cuda_walk_shape(int64_t shape[TACHY_NN_RANK], const struct cuda_walk *w)
{
    for (int d = 0; d < TACHY_NN_RANK; d++) {
        int k = d - (TACHY_NN_RANK - w->rank);
        shape[d] = k < 0 ? 1 : w->dim[k];
    }
}

// Arguments of a launch over a walk: offsets and types of its walkers.
struct task {
    cuda_address at[CUDA_WALKERS];
    enum tachy_dtype t[CUDA_WALKERS];
    const struct tachy_node *n; // whose function; NULL: it copies
    float value;                // of a fill
};
typedef int launch_fn(struct cuda_build *b, const struct cuda_walk *w, const struct task *task);

// One launch covers as many dimensions as kernels can walk. If there are more, each element of the smallest gets its
// own launch: a tensor has less than 2^31 elements, so these are few.
static int launch_all(struct cuda_build *b, const struct cuda_walk *whole, const struct task *task, launch_fn *launch)
{
    struct cuda_walk w = *whole;
    int least = 0, err = TACHY_OK;
    cuda_walk_simplify(&w);
    if (w.rank <= TACHY_NN_RANK)
        return launch(b, &w, task);
    for (int d = 1; d < w.rank; d++)
        least = w.dim[d] < w.dim[least] ? d : least;
    struct task part = *task;
    int64_t size = w.dim[least];
    w.dim[least] = 1;
    for (int64_t i = 0; i < size && err == TACHY_OK; i++) {
        for (int k = 0; k < w.nb; k++)
            part.at[k] = task->at[k] + (cuda_address)(i * w.step[k][least] * (int64_t)tachy_dtype_size(task->t[k]));
        err = launch_all(b, &w, &part, launch);
    }
    return err;
}

static void then(struct tachy_nn_pointwise *p, enum tachy_nn_step_kind kind, int what, int operand_of, float a, float b)
{
    p->steps[p->nb_steps++] =
        (struct tachy_nn_step){(unsigned char)kind, (unsigned char)what, (unsigned char)operand_of, a, b};
}

// The node's function or end; PRelu's slope is the operand after the others.
static void then_act(struct tachy_nn_pointwise *p, const struct tachy_plan_act_of *a)
{
    if (a->act == TACHY_PLAN_NONE)
        return;
    if (a->act == TACHY_PLAN_PRELU) {
        then(p, TACHY_NN_PRELU, 0, p->nb_in - 1, 0, 0);
    } else if (a->act == TACHY_PLAN_NEG) {
        then(p, TACHY_NN_UNARY, TACHY_NN_NEG, 0, 0, 0);
    } else if (tachy_plan_act_ends(a->act)) {
        struct tachy_act act = plan_act(a);
        then(p, TACHY_NN_ACT, act.kind, 0, act.a, act.b);
    } else if (a->act == TACHY_PLAN_TRUNC) {
        float least, most;
        tachy_dtype_limits(p->out.dtype, &least, &most);
        then(p, TACHY_NN_UNARY, TACHY_NN_TRUNC, 0, least, most);
    } else {
        then(p, TACHY_NN_UNARY, (int)a->act - TACHY_PLAN_LOG + TACHY_NN_LOG, 0, a->a, a->b);
    }
}

static void then_binary(struct tachy_nn_pointwise *p, enum tachy_plan_binary how)
{
    if (how <= TACHY_PLAN_POW)
        then(p, TACHY_NN_BINARY, plan_binary(how), 1, 0, 0);
    else if (how == TACHY_PLAN_FMOD || how == TACHY_PLAN_MOD)
        then(p, TACHY_NN_COMPARE, how == TACHY_PLAN_FMOD ? TACHY_NN_FMOD : TACHY_NN_MOD, 1, 0, 0);
    else
        then(p, TACHY_NN_COMPARE, (int)how - TACHY_PLAN_EQUAL, 1, 0, 0);
}

static int launch_pointwise(struct cuda_build *b, const struct cuda_walk *w, const struct task *task)
{
    struct cuda_step *s = cuda_step(b, CUDA_POINTWISE);
    const struct tachy_node *n = task->n;
    if (!s)
        return TACHY_ERR_NOMEM;
    struct tachy_nn_pointwise *p = &s->a.pointwise;
    cuda_walk_shape(p->shape, w);
    cuda_walk_operand(&p->out, w, 0, task->at[0], task->t[0]);
    for (int i = 1; i < w->nb; i++)
        cuda_walk_operand(&p->in[i - 1], w, i, task->at[i], task->t[i]);
    p->nb_in = w->nb - 1;
    if (n && n->op == TACHY_OP_SELECT)
        then(p, TACHY_NN_SELECT, 0, 1, 0, 0);
    else if (n && n->op == TACHY_OP_BINARY)
        then_binary(p, n->attr.binary);
    else if (p->nb_in == 2 && n && n->op == TACHY_OP_MATMUL)
        then_binary(p, TACHY_PLAN_ADD);
    if (n && n->op != TACHY_OP_SELECT)
        then_act(p, &n->attr.act);
    return TACHY_OK;
}

// The node's launch over `nb` operands.
static int elements(struct cuda_build *b, const struct tachy_node *n, struct tachy_value *const *in, int nb)
{
    const struct tachy_value *y = n->out;
    struct cuda_walk w = {.rank = y->rank, .nb = 1 + nb};
    struct task task = {.t = {y->dtype}, .n = n};
    if (!cuda_value(b, y, &task.at[0]))
        return TACHY_ERR_NOMEM;
    memcpy(w.dim, y->shape, sizeof(w.dim));
    cuda_walk_strides(b, y, w.step[0]);
    for (int i = 0; i < nb; i++) {
        walk_operand(b, &w, 1 + i, in[i], y);
        task.t[1 + i] = in[i]->dtype;
        if (!cuda_value(b, in[i], &task.at[1 + i]))
            return TACHY_ERR_NOMEM;
    }
    b->nb_chain = TACHY_MIN(nb, (int)TACHY_NN_OPERANDS);
    memcpy(b->chain, in, sizeof(struct tachy_value *) * (size_t)b->nb_chain);
    return launch_all(b, &w, &task, launch_pointwise);
}

// Bytes from an operand's first element to the end of its last, in a step's own order.
static size_t span_of(const struct tachy_nn_pointwise *p, const struct tachy_nn_operand *o)
{
    int64_t last = 0;
    for (int d = 0; d < TACHY_NN_RANK; d++)
        last += (p->shape[d] - 1) * o->stride[d];
    return (size_t)(last + 1) * tachy_dtype_size(o->dtype);
}

// True if a launch may write `out` while it reads this operand: it is elsewhere, or each element is written where it
// was read.
static bool may_write(const struct tachy_nn_pointwise *p, const struct tachy_nn_operand *o, const struct tachy_nn_operand *out)
{
    size_t from = span_of(p, o), to = span_of(p, out);
    bool apart = o->data + from <= out->data || out->data + to <= o->data;
    return apart || (o->data == out->data && tachy_dtype_size(o->dtype) == tachy_dtype_size(out->dtype) &&
                     !memcmp(o->stride, out->stride, sizeof(o->stride)));
}

static int64_t all_of(const struct tachy_nn_pointwise *p)
{
    int64_t all = 1;
    for (int d = 0; d < TACHY_NN_RANK; d++)
        all *= p->shape[d];
    return all;
}

static bool is_dense(const struct tachy_nn_pointwise *p, const struct tachy_nn_operand *o)
{
    return span_of(p, o) == (size_t)all_of(p) * tachy_dtype_size(o->dtype);
}

// The dimension of `p` that an element of operand `o` belongs to which lies so far from the first.
static int dim_at(const struct tachy_nn_pointwise *p, const struct tachy_nn_operand *o, int64_t far)
{
    int at = -1;
    for (int d = 0; d < TACHY_NN_RANK; d++)
        if (p->shape[d] > 1 && o->stride[d] <= far && (at < 0 || o->stride[d] > o->stride[at]))
            at = d;
    return at;
}

// Cuts dimensions of the copy `c` so that none reaches over two of operand `o` of `p`, which is what it writes. False: that takes too many.
static bool cut(struct tachy_nn_pointwise *c, const struct tachy_nn_pointwise *p, const struct tachy_nn_operand *o)
{
    for (int d = TACHY_NN_RANK - 1; d >= 0; d--) {
        int64_t step = c->out.stride[d], at = c->shape[d] > 1 ? dim_at(p, o, step) : -1;
        if (c->shape[d] == 1)
            continue;
        if (at < 0 || step % o->stride[at])
            return false;
        int64_t room = o->stride[at] * p->shape[at];
        if (step * c->shape[d] <= room)
            continue;
        int64_t inner = room / step;
        if (room % step || c->shape[d] % inner || c->shape[0] > 1)
            return false;
        for (int k = 0; k < d; k++) { // in front of d there is room for what is outside
            c->shape[k] = c->shape[k + 1];
            c->out.stride[k] = c->out.stride[k + 1];
            c->in[0].stride[k] = c->in[0].stride[k + 1];
        }
        c->shape[d - 1] = c->shape[d] / inner;
        c->out.stride[d - 1] = step * inner;
        c->in[0].stride[d - 1] = c->in[0].stride[d] * inner;
        c->shape[d] = inner;
    }
    return true;
}

void cuda_keep_until(struct cuda_build *b, const struct tachy_node *n, const struct tachy_node *last, int more)
{
    int behind = more;
    for (const struct tachy_node *m = n; last && m != last; m = m->next)
        behind++;
    struct plan_beside *at = &b->beside[n->out->id];
    at->behind = TACHY_MAX(at->behind, behind);
}

void cuda_keep_moved(struct cuda_build *b)
{
    for (const struct tachy_node *n = b->g->first; n; n = n->next) {
        const struct tachy_node *by = n->op == TACHY_OP_TRANSPOSE ? tachy_value_user(n->out) : NULL, *last = NULL;
        while (by && (by->op == TACHY_OP_RESHAPE || by->op == TACHY_OP_TRANSPOSE))
            by = tachy_value_user(by->out);
        for (; by && (by->op == TACHY_OP_BINARY || (last && by->op == TACHY_OP_UNARY)); by = tachy_value_user(by->out))
            last = by;
        cuda_keep_until(b, n, last, 0);
    }
}

// A function that may be a part of a launch with others (extends()).
static bool is_link(const struct tachy_node *n)
{
    return (n->op == TACHY_OP_UNARY && !cuda_input(n, 1)) || (n->op == TACHY_OP_BINARY && n->attr.binary <= TACHY_PLAN_POW && n->nb_in == 2);
}

// The next link of a chain, with nodes between that only move numbers; NULL: there is none.
static const struct tachy_node *next_link(const struct tachy_node *n)
{
    const struct tachy_node *user = tachy_value_user(n->out), *m = n->next;
    while (m && m != user && (m->op == TACHY_OP_SLICE || m->op == TACHY_OP_RESHAPE || m->op == TACHY_OP_TRANSPOSE))
        m = m->next;
    return m && m == user && is_link(m) && tachy_value_same_shape(m->out, n->out) && m->out->nhwc == n->out->nhwc ? m : NULL;
}

void cuda_keep_chains(struct cuda_build *b)
{
    for (const struct tachy_node *n = b->g->first; n; n = n->next) {
        const struct tachy_node *last = is_link(n) ? n : NULL;
        for (const struct tachy_node *m = last; m; m = next_link(m))
            last = m;
        cuda_keep_until(b, n, last, 0);
    }
}

// Operand `i` of the last step is what the step in front has copied, and nobody else reads it: it is read where that step reads it.
static void absorb(struct cuda_build *b, const struct tachy_node *n, int i)
{
    const struct tachy_value *v = n->in[i];
    const struct plan_lane *lane = &b->lanes[n->out->id];
    struct cuda_plan *plan = b->plan;
    struct cuda_step *s = plan->nb_steps > 1 ? &plan->steps[plan->nb_steps - 1] : NULL, *from = s ? s - 1 : NULL;
    if (!s || s->kind != CUDA_POINTWISE || from->kind != CUDA_POINTWISE || !plan_same_lane(&from->lane, lane))
        return;
    struct tachy_nn_pointwise q = s->a.pointwise, c = from->a.pointwise;
    const struct tachy_nn_operand *o = &s->a.pointwise.in[i];
    bool fits = !c.nb_steps && c.nb_in == 1 && c.in[0].dtype == c.out.dtype && c.out.data == o->data && c.out.dtype == o->dtype &&
                all_of(&c) == all_of(&q) && is_dense(&c, &c.out) && is_dense(&q, o);
    while (fits && v->uses == 1 && v->made_by && (v->made_by->op == TACHY_OP_TRANSPOSE || v->made_by->op == TACHY_OP_RESHAPE) &&
           cuda_tensor(b, v->made_by->in[0]).data == o->data)
        v = v->made_by->in[0];
    fits = fits && v->uses == 1 && v->made_by && v->made_by->op == TACHY_OP_TRANSPOSE;
    if (!fits || !cut(&c, &q, o))
        return;
    memcpy(q.shape, c.shape, sizeof(q.shape));
    for (int d = 0; d < TACHY_NN_RANK; d++) {
        int at = c.shape[d] > 1 ? dim_at(&s->a.pointwise, o, c.out.stride[d]) : -1;
        for (int k = 0; k <= q.nb_in; k++) {
            struct tachy_nn_operand *to = k < q.nb_in ? &q.in[k] : &q.out;
            const struct tachy_nn_operand *was = k < q.nb_in ? &s->a.pointwise.in[k] : &s->a.pointwise.out;
            to->stride[d] = at < 0 ? 0 : was->stride[at] * (c.out.stride[d] / o->stride[at]);
        }
    }
    q.in[i] = c.in[0];
    for (int k = 0; k < q.nb_in; k++)
        if (!may_write(&q, &q.in[k], &q.out))
            return;
    from->a.pointwise = q;
    plan->nb_steps--;
    b->nb_chain = 0; // an operand is no value: nothing walks again
    cuda_part_spread(b);
}

// The last step, if it is one launch for all of `v`, which only `n` reads, and is in the same lane. Nodes between only move
// numbers, by address.
static struct tachy_nn_pointwise *chain_of(const struct cuda_build *b, const struct tachy_node *n, const struct tachy_value *v)
{
    struct cuda_plan *p = b->plan;
    struct cuda_step *s = p->nb_steps ? &p->steps[p->nb_steps - 1] : NULL;
    const struct tachy_node *by = v->made_by; // it must have made a step; nodes that only move numbers may not have
    if (!s || s->kind != CUDA_POINTWISE || !by || (by->op != TACHY_OP_UNARY && by->op != TACHY_OP_BINARY && by->op != TACHY_OP_SELECT) ||
        tachy_value_user(v) != n || !tachy_is_float(v->dtype) || s->a.pointwise.out.data != cuda_tensor(b, v).data)
        return NULL;
    const struct plan_lane *one = &b->lanes[v->id], *two = &b->lanes[n->out->id];
    return all_of(&s->a.pointwise) == tachy_value_elements(v) && plan_same_lane(one, two) ? &s->a.pointwise : NULL;
}

// A function of what a layer normalisation makes becomes its end.
static bool ends_norm(struct cuda_build *b, const struct tachy_node *n)
{
    struct cuda_plan *p = b->plan;
    struct cuda_step *s = p->nb_steps ? &p->steps[p->nb_steps - 1] : NULL;
    const struct tachy_value *v = n->in[0], *y = n->out;
    const struct plan_ref *from = &b->places.ref[v->id], *to = &b->places.ref[y->id];
    const struct plan_lane *lane = &b->lanes[y->id];
    if (!s || s->kind != CUDA_LAYER_NORM || n->op != TACHY_OP_UNARY || cuda_input(n, 1) || !tachy_plan_act_ends(n->attr.act.act) ||
        n->attr.act.act == TACHY_PLAN_PRELU || s->a.layer_norm.act.kind != TACHY_ACT_NONE || v->data || y->dtype != s->a.layer_norm.dtype ||
        v->nhwc != y->nhwc || from->v.pixel != to->v.pixel || from->v.row != to->v.row || from->v.image != to->v.image ||
        !plan_same_lane(&s->lane, lane) || cuda_tensor(b, v).data != s->a.layer_norm.out)
        return false;
    while (v->uses == 1 && v->made_by && (v->made_by->op == TACHY_OP_TRANSPOSE || v->made_by->op == TACHY_OP_RESHAPE))
        v = v->made_by->in[0];
    struct tachy_nn_layer_norm l = s->a.layer_norm;
    if (v->uses != 1 || !v->made_by || v->made_by->op != TACHY_OP_LAYER_NORM || v->dtype != l.dtype || !cuda_value(b, y, &l.out) || !cuda_norm_may_write(&l))
        return false;
    struct tachy_act act = plan_act(&n->attr.act);
    l.act = (struct tachy_nn_act){act.kind, act.a, act.b, 0};
    s->a.layer_norm = l;
    return true;
}

// The launch over all of `y`, of the chain's operands and perhaps another one. False: kernels do not walk that many dimensions,
// or it would write what it has yet to read.
static bool walk_again(struct cuda_build *b, struct tachy_nn_pointwise *p, const struct tachy_value *y, const struct tachy_value *other)
{
    struct cuda_walk w = {.rank = y->rank, .nb = 1 + p->nb_in};
    struct tachy_nn_pointwise again = *p;
    memset(again.in, 0, sizeof(again.in));
    again.out = (struct tachy_nn_operand){.data = 0};
    again.nb_in += other != NULL;
    w.nb += other != NULL;
    memcpy(w.dim, y->shape, sizeof(w.dim));
    cuda_walk_strides(b, y, w.step[0]);
    for (int i = 0; i < p->nb_in; i++)
        walk_operand(b, &w, 1 + i, b->chain[i], y);
    if (other)
        walk_operand(b, &w, w.nb - 1, other, y);
    cuda_walk_simplify(&w);
    cuda_address at[2] = {0, 0};
    if (w.rank > TACHY_NN_RANK || !cuda_value(b, y, &at[0]) || (other && !cuda_value(b, other, &at[1])))
        return false;
    cuda_walk_shape(again.shape, &w);
    cuda_walk_operand(&again.out, &w, 0, at[0], y->dtype);
    for (int i = 0; i < again.nb_in; i++)
        cuda_walk_operand(&again.in[i], &w, 1 + i, i < p->nb_in ? p->in[i].data : at[1], i < p->nb_in ? p->in[i].dtype : other->dtype);
    for (int i = 0; i < again.nb_in; i++)
        if (!may_write(&again, &again.in[i], &again.out))
            return false;
    *p = again;
    if (other)
        b->chain[b->nb_chain++] = other;
    return true;
}

// A function, or a sum or product with something else, becomes a part of the launch in front. Nothing lies in the value between.
static bool extends(struct cuda_build *b, const struct tachy_node *n)
{
    const struct tachy_value *y = n->out, *other = NULL;
    struct tachy_nn_pointwise *p = NULL;
    const bool link = is_link(n), binary = n->op == TACHY_OP_BINARY;
    const bool either = n->attr.binary == TACHY_PLAN_ADD || n->attr.binary == TACHY_PLAN_MUL; // operand may come first
    int of = 0;
    if (link && !binary)
        p = chain_of(b, n, n->in[0]);
    for (int i = 0; i < 1 + either && link && binary && !p; i++)
        if (n->in[0] != n->in[1] && (p = chain_of(b, n, n->in[i])))
            of = i, other = n->in[1 - i];
    if (!p || p->nb_in != b->nb_chain || p->nb_in + (other != NULL) > TACHY_NN_OPERANDS || p->nb_steps + 2 > TACHY_NN_CHAIN ||
        !tachy_value_same_shape(n->in[of], y) || n->in[of]->nhwc != y->nhwc || (other && !tachy_is_float(other->dtype)) ||
        !walk_again(b, p, y, other))
        return false;
    if (other)
        then(p, TACHY_NN_BINARY, plan_binary(n->attr.binary), p->nb_in - 1, 0, 0);
    then_act(p, &n->attr.act);
    return true;
}

int cuda_steps_elements(struct cuda_build *b, const struct tachy_node *n)
{
    const int steps = b->plan->nb_steps;
    int err = extends(b, n) || ends_norm(b, n) ? TACHY_OK : elements(b, n, n->in, n->nb_in);
    for (int i = 0; i < n->nb_in && err == TACHY_OK && b->plan->nb_steps == steps + 1; i++)
        absorb(b, n, i);
    return err;
}

int cuda_steps_end(struct cuda_build *b, const struct tachy_node *n)
{
    return elements(b, n, (struct tachy_value *[]){n->out, cuda_input(n, 2)}, cuda_input(n, 2) ? 2 : 1);
}

static bool moves_bytes(enum tachy_dtype t) { return tachy_is_float(t) || t == TACHY_U8; }

// Neighbours in one operand are apart in the other: a matrix transpose, done through shared memory. 0: this copy is none.
static int launch_turned(struct cuda_build *b, const struct cuda_walk *w, const struct task *task)
{
    enum { LEAST = 16, MOST = 65535 };
    const int row = w->rank - 1;
    int column = -1, batch = -1;
    for (int d = 0; d < row; d++)
        *(w->step[1][d] == 1 && column < 0 ? &column : &batch) = d;
    bool fits = w->rank >= 2 && w->rank <= 3 && column >= 0 && w->step[0][row] == 1 && w->step[1][row] > 1 && w->dim[row] >= LEAST &&
                w->dim[column] >= LEAST && w->dim[row] < INT32_MAX && w->dim[column] < INT32_MAX && (batch < 0 || w->dim[batch] <= MOST);
    bool types = moves_bytes(task->t[0]) && moves_bytes(task->t[1]) &&
                 (task->t[0] == task->t[1] || !tachy_is_half(task->t[0]) || !tachy_is_half(task->t[1]));
    if (!fits || !types)
        return 0;
    struct cuda_step *s = cuda_step(b, CUDA_TRANSPOSE);
    if (s)
        s->a.transpose = (struct tachy_nn_transpose){
            .in = task->at[1], .out = task->at[0], .in_row = w->step[1][row], .out_row = w->step[0][column], .rows = (int)w->dim[row],
            .columns = (int)w->dim[column], .batch = batch < 0 ? 1 : (int)w->dim[batch], .in_batch = batch < 0 ? 0 : w->step[1][batch],
            .out_batch = batch < 0 ? 0 : w->step[0][batch], .in_dtype = task->t[1], .out_dtype = task->t[0]};
    return s ? 1 : TACHY_ERR_NOMEM;
}

static int launch_copy(struct cuda_build *b, const struct cuda_walk *w, const struct task *task)
{
    int turned = launch_turned(b, w, task);
    return turned ? TACHY_MIN(turned, TACHY_OK) : launch_pointwise(b, w, task);
}

int cuda_walk_copy(struct cuda_build *b, const struct cuda_walk *w, cuda_address to, enum tachy_dtype to_type,
                   cuda_address from, enum tachy_dtype from_type)
{
    const struct task task = {.at = {to, from}, .t = {to_type, from_type}};
    return launch_all(b, w, &task, launch_copy);
}

static size_t bytes(int64_t elements, const struct tachy_value *v) { return (size_t)elements * tachy_dtype_size(v->dtype); }

// Pixels at even steps, without gaps except channels that are more than the picture's.
static bool is_even(const struct tachy_view *v)
{
    return v->pixel >= v->c && v->row == v->pixel * v->w && v->image == v->row * v->h;
}

// Pixels of few channels, which lie last, to pixels of as many as vectors want. False: it is not that.
static bool widen(struct cuda_build *b, const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    const int *perm = n->attr.perm;
    const struct tachy_view *from = &b->places.ref[x->id].v, *to = &b->places.ref[y->id].v;
    bool pixels = n->op == TACHY_OP_TRANSPOSE && y->rank == 4 && perm[0] == 0 && perm[1] == 3 && perm[2] == 1 && perm[3] == 2;
    if (!pixels || x->data || x->nhwc || !y->nhwc || !plan_is_dense(from) || !is_even(to) || to->pixel <= to->c || to->pixel > 8 ||
        x->shape[0] > 65535 || !tachy_is_float(x->dtype) || !tachy_is_half(y->dtype))
        return false;
    struct cuda_step *s = cuda_step(b, CUDA_TRANSPOSE);
    int c = (int)y->shape[1], count = (int)(y->shape[2] * y->shape[3]);
    if (s)
        s->a.transpose = (struct tachy_nn_transpose){
            .in = cuda_tensor(b, x).data, .out = cuda_tensor(b, y).data, .in_row = 1, .in_column = c, .out_row = to->pixel,
            .padded_rows = (int)to->pixel, .in_batch = (int64_t)c * count, .out_batch = to->image, .rows = c, .columns = count,
            .batch = (int)x->shape[0], .in_dtype = x->dtype, .out_dtype = y->dtype};
    return s;
}

// Channels first to channels last or back of dense pictures: matrices that are turned over. False: it is not that.
static bool turn(struct cuda_build *b, const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    const int *perm = n->attr.perm;
    const struct tachy_view *from = &b->places.ref[x->id].v, *to = &b->places.ref[y->id].v;
    bool same = n->op == TACHY_OP_TRANSPOSE && y->rank == 4 && perm[0] == 0 && perm[1] == 1 && perm[2] == 2 && perm[3] == 3;
    if (!same || x->data || x->nhwc == y->nhwc || !(x->nhwc ? is_even(from) : plan_is_dense(from)) || !is_even(to) || x->shape[0] > 65535 ||
        !moves_bytes(x->dtype) || !moves_bytes(y->dtype))
        return false;
    struct cuda_step *s = cuda_step(b, CUDA_TRANSPOSE);
    int c = (int)x->shape[1], pixels = (int)(x->shape[2] * x->shape[3]);
    int rows = x->nhwc ? pixels : c, columns = x->nhwc ? c : pixels;
    if (s)
        s->a.transpose = (struct tachy_nn_transpose){
            .in = cuda_tensor(b, x).data, .out = cuda_tensor(b, y).data, .in_row = x->nhwc ? from->pixel : columns,
            .out_row = to->pixel > to->c ? to->pixel : rows, .padded_rows = to->pixel > to->c ? (int)to->pixel : 0,
            .in_batch = x->nhwc ? from->image : (int64_t)rows * columns, .out_batch = to->image,
            .rows = rows, .columns = columns, .batch = (int)x->shape[0], .in_dtype = x->dtype, .out_dtype = y->dtype};
    return s;
}

// True if the output of Reshape, Transpose or Slice lies within its input: otherwise values that are alive at the same
// time never share a place.
static bool is_address(const struct cuda_build *b, const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0];
    const struct plan_ref *from = &b->places.ref[x->id], *to = &b->places.ref[n->out->id];
    int64_t own[TACHY_MAX_RANK] = {0}, offset = 0;
    if (x->data || n->op == TACHY_OP_EXPAND || from->base != to->base || x->dtype != n->out->dtype)
        return false;
    cuda_walk_strides(b, x, own);
    for (int i = 0; i < x->rank && n->op == TACHY_OP_SLICE; i++)
        offset += n->attr.slice.start[i] * own[i];
    return from->offset + (ptrdiff_t)bytes(offset, x) == to->offset;
}

// Sets the strides through the input of Slice, Transpose, Expand and Reshape; returns the offset of its start, in
// elements.
static int64_t walk_copy(const struct cuda_build *b, const struct tachy_node *n, struct cuda_walk *w)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    bool reshapes = n->op == TACHY_OP_RESHAPE && !plan_changes_type(n);
    int64_t in[TACHY_MAX_RANK] = {0}, offset = 0;
    const struct tachy_value *shape = reshapes ? x : y;
    *w = (struct cuda_walk){.rank = shape->rank, .nb = 2};
    memcpy(w->dim, shape->shape, sizeof(w->dim));
    cuda_walk_strides(b, x, in);
    cuda_walk_strides(b, y, w->step[0]);
    const bool pixels = y->nhwc && plan_moves_pixels(n);
    if (pixels)
        w->step[0][2] = x->shape[3] * w->step[0][3];
    for (int i = w->rank - 1, step = 1; i >= 0 && reshapes && !pixels; step *= (int)x->shape[i], i--)
        w->step[0][i] = step;
    for (int i = 0; i < w->rank; i++) {
        int k = i - (y->rank - x->rank);
        w->step[1][i] = in[i];
        if (n->op == TACHY_OP_TRANSPOSE)
            w->step[1][i] = in[n->attr.perm[i]];
        else if (n->op == TACHY_OP_EXPAND)
            w->step[1][i] = k < 0 || x->shape[k] == 1 ? 0 : in[k];
        else if (n->op == TACHY_OP_SLICE) {
            w->step[1][i] = in[i] * n->attr.slice.step[i];
            offset += n->attr.slice.start[i] * in[i];
        }
    }
    return offset;
}

int cuda_steps_copy(struct cuda_build *b, const struct tachy_node *n)
{
    struct cuda_walk w;
    cuda_address from, to;
    if (n->prev && n->in[0] == n->prev->out && cuda_joins(n->prev))
        return TACHY_OK; // its input wrote it
    if (cuda_spreads(n))
        return cuda_steps_spread(b, n);
    if (cuda_is_seen_through(b, n) || is_address(b, n) || turn(b, n) || widen(b, n))
        return TACHY_OK;
    if (!cuda_value(b, n->in[0], &from) || !cuda_value(b, n->out, &to))
        return TACHY_ERR_NOMEM;
    int64_t offset = walk_copy(b, n, &w);
    return cuda_walk_copy(b, &w, to, n->out->dtype, from + bytes(offset, n->in[0]), n->in[0]->dtype);
}

int cuda_steps_concat(struct cuda_build *b, const struct tachy_node *n)
{
    const struct plan_ref *whole = &b->places.ref[n->out->id];
    int64_t out[TACHY_MAX_RANK] = {0}, start = 0;
    cuda_walk_strides(b, n->out, out);
    for (int i = 0; i < n->nb_in; start += n->in[i]->shape[n->attr.axis], i++) {
        const struct tachy_value *v = n->in[i];
        const struct plan_ref *at = &b->places.ref[v->id];
        size_t offset = bytes(start * out[n->attr.axis], n->out);
        const bool through = !v->data && v->made_by && cuda_is_seen_through(b, v->made_by);
        struct cuda_walk w = {.rank = v->rank, .nb = 2};
        cuda_address from;
        if (!v->data && !through && at->base == whole->base && at->offset == whole->offset + (ptrdiff_t)offset)
            continue; // is there already
        if (!cuda_value(b, v, &from))
            return TACHY_ERR_NOMEM;
        memcpy(w.dim, v->shape, sizeof(w.dim));
        memcpy(w.step[0], out, sizeof(out));
        cuda_walk_strides(b, v, w.step[1]);
        if (through) {
            const struct cuda_seen seen = cuda_look(b, v);
            from = cuda_seen_at(b, &seen);
            memcpy(w.step[1], seen.stride, sizeof(seen.stride));
        }
        int err = cuda_walk_copy(b, &w, cuda_at(whole->base, (size_t)whole->offset + offset), n->out->dtype, from, v->dtype);
        if (err < 0)
            return err;
    }
    return TACHY_OK;
}

static int launch_fill(struct cuda_build *b, const struct cuda_walk *w, const struct task *task)
{
    struct cuda_step *s = cuda_step(b, CUDA_FILL);
    if (!s)
        return TACHY_ERR_NOMEM;
    cuda_walk_shape(s->a.fill.shape, w);
    cuda_walk_operand(&s->a.fill.out, w, 0, task->at[0], task->t[0]);
    s->a.fill.value = task->value;
    return TACHY_OK;
}

// A block of the output of Pad becomes its value.
static int fill(struct cuda_build *b, const struct tachy_node *n, const int64_t *first, const int64_t *dim)
{
    struct cuda_walk w = {.rank = n->out->rank, .nb = 1};
    int64_t offset = 0;
    memcpy(w.dim, dim, sizeof(w.dim));
    cuda_walk_strides(b, n->out, w.step[0]);
    for (int i = 0; i < w.rank; i++) {
        offset += first[i] * w.step[0][i];
        if (!dim[i])
            return TACHY_OK;
    }
    const struct task task = {.at = {cuda_tensor(b, n->out).data + bytes(offset, n->out)}, .t = {n->out->dtype},
                              .value = n->attr.pad.value};
    return launch_all(b, &w, &task, launch_fill);
}

// Fills the area around the input, axis by axis: before and after, over what the previous axes left.
static int frame(struct cuda_build *b, const struct tachy_node *n)
{
    int64_t first[TACHY_MAX_RANK] = {0}, dim[TACHY_MAX_RANK];
    int err = TACHY_OK;
    memcpy(dim, n->out->shape, sizeof(dim));
    for (int i = 0; i < n->out->rank && err == TACHY_OK; i++) {
        const int64_t before = n->attr.pad.before[i], after = n->attr.pad.after[i], whole = dim[i];
        dim[i] = before;
        err = fill(b, n, first, dim);
        first[i] = whole - after;
        dim[i] = after;
        if (err == TACHY_OK)
            err = fill(b, n, first, dim);
        first[i] = before;
        dim[i] = whole - before - after;
    }
    return err;
}

int cuda_steps_pad(struct cuda_build *b, const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    const struct plan_ref *from = &b->places.ref[x->id], *to = &b->places.ref[y->id];
    struct cuda_walk w = {.rank = y->rank, .nb = 2};
    int64_t offset = 0;
    cuda_address at;
    memcpy(w.dim, x->shape, sizeof(w.dim));
    cuda_walk_strides(b, y, w.step[0]);
    cuda_walk_strides(b, x, w.step[1]);
    for (int i = 0; i < y->rank; i++)
        offset += n->attr.pad.before[i] * w.step[0][i];
    size_t inside = (size_t)to->offset + bytes(offset, y);
    int err = frame(b, n);
    if (err < 0 || (!x->data && from->base == to->base && (size_t)from->offset == inside))
        return err; // the input was written there
    return cuda_value(b, x, &at) ? cuda_walk_copy(b, &w, cuda_at(to->base, inside), y->dtype, at, x->dtype) : TACHY_ERR_NOMEM;
}

int cuda_copy_output(struct cuda_build *b, const struct tachy_value *v, int i)
{
    struct cuda_walk w = {.rank = v->rank, .nb = 2};
    cuda_address from;
    struct tachy_value plain = *v; // outputs are in ONNX's order
    plain.nhwc = false;
    struct tachy_view dense = plan_view(&plain);
    ptrdiff_t out[TACHY_MAX_RANK];
    plan_strides(&plain, &dense, out);
    memcpy(w.dim, v->shape, sizeof(w.dim));
    for (int d = 0; d < v->rank; d++)
        w.step[0][d] = out[d];
    cuda_walk_strides(b, v, w.step[1]);
    if (!cuda_value(b, v, &from))
        return TACHY_ERR_NOMEM;
    return cuda_walk_copy(b, &w, cuda_at(BASE_INPUTS + b->g->nb_in + i, 0), v->dtype, from, v->dtype);
}
