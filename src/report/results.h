#pragma once
#include "base/base.h"

#include <jansson.h>

// Result files and the figures in them.

// Appends the results of the files and folders to the array *out, which the caller releases. The errors of
// tachy_report_compare().
int results_load(json_t **out, const char *const *files, size_t n, const struct tachy_log *log);

// What a run is judged by: an object of name -> {unit, better: "more" or "less", values: one a run, null where the run lacks
// it}, in the order of their first appearance. Every run of a bench is one; other results are one run each. NULL: no memory.
json_t *results_figures(const json_t *results, bool steps);
