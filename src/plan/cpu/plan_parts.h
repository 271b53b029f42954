#pragma once
#include "base/guard.h"
#include "base/team.h"
#include "plan/cpu/conv.h"
#include "plan/cpu/deconv.h"
#include "plan/cpu/narrow.h"
#include "plan/cpu/packed.h"
#include "plan/cpu/plan.h"
#include "plan/cpu/winograd.h"
#include "plan/place.h"
#include "plan/shapes.h"

#include <pthread.h>

// Inside of src/plan/cpu/plan*.c.

// Elements one by one from one order to another; steps in floats.
struct plan_copy {
    int rank;
    int64_t dim[TACHY_MAX_RANK];
    ptrdiff_t from[TACHY_MAX_RANK], to[TACHY_MAX_RANK];
};

// Operands that stretch to an output; [0] is the output.
enum { PLAN_SPREAD = 4 };
struct plan_spread {
    int rank;
    int64_t dim[TACHY_MAX_RANK];
    ptrdiff_t step[PLAN_SPREAD][TACHY_MAX_RANK];
    enum tachy_plan_binary how;
    bool whole; // numbers, of the operands and the result
};

// A product whose second matrix, or a convolution whose weights, are packed in scratch in each run.
struct plan_product {
    struct tachy_conv conv;
    struct tachy_conv_weights weights; // without data and bias
    ptrdiff_t bias;                    // floats in the weights; -1: none
    size_t packed, copy;               // floats in the scratch
    int m, k;                          // rows and columns of the first matrix
    float alpha;
    bool trans_a, copies; // the first matrix is copied first
    int rank;             // dimensions in front of the matrices, the last first
    int64_t batch[TACHY_MAX_RANK];
    ptrdiff_t step_a[TACHY_MAX_RANK], step_b[TACHY_MAX_RANK];
};

// Indices that are followed: `deep` of them, `next` floats apart, pick along axes of `size` and `step`.
struct plan_gather {
    struct plan_copy each, inner;
    ptrdiff_t own[TACHY_MAX_RANK]; // in the input, as `each` goes on
    int deep;
    ptrdiff_t next;
    int64_t size[TACHY_MAX_RANK];
    ptrdiff_t step[TACHY_MAX_RANK];
    enum tachy_plan_scatter how; // of a scatter, whose output is what a gather's input is, and its updates the output
};

struct plan_norm {
    ptrdiff_t shift; // floats in the weights; -1: none
    float epsilon;
    int h, w, c, groups;
    ptrdiff_t in[3], out[3], image_in, image_out; // rows, pixels, channels
};

struct plan_grid {
    int dims; // 2 or 3
    struct tachy_grid_axis axis[3]; // x, y, z
    int channels, out[3];
    ptrdiff_t x[5], y[5], at[5]; // steps of input, output and grid along their dimensions
};

struct plan_run; // bases of one run
struct plan_step {
    // Rows row0..row1-1 of what the step writes; a step of one row cannot be split. Which rows are
    // written together changes no bit.
    void (*run)(const struct plan_step *s, const struct plan_run *r, int row0, int row1);
    int rows;
    bool split; // worth splitting between threads
    size_t scratch; // floats
    const struct tachy_plan_kernels *k;
    struct plan_ref in, in2, out, add, scale; // scale: data only; add: also a scatter's updates
    struct plan_ref sums; // of the output's rows, or of the input's for a mean: [n * h][c]; data only
    struct tachy_act act;
    bool add_last, log; // log: of a softmax
    ptrdiff_t weights, slope; // floats in the weights; slope: -1 for none
    const void *packed;       // weights of a convolution, straight or transposed
    union {
        struct tachy_conv conv;
        struct tachy_narrow narrow;
        struct tachy_winograd winograd;
        struct tachy_deconv *deconv; // of the plan
        struct tachy_pool_shape pool;
        struct tachy_resize_shape resize;
        enum tachy_binary_kind binary;
        struct {
            struct plan_copy copy;
            bool fill; // the output is filled first
            int along; // the dimension whose elements are the step's rows
            float value;
        } copy;
        struct {
            int first[4], end[4]; // n, h, w, c of the output that hold something already
            float value;          // of the rest
        } frame;
        struct {
            struct plan_copy outer, inner; // inner: what is reduced or normalised; from only
            enum tachy_plan_reduce how;
        } reduce;
        struct {
            struct plan_copy outer, inner;
            bool min, last;
            int64_t best; // of Top: how many
        } arg;
        struct {
            enum tachy_dtype type; // outside of the plan
            struct plan_copy copy;
        } convert;
        struct tachy_plan_act_of function;
        struct plan_spread spread;
        struct plan_product product;
        struct plan_gather gather;
        struct plan_norm norm;
        struct plan_grid grid;
        struct {
            struct tachy_conv_shape shape;
            struct tachy_int8_end end;
            float in_zero;
            bool times; // a product of two tensors
            ptrdiff_t bias, multiplier; // offsets in floats among the weights, int32_t if there are biases
        } int8;
    };
};

