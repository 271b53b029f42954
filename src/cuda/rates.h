#pragma once
#include "cuda/device.h"

// Measured rates of a GPU, to which the profiler's percentages refer.
//
// copy_bps: bytes per second of a copy within device memory, counting both reads and writes, of at least 1 GiB and
// eight times the L2 cache (a share of the device's memory if that is small). to_host_bps, to_device_bps: bytes per
// second of a copy of 64 MiB between the device and pinned host memory, in that direction alone. flops: operations per
// second of a matrix product of 8192 x 8192 x 8192 through cuBLAS, 2 n^3 operations, random numbers (zeros would be
// faster), accumulated in float32. Each is the median of seven after thirty to warm up, timed by events. 0: not known.
enum tachy_rate { TACHY_RATE_FP16, TACHY_RATE_TF32, TACHY_RATE_COUNT };
struct tachy_gpu_rates {
    double copy_bps, to_host_bps, to_device_bps;
    double flops[TACHY_RATE_COUNT];
};

// Reads what was measured earlier on a GPU of this name with this driver; false: nothing was.
bool tachy_gpu_rates_cached(struct tachy_gpu_rates *r, const struct tachy_device *d);
// Measures (about a second; the device should be idle) and stores the result in the user's cache folder,
// gpu-rates.json. Without cuBLAS the flops are 0, which is logged once. Takes up to 2.5 GiB, at most a quarter of the
// free memory.
int tachy_gpu_rates_measure(struct tachy_gpu_rates *r, struct tachy_device *d,
                            const struct tachy_log *log);
// The first where possible, else the second.
int tachy_gpu_rates(struct tachy_gpu_rates *r, struct tachy_device *d, const struct tachy_log *log);
