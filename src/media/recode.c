#include "media/recode.h"

#include "base/ycbcr.h"

#include <math.h>
#include <stdlib.h>

enum {
    PART = 14,    // bits of a weight of chroma
    QUARTERS = 4, // bits that two means of 3 to 1 add
};

// Whole numbers of 16 bits, whose sums of two axes fit: what is added to luma has 4 bits below a code of 8 bits.
struct job {
    const struct tachy_pix_desc *d;
    const tachy_frame *in;
    tachy_frame *out;
    int width, chroma_w, chroma_h; // samples
    int fine;                      // bits below a code in `add`
    int16_t y[2], cb[2], cr[2];    // weights of Cb and Cr
    bool luma_too;                 // another range: (luma - black[0]) * scale + black[1]
    int16_t scale, black[2];
    int16_t *u, *v;                // a row of chroma, around 0
    int16_t *add[2];               // contribution of two rows of chroma to luma, from sample -1 to one after the last
    int16_t *line, *sum;           // the same between rows, and for each pixel
    int16_t *luma;
};

static int16_t weight(double v) { return (int16_t)lrint(ldexp(v, PART)); }

// ---- Rows as they lie in memory: `step` samples from one to the next.

static void load_bytes(int16_t *restrict to, const uint8_t *restrict from, int step, int n, int middle)
{
    if (step == 1)
        for (int i = 0; i < n; i++)
            to[i] = (int16_t)(from[i] - middle);
    else
        for (int i = 0; i < n; i++)
            to[i] = (int16_t)(from[2 * i] - middle);
}

static void load_words(int16_t *restrict to, const uint16_t *restrict from, int step, int n, int middle, int shift)
{
    for (int i = 0; i < n; i++)
        to[i] = (int16_t)((from[i * step] >> shift) - middle);
}

static void store_bytes(uint8_t *restrict to, const int16_t *restrict from, int step, int n)
{
    if (step == 1)
        for (int i = 0; i < n; i++)
            to[i] = (uint8_t)TACHY_CLAMP(from[i], 0, 255);
    else
        for (int i = 0; i < n; i++)
            to[2 * i] = (uint8_t)TACHY_CLAMP(from[i], 0, 255);
}

static void store_words(uint16_t *restrict to, const int16_t *restrict from, int step, int n, int most, int shift)
{
    for (int i = 0; i < n; i++)
        to[i * step] = (uint16_t)(TACHY_CLAMP(from[i], 0, most) << shift);
}

// Component `c`: its plane, its first sample there, and the distance to the next.
static int plane_of(const struct job *j, int c, int *first, int *step)
{
    int plane = j->d->planes == 2 && c ? 1 : c;
    *step = j->d->components[plane];
    *first = j->d->planes == 2 && c == 2 ? j->d->bytes : 0;
    return plane;
}

static void load(const struct job *j, int c, int row, int16_t *to, int n, int middle)
{
    int first, step, plane = plane_of(j, c, &first, &step);
    const uint8_t *from = j->in->data[plane] + row * j->in->stride[plane] + first;
    if (j->d->bytes == 1)
        load_bytes(to, from, step, n, middle);
    else
        load_words(to, (const void *)from, step, n, middle, j->d->shift);
}

static void store(const struct job *j, int c, int row, const int16_t *from, int n)
{
    int first, step, plane = plane_of(j, c, &first, &step);
    uint8_t *to = tachy_frame_writable(j->out, plane) + row * j->out->stride[plane] + first;
    if (j->d->bytes == 1)
        store_bytes(to, from, step, n);
    else
        store_words((void *)to, from, step, n, (1 << j->d->bits) - 1, j->d->shift);
}

// ---- The change

// to = weights . (a, b), rounded, times 2^(shift less than PART), and `middle`.
static void mix(int16_t *restrict to, const int16_t *restrict a, const int16_t *restrict b, const int16_t k[2], int n,
                int shift, int middle)
{
    int16_t ka = k[0], kb = k[1];
    int half = (1 << (shift - 1)) + (middle << shift);
    for (int i = 0; i < n; i++)
        to[i] = (int16_t)((a[i] * ka + b[i] * kb + half) >> shift);
}

// Changes a row of chroma, and keeps what its old samples add to luma.
static void chroma_row(const struct job *j, int row)
{
    int n = j->chroma_w, middle = 1 << (j->d->bits - 1);
    int16_t *add = j->add[row & 1];
    load(j, 1, row, j->u, n, middle);
    load(j, 2, row, j->v, n, middle);
    mix(add, j->u, j->v, j->y, n, PART - j->fine, 0);
    add[-1] = add[0];
    add[n] = add[n - 1];
    mix(j->sum, j->u, j->v, j->cb, n, PART, middle);
    store(j, 1, row, j->sum, n);
    mix(j->sum, j->u, j->v, j->cr, n, PART, middle);
    store(j, 2, row, j->sum, n);
}

