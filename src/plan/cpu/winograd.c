#include "plan/cpu/winograd.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

// The polynomials are multiplied at the points 0, 1, -1 and infinity (m 2), or 0, 3/4, -3/4, 3/2, -3/2
// and infinity (m 4): the latter round half as much as the usual 0, 1, -1, 2, -2, and all numbers of the
// two transforms at run time are exact in float. S. Winograd, Arithmetic Complexity of Computations, 1980;
// A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2016.

static int divide_up(int a, int b) { return (a + b - 1) / b; }

static bool fits(const struct tachy_conv_shape *s)
{
    return s->kh == 3 && s->kw == 3 && s->stride_h == 1 && s->stride_w == 1 && s->groups == 1;
}

static int tiles_of(int outputs, int dilation, int m)
{
    return dilation * divide_up(divide_up(outputs, dilation), m);
}

// In multiplications of a product at full speed: what is multiplied, what an element of a transform
// takes, and a weight that comes from the third-level cache.
enum { ELEMENT = 16, WEIGHT = 24 };

static double cost_direct(const struct tachy_conv_shape *s)
{
    double pairs = (double)s->cin * s->cout;
    return 9 * pairs * ((double)s->n * tachy_conv_out_h(s) * tachy_conv_out_w(s) + WEIGHT);
}

static double cost(const struct tachy_conv_shape *s, int m)
{
    double pairs = (double)s->cin * s->cout, points = (m + 2) * (m + 2);
    double tiles = (double)s->n * tiles_of(tachy_conv_out_h(s), s->dil_h, m) *
                   tiles_of(tachy_conv_out_w(s), s->dil_w, m);
    return points * (pairs * (tiles + WEIGHT) + ELEMENT * tiles * (s->cin + s->cout));
}

int tachy_winograd_outputs(const struct tachy_conv_shape *s)
{
    const int64_t pairs = (int64_t)s->cin * s->cout;
    if (!fits(s) || TACHY_MIN(s->cin, s->cout) < 16 || pairs > 512 * 512)
        return 0;
    double two = cost(s, 2), four = cost(s, 4), direct = cost_direct(s);
    bool exact = s->cin <= 256 && pairs <= 256 * 256; // also: weights of four times the size
    if (exact && 1.15 * four < two && 1.3 * four < direct)
        return 4;
    return 1.3 * two < direct ? 2 : 0;
}

static size_t points(const struct tachy_winograd *c) { return (size_t)c->n * (size_t)c->n; }

// Chooses as many rows of tiles as make the transformed input half the size of the weights, so that both cause the same
// memory traffic; not more than fits in the L2 cache with the weights, nor than is worth the memory.
static int strip_of(const struct tachy_winograd *c)
{
    enum { LEAST = 256 << 10, MOST = 4 << 20 };
    size_t row = points(c) * (size_t)c->tiles_x * (size_t)c->in_step * sizeof(float);
    size_t weights = points(c) * (size_t)c->in_step * (size_t)c->out_step * sizeof(float);
    int most = (int)TACHY_MAX(TACHY_CLAMP(weights / 2, (size_t)LEAST, (size_t)MOST) / row, 1);
    return divide_up(c->tiles_y, divide_up(c->tiles_y, most));
}

void tachy_winograd_init(struct tachy_winograd *c, const struct tachy_conv_shape *s, int m, enum tachy_isa isa)
{
    *c = (struct tachy_winograd){.s = *s, .k = tachy_plan_kernels(isa), .m = m, .n = m + 2};
    c->out_h = tachy_conv_out_h(s);
    c->out_w = tachy_conv_out_w(s);
    c->tiles_y = tiles_of(c->out_h, s->dil_h, m);
    c->tiles_x = tiles_of(c->out_w, s->dil_w, m);
    c->in_step = TACHY_ALIGN(s->cin, 16);
    c->out_step = TACHY_ALIGN(s->cout, 16);
    c->strip = strip_of(c);
    struct tachy_conv_shape product = {1, c->strip * c->tiles_x, 1, s->cin, s->cout, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1};
    struct tachy_conv_variant v[TACHY_CONV_VARIANTS_MAX];
    tachy_conv_variants(&product, isa, v);
    v[0].block = 384; // the weights of a point pass once
    tachy_conv_setup(&c->product, &product, v);
}

