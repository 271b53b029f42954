#include "postprocess/decode_priv.h"

#include <math.h>
#include <stdio.h>

// A network's findings for one region: points, classes, a vector.

static struct tachy_point *place_for_points(const struct tachy_decoder *d, struct tachy_regions *list)
{
    return tachy_regions_alloc(list, sizeof(struct tachy_point) * (size_t)d->card->nb_points);
}

static void set_points(const struct tachy_decoder *d, const struct tachy_decoder_frame *f, struct tachy_point *p)
{
    tachy_points_to_frame(p, d->card->nb_points, f->map);
    f->about->points = p;
    f->about->nb_points = d->card->nb_points;
}

// One number of each point, to[0], to[4], ...: what they have at `first` among `each` numbers, times `scale`.
static void read_numbers(const struct tachy_decoder *d, const struct tachy_decoder_frame *f, int64_t first, int64_t each,
                         float scale, float *to)
{
    const float *v = decode_floats(&d->part[0], f);
    for (int i = 0; i < d->card->nb_points; i++)
        to[4 * i] = (v ? v[first + i * each] : decode_at(&d->part[0], f, first + i * each)) * scale;
}

static void read_points(const struct tachy_decoder *d, const struct tachy_decoder_frame *f, struct tachy_point *p)
{
    const char *order = d->card->order;
    const int64_t each = (int64_t)strlen(order);
    const float sx = d->card->shares ? (float)d->width : 1, sy = d->card->shares ? (float)d->height : 1;
    for (int i = 0; i < d->card->nb_points; i++)
        p[i] = (struct tachy_point){.score = 1};
    for (int64_t k = 0; k < each; k++) {
        switch (order[k]) {
        case 'x': read_numbers(d, f, k, each, sx, &p->x); break;
        case 'y': read_numbers(d, f, k, each, sy, &p->y); break;
        case 'z': read_numbers(d, f, k, each, sx, &p->z); break;
        case 's':
        case 'v': read_numbers(d, f, k, each, 1, &p->score); break;
        }
        for (int i = 0; i < d->card->nb_points && order[k] == 'v'; i++)
            p[i].score = decode_sigmoid(p[i].score);
    }
}

// Moves point k to the mean position of the cells around it, weighted by its map, unless no cell is certain.
static void move_by_map(const struct tachy_decoder *d, const struct tachy_decoder_frame *f, int k, struct tachy_point *p)
{
    const struct decode_part *maps = &d->scores[0];
    const int n = d->card->nb_points, h = (int)maps->rows, w = (int)(maps->cols / n), reach = d->card->window / 2;
    const float sx = (float)d->width / (float)w, sy = (float)d->height / (float)h, at_x = p->x / sx, at_y = p->y / sy;
    if (!(at_x > -1 && at_x < (float)w && at_y > -1 && at_y < (float)h)) // also NaN
        return;
    const int cx = (int)at_x, cy = (int)at_y;
    float sum = 0, x = 0, y = 0, most = 0;
    for (int row = TACHY_MAX(cy - reach, 0); row <= TACHY_MIN(cy + reach, h - 1); row++) {
        for (int col = TACHY_MAX(cx - reach, 0); col <= TACHY_MIN(cx + reach, w - 1); col++) {
            float v = decode_sigmoid(decode_at(maps, f, ((int64_t)row * w + col) * n + k));
            sum += v;
            x += v * (float)col;
            y += v * (float)row;
            most = fmaxf(most, v);
        }
    }
    if (most >= 0.5f && sum > 0) {
        p->x = x / sum * sx;
        p->y = y / sum * sy;
    }
}

// Puts points in the place of the region's, which keep their depth and score; those that are new get the mean depth of others.
static int refine(const struct tachy_decoder *d, const struct tachy_decoder_frame *f, const struct tachy_point *p,
                  struct tachy_regions *list)
{
    const struct tachy_card_decoder *c = d->card;
    struct tachy_region *r = f->about;
    int n = r->nb_points;
    for (int i = 0; i < c->nb_points; i++)
        n = TACHY_MAX(n, c->at[i] + 1);
    struct tachy_point *to = tachy_regions_alloc(list, sizeof(*to) * (size_t)n);
    if (!to)
        return TACHY_ERR_NOMEM;
    memset(to, 0, sizeof(*to) * (size_t)n);
    if (r->nb_points)
        memcpy(to, r->points, sizeof(*to) * (size_t)r->nb_points);
    float depth = 0;
    for (int i = 0; i < c->nb_depth_of; i++)
        depth += c->depth_of[i] < n ? to[c->depth_of[i]].z / (float)c->nb_depth_of : 0;
    for (int i = 0; i < c->nb_points; i++) {
        struct tachy_point *q = &to[c->at[i]];
        if (c->at[i] >= r->nb_points)
            *q = (struct tachy_point){.z = depth, .score = 1};
        q->x = p[i].x;
        q->y = p[i].y;
    }
    r->points = to;
    r->nb_points = n;
    return TACHY_OK;
}

