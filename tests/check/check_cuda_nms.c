#include "check_cuda.h"

#include "base/base.h"
#include "ref/ref_nms.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Non-maximum suppression: the twin's boxes in the twin's order.

// Boxes of about `size` pixels in a square of `field`, many of equal score.
static void boxes(struct check *c, float (*box)[4], float *score, int32_t *classes, int n, float field)
{
    for (int i = 0; i < n; i++) {
        float x = check_float(c, 0, field), y = check_float(c, 0, field);
        float w = check_float(c, 5, 40), h = check_float(c, 5, 40);
        memcpy(box[i], (float[]){x, y, x + w, y + h}, sizeof(box[i]));
        if (check_range(c, 0, 30) == 0) // turned round, or none
            box[i][2] = check_range(c, 0, 1) ? x - w : x;
        score[i] = check_range(c, 0, 2) ? check_float(c, -0.2f, 1) : (float)check_range(c, -1, 4) / 4;
        if (check_range(c, 0, 40) == 0)
            score[i] = check_range(c, 0, 1) ? NAN : -0.0f;
        classes[i] = check_range(c, 0, 3);
    }
}

static void one(struct check *c)
{
    int n = check_range(c, 1, check_range(c, 0, 3) ? 200 : 900), count = check_range(c, 1, 3);
    int limit = check_range(c, 0, 1) ? n : check_range(c, 1, 60);
    size_t all = (size_t)(n * count), out = (size_t)(limit * count);
    float(*box)[4] = malloc(all * sizeof(*box)), *score = malloc(all * sizeof(float));
    int32_t *classes = malloc(all * 4), *want = malloc((size_t)n * 4), *kept = malloc(out * 4), found[3];
    boxes(c, box, score, classes, (int)all, check_float(c, 10, 400));
    bool by_class = check_range(c, 0, 1);
    size_t scratch = tachy_cuda_nms_scratch(n, count);
    struct tachy_cuda_nms p = {
        .box = check_gpu_put(c, box, all * sizeof(*box)), .score = check_gpu_put(c, score, all * 4),
        .classes = check_gpu_put(c, classes, all * 4), .kept = check_gpu_poison(c, out * 4),
        .found = check_gpu_poison(c, sizeof(found)), .scratch = check_gpu_poison(c, scratch), .boxes = n,
        .count = count, .limit = limit, .most = check_float(c, 0.1f, 0.7f), .least = check_float(c, -0.3f, 0.5f),
    };
    const cuda_address mine[] = {p.box, p.score, p.classes, p.kept, p.found, p.scratch};
    p.classes = by_class ? p.classes : 0;
    check_gpu_launched(c, c->gpu->kernels->nms(&p, c->gpu->stream), "nms");
    check_gpu_get(c, kept, p.kept, out * 4);
    check_gpu_get(c, found, p.found, sizeof(int32_t) * (size_t)count);
    for (int k = 0; k < count; k++) {
        const float(*b)[4] = (const void *)(box + k * n);
        int twin = tachy_ref_nms(want, b, score + k * n, by_class ? classes + k * n : NULL, n, p.most, p.least, limit);
        bool same = found[k] == twin && !memcmp(want, kept + k * limit, (size_t)twin * 4);
        for (int i = twin; i < limit; i++)
            same &= kept[k * limit + i] == -1;
        check_case(c, same, "nms of %d boxes: %d stay, twin %d", n, found[k], twin);
    }
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(mine); i++)
        check_gpu_free(c, mine[i]);
    free(box), free(score), free(classes), free(want), free(kept);
}

CHECK_GPU_TIMED(nms, struct tachy_cuda_nms)

static void bench(struct check *c, int n, int count)
{
    size_t all = (size_t)(n * count), scratch = tachy_cuda_nms_scratch(n, count);
    float(*box)[4] = malloc(all * sizeof(*box)), *score = malloc(all * sizeof(float));
    int32_t *classes = malloc(all * 4);
    boxes(c, box, score, classes, (int)all, 640);
    struct timed_nms t = {c, {.box = check_gpu_put(c, box, all * sizeof(*box)), .score = check_gpu_put(c, score, all * 4),
                          .classes = check_gpu_put(c, classes, all * 4), .kept = check_gpu_poison(c, all * 4),
                          .found = check_gpu_poison(c, (size_t)count * 4), .scratch = check_gpu_poison(c, scratch),
                          .boxes = n, .count = count, .limit = n, .most = 0.5f, .least = 0.0f}};
    char what[64];
    snprintf(what, sizeof(what), "%d x %d boxes", count, n);
    // Bound by pairs, not by bytes: the share is of the bits that are written.
    check_gpu_row(c, "nms", what, check_gpu_time(c, launch_nms, &t), (double)scratch / 2);
    const cuda_address mine[] = {t.p.box, t.p.score, t.p.classes, t.p.kept, t.p.found, t.p.scratch};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(mine); i++)
        check_gpu_free(c, mine[i]);
    free(box), free(score), free(classes);
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 40); i++)
        one(c);
    if (c->bench) {
        bench(c, 1000, 8);
        bench(c, 8400, 8);
        bench(c, 32768, 1);
    }
}

const struct check_op check_cuda_nms = {.name = "nms", .run = run, .cuda = true};
