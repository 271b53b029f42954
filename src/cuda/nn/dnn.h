#pragma once
#include "cuda/nn/conv.h"

struct tachy_log;

// Convolutions through cuDNN 9's graph interface: bias, added tensor and activation in one kernel where an engine of
// cuDNN can. Takes struct tachy_nn_conv without scale and sums; with float16 the bias is rounded to float16 by the
// caller, see `bias16`.
struct tachy_nn_dnn;

// Finds the engines that cuDNN thinks best and builds them: *n of at most `most`. Takes 0.1 to 2 s for each that is
// compiled at run time. Addresses in `conv` are not looked at but for which are 0. Other arguments and results as
// tachy_nn_gemm_open().
int tachy_nn_dnn_open(struct tachy_nn_dnn **out, const struct tachy_nn_conv *conv, size_t workspace, int most, int *n,
                      const struct tachy_log *log);
void tachy_nn_dnn_close(struct tachy_nn_dnn **d);
size_t tachy_nn_dnn_workspace(const struct tachy_nn_dnn *d, int i);
// With the addresses of `conv`, whose shape and strides are those of open.
int tachy_nn_dnn_run(const struct tachy_nn_dnn *d, int i, const struct tachy_nn_conv *conv, cuda_address workspace,
                     cuda_stream stream);
// cuDNN's own text of engine i, for a store; free() it. NULL: out of memory or cuDNN gives none.
char *tachy_nn_dnn_choice(const struct tachy_nn_dnn *d, int i);
int tachy_nn_dnn_restore(struct tachy_nn_dnn **out, const struct tachy_nn_conv *conv, const char *choice,
                         const struct tachy_log *log);
// As cudnnGetVersion() says, 91400 for 9.14; 0: it is not there.
size_t tachy_nn_dnn_version(void);