int tachy_winograd_rows(const struct tachy_winograd *c) { return c->s.n * c->tiles_y; }

// [bias][zeros][points: the product's weights]
static size_t head_floats(const struct tachy_winograd *c) { return (size_t)(c->out_step + c->in_step); }

size_t tachy_winograd_packed_size(const struct tachy_winograd *c)
{
    return head_floats(c) * sizeof(float) + points(c) * tachy_conv_packed_size(&c->product);
}

// Row `i` of G: the kernel's polynomial at a point, over the product of that point's distances from the
// others.
static void filter_row(int m, int i, double g[3])
{
    static const double at[2][5] = {{0, 1, -1}, {0, 0.75, -0.75, 1.5, -1.5}};
    const double *p = at[m == 4];
    double scale = 1;
    if (i == m + 1) {
        g[0] = g[1] = 0, g[2] = 1;
        return;
    }
    for (int k = 0; k < m + 1; k++)
        scale *= k == i ? 1 : p[i] - p[k];
    for (int k = 0; k < 3; k++)
        g[k] = (k == 0 ? 1 : pow(p[i], k)) / scale;
}

// One point of every kernel: [output][input].
static void filter_point(const struct tachy_winograd *c, const struct tachy_conv_weights *w, int point, float *to)
{
    double gy[3], gx[3];
    filter_row(c->m, point / c->n, gy);
    filter_row(c->m, point % c->n, gx);
    for (int o = 0; o < c->s.cout; o++)
        for (int i = 0; i < c->s.cin; i++) {
            const float *from = w->data + o * w->out + i * w->in;
            double sum = 0;
            for (int ky = 0; ky < 3; ky++, from += w->y)
                sum += gy[ky] * (gx[0] * (double)from[0] + gx[1] * (double)from[w->x] + gx[2] * (double)from[2 * w->x]);
            *to++ = (float)sum;
        }
}

int tachy_winograd_pack(const struct tachy_winograd *c, const struct tachy_conv_weights *w, void *packed)
{
    size_t pairs = (size_t)c->s.cin * (size_t)c->s.cout;
    float *one = malloc(pairs * sizeof(float));
    if (!one)
        return TACHY_ERR_NOMEM;
    memset(packed, 0, head_floats(c) * sizeof(float));
    if (w->bias)
        memcpy(packed, w->bias, (size_t)c->s.cout * sizeof(float));
    char *to = (char *)packed + head_floats(c) * sizeof(float);
    for (int p = 0; p < c->n * c->n; p++, to += tachy_conv_packed_size(&c->product)) {
        filter_point(c, w, p, one);
        tachy_conv_pack(&c->product, &(struct tachy_conv_weights){one, c->s.cin, 1, 0, 0, NULL}, to);
    }
    free(one);
    return TACHY_OK;
}

// Floats of a strip's transformed input, and of its products.
static size_t in_floats(const struct tachy_winograd *c)
{
    return points(c) * (size_t)c->strip * (size_t)c->tiles_x * (size_t)c->in_step;
}

static size_t out_floats(const struct tachy_winograd *c)
{
    return points(c) * (size_t)c->strip * (size_t)c->tiles_x * (size_t)c->out_step;
}

size_t tachy_winograd_scratch_size(const struct tachy_winograd *c)
{
    size_t floats = in_floats(c) + out_floats(c) + (size_t)c->out_step;
    return floats * sizeof(float) + tachy_conv_scratch_size(&c->product, false);
}

// Rows of tiles of one image, one after the other.
struct strip {
    const struct tachy_winograd *c;
    const struct tachy_conv_io *io;
    const float *bias, *zeros;
    float *in, *out; // [points][tiles][channels]
    float *outside;  // a pixel that outputs beyond the edges go to
    void *scratch;   // of the product
    int image, row, rows;
};

// Start of a row's tile `i` along one axis, in outputs; the next ones are `dilation` apart.
static int start_of(int i, int dilation, int m) { return i / dilation * dilation * m + i % dilation; }

