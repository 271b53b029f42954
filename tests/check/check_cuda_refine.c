#include "check_cuda.h"
#include "check_picture.h"

#include "base/base.h"
#include "postprocess/refine_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Guides and the coefficients of refinement on the GPU: the bits of tachy_luma_guide() and
// tachy_refine_fit().

static const enum tachy_pix formats[] = {TACHY_PIX_NV12, TACHY_PIX_P010, TACHY_PIX_YUV444P10, TACHY_PIX_GRAY8};
enum { EYES = TACHY_CUDA_EYES + 3 }; // more than one launch takes

static uint8_t *noise(struct check *c, size_t n)
{
    uint8_t *p = malloc(n);
    check_runs(c, p, (int)n);
    return p;
}

// Compares the CPU's result for one eye with the GPU's.
static void compare(struct check *c, const tachy_frame *f, const struct tachy_rect *g, int w, int h, const uint8_t *mask,
                    const uint8_t *guide, const float *slope, const float *offset)
{
    size_t n = (size_t)w * (size_t)h;
    uint8_t *want = malloc(n);
    struct tachy_refine fit = {.a = malloc(n * 4), .b = malloc(n * 4), .width = w, .height = h};
    void *scratch = malloc(tachy_refine_scratch(w, h));
    tachy_luma_guide(f, g, want, w, w, h);
    tachy_refine_fit(&fit, mask, w, want, w, scratch);
    check_case(c, !memcmp(want, guide, n), "guide of %dx%d at %d,%d of %s -> %dx%d", g->w, g->h, g->x, g->y,
               tachy_pix_desc(f->format)->name, w, h);
    check_case(c, !memcmp(fit.a, slope, n * 4) && !memcmp(fit.b, offset, n * 4), "refinement of %dx%d", w, h);
    free(want), free(fit.a), free(fit.b), free(scratch);
}

// In one call, or guides first and then the coefficients from what is there.
static int refine(struct check *c, const struct tachy_refine_cuda *q, const struct tachy_refine_cuda_eye eye[], int n)
{
    struct tachy_refine_cuda_eye part[EYES];
    struct tachy_refine_cuda apart = *q;
    if (check_range(c, 0, 1))
        return tachy_refine_cuda_run(q, c->gpu->cu, c->gpu->stream);
    apart.eye = part;
    memcpy(part, eye, (size_t)n * sizeof(part[0]));
    for (int i = 0; i < n; i++)
        part[i].mask = NULL;
    int err = tachy_refine_cuda_run(&apart, c->gpu->cu, c->gpu->stream);
    for (int i = 0; i < n; i++)
        part[i].mask = eye[i].mask, part[i].frame = NULL;
    return err < 0 ? err : tachy_refine_cuda_run(&apart, c->gpu->cu, c->gpu->stream);
}

