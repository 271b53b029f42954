#pragma once
#include "base/base.h"

// The nearest of many vectors, by comparing with every one.

struct tachy_hit {
    int64_t row; // from 0
    float score; // the dot product
};

// Rows of binary16, one after the other.
struct tachy_rows {
    const uint16_t *v;
    int64_t rows;
    int size; // of a row
};

// Finds the k rows (1 to 1000) with the largest dot products with each of `n` queries, best first, the lower row first
// among equals; query i's results start at hits + i * k. `counts[i]`: their number, k or all rows. `threads`: 0: one
// per core; the hits are the same for any number. Blocks. TACHY_ERR_NOMEM.
int tachy_rows_search(const struct tachy_rows *r, const float *queries, int n, int k, int threads, struct tachy_hit *hits, int *counts);

// A file of vectors: .npy of binary16 with two extents, mapped into memory.
struct tachy_vectors {
    struct tachy_rows rows;
    void *map;
    size_t bytes;
};
// TACHY_ERR_NOT_FOUND, TACHY_ERR_IO, TACHY_ERR_FORMAT (it is no such file); logged. *v is zeroed on failure.
int tachy_vectors_open(struct tachy_vectors *v, const char *path, const struct tachy_log *log);
void tachy_vectors_close(struct tachy_vectors *v);
