#pragma once
#include "cuda/cudnn_abi.h"
#include "cuda/nvjpeg_abi.h"

#include <stdbool.h>
#include <tachy/common.h>

// NVIDIA's libraries, loaded on first use: a program that links libtachy starts without driver and toolkit. A loaded
// library and its table of functions stay in the process and are shared, which is why they are kept here. All functions
// may be called from any thread.

// X(member, "symbol", (arguments)): functions that return their library's status, 0 for success.
// A symbol that starts with '?' may be missing: its member is NULL then.
#define TACHY_CU_CALLS(X)                                                                          \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(driver_version, "cuDriverGetVersion", (int *version))                                        \
    X(error_name, "cuGetErrorName", (int error, const char **text))                                \
    X(error_text, "cuGetErrorString", (int error, const char **text))                              \
    X(device_count, "cuDeviceGetCount", (int *n))                                                  \
    X(device_get, "cuDeviceGet", (cuda_device * device, int ordinal))                              \
    X(device_name, "cuDeviceGetName", (char *name, int size, cuda_device device))                  \
    X(device_bytes, "cuDeviceTotalMem_v2", (size_t * bytes, cuda_device device))                   \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, cuda_device device))   \
    X(device_pci, "cuDeviceGetPCIBusId", (char *id, int size, cuda_device device))                 \
    X(context_retain, "cuDevicePrimaryCtxRetain", (cuda_context * context, cuda_device device))    \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (cuda_device device))                       \
    X(context_push, "cuCtxPushCurrent_v2", (cuda_context context))                                 \
    X(context_pop, "cuCtxPopCurrent_v2", (cuda_context * context))                                 \
    X(memory_info, "cuMemGetInfo_v2", (size_t * free, size_t * total))                             \
    X(memory_alloc, "cuMemAlloc_v2", (cuda_address * at, size_t bytes))                            \
    X(memory_free, "cuMemFree_v2", (cuda_address at))                                              \
    X(pinned_alloc, "cuMemHostAlloc", (void **data, size_t bytes, unsigned flags))                 \
    X(pinned_free, "cuMemFreeHost", (void *data))                                                  \
    X(copy_to_device, "cuMemcpyHtoD_v2", (cuda_address to, const void *from, size_t bytes))        \
    X(copy_to_host, "cuMemcpyDtoH_v2", (void *to, cuda_address from, size_t bytes))                \
    X(copy_to_device_async, "cuMemcpyHtoDAsync_v2",                                                \
      (cuda_address to, const void *from, size_t bytes, cuda_stream stream))                       \
    X(copy_to_host_async, "cuMemcpyDtoHAsync_v2",                                                  \
      (void *to, cuda_address from, size_t bytes, cuda_stream stream))                             \
    X(fill, "cuMemsetD8_v2", (cuda_address at, unsigned char value, size_t bytes))                 \
    X(fill_async, "cuMemsetD8Async",                                                               \
      (cuda_address at, unsigned char value, size_t bytes, cuda_stream stream))                    \
    X(copy_on_device, "cuMemcpyDtoDAsync_v2",                                                      \
      (cuda_address to, cuda_address from, size_t bytes, cuda_stream stream))                      \
    X(copy_2d, "cuMemcpy2DAsync_v2", (const struct cuda_copy_2d *copy, cuda_stream stream))         \
    X(copy_many, "?cuMemcpyBatchAsync_v2", /* CUDA 13 and later; NULL: not there */                 \
      (cuda_address * to, cuda_address * from, size_t * bytes, size_t count,                       \
       struct cuda_copy_attributes * attributes, size_t * first_of, size_t nb, cuda_stream stream)) \
    X(stream_create, "cuStreamCreate", (cuda_stream * stream, unsigned flags))                     \
    X(stream_create_with_priority, "cuStreamCreateWithPriority",                                   \
      (cuda_stream * stream, unsigned flags, int priority))                                        \
    X(stream_destroy, "cuStreamDestroy_v2", (cuda_stream stream))                                  \
    X(stream_wait, "cuStreamSynchronize", (cuda_stream stream))                                    \
    X(stream_wait_event, "cuStreamWaitEvent",                                                      \
      (cuda_stream stream, cuda_event event, unsigned flags))                                      \
    X(event_create, "cuEventCreate", (cuda_event * event, unsigned flags))                         \
    X(event_destroy, "cuEventDestroy_v2", (cuda_event event))                                      \
    X(event_record, "cuEventRecord", (cuda_event event, cuda_stream stream))                       \
    X(event_query, "cuEventQuery", (cuda_event event))                                             \
    X(event_wait, "cuEventSynchronize", (cuda_event event))                                        \
    X(event_elapsed, "cuEventElapsedTime", (float *ms, cuda_event from, cuda_event to))            \
    /* Drivers before CUDA 12 lack one of them: runs are launched step by step then. */            \
    X(capture_begin, "?cuStreamBeginCapture_v2", (cuda_stream stream, int mode))                   \
    X(capture_end, "?cuStreamEndCapture", (cuda_stream stream, cuda_capture * capture))            \
    X(capture_free, "?cuGraphDestroy", (cuda_capture capture))                                     \
    X(graph_make, "?cuGraphInstantiateWithFlags",                                                  \
      (cuda_graph_exec * graph, cuda_capture capture, unsigned long long flags))                   \
    X(graph_free, "?cuGraphExecDestroy", (cuda_graph_exec graph))                                  \
    X(graph_launch, "?cuGraphLaunch", (cuda_graph_exec graph, cuda_stream stream))

