#pragma once
#include "base/memory.h"
#include "cuda/device.h"

// A GPU's memory, and host memory that it can read and write on its own (pinned), as places of a
// memory manager. A block's `data` in device memory is the GPU's address: the CPU must not read it.
struct tachy_gpu_places;

struct tachy_gpu_places_params {
    int number;       // which of a job's GPUs, from 0: its memory is tachy_place_of_gpu(number)
    double fraction;  // of the GPU's memory that this program may take, 0..1; 0: all that is free
    double vram_most; // share of the GPU's memory, of all programs together, above which caches
                      // shrink before more is taken, 0..1; 0: 1
    size_t pinned;    // bytes of pinned memory at most; 0: a quarter of the machine's memory
    const struct tachy_log *log; // NULL: silent; must outlive it
};

// Sets budget and ops of the GPU's place in `m`, and of TACHY_PINNED with the first one, which all of
// them reach; `m` must not hold blocks there.
// `d` stays open as long. Negative, logged: no context on the GPU.
int tachy_gpu_places_open(struct tachy_gpu_places **out, struct tachy_memory *m, struct tachy_device *d,
                          const struct tachy_gpu_places_params *p);
// After every block of its places was given back.
void tachy_gpu_places_close(struct tachy_gpu_places **p);
