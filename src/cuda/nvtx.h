#pragma once
#include <stdbool.h>
#include <tachy/common.h>

// Ranges that NVIDIA tools (nsys, ncu, any NVTX client) show beside the GPU's work: the domain "tachy", one range per
// step, nested per thread. A tool announces itself through NVTX_INJECTION64_PATH; its library is loaded as NVTX's own
// headers would load it. Without a tool a range costs one branch.

// Set once, before the threads that read it start.
extern bool tachy_nvtx_on;

// Attaches the tool if there is one; only the first call of a process does something. Returns
// whether one is attached. Logs what was found at VERBOSE, a library that fails at WARN.
bool tachy_nvtx_init(const struct tachy_log *log);

// A range of the calling thread; `name` is read before push returns. Only where tachy_nvtx_on.
void tachy_nvtx_push(const char *name);
void tachy_nvtx_pop(void);
