#include "check_cuda.h"

#include "base/base.h"
#include "ref/ref_absdiff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The absolute difference: the same bits and sums as the twin.

static void one(struct check *c)
{
    int bytes = check_range(c, 1, 2), shift = bytes == 2 ? check_range(c, 0, 6) : 0;
    int w = check_range(c, 1, 3000), h = check_range(c, 1, 90), n = check_range(c, 1, 3);
    size_t stride = (size_t)((w + check_range(c, 0, 40)) * bytes), next = stride * (size_t)h, all = next * (size_t)n;
    if (check_range(c, 0, 1)) {
        stride = TACHY_ALIGN((size_t)(w * bytes), 16u);
        next = stride * (size_t)h;
        all = next * (size_t)n;
    }
    uint8_t *a = malloc(all), *b = malloc(all), *want = malloc(all), *got = malloc(all);
    uint64_t sums[3] = {0}, got_sums[3];
    check_fill(c, a, all);
    check_fill(c, b, all);
    memset(want, 0xcd, all);
    cuda_address da = check_gpu_put(c, a, all), db = check_gpu_put(c, b, all), dst = check_gpu_poison(c, all);
    cuda_address sum = check_gpu_put(c, sums, sizeof(sums));
    struct tachy_cuda_absdiff p = {
        .a = da, .b = db, .dst = dst, .sum = sum, .stride_a = (int64_t)stride, .stride_b = (int64_t)stride,
        .stride_dst = (int64_t)stride, .next_a = (int64_t)next, .next_b = (int64_t)next, .next_dst = (int64_t)next,
        .width = w, .height = h, .count = n, .bytes = bytes, .shift = shift,
    };
    check_gpu_launched(c, c->gpu->kernels->absdiff(&p, c->gpu->stream), "absdiff");
    check_gpu_get(c, got, dst, all);
    check_gpu_get(c, got_sums, sum, sizeof(got_sums));
    for (int k = 0; k < n; k++)
        for (int y = 0; y < h; y++) {
            size_t i = (size_t)k * next + (size_t)y * stride;
            sums[k] += bytes == 1 ? tachy_ref_absdiff8(want + i, a + i, b + i, w)
                                  : tachy_ref_absdiff16((uint16_t *)(want + i), (uint16_t *)(a + i),
                                                        (uint16_t *)(b + i), shift, w);
        }
    check_case(c, !memcmp(want, got, all), "absdiff %dx%d, %d bytes, %d pictures", w, h, bytes, n);
    check_case(c, !memcmp(sums, got_sums, sizeof(sums[0]) * (size_t)n), "sum of absdiff %dx%d", w, h);
    const cuda_address mine[] = {da, db, dst, sum};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(mine); i++)
        check_gpu_free(c, mine[i]);
    free(a), free(b), free(want), free(got);
}

CHECK_GPU_TIMED(absdiff, struct tachy_cuda_absdiff)

static void bench(struct check *c, int w, int h, int n)
{
    size_t all = (size_t)w * (size_t)h * (size_t)n;
    uint8_t *noise = malloc(all);
    check_fill(c, noise, all);
    cuda_address a = check_gpu_put(c, noise, all), b = check_gpu_poison(c, all), dst = check_gpu_poison(c, all);
    struct timed_absdiff t = {c, {.a = a, .b = b, .dst = dst, .stride_a = w, .stride_b = w, .stride_dst = w,
                          .next_a = (int64_t)w * h, .next_b = (int64_t)w * h, .next_dst = (int64_t)w * h,
                          .width = w, .height = h, .count = n, .bytes = 1}};
    char what[64];
    snprintf(what, sizeof(what), "%d x %dx%d 8 bits", n, w, h);
    check_gpu_row(c, "absdiff", what, check_gpu_time(c, launch_absdiff, &t), 3.0 * (double)all);
    check_gpu_free(c, a), check_gpu_free(c, b), check_gpu_free(c, dst);
    free(noise);
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 60); i++)
        one(c);
    if (c->bench) {
        bench(c, 3840, 2160, 1);
        bench(c, 3840, 2160, 8);
    }
}

const struct check_op check_cuda_absdiff = {.name = "absdiff", .run = run, .cuda = true};
