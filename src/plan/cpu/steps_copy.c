#include "base/base.h"
#include "plan/cpu/plan_parts.h"

#include <limits.h>

// Steps of what only moves elements.

// Dimensions of one element go, and those that follow each other in both orders become one; the
// longest steps of the target are the outermost.
static void simplify(struct plan_copy *c)
{
    struct plan_copy s = {0};
    bool taken[TACHY_MAX_RANK] = {false};
    for (int i = 0; i < c->rank; i++) {
        int best = -1;
        for (int d = 0; d < c->rank; d++)
            if (!taken[d] && (best < 0 || c->to[d] > c->to[best]))
                best = d;
        taken[best] = true;
        int last = s.rank - 1;
        if (c->dim[best] == 1)
            continue;
        if (last >= 0 && s.from[last] == c->from[best] * c->dim[best] &&
            s.to[last] == c->to[best] * c->dim[best]) {
            s.dim[last] *= c->dim[best];
        } else {
            s.dim[s.rank] = c->dim[best];
            last = s.rank++;
        }
        s.from[last] = c->from[best];
        s.to[last] = c->to[best];
    }
    if (!s.rank) {
        s.rank = 1;
        s.dim[0] = s.from[0] = s.to[0] = 1;
    }
    *c = s;
}

// Copies `c` from the operand to `offset` floats into the output.
static void set_copy(struct plan_step *s, const struct plan_copy *c, ptrdiff_t offset)
{
    s->copy.copy = *c;
    simplify(&s->copy.copy);
    s->add = s->out;
    s->add.offset += offset;
    s->run = plan_run_copy;
    for (int i = 1; i < s->copy.copy.rank; i++)
        if (s->copy.copy.dim[i] > s->copy.copy.dim[s->copy.along])
            s->copy.along = i;
    int64_t rows = s->copy.copy.dim[s->copy.along];
    s->rows = s->copy.fill || rows > INT_MAX ? 1 : (int)rows;
}

static struct plan_copy copy_of(const struct tachy_value *shape)
{
    struct plan_copy c = {.rank = shape->rank};
    memcpy(c.dim, shape->shape, sizeof(c.dim));
    if (!c.rank) {
        c.rank = 1;
        c.dim[0] = 1;
    }
    return c;
}

int plan_steps_concat(struct plan_build *b, const struct tachy_node *n)
{
    ptrdiff_t to[TACHY_MAX_RANK];
    struct plan_ref whole = b->places.ref[n->out->id];
    int64_t start = 0;
    plan_strides(n->out, &whole.v, to);
    for (int i = 0; i < n->nb_in; start += n->in[i]->shape[n->attr.axis], i++) {
        const struct plan_ref *at = &b->places.ref[n->in[i]->id];
        ptrdiff_t offset = start * to[n->attr.axis];
        if (!n->in[i]->data && at->base == whole.base && at->offset == whole.offset + offset)
            continue; // is there already
        struct plan_step *s = plan_step(b);
        if (!s)
            return TACHY_ERR_NOMEM;
        s->out = whole;
        int err = plan_operand(b, n->in[i], &s->in);
        if (err < 0)
            return err;
        struct plan_copy c = copy_of(n->in[i]);
        plan_strides(n->in[i], &s->in.v, c.from);
        memcpy(c.to, to, sizeof(to));
        set_copy(s, &c, offset);
    }
    return TACHY_OK;
}

// True if the output of Reshape, Transpose or Slice lies within its input: otherwise values that are alive at the same
// time never share a place.
static bool is_address(const struct tachy_node *n, const struct plan_ref *from, const struct plan_ref *to)
{
    ptrdiff_t stride[TACHY_MAX_RANK] = {0}, offset = from->offset;
    if (n->in[0]->data || n->op == TACHY_OP_PAD || n->op == TACHY_OP_EXPAND || from->base != to->base)
        return false;
    plan_strides(n->in[0], &from->v, stride);
    for (int i = 0; i < n->in[0]->rank && n->op == TACHY_OP_SLICE; i++)
        offset += n->attr.slice.start[i] * stride[i];
    return offset == to->offset;
}

