#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tachy/common.h>

// Reads TensorFlow Lite files: FlatBuffers of the schema "TFL3", version 3. Every offset,
// length and index of the file is checked before it is used; nothing is copied but the list
// of tensors and operators, so the file's bytes must outlive the model.

#define TFLITE_MAX_RANK 6

// Field numbers, enum values and operator codes are those of TensorFlow's schema.fbs.
enum tflite_type {
    TFLITE_FLOAT32 = 0,
    TFLITE_FLOAT16 = 1,
    TFLITE_INT32 = 2,
    TFLITE_UINT8 = 3,
    TFLITE_INT64 = 4,
    TFLITE_BOOL = 6,
    TFLITE_INT8 = 9,
};

enum tflite_code {
    TFLITE_ADD = 0,
    TFLITE_AVERAGE_POOL_2D = 1,
    TFLITE_CONCATENATION = 2,
    TFLITE_CONV_2D = 3,
    TFLITE_DEPTHWISE_CONV_2D = 4,
    TFLITE_DEPTH_TO_SPACE = 5,
    TFLITE_DEQUANTIZE = 6,
    TFLITE_FLOOR = 8,
    TFLITE_FULLY_CONNECTED = 9,
    TFLITE_LOGISTIC = 14,
    TFLITE_MAX_POOL_2D = 17,
    TFLITE_MUL = 18,
    TFLITE_RELU = 19,
    TFLITE_RELU_N1_TO_1 = 20,
    TFLITE_RELU6 = 21,
    TFLITE_RESHAPE = 22,
    TFLITE_RESIZE_BILINEAR = 23,
    TFLITE_SOFTMAX = 25,
    TFLITE_SPACE_TO_DEPTH = 26,
    TFLITE_TANH = 28,
    TFLITE_CUSTOM = 32,
    TFLITE_PAD = 34,
    TFLITE_GATHER = 36,
    TFLITE_TRANSPOSE = 39,
    TFLITE_MEAN = 40,
    TFLITE_SUB = 41,
    TFLITE_DIV = 42,
    TFLITE_SQUEEZE = 43,
    TFLITE_STRIDED_SLICE = 45,
    TFLITE_EXP = 47,
    TFLITE_SPLIT = 49,
    TFLITE_CAST = 53,
    TFLITE_PRELU = 54,
    TFLITE_MAXIMUM = 55,
    TFLITE_ARG_MAX = 56,
    TFLITE_MINIMUM = 57,
    TFLITE_NEG = 59,
    TFLITE_PADV2 = 60,
    TFLITE_SLICE = 65,
    TFLITE_TRANSPOSE_CONV = 67,
    TFLITE_EXPAND_DIMS = 70,
    TFLITE_LOG = 73,
    TFLITE_SUM = 74,
    TFLITE_SQRT = 75,
    TFLITE_RSQRT = 76,
    TFLITE_SHAPE = 77,
    TFLITE_POW = 78,
    TFLITE_REDUCE_MAX = 82,
    TFLITE_PACK = 83,
    TFLITE_UNPACK = 88,
    TFLITE_FLOOR_DIV = 90,
    TFLITE_SQUARE = 92,
    TFLITE_RESIZE_NEAREST_NEIGHBOR = 97,
    TFLITE_LEAKY_RELU = 98,
    TFLITE_SQUARED_DIFFERENCE = 99,
    TFLITE_ABS = 101,
    TFLITE_GATHER_ND = 107,
    TFLITE_QUANTIZE = 114,
    TFLITE_HARD_SWISH = 117,
    TFLITE_DENSIFY = 124,
};

// The file's bytes. `bad` is set by the first read that would leave them; such reads give 0.
struct tflite_bytes {
    const uint8_t *data;
    size_t size;
    bool bad;
};

// A FlatBuffers table; `at` 0: absent, every field has its default.
struct tflite_table {
    struct tflite_bytes *b;
    size_t at, vtable, vtable_size;
};

