#include "postprocess/decode_priv.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Opening a decoder: which output is what, and how many rows of how many numbers it has.

void decode_read(const struct decode_part *part, const struct tachy_decoder_frame *f, int64_t first, int64_t n, int64_t step,
                 float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = decode_at(part, f, first + i * step);
}

float decode_sigmoid(float v) { return 1 / (1 + expf(-v)); }

void decode_scores(enum tachy_decoder_scores how, float *v, int n)
{
    float most = v[0], sum = 0;
    for (int i = 1; i < n; i++)
        most = fmaxf(most, v[i]);
    for (int i = 0; i < n; i++) {
        if (how == TACHY_SCORES_SIGMOID)
            v[i] = decode_sigmoid(v[i]);
        else if (how == TACHY_SCORES_SOFTMAX)
            sum += v[i] = expf(v[i] - most);
    }
    for (int i = 0; i < n && how == TACHY_SCORES_SOFTMAX; i++)
        v[i] /= sum;
}

// ---- Opening

// Numbers of the output of this name that one picture has; 0, logged: there is no such output, or it is not
// of `batch` pictures.
static int64_t find_part(const struct tachy_decoder *d, const struct tachy_io *io, int nb_io, const char *name,
                         struct decode_part *part)
{
    int i = 0;
    while (i < nb_io && *name && strcmp(io[i].name, name))
        i++;
    if (i == nb_io || (!*name && nb_io > 1)) {
        tachy_msg(d->log, TACHY_LOG_ERR, *name ? "model %s: its card names the output `%s`, which the model does not have"
                                               : "model %s: has several outputs; give each entry of `outputs` a `name`%s",
                  d->name, name);
        return 0;
    }
    int64_t n = 1;
    for (int k = 0; k < io[i].spec.rank; k++) {
        int64_t extent = io[i].spec.shape[k] < 0 && k == 0 ? d->batch : io[i].spec.shape[k];
        n = extent > 0 && n <= INT32_MAX / extent ? n * extent : 0;
    }
    if (!n || n % d->batch) {
        tachy_msg(d->log, TACHY_LOG_ERR, "model %s: the output `%s` has no fixed shape for %d pictures", d->name,
                  io[i].name, d->batch);
        return 0;
    }
    part->out = i;
    return n / d->batch;
}

static int wrong(const struct tachy_decoder *d, const char *output, const char *fmt, ...) TACHY_PRINTF(3, 4);
static int wrong(const struct tachy_decoder *d, const char *output, const char *fmt, ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return *output ? tachy_fail(d->log, TACHY_ERR_MISMATCH, "model %s: the output `%s` %s", d->name, output, what)
                   : tachy_fail(d->log, TACHY_ERR_MISMATCH, "model %s: its output %s", d->name, what);
}

// The output of this name as `rows` rows.
static int find_rows(const struct tachy_decoder *d, const struct tachy_io *io, int nb_io, const char *name,
                     int64_t rows, struct decode_part *part)
{
    int64_t n = find_part(d, io, nb_io, name, part);
    if (!n)
        return TACHY_ERR_MISMATCH;
    if (n % rows)
        return wrong(d, name, "has %lld numbers a picture, which are no %lld boxes", (long long)n, (long long)rows);
    part->rows = rows;
    part->cols = n / rows;
    return TACHY_OK;
}

static int64_t cells(const struct tachy_decoder *d, int level)
{
    return (int64_t)(d->width / d->card->stride[level]) * (d->height / d->card->stride[level]);
}

static int64_t boxes_of_level(const struct tachy_decoder *d, int level)
{
    return cells(d, level) * TACHY_DEF(d->card->per_cell[level], 1);
}

// Position of each row of a grid: level after level, row after row of cells, then the boxes of a cell.
static int make_cells(struct tachy_decoder *d)
{
    const struct tachy_card_decoder *c = d->card;
    float (*cell)[3] = d->cell = calloc((size_t)d->rows, sizeof(*d->cell));
    if (!cell)
        return TACHY_ERR_NOMEM;
    float centre = c->kind == TACHY_DECODE_SSD ? 0.5f : c->kind == TACHY_DECODE_DISTANCES ? c->centre : 0;
    for (int l = 0; l < c->nb_strides; l++) {
        int w = d->width / c->stride[l], h = d->height / c->stride[l], n = TACHY_DEF(c->per_cell[l], 1);
        // An anchor's centre is that of its cell as a share of the picture, also if strides do not divide it.
        float sx = c->kind == TACHY_DECODE_SSD ? (float)d->width / (float)w : (float)c->stride[l];
        float sy = c->kind == TACHY_DECODE_SSD ? (float)d->height / (float)h : (float)c->stride[l];
        for (int i = 0; i < w * h * n; i++, cell++) {
            (*cell)[0] = ((float)(i / n % w) + centre) * sx;
            (*cell)[1] = ((float)(i / n / w) + centre) * sy;
            (*cell)[2] = (float)c->stride[l];
        }
    }
    return TACHY_OK;
}

