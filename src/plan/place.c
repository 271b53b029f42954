#include "plan/place.h"

#include "base/base.h"
#include "plan/spans.h"

#include <limits.h>
#include <stdlib.h>

// Memory of a plan. Values that share bytes (what Reshape makes, slices, parts of a Concat) share
// a slot; slots whose lifetimes do not meet share a place in the arena.
struct slot {
    int base;              // BASE_ARENA, or an input or output
    ptrdiff_t offset;      // in the arena
    size_t size;           // units
    int first, last;       // nodes between which it holds something
    struct plan_lane lane; // the one that it is made and read in; region 0: none, or several
    int block;             // the slot that it is a part of; 0: none
};

// A node's region: from its first to its last node. Of a node that is in none, the node alone.
struct moment {
    int region, first, last;
};

struct placing {
    const struct tachy_graph *g;
    struct plan_ref *ref, *sums; // base: the slot until the end
    struct slot *slots;
    bool *joined;
    const struct plan_place_rules *rules;
    struct moment *moments; // by the number of a node, and of the end
    struct plan_lane lane;  // of the node whose values are touched
    int nb_slots, nb_times; // nodes, and the end
};

static size_t unit(const struct plan_place_rules *r, const struct tachy_value *v)
{
    return r->own_types ? tachy_dtype_size(v->dtype) : 1;
}

struct tachy_view plan_view(const struct tachy_value *v)
{
    int64_t d[4] = {1, 1, 1, 1};
    for (int i = 0; i < v->rank && v->rank <= 4; i++)
        d[4 - v->rank + i] = v->shape[i];
    if (v->rank > 4) {
        d[3] = v->shape[v->rank - 1];
        d[2] = tachy_value_elements(v) / TACHY_MAX(d[3], 1);
    }
    if (v->nhwc)
        return tachy_view_dense(NULL, (int)d[0], (int)d[2], (int)d[3], (int)d[1]);
    return tachy_view_dense(NULL, (int)d[0], (int)d[1], (int)d[2], (int)d[3]);
}

bool plan_is_dense(const struct tachy_view *v)
{
    return (v->pixel == v->c || v->n * v->h * v->w == 1) &&
           (v->row == v->pixel * v->w || v->n * v->h == 1) &&
           (v->image == v->row * v->h || v->n == 1);
}

void plan_strides(const struct tachy_value *v, const struct tachy_view *at, ptrdiff_t *stride)
{
    ptrdiff_t step = 1;
    if (v->rank == 4 && at) {
        ptrdiff_t nhwc[] = {at->image, 1, at->row, at->pixel}, plain[] = {at->image, at->row, at->pixel, 1};
        memcpy(stride, v->nhwc ? nhwc : plain, sizeof(nhwc));
        return;
    }
    for (int i = v->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= v->shape[i];
    }
}

// True if Transpose only relabels its input's bytes.
static bool is_renaming(const struct tachy_node *n, const struct tachy_view *in)
{
    ptrdiff_t from[TACHY_MAX_RANK], to[TACHY_MAX_RANK];
    struct tachy_view out = plan_view(n->out);
    plan_strides(n->in[0], in, from);
    plan_strides(n->out, &out, to);
    for (int i = 0; i < n->out->rank; i++)
        if (n->out->shape[i] > 1 && to[i] != from[n->attr.perm[i]])
            return false;
    return plan_is_dense(in);
}

// True if it works along an axis, for which GPU kernels want dense tensors.
static bool is_along(enum tachy_plan_op op)
{
    return op == TACHY_OP_REDUCE || op == TACHY_OP_ARG || op == TACHY_OP_TOP || op == TACHY_OP_SOFTMAX ||
           op == TACHY_OP_LAYER_NORM;
}

