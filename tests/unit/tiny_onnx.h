#pragma once
// Writes a tiny ONNX file: out = in + in, for tests that need a model of a certain shape.
#include "onnx/fields.h"
#include "onnx/wire.h"

#include <stdio.h>
#include <stdlib.h>

// ValueInfoProto. Extents end with 0; a negative one is free, the first is called "batch".
static inline void tiny_put_value(struct wire_out *graph, int field, const char *name, int elem_type, const int64_t *dims)
{
    struct wire_out shape = {0}, tensor = {0}, type = {0}, value = {0};
    for (int i = 0; dims[i]; i++) {
        struct wire_out dim = {0};
        if (dims[i] > 0)
            wire_put_int(&dim, DIM_VALUE, dims[i]);
        else
            wire_put_text(&dim, DIM_NAME, i ? "extent" : "batch");
        wire_put_message(&shape, SHAPE_DIM, &dim);
    }
    wire_put_int(&tensor, TYPE_ELEMENT, elem_type);
    wire_put_message(&tensor, TYPE_SHAPE, &shape);
    wire_put_message(&type, TYPE_TENSOR, &tensor);
    wire_put_text(&value, VALUE_NAME, name);
    wire_put_message(&value, VALUE_TYPE, &type);
    wire_put_message(graph, field, &value);
}

// elem_type: ONNX's, 1 float, 7 int64, 11 double. Returns whether the file was written.
static inline int tiny_write(const char *path, const char *op, int elem_type, const int64_t *dims)
{
    struct wire_out node = {0}, graph = {0}, opset = {0}, model = {0};
    wire_put_text(&node, NODE_INPUT, "picture");
    wire_put_text(&node, NODE_INPUT, "picture");
    wire_put_text(&node, NODE_OUTPUT, "mask");
    wire_put_text(&node, NODE_OP, op);
    wire_put_message(&graph, GRAPH_NODE, &node);
    wire_put_text(&graph, GRAPH_NAME, "tiny");
    tiny_put_value(&graph, GRAPH_INPUT, "picture", elem_type, dims);
    tiny_put_value(&graph, GRAPH_OUTPUT, "mask", elem_type, dims);
    wire_put_int(&opset, OPSET_VERSION, 13);
    wire_put_int(&model, MODEL_IR_VERSION, 8);
    wire_put_message(&model, MODEL_GRAPH, &graph);
    wire_put_message(&model, MODEL_OPSET, &opset);
    FILE *f = model.err ? NULL : fopen(path, "wb");
    int ok = f && fwrite(model.data, 1, model.size, f) == model.size;
    ok = f && fclose(f) == 0 && ok;
    free(model.data);
    return ok;
}