// Rows of boxes that are not on a grid: the model's shape says how many.
static int64_t free_rows(const struct tachy_decoder *d, const struct tachy_io *io, int nb_io)
{
    struct decode_part p;
    int64_t n = find_part(d, io, nb_io, d->card->output[0], &p);
    if (!n)
        return 0;
    const struct tachy_tensor *t = &io[p.out].spec;
    int64_t last = t->shape[t->rank - 1];
    if (d->card->kind == TACHY_DECODE_YOLO && d->card->columns)
        return last;
    return n / last;
}

static int find_levels(struct tachy_decoder *d, const struct tachy_io *io, int nb_io)
{
    const struct tachy_card_decoder *c = d->card;
    int64_t total = 0;
    for (int l = 0; l < c->nb_strides; l++)
        total += boxes_of_level(d, l);
    if (!c->nb_strides)
        total = free_rows(d, io, nb_io);
    if (total < 1 || total > 1 << 22)
        return wrong(d, c->output[0], "has no boxes, or more than four million");
    d->rows = total;
    for (int l = 0; l < c->levels; l++) {
        int64_t rows = c->levels > 1 ? boxes_of_level(d, l) : total;
        int err = find_rows(d, io, nb_io, c->output[l], rows, &d->part[l]);
        if (err == TACHY_OK && c->scores[l])
            err = find_rows(d, io, nb_io, c->scores[l], rows, &d->scores[l]);
        if (err == TACHY_OK && c->points[l])
            err = find_rows(d, io, nb_io, c->points[l], rows, &d->points[l]);
        if (err < 0)
            return err;
        if (c->scores[l] && l && d->scores[l].cols != d->scores[0].cols)
            return wrong(d, c->scores[l], "has not as many classes as `%s`", c->scores[0]);
    }
    return TACHY_OK;
}

// Numbers of a row besides the classes' scores.
static int fixed_cols(const struct tachy_card_decoder *c)
{
    bool own = c->kind == TACHY_DECODE_YOLOX || (c->kind == TACHY_DECODE_YOLO && c->objectness);
    int points = c->points[0] || c->kind == TACHY_DECODE_CORNERS || c->kind == TACHY_DECODE_DETR ? 0 : 2 * c->nb_points;
    return 4 + own + points;
}

static int check_cols(struct tachy_decoder *d)
{
    const struct tachy_card_decoder *c = d->card;
    bool inside = c->kind == TACHY_DECODE_YOLOX || c->kind == TACHY_DECODE_YOLO;
    int64_t classes = inside ? d->part[0].cols - fixed_cols(c) : d->scores[0].cols;
    if (classes < 1 || classes > 1 << 20 || (!inside && d->part[0].cols < fixed_cols(c)))
        return wrong(d, c->output[0], "has %lld numbers a box; its card wants %d%s", (long long)d->part[0].cols,
                     fixed_cols(c), inside ? " and a score for each class" : "");
    if (c->points[0] && d->points[0].cols < 2 * c->nb_points)
        return wrong(d, c->points[0], "has no %d points a box", c->nb_points);
    bool background = c->how == TACHY_SCORES_SOFTMAX && c->nothing != INT_MAX;
    if (c->nb_labels && c->kind != TACHY_DECODE_CORNERS && c->nb_labels != (int)classes - background)
        return wrong(d, inside ? c->output[0] : c->scores[0], "has %lld classes, but the card or --labels names %d",
                     (long long)classes - background, c->nb_labels);
    d->nb_classes = (int)classes;
    return TACHY_OK;
}

static int open_boxes(struct tachy_decoder *d, const struct tachy_io *io, int nb_io)
{
    const struct tachy_card_decoder *c = d->card;
    int err = find_levels(d, io, nb_io);
    if (err == TACHY_OK)
        err = check_cols(d);
    if (err == TACHY_OK && *c->classes)
        err = find_rows(d, io, nb_io, c->classes, d->rows, &d->classes);
    if (err == TACHY_OK && *c->count)
        err = find_rows(d, io, nb_io, c->count, 1, &d->count);
    if (err == TACHY_OK && c->nb_strides)
        err = make_cells(d);
    if (err < 0)
        return err;
    struct decode_boxes *f = &d->found;
    size_t n = (size_t)d->rows;
    f->box = calloc(n, sizeof(*f->box));
    f->score = calloc(n, sizeof(*f->score));
    f->class_id = calloc(n, sizeof(*f->class_id));
    f->row = calloc(n, sizeof(*f->row));
    f->kept = calloc(n, sizeof(*f->kept));
    f->order = calloc(n, sizeof(*f->order));
    d->spot = calloc((size_t)c->nb_points + 1, sizeof(*d->spot));
    d->value = calloc((size_t)d->nb_classes, sizeof(*d->value));
    return f->box && f->score && f->class_id && f->row && f->kept && f->order && d->spot && d->value
               ? TACHY_OK : TACHY_ERR_NOMEM;
}

