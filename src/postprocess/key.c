#include "postprocess/key.h"

#include "postprocess/chroma.h"

#include <math.h>
#include <stdlib.h>

static const float DARKEST = 0.3f;       // share of the screen's light that a shadow leaves at least

// ---- Colours ----

bool tachy_key_color_of(struct tachy_ycbcr *c, uint32_t rgba, const tachy_frame *like)
{
    double rgb[3];
    for (int i = 0; i < 3; i++)
        rgb[i] = (double)(rgba >> (24 - 8 * i) & 255) / 255;
    *c = tachy_ycbcr(rgb, tachy_chroma_matrix(like));
    return hypotf(c->u, c->v) > 0.02f;
}

// ---- Alpha ----

enum { ROWS = 8 }; // u and v of two rows, of the row between, shares, luma

// Rows lie apart by width + 2 and begin one sample late, so that both ends can be repeated.
static float *row_at(const struct tachy_key_rows *r, int i)
{
    return (float *)r->rows.p + (ptrdiff_t)i * (r->frame->width + 2) + 1;
}

int tachy_key_begin(struct tachy_key_rows *r, const struct tachy_chroma_key *key, const tachy_frame *f)
{
    r->key = key;
    r->frame = f;
    const struct tachy_chroma_site site = tachy_chroma_site(f);
    r->centre = site.centre;
    r->top = site.top;
    r->held[0] = r->held[1] = -1;
    for (int i = 0; i < key->nb_colors; i++) {
        const struct tachy_ycbcr *c = &key->color[i];
        float m2 = c->u * c->u + c->v * c->v;
        r->axis[i] = (struct tachy_key_axis){c->u / m2, c->v / m2, -c->v / m2 * TACHY_KEY_NARROW, c->u / m2 * TACHY_KEY_NARROW};
    }
    return tachy_buf_need(&r->rows, ((size_t)f->width + 2) * ROWS * sizeof(float)) ? TACHY_OK : TACHY_ERR_NOMEM;
}

// Slot of a chroma row, which is read if needed.
static int held_row(struct tachy_key_rows *r, int y)
{
    struct tachy_plane p = tachy_chroma_plane(r->frame);
    int i = y & 1;
    y = TACHY_CLAMP(y, 0, p.h - 1);
    if (r->held[i] != y)
        tachy_unit_chroma_row(r->frame, y, row_at(r, 2 * i), row_at(r, 2 * i + 1), row_at(r, 6));
    r->held[i] = y;
    return i;
}

// Chroma of luma row y, at the chroma planes' width.
static void chroma_at(struct tachy_key_rows *r, const struct tachy_post_kernels *k, int y, const float *uv[2])
{
    const struct tachy_pix_desc *d = tachy_pix_desc(r->frame->format);
    int w = tachy_chroma_plane(r->frame).w, near = y >> (d->rgb ? 0 : d->chroma_shift_y);
    float weight = 0; // of the other row
    int other = near + (r->top || y & 1 ? 1 : -1);
    if (!d->rgb && d->chroma_shift_y)
        weight = !r->top ? 0.25f : y & 1 ? 0.5f : 0;
    int a = held_row(r, near), b = weight > 0 ? held_row(r, other) : a;
    for (int c = 0; c < 2; c++) {
        uv[c] = row_at(r, 2 * a + c);
        if (weight > 0) {
            k->lerp_f32(row_at(r, 4 + c), uv[c], row_at(r, 2 * b + c), weight, w);
            uv[c] = row_at(r, 4 + c);
        }
    }
}

// Scales the screen's share up where a shadow darkens it.
static void give_light(float *restrict share, const float *restrict luma, float screen, int n)
{
    float inverse = 1 / TACHY_MAX(screen, 0.05f);
    for (int i = 0; i < n; i++) {
        float light = luma[i] * inverse;
        light = light > DARKEST ? light : DARKEST;
        light = light < 1 ? light : 1;
        share[i] = share[i] / light;
    }
}

// Shares of the screen to alpha, which may be below 0 or above 1.
static void ramp(float *restrict share, const struct tachy_chroma_key *key, int n)
{
    float gain = 1 / (key->white - key->black), offset = (1 - key->black) * gain;
    for (int i = 0; i < n; i++)
        share[i] = offset - share[i] * gain;
}

void tachy_key_row(struct tachy_key_rows *r, const struct tachy_post_kernels *k, int y, uint8_t *alpha)
{
    const tachy_frame *f = r->frame;
    const struct tachy_chroma_key *key = r->key;
    const float *uv[2];
    if (!key->nb_colors) {
        memset(alpha, 255, (size_t)f->width);
        return;
    }
    chroma_at(r, k, y, uv);
    float *share = row_at(r, 6), *wide = row_at(r, 7);
    struct tachy_plane p = tachy_chroma_plane(f);
    k->key_share(share, uv[0], uv[1], r->axis, key->nb_colors, p.w);
    if (key->shadows) // the ramp is linear, so it can come before widening; its ends come after
        ramp(share, key, p.w);
    if (p.w != f->width) {
        tachy_chroma_widen(wide, share, f->width, r->centre);
        share = wide;
    }
    if (!key->shadows) {
        float *luma = row_at(r, 4); // the chroma between two rows is used up
        tachy_unit_luma_row(f, y, luma);
        give_light(share, luma, key->color[0].y, f->width);
        ramp(share, key, f->width);
    }
    k->prob(alpha, share, f->width);
}

