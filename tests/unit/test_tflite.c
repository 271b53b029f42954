// The TFLite reader and the import: on a small network that is built here, on every truncation
// of it and on every flipped bit.
#include "test.h"

#include "base/base.h"
#include "model/import.h"
#include "onnx/fields.h"
#include "onnx/file.h"
#include "onnx/wire.h"

#include <tachy/model.h>

// Writes FlatBuffers front to back: a table's offsets are patched once their targets exist.
struct writer {
    uint8_t b[8192];
    size_t n;
};

static void put(struct writer *w, size_t at, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        w->b[at + (size_t)i] = (uint8_t)(v >> 8 * i);
}

static size_t room(struct writer *w, size_t n)
{
    w->n = (w->n + 3) / 4 * 4;
    size_t at = w->n;
    w->n += n;
    if (w->n > sizeof(w->b)) {
        fprintf(stderr, "the test's network needs a larger buffer\n");
        exit(1);
    }
    return at;
}

// A table with fields 0..n-1 of four bytes each, those in `present` written.
static size_t table(struct writer *w, int n, unsigned present)
{
    size_t v = room(w, 4 + 2 * (size_t)n), t = room(w, 4 + 4 * (size_t)n);
    put(w, v, (uint32_t)(4 + 2 * n), 2);
    put(w, v + 2, (uint32_t)(4 + 4 * n), 2);
    for (int i = 0; i < n; i++)
        put(w, v + 4 + 2 * (size_t)i, present >> i & 1 ? (uint32_t)(4 + 4 * i) : 0, 2);
    put(w, t, (uint32_t)(t - v), 4);
    return t;
}

static void set(struct writer *w, size_t t, int field, uint32_t v) { put(w, t + 4 + 4 * (size_t)field, v, 4); }

// Points a field at what is written next.
static void point(struct writer *w, size_t t, int field)
{
    size_t at = t + 4 + 4 * (size_t)field, to = room(w, 0);
    put(w, at, (uint32_t)(to - at), 4);
}

static size_t vector(struct writer *w, size_t t, int field, int n, const int32_t *v)
{
    point(w, t, field);
    size_t at = room(w, 4 + 4 * (size_t)n);
    put(w, at, (uint32_t)n, 4);
    for (int i = 0; i < n; i++)
        put(w, at + 4 + 4 * (size_t)i, v ? (uint32_t)v[i] : 0, 4);
    return at + 4;
}

static void bytes(struct writer *w, size_t t, int field, const void *data, size_t n)
{
    point(w, t, field);
    size_t at = room(w, 4 + n);
    put(w, at, (uint32_t)n, 4);
    if (n)
        memcpy(w->b + at + 4, data, n);
}

// A vector's element must point at the table itself, which lies after its field list.
static size_t table_element(struct writer *w, size_t v, int i, int n, unsigned present)
{
    size_t t = table(w, n, present), at = v + 4 * (size_t)i;
    put(w, at, (uint32_t)(t - at), 4);
    return t;
}

static size_t table_field(struct writer *w, size_t t, int field, int n, unsigned present)
{
    size_t to = table(w, n, present), at = t + 4 + 4 * (size_t)field;
    put(w, at, (uint32_t)(to - at), 4);
    return to;
}

struct tensor_def {
    int rank;
    int32_t shape[4];
    int type, buffer;
};

struct op_def {
    int code, n_in, in[4], out, n_options;
    unsigned present;
    int32_t options[6];
};

enum { X, PADS, PADDED, W16, W32, BIAS, CONV, SLOPE, PRELU, SIZE, RESIZED, ADDED, AXES, MEAN, SPARSE,
       DENSE, FC, GATE, N_TENSORS };