#define TACHY_NVML_CALLS(X)                                                                        \
    X(init, "nvmlInit_v2", (void))                                                                 \
    X(shutdown, "nvmlShutdown", (void))                                                            \
    X(by_pci, "nvmlDeviceGetHandleByPciBusId_v2", (const char *pci, nvml_device *device))          \
    X(device_name, "nvmlDeviceGetName", (nvml_device device, char *name, unsigned size))           \
    X(memory, "?nvmlDeviceGetMemoryInfo", (nvml_device device, struct nvml_memory * memory))       \
    X(utilization, "?nvmlDeviceGetUtilizationRates",                                               \
      (nvml_device device, struct nvml_utilization * rates))                                       \
    X(clock, "?nvmlDeviceGetClockInfo", (nvml_device device, int which, unsigned *mhz))            \
    X(clock_max, "?nvmlDeviceGetMaxClockInfo", (nvml_device device, int which, unsigned *mhz))     \
    X(throttle, "?nvmlDeviceGetCurrentClocksThrottleReasons",                                      \
      (nvml_device device, unsigned long long *reasons))                                           \
    X(power, "?nvmlDeviceGetPowerUsage", (nvml_device device, unsigned *milliwatt))                \
    X(power_limit, "?nvmlDeviceGetEnforcedPowerLimit", (nvml_device device, unsigned *milliwatt))  \
    X(energy, "?nvmlDeviceGetTotalEnergyConsumption", (nvml_device device, unsigned long long *millijoule)) \
    X(power_default, "?nvmlDeviceGetPowerManagementDefaultLimit", (nvml_device device, unsigned *milliwatt))  \
    X(persistence, "?nvmlDeviceGetPersistenceMode", (nvml_device device, int *on))                 \
    X(link_generation, "?nvmlDeviceGetCurrPcieLinkGeneration", (nvml_device device, unsigned *n))  \
    X(link_generation_max, "?nvmlDeviceGetMaxPcieLinkGeneration", (nvml_device device, unsigned *n)) \
    X(link_width, "?nvmlDeviceGetCurrPcieLinkWidth", (nvml_device device, unsigned *lanes))        \
    X(link_width_max, "?nvmlDeviceGetMaxPcieLinkWidth", (nvml_device device, unsigned *lanes))     \
    X(temperature, "?nvmlDeviceGetTemperature", (nvml_device device, int sensor, unsigned *c))     \
    X(encoder, "?nvmlDeviceGetEncoderUtilization",                                                 \
      (nvml_device device, unsigned *percent, unsigned *period_us))                                \
    X(decoder, "?nvmlDeviceGetDecoderUtilization",                                                 \
      (nvml_device device, unsigned *percent, unsigned *period_us))

#define TACHY_CUPTI_CALLS(X)                                                                       \
    X(result_text, "cuptiGetResultString", (int result, const char **text))                        \
    X(timestamp, "cuptiGetTimestamp", (uint64_t * ns))                                             \
    X(callbacks, "cuptiActivityRegisterCallbacks",                                                 \
      (cupti_requested_fn requested, cupti_completed_fn completed))                                \
    X(enable, "cuptiActivityEnable", (int kind))                                                   \
    X(disable, "cuptiActivityDisable", (int kind))                                                 \
    X(flush, "cuptiActivityFlushAll", (uint32_t flags))                                            \
    X(next, "cuptiActivityGetNextRecord",                                                          \
      (uint8_t * buffer, size_t valid, struct cupti_record * *record))                             \
    X(dropped, "cuptiActivityGetNumDroppedRecords",                                                \
      (cuda_context context, uint32_t stream, size_t * n))

