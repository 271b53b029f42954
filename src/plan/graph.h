#pragma once
#include "base/base.h"

#include <tachy/tensor.h>

// The graph that a plan is made from: values with a fixed shape, and nodes that make values from
// values. Passes (src/plan/pass_*.c) change it; a back end (cpu/, cuda/) turns what is left into
// steps. Nothing here knows a device or a front end.
//
// A graph is used by one thread. Names are for people; identity is the pointer. Everything that a
// graph hands out lives until tachy_graph_close(), also what passes take out of it.

// Operators. src/provider says which ONNX operators map to them. Columns: name, inputs (fewest, most), meaning of the
// attributes
#define TACHY_PLAN_OPS(X)                                                                          \
    X(CONV, "Conv", 2, 6)         /* x, weights [out][in/groups][kh][kw], bias, added (on a GPU    \
                                     perhaps a constant of one image), scale of x's channels       \
                                     [n][c][1][1], slope of PRelu; conv */                         \
    X(DECONV, "ConvTranspose", 2, 3) /* x, weights [in][out/groups][kh][kw], bias; conv */         \
    X(MATMUL, "MatMul", 2, 4)     /* a, b, bias, added (of the result's shape, if b is a constant matrix); matmul */ \
    X(UNARY, "Unary", 1, 2)       /* x, slope of PRelu; act */                                     \
    X(BINARY, "Binary", 2, 2)     /* a, b, broadcast as in ONNX; binary */                         \
    X(CONCAT, "Concat", 1, 64)    /* axis */                                                       \
    X(SLICE, "Slice", 1, 1)       /* slice */                                                      \
    X(PAD, "Pad", 1, 1)           /* pad */                                                        \
    X(TRANSPOSE, "Transpose", 1, 1) /* perm */                                                     \
    X(RESHAPE, "Reshape", 1, 1)   /* the output's shape; also Flatten, Squeeze, Unsqueeze */       \
    X(EXPAND, "Expand", 1, 1)     /* the output's shape */                                         \
    X(RESIZE, "Resize", 1, 3)     /* x, added, scale of what is added's channels [n][c][1][1];     \
                                     resize */                                                     \
    X(POOL, "Pool", 1, 1)         /* pool */                                                       \
    X(REDUCE, "Reduce", 1, 1)     /* reduce */                                                     \
    X(SOFTMAX, "Softmax", 1, 2)   /* x, constant weights [k]; axis; log: its logarithm. With weights, the softmax is that of each  \
                                     k numbers along the axis, and the output is its sum, each times its weight */  \
    X(SELECT, "Select", 3, 3)     /* condition, where it holds, where not; broadcast as BINARY */  \
    X(GATHER, "Gather", 2, 2)     /* x, indices; axis; ONNX's Gather */                            \
    X(GATHER_EACH, "GatherEach", 2, 2) /* x, indices; axis; ONNX's GatherElements */               \
    X(GATHER_ND, "GatherNd", 2, 2)     /* x, indices; axis: how many dimensions are batches */     \
    X(SCATTER_EACH, "ScatterEach", 3, 3) /* x, indices, updates; scatter; ONNX's ScatterElements */ \
    X(SCATTER_ND, "ScatterNd", 3, 3)     /* x, indices, updates; scatter; ONNX's ScatterND */      \
    X(TOP, "Top", 1, 1)           /* arg without last; indices of the best, as many as the output has along the      \
                                     axis, the best first; of equal ones the first. NaN is the worst */   \
    X(ARG, "Arg", 1, 1)           /* arg; the axis stays, with length 1 */                         \
    X(LAYER_NORM, "LayerNorm", 2, 3)   /* x, scale, shift; norm; over the last dimension */        \
    X(GROUP_NORM, "GroupNorm", 3, 3)   /* x [n][c].., scale [c], shift [c]; norm */                \
    X(GRID_SAMPLE, "GridSample", 2, 2) /* x, grid; grid; pictures or volumes */                    \
    X(CONV_INT8, "ConvInt8", 4, 5) /* x U8 or I8, weights I8 as CONV, multipliers F32 [out], biases I32 [out], added; \
                                     conv and levels; pass_int8.c makes it and the next two */     \
    X(BINARY_INT8, "BinaryInt8", 2, 2) /* a, b of one shape, U8 or I8; binary (ADD or MUL) and levels */ \
    X(TABLE, "Table", 2, 2)       /* x U8 or I8, constant [256]: element i is the result of a byte whose bits are i */