static bool takes_views(const struct plan_place_rules *r, const struct tachy_node *n)
{
    const enum tachy_plan_op op = n->op;
    const struct tachy_value *x = n->in[0];
    if (op == TACHY_OP_SOFTMAX && n->nb_in > 1 && x->nhwc && n->attr.axis == 1 && x->shape[3] == 1) // pixels are evenly apart
        return true;
    if (r->own_types && is_along(op))
        return false;
    return op != TACHY_OP_RESHAPE && op != TACHY_OP_MATMUL && op != TACHY_OP_LAYER_NORM;
}

// True if a part of a larger tensor will do for `v` wherever it is read.
static bool may_be_view(const struct placing *p, const struct tachy_value *v)
{
    const struct tachy_graph *g = p->g;
    if (v->rank != 4)
        return false;
    for (const struct tachy_use *u = v->used; u; u = u->next) {
        const struct tachy_node *n = u->by;
        ptrdiff_t i = u - n->use;
        bool dense = n->op == TACHY_OP_RESIZE ? i == 2 : n->op == TACHY_OP_CONV && (i == 1 || i == 4); // weights, scales
        bool grid = p->rules->own_types && n->op == TACHY_OP_GRID_SAMPLE && i == 1;
        if (!takes_views(p->rules, n) || dense || grid)
            return false;
    }
    for (int i = 0; i < g->nb_out; i++)
        if (g->out[i] == v)
            return false;
    return true;
}

static bool is_step_slice(const struct tachy_node *n)
{
    for (int i = 0; i < n->out->rank; i++)
        if (n->attr.slice.step[i] != 1)
            return false;
    return true;
}

static void new_slot(struct placing *p, const struct tachy_value *v, int base)
{
    struct plan_ref *r = &p->ref[v->id];
    int pixel = p->rules->pixel && may_be_view(p, v) ? p->rules->pixel(v) : 0;
    *r = (struct plan_ref){p->nb_slots, 0, plan_view(v)};
    if (pixel) {
        r->v.pixel = pixel;
        r->v.row = pixel * (ptrdiff_t)r->v.w;
        r->v.image = r->v.row * r->v.h;
    }
    size_t elements = pixel ? (size_t)(r->v.image * r->v.n) : (size_t)tachy_value_elements(v);
    size_t size = p->joined[v->id] ? 0 : elements * unit(p->rules, v);
    p->slots[p->nb_slots++] = (struct slot){.base = base, .size = size, .first = INT_MAX};
}

// The part of `whole` that begins at `start` along an axis, with the shape of `v`.
static struct plan_ref sub_view(const struct placing *p, const struct plan_ref *whole, const struct tachy_value *v,
                                const int64_t *start)
{
    ptrdiff_t stride[TACHY_MAX_RANK];
    struct plan_ref r = {whole->base, whole->offset, plan_view(v)};
    plan_strides(v, &whole->v, stride);
    for (int i = 0; i < v->rank; i++)
        r.offset += start[i] * stride[i] * (ptrdiff_t)unit(p->rules, v);
    r.v.pixel = whole->v.pixel, r.v.row = whole->v.row, r.v.image = whole->v.image;
    return r;
}

// The input of the Reshape that made `v`, if it moves pixels with channels last and nothing else reads them; otherwise `v`.
static const struct tachy_value *before_rows(const struct tachy_value *v)
{
    const struct tachy_node *n = v->made_by;
    return n && plan_moves_pixels(n) && v->nhwc && n->in[0]->nhwc && tachy_value_user(n->in[0]) ? n->in[0] : v;
}

