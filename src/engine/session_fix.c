#include "engine/proto.h"
#include "engine/session.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

// Fixes a model's inputs in the ONNX file's bytes before ONNX Runtime reads it. Its own way, a size for
// a name of a dimension, cannot tell apart inputs that use one name for different sizes, as exports of
// recurrent networks do; and an input that is the same in every run is a constant that much can be
// computed from beforehand, sizes above all, only where it is no input.
// Of the file only graph.input and graph.initializer are touched.

// Field numbers of onnx.proto.
enum {
    MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1,
    TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2, SHAPE_DIM = 1, DIM_VALUE = 1, INIT_DIMS = 1, INIT_TYPE = 2,
    INIT_NAME = 8, INIT_RAW = 9, ELEMENT_FLOAT = 1
};
// What is written; `err` once there was no memory.
struct out {
    uint8_t *data;
    size_t size, room;
    int err;
};

// ---- writing

static void put(struct out *o, const void *data, size_t size)
{
    if (o->size + size > o->room) {
        size_t room = (o->size + size) * 3 / 2 + 256;
        uint8_t *more = o->err ? NULL : realloc(o->data, room);
        o->err = more ? o->err : TACHY_ERR_NOMEM;
        if (o->err)
            return;
        o->data = more;
        o->room = room;
    }
    if (size)
        memcpy(o->data + o->size, data, size);
    o->size += size;
}

static void put_span(struct out *o, struct proto_span s) { put(o, s.at, (size_t)(s.end - s.at)); }

static void put_varint(struct out *o, uint64_t v)
{
    do {
        uint8_t b = (uint8_t)((v & 127) | (v > 127 ? 128 : 0));
        put(o, &b, 1);
        v >>= 7;
    } while (v);
}

static void put_number(struct out *o, int number, int64_t v)
{
    put_varint(o, (uint64_t)number << 3 | PROTO_VARINT);
    put_varint(o, (uint64_t)v);
}

static void put_bytes(struct out *o, int number, const void *data, size_t size)
{
    put_varint(o, (uint64_t)number << 3 | PROTO_BYTES);
    put_varint(o, size);
    put(o, data, size);
}

// Writes `in` as a field and frees it.
static void put_message(struct out *o, int number, struct out *in)
{
    put_bytes(o, number, in->data, in->size);
    o->err = o->err ? o->err : in->err;
    free(in->data);
    *in = (struct out){0};
}

// ---- inputs

// An input of the graph.
struct input {
    struct proto_span name;
    int element;          // its type's number
    int rank;             // -1: not known
    struct proto_span dim[TACHY_MAX_RANK];
    int64_t size[TACHY_MAX_RANK]; // -1: free
};

static bool is_name(struct proto_span name, const char *text)
{
    size_t n = (size_t)(name.end - name.at);
    return strlen(text) == n && !memcmp(name.at, text, n);
}

static bool read_dims(struct proto_span shape, struct input *in)
{
    struct proto_field dim, value;
    bool bad = false;
    in->rank = 0;
    while (proto_next(&shape, &dim, &bad)) {
        if (dim.number != SHAPE_DIM || dim.wire != PROTO_BYTES)
            continue;
        if (in->rank == TACHY_MAX_RANK)
            return false;
        in->dim[in->rank] = dim.bytes;
        bool fixed = proto_find(dim.bytes, DIM_VALUE, PROTO_VARINT, &value) && (int64_t)value.value >= 0;
        in->size[in->rank++] = fixed ? (int64_t)value.value : -1;
    }
    return !bad;
}

// False: it is no tensor of a known rank, which is left as it is.
static bool read_input(struct proto_span bytes, struct input *in)
{
    struct proto_field name, type, tensor, f;
    *in = (struct input){.rank = -1};
    if (!proto_find(bytes, VALUE_NAME, PROTO_BYTES, &name) || !proto_find(bytes, VALUE_TYPE, PROTO_BYTES, &type))
        return false;
    in->name = name.bytes;
    if (!proto_find(type.bytes, TYPE_TENSOR, PROTO_BYTES, &tensor))
        return false;
    in->element = proto_find(tensor.bytes, TENSOR_ELEMENT, PROTO_VARINT, &f) ? (int)f.value : 0;
    return proto_find(tensor.bytes, TENSOR_SHAPE, PROTO_BYTES, &f) && read_dims(f.bytes, in);
}

