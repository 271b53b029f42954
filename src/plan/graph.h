#pragma once
#include "base/base.h"

#include <tachy/tensor.h>

// The graph that a plan is made from: values with a fixed shape, and nodes that make values from
// values. Passes (src/plan/pass_*.c) change it; a back end (cpu/, cuda/) turns what is left into
// steps. Nothing here knows a device or a front end.
//
// A graph is used by one thread. Names are for people; identity is the pointer. Everything that a
// graph hands out lives until tachy_graph_close(), also what passes take out of it.

// Operators. What ONNX calls differently on the way to one of these is named in src/provider.
//   name, inputs (least, most), what the attributes mean
#define TACHY_PLAN_OPS(X)                                                                          \
    X(CONV, "Conv", 2, 6)         /* x, weights [out][in/groups][kh][kw], bias, added, scale of    \
                                     x's channels [n][c][1][1], slope of PRelu; conv */            \
    X(DECONV, "ConvTranspose", 2, 3) /* x, weights [in][out/groups][kh][kw], bias; conv */         \
    X(MATMUL, "MatMul", 2, 3)     /* a, b, bias; matmul */                                         \
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
    X(SOFTMAX, "Softmax", 1, 1)   /* axis */

enum tachy_plan_op {
#define TACHY_PLAN_OP_ENUM(op, name, least, most) TACHY_OP_##op,
    TACHY_PLAN_OPS(TACHY_PLAN_OP_ENUM)
#undef TACHY_PLAN_OP_ENUM
        TACHY_OP_COUNT
};
const char *tachy_plan_op_name(enum tachy_plan_op op);
bool tachy_plan_op_inputs(enum tachy_plan_op op, int n); // whether it can have n inputs

// What is applied to single numbers. Formulas as in ONNX's operator of the same name.
enum tachy_plan_act {
    TACHY_PLAN_NONE = 0,
    TACHY_PLAN_RELU,
    TACHY_PLAN_CLIP,       // min(max(x, a), b); Relu6 is 0, 6
    TACHY_PLAN_LEAKY,      // x < 0 ? a x : x
    TACHY_PLAN_PRELU,      // the slope is an input, one a channel or one for all
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
    TACHY_PLAN_ACTS
};
const char *tachy_plan_act_name(enum tachy_plan_act a);

enum tachy_plan_binary {
    TACHY_PLAN_ADD = 0,
    TACHY_PLAN_SUB,
    TACHY_PLAN_MUL,
    TACHY_PLAN_DIV,
    TACHY_PLAN_MIN,
    TACHY_PLAN_MAX,
    TACHY_PLAN_POW,
    TACHY_PLAN_BINARIES
};
const char *tachy_plan_binary_name(enum tachy_plan_binary b);

enum tachy_plan_reduce { TACHY_PLAN_MEAN = 0, TACHY_PLAN_SUM, TACHY_PLAN_RMAX, TACHY_PLAN_RMIN };
enum tachy_plan_resize { TACHY_PLAN_NEAREST = 0, TACHY_PLAN_LINEAR };
// Where an output's centre lies in the input (ONNX's coordinate_transformation_mode).
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

// Which member holds follows from the operator.
struct tachy_plan_attr {
    union {
        struct {
            int kernel[2], stride[2], dilation[2]; // height, width
            int pad[4];                            // top, left, bottom, right
            int groups;
            int out_pad[2]; // DECONV
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
            int64_t start[TACHY_MAX_RANK], step[TACHY_MAX_RANK]; // step > 0
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
        } resize;
        struct {
            enum tachy_plan_reduce how;
            bool axis[TACHY_MAX_RANK];
        } reduce;
        int perm[TACHY_MAX_RANK]; // output axis i is input axis perm[i]
        int axis;
        enum tachy_plan_binary binary;
    };
    // UNARY: what it does. CONV, DECONV, MATMUL, BINARY, RESIZE: what is done to the result at the end.
    struct tachy_plan_act_of act;
    bool act_before_add; // CONV, RESIZE with an added tensor: act(x) + added, else act(x + added)
    // CONV, RESIZE: a mean over the result's pixels follows, for which each output row is summed as it
    // is written. What is computed is the same with and without.
    bool row_sums;
};

struct tachy_node;

// A tensor: an input of the graph, a constant, or what a node makes.
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
};

struct tachy_node {
    enum tachy_plan_op op;
    char *name; // of the model's node that it came from
    struct tachy_plan_attr attr;
    struct tachy_value **in; // absent inputs are NULL
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
// The only node that uses `v`; NULL where there are none, several, or the graph's output is one.
struct tachy_node *tachy_value_user(const struct tachy_graph *g, const struct tachy_value *v);

static inline bool tachy_value_is_constant(const struct tachy_value *v) { return v && v->data; }
int64_t tachy_value_elements(const struct tachy_value *v);

// One line a node: `%7 conv/Relu f32[1x16x128x128] = Conv(%3, weights[16x3x3x3]) stride 2 relu`.
// Free with tachy_free(); NULL when out of memory.
char *tachy_graph_print(const struct tachy_graph *g);
// Multiply-adds of convolutions and matrix products, as their definitions count them.
int64_t tachy_graph_work(const struct tachy_graph *g);

// Every promise above, and each operator's inputs, attributes and shapes. TACHY_ERR_INVAL with one
// sentence that names the node. After each pass, in debug builds and in tests.
int tachy_graph_verify(const struct tachy_graph *g);
// The same for one node's inputs, attributes and shapes: what is wrong with it, or NULL.
const char *tachy_node_wrong(const struct tachy_node *n);
