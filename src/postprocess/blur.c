#include "postprocess/composite_priv.h"

#include <math.h>

// Sums at 2^l pixels (l: at most 2) are made by vector operations, the rest by folding.
enum { GATHER_MAX = 2, LOG2_MAX = 8, STRIP = 16 };

// Cells of 2^log2 pixels so that the standard deviation is 2.5 to 5 cells: fine enough for
// the linear stretch (its error is below 2 % of the detail that is left), coarse enough to
// be cheap. Three boxes of 2 r + 1 cells have the variance r (r + 1).
static void choose_size(struct tachy_blur *b, double sigma)
{
    int least = TACHY_MAX(b->d->chroma_shift_x, b->d->chroma_shift_y);
    b->log2 = least;
    while (b->log2 < LOG2_MAX && sigma / (1 << b->log2) >= 5)
        b->log2++;
    double s = TACHY_MIN(sigma / (1 << b->log2), 5.0);
    b->radius = (int)TACHY_CLAMP(lrint((sqrt(1 + 4 * s * s) - 1) / 2), 1, 5);
    b->sw = (b->w + (1 << b->log2) - 1) >> b->log2;
    b->sh = (b->h + (1 << b->log2) - 1) >> b->log2;
}

int tachy_blur_across(const struct tachy_blur *b, bool chroma, struct tachy_stretch *t)
{
    int shift = chroma ? b->d->chroma_shift_x : 0;
    return tachy_stretch_build(t, b->sw, 1.0 / (1 << (b->log2 - shift)), 0, (b->w + shift) >> shift);
}

int tachy_blur_down(const struct tachy_blur *b, bool chroma, int y, int *frac)
{
    int shift = chroma ? b->d->chroma_shift_y : 0;
    return tachy_stretch_at((y + 0.5) / (1 << (b->log2 - shift)) - 0.5, b->sh, frac);
}

static int allocate(struct tachy_blur *b)
{
    size_t w = (size_t)b->w, sw = (size_t)b->sw, sh = (size_t)b->sh;
    b->row_words = b->sw + TACHY_STRETCH_PAD;
    bool ok = tachy_buf_need(&b->cells, sw * sh * 4 * sizeof(int32_t)) &&
              tachy_buf_need(&b->plane, 3 * sh * (size_t)b->row_words * sizeof(int16_t)) &&
              tachy_buf_need(&b->sums, 4 * (w + 64) * sizeof(int32_t)) &&
              tachy_buf_need(&b->samples, 3 * (w + 64) * sizeof(uint16_t)) &&
              tachy_buf_need(&b->weights, 2 * (w + 64)) &&
              tachy_buf_need(&b->tmp, TACHY_MAX(4 * sw, STRIP * sh) * sizeof(int32_t)) &&
              tachy_buf_need(&b->row, (size_t)b->row_words * sizeof(int16_t)) &&
              tachy_buf_need(&b->wide, (w + 64) * (sizeof(int16_t) + 3 * sizeof(uint16_t)));
    if (!ok)
        return TACHY_ERR_NOMEM;
    memset(b->plane.p, 0, b->plane.size); // the padding is read, with weight 0
    memset(b->row.p, 0, b->row.size);
    for (int i = 0; i < 2; i++) {
        int err = tachy_blur_across(b, i == 1, &b->across[i]);
        if (err < 0)
            return err;
    }
    return TACHY_OK;
}

// Source row of component `comp`, as dense samples: in the frame itself if it is stored so.
static const void *component_row(struct tachy_blur *b, const tachy_frame *f, int comp, int y, int n)
{
    int plane = b->d->rgb ? 0 : b->d->planes == 2 && comp ? 1 : comp;
    int step = b->d->components[plane], at = 0;
    while (tachy_component_at(b->format, plane, at) != comp)
        at++;
    const uint8_t *row = f->data[plane] + y * f->stride[plane];
    if (step == 1 && b->d->shift == 0)
        return row;
    if (b->d->bytes == 2) {
        const uint16_t *s = (const void *)row;
        uint16_t *d = b->samples.p;
        int shift = b->d->shift;
        for (int i = 0; i < n; i++)
            d[i] = s[i * step + at] >> shift;
    } else {
        uint8_t *d = b->samples.p;
        for (int i = 0; i < n; i++)
            d[i] = row[i * step + at];
    }
    return b->samples.p;
}

// Adds one row of samples, each times its weight, to sums of 2^l; `twice`: the last one again,
// so that cells at an odd edge hold as much luma as chroma.
static void gather(struct tachy_blur *b, int32_t *sum, const void *src, const uint8_t *weight,
                   int l, int n, bool twice)
{
    if (b->d->bytes == 2)
        b->k->gather16(sum, src, weight, l, n);
    else
        b->k->gather8(sum, src, weight, l, n);
    if (!twice)
        return;
    int v = b->d->bytes == 2 ? (((const uint16_t *)src)[n - 1] & 1023) - 512
                             : ((const uint8_t *)src)[n - 1] - 128;
    sum[n >> l] += weight[n - 1] * v;
}

static bool subsampled(const struct tachy_blur *b, int comp)
{
    return comp > 0 && b->d->chroma_shift_x;
}

