#include "compare/sheet.h"

#include "base/base.h"
#include "compare/comparison.h"
#include "postprocess/overlay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TILE = 384, GAP = 6, LINE = 24, CAPITALS = 11 }; // pixels; a tile fits in TILE x TILE

void tachy_sheet_free(struct tachy_sheet *s)
{
    for (int m = 0; m < TACHY_MATTE_METRICS; m++)
        for (int i = 0; i < TACHY_TILES; i++)
            free(s->row[m].tile[i].v);
    *s = (struct tachy_sheet){0};
}

// Value of a tile's pixel for the pixels x0..x1, y0..y1: their mean, or with `minus` the largest difference, so that a
// thin error stays visible in a small picture.
static float shown(const struct tachy_matte *m, const struct tachy_matte *minus, int x0, int x1, int y0, int y1)
{
    double sum = 0;
    float most = 0;
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++) {
            size_t i = (size_t)y * (size_t)m->width + (size_t)x;
            float d = minus ? m->alpha[i] - minus->alpha[i] : 0;
            most = fabsf(d) > fabsf(most) ? d : most;
            sum += m->alpha[i];
        }
    return minus ? most : (float)(sum / ((double)(x1 - x0) * (y1 - y0)));
}

static int make_tile(struct tachy_tile *t, const struct tachy_matte *m, const struct tachy_matte *minus)
{
    int longer = TACHY_MAX(m->width, m->height);
    int w = longer > TILE ? TACHY_MAX(m->width * TILE / longer, 1) : m->width;
    int h = longer > TILE ? TACHY_MAX(m->height * TILE / longer, 1) : m->height;
    float *v = realloc(t->v, (size_t)w * (size_t)h * sizeof(*v));
    if (!v)
        return TACHY_ERR_NOMEM;
    *t = (struct tachy_tile){w, h, v};
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            *v++ = shown(m, minus, x * m->width / w, (x + 1) * m->width / w, y * m->height / h,
                         (y + 1) * m->height / h);
    return TACHY_OK;
}

int tachy_sheet_take(struct tachy_sheet *s, int64_t frame, const struct tachy_matte *a, const struct tachy_matte *b,
                     const struct tachy_matte *truth, const double va[TACHY_MATTE_METRICS],
                     const double vb[TACHY_MATTE_METRICS])
{
    const struct tachy_matte *const whole[TACHY_TILES] = {a, b, truth, a, b};
    const struct tachy_matte *const minus[TACHY_TILES] = {[3] = truth, truth};
    for (int m = 0; m < TACHY_MATTE_METRICS; m++) {
        enum tachy_matte_metric metric = (enum tachy_matte_metric)m;
        double best = m == TACHY_MATTE_IOU ? 1 : 0; // a frame without an error is not shown
        bool empty = !s->row[m].tile[0].v, worse = false;
        for (int k = 0; k < (b ? 2 : 1); k++) {
            double v = k ? vb[m] : va[m];
            worse |= tachy_matte_worse(metric, v, empty ? best : s->row[m].value[0]) &&
                     (empty || !b || tachy_matte_worse(metric, v, s->row[m].value[1]));
        }
        if (!worse)
            continue;
        s->row[m].frame = frame;
        s->row[m].value[0] = va[m];
        s->row[m].value[1] = b ? vb[m] : NAN;
        for (int i = 0; i < TACHY_TILES; i++)
            if (whole[i] && make_tile(&s->row[m].tile[i], whole[i], minus[i]) < 0)
                return TACHY_ERR_NOMEM;
    }
    return TACHY_OK;
}

// The picture being drawn, and the position of its next row.
struct page {
    tachy_frame *frame;
    struct tachy_shapes words;
    int y, err;
};

static void write(struct page *p, int x, uint8_t grey, const char *text)
{
    struct tachy_shape like = {.radius = 0.8f, .alpha = 255, .code = {grey, grey, grey}};
    if (p->err == TACHY_OK)
        p->err = tachy_overlay_text(&p->words, text, &like, (float)x, (float)(p->y + LINE - 7), CAPITALS);
}

