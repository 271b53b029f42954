#pragma once
#include "plan/graph.h"
#include "ref/ref_grid_sample.h"
#include "ref/ref_int8.h"
#include "ref/ref_plan.h"

// A node's attributes in the words of the operations (ref/ref_plan.h), for every back end.

struct tachy_conv_shape plan_conv_shape(const struct tachy_node *n); // CONV, DECONV
struct tachy_pool_shape plan_pool_shape(const struct tachy_node *n);
struct tachy_resize_shape plan_resize_shape(const struct tachy_node *n); // nearest and linear
// Cubic resize: for each output along axis 0 (rows) or 1 four weights, then the four places in the input.
void plan_cubic_taps(const struct tachy_node *n, int axis, float *to);
struct tachy_grid_axis plan_grid_axis(const struct tachy_node *n, int d); // of a grid's numbers: 0 x, 1 y, 2 z
// An activation without the slope of PRelu. Only what tachy_plan_act_ends() holds for.
struct tachy_act plan_act(const struct tachy_plan_act_of *a);
// The end of CONV_INT8 and BINARY_INT8.
struct tachy_int8_end plan_int8_end(const struct tachy_node *n);
enum tachy_binary_kind plan_binary(enum tachy_plan_binary b); // up to TACHY_PLAN_POW
