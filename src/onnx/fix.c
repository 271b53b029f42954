#include "onnx/file.h"

#include "base/base.h"
#include "onnx/fields.h"
#include "onnx/wire.h"

#include <stdlib.h>

// Fixes a model's inputs in the file's bytes before ONNX Runtime reads them. The runtime can only set the size for a
// dimension's name, which fails if inputs use one name for different sizes, as exports of recurrent networks do. And
// only if a constant is not an input can the runtime precompute from it, above all sizes. Only graph.input and
// graph.initializer of the file are changed.

enum { ELEMENT_FLOAT = 1 };

static void put_span(struct wire_out *o, struct wire_span s) { wire_put(o, s.at, wire_size(s)); }

// ---- Inputs

// An input of the graph.
struct input {
    struct wire_span name;
    int element;          // its type's number
    int rank;             // -1: not known
    struct wire_span dim[TACHY_MAX_RANK];
    int64_t size[TACHY_MAX_RANK]; // -1: free
};

static bool read_dims(struct wire_span shape, struct input *in)
{
    struct wire_field dim, value;
    bool bad = false;
    in->rank = 0;
    while (wire_next(&shape, &dim, &bad)) {
        if (dim.number != SHAPE_DIM || dim.type != WIRE_BYTES)
            continue;
        if (in->rank == TACHY_MAX_RANK)
            return false;
        in->dim[in->rank] = dim.bytes;
        bool fixed = wire_find(dim.bytes, DIM_VALUE, WIRE_VARINT, &value) && (int64_t)value.value >= 0;
        in->size[in->rank++] = fixed ? (int64_t)value.value : -1;
    }
    return !bad;
}

// False: not a tensor of known rank; it stays unchanged.
static bool read_input(struct wire_span bytes, struct input *in)
{
    struct wire_field name, type, tensor, f;
    *in = (struct input){.rank = -1};
    if (!wire_find(bytes, VALUE_NAME, WIRE_BYTES, &name) || !wire_find(bytes, VALUE_TYPE, WIRE_BYTES, &type))
        return false;
    in->name = name.bytes;
    if (!wire_find(type.bytes, TYPE_TENSOR, WIRE_BYTES, &tensor))
        return false;
    in->element = wire_find(tensor.bytes, TYPE_ELEMENT, WIRE_VARINT, &f) ? (int)f.value : 0;
    return wire_find(tensor.bytes, TYPE_SHAPE, WIRE_BYTES, &f) && read_dims(f.bytes, in);
}

static void put_input(struct wire_out *o, const struct input *in)
{
    struct wire_out shape = {0}, tensor = {0}, type = {0}, value = {0};
    for (int i = 0; i < in->rank; i++) {
        struct wire_out dim = {0};
        if (in->size[i] >= 0)
            wire_put_int(&dim, DIM_VALUE, in->size[i]);
        else
            put_span(&dim, in->dim[i]);
        wire_put_message(&shape, SHAPE_DIM, &dim);
    }
    wire_put_int(&tensor, TYPE_ELEMENT, in->element);
    wire_put_message(&tensor, TYPE_SHAPE, &shape);
    wire_put_message(&type, TYPE_TENSOR, &tensor);
    wire_put_bytes(&value, VALUE_NAME, in->name.at, wire_size(in->name));
    wire_put_message(&value, VALUE_TYPE, &type);
    wire_put_message(o, GRAPH_INPUT, &value);
}

// ---- Constants

// More than an 8K picture has: a model of a few bytes can ask for any size.
enum { CONSTANT_MAX = 1 << 25 };

struct fix {
    const struct onnx_fix *f;
    const struct tachy_log *log;
    bool any;                 // an input came already
    struct wire_span batch;   // name of the first one's leading dimension, if that got the batch
    bool given[TACHY_MAX_IO]; // constants that were found
};

static int check_constant(const struct fix *x, const struct input *in, const struct tachy_engine_constant *c, int64_t n)
{
    if (in->rank < 0 || in->element != ELEMENT_FLOAT)
        return tachy_fail(x->log, TACHY_ERR_MISMATCH,
                          "%s: the input `%s` is no float32 tensor, so it cannot be a constant", x->f->path, c->input);
    if (n > CONSTANT_MAX)
        return tachy_fail(x->log, TACHY_ERR_MISMATCH,
                          "%s: the input `%s` has more than %d elements, too many for a constant", x->f->path, c->input,
                          CONSTANT_MAX);
    if (c->n != 1 && c->n != n)
        return tachy_fail(x->log, TACHY_ERR_MISMATCH,
                          "%s: the input `%s` has %lld elements, but its constant gives %d numbers", x->f->path,
                          c->input, (long long)n, c->n);
    return TACHY_OK;
}

