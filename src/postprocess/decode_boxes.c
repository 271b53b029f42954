#include "postprocess/decode_priv.h"

#include "ref/ref_nms.h"

#include <limits.h>
#include <math.h>

// Rows of numbers -> boxes with a score and a class -> the best of those that overlap.

// Level of a row, whose number within it remains.
static int level_of(const struct tachy_decoder *d, const struct decode_part *parts, int64_t *row)
{
    int l = 0;
    while (l + 1 < d->card->levels && *row >= parts[l].rows)
        *row -= parts[l++].rows;
    return l;
}

// Number k of a row.
static float number(const struct tachy_decoder *d, const struct decode_part *parts, const struct tachy_decoder_frame *f,
                    int64_t row, int64_t k)
{
    int l = level_of(d, parts, &row);
    const struct decode_part *p = &parts[l];
    if (d->card->kind == TACHY_DECODE_YOLO && d->card->columns)
        return decode_at(p, f, k * p->rows + row);
    return decode_at(p, f, row * p->cols + k);
}

struct best {
    float score;
    int class_id;
};

static bool is_nothing(const struct tachy_decoder *d, int i)
{
    int nothing = d->card->nothing;
    return nothing != INT_MAX && i == (nothing < 0 ? d->nb_classes + nothing : nothing);
}

// The best class among d->value.
static struct best best_class(const struct tachy_decoder *d)
{
    struct best b = {-1, -1};
    int number = 0;
    for (int i = 0; i < d->nb_classes; i++) {
        if (is_nothing(d, i))
            continue;
        if (d->value[i] > b.score)
            b = (struct best){d->value[i], number};
        number++;
    }
    return b;
}

// Scores of a row's classes, from number `first` of `parts` on.
static struct best score_row(struct tachy_decoder *d, const struct decode_part *parts, const struct tachy_decoder_frame *f,
                             int64_t row, int first)
{
    for (int i = 0; i < d->nb_classes; i++)
        d->value[i] = number(d, parts, f, row, first + i);
    decode_scores(d->card->how, d->value, d->nb_classes);
    return best_class(d);
}

static float objectness(const struct tachy_decoder *d, const struct tachy_decoder_frame *f, int64_t row)
{
    float v = number(d, d->part, f, row, 4);
    return d->card->how == TACHY_SCORES_SIGMOID ? decode_sigmoid(v) : v;
}

static struct best score_of(struct tachy_decoder *d, const struct tachy_decoder_frame *f, int64_t row)
{
    const struct tachy_card_decoder *c = d->card;
    bool object = c->kind == TACHY_DECODE_YOLOX || (c->kind == TACHY_DECODE_YOLO && c->objectness);
    if (!object && c->kind != TACHY_DECODE_YOLO)
        return score_row(d, d->scores, f, row, 0);
    float o = object ? objectness(d, f, row) : 1;
    if (!(o >= c->threshold)) // no class can make it better
        return (struct best){-1, -1};
    struct best b = score_row(d, d->part, f, row, 4 + object);
    b.score *= o;
    return b;
}

// x, y, w, h of a centre and its extents, in pixels -> x0, y0, x1, y1.
static void from_centre(float x, float y, float w, float h, float box[4])
{
    box[0] = x - w / 2;
    box[1] = y - h / 2;
    box[2] = x + w / 2;
    box[3] = y + h / 2;
}

// Offsets from an anchor, x and y, as pixels.
static void anchored(const struct tachy_decoder *d, int64_t row, float x, float y, float *px, float *py)
{
    const struct tachy_card_decoder *c = d->card;
    *px = x / c->scale[0] * c->anchor[0] * (float)d->width + d->cell[row][0];
    *py = y / c->scale[1] * c->anchor[1] * (float)d->height + d->cell[row][1];
}

