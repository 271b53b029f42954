#pragma once
#include "base/base.h"
#include "media/frame_pool.h"

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

// A device for FFmpeg's decoders (hw_device_ctx) on the GPU's primary context, whose stream is g's.
// Takes its own reference to g. tachy_frame_from_av() wraps the pictures of such a device.
int tachy_av_device_open(AVBufferRef **out, struct tachy_gpu *g, const struct tachy_log *log);

// Format of a picture's samples, wherever they lie.
enum AVPixelFormat tachy_av_sw_format(const AVFrame *av);

// Wraps a decoded picture without copying and takes over `av`'s references (av is left
// blank, on success only). The format must have a counterpart. Pictures in CUDA memory become frames
// of TACHY_DEVICE if tachy_av_device_open() made their device, in the format of their samples and without
// what is cropped.
int tachy_frame_from_av(tachy_frame **out, AVFrame *av);

// An AVFrame that shares the frame's memory and keeps a reference to it until it is freed;
// pts, duration and colour tags are set. Free with av_frame_free(). TACHY_ERR_UNSUPPORTED: a GPU's.
int tachy_frame_to_av(AVFrame **out, tachy_frame *f);
// As above for a frame in GPU memory, as one of `frames`, an AVHWFramesContext of that GPU.
int tachy_frame_to_av_gpu(AVFrame **out, tachy_frame *f, AVBufferRef *frames);
