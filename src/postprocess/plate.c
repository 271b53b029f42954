#include "postprocess/plate.h"

#include "postprocess/chroma.h"

#include <math.h>
#include <stdlib.h>

static const float LOW = 3.5f, HIGH = 9;    // distances
static const float LEAST_NOISE = 0.006f;    // a step and a half of 8 bits
static const float AGREES = 0.06f;          // of a pixel before light is known, around the most frequent difference
static const float TINT = 0.35f;            // that a gain may differ from 1, at most

// ---- Light ----

enum { COLUMNS = 64, LINES = 48, SAMPLES = COLUMNS * LINES, BINS = 512, ROUNDS = 4 };

struct sample {
    float frame[3], plate[3];
    bool agrees;
};

// Evenly chosen pixels of both pictures. False: no memory.
static bool collect(struct sample *s, const tachy_frame *f, const tachy_frame *plate)
{
    const tachy_frame *const of[2] = {f, plate};
    struct tachy_plane p = tachy_chroma_plane(f);
    size_t w = (size_t)f->width;
    float *row[4], *rows = malloc(4 * w * sizeof(float));
    for (int i = 0; rows && i < 4; i++)
        row[i] = rows + (size_t)i * w;
    for (int i = 0; rows && i < LINES; i++) {
        int cy = (int)((i + 0.5) * p.h / LINES), y = TACHY_MIN((int)((int64_t)cy * f->height / p.h), f->height - 1);
        for (int k = 0; k < 2; k++) {
            tachy_unit_luma_row(of[k], y, row[0]);
            tachy_unit_chroma_row(of[k], cy, row[1], row[2], row[3]);
            for (int j = 0; j < COLUMNS; j++) {
                int cx = (int)((j + 0.5) * p.w / COLUMNS), x = TACHY_MIN((int)((int64_t)cx * f->width / p.w), f->width - 1);
                struct sample *to = &s[i * COLUMNS + j];
                float v[3] = {row[0][x], row[1][cx], row[2][cx]};
                memcpy(k ? to->plate : to->frame, v, sizeof(v));
            }
        }
    }
    free(rows);
    return rows;
}

// The most frequent difference of a channel: people are not the most frequent one, though they may be half of the picture.
static float most_frequent(const struct sample *s, int c)
{
    int bin[BINS] = {0}, best = 1;
    for (int i = 0; i < SAMPLES; i++)
        bin[TACHY_CLAMP((int)((s[i].frame[c] - s[i].plate[c] + 1) * (BINS / 2)), 0, BINS - 1)]++;
    for (int i = 1; i < BINS - 1; i++)
        if (bin[i - 1] + bin[i] + bin[i + 1] > bin[best - 1] + bin[best] + bin[best + 1])
            best = i;
    return ((float)best + 0.5f) / (BINS / 2) - 1;
}

static float residual(const struct tachy_plate *p, const struct sample *s, int c)
{
    return s->frame[c] - p->gain[c] * s->plate[c] - p->offset[c];
}

static int agree(struct sample *s, const struct tachy_plate *p, const float limit[3])
{
    int n = 0;
    for (int i = 0; i < SAMPLES; i++) {
        s[i].agrees = true;
        for (int c = 0; c < 3; c++)
            s[i].agrees &= fabsf(residual(p, &s[i], c)) <= limit[c];
        n += s[i].agrees;
    }
    return n;
}

// Least squares over the samples that agree, biased to a gain of 1 if the plate is too flat to separate gain and
// offset.
static void fit_channel(struct tachy_plate *p, const struct sample *s, int n, int c)
{
    double x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < SAMPLES; i++)
        if (s[i].agrees)
            x += (double)s[i].plate[c], y += (double)s[i].frame[c];
    x /= n, y /= n;
    for (int i = 0; i < SAMPLES; i++)
        if (s[i].agrees) {
            double dx = (double)s[i].plate[c] - x;
            xx += dx * dx;
            xy += dx * ((double)s[i].frame[c] - y);
        }
    double flat = n * 1e-4; // as much as a standard deviation of 0.01
    double gain = TACHY_CLAMP((xy + flat) / (xx + flat), 1 - (double)TINT, 1 + (double)TINT);
    p->gain[c] = (float)gain;
    p->offset[c] = (float)(y - gain * x);
}