int decode_points_run(tachy_decoder *d, const struct tachy_decoder_frame *f, struct tachy_regions *list)
{
    struct tachy_point *p = d->card->at ? d->spot : place_for_points(d, list);
    if (!p)
        return TACHY_ERR_NOMEM;
    read_points(d, f, p);
    for (int i = 0; i < d->card->nb_points && d->card->scores[0]; i++)
        move_by_map(d, f, i, &p[i]);
    if (d->card->at) {
        tachy_points_to_frame(p, d->card->nb_points, f->map);
        return refine(d, f, p, list);
    }
    set_points(d, f, p);
    return TACHY_OK;
}

// ---- Heat maps

struct map {
    int w, h, n;       // extents, maps
    int64_t x, y, map; // from one number to the next
};

static struct map map_of(const struct tachy_decoder *d)
{
    const struct decode_part *p = &d->part[0];
    int n = d->card->nb_points, h = (int)p->rows;
    int w = (int)(p->cols / n);
    if (d->card->layout == TACHY_NCHW)
        return (struct map){w, h, n, 1, w, (int64_t)w * h};
    return (struct map){w, h, n, n, (int64_t)n * w, 1};
}

// A quarter of a cell towards the higher neighbour, as published for such networks (Newell et al. 2016).
static float shift(float below, float above) { return above > below ? 0.25f : above < below ? -0.25f : 0; }

static struct tachy_point peak(const struct tachy_decoder *d, const struct tachy_decoder_frame *f, const struct map *m, int k)
{
    const struct decode_part *part = &d->part[0];
    int64_t base = k * m->map, best = 0;
    float most = -INFINITY;
    for (int64_t i = 0; i < (int64_t)m->w * m->h; i++) {
        float v = decode_at(part, f, base + i / m->w * m->y + i % m->w * m->x);
        if (v > most) {
            most = v;
            best = i;
        }
    }
    int x = (int)(best % m->w), y = (int)(best / m->w);
    int64_t at = base + y * m->y + x * m->x;
    float dx = x > 0 && x < m->w - 1 ? shift(decode_at(part, f, at - m->x), decode_at(part, f, at + m->x)) : 0;
    float dy = y > 0 && y < m->h - 1 ? shift(decode_at(part, f, at - m->y), decode_at(part, f, at + m->y)) : 0;
    float score = d->card->how == TACHY_SCORES_SIGMOID ? decode_sigmoid(most) : most;
    return (struct tachy_point){((float)x + 0.5f + dx) * (float)d->width / (float)m->w,
                                ((float)y + 0.5f + dy) * (float)d->height / (float)m->h, 0, score};
}

int decode_heatmaps_run(tachy_decoder *d, const struct tachy_decoder_frame *f, struct tachy_regions *list)
{
    struct map m = map_of(d);
    struct tachy_point *p = place_for_points(d, list);
    if (!p)
        return TACHY_ERR_NOMEM;
    for (int k = 0; k < m.n; k++)
        p[k] = peak(d, f, &m, k);
    set_points(d, f, p);
    return TACHY_OK;
}

// ---- Classes

static const char *label_of(const struct tachy_decoder *d, int i, struct tachy_regions *list)
{
    if (i < d->card->nb_labels)
        return d->card->labels[i];
    char *text = tachy_regions_alloc(list, 16);
    if (text)
        snprintf(text, 16, "%d", i);
    return text;
}

int decode_classes_run(tachy_decoder *d, const struct tachy_decoder_frame *f, struct tachy_regions *list)
{
    struct tachy_region *r = f->about;
    int n = d->nb_classes, top = TACHY_MIN(d->card->top, n);
    struct tachy_named *v = tachy_regions_alloc(list, sizeof(*v) * (size_t)top);
    if (!v)
        return TACHY_ERR_NOMEM;
    decode_read(&d->part[0], f, 0, n, 1, d->value);
    decode_scores(d->card->how, d->value, n);
    r->values = v;
    r->nb_values = 0;
    for (int k = 0; k < top; k++) {
        int best = 0;
        for (int i = 1; i < n; i++)
            if (d->value[i] > d->value[best])
                best = i;
        float score = d->value[best];
        if (!(score >= d->card->threshold))
            break;
        v[k] = (struct tachy_named){label_of(d, best, list), score};
        if (!v[k].name)
            return TACHY_ERR_NOMEM;
        d->value[best] = -INFINITY;
        r->nb_values = k + 1;
        if (k)
            continue;
        r->class_id = best;
        r->score = score;
        r->label = v[0].name;
    }
    return TACHY_OK;
}

// ---- Vectors

int decode_vector_run(tachy_decoder *d, const struct tachy_decoder_frame *f, struct tachy_regions *list)
{
    int64_t n = d->part[0].cols;
    if (d->card->kind == TACHY_DECODE_SCORE) {
        float v = decode_at(&d->part[0], f, 0);
        f->about->score = d->card->how == TACHY_SCORES_SIGMOID ? decode_sigmoid(v) : v;
        return TACHY_OK;
    }
    float *v = tachy_regions_alloc(list, sizeof(*v) * (size_t)n);
    if (!v)
        return TACHY_ERR_NOMEM;
    decode_read(&d->part[0], f, 0, n, 1, v);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)v[i] * v[i];
    float scale = d->card->kind == TACHY_DECODE_EMBEDDING && sum > 0 ? (float)(1 / sqrt(sum)) : 1;
    for (int64_t i = 0; i < n; i++)
        v[i] *= scale;
    f->about->embedding = v;
    f->about->nb_embedding = (int)n;
    return TACHY_OK;
}
