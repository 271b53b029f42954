#pragma once
#include "base/memory.h"
#include "media/frame_mem.h"

struct tachy_gpu;

// Frames of one format and size that return to the pool when their last reference goes. Thread-safe. Closing while frames
// are out is fine: the last one frees it. Without FFmpeg's types.
typedef struct tachy_frame_pool tachy_frame_pool;

// In the host's memory.
int tachy_frame_pool_open(tachy_frame_pool **out, enum tachy_pix format, int width, int height);
// In the GPU's memory, or the host's if `g` is NULL. On a GPU rows begin at multiples of 256 bytes, and
// tachy_frame_writable() gives their addresses there.
int tachy_frame_pool_open_gpu(tachy_frame_pool **out, struct tachy_gpu *g, enum tachy_pix format,
                              int width, int height);
// As above, in any memory: pinned frames belong to the host and are laid out as the GPU's, which copies into them
// directly. `g` is ignored for TACHY_HOST; TACHY_ERR_INVAL if it is NULL for other memory.
int tachy_frame_pool_open_mem(tachy_frame_pool **out, struct tachy_gpu *g, enum tachy_mem mem,
                                enum tachy_pix format, int width, int height);
void tachy_frame_pool_close(tachy_frame_pool **p);

// From now on frames are counted as taken from `m`, which the pool keeps a reference of, and idle ones are freed when
// memory is short. Frames that are out when the pool closes are no longer counted. Before the first get. NULL: not counted.
void tachy_frame_pool_account(tachy_frame_pool *p, struct tachy_memory *m);

// A writable frame (pixels not cleared; pts, id, colour zeroed), new or used before.
int tachy_frame_pool_get(tachy_frame_pool *p, tachy_frame **out);
// Returns a frame of the format and size of `like` from *p. If *p is NULL or a pool of other frames, it is replaced by
// a new pool, in memory `mem` of `g` (NULL: the host's) and counted in `m` (NULL: not counted). Always pass the same three
// for one *p.
int tachy_frame_pool_get_like(tachy_frame_pool **p, struct tachy_gpu *g, enum tachy_mem mem, struct tachy_memory *m,
                              const tachy_frame *like, tachy_frame **out);
// Frames that have not come back.
size_t tachy_frame_pool_out(tachy_frame_pool *p);

// Bytes of pixels that a frame of this format and size takes.
size_t tachy_frame_bytes(enum tachy_pix format, int width, int height);