// Places `v` as a part of what `n` makes, if what makes it can write it there.
static void place_part(struct placing *p, const struct tachy_node *n, const struct tachy_value *v,
                       const int64_t *start)
{
    const struct tachy_value *whole = n->out, *written = before_rows(v);
    const struct tachy_node *by = written->made_by;
    struct plan_ref *r = &p->ref[v->id];
    bool turns = by && by->op == TACHY_OP_TRANSPOSE && !(p->rules->writes_part && p->rules->writes_part(by));
    bool writes = by && by->op != TACHY_OP_RESHAPE && !turns &&
                  by->op != TACHY_OP_SLICE && by->op != TACHY_OP_MATMUL && by->op != TACHY_OP_PAD;
    if (!writes || r->base != NO_BASE || v->nhwc != whole->nhwc || !may_be_view(p, v) ||
        (p->rules->own_types && (is_along(by->op) || written->dtype != whole->dtype)))
        return;
    if (p->ref[whole->id].base == NO_BASE)
        new_slot(p, whole, BASE_ARENA);
    const struct plan_ref part = sub_view(p, &p->ref[whole->id], v, start);
    if (written != v && part.v.row != part.v.pixel * part.v.w)
        return;
    *r = part;
    if (written == v)
        return;
    r = &p->ref[written->id];
    *r = (struct plan_ref){part.base, part.offset, plan_view(written)};
    r->v.pixel = part.v.pixel, r->v.row = part.v.pixel * r->v.w, r->v.image = part.v.image;
}

// Places values that the producers of a Concat or Pad can write straight into its output, whose place is known.
static void place_parts(struct placing *p, const struct tachy_node *n)
{
    int64_t start[TACHY_MAX_RANK] = {0};
    if (p->rules->joins && p->rules->joins(n)) // it has no memory
        return;
    if (n->op == TACHY_OP_PAD)
        place_part(p, n, n->in[0], n->attr.pad.before);
    for (int i = 0; i < n->nb_in && n->op == TACHY_OP_CONCAT; i++) {
        place_part(p, n, n->in[i], start);
        start[n->attr.axis] += n->in[i]->shape[n->attr.axis];
    }
}

bool plan_is_mean_of_rows(const struct tachy_node *n)
{
    const bool *axis = n->attr.reduce.axis;
    return n->op == TACHY_OP_REDUCE && n->attr.reduce.how == TACHY_PLAN_MEAN && n->in[0]->nhwc &&
           n->out->nhwc && !axis[0] && !axis[1] && axis[2] && axis[3];
}

// True if summing while writing is less work than reading again: it is not if a convolution's tiles would have to end
// at each of its short rows.
static bool sums_pay(const struct tachy_node *n)
{
    enum { LONG_ROW = 48 };
    bool by_row = n->op == TACHY_OP_RESIZE || (n->op == TACHY_OP_CONV && n->attr.conv.groups > 1);
    return n->attr.row_sums && n->out->nhwc && (by_row || n->out->shape[3] >= LONG_ROW);
}

// From the node that makes them to the last mean that reads them.
static void place_sums(struct placing *p, const struct tachy_node *n, int at)
{
    const struct tachy_value *v = n->out;
    if (!sums_pay(n))
        return;
    p->sums[v->id] = (struct plan_ref){.base = p->nb_slots};
    p->slots[p->nb_slots++] =
        (struct slot){.base = BASE_ARENA, .size = (size_t)(v->shape[0] * v->shape[2] * v->shape[1]), .first = at, .last = at};
}

static void touch_sums(struct placing *p, const struct tachy_node *n, int at)
{
    if (plan_is_mean_of_rows(n) && p->sums[n->in[0]->id].base != NO_BASE)
        p->slots[p->sums[n->in[0]->id].base].last = at;
}

// True if Slice only takes contiguous bytes of a dense tensor: *offset is the number of elements before them. Kernels
// read whole vectors, so they must start at a vector boundary.
static bool is_run(const struct placing *p, const struct tachy_node *n, const struct tachy_view *in, ptrdiff_t *offset)
{
    enum { VECTOR = 64 }; // bytes
    const struct tachy_value *x = n->in[0], *y = n->out;
    size_t size = p->rules->own_types ? tachy_dtype_size(x->dtype) : sizeof(float);
    ptrdiff_t stride[TACHY_MAX_RANK];
    bool one = true; // in all axes so far
    if (n->op != TACHY_OP_SLICE || !is_step_slice(n) || x->nhwc || y->nhwc || !plan_is_dense(in))
        return false;
    plan_strides(x, in, stride);
    *offset = 0;
    for (int i = 0; i < x->rank; i++) {
        if (!one && x->shape[i] != y->shape[i])
            return false;
        one = one && y->shape[i] == 1;
        *offset += n->attr.slice.start[i] * stride[i];
    }
    return (size_t)*offset * size % VECTOR == 0;
}

