#pragma once
#include "cuda/gpu.h"
#include "media/frame_pool.h"

// Copies of frames to, from and on a GPU.

// The planes that tachy_frame_copy_planes() would copy, for callers that copy several frames with one tachy_gpu_copy():
// returns their number, at most 4. Times, id, colour and flags are copied at once.
int tachy_frame_copy_list(tachy_frame *to, const tachy_frame *from, struct tachy_gpu_plane planes[4]);

// Copies pixels, times, id, colour and flags into `to`, a frame of the same format and size that can
// be written, on `stream`. One of the two lies on the GPU `d`, or both.
int tachy_frame_copy_planes(tachy_frame *to, const tachy_frame *from, struct tachy_device *d,
                            cuda_stream stream, bool wait, const struct tachy_log *log);