static const struct tensor_def tensors[N_TENSORS] = {
    [X] = {4, {1, 4, 4, 2}, TFLITE_FLOAT32, 0},
    [PADS] = {2, {4, 2}, TFLITE_INT32, 1},
    [PADDED] = {4, {1, 6, 6, 2}, TFLITE_FLOAT32, 0},
    [W16] = {4, {8, 3, 3, 2}, TFLITE_FLOAT16, 2},
    [W32] = {4, {8, 3, 3, 2}, TFLITE_FLOAT32, 0},
    [BIAS] = {1, {8}, TFLITE_FLOAT32, 3},
    [CONV] = {4, {1, 2, 2, 8}, TFLITE_FLOAT32, 0},
    [SLOPE] = {3, {1, 1, 8}, TFLITE_FLOAT32, 3},
    [PRELU] = {4, {1, 2, 2, 8}, TFLITE_FLOAT32, 0},
    [SIZE] = {1, {2}, TFLITE_INT32, 4},
    [RESIZED] = {4, {1, 4, 4, 8}, TFLITE_FLOAT32, 0},
    [ADDED] = {4, {1, 4, 4, 8}, TFLITE_FLOAT32, 0},
    [AXES] = {1, {2}, TFLITE_INT32, 5},
    [MEAN] = {2, {1, 8}, TFLITE_FLOAT32, 0},
    [SPARSE] = {2, {4, 8}, TFLITE_FLOAT32, 6},
    [DENSE] = {2, {4, 8}, TFLITE_FLOAT32, 0},
    [FC] = {2, {1, 4}, TFLITE_FLOAT32, 0},
    [GATE] = {2, {1, 4}, TFLITE_FLOAT32, 0},
};

static const struct op_def ops[] = {
    {TFLITE_PAD, 2, {X, PADS}, PADDED, 0, 0, {0}},
    {TFLITE_DEQUANTIZE, 1, {W16}, W32, 0, 0, {0}},
    {TFLITE_CONV_2D, 3, {PADDED, W32, BIAS}, CONV, 4, 15, {1, 2, 2, 0}}, // valid, stride 2
    {TFLITE_PRELU, 2, {CONV, SLOPE}, PRELU, 0, 0, {0}},
    {TFLITE_RESIZE_BILINEAR, 2, {PRELU, SIZE}, RESIZED, 4, 12, {0, 0, 0, 1}}, // half pixels
    {TFLITE_ADD, 2, {RESIZED, BIAS}, ADDED, 1, 1, {1}},                        // relu
    {TFLITE_MEAN, 2, {ADDED, AXES}, MEAN, 1, 0, {0}},
    {TFLITE_DENSIFY, 1, {SPARSE}, DENSE, 0, 0, {0}},
    {TFLITE_FULLY_CONNECTED, 3, {MEAN, DENSE, -1}, FC, 1, 1, {0}},
    {TFLITE_LOGISTIC, 1, {FC}, GATE, 0, 0, {0}},
};
enum { N_OPS = TACHY_ARRAY_SIZE(ops) };

static void put_sparsity(struct writer *w, size_t tensor)
{
    // 4 rows dense, columns compressed: rows hold columns {0, 3}, {}, {7}, {1}.
    static const int32_t order[] = {0, 1};
    static const uint8_t segments[] = {0, 2, 2, 3, 4}, indices[] = {0, 3, 7, 1};
    size_t s = table_field(w, tensor, 6, 3, 5);
    vector(w, s, 0, 2, order);
    size_t levels = vector(w, s, 2, 2, NULL);
    size_t rows = table_element(w, levels, 0, 2, 3);
    set(w, rows, 0, 0);
    set(w, rows, 1, 4);
    size_t columns = table_element(w, levels, 1, 6, 61);
    set(w, columns, 0, 1);
    set(w, columns, 2, 3);
    bytes(w, table_field(w, columns, 3, 1, 1), 0, segments, sizeof(segments));
    set(w, columns, 4, 3);
    bytes(w, table_field(w, columns, 5, 1, 1), 0, indices, sizeof(indices));
}

static void put_tensors(struct writer *w, size_t graph)
{
    size_t list = vector(w, graph, 0, N_TENSORS, NULL);
    for (int i = 0; i < N_TENSORS; i++) {
        const struct tensor_def *d = &tensors[i];
        char name[16];
        size_t t = table_element(w, list, i, 7, i == SPARSE ? 79 : 15);
        vector(w, t, 0, d->rank, d->shape);
        set(w, t, 1, (uint32_t)d->type);
        set(w, t, 2, (uint32_t)d->buffer);
        bytes(w, t, 3, name, (size_t)snprintf(name, sizeof(name), "t%d", i));
        if (i == SPARSE)
            put_sparsity(w, t);
    }
}

