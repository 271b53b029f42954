#include "base/base.h"
#include "plan/cuda/parts.h"
#include "plan/pass_parts.h"

// Discrete Fourier transforms of pictures along both axes, as the front end writes them: products with a matrix from the right, each
// axis turned last. Here matrices stand on the left, so that channels stay last as convolutions have them: a product for each axis,
// and one copy where real and imaginary parts become channels, or come from them.
//
// A picture [n][h][w][c] becomes [n][h][2][k][c] by a product for each row, and then by one for the columns of all.

struct pair { // of transforms
    struct tachy_value *in;  // of the first
    struct tachy_node *end;  // makes what the last becomes
    const float *across, *down; // matrices of the front end, [in][out]; parts alternate
    const float *each;          // what the k are multiplied by; NULL: nothing
    float scale;
    int64_t n, c, h, w, k; // w: of the picture, k: of the spectrum
    int part[2];           // real (0) or imaginary, of each half of the channels
    int64_t taken;         // part of what an inverse transform makes
};

// The only user of the node's value, if it has this operator; else NULL.
static struct tachy_node *then(const struct tachy_node *n, enum tachy_plan_op op)
{
    struct tachy_node *u = n ? tachy_value_user(n->out) : NULL;
    return u && u->op == op ? u : NULL;
}

static struct tachy_node *shaped(struct tachy_node *n, int rank, const int64_t *shape)
{
    return n && n->out->rank == rank && !memcmp(n->out->shape, shape, sizeof(*shape) * (size_t)rank) ? n : NULL;
}

static struct tachy_node *then_shaped(const struct tachy_node *n, int rank, const int64_t *shape)
{
    return shaped(then(n, TACHY_OP_RESHAPE), rank, shape);
}

// Height and width change places, or back.
static struct tachy_node *then_turned(const struct tachy_node *n)
{
    static const int perm[] = {0, 1, 3, 2, 4};
    struct tachy_node *t = then(n, TACHY_OP_TRANSPOSE);
    return t && t->out->rank == 5 && !memcmp(t->attr.perm, perm, sizeof(perm)) ? t : NULL;
}

// x times a constant matrix of these sizes, no more.
static struct tachy_node *is_matrix(struct tachy_node *n, int64_t rows, int64_t columns)
{
    const struct tachy_plan_attr *a = n ? &n->attr : NULL;
    bool plain = n && n->op == TACHY_OP_MATMUL && n->nb_in == 2 && n->in[1]->data && n->in[1]->dtype == TACHY_F32 && n->in[1]->rank == 2 &&
                 a->matmul.alpha == 1 && !a->matmul.trans_a && !a->matmul.trans_b && !a->act.act;
    return plain && n->in[1]->shape[0] == rows && n->in[1]->shape[1] == columns ? n : NULL;
}

// A product with one number or its inverse, or with one for each of the last dimension but one, becomes a part of the pair.
static struct tachy_node *take_factor(struct pair *p, struct tachy_node *n)
{
    struct tachy_node *m = then(n, TACHY_OP_BINARY);
    for (int i = 0; m && i < 2; i++) {
        const struct tachy_value *c = m->in[i];
        const bool divides = m->attr.binary == TACHY_PLAN_DIV && i == 1;
        bool one = c->data && tachy_value_elements(c) == 1, each = c->data && c->rank > 1 && tachy_value_elements(c) == p->k && c->shape[c->rank - 2] == p->k;
        if ((m->attr.binary != TACHY_PLAN_MUL && !(divides && one)) || m->attr.act.act || c->dtype != TACHY_F32 || (!one && !each) || p->each ||
            !tachy_value_same_shape(m->out, m->in[1 - i]))
            continue;
        if (one)
            p->scale *= divides ? 1 / *(const float *)c->data : *(const float *)c->data;
        p->each = one ? p->each : c->data;
        return m;
    }
    return n;
}

// The transform along the height, between two turns; `from` has [n][c][h][k][2].
static struct tachy_node *find_down(struct pair *p, const struct tachy_node *from)
{
    int64_t rows = p->n * p->c * p->k, lines[] = {rows, 2 * p->h}, turned[] = {p->n, p->c, p->k, p->h, 2};
    struct tachy_node *m = is_matrix(then(then_shaped(then_turned(from), 2, lines), TACHY_OP_MATMUL), 2 * p->h, 2 * p->h);
    p->down = m ? m->in[1]->data : NULL;
    return then_turned(then_shaped(m, 5, turned));
}

