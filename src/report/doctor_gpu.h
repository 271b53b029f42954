#pragma once
#include <jansson.h>
#include <tachy/common.h>

// [{name, driver, memory_mib, ...}] of the NVIDIA GPUs here, asked of the driver's own library,
// which is loaded for it; an empty array where there is none. Adds to `advice` what makes one slower than it need be.
json_t *doctor_gpus(json_t *advice, const struct tachy_log *log);

// {"cuda", "nvml", "cupti", "cublas"}: file of the library that was found, null where there is
// none. They are loaded for it. Null as a whole without a driver.
json_t *doctor_cuda(const struct tachy_log *log);
