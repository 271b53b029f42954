#pragma once
#include "base/base.h"

// A heap of points by a key that lies outside it; the least key is on top, of equal ones the lowest point.
struct cluster_heap {
    const double *key; // of each point
    int32_t *item, *place; // place[i]: where item i is; -1: not in the heap
    int n;
};

static inline bool cluster_heap_before(const struct cluster_heap *h, int32_t a, int32_t b)
{
    return h->key[a] < h->key[b] || (h->key[a] == h->key[b] && a < b);
}

static inline void cluster_heap_put(struct cluster_heap *h, int at, int32_t i)
{
    h->item[at] = i;
    h->place[i] = at;
}

// Item `i` belongs at `at` or above.
static inline void cluster_heap_rise(struct cluster_heap *h, int at, int32_t i)
{
    for (; at && cluster_heap_before(h, i, h->item[(at - 1) / 2]); at = (at - 1) / 2)
        cluster_heap_put(h, at, h->item[(at - 1) / 2]);
    cluster_heap_put(h, at, i);
}

// Item `i` belongs at `at` or below.
static inline void cluster_heap_sink(struct cluster_heap *h, int at, int32_t i)
{
    for (int child; (child = 2 * at + 1) < h->n; at = child) {
        if (child + 1 < h->n && cluster_heap_before(h, h->item[child + 1], h->item[child]))
            child++;
        if (!cluster_heap_before(h, h->item[child], i))
            break;
        cluster_heap_put(h, at, h->item[child]);
    }
    cluster_heap_put(h, at, i);
}

static inline void cluster_heap_push(struct cluster_heap *h, int32_t i) { cluster_heap_rise(h, h->n++, i); }

static inline int32_t cluster_heap_pop(struct cluster_heap *h)
{
    int32_t top = h->item[0], last = h->item[--h->n];
    if (h->n)
        cluster_heap_sink(h, 0, last);
    h->place[top] = -1;
    return top;
}

// After keys have changed.
static inline void cluster_heap_order(struct cluster_heap *h)
{
    for (int at = h->n / 2 - 1; at >= 0; at--)
        cluster_heap_sink(h, at, h->item[at]);
}