static bool place_alias(struct placing *p, const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0];
    const struct plan_ref *in = &p->ref[x->id];
    if (in->base == NO_BASE || p->joined[x->id]) // a constant; nothing
        return false;
    if (p->rules->own_types && x->dtype != n->out->dtype)
        return false;
    if (p->rules->through && p->rules->through[n->out->id] && plan_is_dense(&in->v)) {
        p->ref[n->out->id] = (struct plan_ref){in->base, in->offset, plan_view(n->out)};
        return true;
    }
    if (n->op == TACHY_OP_SLICE && is_step_slice(n) && x->nhwc == n->out->nhwc &&
        may_be_view(p, n->out)) {
        p->ref[n->out->id] = sub_view(p, in, n->out, n->attr.slice.start);
        return true;
    }
    ptrdiff_t offset;
    if (is_run(p, n, &in->v, &offset)) {
        p->ref[n->out->id] = (struct plan_ref){in->base, in->offset + offset * (ptrdiff_t)unit(p->rules, x), plan_view(n->out)};
        return true;
    }
    bool same = n->op == TACHY_OP_RESHAPE && plan_is_dense(&in->v) &&
                (plan_changes_type(n) || (plan_moves_pixels(n) && x->nhwc && n->out->nhwc) ||
                 ((!x->nhwc || plan_order_is_free(x)) && (!n->out->nhwc || plan_order_is_free(n->out))));
    bool turned = n->op == TACHY_OP_TRANSPOSE && is_renaming(n, &in->v);
    if (!same && !turned)
        return false;
    p->ref[n->out->id] = (struct plan_ref){in->base, in->offset, plan_view(n->out)};
    return true;
}

static void touch(struct placing *p, const struct tachy_value *v, int at)
{
    if (!v || p->ref[v->id].base == NO_BASE)
        return;
    struct slot *s = &p->slots[p->ref[v->id].base];
    if (s->first == INT_MAX)
        s->lane = p->lane;
    else if (!plan_same_lane(&s->lane, &p->lane))
        s->lane = (struct plan_lane){0};
    s->first = TACHY_MIN(s->first, at);
    s->last = TACHY_MAX(s->last, at);
}

// An output of the graph takes the whole slot of its value, once.
static void place_outputs(struct placing *p, int end)
{
    for (int i = 0; i < p->g->nb_out; i++) {
        const struct tachy_value *v = p->g->out[i];
        const struct plan_ref *r = &p->ref[v->id];
        if (r->base == NO_BASE)
            continue;
        struct slot *s = &p->slots[r->base];
        touch(p, v, end);
        if (v->dtype != TACHY_F32 && !p->rules->own_types) // leaves the arena in its own type
            continue;
        if (s->base == BASE_ARENA && !r->offset && plan_is_dense(&r->v) &&
            s->size == (size_t)tachy_value_elements(v) * unit(p->rules, v) && (!v->nhwc || plan_order_is_free(v)))
            s->base = BASE_INPUTS + p->g->nb_in + i;
    }
}

static int larger(const void *a, const void *b)
{
    const struct slot *x = *(struct slot *const *)a, *y = *(struct slot *const *)b;
    if (x->lane.region != y->lane.region)
        return x->lane.region < y->lane.region ? -1 : 1;
    if (x->lane.lane != y->lane.lane)
        return x->lane.lane < y->lane.lane ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

// Gives each its own base, after those of the graph's outputs.
static int separate(struct placing *p, struct plan_places *out)
{
    int first = BASE_INPUTS + p->g->nb_in + p->g->nb_out;
    out->own = malloc(sizeof(*out->own) * (size_t)TACHY_MAX(p->nb_slots, 1));
    if (!out->own)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < p->nb_slots; i++) {
        if (p->slots[i].base != BASE_ARENA)
            continue;
        p->slots[i].base = first + out->nb_own;
        out->own[out->nb_own++] = p->slots[i].size;
        out->values += TACHY_ALIGN(p->slots[i].size, 16);
    }
    out->arena = out->values;
    return TACHY_OK;
}

