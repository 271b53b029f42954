#pragma once
#include "base/base.h"

#include <pthread.h>
#include <tachy/tensor.h>

// Tracks who holds how much memory of each kind, within a budget each, and decides who gives way when one runs out.
// Pools take blocks when a run starts, not per frame. Thread-safety: all calls may come from any thread, except open
// and close.

// enum tachy_mem, followed by the memory of further GPUs.
enum { TACHY_MEM_KINDS = TACHY_DEVICE + TACHY_MAX_GPUS };
// The memory of the GPU with this ordinal, 0..TACHY_MAX_GPUS - 1. The first one's is TACHY_DEVICE.
static inline enum tachy_mem tachy_mem_of_gpu(int ordinal)
{
    return (enum tachy_mem)(TACHY_DEVICE + ordinal);
}

enum tachy_memory_use {
    TACHY_MEMORY_FRAMES = 0, // decoded and composited pictures
    TACHY_MEMORY_TENSORS,    // inputs and outputs of engines
    TACHY_MEMORY_RESULTS,    // masks and what else a task keeps for an item
    TACHY_MEMORY_CACHE,      // what can be made again
    TACHY_MEMORY_USES
};

struct tachy_memory;

// A piece of memory. Zeroed before it is taken; must not move until it is given back.
struct tachy_block {
    void *data; // 64-byte aligned, not cleared; NULL for a reservation
    size_t size;
    enum tachy_mem mem;
    enum tachy_memory_use use;
    const char *site; // file:line of the call that took it
    struct tachy_block *prev, *next;
};

struct tachy_memory_params {
    uint64_t budget[TACHY_MEM_KINDS]; // bytes; 0: what there is
    const struct tachy_log *log;   // NULL: silent; must outlive the manager
};

// One reference, given back with close; pools keep references of their own.
int tachy_memory_open(struct tachy_memory **out, const struct tachy_memory_params *p);
struct tachy_memory *tachy_memory_ref(struct tachy_memory *m);
// The last close frees. Debug builds (no NDEBUG) then log each block that was not given back, at
// WARN.
void tachy_memory_close(struct tachy_memory **m);

// Allocator for a kind of memory; host memory has one from the start. `alloc` returns TACHY_ERR_NOMEM if there is no
// more, and another code, logged, for other failures. Set before the first block of that kind.
struct tachy_mem_ops {
    int (*alloc)(void *user, size_t size, void **data);
    void (*free)(void *user, void *data);
    void (*close)(void *user); // with the manager, or when the kind is set again; may be NULL
    void *user;
};
void tachy_memory_set_ops(struct tachy_memory *m, enum tachy_mem mem,
                            const struct tachy_mem_ops *ops);
bool tachy_memory_has(const struct tachy_memory *m, enum tachy_mem mem);

// Bytes; 0: all there is. Existing blocks stay.
void tachy_memory_set_budget(struct tachy_memory *m, enum tachy_mem mem, uint64_t bytes);

// Takes `size` > 0 bytes. If the budget or the system has too little, caches are asked to shrink, and it is tried once
// more. TACHY_ERR_NOMEM: nothing was taken; logged once, then only counted.
// TACHY_ERR_UNSUPPORTED: the kind has no ops. Other codes come from the ops.
#define tachy_memory_take(m, b, mem, use, size)                                                  \
    tachy_memory_take_at(m, b, mem, use, size, TACHY_SITE)
// Counts memory that somebody else allocates (a decoder's pictures); b->data stays NULL.
#define tachy_memory_reserve(m, b, mem, use, size)                                               \
    tachy_memory_reserve_at(m, b, mem, use, size, TACHY_SITE)
#define TACHY_SITE_TEXT(line) #line
#define TACHY_SITE_LINE(line) TACHY_SITE_TEXT(line)
#define TACHY_SITE __FILE__ ":" TACHY_SITE_LINE(__LINE__)
int tachy_memory_take_at(struct tachy_memory *m, struct tachy_block *b, enum tachy_mem mem,
                         enum tachy_memory_use use, size_t size, const char *site);
int tachy_memory_reserve_at(struct tachy_memory *m, struct tachy_block *b, enum tachy_mem mem,
                            enum tachy_memory_use use, size_t size, const char *site);
// Gives a block back and zeroes it; does nothing if it was never taken.
void tachy_memory_give(struct tachy_memory *m, struct tachy_block *b);

// Something that can shrink. `shrink` gives back blocks of `mem` worth `want` bytes or as many as
// it can, and returns how many that were; it must not take blocks, add or remove caches. It may be
// called from any thread that takes memory.
struct tachy_cache {
    enum tachy_mem mem;
    size_t (*shrink)(void *user, size_t want);
    void *user;
    struct tachy_cache *next;
};
void tachy_memory_add_cache(struct tachy_memory *m, struct tachy_cache *c);
void tachy_memory_remove_cache(struct tachy_memory *m, struct tachy_cache *c);
// Asks the caches of a kind for `want` bytes; what they gave.
size_t tachy_memory_shrink(struct tachy_memory *m, enum tachy_mem mem, size_t want);

// TACHY_ERR_NOMEM, logged as a take is, for who had `size` bytes counted that the system did not have.
int tachy_memory_short(struct tachy_memory *m, enum tachy_mem mem, enum tachy_memory_use use, size_t size);
// For a run that ends by it: the last shortage as an error, with its figure. TACHY_ERR_LIMIT if it was the budget that had
// no room, else TACHY_ERR_NOMEM; logs nothing if there was none.
int tachy_memory_explain(struct tachy_memory *m);
// The params'.
const struct tachy_log *tachy_memory_log(const struct tachy_memory *m);

struct tachy_memory_stats {
    uint64_t used[TACHY_MEM_KINDS][TACHY_MEMORY_USES];
    uint64_t total[TACHY_MEM_KINDS], peak[TACHY_MEM_KINDS], budget[TACHY_MEM_KINDS];
    uint64_t shortages; // takes that failed or needed a cache to shrink
};
void tachy_memory_read(struct tachy_memory *m, struct tachy_memory_stats *s);

// Bytes that this process may take of the machine's memory, at most: the physical memory or the
// control group's limit, whichever is less.
uint64_t tachy_memory_of_machine(void);