// One element of an axis, or all of a half of it.
static bool is_part(const struct tachy_node *s, int axis, int64_t size, int64_t *first)
{
    bool ok = pass_cuts(s, axis) && s->in[0]->shape[axis] == 2 * size && s->out->shape[axis] == size;
    *first = ok ? s->attr.slice.start[axis] : 0;
    return ok && (*first == 0 || *first == size);
}

// Both parts of `from` as channels.
static struct tachy_node *find_channels(struct pair *p, const struct tachy_node *from)
{
    const int64_t one[] = {p->n, p->c, p->h, p->k};
    struct tachy_node *end = NULL;
    if (from->out->uses != 2)
        return NULL;
    for (const struct tachy_use *u = from->out->used; u; u = u->next) {
        int64_t part;
        struct tachy_node *c = is_part(u->by, 4, 1, &part) ? then(then_shaped(u->by, 4, one), TACHY_OP_CONCAT) : NULL;
        if (!c || (end && c != end) || c->attr.axis != 1 || c->nb_in != 2)
            return NULL;
        p->part[c->in[1]->made_by == tachy_value_user(u->by->out)] = (int)part;
        end = c;
    }
    return end && p->part[0] != p->part[1] ? end : NULL;
}

static bool find_forward(struct pair *p, struct tachy_node *n)
{
    const struct tachy_node *r = n->op == TACHY_OP_MATMUL ? n->in[0]->made_by : NULL;
    const struct tachy_value *x = r && r->op == TACHY_OP_RESHAPE ? r->in[0] : NULL;
    if (!x || x->rank != 4 || n->out->rank != 2 || x->dtype != TACHY_F32)
        return false;
    *p = (struct pair){.in = r->in[0], .scale = 1, .n = x->shape[0], .c = x->shape[1], .h = x->shape[2], .w = x->shape[3], .k = n->out->shape[1] / 2};
    const int64_t spectrum[] = {p->n, p->c, p->h, p->k, 2};
    if (!is_matrix(n, p->w, 2 * p->k) || n->in[0]->shape[0] != p->n * p->c * p->h)
        return false;
    p->across = n->in[1]->data;
    struct tachy_node *m = find_down(p, then_shaped(n, 5, spectrum));
    m = m ? take_factor(p, m) : NULL;
    p->end = m && !p->each ? find_channels(p, m) : NULL;
    return p->end;
}

static bool find_inverse(struct pair *p, struct tachy_node *n)
{
    if (n->op != TACHY_OP_CONCAT || n->attr.axis != 4 || n->nb_in != 2 || n->out->rank != 5 || n->out->shape[4] != 2)
        return false;
    const int64_t *s = n->out->shape;
    *p = (struct pair){.scale = 1, .n = s[0], .c = s[1], .h = s[2], .k = s[3]};
    for (int i = 0; i < 2; i++) {
        const struct tachy_node *r = pass_maker(n->in[i], n), *part = r && r->op == TACHY_OP_RESHAPE ? pass_maker(r->in[0], r) : NULL;
        int64_t first;
        if (!is_part(part, 1, p->c, &first) || part->in[0]->rank != 4 || (i && part->in[0] != p->in) || part->in[0]->dtype != TACHY_F32)
            return false;
        p->in = part->in[0];
        p->part[first / p->c] = i;
    }
    struct tachy_node *m = find_down(p, n);
    m = m ? take_factor(p, m) : NULL;
    m = m ? then_shaped(m, 2, (int64_t[]){p->n * p->c * p->h, 2 * p->k}) : NULL;
    m = then(m, TACHY_OP_MATMUL);
    p->w = m ? m->out->shape[1] / 2 : 0;
    if (p->part[0] == p->part[1] || !is_matrix(m, 2 * p->k, 2 * p->w))
        return false;
    p->across = m->in[1]->data;
    m = then(then_shaped(m, 5, (int64_t[]){p->n, p->c, p->h, p->w, 2}), TACHY_OP_SLICE);
    p->end = is_part(m, 4, 1, &p->taken) ? then_shaped(m, 4, (int64_t[]){p->n, p->c, p->h, p->w}) : NULL;
    return p->end;
}

static struct tachy_value *matrix(struct tachy_graph *g, int64_t rows, int64_t columns, float **to)
{
    *to = tachy_graph_alloc(g, sizeof(**to) * (size_t)(rows * columns));
    return *to ? tachy_graph_constant(g, NULL, TACHY_F32, 2, (int64_t[]){rows, columns}, *to) : NULL;
}