// Units that a slot takes in the arena.
static size_t aligned(const struct placing *p, const struct slot *s) { return TACHY_ALIGN(s->size, p->rules->own_types ? 256 : 16); }

// Gives slots places from 0 on, in their order; *end: where the last one ends.
static int lay_out(const struct placing *p, struct slot *const *slots, int n, size_t *end)
{
    struct plan_spans spans;
    int err = plan_spans_open(&spans, p->nb_times);
    *end = 0;
    for (int i = 0; i < n && !err; i++) {
        struct slot *s = slots[i];
        size_t size = aligned(p, s), at = plan_spans_lowest(&spans, s->first, s->last, size);
        err = plan_spans_take(&spans, s->first, s->last, at, size);
        s->offset = (ptrdiff_t)at;
        *end = TACHY_MAX(*end, at + size);
    }
    plan_spans_close(&spans);
    return err;
}

// A slot of one lane keeps its lifetime, since the lane's nodes run in order. Others last as long as the regions that they meet.
static void settle_lifetime(const struct placing *p, struct slot *s)
{
    if (s->first > s->last) // nothing touches it
        return;
    s->first = TACHY_MAX(s->first, 0);
    s->last = TACHY_MIN(s->last, p->nb_times - 1);
    const struct moment *first = &p->moments[s->first], *last = &p->moments[s->last];
    if (s->lane.region && first->region == s->lane.region && last->region == s->lane.region)
        return;
    s->lane = (struct plan_lane){0};
    s->first = first->first;
    s->last = last->last;
}

// Puts the slots of one lane into a block, a slot that lasts as long as the region.
static int make_block(struct placing *p, struct slot **slots, int n)
{
    const struct moment *m = &p->moments[slots[0]->first];
    struct slot *block = &p->slots[p->nb_slots];
    *block = (struct slot){.base = BASE_ARENA, .first = m->first, .last = m->last};
    for (int i = 0; i < n; i++)
        slots[i]->block = p->nb_slots;
    p->nb_slots++;
    return lay_out(p, slots, n, &block->size);
}

static int colour(struct placing *p, struct plan_places *out)
{
    struct slot **order = malloc(sizeof(*order) * (size_t)TACHY_MAX(p->nb_slots, 1));
    int n = 0, outer = 0, err = order ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int i = 0; i < p->nb_slots && !err; i++)
        if (p->slots[i].base == BASE_ARENA) {
            settle_lifetime(p, &p->slots[i]);
            out->values += aligned(p, &p->slots[i]);
            order[n++] = &p->slots[i];
        }
    if (n)
        qsort(order, (size_t)n, sizeof(*order), larger);
    while (outer < n && !order[outer]->lane.region)
        outer++;
    for (int from = outer, to; from < n && !err; from = to) {
        for (to = from + 1; to < n && plan_same_lane(&order[to]->lane, &order[from]->lane);)
            to++;
        err = make_block(p, order + from, to - from);
        order[outer++] = &p->slots[p->nb_slots - 1];
    }
    if (outer)
        qsort(order, (size_t)outer, sizeof(*order), larger);
    if (!err)
        err = lay_out(p, order, outer, &out->arena);
    for (int i = 0; i < p->nb_slots && !err; i++)
        if (p->slots[i].block)
            p->slots[i].offset += p->slots[p->slots[i].block].offset;
    free(order);
    return err;
}

