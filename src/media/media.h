#pragma once
#include "base/base.h"
#include "media/frame_mem.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/frame.h>
#include <stdatomic.h>
#include <tachy/frame.h>

// The bridge between our frames and FFmpeg's. The only header besides side.h with FFmpeg
// types that other folders (source, sink) include.

// Format conversion: TACHY_PIX_NONE / AV_PIX_FMT_NONE if there is no counterpart. The deprecated yuvj* formats map to
// the plain ones (tachy_frame_from_av() sets their full range).
enum tachy_pix tachy_pix_from_av(enum AVPixelFormat f);
enum AVPixelFormat tachy_pix_to_av(enum tachy_pix f);

// AVERROR -> our code (ENOMEM, ENOSPC, EOF, INVALIDDATA -> FORMAT, ...).
int tachy_err_from_av(int averror);
// av_strerror() of `averror` in `buf`; returns buf.
const char *tachy_av_text(int averror, char buf[128]);

// True if a time or duration is plausible for a picture or packet: within 4e9 seconds (dates until 2096), so that sums
// and differences of a few fit in 64 bits in any time base that files have. Anything larger is damage.
static inline bool tachy_time_ok(int64_t t, double tick)
{
    double seconds = (double)t * tick;
    return seconds >= -4e9 && seconds <= 4e9;
}

// Keeps FFmpeg from writing to standard error: sets its (process-wide) level to quiet, unless
// the program has set a level itself. Sources and sinks call it when they open.
void tachy_av_quiet(void);

// Wraps a decoded picture without copying and takes over `av`'s references (av is left
// blank, on success only). The format must have a counterpart. Pictures in CUDA memory become frames
// of TACHY_DEVICE where their device is one of device.h's, in the format of their samples and without
// what is cropped.
int tachy_frame_from_av(tachy_frame **out, AVFrame *av);

// An AVFrame that shares the frame's memory and keeps a reference to it until it is freed;
// pts, duration and colour tags are set. Free with av_frame_free(). TACHY_ERR_UNSUPPORTED: a GPU's.
int tachy_frame_to_av(AVFrame **out, tachy_frame *f);
// As above for a frame in GPU memory, as one of `frames`, an AVHWFramesContext of that GPU.
int tachy_frame_to_av_gpu(AVFrame **out, tachy_frame *f, AVBufferRef *frames);

// Frames of one format and size that return to the pool when their last reference goes.
// Thread-safe. Closing while frames are out is fine: the last one frees it.
typedef struct tachy_frame_pool tachy_frame_pool;
int tachy_frame_pool_open(tachy_frame_pool **out, enum tachy_pix format, int width, int height);
// A writable frame (pixels not cleared; pts, id, colour zeroed), new or used before.
// From now on frames are counted as taken from `m`, which the pool keeps a reference of, and idle
// ones are freed when memory is short. Frames that are out when the pool closes are no longer
// counted. Before the first get.
struct tachy_memory;
void tachy_frame_pool_account(tachy_frame_pool *p, struct tachy_memory *m);
int tachy_frame_pool_get(tachy_frame_pool *p, tachy_frame **out);
void tachy_frame_pool_close(tachy_frame_pool **p);
// Frames that have not come back.
size_t tachy_frame_pool_out(tachy_frame_pool *p);

// Bytes of pixels that a frame of this format and size takes.
size_t tachy_frame_bytes(enum tachy_pix format, int width, int height);
