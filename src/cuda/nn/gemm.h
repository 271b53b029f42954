#pragma once
#include "cuda/nn/launch.h"
#include "cuda/nn/tensor.h"

#include <stdbool.h>
#include <stddef.h>

struct tachy_log;

// Matrix products through cuBLASLt: y = act(x w^T + bias + add), or y = x w^T where b is not constant. 1x1 convolutions
// with stride 1 of dense tensors are products of [n h w][cin] and [cout][cin].
struct tachy_nn_gemm_shape {
    int64_t m;               // rows of x and y
    int64_t n, k;            // columns of y; columns of x
    int64_t x_row, w_row, y_row, add_row; // elements from row to row; x_row >= k (x as [m][k]) ...
    bool w_by_rows;          // w is [k][n] with w_row from row to row, else [n][k]
    bool x_by_columns;       // x is [k][m] with x_row from row to row, else [m][k]
    int batch;               // products of one call, >= 1
    int64_t x_next, w_next, y_next, add_next; // elements from product to product; 0: the same for all
    bool bias;               // of `dtype` [n]
    bool add;
    enum tachy_act_kind act; // NONE, CLIP with a 0 and b infinity (relu), GELU_TANH; others are refused
    float alpha;             // x w^T times this; 0: 1
    enum tachy_dtype dtype;  // F16, BF16 (sums float32) or F32
    bool tf32;               // F32: products of tensor cores with 10 bits of mantissa
    int align;               // bytes that all addresses are multiples of, a power of two; 0: 256
};
struct tachy_nn_gemm_io {
    cuda_address x, w, bias, add, y; // y may be add
    cuda_address workspace;          // of the plan's bytes
};

// One product with the algorithms that cuBLASLt has for it. Thread-safety: use one from one thread at a time; separate
// ones are independent.
struct tachy_nn_gemm;

// Asks for the algorithms that cuBLASLt thinks best and sets *n to how many there are (at most `most`, 1 at least).
// `workspace`: the most bytes that one may use. The device's context is current.
// TACHY_ERR_UNAVAILABLE: cuBLASLt is not there, or has none for this shape; one sentence is logged as verbose.
int tachy_nn_gemm_open(struct tachy_nn_gemm **out, const struct tachy_nn_gemm_shape *shape, size_t workspace, int most,
                       int *n, const struct tachy_log *log);
void tachy_nn_gemm_close(struct tachy_nn_gemm **g);
// Bytes of workspace that algorithm i needs.
size_t tachy_nn_gemm_workspace(const struct tachy_nn_gemm *g, int i);
// Puts the product on the stream by algorithm i. 0 or cuBLAS' status.
int tachy_nn_gemm_run(const struct tachy_nn_gemm *g, int i, const struct tachy_nn_gemm_io *io, cuda_stream stream);
// Version of the loaded library, 130002 for 13.0.2; 0: not loaded.
size_t tachy_nn_gemm_version(void);
