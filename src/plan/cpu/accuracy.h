#pragma once
#include "plan/graph.h"

// The error of each of a plan's steps against double precision: both sides get the float64 results before the step,
// rounded to single precision, as input.

struct tachy_layer_error {
    const char *op, *name; // of the node that the step runs; valid during the call
    int64_t elements;      // of its output
    double error;          // L2 norm of the difference over L2 norm of the float64 output
};
typedef void tachy_layer_error_fn(void *user, const struct tachy_layer_error *e);

// Calls `each` for every step that computes (one that only moves elements has no error), in the
// plan's order. `g`: as a front end makes it, not changed; `in` as in tachy_f64_open(). Codes of
// tachy_plan_passes(), tachy_f64_open() and tachy_cpu_plan_open().
int tachy_cpu_layer_errors(const struct tachy_graph *g, const void *const in[], tachy_layer_error_fn *each,
                           void *user);