#define TACHY_CUBLAS_CALLS(X)                                                                      \
    X(create, "cublasCreate_v2", (cublas_handle * handle))                                         \
    X(destroy, "cublasDestroy_v2", (cublas_handle handle))                                         \
    X(set_stream, "cublasSetStream_v2", (cublas_handle handle, cuda_stream stream))                \
    X(gemm, "cublasGemmEx",                                                                        \
      (cublas_handle handle, int op_a, int op_b, int m, int n, int k, const void *alpha,           \
       cuda_address a, int a_type, int lda, cuda_address b, int b_type, int ldb, const void *beta, \
       cuda_address c, int c_type, int ldc, int compute, int algo))

#define TACHY_CUBLASLT_CALLS(X)                                                                    \
    X(create, "cublasLtCreate", (cublaslt_handle * handle))                                        \
    X(destroy, "cublasLtDestroy", (cublaslt_handle handle))                                        \
    X(property, "cublasLtGetProperty", (int which, int *value))                                    \
    X(desc_create, "cublasLtMatmulDescCreate", (cublaslt_desc * desc, int compute, int scale))     \
    X(desc_destroy, "cublasLtMatmulDescDestroy", (cublaslt_desc desc))                             \
    X(desc_set, "cublasLtMatmulDescSetAttribute",                                                  \
      (cublaslt_desc desc, int which, const void *value, size_t size))                             \
    X(layout_create, "cublasLtMatrixLayoutCreate",                                                 \
      (cublaslt_layout * layout, int type, uint64_t rows, uint64_t columns, int64_t leading))      \
    X(layout_destroy, "cublasLtMatrixLayoutDestroy", (cublaslt_layout layout))                     \
    X(layout_set, "cublasLtMatrixLayoutSetAttribute",                                              \
      (cublaslt_layout layout, int which, const void *value, size_t size))                         \
    X(pref_create, "cublasLtMatmulPreferenceCreate", (cublaslt_pref * pref))                       \
    X(pref_destroy, "cublasLtMatmulPreferenceDestroy", (cublaslt_pref pref))                       \
    X(pref_set, "cublasLtMatmulPreferenceSetAttribute",                                            \
      (cublaslt_pref pref, int which, const void *value, size_t size))                             \
    X(find, "cublasLtMatmulAlgoGetHeuristic",                                                      \
      (cublaslt_handle handle, cublaslt_desc desc, cublaslt_layout a, cublaslt_layout b,           \
       cublaslt_layout c, cublaslt_layout d, cublaslt_pref pref, int most,                         \
       struct cublaslt_found *found, int *n))                                                      \
    X(run, "cublasLtMatmul",                                                                       \
      (cublaslt_handle handle, cublaslt_desc desc, const void *alpha, cuda_address a,              \
       cublaslt_layout a_layout, cuda_address b, cublaslt_layout b_layout, const void *beta,       \
       cuda_address c, cublaslt_layout c_layout, cuda_address d, cublaslt_layout d_layout,         \
       const struct cublaslt_algo *algo, cuda_address workspace, size_t bytes, cuda_stream stream))

#define TACHY_CUDNN_CALLS(X)                                                                       \
    X(create, "cudnnCreate", (cudnn_handle * handle))                                              \
    X(destroy, "cudnnDestroy", (cudnn_handle handle))                                              \
    X(set_stream, "cudnnSetStream", (cudnn_handle handle, cuda_stream stream))                     \
    X(property, "cudnnGetProperty", (int which, int *value))                                       \
    X(desc_create, "cudnnBackendCreateDescriptor", (int type, cudnn_desc *desc))                   \
    X(desc_destroy, "cudnnBackendDestroyDescriptor", (cudnn_desc desc))                            \
    X(desc_finish, "cudnnBackendFinalize", (cudnn_desc desc))                                      \
    X(desc_set, "cudnnBackendSetAttribute",                                                        \
      (cudnn_desc desc, int name, int type, int64_t n, const void *values))                        \
    X(desc_get, "cudnnBackendGetAttribute",                                                        \
      (cudnn_desc desc, int name, int type, int64_t most, int64_t *n, void *values))               \
    X(run, "cudnnBackendExecute", (cudnn_handle handle, cudnn_desc plan, cudnn_desc pack))

#define TACHY_CUVID_CALLS(X) X(caps, "cuvidGetDecoderCaps", (struct cuvid_caps * caps))

#define TACHY_NVJPEG_CALLS(X)                                                                      \
    X(create, "nvjpegCreateEx",                                                                    \
      (int back_end, void *device_memory, void *pinned_memory, unsigned flags, nvjpeg_handle *handle)) \
    X(destroy, "nvjpegDestroy", (nvjpeg_handle handle))                                            \
    X(state_create, "nvjpegJpegStateCreate", (nvjpeg_handle handle, nvjpeg_state *state))          \
    X(state_destroy, "nvjpegJpegStateDestroy", (nvjpeg_state state))                               \
    X(begin, "nvjpegDecodeBatchedInitialize",                                                      \
      (nvjpeg_handle handle, nvjpeg_state state, int batch, int cpu_threads, int output))          \
    X(decode, "nvjpegDecodeBatched",                                                               \
      (nvjpeg_handle handle, nvjpeg_state state, const uint8_t *const *data, const size_t *sizes,  \
       struct nvjpeg_image *to, cuda_stream stream))

