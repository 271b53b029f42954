#pragma once
#include "plan/f64.h"

// Inside of src/plan/f64*.c.

// A node while it is evaluated.
struct f64_node {
    const struct tachy_node *n;
    const double *const *in; // by the node's inputs; NULL if absent
    double *out;             // zeroed
};

// One operator. Shapes have been verified.
typedef void f64_op_fn(const struct f64_node *f);
f64_op_fn f64_conv, f64_deconv, f64_matmul, f64_pool, f64_resize;          // f64_window.c
f64_op_fn f64_unary, f64_binary, f64_concat, f64_slice, f64_pad, f64_transpose, f64_reshape,
    f64_expand, f64_reduce, f64_softmax;                                    // f64_elements.c

f64_op_fn f64_select, f64_gather, f64_gather_each, f64_gather_nd, f64_scatter_each, f64_scatter_nd, f64_top, f64_arg, f64_layer_norm, f64_group_norm,
    f64_grid; // f64_index.c

double f64_act(const struct tachy_plan_act_of *a, double x, double slope);
// As above, for every element of the node's output. `slope`: index of PRelu's slope among the inputs; negative: none.
void f64_act_all(const struct f64_node *f, int slope);

// Goes through the elements of a shape in order and counts offsets into up to three tensors along.
struct f64_walk {
    int rank;
    int64_t dim[TACHY_MAX_RANK], index[TACHY_MAX_RANK];
    int64_t step[3][TACHY_MAX_RANK], at[3]; // elements
};
struct f64_walk f64_walk(int rank, const int64_t *dim);
// Steps of a value that is stretched to the walk's shape by ONNX's (numpy's) rules.
void f64_walk_broadcast(struct f64_walk *w, int which, const struct tachy_value *v);
bool f64_walk_next(struct f64_walk *w); // false after the last
// Steps of a dense tensor.
void f64_strides(const struct tachy_value *v, int64_t *stride);
static inline const struct tachy_value *f64_in(const struct f64_node *f, int i)
{
    return i < f->n->nb_in ? f->n->in[i] : NULL;
}