void tachy_key_free(struct tachy_key_rows *r) { tachy_buf_free(&r->rows); }

// ---- The screen of a frame ----

enum { SAMPLES = 20000, BINS = 64 };

struct border {
    struct tachy_ycbcr *sample;
    int n, seen; // saturated pixels of the hue; all that were looked at
    int bin[BINS][BINS];
};

struct tachy_ycbcr tachy_key_screen(enum tachy_key_hue hue, int matrix)
{
    static const double screens[][3] = {{0, 0.694, 0.251}, {0, 0.278, 0.733}};
    return tachy_ycbcr(screens[hue == TACHY_KEY_BLUE], matrix);
}

// True for the usual hue of such a screen, and 40 degrees to each side.
static bool has_hue(const struct tachy_ycbcr *c, enum tachy_key_hue hue, int matrix)
{
    if (hue == TACHY_KEY_ANY)
        return true;
    struct tachy_ycbcr s = tachy_key_screen(hue, matrix);
    return c->u * s.u + c->v * s.v > 0.766f * hypotf(c->u, c->v) * hypotf(s.u, s.v);
}

static int bin_of(float v) { return TACHY_CLAMP((int)((v + 0.5f) * BINS), 0, BINS - 1); }

// The saturated pixels of the left, right and upper tenth of the picture, evenly chosen.
static int collect(struct border *b, enum tachy_key_hue hue, const tachy_frame *f)
{
    struct tachy_plane p = tachy_chroma_plane(f);
    int edge_x = TACHY_MAX(p.w / 10, 1), edge_y = TACHY_MAX(p.h / 10, 1), matrix = tachy_chroma_matrix(f);
    int step = TACHY_MAX((int)ceil(sqrt(0.28 * p.w * p.h / SAMPLES)), 1);
    float *rows = malloc(4 * ((size_t)f->width + 1) * sizeof(float)), *u = rows, *v = rows + f->width, *luma = v + f->width;
    if (!rows)
        return TACHY_ERR_NOMEM;
    for (int y = step / 2; y < p.h; y += step) {
        tachy_unit_chroma_row(f, y, u, v, luma);
        tachy_unit_luma_row(f, TACHY_MIN(y * f->height / p.h, f->height - 1), luma);
        for (int x = step / 2; x < p.w && b->seen < SAMPLES; x += step) {
            struct tachy_ycbcr c = {luma[(int64_t)x * f->width / p.w], u[x], v[x]};
            if (y >= edge_y && x >= edge_x && x < p.w - edge_x)
                continue;
            b->seen++;
            if (hypotf(c.u, c.v) < 0.05f || !has_hue(&c, hue, matrix))
                continue;
            b->sample[b->n++] = c;
            b->bin[bin_of(c.v)][bin_of(c.u)]++;
        }
    }
    free(rows);
    return TACHY_OK;
}

// The middle of the 3 x 3 bins that hold the most.
static struct tachy_ycbcr peak(const struct border *b)
{
    int most = -1;
    struct tachy_ycbcr at = {0};
    for (int y = 1; y < BINS - 1; y++)
        for (int x = 1; x < BINS - 1; x++) {
            int n = 0;
            for (int i = 0; i < 9; i++)
                n += b->bin[y - 1 + i / 3][x - 1 + i % 3];
            if (n > most) {
                most = n;
                at = (struct tachy_ycbcr){0, ((float)x + 0.5f) / BINS - 0.5f, ((float)y + 0.5f) / BINS - 0.5f};
            }
        }
    return at;
}

// Keeps the samples within 20 degrees of `at` that are at least half as strong.
static void keep_near(struct border *b, const struct tachy_ycbcr *at)
{
    float m = hypotf(at->u, at->v);
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        const struct tachy_ycbcr *c = &b->sample[i];
        float length = hypotf(c->u, c->v);
        if (length > 0.5f * m && c->u * at->u + c->v * at->v > 0.94f * m * length)
            b->sample[n++] = *c;
    }
    b->n = n;
}

static int by_strength(const void *a, const void *b)
{
    const struct tachy_ycbcr *x = a, *y = b;
    float d = hypotf(x->u, x->v) - hypotf(y->u, y->v);
    return d < 0 ? -1 : d > 0;
}

int tachy_key_find(struct tachy_ycbcr *c, enum tachy_key_hue hue, const tachy_frame *f, bool *found)
{
    struct border *b = calloc(1, sizeof(*b));
    *found = false;
    int err = b ? TACHY_OK : TACHY_ERR_NOMEM;
    if (b)
        b->sample = malloc(SAMPLES * sizeof(*b->sample));
    if (b && !b->sample)
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = collect(b, hue, f);
    if (err == TACHY_OK && b->n) {
        struct tachy_ycbcr at = peak(b);
        keep_near(b, &at);
        *found = b->n > 0 && 4 * b->n >= b->seen;
    }
    if (*found) {
        double y = 0, u = 0, v = 0;
        for (int i = 0; i < b->n; i++)
            y += (double)b->sample[i].y, u += (double)b->sample[i].u, v += (double)b->sample[i].v;
        qsort(b->sample, (size_t)b->n, sizeof(*b->sample), by_strength);
        const struct tachy_ycbcr *weak = &b->sample[b->n * 15 / 100];
        float scale = hypotf(weak->u, weak->v) / (float)hypot(u, v);
        *c = (struct tachy_ycbcr){(float)(y / b->n), (float)u * scale, (float)v * scale};
    }
    if (b)
        free(b->sample);
    free(b);
    return err;
}
