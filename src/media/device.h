#pragma once
#include "cuda/gpu.h"
#include "media/media.h"

// Frames in a GPU's memory, and FFmpeg's view of that GPU.

// A device for FFmpeg's decoders (hw_device_ctx) on the GPU's primary context, whose stream is g's.
// Takes its own reference to g. tachy_frame_from_av() wraps the pictures of such a device.
int tachy_av_device_open(AVBufferRef **out, struct tachy_gpu *g, const struct tachy_log *log);

// Format of a picture's samples, wherever they lie.
enum AVPixelFormat tachy_av_sw_format(const AVFrame *av);

// A pool of frames in the GPU's memory; otherwise as tachy_frame_pool_open(). Rows begin at multiples
// of 256 bytes. tachy_frame_writable() gives their addresses on the GPU.
int tachy_frame_pool_open_gpu(tachy_frame_pool **out, struct tachy_gpu *g, enum tachy_pix format,
                              int width, int height);

// As above, in any memory: pinned frames belong to the host and are laid out as the GPU's, which copies into them
// directly. `g` is ignored for TACHY_HOST; TACHY_ERR_INVAL if it is NULL for other memory.
int tachy_frame_pool_open_mem(tachy_frame_pool **out, struct tachy_gpu *g, enum tachy_mem mem,
                                enum tachy_pix format, int width, int height);

// Returns a frame of the format and size of `like` from *p. If *p is NULL or a pool of other frames, it is replaced by
// a new pool, on `g` (NULL: the host) and counted in `m` (NULL: not counted). Always pass the same `g` and `m` for one
// *p.
int tachy_frame_pool_get_like(tachy_frame_pool **p, struct tachy_gpu *g, struct tachy_memory *m, const tachy_frame *like,
                              tachy_frame **out);

// The planes that tachy_frame_copy_planes() would copy, for callers that copy several frames with one tachy_gpu_copy():
// returns their number, at most 4. Times, id, colour and flags are copied at once.
int tachy_frame_copy_list(tachy_frame *to, const tachy_frame *from, struct tachy_gpu_plane planes[4]);

// Copies pixels, times, id, colour and flags into `to`, a frame of the same format and size that can
// be written, on `stream`. One of the two lies on the GPU `d`, or both.
int tachy_frame_copy_planes(tachy_frame *to, const tachy_frame *from, struct tachy_device *d,
                            cuda_stream stream, bool wait, const struct tachy_log *log);
