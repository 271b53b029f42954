#pragma once
#include "cuda/kernels.h"

#include <stdlib.h>

// Kernels of segment over the fake driver: the composite's first byte is that of its frame, and its guide holds that
// byte everywhere. Each takes time on the stream, and fails if the driver does.

enum { COUNT = 512, KERNEL_NS = 50000 };
enum { STEP = 3, GREY = 126 }; // difference between the bytes of consecutive frames; luma of the background
static _Atomic int wrong; // kernels that were given what they should not

static int (*launch)(cuda_stream s, uint64_t ns);
static _Atomic int launches;

static int run_any(cuda_stream stream)
{
    launches++;
    return launch(stream, KERNEL_NS);
}

// A kernel whose launch is refused does nothing.
#define LAUNCH(stream)                                                                                        \
    do {                                                                                                      \
        int status_ = run_any(stream);                                                                        \
        if (status_)                                                                                          \
            return status_;                                                                                   \
    } while (0)

static uint8_t *at(cuda_address a) { return (uint8_t *)(uintptr_t)a; }

static int run_composite(const struct tachy_cuda_composite *a, cuda_stream stream)
{
    LAUNCH(stream);
    for (int i = 0; i < a->count; i++) {
        const struct tachy_cuda_composite_frame *f = &a->frame[i];
        *at(f->out[0]) = a->own ? *at(f->in[0]) : *at(f->eye[0].mask);
        if (a->other == TACHY_CUDA_LAYER_PICTURE)
            wrong += abs(*at(f->other[0]) - GREY) > 1;
        if (a->refined)
            wrong += *(float *)(void *)at(f->eye[0].slope) != (float)*at(f->in[0]);
        if (f->counted) // else a later kernel counts
            *(uint32_t *)(void *)at(f->counted) += COUNT;
    }
    return CUDA_OK;
}

static int run_prob(const struct tachy_cuda_prob *a, cuda_stream stream)
{
    LAUNCH(stream);
    for (int i = 0; i < a->count; i++)
        for (int y = 0; y < a->height; y++)
            memset(at(a->each[i] + (cuda_address)(y * a->dst_y)), 200, (size_t)a->width);
    return CUDA_OK;
}

static int run_guide(const struct tachy_cuda_guide *a, cuda_stream stream)
{
    LAUNCH(stream);
    for (int i = 0; i < a->count; i++)
        memset(at(a->eye[i].guide), *at(a->eye[i].luma), (size_t)a->height * (size_t)a->stride);
    return CUDA_OK;
}

static int run_refine(const struct tachy_cuda_refine *a, cuda_stream stream)
{
    LAUNCH(stream);
    for (int i = 0; i < a->count; i++)
        *(float *)(void *)at(a->eye[i].slope) = (float)*at(a->eye[i].guide);
    return CUDA_OK;
}

// For formats that the composite's kernel does not support: before the blend only alpha is made.
static int run_luma(const struct tachy_cuda_luma *a, cuda_stream stream)
{
    LAUNCH(stream);
    for (int i = 0; i < a->count; i++)
        *at(a->out[i]) = *at(a->in[i]);
    return CUDA_OK;
}

static int run_blend(const struct tachy_cuda_blend *a, cuda_stream stream)
{
    LAUNCH(stream);
    for (int i = 0; i < a->count; i++) {
        uint8_t other = a->other == TACHY_CUDA_LAYER_PICTURE ? *at(a->frame[i].other) : GREY;
        wrong += abs(other - GREY) > 3 && other != 255; // which is its transparency
        wrong += !a->frame[i].alpha || (a->other == TACHY_CUDA_LAYER_BLURRED && !a->blur_across);
        *at(a->frame[i].out) = *at(a->frame[i].in);
    }
    return CUDA_OK;
}

static int run_edges(const struct tachy_cuda_edges *a, cuda_stream stream)
{
    LAUNCH(stream);
    for (int i = 0; i < a->count; i++) {
        const struct tachy_cuda_edges_frame *f = &a->frame[i];
        wrong += !*at(f->in[0]) || !f->eye[0].scratch; // whose byte is never 0
        *at(f->alpha) = *at(f->eye[0].mask);
        if (f->counted)
            *(uint32_t *)(void *)at(f->counted) += COUNT;
    }
    return CUDA_OK;
}

static int run_grow(const struct tachy_cuda_grow *a, cuda_stream stream)
{
    LAUNCH(stream);
    for (int i = 0; i < a->count; i++) {
        *at(a->frame[i].dst) = *at(a->frame[i].src);
        if (a->frame[i].counted)
            *(uint32_t *)(void *)at(a->frame[i].counted) += COUNT;
    }
    return CUDA_OK;
}

static _Atomic int fits;
static int run_resize(const struct tachy_cuda_resize *a, cuda_stream stream)
{
    LAUNCH(stream);
    fits++;
    *at(a->dst) = *at(a->src);
    return CUDA_OK;
}

static int run_alpha_any(const struct tachy_cuda_alpha_any *a, cuda_stream stream)
{
    LAUNCH(stream);
    for (int i = 0; i < a->count; i++)
        *at(a->frame[i].out[0]) = *at(a->frame[i].in[0]);
    return CUDA_OK;
}

static int run_alpha_out(const struct tachy_cuda_alpha_out *a, cuda_stream stream)
{
    LAUNCH(stream);
    for (int i = 0; i < a->count; i++)
        *at(a->frame[i].out[0]) = *at(a->frame[i].in[0]);
    return CUDA_OK;
}

static int run_cells(const struct tachy_cuda_cells *a, cuda_stream stream) { return run_any(stream); }

static int run_blur(const struct tachy_cuda_blur *a, cuda_stream stream)
{
    LAUNCH(stream);
    wrong += !a->gathered;
    return CUDA_OK;
}

static int run_signature(const struct tachy_cuda_signature *a, cuda_stream stream)
{
    LAUNCH(stream);
    for (int i = 0; i < a->count; i++)
        *(uint16_t *)(void *)at(a->dst + (cuda_address)(i * a->next_dst)) = *at(a->src[i]);
    return CUDA_OK;
}

static int run_preprocess(const struct tachy_cuda_preprocess *a, cuda_stream stream) { return run_any(stream); }
static int run_border(const struct tachy_cuda_pre_border *a, cuda_stream stream) { return run_any(stream); }

const struct tachy_cuda_kernels *tachy_cuda_kernels(void)
{
    static const struct tachy_cuda_kernels all = {.composite = run_composite, .prob = run_prob,
                                                  .preprocess = run_preprocess, .preprocess_border = run_border,
                                                  .guide = run_guide, .refine = run_refine, .edges = run_edges, .grow = run_grow,
                                                  .luma = run_luma, .blend = run_blend, .cells = run_cells,
                                                  .blur = run_blur, .resize = run_resize,
                                                  .signature = run_signature, .alpha_any = run_alpha_any, .alpha_out = run_alpha_out};
    return &all;
}
const char *tachy_cuda_refuses(const struct tachy_device *d, char why[256]) { return NULL; }
int tachy_cuda_need(const struct tachy_device *d, const struct tachy_log *log) { return TACHY_OK; }
