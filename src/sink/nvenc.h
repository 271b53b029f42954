#pragma once
#include "media/media.h"
#include "media/surface.h"

// The encoders of NVIDIA's GPUs (NVENC) in the place of x264 and x265. FFmpeg has them wherever it was built
// with them; whether a GPU has one shows when an encoder is opened.

// The one for what `cpu` (libx264, libx265) makes; NULL: this FFmpeg has none, or there is none.
const AVCodec *tachy_nvenc_for(const AVCodec *cpu);

// x264's presets by NVENC's names, from the fastest to the slowest; others stay as they are.
const char *tachy_nvenc_preset(const char *preset);

// Constant quality `crf` (text) on GPU `gpu`, added to an encoder's own options. TACHY_ERR_NOMEM.
int tachy_nvenc_options(AVDictionary **options, const char *crf, int gpu);

// Opens an encoder with these options for pictures of the host's and closes it again. Not TACHY_OK: the reason is in `why`.
int tachy_nvenc_try(const AVCodec *codec, const AVDictionary *options, enum AVPixelFormat format, int width,
                    int height, char *why, size_t size);

// As above for surfaces, one of which is encoded.
int tachy_nvenc_try_surfaces(const AVCodec *codec, const AVDictionary *options, const struct tachy_surface_spec *spec,
                             char *why, size_t size);
