#pragma once
#include <stddef.h>

// Occupied parts of an arena over time: a rectangle of times and addresses for each value. Finding a place takes about
// the square of the logarithm of the number of times.
struct plan_spans {
    int leaves; // a power of two, at least the times
    struct span_node *nodes; // a binary tree over the times, the root at 1
};

// For times 0..times-1. TACHY_ERR_NOMEM; may be closed even then.
int plan_spans_open(struct plan_spans *s, int times);
void plan_spans_close(struct plan_spans *s);
// The lowest place of `size` that is free at all times from first to last.
size_t plan_spans_lowest(const struct plan_spans *s, int first, int last, size_t size);
// Takes it. TACHY_ERR_NOMEM.
int plan_spans_take(struct plan_spans *s, int first, int last, size_t at, size_t size);
