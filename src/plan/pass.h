#pragma once
#include "plan/graph.h"

// Passes change a graph between the front end and a back end. Each pass is one file, keeps every
// promise of tachy_graph_verify(), computes the same function and returns TACHY_OK or
// TACHY_ERR_NOMEM; a pass that finds nothing to do changes nothing.
typedef int tachy_plan_pass_fn(struct tachy_graph *g);

struct tachy_plan_pass {
    const char *name; // of `tachy engine show --after NAME`
    tachy_plan_pass_fn *run;
};
// In the order in which they run for a processor; ends with a row of NULLs.
extern const struct tachy_plan_pass tachy_plan_all_passes[];

// Passes that follow the pass `int8`; on a CPU only the check of its operations uses them.
extern const struct tachy_plan_pass tachy_plan_int8_passes[];

// Runs all passes, or those up to and with `last` (NULL: all), verifying after each.
// TACHY_ERR_NOT_FOUND: no pass of that name.
int tachy_plan_passes(struct tachy_graph *g, const char *last);
// Runs a back end's own list (plan/backend.h).
int tachy_plan_run_passes(struct tachy_graph *g, const struct tachy_plan_pass *list, const char *last);

// Moves channels last for pictures at every node that works on them, and inserts order-4 Transpose nodes (perm 0,1,2,3)
// where the layout changes. Graph inputs and outputs keep their layout.
int tachy_plan_layout(struct tachy_graph *g);

// Quantised numbers that are only made to be numbers again stay float32: rounded to their levels.
int tachy_plan_levels(struct tachy_graph *g);
// Layers between quantised numbers compute in whole numbers of 8 bits, for a back end that has such kernels: before all others.
int tachy_plan_int8(struct tachy_graph *g);
// Volumes with their channels last stay so between the operators that want them so.
int tachy_plan_turned(struct tachy_graph *g);
// A state that a gate mixes of an old and a new one becomes one chain of sums and products.
int tachy_plan_blend(struct tachy_graph *g);
// Turns every second row and column into channels, as a larger kernel and stride of the convolution that follows.
int tachy_plan_focus(struct tachy_graph *g);
// Flattened pictures side by side: as pictures of one column, turned or cut before they are flattened if they are then.
int tachy_plan_heads(struct tachy_graph *g);
// A softmax and its sum over the same axis with constant weights become one node.
int tachy_plan_expectation(struct tachy_graph *g);
// Maxima over windows of several sizes, and means over tiles, each of what the one before made.
int tachy_plan_pools(struct tachy_graph *g);
// Depth to space, its inverse and shuffled channels in a form whose pieces of channels stay adjacent.
int tachy_plan_shuffle(struct tachy_graph *g);
// Transposes of transposes, also around a function or a sum, renamings of renamings, single pixels that are blown up for a sum or
// a product, and what does nothing go.
int tachy_plan_moves(struct tachy_graph *g);
// Hard-swish, hard-sigmoid, swish and clips out of the sums and products that exporters write.
int tachy_plan_activations(struct tachy_graph *g);
// Gelu in both forms and Mish out of what exporters write.
int tachy_plan_gelu(struct tachy_graph *g);
// PRelu out of the sums that exporters write where their runtime has none.
int tachy_plan_prelu(struct tachy_graph *g);
// Moves convolutions with one tap before the resize that they read, if that is less work.
int tachy_plan_resize(struct tachy_graph *g);
// Means over sums and over resized pictures become means of what is in front of them.
int tachy_plan_mean(struct tachy_graph *g);
// Bias, activation and a residual sum become part of the convolution in front of them; a sum, also
// with a picture that is scaled by channel, part of a resize.
int tachy_plan_fuse(struct tachy_graph *g);
// Numbers by which the operands of a product of computed matrices are multiplied become the product's.
int tachy_plan_factors(struct tachy_graph *g);
// x * s, one s a channel, becomes a scale of the next convolution's weights.
int tachy_plan_scale(struct tachy_graph *g);
int tachy_plan_scale_whole(struct tachy_graph *g); // only convolutions without groups
// Convolutions and resizes whose results are averaged over pixels add them up as they write.
int tachy_plan_sums(struct tachy_graph *g);
// Merges products and sums with constants into one, and into an adjacent convolution.
int tachy_plan_affine(struct tachy_graph *g);
// Zeros around a picture become padding of the convolution that reads it; convolutions that only add
// channels of zeros become Pad.
int tachy_plan_pad(struct tachy_graph *g);
// Nodes that compute what another node computes.
int tachy_plan_common(struct tachy_graph *g);
// Transposed convolutions become convolutions whose channels are moved to pixels, for a back end without the former;
// shuffle should follow.
int tachy_plan_deconv(struct tachy_graph *g);
// Makes values between nodes float16, for a back end that supports it; runs after all other passes. Values that may
// overflow float16 stay float32, as do the graph's inputs and outputs, and constants, which a back end converts.
int tachy_plan_half(struct tachy_graph *g);
// The pass with bfloat16. It has float32's range, but nodes that are sensitive to small differences stay float32 all the same.
int tachy_plan_bfloat(struct tachy_graph *g);
// To F16 or BF16, but node i, counted from the first, computes in float32 if single[i]. `single` may be NULL.
int tachy_plan_half_but(struct tachy_graph *g, enum tachy_dtype half, const bool *single);
// Nodes that nobody needs.
int tachy_plan_dead(struct tachy_graph *g);
