#pragma once
#include "cuda/gpu.h"

// JPEG pictures decoded by a GPU's engines for them, which data centre GPUs have, through nvJPEG. The library is loaded at run
// time. One thread at a time uses a decoder.
struct tachy_nvjpeg;

// The GPU must outlive it. Failures are logged: TACHY_ERR_UNAVAILABLE: there is no library; TACHY_ERR_UNSUPPORTED: the GPU has no
// such engines.
int tachy_nvjpeg_open(struct tachy_nvjpeg **out, struct tachy_gpu *g, const struct tachy_log *log);
void tachy_nvjpeg_close(struct tachy_nvjpeg **j); // *j may be NULL

enum { TACHY_NVJPEG_MOST = 16 }; // pictures that are decoded side by side

struct tachy_nvjpeg_picture {
    const uint8_t *data; // on the host
    size_t size;
    void *plane[3]; // on the GPU, as large as the picture has them
    ptrdiff_t stride[3];
};
// Decodes n pictures, all of `planes` planes (1: luma, 3), and waits for them. What is queued on the GPU's stream by now may still
// read the planes. TACHY_ERR_UNSUPPORTED, not logged: the engines do not take one of them, or it is damaged; no plane is whole then.
int tachy_nvjpeg_decode(struct tachy_nvjpeg *j, const struct tachy_nvjpeg_picture pictures[], int n, int planes,
                        const struct tachy_log *log);