static int put_constant(const struct fix *x, struct wire_out *o, const struct input *in,
                        const struct tachy_engine_constant *c)
{
    struct wire_out init = {0};
    int64_t n = 1;
    for (int i = 0; i < in->rank; i++) {
        int64_t size = in->size[i] < 0 ? 1 : in->size[i];
        n = size && n > CONSTANT_MAX / size ? CONSTANT_MAX + 1 : n * size;
        wire_put_int(&init, TENSOR_DIMS, size);
    }
    int err = check_constant(x, in, c, n);
    float *values = err == TACHY_OK ? calloc((size_t)n + 1, sizeof(*values)) : NULL;
    if (!values) {
        free(init.data);
        return err < 0 ? err : TACHY_ERR_NOMEM;
    }
    for (int64_t i = 0; i < n; i++)
        values[i] = c->values[c->n > 1 ? i : 0];
    wire_put_int(&init, TENSOR_ELEMENT, ELEMENT_FLOAT);
    wire_put_text(&init, TENSOR_NAME, c->input);
    wire_put_numbers(&init, TENSOR_RAW, values, (size_t)n, sizeof(*values));
    wire_put_message(o, GRAPH_INITIALIZER, &init);
    free(values);
    return TACHY_OK;
}

// ---- The graph

static struct wire_span dim_name(struct wire_span dim)
{
    struct wire_field f;
    return wire_find(dim, DIM_NAME, WIRE_BYTES, &f) ? f.bytes : (struct wire_span){0};
}

static bool equal(struct wire_span a, struct wire_span b)
{
    size_t n = wire_size(a);
    return n && n == wire_size(b) && !memcmp(a.at, b.at, n);
}

static void set_sizes(struct fix *x, struct input *in)
{
    for (int i = 0; i < x->f->nb_shapes; i++) {
        const struct tachy_io *s = &x->f->shapes[i];
        bool meant = s->name ? wire_is(in->name, s->name) : !x->any;
        for (int a = 0; meant && s->spec.rank == in->rank && a < in->rank; a++)
            if (in->size[a] < 0 && s->spec.shape[a] > 0)
                in->size[a] = s->spec.shape[a];
    }
    if (in->rank <= 0 || in->size[0] >= 0 || !x->f->batch)
        return;
    const struct wire_span name = dim_name(in->dim[0]);
    x->batch = x->any ? x->batch : name;
    if (!x->any || equal(name, x->batch))
        in->size[0] = x->f->batch;
}

static int fix_input(struct fix *x, struct wire_out *o, const struct wire_field *field)
{
    struct input in;
    bool known = read_input(field->bytes, &in);
    for (int k = 0; k < x->f->nb_constants; k++) {
        if (!in.name.at || !wire_is(in.name, x->f->constants[k].input))
            continue;
        x->given[k] = true;
        return put_constant(x, o, &in, &x->f->constants[k]);
    }
    if (known) {
        set_sizes(x, &in);
        put_input(o, &in);
    } else {
        put_span(o, field->whole);
    }
    x->any = true;
    return TACHY_OK;
}

// True if an initializer of the graph has this name: old files list them among the inputs too.
static bool is_initialized(struct wire_span graph, struct wire_span input)
{
    struct wire_field name = {0}, f, own = {0};
    bool bad = false;
    if (!wire_find(input, VALUE_NAME, WIRE_BYTES, &name))
        return false;
    size_t n = wire_size(name.bytes);
    while (wire_next(&graph, &f, &bad))
        if (f.number == GRAPH_INITIALIZER && f.type == WIRE_BYTES &&
            wire_find(f.bytes, TENSOR_NAME, WIRE_BYTES, &own) && wire_size(own.bytes) == n &&
            !memcmp(own.bytes.at, name.bytes.at, n))
            return true;
    return false;
}