enum tachy_plan_op {
#define TACHY_PLAN_OP_ENUM(op, name, least, most) TACHY_OP_##op,
    TACHY_PLAN_OPS(TACHY_PLAN_OP_ENUM)
#undef TACHY_PLAN_OP_ENUM
        TACHY_OP_COUNT
};
const char *tachy_plan_op_name(enum tachy_plan_op op);
bool tachy_plan_op_inputs(enum tachy_plan_op op, int n); // whether it can have n inputs

// Functions of single numbers. Formulas as in ONNX's operator of the same name.
enum tachy_plan_act {
    TACHY_PLAN_NONE = 0,
    TACHY_PLAN_RELU,
    TACHY_PLAN_CLIP,       // min(max(x, a), b); Relu6 is 0, 6
    TACHY_PLAN_LEAKY,      // x < 0 ? a x : x
    TACHY_PLAN_PRELU,      // the slope is an input, one per channel or one for all
    TACHY_PLAN_SIGMOID,
    TACHY_PLAN_HSIGMOID,   // min(max(a x + b, 0), 1)
    TACHY_PLAN_HSWISH,     // x min(max(x / 6 + 1/2, 0), 1)
    TACHY_PLAN_SWISH,      // x sigmoid(x)
    TACHY_PLAN_TANH,
    TACHY_PLAN_EXP,
    TACHY_PLAN_SQRT,
    TACHY_PLAN_NEG,
    TACHY_PLAN_ABS,
    TACHY_PLAN_GELU,      // x / 2 (1 + erf(x / sqrt 2))
    TACHY_PLAN_GELU_TANH, // its approximation by tanh
    TACHY_PLAN_ELU,       // x < 0 ? a (exp(x) - 1) : x
    TACHY_PLAN_SOFTPLUS,
    TACHY_PLAN_MISH, // x tanh(softplus(x))
    TACHY_PLAN_ERF,
    TACHY_PLAN_LEVELS, // the nearest whole number, halves to the even one, within a to b, a <= b; NaN: a
    // From here on: only for UNARY, never the end of another node. The last four also take integers.
    TACHY_PLAN_LOG,
    TACHY_PLAN_SIN,
    TACHY_PLAN_COS,
    TACHY_PLAN_TAN,
    TACHY_PLAN_ASIN,
    TACHY_PLAN_ACOS,
    TACHY_PLAN_ATAN,
    TACHY_PLAN_SINH,
    TACHY_PLAN_COSH,
    TACHY_PLAN_ASINH,
    TACHY_PLAN_ACOSH,
    TACHY_PLAN_ATANH,
    TACHY_PLAN_FLOOR,
    TACHY_PLAN_CEIL,
    TACHY_PLAN_ROUND, // halves to the even neighbour
    TACHY_PLAN_RECIPROCAL,
    TACHY_PLAN_SOFTSIGN,  // x / (1 + |x|)
    TACHY_PLAN_THRESHOLD, // x > a ? x : 0
    TACHY_PLAN_SHRINK,    // x < -a ? x + b : x > a ? x - b : 0
    TACHY_PLAN_IS_NAN,    // 0 or 1
    TACHY_PLAN_IS_INF,    // a: also the negative one, b: also the positive one
    TACHY_PLAN_QUANTIZE,  // halves to the even neighbour, plus a, within b to b + 255: of type U8 or I8
    TACHY_PLAN_SIGN,
    TACHY_PLAN_TRUNC, // towards zero, within the limits of the output's type; NaN: the lower one
    TACHY_PLAN_TRUTH, // x != 0
    TACHY_PLAN_NOT,   // x == 0
    TACHY_PLAN_ACTS
};
const char *tachy_plan_act_name(enum tachy_plan_act a);
// True if CONV, MATMUL, BINARY and their like may end in it.
bool tachy_plan_act_ends(enum tachy_plan_act a);

enum tachy_plan_binary {
    TACHY_PLAN_ADD = 0,
    TACHY_PLAN_SUB,
    TACHY_PLAN_MUL,
    TACHY_PLAN_DIV,
    TACHY_PLAN_MIN,
    TACHY_PLAN_MAX,
    TACHY_PLAN_POW,
    TACHY_PLAN_FMOD, // with the sign of a
    TACHY_PLAN_MOD,  // with the sign of b
    // From here on: 0 or 1, of type U8.
    TACHY_PLAN_EQUAL,
    TACHY_PLAN_LESS,
    TACHY_PLAN_LESS_EQUAL,
    TACHY_PLAN_GREATER,
    TACHY_PLAN_GREATER_EQUAL,
    TACHY_PLAN_AND,
    TACHY_PLAN_OR,
    TACHY_PLAN_XOR,
    TACHY_PLAN_BINARIES
};
const char *tachy_plan_binary_name(enum tachy_plan_binary b);
static inline bool tachy_plan_binary_compares(enum tachy_plan_binary b) { return b >= TACHY_PLAN_EQUAL; }

