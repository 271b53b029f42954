#pragma once
#include "cuda/nn/conv.h"

#include <stdbool.h>
#include <stddef.h>

struct tachy_log;

// Convolutions through cuDNN's engines: y = epilogue(bias + x * weights), with what follows in the same kernel if an
// engine can. Twin: tachy_ref_conv(). float16 and bfloat16, one group, no scale, sums or planes; channels are multiples
// of 8, and pixels are dense vectors of 16 bytes. Activations: NONE, CLIP, LEAKY, SWISH, SIGMOID, TANH, GELU,
// GELU_TANH.

// A handle of the library. One thread at a time uses it and its convolutions; separate ones are independent. The
// device's context is current in all calls.
struct tachy_nn_cudnn;
// TACHY_ERR_UNAVAILABLE: cuDNN is not there or does not start; one sentence is logged as verbose.
int tachy_nn_cudnn_open(struct tachy_nn_cudnn **out, const struct tachy_log *log);
void tachy_nn_cudnn_close(struct tachy_nn_cudnn **d); // after its convolutions

struct tachy_nn_cudnn_conv;
struct tachy_nn_cudnn_io {
    cuda_address bias;      // of the tensors' type
    cuda_address workspace; // of the engine's bytes
};

// True if `a` is of the form above, but for its addresses, all of which must be multiples of 16 bytes.
bool tachy_nn_cudnn_takes(const struct tachy_nn_conv *a);
// Asks for the engines that cuDNN thinks best and sets *n to how many of the first `most` can run (1 at least).
// `workspace`: the most bytes that one may use. Engines that cuDNN would compile first are left out.
// TACHY_ERR_UNAVAILABLE: there is none, which is logged as verbose. TACHY_ERR_NOMEM.
int tachy_nn_cudnn_conv_open(struct tachy_nn_cudnn_conv **out, struct tachy_nn_cudnn *d, const struct tachy_nn_conv *a,
                             size_t workspace, int most, int *n, const struct tachy_log *log);
void tachy_nn_cudnn_conv_close(struct tachy_nn_cudnn_conv **v);
size_t tachy_nn_cudnn_conv_workspace(const struct tachy_nn_cudnn_conv *v, int i);
// Puts the convolution on the stream by engine i: the shape of open(), with addresses. 0 or cuDNN's status.
int tachy_nn_cudnn_conv_run(const struct tachy_nn_cudnn_conv *v, int i, const struct tachy_nn_conv *a,
                            const struct tachy_nn_cudnn_io *io, cuda_stream stream);
// Version of the loaded library, 91900 for 9.19.0; 0: not loaded.
int tachy_nn_cudnn_version(void);
