#pragma once
#include "cuda/gpu.h"
#include "cuda/nn/cudnn.h"
#include "cuda/nn/gemm.h"
#include "cuda/nn/kernels.h"
#include "plan/backend.h"
#include "plan/place.h"
#include "plan/shapes.h"
#include "ref/ref_preprocess.h" // float16

#include <pthread.h>

// Inside of src/plan/cuda: a graph as launches over one arena in a GPU's memory.

// An address in a step's arguments before a run: its base (place.h) and the offset in bytes. 0: absent. cuda_patch()
// turns it into a device address.
static inline cuda_address cuda_at(int base, size_t bytes) { return (cuda_address)(base + 1) << 48 | bytes; }

enum cuda_kind {
    CUDA_CONV,
    CUDA_GEMM,
    CUDA_POINTWISE,
    CUDA_FILL,
    CUDA_POOL,
    CUDA_INTERPOLATE,
    CUDA_REDUCE,
    CUDA_ARG,
    CUDA_SOFTMAX,
    CUDA_LAYER_NORM,
    CUDA_TRANSPOSE,
    CUDA_SQUEEZE,
    CUDA_GATHER,
    CUDA_SCATTER,
    CUDA_TOP,
    CUDA_GRID_SAMPLE,
    CUDA_CUBIC,
    CUDA_CONV_INT8,
    CUDA_INT8,
    CUDA_ATTENTION,
    CUDA_MLP,
    CUDA_KINDS
};

// The kernels that a convolution may run on; a `way` is one of them and which of its variants.
enum cuda_conv {
    CUDA_CONV_ANY,
    CUDA_CONV_DEPTHWISE,
    CUDA_CONV_SMALL,
    CUDA_CONV_TMA,
    CUDA_CONV_GEMM,
    CUDA_CONV_CUDNN,
    CUDA_CONV_PAIR, // one kernel with the step that follows, a convolution or the copy that spreads its channels
    CUDA_CONV_DONE, // nothing is left to do: the step in front was a pair
    CUDA_CONVS
};
struct cuda_way {
    enum cuda_conv kernel;
    int variant;
};
enum { CUDA_WAYS = 48, CUDA_GEMMS = 8, CUDA_ENGINES = 8 }; // per step; cuBLASLt's algorithms and cuDNN's engines among them

// Steps of one region that are not of one lane may run side by side (lanes.c).
enum { CUDA_LANES = 4, CUDA_REGION = 64 }; // streams of a captured run, the run's own among them; nodes of a region

union cuda_args {
    struct tachy_nn_conv conv;
    struct tachy_nn_gemm_io gemm;
    struct tachy_nn_pointwise pointwise;
    struct tachy_nn_fill fill;
    struct tachy_nn_pool pool;
    struct tachy_nn_interpolate interpolate;
    struct tachy_nn_reduce reduce;
    struct tachy_nn_arg arg;
    struct tachy_nn_softmax softmax;
    struct tachy_nn_layer_norm layer_norm;
    struct tachy_nn_transpose transpose;
    struct tachy_nn_squeeze squeeze;
    struct tachy_nn_index index;
    struct tachy_nn_top top;
    struct tachy_cuda_grid_sample grid_sample;
    struct tachy_nn_cubic cubic;
    struct tachy_nn_conv_int8 conv_int8;
    struct tachy_nn_int8 int8;
    struct tachy_nn_attention attention;
    struct tachy_nn_mlp mlp;
};

struct cuda_step {
    enum cuda_kind kind;
    union cuda_args a;
    struct tachy_plan_step label;
    // A convolution's other forms: weights as conv_depthwise has them, 0: it is none; as a product (m 0: it is none),
    // whose bias is of the tensors' type.
    cuda_address depthwise, bias;
    cuda_address padded; // weights whose input channels are filled up to a multiple of 8 with zeros; 0: they are one
    bool stem;           // reads a network's picture, whose pixels end in zeros
    struct plan_lane lane;
    bool pairs; // the next step may run in the same kernel
    bool alone; // it is the only one to read this one's output
    cuda_address scaled; // weights times a scale, a matrix for each image, for all kernels but conv; 0: there is no scale
    struct tachy_nn_gemm_shape product;
    struct tachy_nn_gemm *gemm; // opened with the device; also of CUDA_GEMM
    int nb_gemms;
    struct tachy_nn_cudnn_conv *engines; // the plan's; shared by steps of one shape; NULL: cuDNN is not asked
    int nb_engines;
    struct cuda_way way; // the one that runs
};

