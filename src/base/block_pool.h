#pragma once
#include "base/memory.h"

// Blocks of one size in one place, all taken when the pool is opened, so that a run finds out at
// its start whether they fit. Idle ones give way when memory is short and are taken again when they
// are asked for. Thread-safety: all calls may come from any thread, but open and close.
struct tachy_block_pool;

// `count` blocks of `size` bytes. TACHY_ERR_NOMEM, logged by the manager: nothing was taken.
int tachy_block_pool_open(struct tachy_block_pool **out, struct tachy_memory *m, enum tachy_place place,
                          enum tachy_memory_use use, size_t size, int count);
// Every block must have been put back.
void tachy_block_pool_close(struct tachy_block_pool **p);

// The address of a free block, not cleared; NULL: all are out, or one that gave way does not fit any
// more.
void *tachy_block_pool_get(struct tachy_block_pool *p);
void tachy_block_pool_put(struct tachy_block_pool *p, void *data); // NULL is allowed
int tachy_block_pool_out(struct tachy_block_pool *p); // how many are in use
