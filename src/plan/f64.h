#pragma once
#include "plan/graph.h"

// Computes a graph in double precision by plain loops: the reference for plans, passes and fuzzing. It takes a graph as
// a front end makes it or as any pass leaves it: layouts (`nhwc`) concern only memory and change nothing here. Slow,
// and keeps all values in memory at once.
//
// Thread-safety: as the graph's.
struct tachy_f64;

// Evaluates a verified graph. `in`: data of the graph's inputs in their order and type, dense in
// ONNX's order, not needed afterwards; the graph must outlive the result. Close *out with
// tachy_f64_close(). TACHY_ERR_UNSUPPORTED: an operator or type that is not built here, named in the
// graph's log; TACHY_ERR_NOMEM.
// `rounded`: every value is rounded to single precision before it is used, which is the least that a
// program in single precision is off by.
int tachy_f64_open(struct tachy_f64 **out, const struct tachy_graph *g, const void *const in[], bool rounded);
// A value's numbers in shape's order, the result's; NULL for a value that nothing of the graph makes.
const double *tachy_f64_value(const struct tachy_f64 *f, const struct tachy_value *v);
void tachy_f64_close(struct tachy_f64 **f); // NULL inside is allowed

// L2 norm of got - want over the L2 norm of want; 0 if both are all zeros; infinite if only `want` is, or if an element
// is NaN in only one of them.
double tachy_f64_error(const float *got, const double *want, int64_t n);