// Weights of equal bytes on one GPU, shared by the plans of the process.
struct cuda_weights;
int cuda_weights_share(struct cuda_weights **out, struct tachy_gpu *gpu, const void *data, size_t size,
                       const struct tachy_log *log);
void cuda_weights_unref(struct cuda_weights **w);
cuda_address cuda_weights_at(const struct cuda_weights *w);
bool cuda_weights_shared(const struct cuda_weights *w); // by several plans at the moment

// A captured run: launched again for the same tensors. Pictures that workers have in turn are each their own tensors.
enum { CUDA_GRAPHS = 32 };
struct cuda_graph {
    cuda_graph_exec exec; // NULL: none
    int runs;             // with these tensors; the first is not captured
    int spoilt;           // captures of them
    cuda_address *ends;   // the tensors
};

// Memory of one run. On the host one run uses it at a time; runs queued on several streams are ordered on the device by
// `done`.
struct cuda_workspace {
    struct cuda_workspace *next;
    void *memory; // arena, then scratch
    cuda_stream last; // stream of the last run
    bool used;
    cuda_event done;  // recorded after the last run
    struct cuda_graph graphs[CUDA_GRAPHS];
    int turn; // which of the graphs gives way
    cuda_stream stream; // of runs with host memory, and of captures
    cuda_stream lane[CUDA_LANES]; // from 1 on; 0: not made yet
    cuda_event ended[CUDA_LANES]; // of a lane; 0: of what is in front of a region
    void *ends;         // inputs and outputs of runs with host memory, made by the first; one after the other
    const char *doing;            // the call that the run is at
    const struct cuda_step *step; // that it launches; NULL: none
    int spoilt;                   // status of the run's capture
    cuda_address base[]; // of cuda_at()
};

struct cuda_plan {
    struct tachy_plan base; // first
    struct tachy_plan_params params;
    struct tachy_gpu *gpu; // NULL: a trial
    const struct tachy_nn_kernels *kernels;
    struct cuda_step *steps;
    int nb_steps, max_steps, nodes;
    struct tachy_nn_cudnn *cudnn; // NULL: no step runs on it
    struct tachy_nn_cudnn_conv **engines; // that steps run on
    int nb_engines;
    struct cuda_weights *weights;
    size_t weight_bytes, arena, values, scratch; // scratch: of a lane
    int nb_lanes;    // in use
    bool lanes;      // whether captured runs have them
    int nb_in, nb_out;
    size_t *end_bytes;  // of inputs, then outputs
    char *choice;       // text
    int effort;
    double choice_seconds, run_ms, default_run_ms;
    int single;      // nodes in float32, of a mixed plan
    double error[2]; // of such a plan, on noise and on a picture; else NAN
    pthread_mutex_t launching; // one thread at a time launches steps: products of cuBLASLt want it
    pthread_mutex_t lock;
    pthread_cond_t given; // a workspace was given back, or freed
    // Under the lock:
    char why[400]; // what the last failure of a run was; "": none has failed
    struct cuda_workspace *idle;
    int nb_workspaces;
    size_t held; // bytes of weights, and of so many runs
};

// A constant to be written among the weights as [rows][taps][row], the first `columns` of each row; the rest is zero. The
// steps are those between elements of `from`, which is not copied.
struct cuda_put {
    const float *from;
    enum tachy_dtype dtype;
    int64_t rows, taps, columns, row;
    int64_t row_step, tap_step, column_step;
    int planes;         // taps that lie plane_step apart, within each of those that lie tap_step apart; 0: 1
    int64_t plane_step;
    float factor;
    size_t at; // set by cuda_put()
};