static void between_rows(int16_t *restrict line, const int16_t *near, const int16_t *far, int n)
{
    for (int i = -1; i <= n; i++)
        line[i] = (int16_t)(3 * near[i] + far[i]);
}

static void between_columns(int16_t *restrict sum, const int16_t *restrict line, int n)
{
    for (int i = 0; i < n; i++) {
        sum[2 * i] = (int16_t)(3 * line[i] + line[i - 1]);
        sum[2 * i + 1] = (int16_t)(3 * line[i] + line[i + 1]);
    }
}

static void add_to_luma(int16_t *restrict luma, const int16_t *restrict sum, int n, int shift)
{
    int16_t half = (int16_t)(1 << (shift - 1));
    for (int i = 0; i < n; i++)
        luma[i] = (int16_t)(luma[i] + ((sum[i] + half) >> shift));
}

// As above, if the range changes too.
static void add_to_scaled(const struct job *j, int16_t *restrict luma, const int16_t *restrict sum, int n, int shift)
{
    int scale = j->scale, half = (j->black[1] << shift) + (1 << (shift - 1)), black = j->black[0];
    for (int i = 0; i < n; i++)
        luma[i] = (int16_t)((((luma[i] - black) * scale >> (PART - shift)) + sum[i] + half) >> shift);
}

// `near`, `far`: what the rows of chroma next to it add.
static void luma_row(const struct job *j, int row, const int16_t *near, const int16_t *far)
{
    load(j, 0, row, j->luma, j->width, 0);
    between_rows(j->line, near, far, j->chroma_w);
    if (j->d->chroma_shift_x)
        between_columns(j->sum, j->line, j->chroma_w); // one more than exist if the width is odd
    const int16_t *sum = j->d->chroma_shift_x ? j->sum : j->line;
    int shift = j->fine + (j->d->chroma_shift_x ? QUARTERS : QUARTERS / 2);
    if (j->luma_too)
        add_to_scaled(j, j->luma, sum, j->width, shift);
    else
        add_to_luma(j->luma, sum, j->width, shift);
    store(j, 0, row, j->luma, j->width);
}

static void all_rows(const struct job *j)
{
    int shift = j->d->chroma_shift_y, last = j->chroma_h - 1;
    for (int y = 0, done = 0; y < j->in->height; y++) {
        int near = y >> shift, far = shift ? TACHY_CLAMP(near + (y & 1 ? 1 : -1), 0, last) : near;
        for (; done <= TACHY_MAX(near, far); done++)
            chroma_row(j, done);
        luma_row(j, y, j->add[near & 1], j->add[far & 1]);
    }
}

static void make_weights(struct job *j, struct tachy_color from, struct tachy_color to)
{
    struct tachy_ycbcr_change k = tachy_ycbcr_change_of(from.matrix, to.matrix);
    bool full = from.range == 2, to_full = to.range == 2;
    struct tachy_ycbcr_codes a = tachy_ycbcr_codes_of(j->d->bits, full), b = tachy_ycbcr_codes_of(j->d->bits, to_full);
    for (int i = 0; i < 2; i++) {
        j->y[i] = weight(k.y[i] * b.luma / a.chroma);
        j->cb[i] = weight(k.cb[i] * b.chroma / a.chroma);
        j->cr[i] = weight(k.cr[i] * b.chroma / a.chroma);
    }
    j->luma_too = full != to_full;
    j->scale = weight(b.luma / a.luma);
    j->black[0] = (int16_t)a.black;
    j->black[1] = (int16_t)b.black;
}

int tachy_recode_frame(const tachy_frame *in, tachy_frame *out, struct tachy_color from, struct tachy_color to)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(in->format);
    struct job j = {.d = d, .in = in, .out = out, .width = in->width, .fine = 12 - d->bits,
                    .chroma_w = (in->width + d->chroma_shift_x) >> d->chroma_shift_x,
                    .chroma_h = (in->height + d->chroma_shift_y) >> d->chroma_shift_y};
    make_weights(&j, from, to);
    size_t n = (size_t)in->width + 4;
    int16_t *all = calloc(7 * n, sizeof(*all));
    if (!all)
        return TACHY_ERR_NOMEM;
    j.u = all, j.v = all + n, j.add[0] = all + 2 * n + 1, j.add[1] = all + 3 * n + 1;
    j.line = all + 4 * n + 1, j.sum = all + 5 * n, j.luma = all + 6 * n;
    all_rows(&j);
    for (int y = 0; y < in->height && d->alpha && in != out; y++)
        memcpy(tachy_frame_writable(out, 3) + y * out->stride[3], in->data[3] + y * in->stride[3],
               (size_t)in->width * d->bytes);
    free(all);
    return TACHY_OK;
}