enum tachy_plan_reduce {
    TACHY_PLAN_MEAN = 0,
    TACHY_PLAN_SUM,
    TACHY_PLAN_RMAX,
    TACHY_PLAN_RMIN,
    TACHY_PLAN_PROD,
    TACHY_PLAN_L1,
    TACHY_PLAN_L2,
    TACHY_PLAN_SUM_SQUARE,
    TACHY_PLAN_LOG_SUM,
    TACHY_PLAN_LOG_SUM_EXP,
    TACHY_PLAN_REDUCES
};
enum tachy_plan_scatter { // what becomes of an element that is written to
    TACHY_PLAN_SCATTER_SET = 0, // the last one written stays
    TACHY_PLAN_SCATTER_ADD,
    TACHY_PLAN_SCATTER_MUL,
    TACHY_PLAN_SCATTER_MAX,
    TACHY_PLAN_SCATTER_MIN,
    TACHY_PLAN_SCATTERS
};
enum tachy_plan_resize { TACHY_PLAN_NEAREST = 0, TACHY_PLAN_LINEAR, TACHY_PLAN_CUBIC };
enum tachy_plan_outside { TACHY_PLAN_ZEROS = 0, TACHY_PLAN_BORDER, TACHY_PLAN_REFLECTION };
// Maps an output's centre to the input (ONNX's coordinate_transformation_mode).
enum tachy_plan_coords {
    TACHY_PLAN_HALF_PIXEL = 0,
    TACHY_PLAN_ASYMMETRIC,
    TACHY_PLAN_ALIGN_CORNERS,
    TACHY_PLAN_PYTORCH_HALF_PIXEL,
};

struct tachy_plan_act_of {
    enum tachy_plan_act act;
    float a, b;
};

// The operator determines the valid member.
struct tachy_plan_attr {
    union {
        struct {
            int kernel[2], stride[2], dilation[2]; // height, width
            int pad[4];                            // top, left, bottom, right
            int groups;
            int out_pad[2]; // DECONV
            // CONV, one group: the pictures are planes of one volume, and picture n of the output is made of x's from n - before on,
            // so many; what lies outside is zero. The weights' channels are those of the first, then of the next. 0: one, n itself.
            int planes, before;
        } conv;
        struct {
            int kernel[2], stride[2], pad[4];
            bool average;       // else the maximum
            bool count_padding; // of an average
        } pool;
        struct {
            bool trans_a, trans_b;
            float alpha;
        } matmul;
        struct {
            int64_t start[TACHY_MAX_RANK], step[TACHY_MAX_RANK]; // step < 0: backwards
        } slice;
        struct {
            int64_t before[TACHY_MAX_RANK], after[TACHY_MAX_RANK]; // >= 0
            float value;
        } pad;
        struct {
            enum tachy_plan_resize mode;
            enum tachy_plan_coords coords;
            int round; // nearest: 0 down at .5 (round_prefer_floor), 1 floor, 2 up at .5, 3 ceil
            float scale[2]; // height, width; output / input unless the model says otherwise
            float cubic;    // its coefficient a, as in ONNX
            bool exclude;   // cubic: what lies outside has no weight, else it repeats the border
        } resize;
        struct {
            enum tachy_plan_reduce how;
            bool axis[TACHY_MAX_RANK];
        } reduce;
        struct {
            int axis;
            bool min, last; // the smallest, the last of equal ones
        } arg;
        struct {
            int axis; // SCATTER_EACH
            enum tachy_plan_scatter how;
        } scatter;
        struct {
            int groups; // of channels; GROUP_NORM
            float epsilon;
        } norm;
        struct {
            enum tachy_plan_resize mode;
            enum tachy_plan_outside outside;
            bool align_corners;
        } grid;
        int perm[TACHY_MAX_RANK]; // output axis i is input axis perm[i]
        int axis;
        enum tachy_plan_binary binary;
    };
    // UNARY: what it does. CONV, DECONV, MATMUL, BINARY, RESIZE: what is done to the result at the end.
    struct tachy_plan_act_of act;
    // CONV_INT8, BINARY_INT8: a number q stands for (q - zero) scale, and a value v for rint(v / scale) + zero, clamped
    // to its type. A convolution's value is act(sum multiplier), where sum is bias + sum of (x - in_zero) w. If a
    // tensor is added, the value is first rounded to the first levels, of type `type`; then the levels are added and
    // act is applied.
    struct {
        float in_zero;
        float zero[2], scale[2]; // BINARY_INT8: of both operands; CONV_INT8: of its own value and of the added tensor
        enum tachy_dtype type;
        float out_zero, out_scale; // of a result of U8 or I8
    } levels;
    bool log; // SOFTMAX
    bool act_before_add; // CONV, RESIZE with an added tensor: act(x) + added, else act(x + added)
    // CONV, RESIZE: a mean over the result's pixels follows, so each output row is summed as it is written. The result
    // is the same with and without.
    bool row_sums;
};