// While a plan is made.
struct cuda_build {
    struct cuda_plan *plan;
    const struct tachy_graph *g;
    struct plan_places places;
    uint8_t *blob; // weights on the host
    size_t nb_blob, max_blob;
    struct cuda_put *puts; // weights that are written when all steps are there
    int nb_puts, max_puts;
    bool trial;
    struct plan_lane *lanes;    // by the id of what a node makes
    struct plan_beside *beside; // likewise
    bool *through;              // likewise: a move that is not done
    struct cuda_scaled *scaled; // convolutions with a scale
    int nb_scaled;
    const struct tachy_value *chain[TACHY_NN_OPERANDS]; // operands of the last pointwise step that a node's function made
    int nb_chain;
};

// engines.c: convolutions by cuDNN. Whether it may run the step.
bool cuda_engines_fit(const struct cuda_step *s);
// Sets the step's engines, of at most `scratch` bytes, which the plan closes. None: it has none for this.
// TACHY_ERR_UNAVAILABLE: no cuDNN. TACHY_ERR_NOMEM.
int cuda_engines_open(struct cuda_plan *p, struct cuda_step *s, size_t scratch, const struct tachy_log *log);
void cuda_engines_keep(struct cuda_plan *p); // closes those that no step runs on
void cuda_engines_close(struct cuda_plan *p);

// time.c
int cuda_time(struct tachy_plan *p, const void *const in[], int runs, double *ms);

// mixed.c: open() of TACHY_PLAN_MIXED, by plans that are opened with the other one.
int cuda_open_mixed(struct tachy_plan **out, const struct tachy_graph *g, const struct tachy_plan_params *params);

// A convolution whose input channels are scaled, or a Resize that scales what it adds (squeeze.c), and the nodes that its
// scale comes from.
enum cuda_scaled_role {
    CUDA_SCALED_CONV,
    CUDA_SCALED_MEAN, // mean of a squeeze-and-excite, with its one or two convolutions and the cast that follows
    CUDA_SCALED_OTHER, // a second mean, which the join adds, perhaps after its convolution
    CUDA_SCALED_JOIN,
    CUDA_SCALED_FIRST,
    CUDA_SCALED_SECOND,
    CUDA_SCALED_CAST,
    CUDA_SCALED_DEPTHWISE, // makes the picture, and sums for the mean
};
struct cuda_scaled {
    const struct tachy_node *conv, *mean, *other, *join, *first, *second, *cast, *depthwise; // NULL: it has none, as all have but conv
    size_t base, sums, between, scale, weights; // bytes in the arena; the others are offsets from base
    cuda_address original;             // the weights as they are
    int parts;                         // of the depthwise convolution's sums; 0: it makes none
};
// Finds them all, and lets what they read stay. Then, of placed values, makes the arena larger for what they hand on.
// TACHY_ERR_NOMEM.
int cuda_find_scaled(struct cuda_build *b);
int cuda_place_scaled(struct cuda_build *b);
// The structure in which a node has `role`; NULL: none.
struct cuda_scaled *cuda_scaled_of(const struct cuda_build *b, const struct tachy_node *n, enum cuda_scaled_role *role);
const struct tachy_node *cuda_squeeze_ends(const struct cuda_scaled *s); // its last node, whose step does it all
cuda_address cuda_behind(const struct cuda_scaled *s, size_t bytes);
// Lets a depthwise convolution's step sum what it stores.
void cuda_sum_depthwise(struct cuda_build *b, struct cuda_scaled *s, struct cuda_step *step);
// Steps that scale the weights: from the picture's means, and from a scale that other nodes make.
int cuda_steps_squeeze(struct cuda_build *b, struct cuda_scaled *s);
int cuda_steps_scale(struct cuda_build *b, struct cuda_scaled *s);

