#pragma once
#include "cuda/nn/pointwise.h"

// Elements addressed by indices. For every i of `shape`, with all strides in elements:
//
// place(i) = i * table.stride + the sum over d < deep of number(index[i * index.stride + d * next], size[d]) * step[d]
//            + number(also[i * also.stride], also_size) * also_step, if gather has a second index
// gather:  list[i * list.stride] = table[place(i)]
// scatter: table[place(i)] becomes list[i * list.stride], or what `how` makes of both
//
// A negative index counts from the end; one out of range is clamped to the nearest valid one. The index has an integer
// type. Table and list have the same type, or are float32 and float16 and are converted.
enum { TACHY_NN_DEEP = 8 };
enum tachy_nn_scatter { // in the order of the list, which is that of i with the last dimension the fastest
    TACHY_NN_SCATTER_SET = 0, // the last one stays
    TACHY_NN_SCATTER_ADD,
    TACHY_NN_SCATTER_MUL,
    TACHY_NN_SCATTER_MAX, // a NaN in the table stays
    TACHY_NN_SCATTER_MIN,
};
// Scatter: dimensions with a stride of the table must not reach the same element as others; those without one (and more
// than one element) are written in order. So every result is the same in each run.
struct tachy_nn_index {
    int64_t shape[TACHY_NN_RANK]; // outermost first; unused ones in front are 1; 2^31 - 1 elements at most
    struct tachy_nn_operand table, index, list;
    int64_t next, size[TACHY_NN_DEEP], step[TACHY_NN_DEEP];
    int deep; // 1 to TACHY_NN_DEEP
    struct tachy_nn_operand also; // gather: of another axis; data 0: none
    int64_t also_size, also_step;
    enum tachy_nn_scatter how; // of scatter
};
TACHY_NN_LAUNCHER(gather, tachy_nn_index)
TACHY_NN_LAUNCHER(scatter, tachy_nn_index)

// Finds the positions of the k best of n numbers, best first, as int64: the largest (or smallest), the first among
// equal ones, NaN after all numbers.
struct tachy_nn_top {
    cuda_address in, out;
    int64_t in_outer, in_step, in_inner, out_outer, out_step, out_inner; // elements
    int64_t outer, n, inner, k;
    bool min;
    enum tachy_dtype dtype; // of floats
};
TACHY_NN_LAUNCHER(top, tachy_nn_top)
