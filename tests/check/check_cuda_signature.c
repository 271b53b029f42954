#include "check_cuda.h"

#include "base/base.h"
#include "preprocess/signature_cuda.h"

#include <stdio.h>
#include <stdlib.h>

// Luma signatures of a batch of frames: the numbers of the CPU.

enum { FRAMES = 3 };

// Frames of one format and size, each with its own stride; only the first plane.
struct frames {
    enum tachy_pix format;
    int w, h, step;
    struct {
        uint8_t *data;
        size_t stride, bytes;
        cuda_address at;
    } frame[FRAMES];
};

static void frames_open(struct check *c, struct frames *f, enum tachy_pix format, int w, int h)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    *f = (struct frames){.format = format, .w = w, .h = h, .step = d->components[0] * d->bytes};
    bool aligned = check_range(c, 0, 1);
    for (int i = 0; i < FRAMES; i++) {
        size_t row = (size_t)(w * f->step), stride = aligned ? TACHY_ALIGN(row, 64u) : row + (check_rand(c) & 31);
        stride += d->bytes == 2 ? stride & 1 : 0;
        f->frame[i].stride = stride;
        f->frame[i].bytes = stride * (size_t)h;
        f->frame[i].data = malloc(f->frame[i].bytes);
        check_fill(c, f->frame[i].data, f->frame[i].bytes);
        if (check_range(c, 0, 9) == 0)
            memset(f->frame[i].data, 255, f->frame[i].bytes); // the largest sums
        f->frame[i].at = check_gpu_put(c, f->frame[i].data, f->frame[i].bytes);
    }
}

static void frames_close(struct check *c, struct frames *f)
{
    for (int i = 0; i < FRAMES; i++) {
        check_gpu_free(c, f->frame[i].at);
        free(f->frame[i].data);
    }
}

// The same frame in GPU memory.
static void of_a_frame(struct check *c, const struct frames *f, const struct tachy_rect *r, const struct tachy_signature *twin)
{
    struct tachy_signature_gpu *g = NULL;
    struct tachy_signature got;
    tachy_frame frame = {.format = f->format, .width = f->w, .height = f->h, .mem = TACHY_DEVICE,
                         .data = {(const uint8_t *)(uintptr_t)f->frame[0].at}, .stride = {(ptrdiff_t)f->frame[0].stride},
                         .device = c->gpu->device.ordinal, .stream = c->gpu->stream};
    if (check_range(c, 0, 9))
        return; // it opens the device
    int err = tachy_signature_make_gpu(&g, &got, &frame, r, NULL);
    size_t bytes = (size_t)(twin->columns * twin->rows) * sizeof(uint16_t);
    check_case(c, !err && got.columns == twin->columns && got.rows == twin->rows && got.width == twin->width &&
                      !memcmp(got.cell, twin->cell, bytes), "signature of a frame in the GPU's memory");
    tachy_signature_gpu_close(&g);
}

static void one_signature(struct check *c)
{
    struct frames f;
    int w = check_range(c, 0, 3) ? check_range(c, 500, 1400) : check_range(c, 1, 600);
    int h = check_range(c, 0, 3) ? check_range(c, 1, 100) : check_range(c, 700, 1000);
    frames_open(c, &f, (enum tachy_pix)check_range(c, TACHY_PIX_GRAY8, TACHY_PIX_COUNT - 1), w, h);
    struct tachy_rect r = {0, 0, w, h};
    if (check_range(c, 0, 1)) {
        r.w = check_range(c, 1, w);
        r.h = check_range(c, 1, h);
        r.x = check_range(c, 0, w - r.w);
        r.y = check_range(c, 0, h - r.h);
    }
    struct tachy_signature twin[FRAMES], got[FRAMES];
    cuda_address dst = check_gpu_poison(c, sizeof(got));
    struct tachy_cuda_signature p = {.dst = dst, .next_dst = sizeof(got[0]), .count = FRAMES};
    check_case(c, tachy_signature_layout_make(&p.layout, f.format, r.w, r.h) == 0, "layout");
    for (int i = 0; i < FRAMES; i++) {
        p.src[i] = f.frame[i].at + (cuda_address)r.y * f.frame[i].stride + (cuda_address)(r.x * f.step);
        p.stride[i] = (int64_t)f.frame[i].stride;
    }
    check_gpu_launched(c, c->gpu->kernels->signature(&p, c->gpu->stream), "signature");
    check_gpu_get(c, got, dst, sizeof(got));
    for (int i = 0; i < FRAMES; i++) {
        tachy_frame frame = {.format = f.format, .width = w, .height = h, .data = {f.frame[i].data},
                             .stride = {(ptrdiff_t)f.frame[i].stride}};
        int err = tachy_signature_make(&twin[i], &frame, &r);
        size_t cells = (size_t)(twin[i].columns * twin[i].rows);
        check_case(c, !err && !memcmp(twin[i].cell, got[i].cell, cells * sizeof(uint16_t)), "signature %s %dx%d of %dx%d",
                   tachy_pix_desc(f.format)->name, r.w, r.h, w, h);
    }
    of_a_frame(c, &f, &r, &twin[0]);
    check_gpu_free(c, dst);
    frames_close(c, &f);
}

CHECK_GPU_TIMED(signature, struct tachy_cuda_signature)

// 8 frames of video-like luma: a gradient with some noise.
static void bench(struct check *c, enum tachy_pix format, int w, int h)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    size_t stride = (size_t)(w * d->bytes), all = stride * (size_t)h;
    uint8_t *data = malloc(all);
    for (size_t i = 0; i < all; i++)
        data[i] = (uint8_t)(i % stride * 200 / stride + (check_rand(c) & 15));
    struct timed_signature s = {c, {.count = 8, .next_dst = 2048}};
    tachy_signature_layout_make(&s.p.layout, format, w, h);
    s.p.dst = check_gpu_poison(c, 8 * 4096);
    for (int i = 0; i < 8; i++) {
        s.p.src[i] = check_gpu_put(c, data, all);
        s.p.stride[i] = (int64_t)stride;
    }
    int rows = 0;
    for (int j = 0; j < s.p.layout.rows; j++)
        rows += s.p.layout.count[j];
    char what[64];
    snprintf(what, sizeof(what), "8 x %dx%d %s", w, h, d->name);
    check_gpu_row(c, "signature", what, check_gpu_time(c, launch_signature, &s), 8.0 * (double)stride * rows);
    for (int i = 0; i < 8; i++)
        check_gpu_free(c, s.p.src[i]);
    check_gpu_free(c, s.p.dst);
    free(data);
}

static void run_signature(struct check *c)
{
    for (int i = 0; i < check_times(c, 40); i++)
        one_signature(c);
    if (c->bench) {
        bench(c, TACHY_PIX_NV12, 1920, 1080);
        bench(c, TACHY_PIX_NV12, 3840, 2160);
        bench(c, TACHY_PIX_P010, 7680, 4320);
    }
}

const struct check_op check_cuda_signature = {.name = "signature", .run = run_signature, .cuda = true};
