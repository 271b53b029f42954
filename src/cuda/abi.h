#pragma once
#include <stddef.h>
#include <stdint.h>

// The part of NVIDIA's binary interfaces that is used here, declared separately so that the project builds without a
// CUDA toolkit. Sources, all public: "CUDA Driver API", "NVML API Reference Guide", "CUPTI Documentation" (activity
// records), "cuBLAS" and "NVTX" at docs.nvidia.com. tests/unit/test_cuda_abi.c compares it with the toolkit's headers
// if they are installed.

// CUDA driver: handles are pointers, devices are numbers, device addresses 64-bit numbers.
typedef int cuda_device;
typedef struct cuda_context_handle *cuda_context;
typedef struct cuda_stream_handle *cuda_stream;
typedef struct cuda_event_handle *cuda_event;
typedef unsigned long long cuda_address;
typedef struct cuda_capture_handle *cuda_capture;       // CUgraph
typedef struct cuda_graph_exec_handle *cuda_graph_exec; // CUgraphExec

enum {
    CUDA_OK = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_NOT_READY = 600,
    CUDA_CAPTURE_THREAD = 1, // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    CUDA_STREAM_OWN_ORDER = 1, // CU_STREAM_NON_BLOCKING: not ordered with the default stream
    CUDA_EVENT_TIMED = 0,      // CU_EVENT_DEFAULT
    CUDA_EVENT_ORDERS = 2,     // CU_EVENT_DISABLE_TIMING: streams wait for it
    CUDA_EVENT_BLOCKS = 3,     // and CU_EVENT_BLOCKING_SYNC: who waits sleeps
    CUDA_ATTR_SM_COUNT = 16,
    CUDA_ATTR_L2_BYTES = 38,
    CUDA_ATTR_CC_MAJOR = 75,
    CUDA_ATTR_CC_MINOR = 76,
};

enum { CUDA_MEMORY_HOST = 1, CUDA_MEMORY_DEVICE = 2 };
struct cuda_copy_attributes { // CUmemcpyAttributes
    int order; // CUDA_COPY_IN_ORDER
    struct { int kind, id; } from, to; // CUmemLocation, for memory without a location: not ours
    unsigned flags;
};
enum { CUDA_COPY_IN_ORDER = 1 }; // CU_MEMCPY_SRC_ACCESS_ORDER_STREAM

struct cuda_copy_2d { // CUDA_MEMCPY2D
    size_t from_x, from_y;
    int from_kind;
    const void *from_host;
    cuda_address from_device;
    void *from_array;
    size_t from_pitch; // bytes
    size_t to_x, to_y;
    int to_kind;
    void *to_host;
    cuda_address to_device;
    void *to_array;
    size_t to_pitch;
    size_t width, height; // bytes, rows
};

// NVDEC: its capabilities (cuviddec.h of NVIDIA's Video Codec SDK: CUVIDDECODECAPS).
enum {
    CUVID_MPEG1 = 0,
    CUVID_MPEG2 = 1,
    CUVID_MPEG4 = 2,
    CUVID_VC1 = 3,
    CUVID_H264 = 4,
    CUVID_JPEG = 5,
    CUVID_HEVC = 8,
    CUVID_VP8 = 9,
    CUVID_VP9 = 10,
    CUVID_AV1 = 11,
    CUVID_CODECS = 12,
    CUVID_420 = 1, // chroma
    CUVID_444 = 3,
};
struct cuvid_caps {
    int codec, chroma; // asked for, as is the next
    unsigned bits_minus_8, reserved[3];
    unsigned char supported, engines;
    unsigned short formats;
    unsigned max_width, max_height, max_blocks;
    unsigned short min_width, min_height;
    unsigned char histogram, counter_bits;
    unsigned short histogram_bins;
    unsigned reserved_too[10];
};

// NVML
typedef struct nvml_device_handle *nvml_device;
struct nvml_memory {
    unsigned long long total, free, used; // bytes
};
struct nvml_utilization {
    unsigned gpu, memory; // percent of the last sampling period
};
enum {
    NVML_OK = 0,
    NVML_CLOCK_OF_SM = 1,
    NVML_CLOCK_OF_MEMORY = 2,
    NVML_SENSOR_GPU = 0,
    NVML_THROTTLE_REASONS = 11, // bits that have a name
    NVML_THROTTLE_SLOW = 0x4 | 0x8 | 0x20 | 0x40 | 0x80 | 0x200 | 0x400, // the device ran slower than it could: neither
                                                                         // idleness nor a user's setting
    NVML_THROTTLE_HEAT = 0x20 | 0x40,
};

