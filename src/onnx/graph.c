#include "onnx/graph.h"

#include "base/base.h"

#include <stdlib.h>

// Building a graph: values, nodes, constants.

struct block {
    struct block *next;
    size_t used, size;
    max_align_t data[];
};

static void *arena_alloc(struct onnx_graph *g, size_t size)
{
    if (g->err)
        return NULL;
    size = TACHY_ALIGN(TACHY_MAX(size, (size_t)1), sizeof(max_align_t));
    struct block *b = g->arena;
    if (!b || b->size - b->used < size) {
        size_t room = TACHY_MAX(size, (size_t)16384);
        b = calloc(1, sizeof(*b) + room);
        if (!b) {
            g->err = TACHY_ERR_NOMEM;
            return NULL;
        }
        b->size = room;
        b->next = g->arena;
        g->arena = b;
    }
    void *p = (char *)b->data + b->used;
    b->used += size;
    return p;
}

static const char *arena_text(struct onnx_graph *g, const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = arena_alloc(g, n);
    if (p)
        memcpy(p, s, n);
    return p;
}

static bool grow(struct onnx_graph *g, void *array, int *cap, int need, size_t element)
{
    if (g->err)
        return false;
    if (need <= *cap)
        return true;
    int n = TACHY_MAX(64, *cap * 2);
    void *p = realloc(*(void **)array, (size_t)n * element);
    if (!p) {
        g->err = TACHY_ERR_NOMEM;
        return false;
    }
    memset((char *)p + (size_t)*cap * element, 0, (size_t)(n - *cap) * element);
    *(void **)array = p;
    *cap = n;
    return true;
}

size_t onnx_dtype_size(int dtype)
{
    switch (dtype) {
    case ONNX_FLOAT:
    case ONNX_INT32:
        return 4;
    case ONNX_UINT8:
    case ONNX_INT8:
    case ONNX_BOOL:
        return 1;
    case ONNX_INT64:
        return 8;
    case ONNX_FLOAT16:
        return 2;
    default:
        return 0;
    }
}

int64_t onnx_elements(const struct onnx_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

bool onnx_same_shape(const struct onnx_shape *a, const struct onnx_shape *b)
{
    return a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof(a->dim[0]));
}

struct onnx_graph *onnx_new(size_t data_limit)
{
    struct onnx_graph *g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    g->data_limit = data_limit;
    // Number 0: the scratch value and node that failed calls write to.
    if (!grow(g, &g->values, &g->cap_values, 1, sizeof(*g->values)) ||
        !grow(g, &g->nodes, &g->cap_nodes, 1, sizeof(*g->nodes)) ||
        !(g->nodes[0] = arena_alloc(g, sizeof(**g->nodes))) ||
        !(g->nodes[0]->in = arena_alloc(g, sizeof(int))) ||
        !(g->nodes[0]->out = arena_alloc(g, sizeof(int)))) {
        onnx_free(&g);
        return NULL;
    }
    g->n_values = g->n_nodes = 1;
    return g;
}