// build.c
int cuda_open(struct tachy_plan **out, const struct tachy_graph *g, const struct tachy_plan_params *params);
struct cuda_step *cuda_step(struct cuda_build *b, enum cuda_kind kind); // NULL: out of memory
void cuda_needs_scratch(struct cuda_build *b, size_t bytes);
// Allocates zeroed bytes among the weights: returns their offset, negative if out of memory. Moves the blob; a trial
// has none.
ptrdiff_t cuda_blob(struct cuda_build *b, size_t bytes);
// Element i of a type of floats.
static inline void cuda_store(void *to, enum tachy_dtype t, int64_t i, float v)
{
    if (t == TACHY_F16)
        ((uint16_t *)to)[i] = tachy_ref_half(v);
    else if (t == TACHY_BF16)
        ((uint16_t *)to)[i] = tachy_ref_bfloat(v);
    else
        ((float *)to)[i] = v;
}
// weights.c: allocates it; 0: out of memory. The second writes all of them, once nothing moves the blob any more.
cuda_address cuda_put(struct cuda_build *b, struct cuda_put p);
void cuda_put_all(struct cuda_build *b);
// The address of a value; a constant is put among the weights in ONNX's order and its own type. False: out of memory.
bool cuda_value(struct cuda_build *b, const struct tachy_value *v, cuda_address *at);
// `n` floats in a type of floats among the weights. 0: out of memory.
cuda_address cuda_floats(struct cuda_build *b, enum tachy_dtype t, const float *from, int64_t n);
struct tachy_nn_tensor cuda_tensor(const struct cuda_build *b, const struct tachy_value *v); // a computed one
// As above, for any picture with channels last; a constant is put among the weights as type `t`. False: out of memory,
// or a constant of integers.
bool cuda_picture(struct cuda_build *b, const struct tachy_value *v, enum tachy_dtype t, struct tachy_nn_tensor *to);
// An activation, whose slope (of PRelu, constant) goes among the weights. False: out of memory.
bool cuda_act(struct cuda_build *b, const struct tachy_node *n, const struct tachy_value *slope, struct tachy_nn_act *to);
static inline struct tachy_value *cuda_input(const struct tachy_node *n, int i) { return i < n->nb_in ? n->in[i] : NULL; }
// plan_place_rules.pixel: elements per pixel for a network's input picture that only its first convolutions read (as
// conv_small wants it), and for pictures whose channels do not fill vectors. cuda_stem_pixel(): only the former. 0:
// neither.
int cuda_pixel(const struct tachy_value *v);
int cuda_stem_pixel(const struct tachy_value *v);
// True if the Resize also does the Transpose that follows: it writes planes directly.
bool cuda_joins(const struct tachy_node *n);
// spread.c: pixels that were channels. Whether the result of `n` needs no memory, or is written by a step of a node in front of it;
// the lifetimes of what is written, before values are placed.
bool cuda_spreads(const struct tachy_node *n);
bool cuda_writes_part(const struct tachy_node *n);
void cuda_keep_spreads(struct cuda_build *b);
void cuda_part_spread(struct cuda_build *b); // the last step has taken in the copy behind a convolution, which then writes channels
bool cuda_gather_joins(const struct tachy_node *n); // lists of indices along two axes (the mirrored edges of a picture)
bool cuda_turns_to_planes(const struct tachy_node *n); // the next node, a Transpose alone, makes planes of its result
struct tachy_nn_tensor cuda_planes_of(const struct cuda_build *b, const struct tachy_value *v, int64_t *channel); // *channel: from plane to plane
// True if a product of computed matrices also does the Transpose that reads it, and writes that node's output.
bool cuda_product_joins(const struct tachy_node *n);
// True if a layer normalisation may write its output while it reads its operands.
bool cuda_norm_may_write(const struct tachy_nn_layer_norm *l);
// Strides of a product's result in the dimensions in front of the matrices, in its Transpose's order if that is joined.
// Returns the one between rows.
int64_t cuda_result_strides(const struct tachy_node *n, int64_t *to);
// True for a product of two computed matrices, or one that has no form as a convolution.
bool cuda_is_product(const struct tachy_node *n);
// True for constant float32 rows, the last two dimensions at least, that are the same in all images of y.
bool cuda_repeats(const struct tachy_value *rows, const struct tachy_value *y);

