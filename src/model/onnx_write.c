#include "model/onnx.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

// The protobuf wire format of onnx.proto: a field is a key (number << 3 | wire type) and a
// varint (0), eight bytes (1), length-delimited bytes (2) or four bytes (5).

struct out {
    char *data;
    size_t size, cap;
    bool failed;
};

static void put(struct out *o, const void *data, size_t n)
{
    if (o->failed)
        return;
    if (n > o->cap - o->size) {
        size_t cap = TACHY_MAX(o->cap * 2, TACHY_MAX(o->size + n, (size_t)4096));
        char *p = realloc(o->data, cap);
        if (!p) {
            o->failed = true;
            return;
        }
        o->data = p;
        o->cap = cap;
    }
    if (n)
        memcpy(o->data + o->size, data, n);
    o->size += n;
}

static void put_varint(struct out *o, uint64_t v)
{
    uint8_t b[10];
    size_t n = 0;
    do {
        b[n++] = (uint8_t)((v & 127) | (v > 127 ? 128 : 0));
        v >>= 7;
    } while (v);
    put(o, b, n);
}

static void put_int(struct out *o, int field, int64_t v)
{
    put_varint(o, (uint64_t)field << 3);
    put_varint(o, (uint64_t)v);
}

static void put_bytes(struct out *o, int field, const void *data, size_t n)
{
    put_varint(o, (uint64_t)field << 3 | 2);
    put_varint(o, n);
    put(o, data, n);
}

static void put_text(struct out *o, int field, const char *s) { put_bytes(o, field, s, strlen(s)); }

static void put_float(struct out *o, int field, float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    uint8_t b[4] = {(uint8_t)u, (uint8_t)(u >> 8), (uint8_t)(u >> 16), (uint8_t)(u >> 24)};
    put_varint(o, (uint64_t)field << 3 | 5);
    put(o, b, sizeof(b));
}

// Appends `inner` as a message and empties it.
static void put_message(struct out *o, int field, struct out *inner)
{
    o->failed |= inner->failed;
    put_bytes(o, field, inner->data, inner->size);
    free(inner->data);
    *inner = (struct out){0};
}

struct names {
    const struct onnx_graph *g;
    const char **output; // by value: the graph output's name
};

static const char *value_name(const struct names *n, int v, char *buf, size_t size)
{
    if (n->output[v])
        return n->output[v];
    if (n->g->values[v].name)
        return n->g->values[v].name;
    const struct onnx_node *maker = n->g->nodes[n->g->values[v].maker];
    snprintf(buf, size, "%c%d", maker->op ? 'v' : 'c', v);
    return buf;
}

static void put_raw(struct out *o, const struct onnx_value *v)
{
    size_t size = onnx_dtype_size(v->dtype), n = (size_t)onnx_elements(&v->shape);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    put_bytes(o, 9, v->data, n * size);
#else
    put_varint(o, 9 << 3 | 2);
    put_varint(o, n * size);
    for (size_t i = 0; i < n; i++)
        for (size_t k = size; k-- > 0;)
            put(o, (const char *)v->data + i * size + k, 1);
#endif
}

static void put_initializer(struct out *graph, const struct names *names, int id)
{
    const struct onnx_value *v = &names->g->values[id];
    struct out o = {0};
    char buf[32];
    for (int i = 0; i < v->shape.rank; i++)
        put_int(&o, 1, v->shape.dim[i]);
    put_int(&o, 2, v->dtype);
    put_text(&o, 8, value_name(names, id, buf, sizeof(buf)));
    put_raw(&o, v);
    put_message(graph, 5, &o);
}

static void put_value_info(struct out *graph, int field, const struct names *names, int id)
{
    const struct onnx_value *v = &names->g->values[id];
    struct out shape = {0}, tensor = {0}, type = {0}, info = {0};
    char buf[32];
    for (int i = 0; i < v->shape.rank; i++) {
        struct out dim = {0};
        put_int(&dim, 1, v->shape.dim[i]);
        put_message(&shape, 1, &dim);
    }
    put_int(&tensor, 1, v->dtype);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&info, 1, value_name(names, id, buf, sizeof(buf)));
    put_message(&info, 2, &type);
    put_message(graph, field, &info);
}

static void put_attr(struct out *node, const struct onnx_attr *a)
{
    struct out o = {0};
    put_text(&o, 1, a->name);
    switch (a->type) {
    case ONNX_ATTR_FLOAT:
        put_float(&o, 2, a->f);
        break;
    case ONNX_ATTR_INT:
        put_int(&o, 3, a->ints[0]);
        break;
    case ONNX_ATTR_STRING:
        put_text(&o, 4, a->s);
        break;
    case ONNX_ATTR_INTS:
        for (int i = 0; i < a->n; i++)
            put_int(&o, 8, a->ints[i]);
        break;
    }
    put_int(&o, 20, a->type);
    put_message(node, 5, &o);
}

static void put_node(struct out *graph, const struct names *names, const struct onnx_node *n)
{
    struct out o = {0};
    char buf[64];
    for (int i = 0; i < n->n_in; i++)
        put_text(&o, 1, n->in[i] ? value_name(names, n->in[i], buf, sizeof(buf)) : "");
    for (int i = 0; i < n->n_out; i++)
        put_text(&o, 2, value_name(names, n->out[i], buf, sizeof(buf)));
    snprintf(buf, sizeof(buf), "%s_%d_%d", n->op, n->origin, n->out[0]);
    put_text(&o, 3, buf);
    put_text(&o, 4, n->op);
    for (int i = 0; i < n->n_attrs; i++)
        put_attr(&o, &n->attrs[i]);
    put_message(graph, 1, &o);
}

static void put_graph(struct out *model, const struct names *names, const char *graph_name)
{
    const struct onnx_graph *g = names->g;
    struct out o = {0};
    for (int i = 1; i < g->n_nodes; i++)
        if (g->nodes[i]->op)
            put_node(&o, names, g->nodes[i]);
    put_text(&o, 2, graph_name);
    for (int i = 1; i < g->n_values; i++)
        if (g->values[i].data && g->values[i].users)
            put_initializer(&o, names, i);
    for (int i = 0; i < g->n_in; i++)
        put_value_info(&o, 11, names, g->in[i]);
    for (int i = 0; i < g->n_out; i++)
        put_value_info(&o, 12, names, g->out[i]);
    put_message(model, 7, &o);
}

int onnx_write(const struct onnx_graph *g, const char *graph_name, char **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    if (g->err)
        return g->err;
    struct names names = {.g = g, .output = calloc((size_t)g->n_values, sizeof(char *))};
    if (!names.output)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < g->n_out; i++)
        names.output[g->out[i]] = g->out_names[i];
    struct out model = {0}, opset = {0};
    put_int(&model, 1, 8); // ir_version
    put_text(&model, 2, "tachyscope");
    put_graph(&model, &names, graph_name);
    put_text(&opset, 1, "");
    put_int(&opset, 2, ONNX_OPSET);
    put_message(&model, 8, &opset);
    free(names.output);
    if (model.failed) {
        free(model.data);
        return TACHY_ERR_NOMEM;
    }
    *data = model.data;
    *size = model.size;
    return TACHY_OK;
}
