#pragma once
#include "cuda/abi.h"

#include <stdint.h>

// Controls of the fake libraries, which are built under the real ones' names and found in the same way. Tests get the
// functions with dlsym().

#define FAKE_API __attribute__((visibility("default")))

// Speeds of the fake GPU: bytes per second (read and written), operations per second.
#define FAKE_COPY_BPS 4e12
#define FAKE_FP16 700e12
#define FAKE_TF32 350e12
#define FAKE_GPU_CLOCK 1.00015   // of events, against the host's
#define FAKE_CUPTI_CLOCK 0.99995 // of CUPTI
#define FAKE_CUPTI_START 1700000000000000000.0

struct fake_cuda_counts {
    int streams, events, allocations, contexts; // that exist
    int waits;                                  // calls that waited, ever
    int gemms;
    int taken_along; // streams, events and allocations that went with their context, ever; see fake_cuda_fail_at()
    int first;    // streams whose work goes before others', ever
    int pageable; // copies to a device from memory that is not pinned, beside others on the stream, ever
    _Atomic int calls; // of what is called for each frame: contexts, copies, events, streams' waits
};
FAKE_API struct fake_cuda_counts *fake_cuda_count(void);
// The calls by name, one after the other from 0 on; NULL: there are no more.
FAKE_API const char *fake_cuda_called(int i, int *times);
FAKE_API int fake_cuda_launch(cuda_stream s, uint64_t ns); // a kernel that takes this long; the launch's status
FAKE_API uint64_t fake_cuda_busy(cuda_stream s); // CLOCK_MONOTONIC, ns: when it has done what it was given; may be past
FAKE_API void fake_cuda_others(size_t bytes);   // memory that other programs hold
FAKE_API void fake_cuda_list(int gpus);         // how many there are without FAKE_CUDA_GPUS (fake_cuda.c); 1 at first
FAKE_API void fake_cuda_fail(int status);      // of every call that touches the GPU; 0: none
FAKE_API void fake_cuda_one_by_one(int on);    // 1: no copies of many at once, as before CUDA 13
FAKE_API void fake_cuda_fail_init(int status); // of cuInit
FAKE_API void fake_cuda_fail_push(int pushes); // this many more contexts are made current, then none; -1: all
// One call fails, the nth from here on (0: the next) of all that can; what gives something back always can. An error
// that stays is the status of all later calls as well, of those too that give back: then it is the last reference to a
// primary context that frees what was made in it, as the driver does. n -1: none fails from here on. Returns how many
// calls there were since the last time.
enum {
    FAKE_ONCE = 0,
    FAKE_STAYS = 1,
    FAKE_INSIDE = 2, // contexts can always be made current, as drivers let them be
};
FAKE_API int fake_cuda_fail_at(int n, int status, int how);
FAKE_API const char *fake_cuda_failed(void); // name of the failed call; NULL: it was not reached
FAKE_API int fake_cuda_depth(void);          // contexts on this thread's stack
FAKE_API int fake_cuda_device_of(const void *context); // -1: it is none
FAKE_API size_t fake_cuda_bytes_at(cuda_address at);   // of device memory, from there on; 0: it is none

// NVENC: what a test sets, then what it finds.
struct fake_nvenc_state {
    unsigned without;  // bits 1 << GPU: those without an encoder
    int most_sessions; // at once; 0: any number
    int no_surfaces;   // 1: surfaces cannot be registered
    int old_driver;    // 1: older than FFmpeg wants
    int fail_at;       // number of a session's picture that fails, from 1; 0: none
    int interval;      // pictures that the encoder takes before it gives the first one's bits; 0: 1

    int sessions, opened;                // that are open; ever
    int device;                          // GPU of the last one
    void *stream;                        // that it reads in the order of
    int surfaces, uploads;               // pictures that were read on the device, and from a buffer of the encoder's
    int registrations, most_registered;  // of surfaces: ever; of a session at once
    int wrong;                           // what a driver would not forgive
    int other_version;                   // calls of a client that was built with another nvEncodeAPI.h
    int preset, quality, bit_rate, rate_control, hevc; // of the last one; p1 is 1, quality in 256ths
};
FAKE_API struct fake_nvenc_state *fake_nvenc(void);

// Sensors of a GPU, 0 or 1 as NVML counts them; the second one has neither power nor decoder; energy, memory in use
// UINT64_MAX: it is not told.
struct fake_nvml_gpu {
    unsigned gpu, memory, encoder, decoder, celsius, sm_mhz, memory_mhz, milliwatt;
    unsigned long long used, throttle, millijoule;
};
FAKE_API void fake_nvml_set(int gpu, const struct fake_nvml_gpu *state);
FAKE_API int fake_nvml_users(void);          // nvmlInit calls less nvmlShutdown calls
FAKE_API void fake_nvml_list(unsigned gpus); // how many there are; 2 at first
FAKE_API void fake_nvml_fail(int status);    // of nvmlInit

// Adds a record; times are CLOCK_MONOTONIC and put on CUPTI's clock.
FAKE_API void fake_cupti_kernel(const char *name, uint32_t stream, uint64_t start, uint64_t end);
FAKE_API void fake_cupti_copy(int copy, int from, int to, uint64_t bytes, uint32_t stream,
                              uint64_t start, uint64_t end);
FAKE_API void fake_cupti_other(uint32_t stream); // of a kind that nobody asked for
FAKE_API void fake_cupti_fail(int status);       // of cuptiActivityEnable
FAKE_API int fake_cupti_enabled(void);           // kinds

FAKE_API int fake_nvtx_calls(const char **text); // pushes and pops; "+model -"
