#pragma once
#include "media/frame_pool.h"

// Surfaces: pictures in GPU memory that its encoder reads in place. The planes are laid out as NVENC expects, which
// gets the address of the first one and its pitch: contiguous, chroma pairs and full chroma at the same pitch, planes
// of quarter chroma at half of it, and V before U.

struct tachy_surface_spec {
    int device;            // CUDA's ordinal
    enum tachy_pix format; // NV12, P010, YUV420P or YUV444P; TACHY_PIX_NONE: there are no surfaces
    int width, height;     // even where chroma is halved
};

// The format of the surfaces that pictures `from` are made into without a conversion for an encoder that is
// given pictures `to`; TACHY_PIX_NONE: there is none. Grey becomes NV12, whose chroma the maker fills.
enum tachy_pix tachy_surface_format(enum tachy_pix from, enum tachy_pix to);

// True if this frame is such a surface.
bool tachy_surface_is(const struct tachy_surface_spec *spec, const tachy_frame *f);

// A pool of them on `g`, spec->device's; its frames come from tachy_surface_get(), otherwise as every pool.
int tachy_surface_pool_open(tachy_frame_pool **out, struct tachy_gpu *g, const struct tachy_surface_spec *spec);
int tachy_surface_get(tachy_frame_pool *p, tachy_frame **out);