static void put_ops(struct writer *w, size_t graph)
{
    size_t list = vector(w, graph, 3, N_OPS, NULL);
    for (int i = 0; i < N_OPS; i++) {
        const struct op_def *d = &ops[i];
        size_t o = table_element(w, list, i, 5, d->n_options ? 31 : 7);
        set(w, o, 0, (uint32_t)i);
        vector(w, o, 1, d->n_in, (const int32_t *)d->in);
        vector(w, o, 2, 1, &(int32_t){d->out});
        if (!d->n_options)
            continue;
        set(w, o, 3, 1);
        size_t t = table_field(w, o, 4, d->n_options, d->present);
        for (int k = 0; k < d->n_options; k++)
            set(w, t, k, (uint32_t)d->options[k]);
    }
}

static void put_buffers(struct writer *w, size_t model)
{
    static const int32_t pads[8] = {0, 0, 1, 1, 1, 1, 0, 0}, size[2] = {4, 4}, axes[2] = {1, 2};
    static const float bias[8] = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 1.8f};
    static const float values[4] = {1, 2, 3, 4};
    uint16_t halves[8 * 18];
    for (int i = 0; i < 8 * 18; i++)
        halves[i] = (uint16_t)(0x3000 + 37 * i % 0x800 + (i % 3 ? 0 : 0x8000));
    const struct {
        const void *data;
        size_t size;
    } data[] = {{NULL, 0},          {pads, sizeof(pads)}, {halves, sizeof(halves)}, {bias, sizeof(bias)},
                {size, sizeof(size)}, {axes, sizeof(axes)}, {values, sizeof(values)}};
    int n = (int)TACHY_ARRAY_SIZE(data);
    size_t list = vector(w, model, 4, n, NULL);
    for (int i = 0; i < n; i++) {
        size_t t = table_element(w, list, i, 1, data[i].data ? 1 : 0);
        if (data[i].data)
            bytes(w, t, 0, data[i].data, data[i].size);
    }
}

static void build(struct writer *w)
{
    memset(w, 0, sizeof(*w));
    w->n = 8;
    memcpy(w->b + 4, "TFL3", 4);
    size_t model = table(w, 5, 23);
    put(w, 0, (uint32_t)model, 4);
    set(w, model, 0, 3);
    size_t codes = vector(w, model, 1, N_OPS, NULL);
    for (int i = 0; i < N_OPS; i++) {
        size_t c = table_element(w, codes, i, 4, 9);
        set(w, c, 0, (uint32_t)ops[i].code & 127);
        set(w, c, 3, (uint32_t)ops[i].code);
    }
    size_t graphs = vector(w, model, 2, 1, NULL);
    size_t graph = table_element(w, graphs, 0, 4, 15);
    put_tensors(w, graph);
    vector(w, graph, 1, 1, &(int32_t){X});
    vector(w, graph, 2, 2, (int32_t[]){GATE, ADDED});
    put_ops(w, graph);
    put_buffers(w, model);
}

// Imports from a copy of exactly `n` bytes, so that ASan sees every read past the end.
static int import(const uint8_t *data, size_t n, char **onnx, size_t *size)
{
    uint8_t *copy = malloc(n ? n : 1);
    struct tflite_model *m = NULL;
    struct onnx_graph *g = NULL;
    *onnx = NULL;
    if (!copy)
        exit(1);
    memcpy(copy, data, n);
    int err = tflite_open(&m, copy, n, "test", NULL);
    if (!err)
        err = import_graph(&g, m, "test", NULL);
    if (!err)
        err = onnx_write(g, "test", onnx, size);
    onnx_free(&g);
    tflite_close(&m);
    free(copy);
    return err;
}

static struct writer net;

static int count_fields(struct wire_span s, int number)
{
    struct wire_field f;
    bool bad = false;
    int n = 0;
    while (wire_next(&s, &f, &bad))
        n += f.number == number;
    return bad ? -1 : n;
}

// The last field of this number, an empty one if there is none.
static struct wire_field inside(struct wire_span s, int number, enum wire_type type)
{
    struct wire_field f = {.bytes = {s.end, s.end}};
    return wire_find(s, number, type, &f) ? f : (struct wire_field){.bytes = {s.end, s.end}};
}

