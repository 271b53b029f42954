#pragma once
#include "plan/cuda/parts.h"

// Dimensions of an output and steps of it ([0]) and of its operands along them, in elements.
enum { CUDA_WALKERS = 1 + TACHY_NN_OPERANDS };
struct cuda_walk {
    int rank, nb; // nb: walkers
    int64_t dim[TACHY_MAX_RANK];
    int64_t step[CUDA_WALKERS][TACHY_MAX_RANK];
};
// In the order in which the output lies, without dimensions of one element, and those that all walk through evenly as
// one.
void cuda_walk_simplify(struct cuda_walk *w);
// Strides of a value as placed; a constant is in ONNX's order.
void cuda_walk_strides(const struct cuda_build *b, const struct tachy_value *v, int64_t *to);
// A walker and the dimensions as kernels take them, of at most TACHY_NN_RANK.
void cuda_walk_operand(struct tachy_nn_operand *o, const struct cuda_walk *w, int i, cuda_address at, enum tachy_dtype t);
void cuda_walk_shape(int64_t shape[TACHY_NN_RANK], const struct cuda_walk *w);
// The steps that copy `from`, walked by step[1], to `to`, walked by step[0]. TACHY_ERR_NOMEM.
int cuda_walk_copy(struct cuda_build *b, const struct cuda_walk *w, cuda_address to, enum tachy_dtype to_type,
                   cuda_address from, enum tachy_dtype from_type);
