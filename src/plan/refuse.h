#pragma once
#include "plan/graph.h"

// Checks for shapes that no back end runs: NULL, or why not, as in plan_backend.refuses(). Shapes have been verified.
const char *tachy_refuse_size(const struct tachy_value *v);
const char *tachy_refuse_pool(const struct tachy_node *n);
// As above, for PRelu on `of`; NULL slope: there is none.
const char *tachy_refuse_slope(const struct tachy_value *slope, const struct tachy_value *of);
