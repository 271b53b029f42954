#include "check_cuda.h"

#include "base/base.h"
#include "postprocess/mask.h"
#include "ref/ref_argmax.h"
#include "ref/ref_preprocess.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Masks from a network's output: the bits of tachy_mask_from_tensor(), and of the twin of argmax.

// A batch of random outputs, as they lie in memory and as floats in the order NHWC.
struct sample {
    enum tachy_dtype dtype;
    int w, h, c, n;
    bool nchw;
    void *data;
    float *plain;
    size_t bytes; // a picture
};

static float drawn(struct check *c, bool logits)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 100.0f, -100.0f};
    if (check_range(c, 0, 40) == 0)
        return odd[check_range(c, 0, (int)TACHY_ARRAY_SIZE(odd) - 1)];
    return check_float(c, logits ? -9 : -0.2f, logits ? 9 : 1.2f);
}

static void sample_open(struct check *c, struct sample *s, bool one, bool logits)
{
    static const enum tachy_dtype types[] = {TACHY_F32, TACHY_F16, TACHY_U8};
    s->dtype = types[check_range(c, 0, 2)];
    s->w = check_range(c, 0, 1) ? 8 * check_range(c, 1, 70) : check_range(c, 1, 300);
    s->h = check_range(c, 1, 40);
    s->n = check_range(c, 1, 3);
    s->c = one ? 1 : check_range(c, 2, check_range(c, 0, 3) ? 6 : 32);
    s->nchw = check_range(c, 0, 1);
    size_t pixels = (size_t)s->w * (size_t)s->h, all = pixels * (size_t)(s->c * s->n);
    s->bytes = pixels * (size_t)s->c * tachy_dtype_size(s->dtype);
    s->data = malloc(all * tachy_dtype_size(s->dtype));
    s->plain = malloc(all * sizeof(float));
    for (size_t i = 0; i < all; i++) {
        float v = drawn(c, logits);
        if (s->dtype == TACHY_F32)
            ((float *)s->data)[i] = v;
        else if (s->dtype == TACHY_F16)
            v = tachy_ref_float(((uint16_t *)s->data)[i] = tachy_ref_half(v));
        else
            v = ((uint8_t *)s->data)[i] = (uint8_t)check_range(c, 0, 255);
        size_t in = i % (pixels * (size_t)s->c), at = i - in;
        at += s->nchw ? in % pixels * (size_t)s->c + in / pixels : in;
        s->plain[at] = v;
    }
}

static struct tachy_cuda_prob params(const struct sample *s, cuda_address src)
{
    return (struct tachy_cuda_prob){
        .src = src, .row = s->nchw ? s->w : (int64_t)s->w * s->c, .col = s->nchw ? 1 : s->c,
        .chan = s->nchw ? (int64_t)s->w * s->h : 1, .next_src = (int64_t)s->w * s->h * s->c,
        .dst_x = 1, .width = s->w, .height = s->h, .count = s->n, .channels = s->c, .dtype = s->dtype,
    };
}

static void free_sample(struct check *c, struct sample *s, cuda_address src, cuda_address dst)
{
    check_gpu_free(c, src), check_gpu_free(c, dst);
    free(s->data), free(s->plain);
}

// Address of the upright pixel (0, 0) when the mask is turned back by `rotation`, and the steps.
static void turn(struct tachy_cuda_prob *p, cuda_address dst, int rotation, bool flip, int64_t stride)
{
    int w = p->width, h = p->height;
    int64_t from = rotation == 90 ? (w - 1) * stride : rotation == 180 ? (h - 1) * stride + w - 1
                   : rotation == 270 ? h - 1 : 0;
    p->dst_x = rotation == 90 ? -stride : rotation == 180 ? -1 : rotation == 270 ? stride : 1;
    p->dst_y = rotation == 90 ? 1 : rotation == 180 ? -stride : rotation == 270 ? -1 : stride;
    if (flip) {
        from += (w - 1) * p->dst_x;
        p->dst_x = -p->dst_x;
    }
    p->dst = dst + (cuda_address)from;
}