static void ssd_box(const struct tachy_decoder *d, int64_t row, const float v[4], float box[4])
{
    const struct tachy_card_decoder *c = d->card;
    float x, y, w = v[2 + c->yx] / c->scale[2], h = v[3 - c->yx] / c->scale[3];
    anchored(d, row, v[c->yx], v[!c->yx], &x, &y);
    w = (c->exponent ? expf(w) : w) * c->anchor[0] * (float)d->width;
    h = (c->exponent ? expf(h) : h) * c->anchor[1] * (float)d->height;
    from_centre(x, y, w, h, box);
}

static void box_of(const struct tachy_decoder *d, const struct tachy_decoder_frame *f, int64_t row, float box[4])
{
    const struct tachy_card_decoder *c = d->card;
    const float *cell = d->cell ? d->cell[row] : NULL, w = (float)d->width, h = (float)d->height;
    float v[4];
    for (int i = 0; i < 4; i++)
        v[i] = number(d, d->part, f, row, i);
    switch (c->kind) {
    case TACHY_DECODE_YOLOX:
        from_centre(v[0] * cell[2] + cell[0], v[1] * cell[2] + cell[1], expf(v[2]) * cell[2], expf(v[3]) * cell[2], box);
        break;
    case TACHY_DECODE_SSD: ssd_box(d, row, v, box); break;
    case TACHY_DECODE_DISTANCES:
        for (int i = 0; i < 4; i++)
            box[i] = cell[i & 1] + (i < 2 ? -v[i] : v[i]) * cell[2];
        break;
    case TACHY_DECODE_CORNERS:
        for (int i = 0; i < 4; i++)
            box[i] = v[i ^ c->yx] * (i & 1 ? h : w);
        break;
    default: { // YOLO, DETR
        bool shares = c->kind == TACHY_DECODE_DETR || c->shares;
        float sx = shares ? w : 1, sy = shares ? h : 1;
        from_centre(v[0] * sx, v[1] * sy, v[2] * sx, v[3] * sy, box);
    }
    }
}

static bool sane(const float box[4])
{
    for (int i = 0; i < 4; i++)
        if (!(fabsf(box[i]) <= 1e7f)) // also NaN
            return false;
    return box[2] > box[0] && box[3] > box[1];
}

static int64_t rows_given(const struct tachy_decoder *d, const struct tachy_decoder_frame *f)
{
    if (d->count.out < 0)
        return d->rows;
    float n = decode_at(&d->count, f, 0);
    return n > 0 ? TACHY_MIN((int64_t)fminf(n, 1e9f), d->rows) : 0;
}

static void find(struct tachy_decoder *d, const struct tachy_decoder_frame *f)
{
    struct decode_boxes *b = &d->found;
    int64_t rows = rows_given(d, f);
    b->nb = 0;
    for (int64_t row = 0; row < rows; row++) {
        struct best best = score_of(d, f, row);
        if (!(best.score >= d->card->threshold))
            continue;
        box_of(d, f, row, b->box[b->nb]);
        if (!sane(b->box[b->nb]))
            continue;
        if (d->classes.out >= 0)
            best.class_id = (int)TACHY_CLAMP(decode_at(&d->classes, f, row), 0.0f, 1e6f);
        b->score[b->nb] = best.score;
        b->class_id[b->nb] = best.class_id;
        b->row[b->nb++] = row;
    }
}

// ---- Points of a box

static void read_point(const struct tachy_decoder *d, const struct tachy_decoder_frame *f, int64_t row, int i,
                       struct tachy_point *p)
{
    const struct tachy_card_decoder *c = d->card;
    bool apart = c->points[0];
    const struct decode_part *parts = apart ? d->points : d->part;
    int first = (apart ? 0 : 4) + 2 * i;
    float x = number(d, parts, f, row, first + c->yx), y = number(d, parts, f, row, first + !c->yx);
    *p = (struct tachy_point){.score = 1};
    if (c->kind == TACHY_DECODE_SSD)
        anchored(d, row, x, y, &p->x, &p->y);
    else
        *p = (struct tachy_point){d->cell[row][0] + x * d->cell[row][2], d->cell[row][1] + y * d->cell[row][2], 0, 1};
}

// ---- Regions