struct tachy_node;

// One input of a node that reads a value. Those of one value are a list in no order.
struct tachy_use {
    struct tachy_node *by;
    struct tachy_use *prev, *next;
};

// A tensor: an input of the graph, a constant, or a node's output.
//
// Types: computed values are floats, F32 when a front end makes them. A pass may make a node's output F16 or BF16
// (tachy_plan_half()): it is then rounded when stored, or not at all by a back end without that type. Values of U8, I8,
// I32 and I64 hold integers of magnitude up to `most` (a truth value is a U8 of 0 or 1). If `most` is at most
// TACHY_PLAN_WHOLE, a back end may hold every element as a float. If it is larger, each element is still a float (Cast
// clamped it), unless `most` is TACHY_PLAN_ANY: such numbers, from a graph's int32 and int64 inputs and nodes that move
// them, are rounded to floats. They may only be read where this changes nothing: as float32, as indices (those beyond
// TACHY_PLAN_WHOLE are out of range), as truth values, for their sign, or compared with smaller constants.
// tachy_graph_verify() knows which operators take and make them; RESHAPE gives the same numbers another type.
enum { TACHY_PLAN_WHOLE = 1 << 24 };
static inline bool tachy_is_half(enum tachy_dtype t) { return t == TACHY_F16 || t == TACHY_BF16; }
static inline bool tachy_is_float(enum tachy_dtype t) { return t == TACHY_F32 || tachy_is_half(t); }
#define TACHY_PLAN_ANY INT64_MAX
struct tachy_value {
    int id; // in the order of creation, for people
    char *name;
    enum tachy_dtype dtype;
    int rank;
    int64_t shape[TACHY_MAX_RANK];
    // The order in which dimensions of a picture lie in memory: shape[] is always as ONNX says
    // (N C H W); a value with `nhwc` has its channels last.
    bool nhwc;
    const void *data;           // constant, dense, in shape's order; NULL otherwise
    struct tachy_node *made_by; // NULL: an input or a constant
    int uses;                   // by nodes' inputs and the graph's outputs
    struct tachy_use *used;     // those by nodes' inputs
    int64_t most; // of whole numbers: the largest magnitude that an element can have
    const struct tachy_quantised *quantised; // of a constant F32 that a model has as whole numbers; NULL: it is none
};

// (q - zero) scale, element by element. Lives as long as the graph.
struct tachy_quantised {
    const struct tachy_value *q; // U8, I8 or I32
    const float *scale, *zero;   // one for all, or one for each index along `axis`
    int64_t nb_scales, nb_zeros;
    int axis;
};

struct tachy_node {
    enum tachy_plan_op op;
    char *name; // of the model's node that it came from
    struct tachy_plan_attr attr;
    struct tachy_value **in; // absent inputs are NULL; changed only by tachy_node_set_input()
    struct tachy_use *use;   // one for each input
    int nb_in;
    struct tachy_value *out;
    struct tachy_node *prev, *next; // in an order in which values are made before they are used
};

struct tachy_graph {
    const struct tachy_log *log;
    struct tachy_node *first, *last;
    struct tachy_value **in, **out; // of the graph
    int nb_in, nb_out;
    struct tachy_value **values; // all that were ever made
    int nb_values;
    struct graph_memory *memory; // blocks that live as long as the graph
    char *small; // `left` bytes of one of them that are not used yet
    size_t left;
};

int tachy_graph_open(struct tachy_graph **out, const struct tachy_log *log);
void tachy_graph_close(struct tachy_graph **g);
// A graph of the same values (same ids), nodes, inputs and outputs. `constants`: with a copy of their
// data, so that nothing of `g` is needed afterwards. TACHY_ERR_NOMEM; *out is NULL then.
int tachy_graph_copy(struct tachy_graph **out, const struct tachy_graph *g, bool constants);