void onnx_free(struct onnx_graph **graph)
{
    struct onnx_graph *g = *graph;
    if (!g)
        return;
    for (int i = 0; i < g->n_values; i++)
        free(g->values[i].data);
    for (struct block *b = g->arena, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(g->values);
    free(g->nodes);
    free(g->in);
    free(g->out);
    free(g->out_names);
    free(g);
    *graph = NULL;
}

static int add_value(struct onnx_graph *g, int dtype, const struct onnx_shape *s)
{
    struct onnx_shape shape = *s; // may lie in the array that grows
    if (!grow(g, &g->values, &g->cap_values, g->n_values + 1, sizeof(*g->values)))
        return 0;
    struct onnx_value *v = &g->values[g->n_values];
    *v = (struct onnx_value){.dtype = dtype, .shape = shape};
    return g->n_values++;
}

int onnx_input(struct onnx_graph *g, const char *name, int dtype, const struct onnx_shape *s)
{
    int v = add_value(g, dtype, s), cap = g->n_in;
    if (!v || !grow(g, &g->in, &cap, g->n_in + 1, sizeof(*g->in)))
        return 0;
    g->values[v].name = arena_text(g, name);
    g->in[g->n_in++] = v;
    return v;
}

void onnx_output(struct onnx_graph *g, int value, const char *name)
{
    int cap = g->n_out, cap_names = g->n_out;
    if (!grow(g, &g->out, &cap, g->n_out + 1, sizeof(*g->out)) ||
        !grow(g, &g->out_names, &cap_names, g->n_out + 1, sizeof(*g->out_names)))
        return;
    g->out[g->n_out] = value;
    g->out_names[g->n_out++] = arena_text(g, name);
}

int onnx_const(struct onnx_graph *g, int dtype, const struct onnx_shape *s)
{
    int64_t n = onnx_elements(s);
    size_t size = onnx_dtype_size(dtype);
    if (g->err)
        return 0;
    if (n < 0 || (uint64_t)n > (g->data_limit - g->data_bytes) / size) {
        g->err = TACHY_ERR_LIMIT;
        return 0;
    }
    int v = add_value(g, dtype, s);
    if (!v)
        return 0;
    g->data_bytes += (size_t)n * size;
    g->values[v].data = calloc((size_t)n + 1, size); // never of no bytes: `data` marks a constant
    if (!g->values[v].data)
        g->err = TACHY_ERR_NOMEM;
    return g->err ? 0 : v;
}

int onnx_ints(struct onnx_graph *g, int n, const int64_t *v)
{
    int c = onnx_const(g, ONNX_INT64, &(struct onnx_shape){1, {n}});
    if (c)
        memcpy(g->values[c].data, v, (size_t)n * sizeof(*v));
    return c;
}

int onnx_int(struct onnx_graph *g, int64_t v)
{
    int c = onnx_const(g, ONNX_INT64, &(struct onnx_shape){0});
    if (c)
        memcpy(g->values[c].data, &v, sizeof(v));
    return c;
}

int onnx_float(struct onnx_graph *g, float v)
{
    int c = onnx_const(g, ONNX_FLOAT, &(struct onnx_shape){0});
    if (c)
        memcpy(g->values[c].data, &v, sizeof(v));
    return c;
}

int onnx_add(struct onnx_graph *g, const char *op, int n_in, const int *in, int dtype,
             const struct onnx_shape *s)
{
    if (!g->err && (n_in < 1 || !in[0]))
        g->err = TACHY_ERR_FORMAT;
    struct onnx_node *n = arena_alloc(g, sizeof(*n));
    int *lists = arena_alloc(g, ((size_t)n_in + 1) * sizeof(int));
    int v = add_value(g, dtype, s);
    if (!v || !grow(g, &g->nodes, &g->cap_nodes, g->n_nodes + 1, sizeof(*g->nodes)))
        return 0;
    n->op = op;
    n->in = lists;
    n->out = lists + n_in;
    n->n_in = n_in;
    n->n_out = 1;
    n->out[0] = v;
    n->origin = g->origin;
    memcpy(n->in, in, (size_t)n_in * sizeof(int));
    g->values[v].maker = g->n_nodes;
    g->nodes[g->n_nodes++] = n;
    return v;
}

struct onnx_node *onnx_maker(struct onnx_graph *g, int value)
{
    return g->nodes[g->values[value].maker];
}

static struct onnx_attr *add_attr(struct onnx_node *n, const char *name, enum onnx_attr_type type)
{
    struct onnx_attr *a = onnx_find(n, name);
    if (!a) {
        // The scratch node collects attributes without end: let it start again.
        if (n->n_attrs == ONNX_MAX_ATTRS)
            n->n_attrs = 0;
        a = &n->attrs[n->n_attrs++];
    }
    *a = (struct onnx_attr){.name = name, .type = type};
    return a;
}

struct onnx_attr *onnx_find(struct onnx_node *n, const char *name)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].name, name))
            return &n->attrs[i];
    return NULL;
}

void onnx_set_int(struct onnx_node *n, const char *name, int64_t v)
{
    add_attr(n, name, ONNX_ATTR_INT)->ints[0] = v;
}