static void put_input(struct out *o, const struct input *in)
{
    struct out shape = {0}, tensor = {0}, type = {0}, value = {0};
    for (int i = 0; i < in->rank; i++) {
        struct out dim = {0};
        if (in->size[i] >= 0)
            put_number(&dim, DIM_VALUE, in->size[i]);
        else
            put_span(&dim, in->dim[i]);
        put_message(&shape, SHAPE_DIM, &dim);
    }
    put_number(&tensor, TENSOR_ELEMENT, in->element);
    put_message(&tensor, TENSOR_SHAPE, &shape);
    put_message(&type, TYPE_TENSOR, &tensor);
    put_bytes(&value, VALUE_NAME, in->name.at, (size_t)(in->name.end - in->name.at));
    put_message(&value, VALUE_TYPE, &type);
    put_message(o, GRAPH_INPUT, &value);
}

// More than an 8K picture has: a model of a few bytes can ask for any size.
enum { CONSTANT_MAX = 1 << 25 };

static int put_constant(struct out *o, const struct input *in, const struct tachy_engine_constant *c,
                        const char *path, const struct tachy_log *log)
{
    struct out init = {0};
    int64_t n = 1;
    for (int i = 0; i < in->rank; i++) {
        int64_t size = in->size[i] < 0 ? 1 : in->size[i];
        n = size && n > CONSTANT_MAX / size ? CONSTANT_MAX + 1 : n * size;
        put_number(&init, INIT_DIMS, size);
    }
    bool known = in->rank >= 0 && in->element == ELEMENT_FLOAT;
    float *values = known && n <= CONSTANT_MAX && (c->n == 1 || c->n == n) ? calloc((size_t)n + 1, sizeof(*values)) : NULL;
    int err = values ? TACHY_OK : TACHY_ERR_MISMATCH;
    if (!known)
        tachy_msg(log, TACHY_LOG_ERR, "%s: the input `%s` is no float32 tensor, so it cannot be a constant",
                  path, c->input);
    else if (n > CONSTANT_MAX)
        tachy_msg(log, TACHY_LOG_ERR, "%s: the input `%s` has more than %d elements, too many for a constant", path,
                  c->input, CONSTANT_MAX);
    else if (err < 0)
        tachy_msg(log, TACHY_LOG_ERR, "%s: the input `%s` has %lld elements, but its constant gives %d numbers",
                  path, c->input, (long long)n, c->n);
    for (int64_t i = 0; i < n && values; i++)
        values[i] = c->values[c->n > 1 ? i : 0];
    put_number(&init, INIT_TYPE, ELEMENT_FLOAT);
    put_bytes(&init, INIT_NAME, c->input, strlen(c->input));
    put_bytes(&init, INIT_RAW, values, values ? (size_t)n * sizeof(*values) : 0);
    put_message(o, GRAPH_INITIALIZER, &init);
    free(values);
    return err;
}

// ---- the graph

struct fix {
    const struct tachy_session_params *p;
    const struct tachy_log *log;
    bool any;                         // an input came already
    bool given[TACHY_MAX_IO]; // constants that were found
};

static void set_sizes(const struct fix *f, struct input *in)
{
    for (int i = 0; i < f->p->nb_shapes; i++) {
        const struct tachy_io *s = &f->p->shapes[i];
        bool meant = s->name ? is_name(in->name, s->name) : !f->any;
        for (int a = 0; meant && s->spec.rank == in->rank && a < in->rank; a++)
            if (in->size[a] < 0 && s->spec.shape[a] > 0)
                in->size[a] = s->spec.shape[a];
    }
    if (!f->any && in->rank > 0 && in->size[0] < 0 && f->p->batch)
        in->size[0] = f->p->batch;
}

