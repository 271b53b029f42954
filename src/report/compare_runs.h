#pragma once
#include <jansson.h>
#include <stdbool.h>

struct compare_runs {
    double margin; // relative
    bool paired, steps;
};
// The `figures`, `verdict`, `failed`, `paired`, and what the environments differ in, for two arrays of results. NULL: no
// memory. An empty list of figures: the two have none in common.
json_t *compare_runs(const json_t *base, const json_t *changed, const struct compare_runs *p);