static int rising(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

// By the median, which half of them may miss.
static float noise_of(const struct tachy_plate *p, const struct sample *s, float *scratch, int c)
{
    int n = 0;
    for (int i = 0; i < SAMPLES; i++)
        if (s[i].agrees)
            scratch[n++] = fabsf(residual(p, &s[i], c));
    qsort(scratch, (size_t)n, sizeof(*scratch), rising);
    return TACHY_MAX(1.4826f * scratch[n / 2], LEAST_NOISE);
}

// Fits the light and returns the number of samples that agree with it.
static int fit(struct tachy_plate *p, struct sample *s, float *scratch)
{
    float limit[3] = {AGREES, AGREES, AGREES};
    for (int c = 0; c < 3; c++)
        p->offset[c] = most_frequent(s, c);
    int n = agree(s, p, limit);
    for (int round = 0; round < ROUNDS && n >= SAMPLES / 20; round++) {
        for (int c = 0; c < 3; c++) {
            fit_channel(p, s, n, c);
            p->noise[c] = noise_of(p, s, scratch, c);
            limit[c] = TACHY_MAX(4 * p->noise[c], 0.02f);
        }
        n = agree(s, p, limit);
    }
    return n;
}

bool tachy_plate_fit(struct tachy_plate *p, const tachy_frame *f)
{
    struct sample *s = malloc(SAMPLES * sizeof(*s));
    float *scratch = malloc(SAMPLES * sizeof(*scratch));
    struct tachy_plate none = *p;
    for (int c = 0; c < 3; c++)
        none.gain[c] = 1, none.offset[c] = 0, none.noise[c] = LEAST_NOISE;
    *p = none;
    bool ok = s && scratch && collect(s, f, p->picture) && fit(p, s, scratch) >= SAMPLES / 20;
    if (!ok)
        *p = none;
    free(s);
    free(scratch);
    return ok;
}

// ---- Alpha ----

enum { DISTANCE = 0, CHROMA = 3, LUMA = 4, OTHER = 5, MORE = 6, ROWS = 10 };

// Rows begin one sample late and have room for one more, so that both ends can be repeated.
static float *row_at(const struct tachy_plate_rows *r, int i)
{
    return (float *)r->rows.p + (ptrdiff_t)i * (r->frame->width + 2) + 1;
}

int tachy_plate_begin(struct tachy_plate_rows *r, const struct tachy_plate *plate, const tachy_frame *f)
{
    r->plate = plate;
    r->frame = f;
    r->held[0] = r->held[1] = r->held[2] = r->chroma = -1;
    return tachy_buf_need(&r->rows, ((size_t)f->width + 2) * ROWS * sizeof(float)) ? TACHY_OK : TACHY_ERR_NOMEM;
}

// sum += ((frame - gain * plate - offset) / noise)^2
static void add_square(float *restrict sum, const float *restrict frame, const float *restrict plate,
                       const struct tachy_plate *p, int c, int n)
{
    float inverse = 1 / p->noise[c], gain = p->gain[c] * inverse, offset = p->offset[c] * inverse;
    for (int x = 0; x < n; x++) {
        float d = frame[x] * inverse - plate[x] * gain - offset;
        sum[x] += d * d;
    }
}

// The two chroma's part of a row's distances, squared, at the frame's width.
static float *chroma_part(struct tachy_plate_rows *r, int y)
{
    const tachy_frame *f = r->frame;
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    struct tachy_plane p = tachy_chroma_plane(f);
    int cy = TACHY_MIN(y >> (d->rgb ? 0 : d->chroma_shift_y), p.h - 1);
    float *wide = row_at(r, CHROMA), *sum = p.w == f->width ? wide : row_at(r, LUMA);
    if (r->chroma == cy)
        return wide;
    tachy_unit_chroma_row(f, cy, row_at(r, MORE), row_at(r, MORE + 1), row_at(r, OTHER));
    tachy_unit_chroma_row(r->plate->picture, cy, row_at(r, MORE + 2), row_at(r, MORE + 3), row_at(r, OTHER));
    memset(sum, 0, (size_t)p.w * sizeof(float));
    for (int c = 1; c < 3; c++)
        add_square(sum, row_at(r, MORE + c - 1), row_at(r, MORE + c + 1), r->plate, c, p.w);
    if (sum != wide)
        tachy_chroma_widen(wide, sum, f->width, tachy_chroma_site(f).centre);
    r->chroma = cy;
    return wide;
}

// Squared distances of row y (clamped to the picture), which are made if they are not there yet.
static const float *distances(struct tachy_plate_rows *r, int y)
{
    const tachy_frame *f = r->frame;
    y = TACHY_CLAMP(y, 0, f->height - 1);
    float *row = row_at(r, DISTANCE + y % 3);
    if (r->held[y % 3] == y)
        return row;
    r->held[y % 3] = y;
    memcpy(row, chroma_part(r, y), (size_t)f->width * sizeof(float));
    tachy_unit_luma_row(f, y, row_at(r, LUMA));
    tachy_unit_luma_row(r->plate->picture, y, row_at(r, OTHER));
    add_square(row, row_at(r, LUMA), row_at(r, OTHER), r->plate, 0, f->width);
    row[-1] = row[0];
    row[f->width] = row[f->width - 1];
    return row;
}

// Alpha of three rows of squared distances; may be below 0 or above 1.
static void ramp(float *restrict dst, const float *const from[3], float tolerance, int n)
{
    const float *restrict a = from[0], *restrict b = from[1], *restrict c = from[2];
    float gain = 1 / (tolerance * (HIGH - LOW)), offset = -LOW / (HIGH - LOW);
    for (int x = 0; x < n; x++) {
        float sum = (a[x - 1] + a[x] + a[x + 1]) + (b[x - 1] + b[x] + b[x + 1]) + (c[x - 1] + c[x] + c[x + 1]);
        dst[x] = sqrtf(sum * (1.0f / 9)) * gain + offset;
    }
}

void tachy_plate_row(struct tachy_plate_rows *r, const struct tachy_post_kernels *k, int y, uint8_t *alpha)
{
    const float *from[3];
    for (int i = 0; i < 3; i++)
        from[i] = distances(r, y - 1 + i);
    int w = r->frame->width;
    ramp(row_at(r, LUMA), from, r->plate->tolerance, w);
    k->prob(alpha, row_at(r, LUMA), w);
}

void tachy_plate_free(struct tachy_plate_rows *r) { tachy_buf_free(&r->rows); }