// True if Pad's input was written directly to its place in the output.
static bool is_inside(const struct tachy_node *n, const struct plan_ref *from, const struct plan_ref *to)
{
    ptrdiff_t stride[TACHY_MAX_RANK], offset = to->offset;
    if (n->op != TACHY_OP_PAD || n->out->rank != 4 || n->in[0]->data || from->base != to->base)
        return false;
    plan_strides(n->out, &to->v, stride);
    for (int i = 0; i < 4; i++)
        offset += n->attr.pad.before[i] * stride[i];
    return offset == from->offset;
}

// Writes Pad's border around an input that is in place already.
static int frame(struct plan_build *b, const struct tachy_node *n)
{
    static const int last[4] = {0, 2, 3, 1};
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    for (int i = 0; i < 4; i++) {
        int axis = n->out->nhwc ? last[i] : i;
        s->frame.first[i] = (int)n->attr.pad.before[axis];
        s->frame.end[i] = (int)(n->attr.pad.before[axis] + n->in[0]->shape[axis]);
    }
    s->frame.value = n->attr.pad.value;
    s->run = plan_run_frame;
    s->rows = s->out.v.n * s->out.v.h;
    return TACHY_OK;
}

// Slice, Pad, Transpose, Expand, Reshape: one step that copies, unless the output is an address.
int plan_steps_copy(struct plan_build *b, const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    const struct plan_ref *from = &b->places.ref[x->id], *to = &b->places.ref[y->id];
    if (is_address(n, from, to))
        return TACHY_OK;
    if (is_inside(n, from, to))
        return frame(b, n);
    struct plan_step *s;
    int err = plan_begin(b, n, &s);
    if (err < 0)
        return err;
    ptrdiff_t in[TACHY_MAX_RANK] = {0}, out[TACHY_MAX_RANK] = {0}, offset = 0;
    bool reshapes = n->op == TACHY_OP_RESHAPE && !plan_changes_type(n);
    struct plan_copy c = copy_of(n->op == TACHY_OP_PAD || reshapes ? x : y);
    plan_strides(x, &s->in.v, in);
    const bool pixels = y->nhwc && plan_moves_pixels(n);
    plan_strides(reshapes && !pixels ? x : y, reshapes && !pixels ? NULL : &s->out.v, out);
    if (pixels)
        out[2] = x->shape[3] * out[3];
    for (int i = 0; i < c.rank; i++) {
        int missing = y->rank - x->rank; // Expand: dimensions in front
        c.from[i] = x->rank == 0 || (n->op == TACHY_OP_EXPAND && i < missing) ? 0 : in[i];
        c.to[i] = y->rank == 0 ? 0 : out[i];
        if (n->op == TACHY_OP_TRANSPOSE)
            c.from[i] = in[n->attr.perm[i]];
        else if (n->op == TACHY_OP_EXPAND && i >= missing)
            c.from[i] = x->shape[i - missing] == 1 ? 0 : in[i - missing];
        else if (n->op == TACHY_OP_PAD)
            offset += n->attr.pad.before[i] * out[i];
        else if (n->op == TACHY_OP_SLICE) {
            s->in.offset += n->attr.slice.start[i] * in[i];
            c.from[i] = in[i] * n->attr.slice.step[i];
        }
    }
    s->copy.fill = n->op == TACHY_OP_PAD;
    s->copy.value = n->op == TACHY_OP_PAD ? n->attr.pad.value : 0;
    set_copy(s, &c, offset);
    return TACHY_OK;
}

int plan_copy_output(struct plan_build *b, const struct tachy_value *v, int i)
{
    struct plan_step *s = plan_step(b);
    if (!s)
        return TACHY_ERR_NOMEM;
    struct tachy_value plain = *v; // outputs are in ONNX's order
    plain.nhwc = false;
    s->out = (struct plan_ref){BASE_INPUTS + b->g->nb_in + i, 0, plan_view(&plain)};
    int err = plan_operand(b, v, &s->in);
    if (err < 0)
        return err;
    struct plan_copy c = copy_of(v);
    plan_strides(v, &s->in.v, c.from);
    plan_strides(&plain, &s->out.v, c.to);
    set_copy(s, &c, 0);
    return TACHY_OK;
}
