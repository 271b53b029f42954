#pragma once
#include <tachy/common.h>

#ifdef __cplusplus
extern "C" {
#endif

// A typed n-dimensional view of memory that somebody else owns. Copying the struct copies
// the view, never the data.

#define TACHY_MAX_RANK 8

enum tachy_dtype {
    TACHY_F32 = 1, // IEEE 754 binary32
    TACHY_F16 = 2, // IEEE 754 binary16
    TACHY_U8 = 3,
    TACHY_I8 = 4,
    TACHY_I32 = 5,
    TACHY_I64 = 6,
    TACHY_BF16 = 7, // the upper half of a binary32; used only inside plans
};

#define TACHY_MAX_GPUS 16 // further ones are not used

enum tachy_mem {
    TACHY_HOST = 0,
    TACHY_PINNED = 1, // host memory that a device can reach
    TACHY_DEVICE = 2,
};

struct tachy_tensor {
    void *data; // first element; aligned to 64 bytes if the library allocates it
    enum tachy_dtype dtype;
    int rank;                        // 0 (scalar) .. TACHY_MAX_RANK
    int64_t shape[TACHY_MAX_RANK];   // elements, outermost first
    int64_t stride[TACHY_MAX_RANK];  // elements; all zero: dense, row-major
    enum tachy_mem mem;
    int device; // CUDA ordinal if mem is TACHY_DEVICE
};

// Bytes per element; 0 for an unknown type. Thread-safe.
TACHY_API size_t tachy_dtype_size(enum tachy_dtype t);
// "float32", "float16", "uint8", "int8", "int32", "int64", "bfloat16", or "?". Static string.
TACHY_API const char *tachy_dtype_name(enum tachy_dtype t);

// Product of the shape: 1 for rank 0, 0 for an empty tensor, -1 if an extent is negative or the product overflows.
TACHY_API int64_t tachy_tensor_elements(const struct tachy_tensor *t);
// Bytes of the dense tensor; 0 if tachy_tensor_elements() is -1 or 0.
TACHY_API size_t tachy_tensor_bytes(const struct tachy_tensor *t);

// Allocates dense host memory for t->shape and t->dtype, 64-byte aligned, not cleared, and
// sets t->data. TACHY_ERR_INVAL for a bad shape, TACHY_ERR_NOMEM. Free with
// tachy_tensor_free(), which sets t->data to NULL.
TACHY_API int tachy_tensor_alloc(struct tachy_tensor *t);
TACHY_API void tachy_tensor_free(struct tachy_tensor *t);

// Fills a dense host tensor with the same numbers every time: PICTURE has coarse and fine shapes as a picture has, from
// 0 to 1; NOISE has none, from -1 to 1. uint8 is filled from 0 to 255; other integers and float16 with zeros. `t` may
// be NULL.
enum tachy_pattern {
    TACHY_PATTERN_PICTURE,
    TACHY_PATTERN_NOISE,
};
TACHY_API void tachy_tensor_pattern(struct tachy_tensor *t, enum tachy_pattern kind);

#ifdef __cplusplus
}
#endif