// Grey for a matte; a difference is orange for too much alpha, blue for too little, by its root, so that little shows.
static void put_tile(struct page *p, int x0, const struct tachy_tile *t, bool difference)
{
    const float *v = t->v;
    for (int y = 0; y < t->height; y++) {
        uint8_t *to = tachy_frame_writable(p->frame, 0) + (p->y + y) * p->frame->stride[0] + 3 * (ptrdiff_t)x0;
        for (int x = 0; x < t->width; x++, v++, to += 3) {
            float k = difference ? sqrtf(fabsf(*v)) : *v;
            const float full[3] = {!difference || *v > 0 ? 1 : 0.15f, difference ? 0.55f : 1,
                                   !difference || *v < 0 ? 1 : 0};
            for (int c = 0; c < 3; c++)
                to[c] = (uint8_t)lrintf(255 * k * full[c]);
        }
    }
}

static int row_height(const struct tachy_sheet *s, int m) { return LINE + s->row[m].tile[0].height + GAP; }

static void put_row(struct page *p, const struct tachy_sheet *s, int m)
{
    static const char *const titles[TACHY_TILES] = {"A", "B", "truth", "A - truth", "B - truth"};
    bool two = s->row[m].tile[1].v != NULL;
    char text[96];
    for (int i = 0, column = 0; i < TACHY_TILES; i++) {
        if (!s->row[m].tile[i].v)
            continue;
        int x = GAP + column++ * (TILE + GAP);
        const char *title = two ? titles[i] : i == 2 ? "B" : i == 3 ? "A - B" : titles[i];
        snprintf(text, sizeof(text), "%s", title);
        if (column == 1)
            snprintf(text, sizeof(text), "%s, frame %lld: %s %.4g", tachy_matte_metric_name((enum tachy_matte_metric)m),
                     (long long)s->row[m].frame, title, s->row[m].value[0]);
        else if (i == 1)
            snprintf(text, sizeof(text), "%s %.4g", title, s->row[m].value[1]);
        write(p, x, 220, text);
        p->y += LINE;
        put_tile(p, x, &s->row[m].tile[i], i > 2);
        p->y -= LINE;
    }
    p->y += row_height(s, m);
}

static void put_names(struct page *p, const char *const names[3])
{
    static const char *const titles[] = {"A", "B", "truth"};
    char text[80]; // as much as fits in a column
    for (int i = 0, column = 0; i < 3; i++) {
        if (!names[i])
            continue;
        const char *slash = strrchr(names[i], '/');
        snprintf(text, sizeof(text), "%s: %.34s", !names[1] && i == 2 ? "B" : titles[i], slash ? slash + 1 : names[i]);
        write(p, GAP + column++ * (TILE + GAP), 255, text);
    }
    p->y += LINE;
}

int tachy_sheet_draw(tachy_frame **out, const struct tachy_sheet *s, const char *const names[3])
{
    int columns = names[1] ? TACHY_TILES : 3, height = LINE + GAP;
    struct page p = {.y = 0};
    *out = NULL;
    for (int m = 0; m < TACHY_MATTE_METRICS; m++)
        height += s->row[m].tile[0].v ? row_height(s, m) : 0;
    int err = tachy_frame_new(&p.frame, &(struct tachy_frame_params){.format = TACHY_PIX_RGB24, .height = height,
                                                                     .width = GAP + columns * (TILE + GAP)});
    if (err < 0)
        return err;
    memset(tachy_frame_writable(p.frame, 0), 32, (size_t)p.frame->stride[0] * (size_t)height);
    put_names(&p, names);
    for (int m = 0; m < TACHY_MATTE_METRICS; m++)
        if (s->row[m].tile[0].v)
            put_row(&p, s, m);
    uint8_t *const data[4] = {tachy_frame_writable(p.frame, 0)};
    if (p.err == TACHY_OK)
        tachy_overlay_draw(&p.words, p.frame, data, p.frame->stride);
    tachy_shapes_free(&p.words);
    if (p.err < 0)
        tachy_frame_unref(&p.frame);
    *out = p.frame;
    return p.err;
}