static int fix_graph(struct fix *x, struct wire_span graph, struct wire_out *o)
{
    struct wire_span rest = graph;
    struct wire_field field;
    bool bad = false;
    int err = TACHY_OK;
    while (err == TACHY_OK && wire_next(&rest, &field, &bad)) {
        bool input = field.number == GRAPH_INPUT && field.type == WIRE_BYTES;
        if (input && !is_initialized(graph, field.bytes))
            err = fix_input(x, o, &field);
        else
            put_span(o, field.whole);
    }
    return err < 0 ? err : bad ? TACHY_ERR_FORMAT : TACHY_OK;
}

static int fix_model(struct fix *x, struct wire_span model, struct wire_out *o)
{
    struct wire_field field;
    bool bad = false, any = false;
    int err = TACHY_OK;
    while (err == TACHY_OK && wire_next(&model, &field, &bad)) {
        if (field.number != MODEL_GRAPH || field.type != WIRE_BYTES) {
            put_span(o, field.whole);
            continue;
        }
        struct wire_out graph = {0};
        err = fix_graph(x, field.bytes, &graph);
        wire_put_message(o, MODEL_GRAPH, &graph);
        any = true;
    }
    if (err == TACHY_ERR_FORMAT || (err == TACHY_OK && (bad || !any)))
        return tachy_fail(x->log, TACHY_ERR_FORMAT, "%s: is no ONNX model", x->f->path);
    for (int k = 0; k < x->f->nb_constants && err == TACHY_OK; k++)
        if (!x->given[k])
            err = tachy_fail(x->log, TACHY_ERR_MISMATCH, "%s: there is no input `%s`, which is to be a constant",
                             x->f->path, x->f->constants[k].input);
    return err < 0 ? err : o->err;
}

int onnx_fix_inputs(void **out, size_t *out_size, const void *data, size_t size, const struct onnx_fix *fix,
                    const struct tachy_log *log)
{
    struct fix x = {.f = fix, .log = log};
    struct wire_out o = {0};
    const uint8_t *bytes = data;
    int err = fix_model(&x, (struct wire_span){bytes, bytes + size}, &o);
    *out = NULL;
    *out_size = 0;
    if (err < 0) {
        free(o.data);
        return err;
    }
    *out = o.data;
    *out_size = o.size;
    return TACHY_OK;
}

// ---- Free dimensions

typedef int each_dim(void *user, const struct onnx_free_dim *d);

static int dims_of_input(struct wire_span bytes, bool first, each_dim *each, void *user)
{
    struct input in;
    struct wire_field f;
    int err = TACHY_OK, rank = read_input(bytes, &in) ? in.rank : 0;
    for (int a = 0; a < rank && err == TACHY_OK; a++) {
        if (in.size[a] >= 0 || !wire_find(in.dim[a], DIM_NAME, WIRE_BYTES, &f) || !wire_size(f.bytes))
            continue;
        char *input = tachy_asprintf("%.*s", (int)wire_size(in.name), (const char *)in.name.at);
        char *name = tachy_asprintf("%.*s", (int)wire_size(f.bytes), (const char *)f.bytes.at);
        struct onnx_free_dim d = {input, name, first, rank, a};
        err = input && name ? each(user, &d) : TACHY_ERR_NOMEM;
        tachy_free(input);
        tachy_free(name);
    }
    return err;
}

static int dims_of_graph(struct wire_span graph, each_dim *each, void *user)
{
    struct wire_span rest = graph;
    struct wire_field f;
    bool bad = false, first = true;
    int err = TACHY_OK;
    while (err == TACHY_OK && wire_next(&rest, &f, &bad)) {
        if (f.number != GRAPH_INPUT || f.type != WIRE_BYTES || is_initialized(graph, f.bytes))
            continue;
        err = dims_of_input(f.bytes, first, each, user);
        first = false;
    }
    return err < 0 ? err : bad ? TACHY_ERR_FORMAT : TACHY_OK;
}

int onnx_each_free_dim(const void *data, size_t size, each_dim *each, void *user)
{
    const uint8_t *bytes = data;
    struct wire_field graph;
    return wire_find((struct wire_span){bytes, bytes + size}, MODEL_GRAPH, WIRE_BYTES, &graph)
               ? dims_of_graph(graph.bytes, each, user)
               : TACHY_ERR_FORMAT;
}