static void transform_in(const struct strip *t, int row, int column, float *to, ptrdiff_t step)
{
    const struct tachy_winograd *c = t->c;
    const struct tachy_conv_shape *s = &c->s;
    const float *x[TACHY_WINOGRAD_POINTS], **at = x;
    int top = start_of(row, s->dil_h, c->m) - s->pad_top, left = start_of(column, s->dil_w, c->m) - s->pad_left;
    for (int i = 0, y = top; i < c->n; i++, y += s->dil_h) {
        const float *line = y < 0 || y >= s->h ? NULL : tachy_view_at(&t->io->in, t->image, y, 0);
        for (int k = 0, p = left; k < c->n; k++, p += s->dil_w)
            *at++ = !line || p < 0 || p >= s->w ? t->zeros : line + p * t->io->in.pixel;
    }
    c->k->winograd_in[c->m == 4](x, s->cin, to, step);
}

static void transform_out(const struct strip *t, int row, int column, const float *from, ptrdiff_t step)
{
    const struct tachy_winograd *c = t->c;
    const struct tachy_conv_shape *s = &c->s;
    const struct tachy_epilogue *e = &t->io->epilogue;
    float *y[16];
    const float *add[16];
    struct tachy_winograd_tile tile = {.x = from, .step = step, .bias = t->bias, .channels = s->cout, .y = y,
                                       .add = e->add ? add : NULL, .add_last = e->add_last, .act = &e->act};
    int top = start_of(row, s->dil_h, c->m), left = start_of(column, s->dil_w, c->m);
    for (int i = 0; i < c->m * c->m; i++) {
        int oy = top + i / c->m * s->dil_h, ox = left + i % c->m * s->dil_w;
        bool out = oy >= c->out_h || ox >= c->out_w;
        y[i] = out ? t->outside : tachy_view_at(&t->io->out, t->image, oy, ox);
        add[i] = out || !e->add ? t->outside : tachy_view_at(e->add, t->image, oy, ox);
    }
    c->k->winograd_out[c->m == 4](&tile);
}

// Matrices of one pixel a row.
static struct tachy_view rows_of(const float *data, int rows, int channels, ptrdiff_t step)
{
    return (struct tachy_view){(float *)data, step, step, rows * step, 1, rows, 1, channels};
}

static void run_strip(const struct strip *t, const char *weights)
{
    const struct tachy_winograd *c = t->c;
    int tiles = t->rows * c->tiles_x;
    ptrdiff_t in_point = tiles * c->in_step, out_point = tiles * c->out_step;
    for (int i = 0; i < tiles; i++)
        transform_in(t, t->row + i / c->tiles_x, i % c->tiles_x, t->in + i * c->in_step, in_point);
    for (int p = 0; p < c->n * c->n; p++, weights += tachy_conv_packed_size(&c->product)) {
        struct tachy_conv_io io = {.in = rows_of(t->in + p * in_point, tiles, c->s.cin, c->in_step),
                                   .out = rows_of(t->out + p * out_point, tiles, c->s.cout, c->out_step)};
        tachy_conv_run(&c->product, weights, &io, 0, tiles, t->scratch);
    }
    for (int i = 0; i < tiles; i++)
        transform_out(t, t->row + i / c->tiles_x, i % c->tiles_x, t->out + i * c->out_step, out_point);
}

void tachy_winograd_run(const struct tachy_winograd *c, const void *packed, const struct tachy_conv_io *io,
                        int row0, int row1, void *scratch)
{
    float *in = scratch, *out = in + in_floats(c), *outside = out + out_floats(c);
    struct strip t = {.c = c, .io = io, .bias = packed, .zeros = (const float *)packed + c->out_step, .in = in,
                      .out = out, .outside = outside, .scratch = outside + c->out_step};
    memset(outside, 0, (size_t)c->out_step * sizeof(float));
    for (int r = row0; r < row1; r += t.rows) {
        t.image = r / c->tiles_y;
        t.row = r % c->tiles_y;
        t.rows = TACHY_MIN(TACHY_MIN(c->strip, row1 - r), c->tiles_y - t.row);
        run_strip(&t, (const char *)((const float *)packed + head_floats(c)));
    }
}
