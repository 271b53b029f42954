#pragma once
#include "media/media.h"
#include "media/surface.h"

// The GPU side of an encoder that reads its pictures there: the GPU's context, FFmpeg's view of it, and a stream that
// orders the encoder's reads. Use from one thread.
typedef struct tachy_encoder_gpu tachy_encoder_gpu;

// Logs what fails: TACHY_ERR_UNAVAILABLE (no driver), TACHY_ERR_EXTERNAL.
int tachy_encoder_gpu_open(tachy_encoder_gpu **out, const struct tachy_surface_spec *spec, const struct tachy_log *log);

// Makes it the source of an encoder that is not open yet: pixel format, frames, device.
int tachy_encoder_gpu_use(const tachy_encoder_gpu *g, AVCodecContext *ctx);

// *out: the surface (tachy_surface_is()) for FFmpeg, which holds a reference to it until the encoder has let go of it.
int tachy_encoder_gpu_wrap(const tachy_encoder_gpu *g, tachy_frame *surface, AVFrame **out);
// As above, with a surface that the host picture, which has the surfaces' format and size, was copied to.
int tachy_encoder_gpu_upload(tachy_encoder_gpu *g, const AVFrame *picture, AVFrame **out);
// As above, with an unwritten surface, to try an encoder.
int tachy_encoder_gpu_any(tachy_encoder_gpu *g, AVFrame **out);

// After the encoder was closed. *g may be NULL.
void tachy_encoder_gpu_close(tachy_encoder_gpu **g);
