#include "postprocess/overlay.h"

#include "postprocess/composite_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Colours that are far apart and readable on pictures; 0xRRGGBBAA.
static const uint32_t palette[] = {0x2ecc71ff, 0xe74c3cff, 0x3498dbff, 0xf1c40fff, 0x9b59b6ff, 0x1abc9cff,
                                   0xe67e22ff, 0xff6fb5ff, 0x7fd3ffff, 0xb6e34bff, 0xc0a080ff, 0x8090ffff};

int tachy_shapes_add(struct tachy_shapes *to, const struct tachy_shape *s)
{
    if (to->nb == to->room) {
        int room = TACHY_MAX(2 * to->room, 64);
        struct tachy_shape *v = realloc(to->v, (size_t)room * sizeof(*v));
        if (!v)
            return TACHY_ERR_NOMEM;
        to->v = v;
        to->room = room;
    }
    to->v[to->nb++] = *s;
    return TACHY_OK;
}

void tachy_shapes_free(struct tachy_shapes *s)
{
    free(s->v);
    *s = (struct tachy_shapes){0};
}

struct drawing {
    struct tachy_shapes *to;
    const struct tachy_overlay_params *p;
    const tachy_frame *f;
    float line, text; // pixels
    int err;
};

// A shape of this colour, without a place.
static struct tachy_shape paint(const struct drawing *d, uint32_t rgba)
{
    const tachy_frame *f = d->f;
    int codes[4];
    tachy_color_codes(rgba, tachy_pix_desc(f->format), tachy_color_resolve(f->color, f->format, f->width, f->height),
                      codes);
    return (struct tachy_shape){.code = {(uint16_t)codes[0], (uint16_t)codes[1], (uint16_t)codes[2]},
                                .alpha = (uint8_t)codes[3]};
}

// Masks of things that nobody can name apart have a colour each, by their place in the list.
static uint32_t color_of(const struct tachy_region *r, int place)
{
    uint64_t n = r->track >= 0 ? (uint64_t)r->track : r->mask.data ? (uint64_t)place : (uint64_t)TACHY_MAX(r->class_id, 0);
    return palette[n % TACHY_ARRAY_SIZE(palette)];
}

static void add(struct drawing *d, struct tachy_shape s, double x0, double y0, double x1, double y1, double radius)
{
    s.x0 = (float)x0;
    s.y0 = (float)y0;
    s.x1 = (float)x1;
    s.y1 = (float)y1;
    s.radius = (float)radius;
    if (d->err == TACHY_OK)
        d->err = tachy_shapes_add(d->to, &s);
}

static void draw_box(struct drawing *d, const struct tachy_region *r, struct tachy_shape color)
{
    double x[4], y[4];
    tachy_region_corners(r, x, y);
    for (int i = 0; i < 4; i++)
        add(d, color, x[i], y[i], x[(i + 1) % 4], y[(i + 1) % 4], d->line / 2);
}

static const float SEEN = 0.3f; // score from which a point is drawn

// Many points are small, so that they do not hide what they are on.
static void draw_points(struct drawing *d, const struct tachy_region *r, struct tachy_shape color)
{
    double size = hypot(r->w, r->h), radius = TACHY_CLAMP(size / (r->nb_points > 60 ? 260 : 100), 1, 2.5 * d->line);
    for (int i = 0; i < r->nb_points; i++)
        if (r->points[i].score >= SEEN)
            add(d, color, r->points[i].x, r->points[i].y, r->points[i].x, r->points[i].y, radius);
}

static void draw_bones(struct drawing *d, const struct tachy_region *r, struct tachy_shape color)
{
    for (int i = 0; i < d->p->bones.nb; i++) {
        const uint8_t *e = d->p->bones.ends[i];
        if (e[0] >= r->nb_points || e[1] >= r->nb_points)
            continue;
        const struct tachy_point *a = &r->points[e[0]], *b = &r->points[e[1]];
        if (a->score >= SEEN && b->score >= SEEN)
            add(d, color, a->x, a->y, b->x, b->y, d->line / 2);
    }
}

enum { LINES = 6, LINE = 96 }; // of a region's text

// Name and score, then values by name; returns how many lines.
static int text_of(const struct drawing *d, const struct tachy_region *r, char text[LINES][LINE])
{
    char number[32] = "";
    int n = 1;
    if (r->track >= 0)
        snprintf(number, sizeof(number), "#%lld ", (long long)r->track);
    else if (!r->label && r->class_id >= 0)
        snprintf(number, sizeof(number), "%d ", r->class_id);
    snprintf(text[0], LINE, "%s%.60s%s%d%%", number, r->label ? r->label : "", r->label ? " " : "",
             (int)lrintf(100 * r->score));
    if (d->p->bones.nb)
        return n;
    bool classes = r->nb_values && r->values[0].name == r->label; // the best is above
    for (int i = classes; i < r->nb_values && n < LINES; i++) {
        const struct tachy_named *v = &r->values[i];
        if (classes)
            snprintf(text[n++], LINE, "%.60s %d%%", v->name, (int)lrint(100 * v->value));
        else
            snprintf(text[n++], LINE, "%.60s %.3g", v->name, v->value);
    }
    return n;
}

