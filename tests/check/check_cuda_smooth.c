#include "check_cuda.h"

#include "base/base.h"
#include "postprocess/mask.h"

#include <stdio.h>
#include <stdlib.h>

// Temporal smoothing: the bits of tachy_smooth_apply(), masks and state, over two launches.

struct job {
    int w, h, frames, streams;
    size_t area, plane; // of one frame; of one frame's rows with their padding
    size_t stride;
};

// Guides that are partly still, so that masks move at all speeds.
static void fill(struct check *c, uint8_t *mask, uint8_t *guide, const struct job *j)
{
    size_t all = j->plane * (size_t)(j->frames * j->streams);
    check_fill(c, mask, all);
    for (size_t i = 0; i < all; i++) {
        bool still = i >= j->plane && (i / 40) % 3;
        guide[i] = still ? (uint8_t)(guide[i - j->plane] ^ (check_rand(c) & 3)) : (uint8_t)check_rand(c);
    }
}

static void one(struct check *c)
{
    struct job j = {.w = check_range(c, 1, 130), .h = check_range(c, 1, 40), .frames = check_range(c, 1, 6),
                    .streams = check_range(c, 1, 3)};
    j.area = (size_t)j.w * (size_t)j.h;
    j.stride = (size_t)(j.w + check_range(c, 0, 9));
    j.plane = j.stride * (size_t)j.h;
    float strength = check_range(c, 0, 5) ? check_float(c, 0, 1) : 1;
    float least = tachy_smooth_least(strength);
    size_t all = j.plane * (size_t)(j.frames * j.streams), state = j.area * (size_t)j.streams;
    uint8_t *mask = malloc(all), *guide = malloc(all), *got = malloc(all), *save = malloc(1 + j.area * 9);
    float *got_state = malloc(2 * state * sizeof(float));
    uint8_t *got_guide = malloc(state);
    tachy_smooth *twin[3];
    for (int s = 0; s < j.streams; s++)
        check_case(c, tachy_smooth_open(&twin[s], j.w, j.h, strength) == 0, "smooth opens");
    cuda_address planes[3] = {check_gpu_poison(c, 2 * state * sizeof(float)), check_gpu_poison(c, state),
                              check_gpu_poison(c, state)};
    for (int launch = 0; launch < 2; launch++) {
        fill(c, mask, guide, &j);
        cuda_address m = check_gpu_put(c, mask, all), g = check_gpu_put(c, guide, all);
        struct tachy_cuda_smooth p = {
            .out = planes[0], .motion = planes[0] + state * sizeof(float), .before = planes[1 + launch],
            .after = planes[2 - launch], .mask = m, .guide = g, .stride_mask = (int64_t)j.stride,
            .stride_guide = (int64_t)j.stride, .next_mask = (int64_t)j.plane, .next_guide = (int64_t)j.plane,
            .stream_mask = (int64_t)j.plane * j.frames, .stream_guide = (int64_t)j.plane * j.frames, .least = least,
            .width = j.w, .height = j.h, .frames = j.frames, .streams = j.streams,
        };
        for (int s = 0; s < j.streams; s++)
            p.restart[s] = (check_rand(c) & check_rand(c) & 63) | (launch ? 0 : 1);
        check_gpu_launched(c, c->gpu->kernels->smooth(&p, c->gpu->stream), "smooth");
        check_gpu_get(c, got, m, all);
        check_gpu_get(c, got_state, planes[0], 2 * state * sizeof(float));
        check_gpu_get(c, got_guide, planes[2 - launch], state);
        bool same = true;
        for (int s = 0; s < j.streams; s++) {
            for (int f = 0; f < j.frames; f++) {
                size_t at = j.plane * (size_t)(s * j.frames + f);
                tachy_smooth_apply(twin[s], mask + at, (ptrdiff_t)j.stride, guide + at, (ptrdiff_t)j.stride,
                                   p.restart[s] >> f & 1);
            }
            tachy_smooth_save(twin[s], save);
            same &= !memcmp(save + 1, got_state + j.area * (size_t)s, j.area * sizeof(float)) &&
                    !memcmp(save + 1 + j.area * 4, got_state + state + j.area * (size_t)s, j.area * sizeof(float)) &&
                    !memcmp(save + 1 + j.area * 8, got_guide + j.area * (size_t)s, j.area);
        }
        check_case(c, !memcmp(mask, got, all), "smooth %dx%d, %d frames of %d streams", j.w, j.h, j.frames, j.streams);
        check_case(c, same, "state of smooth %dx%d, %d frames of %d streams", j.w, j.h, j.frames, j.streams);
        check_gpu_free(c, m), check_gpu_free(c, g);
    }
    for (int s = 0; s < j.streams; s++)
        tachy_smooth_close(&twin[s]);
    for (int i = 0; i < 3; i++)
        check_gpu_free(c, planes[i]);
    free(mask), free(guide), free(got), free(save), free(got_state), free(got_guide);
}

CHECK_GPU_TIMED(smooth, struct tachy_cuda_smooth)

static void bench(struct check *c, int size, int frames, int streams)
{
    size_t area = (size_t)size * (size_t)size, state = area * (size_t)streams, all = state * (size_t)frames;
    uint8_t *noise = malloc(all);
    check_fill(c, noise, all);
    cuda_address planes = check_gpu_poison(c, 10 * state), m = check_gpu_put(c, noise, all);
    cuda_address g = check_gpu_put(c, noise, all);
    struct timed_smooth t = {c, {.out = planes, .motion = planes + 4 * state, .before = planes + 8 * state,
                          .after = planes + 9 * state, .mask = m, .guide = g, .stride_mask = size,
                          .stride_guide = size, .next_mask = (int64_t)area, .next_guide = (int64_t)area,
                          .stream_mask = (int64_t)area * frames, .stream_guide = (int64_t)area * frames,
                          .least = 0.25f, .restart = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                          .width = size, .height = size, .frames = frames, .streams = streams}};
    char what[64];
    snprintf(what, sizeof(what), "%d streams x %d frames %dx%d", streams, frames, size, size);
    check_gpu_row(c, "smooth", what, check_gpu_time(c, launch_smooth, &t), (double)(17 * state + 3 * all));
    check_gpu_free(c, planes), check_gpu_free(c, m), check_gpu_free(c, g);
    free(noise);
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 40); i++)
        one(c);
    if (c->bench) {
        bench(c, 512, 8, 2);
        bench(c, 1024, 8, 16);
    }
}

const struct check_op check_cuda_smooth = {.name = "smooth", .run = run, .cuda = true};
