#pragma once
// Writes a tiny ONNX file: out = in + in, for tests that need a model of a certain shape. The
// bytes are protocol buffers, written here so that no tool is needed.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct tiny {
    uint8_t data[2048];
    size_t size;
};

static inline void tiny_varint(struct tiny *t, uint64_t v)
{
    for (; v > 127; v >>= 7)
        t->data[t->size++] = (uint8_t)(v | 128);
    t->data[t->size++] = (uint8_t)v;
}

static inline void tiny_int(struct tiny *t, int field, uint64_t v)
{
    tiny_varint(t, (uint64_t)field << 3);
    tiny_varint(t, v);
}

static inline void tiny_bytes(struct tiny *t, int field, const void *data, size_t size)
{
    tiny_varint(t, (uint64_t)field << 3 | 2);
    tiny_varint(t, size);
    memcpy(t->data + t->size, data, size);
    t->size += size;
}

static inline void tiny_text(struct tiny *t, int field, const char *s)
{
    tiny_bytes(t, field, s, strlen(s));
}

static inline void tiny_message(struct tiny *t, int field, const struct tiny *m)
{
    tiny_bytes(t, field, m->data, m->size);
}

// ValueInfoProto. Extents end with 0; a negative one is free, the first is called "batch".
static inline struct tiny tiny_value(const char *name, int elem_type, const int64_t *dims)
{
    struct tiny shape = {0}, tensor = {0}, type = {0}, value = {0};
    for (int i = 0; dims[i]; i++) {
        struct tiny dim = {0};
        if (dims[i] > 0)
            tiny_int(&dim, 1, (uint64_t)dims[i]);
        else
            tiny_text(&dim, 2, i ? "extent" : "batch");
        tiny_message(&shape, 1, &dim);
    }
    tiny_int(&tensor, 1, (uint64_t)elem_type);
    tiny_message(&tensor, 2, &shape);
    tiny_message(&type, 1, &tensor);
    tiny_text(&value, 1, name);
    tiny_message(&value, 2, &type);
    return value;
}

// elem_type: ONNX's, 1 float, 7 int64, 11 double. Returns whether the file was written.
static inline int tiny_write(const char *path, const char *op, int elem_type, const int64_t *dims)
{
    struct tiny node = {0}, graph = {0}, opset = {0}, model = {0};
    struct tiny in = tiny_value("picture", elem_type, dims), out = tiny_value("mask", elem_type, dims);
    tiny_text(&node, 1, "picture");
    tiny_text(&node, 1, "picture");
    tiny_text(&node, 2, "mask");
    tiny_text(&node, 4, op);
    tiny_message(&graph, 1, &node);
    tiny_text(&graph, 2, "tiny");
    tiny_message(&graph, 11, &in);
    tiny_message(&graph, 12, &out);
    tiny_int(&opset, 2, 13);
    tiny_int(&model, 1, 8); // ir_version
    tiny_message(&model, 7, &graph);
    tiny_message(&model, 8, &opset);
    FILE *f = fopen(path, "wb");
    if (!f)
        return 0;
    int ok = fwrite(model.data, 1, model.size, f) == model.size;
    return fclose(f) == 0 && ok;
}
