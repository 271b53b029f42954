#include "check_nn.h"

#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// cuda/nn/transpose against its formula, and what it must not touch. Bytes are within half a unit of it: ties go either way.
#define KERNELS tachy_nn_kernels()

// One side has as many elements as pictures have channels, the other has pixels: under, of and over a block.
static struct tachy_nn_transpose random_transpose(struct check *c)
{
    static const int channels[] = {1, 2, 3, 4, 5, 8, 9, 20, 32, 33, 80, 81, 84, 128, 130};
    const enum tachy_dtype types[] = {TACHY_F32, nn_half(c), TACHY_U8};
    int few = channels[check_range(c, 0, TACHY_ARRAY_SIZE(channels) - 1)], many = check_range(c, 1, check_range(c, 0, 2) ? 300 : 2200);
    bool planes = check_range(c, 0, 1), whole = check_range(c, 0, 1), dense = check_range(c, 0, 1); // whole: vectors fit
    many = whole ? TACHY_ALIGN(many, 4) : many;
    struct tachy_nn_transpose a = {.rows = planes ? few : many, .columns = planes ? many : few, .batch = check_range(c, 1, 3),
                                   .in_dtype = types[check_range(c, 0, 2)], .out_dtype = types[check_range(c, 0, 2)]};
    a.padded_rows = check_range(c, 0, 1) ? TACHY_ALIGN(a.rows, 4) : 0;
    a.scale = check_range(c, 0, 1) ? 0.5f : 0, a.shift = a.scale != 0 ? 0.25f : 0;
    int rows = TACHY_MAX(a.rows, a.padded_rows), unit = whole ? 4 : 1;
    a.in_row = whole ? TACHY_ALIGN(a.columns, 4) : a.columns;
    a.in_row += dense ? 0 : unit * check_range(c, 0, 3);
    a.in_batch = a.in_row * a.rows + (dense ? 0 : unit * check_range(c, 0, 3));
    if (rows <= 8 && check_range(c, 0, 2) == 0) // pixels whose channels lie last
        a.in_row = 1, a.in_column = a.rows + check_range(c, 0, 3), a.in_batch = a.in_column * a.columns;
    a.out_row = dense ? rows : (whole ? TACHY_ALIGN(rows, 4) : rows) + unit * check_range(c, 0, 3);
    a.out_batch = a.out_row * a.columns + (dense ? 0 : unit * check_range(c, 0, 3));
    return a;
}

// Sets what the transpose writes, and leaves the rest of `want`.
static void expect(const struct tachy_nn_transpose *a, const float *in, float *want)
{
    int rows = TACHY_MAX(a->rows, a->padded_rows);
    for (int b = 0; b < a->batch; b++)
        for (int k = 0; k < a->columns; k++)
            for (int r = 0; r < rows; r++) {
                float v = r < a->rows ? in[b * a->in_batch + r * a->in_row + k * TACHY_MAX(a->in_column, 1)] : 0;
                v = a->scale != 0 && r < a->rows ? v * a->scale + a->shift : v;
                want[b * a->out_batch + k * a->out_row + r] = a->out_dtype == TACHY_U8 ? TACHY_CLAMP(v, 0.0f, 255.0f) : v;
            }
}

