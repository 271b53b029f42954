#pragma once
#include "cuda/abi.h"

// nvJPEG (nvjpeg.h of the CUDA toolkit).
typedef struct nvjpeg_handle_of *nvjpeg_handle;
typedef struct nvjpeg_state_of *nvjpeg_state;
enum {
    NVJPEG_OK = 0,
    NVJPEG_HARDWARE = 3, // back end
    NVJPEG_YUV = 1,      // what comes out: planes
    NVJPEG_Y = 2,
};
struct nvjpeg_image {
    cuda_address plane[4];
    size_t pitch[4]; // bytes
};