// seen.c: finds the moves (Reshape, Transpose, Slice, Expand) whose readers, products and GridSample, read what was moved instead.
// TACHY_ERR_NOMEM.
int cuda_find_seen(struct cuda_build *b);
bool cuda_is_seen_through(const struct cuda_build *b, const struct tachy_node *n); // of a placed value
// True if the matrices of `v`, which lie in these steps, are evenly apart: one call multiplies them.
bool cuda_is_one_batch(const struct tachy_value *v, const int64_t *stride);
struct cuda_seen { // a product's matrix, or several, or what is sampled, within a value
    const struct tachy_value *v;
    int64_t offset, stride[TACHY_MAX_RANK]; // elements
    bool by_columns;                        // those of a column are adjacent, not those of a row
};
struct cuda_seen cuda_look(const struct cuda_build *b, const struct tachy_value *v);
static inline cuda_address cuda_seen_at(const struct cuda_build *b, const struct cuda_seen *s)
{
    return cuda_tensor(b, s->v).data + (cuda_address)s->offset * tachy_dtype_size(s->v->dtype);
}

// attention.c: softmax of a product, times a third matrix: one step (cuda/nn/attention.h), that of `end`.
struct cuda_attention {
    const struct tachy_node *scores, *shares, *end;
};
bool cuda_attends(const struct tachy_node *n, struct cuda_attention *a); // whether n is one of them
// Keeps what `n` reads until the node `last` (NULL: itself) and `more` nodes after it.
void cuda_keep_until(struct cuda_build *b, const struct tachy_node *n, const struct tachy_node *last, int more);
void cuda_keep_attention(struct cuda_build *b); // keeps what they read until the end
void cuda_keep_moved(struct cuda_build *b);     // keeps what a Transpose reads until the sum behind it, which may read it instead
void cuda_keep_chains(struct cuda_build *b);    // keeps what functions read until the end of their chain, which one launch may compute
int cuda_steps_attention(struct cuda_build *b, const struct cuda_attention *a);

// mlp.c: convolutions of 1x1 taps one after the other: one step (cuda/nn/mlp.h), that of `last`.
struct cuda_mlp {
    const struct tachy_node *concat, *layer[TACHY_NN_MLP_LAYERS], *last; // concat: in front of them; NULL: none
    int nb_layers;
    bool turned; // the node after `last` makes planes of its result, which the step writes
};
bool cuda_is_mlp(const struct tachy_node *n, struct cuda_mlp *m); // whether n is one of them
void cuda_keep_mlps(struct cuda_build *b); // keeps what they read until the end
int cuda_steps_mlp(struct cuda_build *b, const struct cuda_mlp *m);

// A convolution's weights as most of its kernels want them. 0: out of memory.
cuda_address cuda_conv_weights(struct cuda_build *b, const struct tachy_node *n, enum tachy_dtype t);
// Steps of a node. TACHY_ERR_UNSUPPORTED: a form that only shows here.
typedef int cuda_steps_fn(struct cuda_build *b, const struct tachy_node *n);
cuda_steps_fn cuda_steps_conv, cuda_steps_matmul, cuda_steps_elements, cuda_steps_copy, cuda_steps_concat, cuda_steps_pad,
    cuda_steps_pool, cuda_steps_resize, cuda_steps_reduce, cuda_steps_arg, cuda_steps_softmax, cuda_steps_layer_norm, cuda_steps_gather,
    cuda_steps_scatter, cuda_steps_spread, cuda_steps_top, cuda_steps_grid, cuda_steps_conv_int8, cuda_steps_int8;