static void transpose(struct check *c)
{
    struct tachy_nn_transpose a = random_transpose(c);
    int first_in = check_range(c, 0, 1) ? 0 : check_range(c, 1, 5), first_out = check_range(c, 0, 1) ? 0 : check_range(c, 1, 5);
    bool from_bytes = a.in_dtype == TACHY_U8, to_bytes = a.out_dtype == TACHY_U8;
    struct nn_buffer in = nn_random(c, (size_t)(first_in + a.in_batch * a.batch), a.in_dtype, from_bytes ? 0 : to_bytes ? -50 : -1,
                                    from_bytes ? 255 : to_bytes ? 600 : 1);
    struct nn_buffer out = nn_poison(c, (size_t)(first_out + a.out_batch * a.batch), a.out_dtype);
    float *want = malloc(out.n * sizeof(float));
    nn_get(c, &out);
    for (size_t i = 0; i < out.n; i++)
        want[i] = out.value[i];
    expect(&a, in.value + first_in, want + first_out);
    a.in = in.at + (cuda_address)(first_in * (int)tachy_dtype_size(a.in_dtype));
    a.out = out.at + (cuda_address)(first_out * (int)tachy_dtype_size(a.out_dtype));
    check_gpu_launched(c, KERNELS->transpose(&a, c->gpu->stream), "transpose");
    nn_get(c, &out);
    struct tachy_view got = {out.value, .n = 1, .h = 1, .w = 1, .c = (int)out.n}, all = got;
    all.data = want;
    double worst = nn_worst(&got, &all, to_bytes ? 0 : nn_rounding(a.out_dtype));
    check_case(c, worst <= (to_bytes ? 0.5001 : 1e-6), "transpose %d x %dx%d padded %d %s to %s, rows %lld and %lld, from %d to %d: "
               "off by %g", a.batch, a.rows, a.columns, a.padded_rows, tachy_dtype_name(a.in_dtype), tachy_dtype_name(a.out_dtype),
               (long long)a.in_row, (long long)a.out_row, first_in, first_out, worst);
    free(want), nn_close(c, &in), nn_close(c, &out);
}

struct timed {
    struct check *c;
    struct tachy_nn_transpose a;
};
static void launch(void *arg)
{
    struct timed *t = arg;
    check_gpu_launched(t->c, KERNELS->transpose(&t->a, t->c->gpu->stream), "transpose");
}

// A detector's outputs, one of them as part of a concatenation; pictures on their way in, and masks on their way out.
static void bench(struct check *c)
{
    static const struct {
        int batch, rows, columns, padded, more; // more: columns of the output that others write
        enum tachy_dtype in, out;
    } all[] = {
        {8, 25600, 32, 0, 0, TACHY_F16, TACHY_F32},
        {8, 8400, 80, 0, 4, TACHY_F16, TACHY_F32},
        {8, 8400, 81, 0, 4, TACHY_F16, TACHY_F32},
        {8, 8400, 32, 0, 0, TACHY_F16, TACHY_F16},
        {1, 400, 256, 0, 0, TACHY_F16, TACHY_F16},
        {8, 32, 25600, 0, 0, TACHY_F32, TACHY_F16},
        {8, 80, 6400, 0, 0, TACHY_F32, TACHY_F16},
        {8, 3, 640 * 640, 4, 0, TACHY_F32, TACHY_F16},
        {1, 3, 1088 * 1920, 0, 0, TACHY_F32, TACHY_F16},
        {1, 1088 * 1920, 4, 0, 0, TACHY_F16, TACHY_F32},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++) {
        int rows = TACHY_MAX(all[i].rows, all[i].padded), columns = all[i].columns, more = all[i].more;
        int64_t inputs = (int64_t)all[i].batch * all[i].rows * columns, outputs = (int64_t)all[i].batch * rows * columns;
        size_t from = tachy_dtype_size(all[i].in), to = tachy_dtype_size(all[i].out);
        cuda_address in = check_gpu_poison(c, (size_t)inputs * from);
        cuda_address out = check_gpu_poison(c, (size_t)all[i].batch * (size_t)rows * (size_t)(columns + more) * to);
        struct timed t = {c, {.in = in, .out = out, .in_row = columns, .in_batch = (int64_t)all[i].rows * columns, .out_row = rows,
                              .out_batch = (int64_t)rows * (columns + more), .rows = all[i].rows, .columns = columns, .batch = all[i].batch,
                              .padded_rows = all[i].padded, .in_dtype = all[i].in, .out_dtype = all[i].out}};
        char what[64];
        snprintf(what, sizeof(what), "%d x %dx%d of %d, %s to %s", all[i].batch, rows, columns, columns + more, tachy_dtype_name(all[i].in),
                 tachy_dtype_name(all[i].out));
        nn_row(c, "transpose", what, nn_time(c, launch, &t), 0, (double)inputs * (double)from + (double)outputs * (double)to);
        check_gpu_free(c, in), check_gpu_free(c, out);
    }
}

static void run(struct check *c)
{
    for (int i = 0; i < check_times(c, 250); i++)
        transpose(c);
    if (c->bench)
        bench(c);
}

const struct check_op check_nn_transpose = {.name = "nn_transpose", .run = run, .cuda = true};
