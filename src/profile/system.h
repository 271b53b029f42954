#pragma once
#include <stdint.h>
#include <stdio.h>

// The system's counters for this process and the processor since they started; the verdict uses differences of two
// readings. 0: not available.
struct tachy_system {
    uint64_t memory_stall_us; // of the control group (else of the machine): all tasks stood still
                              // for lack of memory
    int64_t major_faults;     // of this process
    uint64_t cpu_ms;          // of all programs on all cores
    int cores;                // that are counted there
    int64_t throttled;        // times that cores were slowed down to stay cool
    double clock_mhz, clock_max_mhz; // mean of the cores (at most 16 are asked)
};

// `root`: a folder to read instead of /. NULL: $TACHY_SYSROOT (for example the host's /proc and /sys in a container),
// else the real root.
void tachy_system_read(struct tachy_system *s, const char *root);

// `root`, or $TACHY_SYSROOT for NULL; NULL: the real root.
const char *tachy_system_root(const char *root);
// A file below `root` (NULL: /), for reading; NULL: it cannot be opened.
FILE *tachy_system_file(const char *root, const char *path);
// The first number in such a file; -1: there is none.
long long tachy_system_number(const char *root, const char *path);

// Bytes of this process that are in RAM now; 0: the system does not say.
int64_t tachy_resident_memory(void);
// The most memory that this process has had so far, in MiB.
double tachy_peak_memory_mib(void);
// From now on: what was done before does not count, if the system lets the peak be reset.
void tachy_forget_peak_memory(void);