TEST(test_import)
{
    char *onnx, *again;
    size_t size, size_again;
    CHECK_INT(import(net.b, net.n, &onnx, &size), TACHY_OK);
    CHECK_INT(import(net.b, net.n, &again, &size_again), TACHY_OK);
    CHECK(onnx && again && size == size_again && !memcmp(onnx, again, size));
    if (onnx) {
        struct wire_span model = {(uint8_t *)onnx, (uint8_t *)onnx + size};
        struct wire_span graph = inside(model, MODEL_GRAPH, WIRE_BYTES).bytes;
        struct wire_span in = inside(graph, GRAPH_INPUT, WIRE_BYTES).bytes;
        struct wire_span out = inside(graph, GRAPH_OUTPUT, WIRE_BYTES).bytes; // the last
        struct wire_span type = inside(inside(out, VALUE_TYPE, WIRE_BYTES).bytes, TYPE_TENSOR, WIRE_BYTES).bytes;
        CHECK(wire_is(inside(model, MODEL_PRODUCER, WIRE_BYTES).bytes, "tachyscope"));
        CHECK_INT(inside(inside(model, MODEL_OPSET, WIRE_BYTES).bytes, OPSET_VERSION, WIRE_VARINT).value, ONNX_OPSET);
        CHECK_INT(count_fields(graph, GRAPH_INPUT), 1);
        CHECK_INT(count_fields(graph, GRAPH_OUTPUT), 2);
        CHECK(wire_is(inside(in, VALUE_NAME, WIRE_BYTES).bytes, "t0"));
        CHECK(wire_is(inside(out, VALUE_NAME, WIRE_BYTES).bytes, "t11"));
        CHECK_INT(inside(type, TYPE_ELEMENT, WIRE_VARINT).value, ONNX_FLOAT);
        CHECK_INT(count_fields(inside(type, TYPE_SHAPE, WIRE_BYTES).bytes, SHAPE_DIM), 4);
    }
    tachy_free(onnx);
    tachy_free(again);
}

TEST(test_sparse)
{
    struct tflite_model *m = NULL;
    float dense[32] = {0};
    CHECK_INT(tflite_open(&m, net.b, net.n, "test", NULL), TACHY_OK);
    if (!m)
        return;
    CHECK(tflite_densify(m, &m->tensors[SPARSE], (uint8_t *)dense));
    for (int i = 0; i < 32; i++)
        CHECK(dense[i] == (i == 0 ? 1 : i == 3 ? 2 : i == 23 ? 3 : i == 25 ? 4 : 0));
    tflite_close(&m);
}

TEST(test_halves)
{
    CHECK(tflite_half(0x3c00) == 1.0f);
    CHECK(tflite_half(0xc000) == -2.0f);
    CHECK(tflite_half(0x7bff) == 65504.0f);
    CHECK(tflite_half(0x0001) == 0x1p-24f);
    CHECK(tflite_half(0x03ff) == 1023 * 0x1p-24f);
    CHECK(tflite_half(0x7c00) > 3e38f);
    CHECK(tflite_half(0x7e00) != tflite_half(0x7e00));
}

static int no_location(void *user, const char *location) { return TACHY_ERR_FORMAT; }

static bool is_refusal(int err)
{
    return err == TACHY_ERR_FORMAT || err == TACHY_ERR_UNSUPPORTED || err == TACHY_ERR_LIMIT;
}

TEST(test_truncated)
{
    char *onnx;
    size_t size;
    int refused = 0;
    for (size_t n = 0; n < net.n; n++) {
        int err = import(net.b, n, &onnx, &size);
        CHECK(err == TACHY_OK || is_refusal(err));
        refused += err != TACHY_OK;
        tachy_free(onnx);
    }
    CHECK(refused > (int)net.n * 9 / 10); // the last bytes may be padding
}

TEST(test_flipped_bits)
{
    char *onnx;
    size_t size;
    int refused = 0, kept = 0;
    for (size_t i = 0; i < net.n * 8; i++) {
        struct writer bad = net;
        bad.b[i / 8] ^= (uint8_t)(1 << i % 8);
        int err = import(bad.b, bad.n, &onnx, &size);
        if (err != TACHY_OK && !is_refusal(err)) {
            fprintf(stderr, "bit %zu of byte %zu: code %d\n", i % 8, i / 8, err);
            CHECK(false);
        }
        if (!err) // what is written after all must be readable
            CHECK_INT(onnx_each_location(onnx, size, no_location, NULL), TACHY_OK);
        tachy_free(onnx);
        refused += err != TACHY_OK;
        kept += err == TACHY_OK;
    }
    CHECK(refused > 1000 && kept > 1000); // offsets and shapes are checked, weights may change
}