// CUPTI: the leading members of its activity records. They have been the same since CUDA 11; later versions append.
// cuptiActivityGetNextRecord() skips the rest.
enum {
    CUPTI_OK = 0,
    CUPTI_NO_MORE_RECORDS = 12, // CUPTI_ERROR_MAX_LIMIT_REACHED
    CUPTI_MEMCPY = 1,           // kinds of activity
    CUPTI_MEMSET = 2,
    CUPTI_KERNEL = 3, // when kernels may not overlap
    CUPTI_CONCURRENT_KERNEL = 10,
    CUPTI_MEMCPY_PEER = 22,
    CUPTI_FLUSH_FORCED = 1,
    CUPTI_ALIGNMENT = 8, // of records in a buffer
};
struct cupti_record {
    uint32_t kind;
};
struct cupti_kernel {
    uint32_t kind;
    uint8_t cache_config, shared_config;
    uint16_t registers;
    uint32_t cache_requested, cache_executed;
    uint64_t start, end, completed; // ns on CUPTI's clock; 0: not known
    uint32_t device, context, stream;
    int32_t grid[3], block[3];
    int32_t static_shared, dynamic_shared;
    uint32_t local_per_thread, local_total;
    uint32_t correlation;
    int64_t grid_id;
    const char *name; // mangled; CUPTI's, valid while the process runs
};
struct cupti_memcpy { // also of MEMCPY_PEER
    uint32_t kind;
    uint8_t copy, from, to, flags; // copy: 1 host to device, 2 device to host, 8 device to device
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
};
struct cupti_memset {
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
};
typedef void (*cupti_requested_fn)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*cupti_completed_fn)(cuda_context context, uint32_t stream, uint8_t *buffer,
                                   size_t size, size_t valid);

// cuBLAS
typedef struct cublas_handle_context *cublas_handle;
enum {
    CUBLAS_OK = 0,
    CUBLAS_NOT_TRANSPOSED = 0,
    CUBLAS_ALGO_DEFAULT = -1,
    CUBLAS_F32 = 0, // cudaDataType
    CUBLAS_F16 = 2,
    CUBLAS_BF16 = 14,
    CUBLAS_COMPUTE_F32 = 68,
    CUBLAS_COMPUTE_TF32 = 77,
};

// cuBLASLt ("Using the cuBLASLt API")
typedef struct cublaslt_handle_context *cublaslt_handle;
typedef struct cublaslt_desc_opaque *cublaslt_desc;     // cublasLtMatmulDesc_t
typedef struct cublaslt_layout_opaque *cublaslt_layout; // cublasLtMatrixLayout_t
typedef struct cublaslt_pref_opaque *cublaslt_pref;     // cublasLtMatmulPreference_t
struct cublaslt_algo {
    uint64_t data[8];
};
struct cublaslt_found { // cublasLtMatmulHeuristicResult_t
    struct cublaslt_algo algo;
    size_t workspace;
    int state; // CUBLAS_OK: the algorithm can be used
    float waves;
    int reserved[4];
};
enum {
    CUBLAS_TRANSPOSED = 1,
    CUBLASLT_DESC_OP_A = 3, // of cublasLtMatmulDescSetAttribute()
    CUBLASLT_DESC_OP_B = 4,
    CUBLASLT_DESC_EPILOGUE = 7,
    CUBLASLT_DESC_BIAS = 8,
    CUBLASLT_DESC_BIAS_TYPE = 26,
    CUBLASLT_END_NONE = 1,
    CUBLASLT_END_RELU = 2,
    CUBLASLT_END_BIAS = 4,
    CUBLASLT_END_GELU = 32, // the approximation by tanh
    CUBLASLT_LAYOUT_BATCH = 5,   // of cublasLtMatrixLayoutSetAttribute()
    CUBLASLT_LAYOUT_NEXT = 6,
    CUBLASLT_PREF_WORKSPACE = 1, // of cublasLtMatmulPreferenceSetAttribute()
    CUBLASLT_PREF_ALIGN_A = 5,   // bytes, uint32_t; those of B, C and D follow
    CUBLASLT_MAJOR = 0,          // of cublasLtGetProperty()
    CUBLASLT_MINOR = 1,
    CUBLASLT_PATCH = 2,
};

// NVTX, injection interface: a tool's library exports InitializeInjectionNvtx2(), which asks
// the function that it is given for tables and writes its own functions into their slots.
enum {
    NVTX_TABLE_CALLBACKS = 1, // what is asked for
    NVTX_TABLE_VERSION = 3,
    NVTX_MODULE_CORE = 1,
    NVTX_MODULE_CORE2 = 5,
    NVTX_MODULES = 7, // 2 CUDA, 3 OpenCL, 4 CUDA runtime, 6 synchronisation: names, never called here
    NVTX_CORE_SIZE = 16, // slots
    NVTX_CORE2_SIZE = 16,
    NVTX_CORE2_RANGE_PUSH = 4,
    NVTX_CORE2_RANGE_POP = 5,
    NVTX_CORE2_DOMAIN_CREATE = 12,
    NVTX_CORE2_INITIALIZE = 15,
    NVTX_API_VERSION = 3,
    NVTX_MESSAGE_ASCII = 1,
};
struct nvtx_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};
typedef void (**nvtx_slot)(void);
struct nvtx_callbacks_table {
    size_t size;
    int (*module)(int module, nvtx_slot **slots, unsigned *n);
};
struct nvtx_version_table {
    size_t size;
    uint32_t version, reserved;
    void (*set_injection_version)(uint32_t version);
};
typedef const void *(*nvtx_get_table_fn)(uint32_t id);