static void one(struct check *c)
{
    int w = check_range(c, 1, 70), h = check_range(c, 1, 40), n = check_range(c, 0, 3) ? 2 : EYES;
    int fw = check_range(c, 1, check_range(c, 0, 9) ? 300 : 3000), fh = check_range(c, 1, 60);
    struct check_picture f;
    check_picture(c, &f, formats[check_range(c, 0, TACHY_ARRAY_SIZE(formats) - 1)], fw, fh, true);
    size_t size = (size_t)w * (size_t)h, all = size * EYES;
    uint8_t *mask = noise(c, all), *guide = malloc(all);
    float *slope = malloc(all * 4), *offset = malloc(all * 4);
    cuda_address luma = check_gpu_put(c, f.memory[0], f.size[0]), m = check_gpu_put(c, mask, all);
    cuda_address g = check_gpu_poison(c, all), a = check_gpu_poison(c, all * 4), b = check_gpu_poison(c, all * 4);
    tachy_frame on_gpu = f.f;
    on_gpu.mem = TACHY_DEVICE;
    on_gpu.data[0] = (const uint8_t *)(uintptr_t)(luma + (cuda_address)(f.f.data[0] - f.memory[0]));
    struct tachy_refine_cuda_eye eye[EYES];
    for (int i = 0; i < n; i++) {
        struct tachy_rect r = {check_range(c, 0, fw - 1), check_range(c, 0, fh - 1), 0, 0};
        r.w = check_range(c, 1, fw - r.x), r.h = check_range(c, 1, fh - r.y);
        cuda_address at = (cuda_address)i * size;
        eye[i] = (struct tachy_refine_cuda_eye){
            .frame = &on_gpu, .region = r, .guide = (uint8_t *)(uintptr_t)(g + at),
            .mask = (const uint8_t *)(uintptr_t)(m + at),
            .fit = {(float *)(uintptr_t)(a + 4 * at), (float *)(uintptr_t)(b + 4 * at), w, h, 0}};
    }
    struct tachy_refine_cuda q = {.eye = eye, .count = n, .width = w, .height = h, .guide_stride = w, .mask_stride = w};
    check_case(c, refine(c, &q, eye, n) == TACHY_OK, "refine on the GPU");
    check_gpu_get(c, guide, g, all), check_gpu_get(c, slope, a, all * 4), check_gpu_get(c, offset, b, all * 4);
    for (int i = 0; i < n; i++)
        compare(c, &f.f, &eye[i].region, w, h, mask + (size_t)i * size, guide + (size_t)i * size,
                slope + (size_t)i * size, offset + (size_t)i * size);
    const cuda_address mine[] = {luma, m, g, a, b};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(mine); i++)
        check_gpu_free(c, mine[i]);
    free(mask), free(guide), free(slope), free(offset);
    check_picture_free(&f);
}

struct timed {
    struct check *c;
    struct tachy_refine_cuda q;
};
static void launch(void *arg)
{
    struct timed *t = arg;
    tachy_refine_cuda_run(&t->q, t->c->gpu->cu, t->c->gpu->stream);
}

static void bench(struct check *c)
{
    enum { N = 8, SIDE = 512, W = 3840, H = 2160 };
    struct check_picture f;
    check_picture(c, &f, TACHY_PIX_NV12, W, H, false);
    uint8_t *noisy = noise(c, SIDE * SIDE);
    tachy_frame on_gpu[N];
    struct tachy_refine_cuda_eye eye[N];
    cuda_address mine[N][4];
    for (int i = 0; i < N; i++) {
        mine[i][0] = check_gpu_put(c, f.memory[0], f.size[0]);
        mine[i][1] = check_gpu_put(c, noisy, SIDE * SIDE);
        mine[i][2] = check_gpu_poison(c, SIDE * SIDE);
        mine[i][3] = check_gpu_poison(c, 8 * SIDE * SIDE);
        float *fit = (float *)(uintptr_t)mine[i][3];
        on_gpu[i] = f.f;
        on_gpu[i].mem = TACHY_DEVICE;
        on_gpu[i].data[0] = (const uint8_t *)(uintptr_t)mine[i][0];
        eye[i] = (struct tachy_refine_cuda_eye){
            .frame = &on_gpu[i], .region = {0, 0, W, H}, .guide = (uint8_t *)(uintptr_t)mine[i][2],
            .mask = (const uint8_t *)(uintptr_t)mine[i][1], .fit = {fit, fit + SIDE * SIDE, SIDE, SIDE, 0}};
    }
    struct timed t = {c, {.eye = eye, .count = N, .width = SIDE, .height = SIDE, .guide_stride = SIDE,
                          .mask_stride = SIDE}};
    double bytes = N * (W * (double)H + 10.0 * SIDE * SIDE);
    check_gpu_row(c, "refine", "guide and fit 8 x 3840x2160 -> 512x512", check_gpu_time(c, launch, &t), bytes);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 4; k++)
            check_gpu_free(c, mine[i][k]);
    free(noisy);
    check_picture_free(&f);
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 100); i++)
        one(c);
    if (c->bench)
        bench(c);
}

const struct check_op check_cuda_refine = {.name = "refine", .run = run, .cuda = true};
