#include "plan/graph.h"

#include <stdlib.h>

// Memory of a graph: a list of blocks, freed with it.
struct graph_memory {
    struct graph_memory *next;
    max_align_t data[];
};

static const struct {
    const char *name;
    int least, most;
} ops[] = {
#define OP_ROW(op, name, least, most) {name, least, most},
    TACHY_PLAN_OPS(OP_ROW)
#undef OP_ROW
};

const char *tachy_plan_op_name(enum tachy_plan_op op)
{
    return (unsigned)op < TACHY_OP_COUNT ? ops[op].name : "?";
}

bool tachy_plan_op_inputs(enum tachy_plan_op op, int n)
{
    return (unsigned)op < TACHY_OP_COUNT && n >= ops[op].least && n <= ops[op].most;
}

const char *tachy_plan_act_name(enum tachy_plan_act a)
{
    static const char *const names[] = {"none",     "relu",   "clip",  "leaky", "prelu",
                                        "sigmoid",  "hsigmoid", "hswish", "swish", "tanh",
                                        "exp",    "sqrt",   "neg",   "abs",
                                        "gelu",   "gelu-tanh", "elu", "softplus", "mish", "erf", "levels",
                                        "log",    "sin",    "cos",   "tan",   "asin",
                                        "acos",   "atan",   "sinh",  "cosh",  "asinh",
                                        "acosh",  "atanh",  "floor", "ceil",  "round",
                                        "reciprocal", "softsign", "threshold", "shrink", "is-nan",
                                        "is-inf", "quantize", "sign", "trunc", "truth", "not"};
    return (unsigned)a < TACHY_PLAN_ACTS ? names[a] : "?";
}

bool tachy_plan_act_ends(enum tachy_plan_act a) { return a < TACHY_PLAN_LOG && a != TACHY_PLAN_NEG; }

const char *tachy_plan_binary_name(enum tachy_plan_binary b)
{
    static const char *const names[] = {"add",  "sub", "mul",   "div",  "min",
                                        "max",  "pow", "fmod",  "mod",  "equal",
                                        "less", "less-equal", "greater", "greater-equal",
                                        "and",  "or",  "xor"};
    return (unsigned)b < TACHY_PLAN_BINARIES ? names[b] : "?";
}

int tachy_graph_open(struct tachy_graph **out, const struct tachy_log *log)
{
    *out = calloc(1, sizeof(**out));
    if (!*out)
        return TACHY_ERR_NOMEM;
    (*out)->log = log;
    return TACHY_OK;
}

void tachy_graph_close(struct tachy_graph **pg)
{
    struct tachy_graph *g = *pg;
    *pg = NULL;
    if (!g)
        return;
    while (g->memory) {
        struct graph_memory *m = g->memory;
        g->memory = m->next;
        tachy_aligned_free(m);
    }
    free(g->in);
    free(g->out);
    free(g->values);
    free(g);
}

void *tachy_graph_alloc(struct tachy_graph *g, size_t size)
{
    // The header takes a whole line of 64 bytes, so that what follows is aligned.
    if (size > SIZE_MAX / 2)
        return NULL;
    struct graph_memory *m = tachy_aligned_alloc(size + 64);
    if (!m)
        return NULL;
    m->next = g->memory;
    g->memory = m;
    return memset((char *)m + 64, 0, size);
}

// `size` zeroed bytes for the graph itself, aligned as malloc() does: many share a block.
static void *small(struct tachy_graph *g, size_t size)
{
    enum { BLOCK = 1 << 16 };
    size = TACHY_ALIGN(size, sizeof(max_align_t));
    if (size > BLOCK / 16)
        return tachy_graph_alloc(g, size);
    if (size > g->left) {
        g->small = tachy_graph_alloc(g, BLOCK);
        g->left = g->small ? BLOCK : 0;
    }
    if (!g->left)
        return NULL;
    char *p = g->small;
    g->small += size;
    g->left -= size;
    return p;
}

static char *copy_name(struct tachy_graph *g, const char *name)
{
    size_t n = name ? strlen(name) + 1 : 0;
    char *copy = n ? small(g, n) : NULL;
    return copy ? memcpy(copy, name, n) : NULL;
}

// Room for one more in an array that grows by doubling; NULL when out of memory.
static void *grown(void *list, int n)
{
    bool full = !n || (n >= 16 && !(n & (n - 1)));
    if (!full)
        return list;
    return realloc(list, sizeof(void *) * (size_t)(n ? 2 * n : 16));
}

struct tachy_value *tachy_graph_value(struct tachy_graph *g, const char *name, enum tachy_dtype t,
                                      int rank, const int64_t *shape)
{
    struct tachy_value **list = grown(g->values, g->nb_values);
    if (!list)
        return NULL;
    g->values = list;
    struct tachy_value *v = small(g, sizeof(*v));
    if (!v)
        return NULL;
    v->id = g->nb_values;
    v->name = copy_name(g, name);
    v->dtype = t;
    v->most = tachy_dtype_most(t);
    v->rank = rank;
    if (rank > 0)
        memcpy(v->shape, shape, sizeof(*shape) * (size_t)TACHY_MIN(rank, TACHY_MAX_RANK));
    g->values[g->nb_values++] = v;
    return v;
}