// The matrix for rows from the left: [2][k] from [w], or [w] from [2][k].
static struct tachy_value *across(struct tachy_graph *g, const struct pair *p, bool inverse)
{
    float *to;
    struct tachy_value *m = inverse ? matrix(g, p->w, 2 * p->k, &to) : matrix(g, 2 * p->k, p->w, &to);
    for (int64_t i = 0; m && i < 2 * p->k; i++)
        for (int64_t w = 0; w < p->w; w++) {
            int64_t part = i / p->k, k = i % p->k;
            if (inverse)
                to[w * 2 * p->k + i] = p->across[(k * 2 + part) * 2 * p->w + w * 2 + p->taken] * (p->each ? p->each[k] : 1) * p->scale;
            else
                to[i * p->w + w] = p->across[w * 2 * p->k + k * 2 + part];
        }
    return m;
}

// That for columns; the halves of channels are the parts on the side that is channels.
static struct tachy_value *down(struct tachy_graph *g, const struct pair *p, bool inverse)
{
    float *to;
    const int64_t size = 2 * p->h;
    struct tachy_value *m = matrix(g, size, size, &to);
    for (int64_t i = 0; m && i < size; i++)
        for (int64_t k = 0; k < size; k++) {
            int64_t from = inverse ? k / 2 * 2 + p->part[k % 2] : k, at = inverse ? i : i / 2 * 2 + p->part[i % 2];
            to[i * size + k] = p->down[from * size + at] * (inverse ? 1 : p->scale);
        }
    return m;
}

struct writer {
    struct tachy_graph *g;
    struct tachy_node *before;
};

static struct tachy_value *reshape(const struct writer *w, struct tachy_value *x, int rank, const int64_t *shape)
{
    return pass_put(w->g, w->before, TACHY_OP_RESHAPE, NULL, &x, 1, rank, shape);
}

static struct tachy_value *turn(const struct writer *w, struct tachy_value *x, const struct tachy_plan_attr *a)
{
    int64_t shape[TACHY_MAX_RANK] = {0};
    for (int i = 0; x && i < x->rank; i++)
        shape[i] = x->shape[a->perm[i]];
    return x ? pass_put(w->g, w->before, TACHY_OP_TRANSPOSE, a, &x, 1, x->rank, shape) : NULL;
}

static struct tachy_value *multiply(const struct writer *w, struct tachy_value *m, struct tachy_value *x)
{
    const struct tachy_plan_attr a = {.matmul = {.alpha = 1}};
    return m && x ? pass_put(w->g, w->before, TACHY_OP_MATMUL, &a, (struct tachy_value *[]){m, x}, 2, 3, (int64_t[]){x->shape[0], m->shape[0], x->shape[2]}) : NULL;
}

static const struct tachy_plan_attr channels_last = {.perm = {0, 2, 3, 1}}, channels_second = {.perm = {0, 3, 1, 2}}, swapped = {.perm = {0, 1, 3, 2, 4}};

static struct tachy_value *forward(const struct writer *w, const struct pair *p)
{
    struct tachy_value *v = turn(w, p->in, &channels_last);
    v = reshape(w, v, 3, (int64_t[]){p->n * p->h, p->w, p->c});
    v = multiply(w, across(w->g, p, false), v);
    v = reshape(w, v, 3, (int64_t[]){p->n, 2 * p->h, p->k * p->c});
    v = multiply(w, down(w->g, p, false), v);
    v = turn(w, reshape(w, v, 5, (int64_t[]){p->n, p->h, 2, p->k, p->c}), &swapped);
    v = reshape(w, v, 4, (int64_t[]){p->n, p->h, p->k, 2 * p->c});
    return turn(w, v, &channels_second);
}

static struct tachy_value *inverse(const struct writer *w, const struct pair *p)
{
    struct tachy_value *v = turn(w, p->in, &channels_last);
    v = turn(w, reshape(w, v, 5, (int64_t[]){p->n, p->h, p->k, 2, p->c}), &swapped);
    v = reshape(w, v, 3, (int64_t[]){p->n, 2 * p->h, p->k * p->c});
    v = multiply(w, down(w->g, p, true), v);
    v = reshape(w, v, 3, (int64_t[]){p->n * p->h, 2 * p->k, p->c});
    v = multiply(w, across(w->g, p, true), v);
    return turn(w, reshape(w, v, 4, (int64_t[]){p->n, p->h, p->w, p->c}), &channels_second);
}

int cuda_spectra(struct tachy_graph *g)
{
    for (struct tachy_node *n = g->first, *next; n; n = next) {
        struct pair p;
        next = n->next;
        bool goes = find_forward(&p, n);
        if (!goes && !find_inverse(&p, n))
            continue;
        const struct writer w = {g, p.end};
        struct tachy_value *v = goes ? forward(&w, &p) : inverse(&w, &p);
        if (!v)
            return TACHY_ERR_NOMEM;
        pass_rewritten(g, p.end, v);
    }
    return tachy_plan_dead(g);
}
