#pragma once
#include "base/base.h"

#include <stdatomic.h>

// Flow kept in a folder, in Middlebury's format: a .flo file for each pair of luma pictures, named by the digest of what both show.
// CPU and GPU write and read the same files. Several workers may use one cache.

struct flow_cache {
    char *folder; // NULL: nothing is kept
    int width, height;
    const struct tachy_log *log;
    _Atomic bool told; // that it cannot be written
};

// A picture of luma, rows `stride` bytes apart.
struct flow_picture {
    const uint8_t *data;
    ptrdiff_t stride;
};

// `folder` is made; NULL: nothing is kept. Width and height are set before the calls below. To be closed also on failure.
int flow_cache_open(struct flow_cache *c, const char *folder, const struct tachy_log *log);
void flow_cache_close(struct flow_cache *c);

// The file of a pair, for tachy_free(). NULL: out of memory.
char *flow_cache_path(const struct flow_cache *c, struct flow_picture before, struct flow_picture here);
// Bytes of memory, aligned for float, that flow_cache_write() needs.
size_t flow_cache_bytes(const struct flow_cache *c);
// u, v: dense, of all pixels. false: it is not there, or is of no such flow.
bool flow_cache_read(const struct flow_cache *c, const char *path, float *u, float *v);
// The first failure of all is logged as a warning.
void flow_cache_write(struct flow_cache *c, const char *path, const float *u, const float *v, void *memory);