// The weighted mean of a box and of those that it hides, and of their points.
static void blend(struct tachy_decoder *d, const struct tachy_decoder_frame *f, int best, float box[4])
{
    const struct decode_boxes *b = &d->found;
    double sum = 0, mean[4] = {0};
    int n = d->card->nb_points;
    struct tachy_point p;
    memset(d->spot, 0, (size_t)(n + 1) * sizeof(*d->spot));
    for (int i = 0; i < b->nb; i++) {
        bool same = d->card->agnostic || b->class_id[i] == b->class_id[best];
        if (i != best && !(same && b->score[i] <= b->score[best] &&
                           tachy_ref_overlap(b->box[best], b->box[i], d->card->overlap)))
            continue;
        float s = b->score[i];
        sum += s;
        for (int k = 0; k < 4; k++)
            mean[k] += (double)s * b->box[i][k];
        for (int k = 0; k < n; k++) {
            read_point(d, f, b->row[i], k, &p);
            d->spot[k].x += s * p.x;
            d->spot[k].y += s * p.y;
        }
    }
    for (int k = 0; k < 4; k++)
        box[k] = (float)(mean[k] / sum);
    for (int k = 0; k < n; k++)
        d->spot[k] = (struct tachy_point){(float)(d->spot[k].x / sum), (float)(d->spot[k].y / sum), 0, 1};
}

// The square around one point whose upper edge another one is on.
static void set_around(struct tachy_region *r, const struct tachy_point *middle, const struct tachy_point *above)
{
    double dx = above->x - middle->x, dy = above->y - middle->y;
    r->x = middle->x;
    r->y = middle->y;
    r->w = r->h = 2 * hypot(dx, dy);
    r->angle = atan2(dx, -dy) * 180 / 3.14159265358979323846;
}

static int add_region(struct tachy_decoder *d, const struct tachy_decoder_frame *f, int i, struct tachy_regions *list)
{
    const struct tachy_card_decoder *c = d->card;
    const struct decode_boxes *b = &d->found;
    float box[4];
    memcpy(box, b->box[i], sizeof(box));
    if (c->blend)
        blend(d, f, i, box);
    for (int k = 0; k < c->nb_points && !c->blend; k++)
        read_point(d, f, b->row[i], k, &d->spot[k]);
    struct tachy_region *r = tachy_regions_add(list);
    struct tachy_point *p = c->nb_points ? tachy_regions_alloc(list, sizeof(*p) * (size_t)c->nb_points) : NULL;
    if (!r || (c->nb_points && !p))
        return TACHY_ERR_NOMEM;
    r->x = (box[0] + box[2]) / 2;
    r->y = (box[1] + box[3]) / 2;
    r->w = box[2] - box[0];
    r->h = box[3] - box[1];
    r->score = b->score[i];
    r->class_id = b->class_id[i];
    r->label = r->class_id < c->nb_labels ? c->labels[r->class_id] : NULL;
    if (c->around[0] != c->around[1])
        set_around(r, &d->spot[c->around[0]], &d->spot[c->around[1]]);
    tachy_region_to_frame(r, f->map);
    if (p) {
        memcpy(p, d->spot, sizeof(*p) * (size_t)c->nb_points);
        tachy_points_to_frame(p, c->nb_points, f->map);
        r->points = p;
        r->nb_points = c->nb_points;
    }
    return TACHY_OK;
}

int decode_boxes_run(tachy_decoder *d, const struct tachy_decoder_frame *f, struct tachy_regions *list)
{
    struct decode_boxes *b = &d->found;
    int before = list->nb, err = TACHY_OK;
    find(d, f);
    int n = tachy_suppress(b->kept, b->box, b->score, d->card->agnostic ? NULL : b->class_id, b->nb,
                           d->card->overlap, TACHY_MIN(d->card->limit, b->nb), b->order);
    for (int i = 0; i < n && err == TACHY_OK; i++)
        err = add_region(d, f, b->kept[i], list);
    if (err < 0)
        list->nb = before;
    return err;
}
