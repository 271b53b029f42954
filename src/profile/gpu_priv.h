#pragma once
#include "profile/gpu.h"

#include <jansson.h>
#include <stdio.h>

// ---- gpu_nvml.c: sensors over time

// Value of a figure that a sample lacks.
enum { GPU_UNKNOWN = 0xffff };
struct gpu_sample {
    uint64_t ns;         // CLOCK_MONOTONIC
    uint64_t used_bytes; // of the whole device, all processes; UINT64_MAX: not known
    uint16_t gpu, memory, encoder, decoder; // utilisation, percent
    uint16_t celsius, sm_mhz, memory_mhz;
    uint16_t throttle;  // NVML's reasons, bit by bit
    uint32_t milliwatt; // UINT32_MAX: not known
};

// Smallest, mean and largest of all samples.
struct gpu_range {
    double min, max, sum;
    int64_t n;
};
enum gpu_sensor {
    GPU_UTILIZATION,        // %
    GPU_MEMORY_UTILIZATION, // %
    GPU_ENCODER,            // %
    GPU_DECODER,            // %
    GPU_MEMORY,             // MiB
    GPU_SM_CLOCK,           // MHz
    GPU_MEMORY_CLOCK,       // MHz
    GPU_POWER,              // W
    GPU_TEMPERATURE,        // degrees C
    GPU_SENSORS
};
const char *gpu_sensor_name(enum gpu_sensor s); // "utilisation"
const char *gpu_sensor_unit(enum gpu_sensor s); // "%"
// The value in the sensor's unit; NAN: not known.
double gpu_sample_value(const struct gpu_sample *s, enum gpu_sensor which);

struct gpu_sampled {
    char name[96];
    double power_limit_w, sm_mhz_max; // 0: not known
    struct gpu_range range[GPU_SENSORS];
    double seconds, throttled_s[NVML_THROTTLE_REASONS], slowed_s;
};

struct gpu_sampler; // a thread; NULL is off
// Takes one sample of each of these GPUs now, and goes on in a thread; not with an interval of 0. `gpus`: CUDA's ordinals; NULL: all
// that CUDA counts. Those that NVML does not know are left out. TACHY_ERR_UNAVAILABLE: no NVML, no driver or no GPU, logged as verbose.
int gpu_sampler_open(struct gpu_sampler **out, const int *gpus, int nb_gpus, int interval_ms, const struct tachy_log *log);
void gpu_sampler_close(struct gpu_sampler **s);
// `i` below is less than this.
int gpu_sampler_count(const struct gpu_sampler *s);
int gpu_sampler_gpu(const struct gpu_sampler *s, int i); // CUDA's ordinal
// The figures of all samples of a GPU so far.
void gpu_sampler_read(struct gpu_sampler *s, int i, struct gpu_sampled *out);
// The samples that are kept, oldest first; free() them. NULL: none, or no memory.
struct gpu_sample *gpu_sampler_samples(struct gpu_sampler *s, int i, size_t *n);

// ---- gpu_events.c: what stages enqueue

// Per step, of all timers of a profile. Any thread adds (relaxed atomics).
struct gpu_step_work {
    _Atomic uint64_t busy_ns, bytes;
    _Atomic uint64_t ops[TACHY_RATE_COUNT]; // in units of 1e3 operations
};
struct gpu_work {
    struct gpu_step_work step[TACHY_MAX_STEPS];
    _Atomic uint64_t dropped;
    int device;                   // of the first timer; -1: no timer yet
    char device_name[128];        // and its name
    struct tachy_gpu_rates rates; // of that device
};
// The profile's GPU work. Its atomics may be read at any time; the rest between lock and unlock.
struct gpu_work *profile_gpu_work(struct tachy_profile *p);
struct gpu_work *profile_gpu_lock(struct tachy_profile *p);
void profile_gpu_unlock(struct tachy_profile *p);
const struct tachy_log *profile_log(const struct tachy_profile *p);

// ---- gpu_cupti.c: every kernel and copy

enum gpu_activity_kind { GPU_KERNEL, GPU_COPY, GPU_SET };
struct gpu_activity {
    uint64_t start, end; // ns, CLOCK_MONOTONIC
    uint64_t bytes;
    uint32_t name; // index of gpu_activity_name()
    uint32_t stream;
    uint16_t device;
    uint8_t kind;
};
struct gpu_activity_sum {
    const char *name; // readable; the collector's
    enum gpu_activity_kind kind;
    int64_t calls;
    uint64_t ns, max_ns, bytes;
};

struct gpu_collector;
// Starts to record. Only one per process: TACHY_ERR_STATE for a second. TACHY_ERR_UNAVAILABLE names the missing
// library.
int gpu_collector_open(struct gpu_collector **out, int64_t max_records,
                       const struct tachy_log *log);
void gpu_collector_close(struct gpu_collector **c);
// Asks CUPTI for what has finished. Call before the following.
void gpu_collector_flush(struct gpu_collector *c);
// By time, longest first; *n of them; free() the array.
struct gpu_activity_sum *gpu_collector_sums(struct gpu_collector *c, size_t *n);
// The newest records, by start; free() them.
struct gpu_activity *gpu_collector_records(struct gpu_collector *c, size_t *n);
const char *gpu_collector_name(struct gpu_collector *c, uint32_t name);
struct gpu_collector_counts {
    uint64_t records, kept;
    uint64_t dropped; // by CUPTI: its buffers were full
    uint64_t untimed; // without a time
};
struct gpu_collector_counts gpu_collector_counts(struct gpu_collector *c);

// ---- gpu_report.c

struct profile_gpu {
    struct gpu_sampler *sampler;
    struct gpu_collector *collector;
    struct gpu_work work;
};
// Opens the sources that the params ask for.
int profile_gpu_open(struct tachy_profile *p);
void profile_gpu_close(struct tachy_profile *p);
// Under the profile's lock.
void profile_gpu_text(struct tachy_profile *p, FILE *f);
json_t *profile_gpu_json(struct tachy_profile *p); // null if there is no GPU
void profile_gpu_put_activity(FILE *f, struct gpu_collector *c, const struct gpu_activity *a,
                              double start_us);
void profile_gpu_put_sample(FILE *f, int gpu, const struct gpu_sample *s, double us);
void profile_gpu_put_names(FILE *f, const struct gpu_activity *a, size_t n);
