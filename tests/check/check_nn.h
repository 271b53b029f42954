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
// What is in value, as its type holds it, there and on the GPU.
void nn_put(struct check *c, struct nn_buffer *b);
// What the GPU has now, into value.
void nn_get(struct check *c, struct nn_buffer *b);
void nn_close(struct check *c, struct nn_buffer *b);

// A picture tensor with `more` elements between pixels and rows, and where it lies in a buffer of nn_elements().
struct tachy_nn_tensor nn_tensor(const struct nn_buffer *b, int h, int w, int c, int more);
size_t nn_elements(int n, int h, int w, int c, int more);
struct tachy_view nn_view(const float *value, const struct tachy_nn_tensor *t, int n, int h, int w, int c);

// The worst of |got - want| - |want| * relative over the view, infinite where one is NaN and the other not.
double nn_worst(const struct tachy_view *got, const struct tachy_view *want, double relative);
// What rounding to a type may change: half a unit in the last place, relative.
double nn_rounding(enum tachy_dtype dtype);
// An activation that ends a convolution, with parameters; never PRELU where `slope` is 0.
struct tachy_nn_act nn_act(struct check *c, cuda_address slope, bool common);
struct tachy_act nn_ref_act(const struct tachy_nn_act *a, const float *slope);

// Median seconds of launch(arg), which is captured 16 times in a row and replayed: no launch is waited for, the L2 has
// what the launch before left.
double nn_time(struct check *c, void (*launch)(void *), void *arg);
// "op what: microseconds, TFLOP/s, GB/s"
void nn_row(struct check *c, const char *op, const char *what, double seconds, double flop, double bytes);
