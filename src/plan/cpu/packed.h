#pragma once
#include <stddef.h>

// Packed weights: constant, reference counted, and one copy for all plans of the process whose bytes
// are the same, whatever they came from: sessions of one model, its batch sizes, two models with
// layers in common. Thread-safe.
struct plan_packed;

// Memory from tachy_aligned_alloc() with `size` bytes of weights, which becomes the cache's also on
// failure: what holds the same bytes, with one more owner. NULL: no memory.
struct plan_packed *plan_packed_share(void *data, size_t size);
void plan_packed_unref(struct plan_packed **k);
const void *plan_packed_data(const struct plan_packed *k);
size_t plan_packed_size(const struct plan_packed *k);
int plan_packed_owners(const struct plan_packed *k);