// Dimensions that a kernel goes through for GATHER_EACH or SCATTER_EACH of more than four.
int cuda_picked_dims(const struct tachy_node *n);
cuda_steps_fn cuda_steps_end; // the end of a product: adds its third operand, then applies its function
// A dense tensor as [outer][n][inner], the marked axes being the n. False: they do not lie side by side.
struct cuda_axes {
    int64_t outer, n, inner;
};
bool cuda_find_axes(const struct tachy_value *v, const bool *axis, struct cuda_axes *a);
// The address of a value that is dense in its layout. False: it has gaps, or out of memory.
bool cuda_dense(struct cuda_build *b, const struct tachy_value *v, cuda_address *at);
// True if the elements of both have the same order in memory.
bool cuda_same_order(const struct tachy_value *a, const struct tachy_value *b);
// Copies a value to the graph's output `i`, if it could not be placed there.
int cuda_copy_output(struct cuda_build *b, const struct tachy_value *v, int i);
const char *cuda_refuses(const struct tachy_node *n);
tachy_plan_pass_fn cuda_borders; // batch normalisations in front of convolutions with padding (borders.c)
tachy_plan_pass_fn cuda_bytes; // bytes along an axis as floats (bytes.c)
tachy_plan_pass_fn cuda_pixels; // first convolutions of pictures whose channels lie last (pixels.c)
tachy_plan_pass_fn cuda_doubled; // convolutions of pixels that are repeated (doubled.c)
tachy_plan_pass_fn cuda_few; // convolutions to few channels (few.c)
tachy_plan_pass_fn cuda_volumes; // convolutions read the planes of a volume where they lie (volumes.c)
tachy_plan_pass_fn cuda_patches; // convolutions of windows side by side as products (patches.c)
tachy_plan_pass_fn cuda_rows; // where rows are turned (rows.c)
tachy_plan_pass_fn cuda_sums; // sums with products (rows.c)
tachy_plan_pass_fn cuda_groups; // group normalisation as layer normalisation (groups.c)
tachy_plan_pass_fn cuda_planes; // flattened pictures that products read as they lie (planes.c)
tachy_plan_pass_fn cuda_spectra; // Fourier transforms with channels last (spectra.c)

// run.c
// Puts step `s` on a stream by `way`: the driver's or the library's status, 0 for success.
int cuda_launch(const struct cuda_plan *p, const struct cuda_step *s, struct cuda_way way, const cuda_address *base,
                cuda_stream stream);
int cuda_run(struct tachy_plan *p, const void *const in[], void *const out[], const struct tachy_plan_helpers *helpers,
             uint64_t *end);
int cuda_queue(struct tachy_plan *p, const void *const in[], void *const out[], void *stream);
void cuda_why(struct tachy_plan *p, char *text, size_t size);
// Bytes that a run counts: of its workspace, and of its inputs and outputs.
size_t cuda_run_bytes(const struct cuda_plan *p);
// True if this many more bytes are within the limit; they are then counted.
bool cuda_count(struct cuda_plan *p, size_t bytes);
int cuda_workspace_new(struct cuda_plan *p, struct cuda_workspace **out, const struct tachy_log *log);
void cuda_workspace_free(struct cuda_plan *p, struct cuda_workspace *w);
void cuda_set_bases(const struct cuda_plan *p, struct cuda_workspace *w, const cuda_address *ends);

// lanes.c: finds which nodes may run side by side, before they are placed. TACHY_ERR_NOMEM. keep: once scaled ones are found.
int cuda_find_lanes(struct cuda_build *b);
void cuda_keep_lanes(struct cuda_build *b);
// pairs.c: whether a node is a convolution that one kernel may run together with the next node, one of 1x1 taps (cuda/nn/pair.h).
bool cuda_pairs(const struct tachy_node *n);
bool cuda_is_tap(const struct tachy_node *n); // a convolution of 1x1 taps in 16-bit floats, channels last, without groups or padding
// ways.c: which kernels can run step `s`, a convolution; the first is the default.
int cuda_ways(const struct cuda_plan *p, const struct cuda_step *s, struct cuda_way to[CUDA_WAYS]);
// The variant of conv_tma for a convolution that spreads its channels.
int cuda_spread_variant(const struct cuda_plan *p, const struct tachy_nn_conv *c);
// True if such a pair is expected to be faster than its two steps.
bool cuda_pair_pays(const struct cuda_plan *p, const struct cuda_step *s);
// choice.c: opens what the steps need of libraries and settles each convolution's way.
int cuda_choose(struct cuda_plan *p, const struct tachy_log *log);
int cuda_key(const struct tachy_graph *g, const struct tachy_plan_params *params, char *key);
void cuda_about(const struct tachy_plan_params *params, char *text, size_t size);
