#pragma once
#include "cuda/nn/pointwise.h"

// Elements that indices point to. For every i of `shape`, all strides being elements:
//
//   place(i) = i * table.stride + the sum over d < deep of number(index[i * index.stride + d * next], size[d]) * step[d]
//   gather:  list[i * list.stride] = table[place(i)]
//   scatter: table[place(i)] becomes list[i * list.stride], or what `how` makes of both
//
// An index that is negative counts from the end; one that is out of range is cut to the nearest that exists. The index
// is of a type of whole numbers. Table and list are of one type, or float32 and float16: then they are converted.
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
    enum tachy_nn_scatter how; // of scatter
};
TACHY_NN_LAUNCHER(gather, tachy_nn_index)
TACHY_NN_LAUNCHER(scatter, tachy_nn_index)

// Where the k best of n numbers are, the best first, as int64: the largest (or smallest), the first of equal ones first,
// NaN after all numbers.
struct tachy_nn_top {
    cuda_address in, out;
    int64_t in_outer, in_step, in_inner, out_outer, out_step, out_inner; // elements
    int64_t outer, n, inner, k;
    bool min;
    enum tachy_dtype dtype; // of floats
};
TACHY_NN_LAUNCHER(top, tachy_nn_top)