// All of these return NULL when out of memory. Names may be NULL and are copied.
struct tachy_value *tachy_graph_value(struct tachy_graph *g, const char *name, enum tachy_dtype t,
                                      int rank, const int64_t *shape);
// A constant whose data is the caller's and outlives the graph.
struct tachy_value *tachy_graph_constant(struct tachy_graph *g, const char *name, enum tachy_dtype t,
                                         int rank, const int64_t *shape, const void *data);
// `size` zeroed bytes, 64-byte aligned, that live as long as the graph.
void *tachy_graph_alloc(struct tachy_graph *g, size_t size);
int tachy_graph_add_input(struct tachy_graph *g, struct tachy_value *v);  // TACHY_ERR_NOMEM
int tachy_graph_add_output(struct tachy_graph *g, struct tachy_value *v); // TACHY_ERR_NOMEM

// A node in front of `before` (NULL: at the end) that makes `out`.
struct tachy_node *tachy_graph_node(struct tachy_graph *g, struct tachy_node *before,
                                    enum tachy_plan_op op, const char *name,
                                    const struct tachy_plan_attr *attr,
                                    struct tachy_value *const in[], int nb_in,
                                    struct tachy_value *out);
void tachy_node_set_input(struct tachy_node *n, int i, struct tachy_value *v);
// Room for `nb_in` inputs, the new ones absent; fewer: those at the end go. False: out of memory.
bool tachy_node_set_inputs(struct tachy_graph *g, struct tachy_node *n, int nb_in);
// Everything that used `from` uses `to` from now on, the graph's outputs too.
void tachy_graph_replace(struct tachy_graph *g, struct tachy_value *from, struct tachy_value *to);
// Takes a node out. Its output must have no uses.
void tachy_graph_remove(struct tachy_graph *g, struct tachy_node *n);
// The only node that uses `v`; NULL if there are none or several, or if it is a graph output.
static inline struct tachy_node *tachy_value_user(const struct tachy_value *v)
{
    return v->uses == 1 && v->used ? v->used->by : NULL;
}

static inline bool tachy_value_is_constant(const struct tachy_value *v) { return v && v->data; }
int64_t tachy_value_elements(const struct tachy_value *v);
static inline bool tachy_value_same_shape(const struct tachy_value *a, const struct tachy_value *b)
{
    return a->rank == b->rank && !memcmp(a->shape, b->shape, sizeof(int64_t) * (size_t)a->rank);
}

// Types (graph_types.c). The largest magnitude of a type, INT64_MAX for the wide ones; that of a
// constant's elements; that of what a node makes, by its inputs' `most`. 0 for floats.
int64_t tachy_dtype_most(enum tachy_dtype t);
// The smallest number of an integer type, and its largest that is a float32.
void tachy_dtype_limits(enum tachy_dtype t, float *least, float *most);
int64_t tachy_constant_most(const struct tachy_value *v);
int64_t tachy_node_most(const struct tachy_node *n);
// Tells what is wrong with the types of a node's inputs and output, or NULL.
const char *tachy_node_types_wrong(const struct tachy_node *n);
// Element `i` of a constant of any type but F16.
double tachy_constant_at(const struct tachy_value *v, int64_t i);

// One line a node: `%7 conv/Relu f32[1x16x128x128] = Conv(%3, weights[16x3x3x3]) stride 2 relu`.
// Free with tachy_free(); NULL when out of memory.
char *tachy_graph_print(const struct tachy_graph *g);
// The least that a node costs: its multiply-adds, and the bytes of its operands and its result, each read or written once.
// Nodes that only move elements need neither.
struct tachy_layer_cost {
    int64_t multiply_adds, bytes;
};
struct tachy_layer_cost tachy_node_cost(const struct tachy_node *n);
// Multiply-adds of convolutions and matrix products, as their definitions count them.
int64_t tachy_graph_work(const struct tachy_graph *g);

// A digest of the graph in 128 bits: nodes, attributes, shapes, names and the numbers of constants. It recognises a graph
// for which something is stored; it does not resist an attacker who wants two graphs with one digest. TACHY_ERR_NOMEM.
int tachy_graph_digest(const struct tachy_graph *g, uint64_t digest[2]);

// Every promise above, and each operator's inputs, attributes and shapes. TACHY_ERR_INVAL with one
// sentence that names the node. After each pass, in debug builds and in tests.
int tachy_graph_verify(const struct tachy_graph *g);
// Tells what is wrong with one node's inputs, attributes and shapes, or NULL.
const char *tachy_node_wrong(const struct tachy_node *n);