struct tachy_value *tachy_graph_constant(struct tachy_graph *g, const char *name, enum tachy_dtype t,
                                         int rank, const int64_t *shape, const void *data)
{
    struct tachy_value *v = tachy_graph_value(g, name, t, rank, shape);
    if (!v)
        return NULL;
    v->data = data;
    if (data && t != TACHY_F32)
        v->most = tachy_constant_most(v);
    return v;
}

int tachy_graph_add_input(struct tachy_graph *g, struct tachy_value *v)
{
    struct tachy_value **list = grown(g->in, g->nb_in);
    if (!list)
        return TACHY_ERR_NOMEM;
    g->in = list;
    g->in[g->nb_in++] = v;
    return TACHY_OK;
}

int tachy_graph_add_output(struct tachy_graph *g, struct tachy_value *v)
{
    struct tachy_value **list = grown(g->out, g->nb_out);
    if (!list)
        return TACHY_ERR_NOMEM;
    g->out = list;
    g->out[g->nb_out++] = v;
    v->uses++;
    return TACHY_OK;
}

static void link_before(struct tachy_graph *g, struct tachy_node *n, struct tachy_node *before)
{
    n->next = before;
    n->prev = before ? before->prev : g->last;
    if (n->prev)
        n->prev->next = n;
    else
        g->first = n;
    if (before)
        before->prev = n;
    else
        g->last = n;
}

// Arrays for `nb_in` absent inputs; false when out of memory.
static bool set_room(struct tachy_graph *g, struct tachy_node *n, int nb_in)
{
    size_t count = (size_t)TACHY_MAX(nb_in, 1);
    n->in = small(g, sizeof(*n->in) * count);
    n->use = small(g, sizeof(*n->use) * count);
    n->nb_in = nb_in;
    return n->in && n->use;
}

struct tachy_node *tachy_graph_node(struct tachy_graph *g, struct tachy_node *before,
                                    enum tachy_plan_op op, const char *name,
                                    const struct tachy_plan_attr *attr,
                                    struct tachy_value *const in[], int nb_in,
                                    struct tachy_value *out)
{
    struct tachy_node *n = small(g, sizeof(*n));
    if (!n || nb_in < 0)
        return NULL;
    if (!set_room(g, n, nb_in))
        return NULL;
    n->op = op;
    n->name = copy_name(g, name);
    if (attr)
        n->attr = *attr;
    for (int i = 0; i < nb_in; i++)
        tachy_node_set_input(n, i, in[i]);
    n->out = out;
    out->made_by = n;
    out->most = tachy_node_most(n);
    link_before(g, n, before);
    return n;
}

void tachy_node_set_input(struct tachy_node *n, int i, struct tachy_value *v)
{
    struct tachy_use *u = &n->use[i];
    if (n->in[i]) {
        n->in[i]->uses--;
        *(u->prev ? &u->prev->next : &n->in[i]->used) = u->next;
        if (u->next)
            u->next->prev = u->prev;
    }
    n->in[i] = v;
    *u = (struct tachy_use){.by = n, .next = v ? v->used : NULL};
    if (!v)
        return;
    if (v->used)
        v->used->prev = u;
    v->used = u;
    v->uses++;
}

bool tachy_node_set_inputs(struct tachy_graph *g, struct tachy_node *n, int nb_in)
{
    struct tachy_node old = *n;
    if (nb_in > n->nb_in && !set_room(g, n, nb_in)) {
        *n = old;
        return false;
    }
    for (int i = 0; n->in != old.in && i < old.nb_in; i++) {
        struct tachy_value *v = old.in[i];
        tachy_node_set_input(&old, i, NULL);
        tachy_node_set_input(n, i, v);
    }
    for (int i = nb_in; i < old.nb_in; i++)
        tachy_node_set_input(n, i, NULL);
    n->nb_in = nb_in;
    return true;
}

void tachy_graph_replace(struct tachy_graph *g, struct tachy_value *from, struct tachy_value *to)
{
    while (from != to && from->used)
        tachy_node_set_input(from->used->by, (int)(from->used - from->used->by->use), to);
    for (int i = 0; i < g->nb_out; i++) {
        if (g->out[i] != from)
            continue;
        g->out[i] = to;
        from->uses--;
        to->uses++;
    }
}

void tachy_graph_remove(struct tachy_graph *g, struct tachy_node *n)
{
    for (int i = 0; i < n->nb_in; i++)
        tachy_node_set_input(n, i, NULL);
    if (n->out->made_by == n) {
        n->out->made_by = NULL;
        n->out->most = tachy_dtype_most(n->out->dtype);
    }
    if (n->prev)
        n->prev->next = n->next;
    else
        g->first = n->next;
    if (n->next)
        n->next->prev = n->prev;
    else
        g->last = n->prev;
    n->prev = n->next = NULL;
}

int64_t tachy_value_elements(const struct tachy_value *v)
{
    struct tachy_tensor t = {.dtype = v->dtype, .rank = v->rank};
    memcpy(t.shape, v->shape, sizeof(t.shape));
    return tachy_tensor_elements(&t);
}
