#pragma once
#include "check_cuda.h"

#include "cuda/nn/kernels.h"

// Tensors of the checks of cuda/nn: numbers on the host that the device's type holds exactly, and the same on the GPU.
struct nn_buffer {
    float *value; // of all elements, also those between rows
    size_t n;
    enum tachy_dtype dtype; // of floats or of whole numbers
    cuda_address at;
};
enum tachy_dtype nn_half(struct check *c);   // F16 or BF16
enum tachy_dtype nn_floats(struct check *c); // one of those, or F32
// Random numbers; of whole numbers between those limits.
struct nn_buffer nn_random(struct check *c, size_t n, enum tachy_dtype dtype, float low, float high);
// A result: NaN (of whole numbers -51 in each byte) until it is written.
struct nn_buffer nn_poison(struct check *c, size_t n, enum tachy_dtype dtype);
// Writes `value`, converted to its type, to the buffer here and on the GPU.
void nn_put(struct check *c, struct nn_buffer *b);
// Reads the GPU's content into `value`.
void nn_get(struct check *c, struct nn_buffer *b);
void nn_close(struct check *c, struct nn_buffer *b);
// A copy of the GPU's data, for loops on the host. Free it.
void *nn_copy(struct check *c, const struct nn_buffer *b);

// A picture tensor with `more` elements between pixels and rows, in a buffer of nn_elements().
struct tachy_nn_tensor nn_tensor(const struct nn_buffer *b, int h, int w, int c, int more);
size_t nn_elements(int n, int h, int w, int c, int more);
struct tachy_view nn_view(const float *value, const struct tachy_nn_tensor *t, int n, int h, int w, int c);

// The largest |got - want| - |want| * relative over the view, infinite if only one of the two is NaN.
double nn_worst(const struct tachy_view *got, const struct tachy_view *want, double relative);
// Relative error of rounding to a type: half a unit in the last place.
double nn_rounding(enum tachy_dtype dtype);
// An activation that ends a convolution, with parameters; never PRELU where `slope` is 0.
struct tachy_nn_act nn_act(struct check *c, cuda_address slope, bool common);
struct tachy_act nn_ref_act(const struct tachy_nn_act *a, const float *slope);

// Median seconds of launch(arg), captured 16 times in a row and replayed: launches are not waited for, and the L2 holds
// what the previous one left.
double nn_time(struct check *c, void (*launch)(void *), void *arg);
// "op what: microseconds, TFLOP/s, GB/s"
void nn_row(struct check *c, const char *op, const char *what, double seconds, double flop, double bytes);
