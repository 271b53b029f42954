#pragma once
#include "plan/graph.h"

// What no back end runs: NULL, or why not, as plan_backend.refuses() has it. Shapes have been verified.
const char *tachy_refuse_size(const struct tachy_value *v);
const char *tachy_refuse_pool(const struct tachy_node *n);
// Of PRelu on `of`; NULL: there is no slope.
const char *tachy_refuse_slope(const struct tachy_value *slope, const struct tachy_value *of);
