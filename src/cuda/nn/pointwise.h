#pragma once
#include "cuda/nn/launch.h"
#include "cuda/nn/tensor.h"

// Elements of the same place of up to six tensors go through a chain of operations. With no operation it copies,
// casts, transposes, slices, repeats and joins (one launch for each part of a concatenation): strides say how.
enum { TACHY_NN_OPERANDS = 6, TACHY_NN_CHAIN = 16, TACHY_NN_RANK = 6 };

// One operation on v, the value so far; at first it is operand 0. `operand` is what BINARY takes as its other side.
// BINARY and UNARY as in ref_plan.h, those that it lacks below.
enum tachy_nn_step_kind {
    TACHY_NN_BINARY = 0, // v = v op operand
    TACHY_NN_BINARY_SWAPPED, // v = operand op v
    TACHY_NN_ACT,        // v = act(v), enum tachy_act_kind; not PRELU
    TACHY_NN_UNARY,      // v = f(v), enum tachy_nn_unary
    TACHY_NN_COMPARE,    // v = v op operand ? 1 : 0, enum tachy_nn_compare
    TACHY_NN_PRELU,      // v = v < 0 ? operand v : v
    TACHY_NN_SELECT,     // v = v != 0 ? operand : operand + 1
    TACHY_NN_KEEP,       // the value is kept as `kept`, for BINARY with operand TACHY_NN_KEPT
    TACHY_NN_LOAD,       // v = operand
};
enum { TACHY_NN_KEPT = 7 };
enum tachy_nn_unary {
    TACHY_NN_NEG = 0,
    TACHY_NN_LOG,
    TACHY_NN_SIN,
    TACHY_NN_COS,
    TACHY_NN_TAN,
    TACHY_NN_ASIN,
    TACHY_NN_ACOS,
    TACHY_NN_ATAN,
    TACHY_NN_SINH,
    TACHY_NN_COSH,
    TACHY_NN_ASINH,
    TACHY_NN_ACOSH,
    TACHY_NN_ATANH,
    TACHY_NN_FLOOR,
    TACHY_NN_CEIL,
    TACHY_NN_ROUND, // halves to the even neighbour
    TACHY_NN_RECIPROCAL,
    TACHY_NN_SOFTSIGN,  // x / (1 + |x|)
    TACHY_NN_THRESHOLD, // x > a ? x : 0
    TACHY_NN_SHRINK,    // x < -a ? x + b : x > a ? x - b : 0
    TACHY_NN_IS_NAN,
    TACHY_NN_IS_INF,    // a: also the negative one, b: also the positive one
    TACHY_NN_QUANTIZE,  // halves to the even neighbour, plus a, within b to b + 255
    TACHY_NN_SIGN,
    TACHY_NN_TRUNC, // within a to b; NaN: a
    TACHY_NN_TRUTH, // x != 0
    TACHY_NN_NOT,   // x == 0
    TACHY_NN_UNARIES
};
enum tachy_nn_compare {
    TACHY_NN_EQUAL = 0,
    TACHY_NN_LESS,
    TACHY_NN_LESS_EQUAL,
    TACHY_NN_GREATER,
    TACHY_NN_GREATER_EQUAL,
    TACHY_NN_AND,
    TACHY_NN_OR,
    TACHY_NN_XOR,
    TACHY_NN_FMOD, // remainders: with the sign of v
    TACHY_NN_MOD,  // with the sign of the operand
};
struct tachy_nn_step {
    unsigned char kind, what, operand; // enum tachy_nn_step_kind; which of them; 0 .. TACHY_NN_OPERANDS - 1
    float a, b;                        // of ACT and UNARY
};

struct tachy_nn_operand {
    cuda_address data;
    int64_t stride[TACHY_NN_RANK]; // elements; 0 repeats
    enum tachy_dtype dtype;
};
// Integers are rounded to float32 on the way in (whole numbers up to 2^24 stay), and cut off towards zero within
// the type's range on the way out; NaN gives 0. A copy without steps between equal types keeps every bit.
struct tachy_nn_pointwise {
    int64_t shape[TACHY_NN_RANK]; // outermost first; unused ones in front are 1
    struct tachy_nn_operand in[TACHY_NN_OPERANDS], out;
    struct tachy_nn_step steps[TACHY_NN_CHAIN];
    int nb_in, nb_steps; // nb_in >= 1
};
TACHY_NN_LAUNCHER(pointwise, tachy_nn_pointwise)

// A constant in every element of a strided block (the border of a Pad).
struct tachy_nn_fill {
    int64_t shape[TACHY_NN_RANK];
    struct tachy_nn_operand out;
    float value;
};
TACHY_NN_LAUNCHER(fill, tachy_nn_fill)
