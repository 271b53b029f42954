#include "inpaint/carry.h"

#include "base/base.h"
#include "base/ycbcr.h"
#include "inpaint/fill.h"
#include "inpaint/parts.h"

#include <math.h>
#include <stdlib.h>
#include <tachy/result.h>

// ---- Points ----

int carry_begin(const tachy_frame *hole, struct carry_point *points, int *index)
{
    int n = 0;
    for (int y = 0; y < hole->height; y++) {
        const uint8_t *row = hole->data[0] + y * hole->stride[0];
        for (int x = 0; x < hole->width; x++) {
            index[(size_t)y * (size_t)hole->width + (size_t)x] = row[x] ? n : -1;
            if (row[x])
                points[n++] = (struct carry_point){.x = x, .y = y, .from = CARRY_NONE};
        }
    }
    carry_restart(points, n);
    return n;
}

void carry_restart(struct carry_point *points, int n)
{
    for (int i = 0; i < n; i++) {
        points[i].at_x = (float)points[i].x;
        points[i].at_y = (float)points[i].y;
        points[i].lost = false;
    }
}

static bool inside(float x, float y, int width, int height)
{
    return x >= 0 && y >= 0 && x <= (float)(width - 1) && y <= (float)(height - 1);
}

void carry_step(struct carry_point *points, int n, const struct carry_flow *f)
{
    float scale_x = (float)f->frame_width / (float)f->width, scale_y = (float)f->frame_height / (float)f->height;
    for (int i = 0; i < n; i++) {
        struct carry_point *p = &points[i];
        if (p->lost)
            continue;
        float x = TACHY_CLAMP((p->at_x + 0.5f) / scale_x - 0.5f, 0, (float)(f->width - 1));
        float y = TACHY_CLAMP((p->at_y + 0.5f) / scale_y - 0.5f, 0, (float)(f->height - 1));
        int x0 = (int)x, y0 = (int)y, right = x0 + 1 < f->width, down = y0 + 1 < f->height ? f->width : 0;
        float ax = x - (float)x0, ay = y - (float)y0;
        const float *u = f->u + y0 * f->width + x0, *v = f->v + y0 * f->width + x0;
        p->at_x += scale_x * ((1 - ay) * (u[0] + ax * (u[right] - u[0])) + ay * (u[down] + ax * (u[down + right] - u[down])));
        p->at_y += scale_y * ((1 - ay) * (v[0] + ax * (v[right] - v[0])) + ay * (v[down] + ax * (v[down + right] - v[down])));
        p->lost = !inside(p->at_x, p->at_y, f->frame_width, f->frame_height);
    }
}

// Bicubic interpolation reads four pixels along each axis; the middle two must be known.
static bool shown(const tachy_frame *hole, float x, float y)
{
    int x0 = (int)x, y0 = (int)y, x1 = TACHY_MIN(x0 + 1, hole->width - 1), y1 = TACHY_MIN(y0 + 1, hole->height - 1);
    const uint8_t *up = hole->data[0] + y0 * hole->stride[0], *down = hole->data[0] + y1 * hole->stride[0];
    return !(up[x0] | up[x1] | down[x0] | down[x1]);
}

void carry_look(struct carry_point *points, int n, const tachy_frame *hole, int from, int distance)
{
    for (int i = 0; i < n; i++) {
        struct carry_point *p = &points[i];
        if (p->lost || (p->from != CARRY_NONE && p->distance <= distance) || !shown(hole, p->at_x, p->at_y))
            continue;
        p->from = from;
        p->distance = distance;
        p->from_x = p->at_x;
        p->from_y = p->at_y;
    }
}

void carry_before(struct carry_point *points, int n, int width, int height)
{
    for (int i = 0; i < n; i++) {
        struct carry_point *p = &points[i];
        if (p->from != CARRY_NONE || !inside(p->at_x, p->at_y, width, height))
            continue;
        p->from = CARRY_BEFORE;
        p->from_x = p->at_x;
        p->from_y = p->at_y;
    }
}

// ---- Pixels ----

// One component of a plane.
struct channel {
    int plane, component, components, shift_x, shift_y, bits, shift;
    bool words;
};

static int channels_of(enum tachy_pix format, struct channel *c)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    int n = 0;
    for (int p = 0; p < d->planes; p++)
        for (int k = 0; k < d->components[p]; k++) {
            bool chroma = !d->rgb && (p == 1 || p == 2);
            c[n++] = (struct channel){p, k, d->components[p], chroma ? d->chroma_shift_x : 0, chroma ? d->chroma_shift_y : 0,
                                      d->bits, d->shift, d->bytes == 2};
        }
    return n;
}

static int extent(int whole, int shift) { return (whole + (1 << shift) - 1) >> shift; }