// The regions of all nodes.
static int find_moments(struct placing *p)
{
    int at = 0, region = 0;
    for (const struct tachy_node *n = p->g->first; n; n = n->next)
        p->nb_times++;
    p->moments = malloc(sizeof(*p->moments) * (size_t)++p->nb_times);
    if (!p->moments)
        return TACHY_ERR_NOMEM;
    for (const struct tachy_node *n = p->g->first; n; n = n->next, at++) {
        int before = region;
        region = p->rules->lanes ? p->rules->lanes[n->out->id].region : 0;
        bool goes_on = region && region == before;
        p->moments[at] = (struct moment){region, goes_on ? p->moments[at - 1].first : at, at};
        for (int i = p->moments[at].first; i < at; i++)
            p->moments[i].last = at;
    }
    p->moments[at] = (struct moment){0, at, at};
    return TACHY_OK;
}

static void place_all(struct placing *p)
{
    const struct tachy_graph *g = p->g;
    int at = 0;
    for (int i = 0; i < g->nb_values; i++)
        p->ref[i].base = p->sums[i].base = NO_BASE;
    for (int i = 0; i < g->nb_in; i++) {
        new_slot(p, g->in[i], g->in[i]->dtype == TACHY_F32 || p->rules->own_types ? BASE_INPUTS + i : BASE_ARENA);
        touch(p, g->in[i], 0);
    }
    for (const struct tachy_node *n = g->last; n; n = n->prev) // outer ones first
        if (n->out->rank == 4)
            place_parts(p, n);
    for (const struct tachy_node *n = g->first; n; n = n->next, at++) {
        p->joined[n->out->id] = p->rules->joins && p->rules->joins(n);
        if (p->ref[n->out->id].base == NO_BASE && !place_alias(p, n))
            new_slot(p, n->out, BASE_ARENA);
        place_sums(p, n, at);
        touch_sums(p, n, at);
        p->lane = p->rules->lanes ? p->rules->lanes[n->out->id] : (struct plan_lane){0};
        struct plan_beside beside = p->rules->beside ? p->rules->beside[n->out->id] : (struct plan_beside){0};
        touch(p, n->out, at - beside.front);
        touch(p, n->out, at + beside.behind);
        int longer = TACHY_MAX(p->joined[n->out->id], beside.behind);
        for (int i = 0; i < n->nb_in; i++)
            touch(p, n->in[i], at + longer); // which is when it is read
    }
    p->lane = (struct plan_lane){0};
    place_outputs(p, at);
}

// From slots to where they lie.
static void settle(const struct placing *p, struct plan_ref *ref)
{
    for (int i = 0; i < p->g->nb_values; i++) {
        const struct slot *s = ref[i].base == NO_BASE ? NULL : &p->slots[ref[i].base];
        if (s) {
            ref[i].base = s->base;
            ref[i].offset += s->offset;
        }
    }
}

int plan_place(struct plan_places *out, const struct tachy_graph *g, const struct plan_place_rules *rules)
{
    size_t n = (size_t)TACHY_MAX(g->nb_values, 1);
    struct placing p = {.g = g, .rules = rules};
    p.ref = calloc(n, sizeof(*p.ref));
    p.sums = calloc(n, sizeof(*p.sums));
    p.slots = calloc(3 * n, sizeof(*p.slots)); // of values and their sums, and of lanes
    p.joined = calloc(n, sizeof(*p.joined));
    int err = p.ref && p.sums && p.slots && p.joined ? find_moments(&p) : TACHY_ERR_NOMEM;
    *out = (struct plan_places){.ref = p.ref, .sums = p.sums, .joined = p.joined};
    if (err == TACHY_OK) {
        place_all(&p);
        err = rules->own_bases ? separate(&p, out) : colour(&p, out);
    }
    if (err == TACHY_OK) {
        settle(&p, p.ref);
        settle(&p, p.sums);
    }
    free(p.slots);
    free(p.moments);
    if (err < 0)
        plan_place_free(out);
    return err;
}

void plan_place_free(struct plan_places *p)
{
    free(p->ref);
    free(p->sums);
    free(p->joined);
    free(p->own);
    *p = (struct plan_places){0};
}
