#include "model/tflite.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    MAX_TENSORS = 1 << 16,
    MAX_OPS = 1 << 16,
    MAX_CODES = 1 << 12,
    MAX_LINKS = 1 << 20, // inputs and outputs of all operators: bounds the work on hostile files
    MAX_SCALES = 1 << 16,
};

// Little-endian reads at any byte.

static bool fits(struct tflite_bytes *b, size_t at, size_t n)
{
    if (at <= b->size && n <= b->size - at)
        return true;
    b->bad = true;
    return false;
}

static uint64_t load(struct tflite_bytes *b, size_t at, int n)
{
    if (!fits(b, at, (size_t)n))
        return 0;
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--)
        v = v << 8 | b->data[at + (size_t)i];
    return v;
}

static uint32_t load32(struct tflite_bytes *b, size_t at) { return (uint32_t)load(b, at, 4); }

// FlatBuffers tables, vectors and strings.

// Follows the offset stored at `at`. Offsets are unsigned and point forward, so no chain of
// them can loop. 0 if it leaves the file.
static size_t follow(struct tflite_bytes *b, size_t at)
{
    uint32_t off = load32(b, at);
    if (!off || !fits(b, at, off)) {
        b->bad = true;
        return 0;
    }
    return at + off;
}

static struct tflite_table table_at(struct tflite_bytes *b, size_t at)
{
    struct tflite_table t = {.b = b};
    int32_t back = (int32_t)load32(b, at);
    int64_t vtable = (int64_t)at - back;
    if (b->bad || vtable < 0 || !fits(b, (size_t)vtable, 4)) {
        b->bad = true;
        return t;
    }
    size_t size = (size_t)load(b, (size_t)vtable, 2);
    if (size < 4 || !fits(b, (size_t)vtable, size)) {
        b->bad = true;
        return t;
    }
    t.at = at;
    t.vtable = (size_t)vtable;
    t.vtable_size = size;
    return t;
}

// Byte of a field; 0: absent, it has its default.
static size_t field_at(const struct tflite_table *t, int field)
{
    size_t entry = 4 + 2 * (size_t)field;
    if (!t->at || entry + 2 > t->vtable_size)
        return 0;
    size_t off = (size_t)load(t->b, t->vtable + entry, 2);
    return off ? t->at + off : 0;
}

static uint64_t field(const struct tflite_table *t, int f, int bytes, uint64_t def)
{
    size_t at = field_at(t, f);
    return at ? load(t->b, at, bytes) : def;
}

int32_t tflite_field_i32(const struct tflite_table *t, int f, int32_t def)
{
    return (int32_t)(uint32_t)field(t, f, 4, (uint32_t)def);
}

struct tflite_table tflite_field_table(const struct tflite_table *t, int f)
{
    size_t at = field_at(t, f);
    size_t to = at ? follow(t->b, at) : 0;
    return to ? table_at(t->b, to) : (struct tflite_table){.b = t->b};
}

struct tflite_vector tflite_field_vector(const struct tflite_table *t, int f, size_t element)
{
    struct tflite_vector v = {0};
    size_t at = field_at(t, f);
    size_t to = at ? follow(t->b, at) : 0;
    if (!to)
        return v;
    uint32_t n = load32(t->b, to);
    if (t->b->bad || n > t->b->size / element || !fits(t->b, to + 4, n * element)) {
        t->b->bad = true;
        return v;
    }
    v.at = to + 4;
    v.n = n;
    return v;
}

struct tflite_table tflite_vector_table(struct tflite_bytes *b, struct tflite_vector v, uint32_t i)
{
    size_t to = follow(b, v.at + 4 * (size_t)i);
    return to ? table_at(b, to) : (struct tflite_table){.b = b};
}

// Elements of vectors that were checked when they were found: `m` stays const.

static uint64_t element(const struct tflite_model *m, struct tflite_vector v, uint32_t i, int bytes)
{
    struct tflite_bytes b = m->bytes;
    return i < v.n ? load(&b, v.at + (size_t)bytes * i, bytes) : 0;
}