// The maps that points are moved by: [height][width][point].
static int open_maps(struct tachy_decoder *d, const struct tachy_io *io, int nb_io)
{
    const char *name = d->card->scores[0];
    int64_t n = find_part(d, io, nb_io, name, &d->scores[0]);
    if (!n)
        return TACHY_ERR_MISMATCH;
    const struct tachy_tensor *t = &io[d->scores[0].out].spec;
    if (t->rank < 3 || t->shape[t->rank - 1] != d->card->nb_points || t->shape[t->rank - 3] < 1)
        return wrong(d, name, "has no map for each of the card's %d points", d->card->nb_points);
    d->scores[0].rows = t->shape[t->rank - 3];
    d->scores[0].cols = n / d->scores[0].rows;
    return TACHY_OK;
}

// Opens the kinds other than boxes: they have one output; points may have maps as well.
static int open_other(struct tachy_decoder *d, const struct tachy_io *io, int nb_io)
{
    const struct tachy_card_decoder *c = d->card;
    int64_t n = find_part(d, io, nb_io, c->output[0], &d->part[0]), unit = 1;
    if (!n)
        return TACHY_ERR_MISMATCH;
    if (c->kind == TACHY_DECODE_POINTS)
        unit = (int64_t)c->nb_points * (int64_t)strlen(c->order);
    else if (c->kind == TACHY_DECODE_HEATMAPS)
        unit = c->nb_points;
    const struct tachy_tensor *t = &io[d->part[0].out].spec;
    int64_t maps = t->rank < 3 ? 0 : t->shape[c->layout == TACHY_NCHW ? t->rank - 3 : t->rank - 1];
    if (n < unit || (c->kind == TACHY_DECODE_HEATMAPS && maps != unit))
        return wrong(d, c->output[0], "has no %d points of the card", c->nb_points);
    if (c->kind == TACHY_DECODE_CLASSES && c->nb_labels && c->nb_labels != n)
        return wrong(d, c->output[0], "has %lld classes, but the card or --labels names %d", (long long)n, c->nb_labels);
    d->nb_classes = (int)n;
    d->part[0].rows = c->kind == TACHY_DECODE_HEATMAPS ? t->shape[t->rank - (c->layout == TACHY_NCHW ? 2 : 3)] : 1;
    d->part[0].cols = n / d->part[0].rows;
    d->spot = calloc((size_t)c->nb_points + 1, sizeof(*d->spot));
    d->value = calloc((size_t)n, sizeof(*d->value));
    if (!d->spot || !d->value)
        return TACHY_ERR_NOMEM;
    return c->kind == TACHY_DECODE_POINTS && c->scores[0] ? open_maps(d, io, nb_io) : TACHY_OK;
}

int tachy_decoder_open(tachy_decoder **out, const struct tachy_card *card, const struct tachy_card_decoder *decoder,
                      const struct tachy_io *io, int nb_io, int batch, const struct tachy_log *log)
{
    struct tachy_decoder *d = *out = calloc(1, sizeof(*d));
    if (!d)
        return TACHY_ERR_NOMEM;
    *d = (struct tachy_decoder){.card = decoder, .name = card->name, .width = card->in.width, .height = card->in.height,
                               .batch = batch, .classes.out = -1, .count.out = -1, .log = log};
    int err = decode_is_boxes(decoder->kind) ? open_boxes(d, io, nb_io) : open_other(d, io, nb_io);
    if (err < 0)
        tachy_decoder_close(out);
    return err;
}

void tachy_decoder_close(tachy_decoder **out)
{
    struct tachy_decoder *d = *out;
    *out = NULL;
    if (!d)
        return;
    free(d->cell);
    free(d->found.box);
    free(d->found.score);
    free(d->found.class_id);
    free(d->found.row);
    free(d->found.kept);
    free(d->found.order);
    free(d->spot);
    free(d->value);
    free(d);
}

int tachy_decoder_run(tachy_decoder *d, const struct tachy_decoder_frame *f, struct tachy_regions *list)
{
    switch (d->card->kind) {
    case TACHY_DECODE_POINTS: return decode_points_run(d, f, list);
    case TACHY_DECODE_HEATMAPS: return decode_heatmaps_run(d, f, list);
    case TACHY_DECODE_CLASSES: return decode_classes_run(d, f, list);
    case TACHY_DECODE_EMBEDDING:
    case TACHY_DECODE_SCORE:
    case TACHY_DECODE_RAW: return decode_vector_run(d, f, list);
    default: return decode_boxes_run(d, f, list);
    }
}
