#include "check_cuda.h"

#include "base/base.h"
#include "ref/ref_resample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Resize against its twin, which sums in double. float32: within 1e-6 of the largest value times the number of terms in
// a sum's chain, at least 4; float16: half a unit in the last place more; bytes: either neighbour if the exact value
// lies within 1e-3 of a half.

struct side {
    int64_t row, col, chan, next;
    size_t all;
};

static struct side lay(int w, int h, int channels, int count, bool last)
{
    struct side s = {.row = last ? (int64_t)w * channels : w, .col = last ? channels : 1,
                     .chan = last ? 1 : (int64_t)w * h, .next = (int64_t)w * h * channels};
    s.all = (size_t)(s.next * count);
    return s;
}

static struct tachy_cuda_taps put(struct check *c, const struct tachy_taps *t)
{
    size_t n = (size_t)t->outputs;
    return (struct tachy_cuda_taps){check_gpu_put(c, t->start, n * 4), check_gpu_put(c, t->count, n * 4),
                                    check_gpu_put(c, t->weight, n * (size_t)t->max * 4), t->max};
}

static void drop(struct check *c, struct tachy_cuda_taps *t)
{
    check_gpu_free(c, t->start), check_gpu_free(c, t->count), check_gpu_free(c, t->weight);
}

static bool near(enum tachy_dtype type, float want, const void *data, int64_t i, int terms)
{
    double slack = 1e-6 * TACHY_MAX(terms, 4);
    if (type == TACHY_F32)
        return fabs(((const float *)data)[i] - (double)want) <= slack;
    if (type == TACHY_F16)
        return fabs(tachy_ref_float(((const uint16_t *)data)[i]) - (double)want) <= slack + fabs((double)want) / 2048;
    return fabs(((const uint8_t *)data)[i] - (double)want) <= 0.5 + 1e-3;
}

// Random values as floats and as they are stored.
static float *fill(struct check *c, enum tachy_dtype type, void *data, size_t n)
{
    float *plain = malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        plain[i] = check_float(c, -1, 1);
        if (type == TACHY_F32)
            ((float *)data)[i] = plain[i];
        else if (type == TACHY_F16)
            plain[i] = tachy_ref_float(((uint16_t *)data)[i] = tachy_ref_half(plain[i]));
        else
            plain[i] = ((uint8_t *)data)[i] = (uint8_t)check_rand(c);
    }
    return plain;
}

static void one(struct check *c)
{
    static const enum tachy_dtype types[] = {TACHY_F32, TACHY_F16, TACHY_U8};
    enum tachy_dtype type = types[check_range(c, 0, 2)];
    enum tachy_resample how = (enum tachy_resample)check_range(c, 0, TACHY_RESAMPLE_AREA);
    int w = check_range(c, 1, 90), h = check_range(c, 1, 60), ow = check_range(c, 1, 90), oh = check_range(c, 1, 60);
    int channels = check_range(c, 1, 6), n = check_range(c, 1, 2);
    struct side in = lay(w, h, channels, n, check_range(c, 0, 1)), out = lay(ow, oh, channels, n, check_range(c, 0, 1));
    size_t each = tachy_dtype_size(type);
    void *data = malloc(in.all * each), *got = malloc(out.all * each);
    float *plain = fill(c, type, data, in.all);
    struct tachy_taps across, down;
    int err = tachy_resample_make(&across, how, w, ow) | tachy_resample_make(&down, how, h, oh);
    check_case(c, !err, "tables");
    struct tachy_cuda_resize p = {
        .src = check_gpu_put(c, data, in.all * each), .dst = check_gpu_poison(c, out.all * each), .x = put(c, &across),
        .y = put(c, &down), .row_src = in.row, .col_src = in.col, .chan_src = in.chan, .next_src = in.next,
        .row_dst = out.row, .col_dst = out.col, .chan_dst = out.chan, .next_dst = out.next, .width = ow, .height = oh,
        .channels = channels, .count = n, .dtype = type,
    };
    check_gpu_launched(c, c->gpu->kernels->resize(&p, c->gpu->stream), "resize");
    check_gpu_get(c, got, p.dst, out.all * each);
    int wrong = 0;
    for (int k = 0; k < n * channels; k++)
        for (int i = 0; i < ow * oh; i++) {
            const float *from = plain + k / channels * in.next + k % channels * in.chan;
            float want = tachy_ref_resample(from, in.row, in.col, &down, &across, i / ow, i % ow);
            int64_t to = k / channels * out.next + k % channels * out.chan + i / ow * out.row + i % ow * out.col;
            wrong += !near(type, want, got, to, across.max + down.max);
        }
    check_case(c, !wrong, "resize %d type %d %dx%d to %dx%d x%d: %d wrong", how, type, w, h, ow, oh, channels, wrong);
    drop(c, &p.x), drop(c, &p.y), check_gpu_free(c, p.src), check_gpu_free(c, p.dst);
    tachy_resample_free(&across), tachy_resample_free(&down);
    free(data), free(got), free(plain);
}

CHECK_GPU_TIMED(resize, struct tachy_cuda_resize)

static void bench(struct check *c, enum tachy_resample how, enum tachy_dtype type, bool last, int from, int to)
{
    static const char *const names[] = {"nearest", "bilinear", "area"};
    struct side in = lay(from, from, 3, 8, last), out = lay(to, to, 3, 8, last);
    size_t each = tachy_dtype_size(type);
    struct tachy_taps table;
    if (tachy_resample_make(&table, how, from, to) < 0)
        return;
    struct timed_resize t = {c, {.src = check_gpu_poison(c, in.all * each), .dst = check_gpu_poison(c, out.all * each),
                          .x = put(c, &table), .y = put(c, &table), .row_src = in.row, .col_src = in.col,
                          .chan_src = in.chan, .next_src = in.next, .row_dst = out.row, .col_dst = out.col,
                          .chan_dst = out.chan, .next_dst = out.next, .width = to, .height = to, .channels = 3,
                          .count = 8, .dtype = type}};
    char what[80];
    snprintf(what, sizeof(what), "%s 8 x %d x %d x 3 to %d x %d %s %s", names[how], from, from, to, to, tachy_dtype_name(type),
             last ? "NHWC" : "NCHW");
    check_gpu_row(c, "resize", what, check_gpu_time(c, launch_resize, &t), (double)((in.all + out.all) * each));
    drop(c, &t.p.x), drop(c, &t.p.y), check_gpu_free(c, t.p.src), check_gpu_free(c, t.p.dst);
    tachy_resample_free(&table);
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 80); i++)
        one(c);
    if (!c->bench)
        return;
    bench(c, TACHY_RESAMPLE_BILINEAR, TACHY_F16, false, 512, 1024);
    bench(c, TACHY_RESAMPLE_BILINEAR, TACHY_U8, true, 512, 1024);
    bench(c, TACHY_RESAMPLE_AREA, TACHY_F16, false, 2048, 512);
    bench(c, TACHY_RESAMPLE_AREA, TACHY_U8, true, 2048, 512);
}

const struct check_op check_cuda_resize = {.name = "resize", .run = run, .cuda = true};