static int fix_input(struct fix *f, struct out *o, const struct proto_field *field)
{
    struct input in;
    bool known = read_input(field->bytes, &in);
    for (int k = 0; k < f->p->nb_constants; k++) {
        if (!in.name.at || !is_name(in.name, f->p->constants[k].input))
            continue;
        f->given[k] = true;
        return put_constant(o, &in, &f->p->constants[k], f->p->path, f->log);
    }
    if (known) {
        set_sizes(f, &in);
        put_input(o, &in);
    } else {
        put_span(o, field->whole);
    }
    f->any = true;
    return TACHY_OK;
}

// Whether an initializer of the graph has this name: files of old have them among the inputs too.
static bool is_initialized(struct proto_span graph, struct proto_span input)
{
    struct proto_field name = {0}, f, own = {0};
    bool bad = false;
    if (!proto_find(input, VALUE_NAME, PROTO_BYTES, &name))
        return false;
    size_t n = (size_t)(name.bytes.end - name.bytes.at);
    while (proto_next(&graph, &f, &bad))
        if (f.number == GRAPH_INITIALIZER && f.wire == PROTO_BYTES && proto_find(f.bytes, INIT_NAME, PROTO_BYTES, &own) &&
            (size_t)(own.bytes.end - own.bytes.at) == n && !memcmp(own.bytes.at, name.bytes.at, n))
            return true;
    return false;
}

static int fix_graph(struct fix *f, struct proto_span graph, struct out *o)
{
    struct proto_span rest = graph;
    struct proto_field field;
    bool bad = false;
    int err = TACHY_OK;
    while (err == TACHY_OK && proto_next(&rest, &field, &bad)) {
        bool input = field.number == GRAPH_INPUT && field.wire == PROTO_BYTES;
        if (input && !is_initialized(graph, field.bytes))
            err = fix_input(f, o, &field);
        else
            put_span(o, field.whole);
    }
    return err < 0 ? err : bad ? TACHY_ERR_FORMAT : TACHY_OK;
}

static int fix_model(struct fix *f, struct proto_span model, struct out *o)
{
    struct proto_field field;
    bool bad = false, any = false;
    int err = TACHY_OK;
    while (err == TACHY_OK && proto_next(&model, &field, &bad)) {
        if (field.number != MODEL_GRAPH || field.wire != PROTO_BYTES) {
            put_span(o, field.whole);
            continue;
        }
        struct out graph = {0};
        err = fix_graph(f, field.bytes, &graph);
        put_message(o, MODEL_GRAPH, &graph);
        any = true;
    }
    if (err == TACHY_ERR_FORMAT || (err == TACHY_OK && (bad || !any)))
        return tachy_fail(f->log, TACHY_ERR_FORMAT, "%s: is no ONNX model", f->p->path);
    for (int k = 0; k < f->p->nb_constants && err == TACHY_OK; k++)
        if (!f->given[k])
            err = tachy_fail(f->log, TACHY_ERR_MISMATCH, "%s: there is no input `%s`, which is to be a constant",
                             f->p->path, f->p->constants[k].input);
    return err < 0 ? err : o->err;
}

int tachy_session_fix(void **data, size_t *size, const struct tachy_session_params *p, const struct tachy_log *log)
{
    enum { MOST = INT32_MAX }; // of a protocol buffer
    struct fix f = {.p = p, .log = log};
    struct out o = {0};
    char *file = NULL;
    size_t n = 0;
    *data = NULL;
    int err = tachy_read_file(p->path, MOST, &file, &n, log);
    const uint8_t *bytes = (const uint8_t *)file;
    if (err == TACHY_OK)
        err = fix_model(&f, (struct proto_span){bytes, bytes + n}, &o);
    tachy_free(file);
    if (err < 0) {
        free(o.data);
        return err;
    }
    *data = o.data;
    *size = o.size;
    return TACHY_OK;
}