static int get(const struct channel *c, const tachy_frame *f, int x, int y)
{
    const uint8_t *row = f->data[c->plane] + y * f->stride[c->plane];
    int at = x * c->components + c->component;
    return c->words ? ((const uint16_t *)row)[at] >> c->shift : row[at];
}

static void set(const struct channel *c, tachy_frame *f, int x, int y, int value)
{
    uint8_t *row = tachy_frame_writable(f, c->plane) + y * f->stride[c->plane];
    int at = x * c->components + c->component;
    if (c->words)
        ((uint16_t *)row)[at] = (uint16_t)(value << c->shift);
    else
        row[at] = (uint8_t)value;
}

// Catmull and Rom's cubic, at a share `t` of the way from the second to the third.
static void weights(float t, float w[4])
{
    w[0] = t * (-0.5f + t * (1 - 0.5f * t));
    w[1] = 1 + t * t * (-2.5f + 1.5f * t);
    w[2] = t * (0.5f + t * (2 - 1.5f * t));
    w[3] = t * t * (-0.5f + 0.5f * t);
}

static int sample(const struct channel *c, const tachy_frame *f, float x, float y)
{
    int w = extent(f->width, c->shift_x), h = extent(f->height, c->shift_y), x0 = (int)floorf(x), y0 = (int)floorf(y);
    float wx[4], wy[4], sum = 0;
    weights(x - (float)x0, wx);
    weights(y - (float)y0, wy);
    for (int j = 0; j < 4; j++) {
        float row = 0;
        for (int i = 0; i < 4; i++)
            row += wx[i] * (float)get(c, f, TACHY_CLAMP(x0 - 1 + i, 0, w - 1), TACHY_CLAMP(y0 - 1 + j, 0, h - 1));
        sum += wy[j] * row;
    }
    return TACHY_CLAMP((int)(sum + 0.5f), 0, (1 << c->bits) - 1);
}

// The first point of the block of pixels that sample (x, y) belongs to; -1: it has none.
static int point_of(const struct channel *c, const tachy_frame *f, const int *index, int x, int y)
{
    int x1 = TACHY_MIN((x + 1) << c->shift_x, f->width), y1 = TACHY_MIN((y + 1) << c->shift_y, f->height);
    for (int j = y << c->shift_y; j < y1; j++)
        for (int i = x << c->shift_x; i < x1; i++)
            if (index[(size_t)j * (size_t)f->width + (size_t)i] >= 0)
                return index[(size_t)j * (size_t)f->width + (size_t)i];
    return -1;
}

// Whether the sample at point i is that point's: of a block of pixels the first point has it.
static bool has_sample(const struct channel *c, const tachy_frame *f, const struct carry_point *points, int i, const int *index)
{
    return (!c->shift_x && !c->shift_y) || point_of(c, f, index, points[i].x >> c->shift_x, points[i].y >> c->shift_y) == i;
}

void carry_write(tachy_frame *out, const struct carry_point *points, int n, const int *index, tachy_frame *const from[],
                 const tachy_frame *before)
{
    struct channel channel[8];
    int nb = channels_of(out->format, channel);
    for (int k = 0; k < nb; k++) {
        const struct channel *c = &channel[k];
        for (int i = 0; i < n; i++) {
            const struct carry_point *p = &points[i];
            if (p->from == CARRY_NONE || !has_sample(c, out, points, i, index))
                continue;
            int x = p->x >> c->shift_x, y = p->y >> c->shift_y;
            float dx = (p->from_x - (float)p->x) / (float)(1 << c->shift_x), dy = (p->from_y - (float)p->y) / (float)(1 << c->shift_y);
            set(c, out, x, y, sample(c, p->from == CARRY_BEFORE ? before : from[p->from], (float)x + dx, (float)y + dy));
        }
    }
}

// ---- What no frame shows ----

static struct tachy_rect around(const struct carry_rest *rest)
{
    const tachy_frame *f = rest->out;
    const struct carry_point *points = rest->points;
    int n = rest->n;
    int x0 = f->width, y0 = f->height, x1 = 0, y1 = 0;
    for (int i = 0; i < n; i++)
        if (points[i].from == CARRY_NONE) {
            x0 = TACHY_MIN(x0, points[i].x);
            x1 = TACHY_MAX(x1, points[i].x + 1);
            y0 = TACHY_MIN(y0, points[i].y);
            y1 = TACHY_MAX(y1, points[i].y + 1);
        }
    int margin = TACHY_MAX(TACHY_FILL_MARGIN, TACHY_MAX(x1 - x0, y1 - y0) / 2);
    x0 = TACHY_MAX(x0 - margin, 0);
    y0 = TACHY_MAX(y0 - margin, 0);
    return (struct tachy_rect){x0, y0, TACHY_MIN(x1 + margin, f->width) - x0, TACHY_MIN(y1 + margin, f->height) - y0};
}

