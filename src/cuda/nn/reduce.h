#pragma once
#include "cuda/nn/launch.h"
#include "cuda/nn/tensor.h"

#include <stdbool.h>
#include <tachy/tensor.h>

// Reductions of the middle of [outer][n][inner]. The order of sums is fixed: the same bits in each run.
enum tachy_nn_reduce_kind { // as enum tachy_plan_reduce
    TACHY_NN_MEAN = 0,
    TACHY_NN_SUM,
    TACHY_NN_MAX,
    TACHY_NN_MIN,
    TACHY_NN_PROD,
    TACHY_NN_L1,
    TACHY_NN_L2,
    TACHY_NN_SUM_SQUARE,
    TACHY_NN_LOG_SUM,
    TACHY_NN_LOG_SUM_EXP,
    TACHY_NN_REDUCES
};
struct tachy_nn_reduce {
    cuda_address in, out;
    int64_t in_outer, in_step, in_inner;  // elements; in_step from one of the n to the next
    int64_t out_outer, out_inner;
    int64_t outer, n, inner;
    enum tachy_nn_reduce_kind kind;
    enum tachy_dtype dtype, out_dtype; // of floats; one may be F32
    // Float32 memory of tachy_nn_reduce_workspace() bytes; 0 of them: not looked at.
    cuda_address workspace;
};
TACHY_NN_LAUNCHER(reduce, tachy_nn_reduce)

// The place of the largest (or smallest) of n; the first (or last) of equal ones, NaN is never larger. out: I64, I32 or
// U8 numbers. Twin: tachy_ref_argmax().
struct tachy_nn_arg {
    cuda_address in, out;
    int64_t in_outer, in_step, in_inner, out_outer, out_inner;
    int64_t outer, n, inner;
    bool min, last;
    enum tachy_dtype dtype, out_dtype;
};
TACHY_NN_LAUNCHER(arg, tachy_nn_arg)

// Softmax or its logarithm over the n. Twin: tachy_ref_softmax(). in may be out. With weights, float32 [n] at a multiple of 16 bytes,
// out is the sum of the softmax, each times its weight, one number for the n. Twin: tachy_ref_softmax_sum(). in is not out then, nor
// log set; out_step is not looked at. Each `inner` has `pieces` of n elements then, perhaps one.
struct tachy_nn_softmax {
    cuda_address in, out, weights; // weights: 0: none
    int64_t in_outer, in_step, in_inner, out_outer, out_step, out_inner;
    int64_t outer, n, inner;
    int64_t pieces, in_piece, out_piece; // with weights
    bool log;
    enum tachy_dtype dtype, out_dtype;
};
TACHY_NN_LAUNCHER(softmax, tachy_nn_softmax)

// act((x - mean) / sqrt(variance + epsilon) * scale + shift) over the last n elements of a row. Twin:
// tachy_ref_layer_norm(). scale and shift: float32 [n]; 0: none. x is `in`, plus `add` if that is not 0: its row `row %
// add_rows`. out may be `in`, or `add` if that has as many rows.
struct tachy_nn_layer_norm {
    cuda_address in, out, scale, shift, add;
    int64_t in_row, out_row, rows, add_row, add_rows;
    struct tachy_nn_act act; // not PRELU
    int n;
    float epsilon;
    enum tachy_dtype dtype;
};
TACHY_NN_LAUNCHER(layer_norm, tachy_nn_layer_norm)

// True if a warp runs along the n; else each thread has its own `inner`, and the n are cut into parts.
enum { TACHY_NN_REDUCE_PART = 64 };
static inline bool tachy_nn_reduce_along(const struct tachy_nn_reduce *a)
{
    return a->inner == 1 || (a->in_step == 1 && a->in_inner != 1);
}
static inline size_t tachy_nn_reduce_workspace(const struct tachy_nn_reduce *a)
{
    int64_t pieces = (a->n + TACHY_NN_REDUCE_PART - 1) / TACHY_NN_REDUCE_PART;
    return tachy_nn_reduce_along(a) || pieces < 2 ? 0 : 2 * sizeof(float) * (size_t)(pieces * a->outer * a->inner);
}
