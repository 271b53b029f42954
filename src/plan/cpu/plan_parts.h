#pragma once
#include "plan/cpu/conv.h"
#include "plan/cpu/deconv.h"
#include "plan/cpu/plan.h"
#include "plan/cpu/team.h"

#include <pthread.h>

// Inside of src/plan/cpu/plan*.c.

// What an address counts from. Inputs follow, then outputs.
enum { BASE_ARENA, BASE_WEIGHTS, BASE_SCRATCH, BASE_INPUTS };

// A tensor before a run says where it lies: `v.data` is NULL, `base` NO_BASE where there is none.
enum { NO_BASE = -1 };
struct plan_ref {
    int base;
    ptrdiff_t offset; // floats
    struct tachy_view v;
};

// Elements one by one from one order to another; steps in floats.
struct plan_copy {
    int rank;
    int64_t dim[TACHY_MAX_RANK];
    ptrdiff_t from[TACHY_MAX_RANK], to[TACHY_MAX_RANK];
};

struct plan_run; // bases of one run
struct plan_step {
    // Rows row0..row1-1 of what the step writes; a step of one row cannot be split. Which rows are
    // written together changes no bit.
    void (*run)(const struct plan_step *s, const struct plan_run *r, int row0, int row1);
    int rows;
    bool split; // worth splitting between threads
    const struct tachy_plan_kernels *k;
    struct plan_ref in, in2, out, add, scale; // scale: data only
    struct plan_ref sums; // of the output's rows, or of the input's for a mean: [n * h][c]; data only
    struct tachy_act act;
    bool add_last;
    ptrdiff_t weights, slope; // floats in the weights; slope: -1 for none
    union {
        struct tachy_conv conv;
        struct tachy_deconv *deconv; // of the plan
        struct tachy_pool_shape pool;
        struct tachy_resize_shape resize;
        enum tachy_binary_kind binary;
        struct {
            struct plan_copy copy;
            bool fill; // the output is filled first
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
    };
};

struct plan_run {
    float *const *base;
};

// What one run needs; with several threads each has scratch and bases of its own.
struct plan_workspace {
    struct plan_workspace *next;
    struct plan_team *team; // NULL: the caller alone
    float *arena, *scratch;
    float *base[]; // [threads][bases]
};

struct tachy_cpu_plan {
    const struct tachy_log *log; // while it opens
    struct plan_step *steps;
    int nb_steps, max_steps;
    float *weights;
    size_t nb_weights, max_weights; // floats
    struct tachy_deconv **deconvs;
    int nb_deconvs;
    size_t arena, scratch, values; // floats
    int nb_in, nb_out, nodes;
    int threads; // of a run
    pthread_mutex_t lock;
    struct plan_workspace *idle; // under the lock
};

// Where each value of a graph lies.
struct plan_places {
    struct plan_ref *ref; // by a value's id; rank 4: as the value's layout says; else rows
    struct plan_ref *sums; // of a value's rows, where they are made and read; else NO_BASE
    size_t arena, values; // floats
};
// Memory of every value that a node makes: addresses instead of copies for Reshape, Transpose,
// Slice and Concat where that can be, the rest coloured by lifetime.
int plan_place(struct plan_places *p, const struct tachy_graph *g);
void plan_place_free(struct plan_places *p);
// A mean over the pixels of a picture with its channels last, which can be read from sums of rows.
bool plan_is_mean_of_rows(const struct tachy_node *n);

void plan_workspace_free(struct plan_workspace *w); // plan_threads.c
// Whether a step is long enough, and has rows enough, for more than one thread.
bool plan_worth_splitting(const struct plan_step *s);

// Steps of a node (plan_steps.c, steps_*.c). What a node needs beside its operands comes from the plan.
struct plan_build {
    struct tachy_cpu_plan *plan;
    const struct tachy_graph *g;
    struct plan_places places;
    const struct tachy_plan_kernels *k;
};
int plan_steps_of(struct plan_build *b, const struct tachy_node *n);
// Those of one operator (steps_*.c).
typedef int plan_steps_fn(struct plan_build *b, const struct tachy_node *n);
plan_steps_fn plan_steps_conv, plan_steps_deconv, plan_steps_matmul; // steps_conv.c
plan_steps_fn plan_steps_unary, plan_steps_binary, plan_steps_pool, plan_steps_resize,
    plan_steps_reduce, plan_steps_softmax;             // steps_math.c
plan_steps_fn plan_steps_copy, plan_steps_concat; // steps_copy.c
// A node's input; NULL where it is absent.
struct tachy_value *plan_input(const struct tachy_node *n, int i);
// A step of `n` with its first operand and its output, of one row.
int plan_begin(struct plan_build *b, const struct tachy_node *n, struct plan_step **out);
// Where an operand lies, a constant in the plan's weights. NULL `v`: no base.
int plan_operand(struct plan_build *b, const struct tachy_value *v, struct plan_ref *out);
// A constant in the plan's weights, in its layout; negative when out of memory.
ptrdiff_t plan_constant(struct plan_build *b, const struct tachy_value *v);
// What kernels call an activation; a slope is set by plan_set_act().
struct tachy_act plan_act(const struct tachy_plan_act_of *a);
int plan_set_act(struct plan_build *b, struct plan_step *s, const struct tachy_node *n,
                 const struct tachy_value *slope);
// A copy of `from` to where the graph's output `i` lies, where the value could not lie there.
int plan_copy_output(struct plan_build *b, const struct tachy_value *from, int i);
// Zeroed floats in the plan's weights, aligned to 64 bytes: where they start, negative when out
// of memory. Moves the weights.
ptrdiff_t plan_weights(struct tachy_cpu_plan *p, size_t floats);
struct plan_step *plan_step(struct plan_build *b); // NULL when out of memory
void plan_needs_scratch(struct tachy_cpu_plan *p, size_t bytes);

// Steps of a value's dimensions, as ONNX counts them, from one element to the next.
void plan_strides(const struct tachy_value *v, const struct tachy_view *at, ptrdiff_t *stride);
// A dense value as a view: pictures by their layout, everything else as rows of its last axis.
struct tachy_view plan_view(const struct tachy_value *v);
// Whether the elements lie one after the other in the order of the layout.
bool plan_is_dense(const struct tachy_view *v);
// Whether channels-last and ONNX's order are the same bytes.
static inline bool plan_order_is_free(const struct tachy_value *v)
{
    return v->rank == 4 && (v->shape[1] == 1 || v->shape[2] * v->shape[3] == 1);
}

// What steps do (plan_run.c, plan_loops.c).
typedef void plan_run_fn(const struct plan_step *s, const struct plan_run *r, int row0, int row1);
plan_run_fn plan_run_conv, plan_run_deconv, plan_run_unary, plan_run_binary, plan_run_pool, plan_run_mean,
    plan_run_resize, plan_run_softmax, plan_run_copy, plan_run_frame, plan_run_reduce, plan_run_softmax_any;
struct tachy_view plan_at(const struct plan_ref *ref, const struct plan_run *r);