static int count_dim(void *user, const struct onnx_free_dim *d)
{
    CHECK(d->input[0] && d->name[0] && d->axis < d->rank);
    ++*(int *)user;
    return TACHY_OK;
}

// A file cut at `n` bytes, in memory of just that size.
static void check_damaged(const char *onnx, size_t n, int64_t flip)
{
    static const struct onnx_fix fix = {.path = "test", .batch = 3};
    char *copy = malloc(n ? n : 1);
    void *fixed = NULL;
    size_t size;
    if (!copy)
        exit(1);
    memcpy(copy, onnx, n);
    if (flip >= 0)
        copy[flip / 8] ^= (char)(1 << flip % 8);
    int err = onnx_each_location(copy, n, no_location, NULL), dims = 0;
    CHECK(err == TACHY_OK || is_refusal(err));
    err = onnx_each_free_dim(copy, n, count_dim, &dims);
    CHECK(err == TACHY_OK || is_refusal(err));
    CHECK(n || err == TACHY_ERR_FORMAT);
    err = onnx_fix_inputs(&fixed, &size, copy, n, &fix, NULL);
    CHECK(err == TACHY_OK || is_refusal(err));
    CHECK((err == TACHY_OK) == (fixed != NULL));
    free(fixed);
    free(copy);
}

TEST(test_onnx_reader_on_damage)
{
    char *onnx;
    size_t size;
    CHECK_INT(import(net.b, net.n, &onnx, &size), TACHY_OK);
    for (size_t n = 0; onnx && n < size; n++)
        check_damaged(onnx, n, -1);
    for (size_t bit = 0; onnx && bit < size * 8; bit++)
        check_damaged(onnx, size, (int64_t)bit);
    tachy_free(onnx);
}

// One byte changed so that a certain check must speak.
static int import_with(size_t at, uint32_t v, int n)
{
    struct writer w = net;
    char *onnx;
    size_t size;
    put(&w, at, v, n);
    int err = import(w.b, w.n, &onnx, &size);
    tachy_free(onnx);
    return err;
}

TEST(test_refusals)
{
    CHECK_INT(import_with(4, 0, 4), TACHY_ERR_FORMAT);          // the mark
    CHECK_INT(import_with(0, 0xffffffff, 4), TACHY_ERR_FORMAT); // the root's offset
    size_t model = net.b[0] | (size_t)net.b[1] << 8;
    CHECK_INT(import_with(model + 4, 2, 4), TACHY_ERR_UNSUPPORTED); // schema version
}

static void catch(void *user, enum tachy_log_level level, const char *msg)
{
    snprintf(user, 256, "%s", msg);
}

TEST(test_unknown_operator_is_named)
{
    struct writer w = net;
    struct tflite_model *m = NULL;
    struct onnx_graph *g = NULL;
    char said[256] = "";
    struct tachy_log log = {.fn = catch, .user = said};
    CHECK_INT(tflite_open(&m, w.b, w.n, "net.tflite", &log), TACHY_OK);
    if (!m)
        return;
    m->ops[3].code = 44; // an LSTM, which is not supported
    CHECK_INT(import_graph(&g, m, "net.tflite", &log), TACHY_ERR_UNSUPPORTED);
    CHECK(strstr(said, "net.tflite") && strstr(said, "operator 3"));
    CHECK(!g);
    tflite_close(&m);
}

int main(void)
{
    static const struct test_case cases[] = {
        TEST_CASE(test_import),          TEST_CASE(test_sparse),
        TEST_CASE(test_halves),          TEST_CASE(test_truncated),
        TEST_CASE(test_flipped_bits),    TEST_CASE(test_onnx_reader_on_damage),
        TEST_CASE(test_refusals),        TEST_CASE(test_unknown_operator_is_named),
    };
    build(&net);
    return test_run(cases, sizeof(cases) / sizeof(cases[0]));
}