// A step's description, for people.
struct plan_label {
    enum tachy_plan_op op;
    char *name; // of the node it comes from, "" if it has none
    struct tachy_layer_cost cost; // of the node, at its last step
};

struct plan_run {
    float *const *base;
};

// The memory of one run; with several threads each has its own scratch and bases.
struct plan_workspace {
    struct plan_workspace *next;
    struct tachy_team *team; // the plan's threads; NULL: there was no run that needed them
    int pieces;              // that helpers get of a step
    unsigned unhelped;       // steps in a row that the caller did alone
    float *arena, *scratch;
    float **guarded; // of a plan with a guard, in place of these two: tensors, then each thread's scratch
    int nb_guarded;
    float *base[]; // [threads][bases]
};

// The choice of kernels so far.
struct plan_choice {
    char *text; // see tachy_cpu_plan_choice()
    int effort; // that it was made with
    double seconds;                // that timing took in this process
    double run_ms, default_run_ms; // of a run as chosen, and with the defaults; 0: not timed
};

struct tachy_cpu_plan {
    struct tachy_plan base; // first
    const struct tachy_log *log; // while it opens
    struct plan_step *steps;
    int nb_steps, max_steps;
    struct plan_label *labels; // one per step
    int nb_labels, max_labels;
    float *weights;
    size_t nb_weights, max_weights; // floats
    struct plan_packed **packed; // shared with other plans, each once
    int nb_packed;
    struct tachy_deconv **deconvs;
    int nb_deconvs;
    struct plan_choice choice;
    size_t arena, scratch, values; // floats
    int nb_in, nb_out, nodes;
    int threads; // of a run
    enum tachy_guard guard;
    struct plan_size { // with a guard: inputs, outputs, values; else NULL
        size_t bytes, align;
    } *sizes;
    int nb_sizes, nb_bases; // nb_bases: of one thread
    pthread_mutex_t lock;
    struct plan_workspace *idle; // under the lock
};

// True if a convolution and the node after it run as one (plan_joined.c).
bool plan_joins(const struct tachy_node *n);
// Joins the steps of two convolutions, of which the second was added last. Their rows are then set.
void plan_join(struct plan_step *first, struct plan_step *second);
// Bytes of scratch that a step has in front of what its kernels use.
size_t plan_joined_band(const struct plan_step *s);

void plan_workspace_free(struct plan_workspace *w); // plan_threads.c

// Runs between guard pages (plan_guard.c); what fails gives TACHY_ERR_NOMEM.
int plan_guard_open(struct tachy_cpu_plan *p, const struct tachy_graph *g, const struct plan_places *places);
// Memory of a workspace whose bases are all NULL but the weights'.
int plan_guard_alloc(const struct tachy_cpu_plan *p, struct plan_workspace *w);
void plan_guard_free(struct plan_workspace *w);
// Before a run: takes the inputs, and nothing has been written yet. After it: gives the outputs.
void plan_guard_begin(const struct tachy_cpu_plan *p, struct plan_workspace *w, const float *const in[]);
void plan_guard_end(const struct tachy_cpu_plan *p, struct plan_workspace *w, float *const out[]);
// Before a step: makes only its own scratch accessible.
void plan_guard_step(const struct tachy_cpu_plan *p, struct plan_workspace *w, const struct plan_step *s);
// True if a step is long enough, and has enough rows, for more than one thread.
bool plan_worth_splitting(const struct plan_step *s);

// tachy_cpu_refuses(), but values that nodes make may be float16: they are held as floats and not rounded, which is
// for graphs that were made for another back end.
const char *plan_refuses_form(const struct tachy_node *n);

// Builds the steps of a node (plan_steps.c, steps_*.c). The plan supplies what a node needs besides its operands.
struct plan_build {
    struct tachy_cpu_plan *plan;
    const struct tachy_graph *g;
    struct plan_places places;
    const struct tachy_plan_kernels *k;
    bool trial, direct; // as in tachy_plan_params
    struct plan_kernel *kernels; // to be chosen and packed when all steps are there
    int nb_kernels;
};
// A convolution step whose kernel is chosen at the end; until then s->conv has its default. The data of `w` must live
// as long as the graph. TACHY_ERR_NOMEM.
struct plan_kernel {
    int step;
    struct tachy_conv_weights w;
};
int plan_later(struct plan_build *b, const struct plan_step *s, const struct tachy_conv_weights *w);
// Chooses as `params` say and packs (choice.c). TACHY_ERR_NOMEM.
int plan_choose(struct plan_build *b, const struct tachy_plan_params *params);
// Memory of a convolution's weights for its kernel: packed, and shared with all plans that have the
// same. NULL: no memory.
struct plan_packed *plan_pack(const struct tachy_conv *c, const struct tachy_conv_weights *w);
// Keeps packed weights, which become the plan's also on failure. TACHY_ERR_NOMEM.
int plan_keep(struct tachy_cpu_plan *p, struct plan_packed *k);
int plan_steps_of(struct plan_build *b, const struct tachy_node *n);
// Builds the steps of one operator (steps_*.c).
typedef int plan_steps_fn(struct plan_build *b, const struct tachy_node *n);
plan_steps_fn plan_steps_conv, plan_steps_deconv, plan_steps_matmul; // steps_conv.c
plan_steps_fn plan_steps_unary, plan_steps_binary, plan_steps_pool, plan_steps_resize,
    plan_steps_reduce, plan_steps_softmax;             // steps_math.c
