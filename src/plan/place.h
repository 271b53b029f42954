#pragma once
#include "plan/graph.h"
#include "ref/ref_plan.h"

// Places the values of a graph in memory for a plan's runs; shared by the back ends.

// The base of an address. Inputs follow, then outputs, then values with memory of their own.
enum { BASE_ARENA, BASE_WEIGHTS, BASE_SCRATCH, BASE_INPUTS };

// A tensor before a run holds its place: `v.data` is NULL, `base` NO_BASE if it has none.
enum { NO_BASE = -1 };
struct plan_ref {
    int base;
    ptrdiff_t offset; // units: floats, or bytes (plan_place_rules.own_types)
    struct tachy_view v;
};

// The place of each value of a graph.
struct plan_places {
    struct plan_ref *ref; // by a value's id; rank 4: as the value's layout says; else rows
    struct plan_ref *sums; // sums over a value's rows, if they are computed and read; else NO_BASE
    bool *joined; // by a value's id: has no memory, since what makes and what reads it are joined
    size_t arena, values; // units
    size_t *own; // units of the values that have a base of their own, in its order
    int nb_own;
};
// How many nodes before and after the node the value it makes is written or read as well, and how long it keeps its inputs.
struct plan_beside {
    int front, behind;
};
// Nodes of one region and of different lanes may run at the same time, those of one lane run in their order. A region is a sequence
// of nodes; everything before it has ended when it begins, and everything in it when it ends.
struct plan_lane {
    int region, lane; // region 0: none
};
static inline bool plan_same_lane(const struct plan_lane *a, const struct plan_lane *b) { return a->region == b->region && a->lane == b->lane; }
// A back end's rules for places. {0} is valid.
struct plan_place_rules {
    // Every value lies in memory in its own type: units are bytes. Otherwise every element is a float, which is the
    // unit, and values of other types outside the plan are converted by a step.
    bool own_types;
    bool own_bases; // no arena: every value has its own base
    // Elements from pixel to pixel of a picture with channels last, which are more than its channels; 0: as many. NULL: 0. Asked
    // for what may be a view, and for pictures that a node makes which can write one.
    int (*pixel)(const struct tachy_value *v);
    bool (*joins)(const struct tachy_node *n); // n's result needs no memory; NULL: none
    bool (*writes_part)(const struct tachy_node *n); // a Transpose whose step can write a part of a larger tensor; NULL: none
    const bool *through; // by the id of a node's output: who reads what the node moves can read its dense input instead; NULL: none
    const struct plan_beside *beside; // by the id of a node's output; NULL: none
    const struct plan_lane *lanes;    // by the id of a node's output; NULL: none
};
// Assigns memory to every value that a node makes: addresses instead of copies for Reshape, Transpose, Slice and Concat
// if possible, the rest coloured by lifetime.
int plan_place(struct plan_places *p, const struct tachy_graph *g, const struct plan_place_rules *rules);
void plan_place_free(struct plan_places *p);
// A mean over the pixels of a picture with its channels last, which can be read from sums of rows.
bool plan_is_mean_of_rows(const struct tachy_node *n);

// Steps of a value's dimensions, as ONNX counts them, from one element to the next.
void plan_strides(const struct tachy_value *v, const struct tachy_view *at, ptrdiff_t *stride);
// A dense value as a view: pictures by their layout, everything else as rows of its last axis.
struct tachy_view plan_view(const struct tachy_value *v);
// True if the elements are contiguous in the order of the layout.
bool plan_is_dense(const struct tachy_view *v);
// True if channels-last and ONNX's order give the same bytes.
static inline bool plan_order_is_free(const struct tachy_value *v)
{
    return v->rank == 4 && (v->shape[1] == 1 || v->shape[2] * v->shape[3] == 1);
}
// True if a node puts pictures' pixels in rows of another length: with channels last, too, the bytes stay.
static inline bool plan_moves_pixels(const struct tachy_node *n)
{
    const struct tachy_value *x = n->in[0], *y = n->out;
    return n->op == TACHY_OP_RESHAPE && x->rank == 4 && y->rank == 4 && x->shape[0] == y->shape[0] && x->shape[1] == y->shape[1] &&
           x->shape[2] != y->shape[2];
}
// True if a node changes the numbers' type in place: shape and layout stay.
static inline bool plan_changes_type(const struct tachy_node *n)
{
    return n->op == TACHY_OP_RESHAPE && tachy_value_same_shape(n->in[0], n->out) && n->in[0]->nhwc == n->out->nhwc;
}