static void read_part(const tachy_frame *f, const struct tachy_rect *r, uint8_t *pixels)
{
    struct channel channel[8];
    int nb = channels_of(f->format, channel);
    for (int k = 0; k < 3; k++) {
        const struct channel *c = &channel[k < nb ? k : 0];
        for (int y = 0; y < r->h; y++)
            for (int x = 0; x < r->w; x++)
                pixels[FILL_BYTES * (y * r->w + x) + k] =
                    (uint8_t)(get(c, f, (r->x + x) >> c->shift_x, (r->y + y) >> c->shift_y) >> (c->bits - 8));
    }
}

static void write_part(const struct carry_rest *rest, const struct tachy_rect *r, const uint8_t *pixels)
{
    tachy_frame *f = rest->out;
    const struct carry_point *points = rest->points;
    struct channel channel[8];
    int nb = TACHY_MIN(channels_of(f->format, channel), 3);
    for (int k = 0; k < nb; k++) {
        const struct channel *c = &channel[k];
        for (int i = 0; i < rest->n; i++) {
            const struct carry_point *p = &points[i];
            if (p->from == CARRY_NONE && has_sample(c, f, points, i, rest->index))
                set(c, f, p->x >> c->shift_x, p->y >> c->shift_y,
                    pixels[FILL_BYTES * ((p->y - r->y) * r->w + p->x - r->x) + k] << (c->bits - 8));
        }
    }
}

int carry_fill(const struct carry_rest *rest)
{
    const struct carry_point *points = rest->points;
    struct tachy_rect r = around(rest);
    if (r.w <= 0 || r.h <= 0)
        return TACHY_OK;
    uint8_t *pixels = calloc((size_t)r.w * (size_t)r.h, FILL_BYTES), *hole = calloc((size_t)r.w * (size_t)r.h, 1);
    int err = pixels && hole ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err == TACHY_OK) {
        read_part(rest->out, &r, pixels);
        for (int i = 0; i < rest->n; i++)
            if (points[i].from == CARRY_NONE)
                hole[(points[i].y - r.y) * r.w + points[i].x - r.x] = 1;
        err = tachy_fill(pixels, hole, r.w, r.h);
    }
    if (err == TACHY_OK)
        write_part(rest, &r, pixels);
    free(pixels);
    free(hole);
    return err;
}

// ---- Colours ----

// The code of channel `number` of R'G'B' from 0 to 1: what each of these weighs, and what is added.
static void weigh(const struct channel *c, const tachy_frame *f, int number, double weight[4])
{
    struct tachy_color color = tachy_color_resolve(f->color, f->format, f->width, f->height);
    bool rgb = tachy_pix_desc(f->format)->rgb;
    int own = f->format == TACHY_PIX_BGRA ? 2 - number : number;
    if (!rgb)
        tachy_ycbcr_weights(color.matrix, c->bits, color.range == 2, number, weight);
    for (int k = 0; k < 4 && rgb; k++)
        weight[k] = k == own ? (1 << c->bits) - 1 : 0;
}

// The mean code of the points from nowhere in the block of pixels that sample (x, y) belongs to, of which there is one.
static int mean_code(const struct channel *c, const struct carry_rest *rest, const float (*rgb)[3], const double weight[4], int x, int y)
{
    const tachy_frame *f = rest->out;
    int x1 = TACHY_MIN((x + 1) << c->shift_x, f->width), y1 = TACHY_MIN((y + 1) << c->shift_y, f->height), n = 0;
    double sum = 0;
    for (int j = y << c->shift_y; j < y1; j++)
        for (int i = x << c->shift_x; i < x1; i++) {
            int at = rest->index[(size_t)j * (size_t)f->width + (size_t)i];
            if (at < 0 || rest->points[at].from != CARRY_NONE)
                continue;
            for (int k = 0; k < 3; k++)
                sum += weight[k] * (double)rgb[at][k];
            n++;
        }
    return (int)TACHY_CLAMP(sum / TACHY_MAX(n, 1) + weight[3] + 0.5, 0, (1 << c->bits) - 1);
}

void carry_paint(const struct carry_rest *rest, const float (*rgb)[3])
{
    struct channel channel[8];
    int nb = TACHY_MIN(channels_of(rest->out->format, channel), 3);
    for (int k = 0; k < nb; k++) {
        const struct channel *c = &channel[k];
        double weight[4];
        weigh(c, rest->out, k, weight);
        for (int i = 0; i < rest->n; i++) {
            const struct carry_point *p = &rest->points[i];
            int x = p->x >> c->shift_x, y = p->y >> c->shift_y;
            if (p->from == CARRY_NONE && has_sample(c, rest->out, rest->points, i, rest->index))
                set(c, rest->out, x, y, mean_code(c, rest, rgb, weight, x, y));
        }
    }
}