// Sums of one row of cells: arrays of w + 64 words, one a component and one of weights.
struct sums {
    int32_t *s[4];
    int log2[4]; // pixels (of the component's plane) a sum, as a power of two
};

static void gather_row(struct tachy_blur *b, const tachy_frame *f, struct sums *s, int y,
                       const uint8_t *alpha)
{
    uint8_t *weight = b->weights.p;
    bool odd = b->w & 1 && b->d->chroma_shift_x;
    b->k->weight(weight, alpha, b->w);
    gather(b, s->s[0], component_row(b, f, 0, y, b->w), weight, s->log2[0], b->w, odd);
    b->k->gather_weight(s->s[3], weight, s->log2[3], b->w);
    if (odd)
        s->s[3][b->w >> s->log2[3]] += weight[b->w - 1];
    for (int c = 1; c < b->comps && !subsampled(b, c); c++)
        gather(b, s->s[c], component_row(b, f, c, y, b->w), weight, s->log2[c], b->w, false);
}

static void gather_chroma(struct tachy_blur *b, const tachy_frame *f, struct sums *s, int y,
                          const uint8_t *above, const uint8_t *below)
{
    int n = (b->w + 1) >> 1;
    uint8_t *weight = b->weights.p, *half = weight + b->w + 64;
    b->k->halve(half, above, below, n);
    b->k->weight(weight, half, n);
    for (int c = 1; c < b->comps; c++)
        gather(b, s->s[c], component_row(b, f, c, y, n), weight, s->log2[c], n, false);
}

// Adds up the sums of component c within each cell, in place. All are brought to the scale of
// the weights of 4 x 4 pixels, so that three boxes stay within 32 bits.
static void fold_component(const struct tachy_blur *b, const struct sums *s, int c)
{
    bool sub = c < 3 && subsampled(b, c);
    int sx = sub ? b->d->chroma_shift_x : 0, sy = sub ? b->d->chroma_shift_y : 0;
    int times = 1 << (b->log2 - sx - s->log2[c]), up = 1 << (sx + sy);
    int down = TACHY_MAX(2 * b->log2 - 4, 0);
    int32_t *v = s->s[c];
    for (int x = 0; x < b->sw && times > 1; x++) {
        int32_t sum = 0; // at most 63 * 512 * 2^16
        for (int k = 0; k < times; k++)
            sum += v[x * times + k];
        v[x] = sum;
    }
    if (up >> down) // `down` is 0 or 2 here
        for (int x = 0; x < b->sw; x++)
            v[x] = v[x] * (up >> down);
    else
        for (int x = 0; x < b->sw; x++)
            v[x] = v[x] >> (down - sx - sy);
}

static void fold(const struct tachy_blur *b, const struct sums *s, int32_t *cells)
{
    for (int c = 0; c < 4; c++)
        if (c == 3 || c < b->comps)
            fold_component(b, s, c);
    const int32_t *p = s->s[0], *q = s->s[1], *r = s->s[2], *w = s->s[3]; // unused ones are 0
    for (int x = 0; x < b->sw; x++) {
        cells[4 * x] = p[x];
        cells[4 * x + 1] = q[x];
        cells[4 * x + 2] = r[x];
        cells[4 * x + 3] = w[x];
    }
}

static void shrink(struct tachy_blur *b, const tachy_frame *f, const uint8_t *alpha,
                   ptrdiff_t stride)
{
    struct sums s;
    for (int c = 0; c < 4; c++) {
        s.s[c] = (int32_t *)b->sums.p + c * (b->w + 64);
        int shift = c < 3 && subsampled(b, c) ? b->d->chroma_shift_x : 0;
        s.log2[c] = TACHY_MIN(b->log2 - shift, GATHER_MAX);
    }
    int size = 1 << b->log2, sy = b->d->chroma_shift_y;
    for (int j = 0; j < b->sh; j++) {
        memset(b->sums.p, 0, 4 * (size_t)(b->w + 64) * sizeof(int32_t));
        int end = TACHY_MIN((j + 1) * size, b->h);
        for (int y = j * size; y < end; y++) {
            gather_row(b, f, &s, y, alpha + y * stride);
            if (y == b->h - 1 && sy && b->h & 1) // as for the last column
                gather_row(b, f, &s, y, alpha + y * stride);
            if (!subsampled(b, 1) || b->comps == 1 || y & ((1 << sy) - 1))
                continue;
            const uint8_t *above = alpha + y * stride;
            gather_chroma(b, f, &s, y >> sy, above, sy && y + 1 < b->h ? above + stride : above);
        }
        fold(b, &s, (int32_t *)b->cells.p + (ptrdiff_t)j * 4 * b->sw);
    }
}

static void smear(struct tachy_blur *b)
{
    int32_t *cells = b->cells.p;
    int words = 4 * b->sw;
    for (int j = 0; j < b->sh; j++)
        b->k->box3_row(cells + (ptrdiff_t)j * words, b->tmp.p, b->sw, b->radius);
    for (int x = 0; x < words; x += STRIP)
        b->k->box3_cols(cells + x, words, b->tmp.p, TACHY_MIN(STRIP, words - x), b->sh, b->radius);
}

