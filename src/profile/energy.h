#pragma once
#include <tachy/run.h>

// Energy by the counters of the machine: RAPL's for the CPU's packages and their memory, NVML's for GPUs. They count what all
// programs use. One thread at a time.
struct tachy_energy_meter;

// `gpus`: CUDA's ordinals of those that the work runs on; their counters must be readable, the CPU's are added if they are. Without
// GPUs the CPU's must be. `root`: as for tachy_system_read(). NULL: no counter of what does the work can be read; the reason is logged as verbose.
struct tachy_energy_meter *tachy_energy_open(const char *root, const int *gpus, int nb_gpus, const struct tachy_log *log);

// Used since it was opened; zeroed for NULL, or once a counter fails. To be called before a counter goes round twice: every minute.
void tachy_energy_read(struct tachy_energy_meter *m, struct tachy_energy *out);

void tachy_energy_close(struct tachy_energy_meter **m);