// A FlatBuffers vector: `n` elements from byte `at` on, checked to lie within the file.
struct tflite_vector {
    size_t at;
    uint32_t n;
};

struct tflite_tensor {
    const char *name; // not terminated; may be any bytes
    size_t name_size;
    int type; // enum tflite_type, or a value that it does not list
    int rank;
    int64_t shape[TFLITE_MAX_RANK]; // each 0..INT32_MAX; the product is below 2^31
    int64_t elements;
    const uint8_t *data; // constants; NULL: computed. Unaligned
    size_t size;         // bytes at data
    struct tflite_vector scale, zero_point; // float32 and int64; scale.n == 0: not quantised
    int axis;                               // that scale.n > 1 belongs to
    struct tflite_table sparsity;           // at == 0: dense
};

struct tflite_op {
    int code;           // enum tflite_code, or a value that it does not list
    const char *custom; // name of a TFLITE_CUSTOM, not terminated
    size_t custom_size;
    int n_in, n_out;
    struct tflite_vector in, out; // int32 tensor numbers; read with tflite_in(), tflite_out()
    struct tflite_table options;  // `at` 0 if the file has none
    const uint8_t *raw;           // custom options, NULL: none
    size_t raw_size;
};

struct tflite_model {
    struct tflite_bytes bytes;
    int n_tensors, n_ops, n_in, n_out;
    struct tflite_tensor *tensors;
    struct tflite_op *ops;
    struct tflite_vector in, out; // of the graph, checked tensor numbers
};

// Parses the first subgraph of a file. `path` names it in messages. TACHY_ERR_FORMAT,
// TACHY_ERR_UNSUPPORTED (control flow in further subgraphs is found by its operators),
// TACHY_ERR_LIMIT, TACHY_ERR_NOMEM.
int tflite_open(struct tflite_model **out, const void *data, size_t size, const char *path,
                const struct tachy_log *log);
void tflite_close(struct tflite_model **m);

// Tensor number of an operator's or the graph's input or output; -1: an optional one that is
// absent. `i` must be below the count.
int tflite_in(const struct tflite_model *m, const struct tflite_op *op, int i);
int tflite_out(const struct tflite_model *m, const struct tflite_op *op, int i);
int tflite_graph_in(const struct tflite_model *m, int i);
int tflite_graph_out(const struct tflite_model *m, int i);

// A scalar field of an operator's options by its number in the schema.
int tflite_opt_i8(const struct tflite_op *op, int field, int def);
int tflite_opt_i32(const struct tflite_op *op, int field, int def);
float tflite_opt_f32(const struct tflite_op *op, int field, float def);

// Any table's fields: what the readers of options and of sparse constants are made of.
int tflite_field_i8(const struct tflite_table *t, int field, int def);
int32_t tflite_field_i32(const struct tflite_table *t, int field, int32_t def);
struct tflite_table tflite_field_table(const struct tflite_table *t, int field);
struct tflite_vector tflite_field_vector(const struct tflite_table *t, int field, size_t element);
struct tflite_table tflite_vector_table(struct tflite_bytes *b, struct tflite_vector v, uint32_t i);

// Elements of checked vectors.
float tflite_f32(const struct tflite_model *m, struct tflite_vector v, uint32_t i);
int64_t tflite_i64(const struct tflite_model *m, struct tflite_vector v, uint32_t i);

// "CONV_2D" or, for operators that are not known here, NULL.
const char *tflite_code_name(int code);

// Widens IEEE 754 binary16.
float tflite_half(uint16_t h);

// Bytes an element has in the file, 0 for types that are not read.
size_t tflite_type_size(int type);

// Writes the elements of a sparse constant (DENSIFY) into `dense`, which has t->elements
// elements of tflite_type_size() bytes, zeroed. False if the encoding is damaged.
bool tflite_densify(const struct tflite_model *m, const struct tflite_tensor *t, uint8_t *dense);