static void soft(struct check *c)
{
    static const enum tachy_output_meaning meanings[] = {TACHY_OUT_PROBABILITY, TACHY_OUT_LOGIT, TACHY_OUT_SOFTMAX};
    struct sample s;
    int what = check_range(c, TACHY_CUDA_PROB_AS_IS, TACHY_CUDA_PROB_SOFTMAX);
    bool one = what != TACHY_CUDA_PROB_SOFTMAX, flip = check_range(c, 0, 1);
    sample_open(c, &s, one, what != TACHY_CUDA_PROB_AS_IS);
    int rotation = check_range(c, 0, 1) ? 90 * check_range(c, 0, 3) : 0, cut = check_range(c, 0, 3) ? 0 : 1;
    bool turned = rotation == 90 || rotation == 270;
    int limit = check_range(c, 0, 2) ? 0 : check_range(c, 1, 255);
    flip = flip && rotation;
    size_t stride = (size_t)(turned ? s.h : s.w);
    stride = check_range(c, 0, 1) ? TACHY_ALIGN(stride, 16u) : stride;
    size_t next = stride * (size_t)(turned ? s.w : s.h), all = next * (size_t)s.n;
    cuda_address src = check_gpu_put(c, s.data, s.bytes * (size_t)s.n), dst = check_gpu_poison(c, all);
    struct tachy_cuda_prob p = params(&s, src);
    p.what = what;
    p.channel = one ? 0 : check_range(c, 0, s.c - 1);
    p.threshold = limit;
    p.next_dst = (int64_t)next;
    cut = cut && s.w > 1;
    p.src += (cuda_address)(cut * p.col) * tachy_dtype_size(s.dtype);
    p.width -= cut; // the first column is letterbox
    turn(&p, dst, rotation, flip, (int64_t)stride);
    bool back = s.n <= TACHY_CUDA_PROB_EACH && check_range(c, 0, 1); // the last one first
    for (int k = 0; k < s.n && back; k++)
        p.each[k] = p.dst + (cuda_address)(s.n - 1 - k) * next;
    if (back)
        p.dst = 0;
    check_gpu_launched(c, c->gpu->kernels->prob(&p, c->gpu->stream), "prob");
    uint8_t *got = malloc(all), *want = malloc(all);
    memset(want, 0xcd, all);
    check_gpu_get(c, got, dst, all);
    struct tachy_mask_spec spec = {meanings[what], p.channel, s.nchw ? TACHY_NCHW : TACHY_NHWC};
    struct tachy_placement place = {.x = cut, .y = 0, .w = p.width, .h = s.h};
    for (int k = 0; k < s.n; k++) {
        uint8_t *to = want + (size_t)(back ? s.n - 1 - k : k) * next;
        struct tachy_tensor t = {.data = (uint8_t *)s.data + (size_t)k * s.bytes, .dtype = s.dtype, .rank = 4,
                                 .shape = {1, s.nchw ? s.c : s.h, s.nchw ? s.h : s.w, s.nchw ? s.w : s.c}};
        tachy_mask_from_tensor(&spec, &t, &place, rotation, flip, to, (ptrdiff_t)stride);
        for (int i = 0; limit && i < p.width * p.height; i++) {
            int x = i % (turned ? p.height : p.width), y = i / (turned ? p.height : p.width);
            uint8_t *v = &to[(size_t)y * stride + (size_t)x];
            *v = *v >= limit ? 255 : 0;
        }
    }
    check_case(c, !memcmp(got, want, all), "prob %d: %dx%dx%d type %d nchw %d rotation %d flip %d cut %d back %d", what, s.w,
               s.h, s.c, s.dtype, s.nchw, rotation, flip, cut, back);
    free(got), free(want);
    free_sample(c, &s, src, dst);
}

static void argmax(struct check *c)
{
    struct sample s;
    sample_open(c, &s, false, true);
    size_t pixels = (size_t)s.w * (size_t)s.h * (size_t)s.n;
    uint32_t classes = check_range(c, 0, 2) ? (uint32_t)check_rand(c) : 0;
    cuda_address src = check_gpu_put(c, s.data, s.bytes * (size_t)s.n), dst = check_gpu_poison(c, pixels);
    struct tachy_cuda_prob p = params(&s, src);
    p.what = TACHY_CUDA_PROB_ARGMAX;
    p.dst = dst;
    p.dst_y = s.w;
    p.next_dst = (int64_t)s.w * s.h;
    p.classes = classes;
    check_gpu_launched(c, c->gpu->kernels->prob(&p, c->gpu->stream), "prob");
    uint8_t *got = malloc(pixels);
    check_gpu_get(c, got, dst, pixels);
    size_t wrong = 0;
    for (size_t i = 0; i < pixels; i++) {
        int best = tachy_ref_argmax(s.plain + i * (size_t)s.c, 1, s.c);
        wrong += got[i] != (!classes ? best : classes >> best & 1 ? 255 : 0);
    }
    check_case(c, wrong == 0, "argmax %dx%dx%d type %d nchw %d: %zu wrong", s.w, s.h, s.c, s.dtype, s.nchw, wrong);
    free(got);
    free_sample(c, &s, src, dst);
}

CHECK_GPU_TIMED(prob, struct tachy_cuda_prob)

static void bench(struct check *c, int what, enum tachy_dtype dtype, bool nchw, int channels)
{
    static const char *const names[] = {"as is", "sigmoid", "softmax", "argmax"};
    struct sample s = {.dtype = dtype, .w = 512, .h = 512, .c = channels, .n = 32, .nchw = nchw};
    size_t each = tachy_dtype_size(dtype), pixels = (size_t)s.w * (size_t)s.h * (size_t)s.n;
    size_t all = pixels * (size_t)channels;
    uint8_t *noise = malloc(all * each);
    check_fill(c, noise, all * each);
    struct timed_prob t = {c, params(&s, check_gpu_put(c, noise, all * each))};
    t.p.dst = check_gpu_poison(c, pixels);
    t.p.dst_y = s.w;
    t.p.next_dst = (int64_t)s.w * s.h;
    t.p.what = what;
    char line[80];
    snprintf(line, sizeof(line), "%s 32 x 512x512x%d %s %s", names[what], channels, tachy_dtype_name(dtype),
             nchw ? "NCHW" : "NHWC");
    check_gpu_row(c, "prob", line, check_gpu_time(c, launch_prob, &t), (double)(all * each + pixels));
    check_gpu_free(c, t.p.src), check_gpu_free(c, t.p.dst);
    free(noise);
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 80); i++)
        soft(c);
    for (int i = 0; i < check_times(c, 40); i++)
        argmax(c);
    if (!c->bench)
        return;
    bench(c, TACHY_CUDA_PROB_AS_IS, TACHY_F32, true, 1);
    bench(c, TACHY_CUDA_PROB_SIGMOID, TACHY_F16, true, 1);
    bench(c, TACHY_CUDA_PROB_SOFTMAX, TACHY_F16, false, 2);
    bench(c, TACHY_CUDA_PROB_SOFTMAX, TACHY_F16, true, 2);
    bench(c, TACHY_CUDA_PROB_SOFTMAX, TACHY_F16, true, 21);
    bench(c, TACHY_CUDA_PROB_ARGMAX, TACHY_F16, true, 21);
    bench(c, TACHY_CUDA_PROB_ARGMAX, TACHY_F16, false, 21);
}

const struct check_op check_cuda_prob = {.name = "prob", .run = run, .cuda = true};