#define TACHY_CALL_MEMBER(member, symbol, args) int(*member) args;
struct tachy_cu {
    TACHY_CU_CALLS(TACHY_CALL_MEMBER)
};
struct tachy_nvml {
    TACHY_NVML_CALLS(TACHY_CALL_MEMBER)
};
struct tachy_cupti {
    TACHY_CUPTI_CALLS(TACHY_CALL_MEMBER)
};
struct tachy_cublas {
    TACHY_CUBLAS_CALLS(TACHY_CALL_MEMBER)
};
struct tachy_cublaslt {
    TACHY_CUBLASLT_CALLS(TACHY_CALL_MEMBER)
};
struct tachy_cudnn {
    TACHY_CUDNN_CALLS(TACHY_CALL_MEMBER)
};
struct tachy_cuvid {
    TACHY_CUVID_CALLS(TACHY_CALL_MEMBER)
};
struct tachy_nvjpeg_library {
    TACHY_NVJPEG_CALLS(TACHY_CALL_MEMBER)
};

// Each sets *out and returns TACHY_OK, or NULL and TACHY_ERR_UNAVAILABLE after one sentence at
// `level` that names the library and how to get it. *out stays valid while the process runs.
// cu: cuInit() has succeeded as well. The others are only loaded.
int tachy_cu_load(const struct tachy_cu **out, enum tachy_log_level level,
                  const struct tachy_log *log);
int tachy_nvml_load(const struct tachy_nvml **out, enum tachy_log_level level,
                    const struct tachy_log *log);
int tachy_cupti_load(const struct tachy_cupti **out, enum tachy_log_level level,
                     const struct tachy_log *log);
int tachy_cublas_load(const struct tachy_cublas **out, enum tachy_log_level level,
                      const struct tachy_log *log);
int tachy_cublaslt_load(const struct tachy_cublaslt **out, enum tachy_log_level level,
                        const struct tachy_log *log);
int tachy_cudnn_load(const struct tachy_cudnn **out, enum tachy_log_level level,
                     const struct tachy_log *log);
int tachy_cuvid_load(const struct tachy_cuvid **out, enum tachy_log_level level,
                     const struct tachy_log *log);
int tachy_nvjpeg_library_load(const struct tachy_nvjpeg_library **out, enum tachy_log_level level,
                              const struct tachy_log *log);

// Name of one of NVML's clock event reasons, bit 0..NVML_THROTTLE_REASONS - 1.
const char *tachy_nvml_reason(int bit);

// File of a library that was loaded ("cuda", "nvml", "cupti", "cublas", "cublaslt", "cudnn", "nvcuvid", "nvjpeg"); NULL: it was not.
const char *tachy_cuda_library_path(const char *name);

// The device address of memory that the host names by a pointer.
static inline cuda_address tachy_cu_address(const void *p) { return (cuda_address)(uintptr_t)p; }

// Turns a status of the driver into our code: CUDA_OUT_OF_MEMORY is TACHY_ERR_NOMEM, others
// TACHY_ERR_EXTERNAL. A failure is logged with `what` and the driver's text.
// tachy_cu_check_memory(): of calls that give memory, whose TACHY_ERR_NOMEM the caller says.
int tachy_cu_check_memory(const struct tachy_cu *cu, int status, const struct tachy_log *log);
int tachy_cu_check(const struct tachy_cu *cu, int status, const struct tachy_log *log,
                   const char *what);

// The driver's text of a status, "no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)".
const char *tachy_cu_text(const struct tachy_cu *cu, int status, char *buf, size_t size);

// How to find a library and the functions that it must have: the tables above are loaded from these.
struct tachy_library {
    const char *name;         // "cupti"
    const char *const *files; // tried in this order, then in the toolkit's folders; ends with NULL
    const char *what, *get;   // "CUPTI", how to get it; both for the message
    bool toolkit;             // it comes with the CUDA toolkit: look there too
    const struct {
        const char *symbol;
        size_t offset; // of the pointer in the table
    } * symbols;
    size_t nb_symbols;
};

// Fills `table` and sets *path (free() it). Nothing stays loaded on failure; `why` then holds
// one sentence.
int tachy_library_open(const struct tachy_library *lib, void *table, char **path, char *why,
                       size_t why_size);