float tflite_f32(const struct tflite_model *m, struct tflite_vector v, uint32_t i)
{
    uint32_t u = (uint32_t)element(m, v, i, 4);
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

int64_t tflite_i64(const struct tflite_model *m, struct tflite_vector v, uint32_t i)
{
    return (int64_t)element(m, v, i, 8);
}

static int link_at(const struct tflite_model *m, struct tflite_vector v, int i)
{
    return (int32_t)(uint32_t)element(m, v, (uint32_t)i, 4);
}

int tflite_in(const struct tflite_model *m, const struct tflite_op *op, int i)
{
    return link_at(m, op->in, i);
}

int tflite_out(const struct tflite_model *m, const struct tflite_op *op, int i)
{
    return link_at(m, op->out, i);
}

int tflite_graph_in(const struct tflite_model *m, int i) { return link_at(m, m->in, i); }
int tflite_graph_out(const struct tflite_model *m, int i) { return link_at(m, m->out, i); }

int tflite_field_i8(const struct tflite_table *t, int f, int def)
{
    return (int8_t)field(t, f, 1, (uint64_t)def);
}

int tflite_opt_i8(const struct tflite_op *op, int f, int def)
{
    return tflite_field_i8(&op->options, f, def);
}

int tflite_opt_i32(const struct tflite_op *op, int f, int def)
{
    return tflite_field_i32(&op->options, f, def);
}

float tflite_opt_f32(const struct tflite_op *op, int f, float def)
{
    size_t at = field_at(&op->options, f);
    if (!at)
        return def;
    uint32_t u = load32(op->options.b, at);
    memcpy(&def, &u, sizeof(def));
    return def;
}

size_t tflite_type_size(int type)
{
    switch (type) {
    case TFLITE_FLOAT32:
    case TFLITE_INT32:
        return 4;
    case TFLITE_FLOAT16:
        return 2;
    case TFLITE_INT64:
        return 8;
    case TFLITE_UINT8:
    case TFLITE_INT8:
    case TFLITE_BOOL:
        return 1;
    default:
        return 0;
    }
}

float tflite_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    uint32_t u = sign;
    if (exponent == 31) {
        u |= 0x7f800000 | fraction << 13;
    } else if (exponent) {
        u |= (exponent + 112) << 23 | fraction << 13;
    } else if (fraction) { // subnormal: value = fraction * 2^-24
        exponent = 113;
        while (!(fraction & 1024)) {
            fraction <<= 1;
            exponent--;
        }
        u |= exponent << 23 | (fraction & 1023) << 13;
    }
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

// The parts of a file.

struct reader {
    struct tflite_model *m;
    struct tflite_bytes *b;
    const char *path;
    const struct tachy_log *log;
    struct tflite_vector codes, buffers;
};

static int damaged(const struct reader *r, const char *what)
{
    return tachy_fail(r->log, TACHY_ERR_FORMAT,
                      "%s: %s is damaged: the TFLite file is truncated or altered; fetch it again",
                      r->path, what);
}

static bool read_shape(struct reader *r, const struct tflite_table *table, struct tflite_tensor *t)
{
    struct tflite_vector v = tflite_field_vector(table, 0, 4);
    if (v.n > TFLITE_MAX_RANK)
        return false;
    t->rank = (int)v.n;
    t->elements = 1;
    bool empty = false;
    for (uint32_t i = 0; i < v.n; i++) {
        int32_t d = (int32_t)load32(r->b, v.at + 4 * (size_t)i);
        if (d < 0 || (d && t->elements > INT32_MAX / d))
            return false;
        empty |= !d;
        t->shape[i] = d;
        t->elements *= d ? d : 1;
    }
    if (empty)
        t->elements = 0;
    return true;
}

static bool read_data(struct reader *r, uint32_t index, struct tflite_tensor *t)
{
    if (index >= r->buffers.n)
        return false;
    struct tflite_table buffer = tflite_vector_table(r->b, r->buffers, index);
    struct tflite_vector data = tflite_field_vector(&buffer, 0, 1);
    if (data.n) {
        t->data = r->b->data + data.at;
        t->size = data.n;
        return true;
    }
    // Files above 2 GB keep the data after the FlatBuffer, by offset and size.
    uint64_t at = field(&buffer, 1, 8, 0), size = field(&buffer, 2, 8, 0);
    if (at > 1 && size) {
        if (at > r->b->size || size > r->b->size - at)
            return false;
        t->data = r->b->data + at;
        t->size = (size_t)size;
    }
    return true;
}

static bool read_tensor(struct reader *r, const struct tflite_table *table, struct tflite_tensor *t)
{
    t->type = (int8_t)field(table, 1, 1, TFLITE_FLOAT32);
    struct tflite_vector name = tflite_field_vector(table, 3, 1);
    t->name = (const char *)r->b->data + name.at;
    t->name_size = name.n;
    t->sparsity = tflite_field_table(table, 6);
    struct tflite_table quant = tflite_field_table(table, 4);
    t->scale = tflite_field_vector(&quant, 2, 4);
    t->zero_point = tflite_field_vector(&quant, 3, 8);
    t->axis = tflite_field_i32(&quant, 6, 0);
    if (!read_shape(r, table, t) || !read_data(r, (uint32_t)field(table, 2, 4, 0), t) || r->b->bad)
        return false;
    if (t->scale.n > MAX_SCALES || (t->scale.n > 1 && (t->axis < 0 || t->axis >= t->rank ||
                                                       t->shape[t->axis] != (int64_t)t->scale.n)))
        return false;
    size_t element_size = tflite_type_size(t->type);
    if (t->data && element_size && !t->sparsity.at && t->size != (size_t)t->elements * element_size)
        return false;
    return true;
}

static int read_tensors(struct reader *r, const struct tflite_table *graph)
{
    struct tflite_vector v = tflite_field_vector(graph, 0, 4);
    if (r->b->bad)
        return damaged(r, "the list of tensors");
    if (v.n > MAX_TENSORS)
        return tachy_fail(r->log, TACHY_ERR_LIMIT, "%s: has %u tensors, more than the %d allowed",
                          r->path, v.n, MAX_TENSORS);
    r->m->tensors = calloc(v.n + 1u, sizeof(*r->m->tensors));
    if (!r->m->tensors)
        return TACHY_ERR_NOMEM;
    r->m->n_tensors = (int)v.n;
    for (uint32_t i = 0; i < v.n; i++) {
        struct tflite_table t = tflite_vector_table(r->b, v, i);
        if (r->b->bad || !read_tensor(r, &t, &r->m->tensors[i])) {
            char what[32];
            snprintf(what, sizeof(what), "tensor %u", i);
            return damaged(r, what);
        }
    }
    return TACHY_OK;
}

// Every number must be that of a tensor; -1 only where `optional`.
static bool check_links(struct reader *r, struct tflite_vector v, bool optional)
{
    for (uint32_t i = 0; i < v.n; i++) {
        int t = link_at(r->m, v, (int)i);
        if (t >= r->m->n_tensors || t < (optional ? -1 : 0))
            return false;
    }
    return true;
}

static bool read_op(struct reader *r, const struct tflite_table *table, struct tflite_op *op)
{
    uint32_t index = (uint32_t)field(table, 0, 4, 0);
    if (index >= r->codes.n)
        return false;
    struct tflite_table code = tflite_vector_table(r->b, r->codes, index);
    // Codes above 126 are only in the newer, wider field; old files have only the older one.
    int narrow = (int8_t)field(&code, 0, 1, 0), wide = tflite_field_i32(&code, 3, 0);
    op->code = TACHY_MAX(narrow, wide);
    struct tflite_vector custom = tflite_field_vector(&code, 1, 1);
    op->custom = (const char *)r->b->data + custom.at;
    op->custom_size = custom.n;
    op->in = tflite_field_vector(table, 1, 4);
    op->out = tflite_field_vector(table, 2, 4);
    if (r->b->bad || op->in.n > MAX_LINKS || op->out.n > MAX_LINKS)
        return false;
    op->n_in = (int)op->in.n;
    op->n_out = (int)op->out.n;
    op->options = tflite_field_table(table, 4);
    struct tflite_vector raw = tflite_field_vector(table, 5, 1);
    op->raw = raw.n ? r->b->data + raw.at : NULL;
    op->raw_size = raw.n;
    return !r->b->bad;
}

static int read_ops(struct reader *r, const struct tflite_table *graph)
{
    struct tflite_vector v = tflite_field_vector(graph, 3, 4);
    if (r->b->bad)
        return damaged(r, "the list of operators");
    if (v.n > MAX_OPS)
        return tachy_fail(r->log, TACHY_ERR_LIMIT, "%s: has %u operators, more than the %d allowed",
                          r->path, v.n, MAX_OPS);
    r->m->ops = calloc(v.n + 1u, sizeof(*r->m->ops));
    if (!r->m->ops)
        return TACHY_ERR_NOMEM;
    int64_t links = 0;
    for (uint32_t i = 0; i < v.n; i++) {
        struct tflite_op *op = &r->m->ops[i];
        struct tflite_table t = tflite_vector_table(r->b, v, i);
        bool ok = !r->b->bad && read_op(r, &t, op);
        links += op->n_in + op->n_out;
        if (!ok || links > MAX_LINKS || !check_links(r, op->in, true) ||
            !check_links(r, op->out, false)) {
            char what[32];
            snprintf(what, sizeof(what), "operator %u", i);
            return damaged(r, what);
        }
        r->m->n_ops++;
    }
    return TACHY_OK;
}

static int read_graph(struct reader *r)
{
    size_t root = follow(r->b, 0);
    struct tflite_table model = root ? table_at(r->b, root) : (struct tflite_table){.b = r->b};
    uint32_t version = (uint32_t)field(&model, 0, 4, 0);
    struct tflite_vector graphs = tflite_field_vector(&model, 2, 4);
    r->codes = tflite_field_vector(&model, 1, 4);
    r->buffers = tflite_field_vector(&model, 4, 4);
    if (r->b->bad || !graphs.n || r->codes.n > MAX_CODES || r->buffers.n > 2 * MAX_TENSORS)
        return damaged(r, "its head");
    if (version != 3)
        return tachy_fail(r->log, TACHY_ERR_UNSUPPORTED,
                          "%s: has TFLite schema version %u; only version 3 can be imported",
                          r->path, version);
    struct tflite_table graph = tflite_vector_table(r->b, graphs, 0);
    if (r->b->bad)
        return damaged(r, "its graph");
    int err = read_tensors(r, &graph);
    if (!err)
        err = read_ops(r, &graph);
    if (err)
        return err;
    r->m->in = tflite_field_vector(&graph, 1, 4);
    r->m->out = tflite_field_vector(&graph, 2, 4);
    if (r->b->bad || !r->m->in.n || !r->m->out.n || r->m->in.n > MAX_TENSORS ||
        r->m->out.n > MAX_TENSORS || !check_links(r, r->m->in, false) ||
        !check_links(r, r->m->out, false))
        return damaged(r, "the list of inputs and outputs");
    r->m->n_in = (int)r->m->in.n;
    r->m->n_out = (int)r->m->out.n;
    return TACHY_OK;
}

int tflite_open(struct tflite_model **out, const void *data, size_t size, const char *path,
                const struct tachy_log *log)
{
    *out = NULL;
    if (size < 8 || memcmp((const char *)data + 4, "TFL3", 4))
        return tachy_fail(log, TACHY_ERR_FORMAT,
                          "%s: is not a TFLite file (the mark TFL3 is missing)", path);
    struct tflite_model *m = calloc(1, sizeof(*m));
    if (!m)
        return TACHY_ERR_NOMEM;
    m->bytes = (struct tflite_bytes){.data = data, .size = size};
    struct reader r = {.m = m, .b = &m->bytes, .path = path, .log = log};
    int err = read_graph(&r);
    if (err) {
        tflite_close(&m);
        return err;
    }
    *out = m;
    return TACHY_OK;
}

void tflite_close(struct tflite_model **m)
{
    if (!*m)
        return;
    free((*m)->tensors);
    free((*m)->ops);
    free(*m);
    *m = NULL;
}

#define CODE_NAMES(X)                                                                              \
    X(ADD) X(AVERAGE_POOL_2D) X(CONCATENATION) X(CONV_2D) X(DEPTHWISE_CONV_2D) X(DEPTH_TO_SPACE)   \
    X(DEQUANTIZE) X(FLOOR) X(FULLY_CONNECTED) X(LOGISTIC) X(MAX_POOL_2D) X(MUL) X(RELU)            \
    X(RELU_N1_TO_1) X(RELU6) X(RESHAPE) X(RESIZE_BILINEAR) X(SOFTMAX) X(SPACE_TO_DEPTH) X(TANH)    \
    X(CUSTOM) X(PAD) X(GATHER) X(TRANSPOSE) X(MEAN) X(SUB) X(DIV) X(SQUEEZE) X(STRIDED_SLICE)      \
    X(EXP) X(SPLIT) X(CAST) X(PRELU) X(MAXIMUM) X(ARG_MAX) X(MINIMUM) X(NEG) X(PADV2) X(SLICE)     \
    X(TRANSPOSE_CONV) X(EXPAND_DIMS) X(LOG) X(SUM) X(SQRT) X(RSQRT) X(SHAPE) X(POW) X(REDUCE_MAX)  \
    X(PACK) X(UNPACK) X(FLOOR_DIV) X(SQUARE) X(RESIZE_NEAREST_NEIGHBOR) X(LEAKY_RELU)              \
    X(SQUARED_DIFFERENCE) X(ABS) X(GATHER_ND) X(QUANTIZE) X(HARD_SWISH) X(DENSIFY)

const char *tflite_code_name(int code)
{
    switch (code) {
#define X(name)                                                                                    \
    case TFLITE_##name:                                                                            \
        return #name;
        CODE_NAMES(X)
#undef X
    default:
        return NULL;
    }
}