plan_steps_fn plan_steps_copy, plan_steps_concat; // steps_copy.c
plan_steps_fn plan_steps_spread;                      // steps_spread.c
plan_steps_fn plan_steps_product;                     // steps_matmul.c
plan_steps_fn plan_steps_gather, plan_steps_gather_each, plan_steps_gather_nd,
    plan_steps_scatter, plan_steps_top, plan_steps_arg;                                         // steps_index.c
plan_steps_fn plan_steps_layer_norm, plan_steps_group_norm; // steps_norm.c
plan_steps_fn plan_steps_grid;                              // steps_grid.c
plan_steps_fn plan_steps_conv_int8, plan_steps_binary_int8, plan_steps_table; // steps_int8.c
plan_steps_fn plan_steps_cubic;                             // steps_cubic.c
plan_steps_fn plan_steps_function;                          // steps_function.c
// A convolution of that shape whose weights are computed (steps_matmul.c).
int plan_steps_conv_computed(struct plan_build *b, struct plan_step *s, const struct tachy_node *n,
                             const struct tachy_conv_shape *shape);
// The graph's input or output `i` of another type than float32, from and to the arena's floats.
int plan_convert_input(struct plan_build *b, const struct tachy_value *v, int i);
int plan_convert_output(struct plan_build *b, const struct tachy_value *v, int i);
// A node's input; NULL if it is absent.
struct tachy_value *plan_input(const struct tachy_node *n, int i);
// A step of `n` with its first operand and its output, of one row.
int plan_begin(struct plan_build *b, const struct tachy_node *n, struct plan_step **out);
// Also with its second operand.
int plan_begin_two(struct plan_build *b, const struct tachy_node *n, struct plan_step **out);
// The place of an operand; a constant is in the plan's weights. NULL `v`: no base.
int plan_operand(struct plan_build *b, const struct tachy_value *v, struct plan_ref *out);
// A constant in the plan's weights, in its layout; negative when out of memory.
ptrdiff_t plan_constant(struct plan_build *b, const struct tachy_value *v);
// The activation of a node and its slope.
int plan_set_act(struct plan_build *b, struct plan_step *s, const struct tachy_node *n,
                 const struct tachy_value *slope);
// Copies `from` to the graph's output `i`, if the value could not be placed there.
int plan_copy_output(struct plan_build *b, const struct tachy_value *from, int i);
// Allocates zeroed floats among the plan's weights, aligned to 64 bytes: returns their offset, negative if out of
// memory. Moves the weights.
ptrdiff_t plan_weights(struct tachy_cpu_plan *p, size_t floats);
struct plan_step *plan_step(struct plan_build *b); // NULL when out of memory
void plan_needs_scratch(struct tachy_cpu_plan *p, struct plan_step *s, size_t bytes);


// The functions of steps (plan_run.c, plan_loops.c).
typedef void plan_run_fn(const struct plan_step *s, const struct plan_run *r, int row0, int row1);
plan_run_fn plan_run_conv, plan_run_joined, plan_run_nothing, plan_run_narrow, plan_run_winograd, plan_run_deconv, plan_run_unary, plan_run_binary,
    plan_run_pool, plan_run_mean, plan_run_resize, plan_run_softmax, plan_run_copy, plan_run_frame, plan_run_reduce, plan_run_softmax_any, plan_run_softmax_sum,
    plan_run_spread, plan_run_select, plan_run_product, plan_run_conv_computed, plan_run_gather, plan_run_scatter, plan_run_top, plan_run_arg,
    plan_run_layer_norm, plan_run_group_norm, plan_run_grid, plan_run_cubic, plan_run_conv_int8, plan_run_binary_int8, plan_run_table, plan_run_function, plan_run_enter,
    plan_run_leave;
// The operands of a convolution's step; `add` is memory for the added tensor's view.
struct tachy_conv_io plan_conv_io(const struct plan_step *s, const struct plan_run *r, struct tachy_view *add);
// Goes to the next element of dims 0..rank-1 by `index`; false after the last.
bool plan_next(const struct plan_copy *c, int rank, int64_t *index, ptrdiff_t *from, ptrdiff_t *to);
// Copies one element after the other, as steps and dimensions say; lines that are dense as a whole.
void plan_copy_elements(const struct plan_copy *c, const float *x, float *y);
struct tachy_view plan_at(const struct plan_ref *ref, const struct plan_run *r);
