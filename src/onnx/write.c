#include "onnx/graph.h"

#include "base/base.h"
#include "onnx/fields.h"
#include "onnx/wire.h"

#include <stdio.h>
#include <stdlib.h>

// A graph as the bytes of an ONNX file.

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

static void put_initializer(struct wire_out *graph, const struct names *names, int id)
{
    const struct onnx_value *v = &names->g->values[id];
    struct wire_out o = {0};
    char buf[32];
    for (int i = 0; i < v->shape.rank; i++)
        wire_put_int(&o, TENSOR_DIMS, v->shape.dim[i]);
    wire_put_int(&o, TENSOR_ELEMENT, v->dtype);
    wire_put_text(&o, TENSOR_NAME, value_name(names, id, buf, sizeof(buf)));
    wire_put_numbers(&o, TENSOR_RAW, v->data, (size_t)onnx_elements(&v->shape), onnx_dtype_size(v->dtype));
    wire_put_message(graph, GRAPH_INITIALIZER, &o);
}

static void put_value_info(struct wire_out *graph, int field, const struct names *names, int id)
{
    const struct onnx_value *v = &names->g->values[id];
    struct wire_out shape = {0}, tensor = {0}, type = {0}, info = {0};
    char buf[32];
    for (int i = 0; i < v->shape.rank; i++) {
        struct wire_out dim = {0};
        if (!i && names->g->free_batch)
            wire_put_text(&dim, DIM_NAME, "batch");
        else
            wire_put_int(&dim, DIM_VALUE, v->shape.dim[i]);
        wire_put_message(&shape, SHAPE_DIM, &dim);
    }
    wire_put_int(&tensor, TYPE_ELEMENT, v->dtype);
    wire_put_message(&tensor, TYPE_SHAPE, &shape);
    wire_put_message(&type, TYPE_TENSOR, &tensor);
    wire_put_text(&info, VALUE_NAME, value_name(names, id, buf, sizeof(buf)));
    wire_put_message(&info, VALUE_TYPE, &type);
    wire_put_message(graph, field, &info);
}

static void put_attr(struct wire_out *node, const struct onnx_attr *a)
{
    struct wire_out o = {0};
    wire_put_text(&o, ATTRIBUTE_NAME, a->name);
    switch (a->type) {
    case ONNX_ATTR_FLOAT:
        wire_put_float(&o, ATTRIBUTE_FLOAT, a->f);
        break;
    case ONNX_ATTR_INT:
        wire_put_int(&o, ATTRIBUTE_INT, a->ints[0]);
        break;
    case ONNX_ATTR_STRING:
        wire_put_text(&o, ATTRIBUTE_STRING, a->s);
        break;
    case ONNX_ATTR_INTS:
        for (int i = 0; i < a->n; i++)
            wire_put_int(&o, ATTRIBUTE_INTS, a->ints[i]);
        break;
    }
    wire_put_int(&o, ATTRIBUTE_TYPE, a->type);
    wire_put_message(node, NODE_ATTRIBUTE, &o);
}

static void put_node(struct wire_out *graph, const struct names *names, const struct onnx_node *n)
{
    struct wire_out o = {0};
    char buf[64];
    for (int i = 0; i < n->n_in; i++)
        wire_put_text(&o, NODE_INPUT, n->in[i] ? value_name(names, n->in[i], buf, sizeof(buf)) : "");
    for (int i = 0; i < n->n_out; i++)
        wire_put_text(&o, NODE_OUTPUT, value_name(names, n->out[i], buf, sizeof(buf)));
    snprintf(buf, sizeof(buf), "%s_%d_%d", n->op, n->origin, n->out[0]);
    wire_put_text(&o, NODE_NAME, buf);
    wire_put_text(&o, NODE_OP, n->op);
    for (int i = 0; i < n->n_attrs; i++)
        put_attr(&o, &n->attrs[i]);
    wire_put_message(graph, GRAPH_NODE, &o);
}

static void put_graph(struct wire_out *model, const struct names *names, const char *graph_name)
{
    const struct onnx_graph *g = names->g;
    struct wire_out o = {0};
    for (int i = 1; i < g->n_nodes; i++)
        if (g->nodes[i]->op)
            put_node(&o, names, g->nodes[i]);
    wire_put_text(&o, GRAPH_NAME, graph_name);
    for (int i = 1; i < g->n_values; i++)
        if (g->values[i].data && g->values[i].users)
            put_initializer(&o, names, i);
    for (int i = 0; i < g->n_in; i++)
        put_value_info(&o, GRAPH_INPUT, names, g->in[i]);
    for (int i = 0; i < g->n_out; i++)
        put_value_info(&o, GRAPH_OUTPUT, names, g->out[i]);
    wire_put_message(model, MODEL_GRAPH, &o);
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
    struct wire_out model = {0}, opset = {0};
    wire_put_int(&model, MODEL_IR_VERSION, 8);
    wire_put_text(&model, MODEL_PRODUCER, "tachyscope");
    put_graph(&model, &names, graph_name);
    wire_put_text(&opset, OPSET_DOMAIN, "");
    wire_put_int(&opset, OPSET_VERSION, ONNX_OPSET);
    wire_put_message(&model, MODEL_OPSET, &opset);
    free(names.output);
    if (model.err < 0) {
        free(model.data);
        return model.err;
    }
    *data = (char *)model.data;
    *size = model.size;
    return TACHY_OK;
}