void onnx_set_ints(struct onnx_node *n, const char *name, int count, const int64_t *v)
{
    struct onnx_attr *a = add_attr(n, name, ONNX_ATTR_INTS);
    a->n = TACHY_MIN(count, (int)TACHY_ARRAY_SIZE(a->ints));
    memcpy(a->ints, v, (size_t)a->n * sizeof(*v));
}

void onnx_set_float(struct onnx_node *n, const char *name, float v)
{
    add_attr(n, name, ONNX_ATTR_FLOAT)->f = v;
}

void onnx_set_string(struct onnx_node *n, const char *name, const char *v)
{
    add_attr(n, name, ONNX_ATTR_STRING)->s = v;
}

int onnx_unary(struct onnx_graph *g, const char *op, int x)
{
    struct onnx_shape s = g->values[x].shape;
    return onnx_add(g, op, 1, &x, g->values[x].dtype, &s);
}

int onnx_reshape(struct onnx_graph *g, int x, const struct onnx_shape *s)
{
    if (g->err || onnx_same_shape(&g->values[x].shape, s))
        return g->err ? 0 : x;
    struct onnx_node *maker = onnx_maker(g, x);
    if (maker->op && !strcmp(maker->op, "Reshape"))
        return onnx_reshape(g, maker->in[0], s); // of two in a row only the last counts
    if (g->values[x].data) {
        int c = onnx_const(g, g->values[x].dtype, s);
        if (c)
            memcpy(g->values[c].data, g->values[x].data,
                   (size_t)onnx_elements(s) * onnx_dtype_size(g->values[x].dtype));
        return c;
    }
    int dims = onnx_ints(g, s->rank, s->dim);
    return onnx_add(g, "Reshape", 2, (int[]){x, dims}, g->values[x].dtype, s);
}

static void permute(const struct onnx_shape *from, const int *perm, size_t size, const char *src,
                    char *dst)
{
    int64_t stride[ONNX_MAX_RANK], pos[ONNX_MAX_RANK] = {0}, step = 1;
    for (int i = from->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= from->dim[i];
    }
    for (int64_t k = 0, n = step; k < n; k++) {
        int64_t at = 0;
        for (int i = 0; i < from->rank; i++)
            at += pos[i] * stride[perm[i]];
        memcpy(dst + (size_t)k * size, src + (size_t)at * size, size);
        for (int i = from->rank - 1; i >= 0; i--) {
            if (++pos[i] < from->dim[perm[i]])
                break;
            pos[i] = 0;
        }
    }
}

int onnx_transpose(struct onnx_graph *g, int x, const int *perm)
{
    struct onnx_shape from = g->values[x].shape, to = {.rank = from.rank};
    int64_t order[ONNX_MAX_RANK];
    int last = -1;
    bool moves = false; // the order of extents other than 1 changes
    for (int i = 0; i < from.rank; i++) {
        to.dim[i] = from.dim[perm[i]];
        order[i] = perm[i];
        if (to.dim[i] == 1)
            continue;
        moves |= perm[i] < last;
        last = perm[i];
    }
    if (!moves)
        return onnx_reshape(g, x, &to);
    if (g->values[x].data) {
        int c = onnx_const(g, g->values[x].dtype, &to);
        if (c)
            permute(&from, perm, onnx_dtype_size(g->values[c].dtype), g->values[x].data,
                    g->values[c].data);
        return c;
    }
    int y = onnx_add(g, "Transpose", 1, &x, g->values[x].dtype, &to);
    onnx_set_ints(onnx_maker(g, y), "perm", from.rank, order);
    return y;
}

void onnx_prune(struct onnx_graph *g)
{
    for (int i = 0; i < g->n_values; i++)
        g->values[i].users = 0;
    for (int i = 0; i < g->n_out; i++)
        g->values[g->out[i]].users++;
    for (int i = g->n_nodes - 1; i > 0; i--) {
        struct onnx_node *n = g->nodes[i];
        bool used = false;
        for (int k = 0; k < n->n_out; k++)
            used |= g->values[n->out[k]].users > 0;
        if (!used)
            n->op = NULL;
        for (int k = 0; n->op && k < n->n_in; k++)
            g->values[n->in[k]].users++;
    }
}