// Divides by the weights. Where no background is near (inside the person, not visible) any value will do: the middle
// one.
static void divide(struct tachy_blur *b)
{
    int bits = b->d->bits;
    float unit = bits == 8 ? 128.0f : 32.0f, middle = (float)(1 << (bits - 1)) * unit;
    float top = (float)((1 << bits) - 1) * unit;
    ptrdiff_t plane = (ptrdiff_t)b->sh * b->row_words;
    for (int j = 0; j < b->sh; j++) {
        const int32_t *cell = (int32_t *)b->cells.p + (ptrdiff_t)j * 4 * b->sw;
        int16_t *row = (int16_t *)b->plane.p + (ptrdiff_t)j * b->row_words;
        b->k->divide(row, plane, cell, unit, middle, top, b->sw);
        for (int c = 0; c < 3; c++)
            row[c * plane + b->sw] = row[c * plane + b->sw - 1];
    }
}

void tachy_blur_measure(struct tachy_blur *b, const tachy_frame *f, float share)
{
    b->format = f->format;
    b->d = tachy_pix_desc(f->format);
    b->w = f->width;
    b->h = f->height;
    b->comps = b->d->planes == 1 && !b->d->rgb ? 1 : 3;
    choose_size(b, (double)share * f->height);
}

int tachy_blur_prepare(struct tachy_blur *b, const struct tachy_post_kernels *k,
                       const tachy_frame *f, float share, uint8_t *alpha, ptrdiff_t stride)
{
    int key[4] = {(int)f->format, f->width, f->height, (int)(share * 65536)};
    if (!b->across[0].memory || memcmp(key, b->key, sizeof(key))) {
        b->k = k;
        tachy_blur_measure(b, f, share);
        int err = allocate(b);
        if (err < 0) {
            tachy_blur_free(b);
            return err;
        }
        memcpy(b->key, key, sizeof(key));
    }
    for (int y = 0; y < b->h; y++)
        alpha[y * stride + b->w] = alpha[y * stride + b->w - 1];
    shrink(b, f, alpha, stride);
    smear(b);
    divide(b);
    return TACHY_OK;
}

// One component of row y into `dst`, dense.
static void component_out(struct tachy_blur *b, int comp, int y, int n, void *dst)
{
    bool chroma = subsampled(b, comp);
    int frac, above = tachy_blur_down(b, chroma, y, &frac);
    int below = TACHY_MIN(above + 1, b->sh - 1);
    const int16_t *plane = (int16_t *)b->plane.p + (ptrdiff_t)comp * b->sh * b->row_words;
    int16_t *wide = b->wide.p;
    b->k->lerp_i16(b->row.p, plane + (ptrdiff_t)above * b->row_words,
                   plane + (ptrdiff_t)below * b->row_words, frac, b->sw + 1);
    b->k->stretch(wide, b->row.p, &b->across[chroma]);
    if (b->d->bytes == 2)
        b->k->narrow16(dst, wide, b->d->shift, n);
    else
        b->k->narrow8(dst, wide, n);
}

// Component `i` of each of n pixels of `comps` samples; src: only that component.
static void interleave(void *dst, const void *src, int bytes, int comps, int i, int n)
{
    if (bytes == 2) {
        uint16_t *d = (uint16_t *)dst + i;
        const uint16_t *s = src;
        for (int x = 0; x < n; x++)
            d[x * comps] = s[x];
    } else {
        uint8_t *d = (uint8_t *)dst + i;
        const uint8_t *s = src;
        for (int x = 0; x < n; x++)
            d[x * comps] = s[x];
    }
}

void tachy_blur_row(struct tachy_blur *b, const tachy_frame *f, int plane, int y, void *dst)
{
    struct tachy_plane p = tachy_plane_of(b->d, plane, b->w, b->h);
    const uint8_t *own = f->data[plane] + y * f->stride[plane];
    if (plane == 3) {
        memcpy(dst, own, (size_t)p.w * b->d->bytes);
        return;
    }
    if (p.comps == 1) {
        component_out(b, plane, y, p.w, dst);
        return;
    }
    uint16_t *part = (uint16_t *)(void *)((int16_t *)b->wide.p + b->w + 64);
    for (int i = 0; i < p.comps; i++) {
        int comp = tachy_component_at(b->format, plane, i);
        if (comp == 3) { // packed alpha stays; only 8-bit formats have it
            for (int x = 0; x < p.w; x++)
                ((uint8_t *)dst)[4 * x + 3] = own[4 * x + 3];
            continue;
        }
        component_out(b, comp, y, p.w, part);
        interleave(dst, part, b->d->bytes, p.comps, i, p.w);
    }
}

void tachy_blur_free(struct tachy_blur *b)
{
    struct tachy_buf *const all[] = {&b->cells,   &b->plane, &b->sums, &b->samples,
                                     &b->weights, &b->tmp,   &b->row,  &b->wide};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        tachy_buf_free(all[i]);
    tachy_stretch_free(&b->across[0]);
    tachy_stretch_free(&b->across[1]);
    *b = (struct tachy_blur){0};
}
