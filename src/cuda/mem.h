#pragma once
#include "base/memory.h"
#include "cuda/device.h"

// A GPU's memory, and host memory that GPUs read and write on their own (pinned), as places of a
// memory manager. A block's `data` in device memory is the GPU's address: the CPU must not read it.

struct tachy_gpu_mem_params {
    double fraction;  // of the GPU's memory that this program may take, 0..1; 0: all that is free
    double vram_most; // share of the GPU's memory, of all programs together, above which caches
                      // shrink before more is taken, 0..1; 0: 1
    size_t pinned;    // bytes of pinned memory at most; 0: a quarter of the machine's memory
    const struct tachy_log *log; // NULL: silent; must outlive the manager
};

// Sets budget and ops of the GPU's kind of memory (tachy_mem_of_gpu()) in `m`, and with the first GPU those of
// TACHY_PINNED, which all GPUs share. Existing ones stay. The manager closes them. One thread at a time. Negative,
// logged: no context on the GPU (TACHY_ERR_EXTERNAL), an ordinal out of range (TACHY_ERR_UNSUPPORTED).
int tachy_gpu_mem_open(struct tachy_memory *m, const struct tachy_device *d,
                          const struct tachy_gpu_mem_params *p);

// Memory for results of a stream's kernels, which the manager counts.
struct tachy_gpu_scratch {
    struct tachy_memory *memory;
    enum tachy_mem mem;
    const struct tachy_cu *cu;
    cuda_stream stream;
    const struct tachy_log *log;
};
// Provides at least `size` bytes in *b; when it grows, its contents are lost after the stream has finished with them.
// The context must be current. Negative: as the manager's, or logged if the stream failed.
int tachy_gpu_scratch_need(const struct tachy_gpu_scratch *s, struct tachy_block *b, size_t size);
