#pragma once
#include "media/device.h"
#include "media/media.h"

// A frame with what its owner must know; only src/media sees it.
struct tachy_frame_full {
    tachy_frame pub; // first: a tachy_frame * is a tachy_frame_full *
    atomic_int refs;
    // Owner of the pixels: exactly one of the three, or nobody (wrapped without release).
    uint8_t *memory;             // allocated by frame_alloc()
    struct tachy_gpu *gpu;       // it is memory of this GPU, or pinned for it; by pub.mem
    AVFrame *av;                 // a decoder's picture
    void (*release)(void *user); // the caller's memory
    void *user;
    tachy_frame_pool *pool;      // takes the frame back instead of freeing it
};

static inline struct tachy_frame_full *tachy_frame_full(tachy_frame *f)
{
    return (struct tachy_frame_full *)(void *)f;
}

// True where format and size may be a frame's.
bool tachy_frame_size_ok(enum tachy_pix format, int width, int height);
// Bytes of one row of a plane without padding, and the rows of it.
size_t tachy_plane_row_bytes(const struct tachy_pix_desc *d, int plane, int width);
int tachy_plane_rows(const struct tachy_pix_desc *d, int plane, int height);
// A frame with its own memory and one reference. `gpu`: whose memory, or pinned for it; a reference is taken. NULL for
// the host's. TACHY_ERR_NOMEM, or what the GPU said, logged; *out is NULL then.
int tachy_frame_alloc(struct tachy_frame_full **out, enum tachy_pix format, int width, int height, struct tachy_gpu *gpu,
                      enum tachy_mem mem, const struct tachy_log *log);
// Frees frame and pixels whatever the count is.
void tachy_frame_destroy(struct tachy_frame_full *f);
// The last reference of a pool's frame is gone.
void tachy_frame_pool_put(tachy_frame_pool *p, struct tachy_frame_full *f);

// av_device.c, for the bridge.
// libavutil/hwcontext_cuda.h: AVCUDADeviceContext.
struct tachy_av_cuda {
    cuda_context context;
    cuda_stream stream;
    void *internal;
};
// As tachy_av_device_open(), without FFmpeg's initialisation, which needs a driver.
int tachy_av_device_alloc(AVBufferRef **out, struct tachy_gpu *g);
// The GPU of a picture in CUDA memory; NULL if its device was not made by us.
struct tachy_gpu *tachy_av_gpu(const AVFrame *av);
// Leaves out of f what `av` says is cropped to the left and above. False: that is all of it.
bool tachy_av_crop(const AVFrame *av, tachy_frame *f);