// Above the region's upper edge, or inside of the picture if there is no room.
static void draw_text(struct drawing *d, const struct tachy_region *r, struct tachy_shape color)
{
    char text[LINES][LINE];
    double x[4], y[4], w = 0, pad = d->text / 3, step = d->text * 1.5;
    int n = text_of(d, r, text);
    tachy_region_corners(r, x, y);
    for (int i = 0; i < n; i++)
        w = fmax(w, tachy_overlay_text_width(text[i], d->text) + 2 * pad);
    double h = (n - 1) * step + d->text + 2 * pad;
    double left = TACHY_CLAMP(fmin(fmin(x[0], x[1]), fmin(x[2], x[3])), 0, fmax(d->f->width - w, 0));
    double top = TACHY_CLAMP(fmin(fmin(y[0], y[1]), fmin(y[2], y[3])) - h, 0, fmax(d->f->height - h, 0));
    add(d, color, left, top, left + w, top + h, -1);
    struct tachy_shape ink = paint(d, 0x000000ff);
    ink.radius = d->text / 12;
    for (int i = 0; i < n && d->err == TACHY_OK; i++)
        d->err = tachy_overlay_text(d->to, text[i], &ink, (float)(left + pad), (float)(top + pad + d->text + i * step), d->text);
}

int tachy_overlay_shapes(struct tachy_shapes *to, const struct tachy_overlay_params *p, const tachy_frame *f,
                         const struct tachy_region *regions, int nb)
{
    float h = (float)f->height;
    struct drawing d = {to, p, f, fmaxf(TACHY_DEF(p->line, 1 / 360.0f) * h, 1.5f),
                        fmaxf(TACHY_DEF(p->text, 1 / 40.0f) * h, 7), TACHY_OK};
    to->nb = 0;
    for (int i = 0; i < nb; i++) {
        const struct tachy_region *r = &regions[i];
        struct tachy_shape color = paint(&d, color_of(r, i));
        if (!p->no_boxes)
            draw_box(&d, r, color);
        if (!p->no_points) {
            draw_points(&d, r, color);
            draw_bones(&d, r, color);
        }
        if (!p->no_names)
            draw_text(&d, r, color);
    }
    return d.err;
}

struct tachy_canvas tachy_overlay_canvas(const tachy_frame *f, uint8_t *const data[4], const ptrdiff_t stride[4])
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    struct tachy_canvas c = {.width = f->width, .height = f->height, .chroma_x = d->chroma_shift_x,
                             .chroma_y = d->chroma_shift_y, .bytes = d->bytes, .shift = d->shift};
    for (int plane = 0; plane < d->planes; plane++) {
        for (int i = 0; i < d->components[plane]; i++) {
            int k = tachy_component_at(f->format, plane, i);
            if (k > 2)
                continue;
            c.component[k].data = data[plane] + i * d->bytes;
            c.component[k].stride = stride[plane];
            c.component[k].step = d->components[plane];
            c.nb = TACHY_MAX(c.nb, k + 1);
        }
    }
    return c;
}

enum { TINT = 120 }; // alpha of a mask

void tachy_overlay_tint(const struct tachy_region *regions, int nb, const tachy_frame *f, uint8_t *const data[4], const ptrdiff_t stride[4])
{
    const struct tachy_canvas c = tachy_overlay_canvas(f, data, stride);
    const struct drawing d = {.f = f};
    for (int i = 0; i < nb; i++) {
        const struct tachy_mask *m = &regions[i].mask;
        if (!m->data || m->width != m->region.w || m->height != m->region.h)
            continue;
        struct tachy_shape color = paint(&d, color_of(&regions[i], i));
        color.x0 = (float)m->region.x, color.y0 = (float)m->region.y;
        color.x1 = (float)(m->region.x + m->width), color.y1 = (float)(m->region.y + m->height);
        color.alpha = TINT;
        tachy_ref_tint(&c, &color, m->data, m->stride);
    }
}

void tachy_overlay_draw(const struct tachy_shapes *s, const tachy_frame *f, uint8_t *const data[4],
                        const ptrdiff_t stride[4])
{
    const struct tachy_canvas c = tachy_overlay_canvas(f, data, stride);
    tachy_ref_draw(&c, s->v, s->nb);
}

void tachy_overlay_copy(const tachy_frame *in, tachy_frame *out)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(in->format);
    for (int i = 0; i < d->planes; i++) {
        struct tachy_plane p = tachy_plane_of(d, i, in->width, in->height);
        uint8_t *to = tachy_frame_writable(out, i);
        size_t row = (size_t)p.w * (size_t)p.comps * d->bytes;
        for (int y = 0; y < p.h; y++)
            memcpy(to + y * out->stride[i], in->data[i] + y * in->stride[i], row);
    }
}
