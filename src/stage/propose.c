#include "postprocess/bounds.h"
#include "postprocess/decode.h"
#include "postprocess/logits.h"
#include "stage/prompter.h"
#include "stage/stages.h"

#include "base/parse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Masks of all that a picture shows, or of what points and boxes in it are of: an encoder sees the picture once, and a second
// network makes masks of many prompts a run. Without prompts there is a grid of points. Its masks are kept if the network thinks
// them good, if they stay nearly the same at other thresholds, and if no better one has the same box (Kirillov et al. 2023; Ravi et
// al. 2024).

enum { MOST_POINTS = 16, MOST_LAYERS = 4, POSITIVE = 1, CORNER = 2, NO_POINT = -1, NAMED = 2 };
static const float NEAR_EDGE = 20; // pixels from a crop's edge at which a mask is cut off by it

struct given_point {
    double x, y;
    bool percent[2];
    int label;
};

struct propose {
    struct tachy_infer net, finder;
    struct given_point point[MOST_POINTS];
    struct tachy_garbage_rect *box;
    int nb_points, nb_boxes;
    bool finds, asked; // a detector's boxes are prompts; there are prompts at all
    int side, layers, shrink, batch, mend;
    float good, stable, offset, same, same_crops, overlap;
    int rotation;
    bool flip;
};

// A prompt in a crop, in shares of the picture as stored.
struct ask {
    double at[MOST_POINTS + 2][2];
    int label[MOST_POINTS + 2], nb;
    const struct tachy_region *of; // that a detector found; NULL: nobody did
};

// A mask that has passed, with what it is painted from.
struct found {
    struct tachy_logits_counts c; // in its crop
    float *part;
    struct tachy_logits at;
    float score, stability;
    struct ask ask;
    int crop;
};

struct crop {
    struct tachy_rect r;
    int layer;
    struct tachy_logits_axis x, y;
};

struct worker {
    struct tachy_net_worker encoder, finder;
    struct prompter prompter;
    struct found *found, *sorted;
    struct crop *crop;
    int nb_found, room, nb_crops;
    int width, height;  // of the frame that the crops are of
    float *turned, *row; // a map as stored; a row of one
    int32_t *scratch;
    struct tachy_regions boxes;
    // For suppression, `room` of each.
    float (*box)[4], *score;
    int32_t *kept, *order;
};

static const struct tachy_option options[] = {
    {"masks.points_per_side", "points-per-side", 0, TACHY_OPT_INT, "32", .min = 1, .max = 256, .group = "Masks",
     .help = "the grid of points without prompts: so many along a side"},
    {"masks.point", "point", 0, TACHY_OPT_LIST, .arg = "X,Y[,0|1]", .group = "Masks",
     .help = "a point of what is wanted (1) or not (0), in pixels of the shown picture or with % in percent; all are of one thing"},
    {"masks.box", "box", 0, TACHY_OPT_LIST, .arg = "X,Y,W,H", .group = "Masks",
     .help = "a box around a thing; given again adds one. The points say more of a single box"},
    {"masks.find", "find", 0, TACHY_OPT_STRING, .arg = "NAME|FILE", .group = "Masks",
     .help = "masks of what this detector finds, by its boxes: a model card, as detect's"},
    {"masks.pred_iou_thresh", "pred-iou-thresh", 0, TACHY_OPT_FLOAT, "0.8", .max = 1, .group = "Masks",
     .help = "the grid's masks stay if the network says that they are better than this"},
    {"masks.stability_score_thresh", "stability-score-thresh", 0, TACHY_OPT_FLOAT, "0.95", .max = 1, .group = "Masks",
     .help = "and if they have so much in common at a higher and a lower threshold"},
    {"masks.stability_score_offset", "stability-score-offset", 0, TACHY_OPT_FLOAT, "1", .max = 30, .group = "Masks",
     .help = "by how much the thresholds of the logits are higher and lower"},
    {"masks.box_nms_thresh", "box-nms-thresh", 0, TACHY_OPT_FLOAT, "0.7", .max = 1, .group = "Masks",
     .help = "of two masks whose boxes overlap by more the one with the lower score goes"},
    {"masks.crop_n_layers", "crop-n-layers", 0, TACHY_OPT_INT, "0", .max = MOST_LAYERS, .group = "Masks",
     .help = "layers of crops that are looked at as well: of 4 crops, of 16 and so on"},
    {"masks.crop_nms_thresh", "crop-nms-thresh", 0, TACHY_OPT_FLOAT, "0.7", .max = 1, .group = "Masks",
     .help = "as --box-nms-thresh, between crops; the smaller crop's mask stays"},
    {"masks.crop_overlap_ratio", "crop-overlap-ratio", 0, TACHY_OPT_FLOAT, "0.3413", .max = 0.9, .group = "Masks",
     .help = "by how much the crops of the first layer overlap, as a share of the shorter side; half of it in the next"},
    {"masks.crop_n_points_downscale_factor", "crop-points-downscale", 0, TACHY_OPT_INT, "1", .min = 1, .max = 16, .group = "Masks",
     .help = "the grid has so many times fewer points along a side in each layer than in the one before"},
    {"masks.min_mask_region_area", "min-mask-region-area", 0, TACHY_OPT_INT, "0", .max = 1e6, .group = "Masks",
     .help = "holes and islands up to so many pixels of the network's masks are closed"},
    {"masks.sam2_batch", "sam2-batch", 0, TACHY_OPT_INT, "64", .min = 1, .max = 1024, .group = "Masks",
     .help = "prompts that the second network takes in a run"},
    // Also what curate reads: its quick look is a quick look at masks as well.
    {"curate.fast_mode", "fast-mode", 0, TACHY_OPT_BOOL, "no", .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "a quick look: masks of 8 points along a side, by the smaller network if the card names one; of curate every third frame, "
             "unless --every-nth says another"},
    {0},
};

// ---- What is asked for

// "12", "50%".
static bool parse_place(const char *text, double *v, bool *percent)
{
    char number[32];
    size_t n = strlen(text);
    *percent = n && text[n - 1] == '%';
    snprintf(number, sizeof(number), "%.*s", (int)(n - *percent), text);
    return n < sizeof(number) && tachy_parse_float(number, v) && *v >= 0;
}

static bool parse_point(const char *text, struct given_point *p)
{
    char part[3][32] = {"", "", "1"};
    int n = 0;
    for (const char *at = text;; at++) {
        size_t size = strcspn(at, ",");
        if (n == 3 || size >= sizeof(part[n]))
            return false;
        snprintf(part[n++], sizeof(part[0]), "%.*s", (int)size, at);
        at += size;
        if (!*at)
            break;
    }
    p->label = part[2][0] - '0';
    return n >= 2 && strlen(part[2]) == 1 && (p->label == 0 || p->label == POSITIVE) && parse_place(part[0], &p->x, &p->percent[0]) &&
           parse_place(part[1], &p->y, &p->percent[1]);
}

static int read_prompts(struct propose *p, const tachy_settings *s, const struct tachy_log *log)
{
    const char *const *texts;
    size_t n = tachy_settings_list(s, "masks.point", &texts);
    if (n > MOST_POINTS)
        return tachy_fail(log, TACHY_ERR_INVAL, "--point: %zu points are too many; give up to %d", n, MOST_POINTS);
    for (size_t i = 0; i < n; i++)
        if (!parse_point(texts[i], &p->point[p->nb_points++]))
            return tachy_fail(log, TACHY_ERR_INVAL, "--point: \"%.100s\" is no point X,Y or X,Y,0 (200,50%%,1)", texts[i]);
    n = tachy_settings_list(s, "masks.box", &texts);
    p->box = calloc(n + 1, sizeof(*p->box));
    if (!p->box)
        return TACHY_ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        if (!tachy_garbage_parse(texts[i], &p->box[p->nb_boxes++]))
            return tachy_fail(log, TACHY_ERR_INVAL, "--box: \"%.100s\" is no rectangle X,Y,W,H with an area (10%%,0,20%%,15%%)", texts[i]);
    if (p->nb_points && (p->nb_boxes > 1 || p->finds))
        return tachy_fail(log, TACHY_ERR_INVAL, "--point: goes alone or with one --box, which it says more of");
    p->asked = p->nb_points || p->nb_boxes || p->finds;
    return TACHY_OK;
}

static int read_settings(struct propose *p, const tachy_settings *s, const struct tachy_log *log)
{
    bool fast = tachy_settings_bool(s, "curate.fast_mode") && !tachy_settings_is_set(s, "masks.points_per_side");
    p->side = fast ? 8 : (int)tachy_settings_int(s, "masks.points_per_side");
    p->layers = (int)tachy_settings_int(s, "masks.crop_n_layers");
    p->shrink = (int)tachy_settings_int(s, "masks.crop_n_points_downscale_factor");
    p->batch = (int)tachy_settings_int(s, "masks.sam2_batch");
    p->mend = (int)tachy_settings_int(s, "masks.min_mask_region_area");
    p->good = (float)tachy_settings_float(s, "masks.pred_iou_thresh");
    p->stable = (float)tachy_settings_float(s, "masks.stability_score_thresh");
    p->offset = (float)tachy_settings_float(s, "masks.stability_score_offset");
    p->same = (float)tachy_settings_float(s, "masks.box_nms_thresh");
    p->same_crops = (float)tachy_settings_float(s, "masks.crop_nms_thresh");
    p->overlap = (float)tachy_settings_float(s, "masks.crop_overlap_ratio");
    p->finds = tachy_settings_is_set(s, "masks.find");
    return read_prompts(p, s, log);
}

// The network of the settings, or with --fast-mode the smaller one that its card names.
static int open_network(struct tachy_stage *st, const tachy_settings *s)
{
    struct propose *p = tachy_stage_priv(st);
    struct tachy_net_params named = {.name = tachy_settings_str(s, "model.name"), .card = tachy_settings_str(s, "model.card"),
                                     .task = "masks"};
    int err = tachy_net_open_model(&p->net, st, &named, s);
    const char *smaller = err == TACHY_OK && tachy_settings_bool(s, "curate.fast_mode") ? p->net.net[TACHY_INFER_FULL].card->smaller : "";
    char *name = *smaller ? strdup(smaller) : NULL;
    if (name) {
        infer_free(&p->net);
        p->net = (struct tachy_infer){0};
        named.name = name;
        named.card = NULL;
        err = tachy_net_open_model(&p->net, st, &named, s);
    }
    free(name);
    return err < 0 ? err : infer_open_first(&p->net);
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct propose *p = tachy_stage_priv(st);
    int err = read_settings(p, s, st->task->log);
    if (err == TACHY_OK)
        err = open_network(st, s);
    if (err == TACHY_OK && p->finds)
        err = tachy_net_open(&p->finder, st, &(struct tachy_net_params){.name = tachy_settings_str(s, "masks.find"), .task = "detect"}, s);
    if (err == TACHY_OK)
        infer_describe(&p->net);
    return err;
}

static void close(struct tachy_stage *st)
{
    struct propose *p = tachy_stage_priv(st);
    infer_free(&p->net);
    infer_free(&p->finder);
    free(p->box);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct propose *p = tachy_stage_priv(st);
    p->rotation = video->rotation;
    p->flip = video->flipped;
    return TACHY_OK;
}

// ---- Workers

static void forget_found(struct worker *w, int from)
{
    for (int i = from; i < w->nb_found; i++)
        free(w->found[i].part);
    w->nb_found = from;
}

static void close_crops(struct worker *w)
{
    for (int i = 0; i < w->nb_crops; i++) {
        tachy_logits_axis_close(&w->crop[i].x);
        tachy_logits_axis_close(&w->crop[i].y);
    }
    free(w->crop);
    w->crop = NULL;
    w->nb_crops = 0;
}

static void worker_close(void *worker)
{
    struct worker *w = worker;
    forget_found(w, 0);
    close_crops(w);
    prompter_close(&w->prompter);
    tachy_net_worker_close(&w->encoder);
    tachy_net_worker_close(&w->finder);
    tachy_regions_free(&w->boxes);
    void *own[] = {w->found, w->sorted, w->turned, w->row, w->scratch, w->box, w->score, w->kept, w->order, w};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(own); i++)
        free(own[i]);
}

static int open_networks(struct propose *p, struct worker *w)
{
    int err = tachy_net_worker_open(&w->encoder, &p->net);
    if (err == TACHY_OK && p->finds)
        err = tachy_net_worker_open(&w->finder, &p->finder);
    const struct prompter_params of = {.net = &p->net, .encoder = &w->encoder,
                                       .batch = p->asked && !p->finds ? TACHY_MAX(p->nb_boxes, 1) : p->batch,
                                       .points = p->asked ? p->nb_points + 2 : 1};
    return err < 0 ? err : prompter_open(&w->prompter, &of);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct worker *w = *worker = calloc(1, sizeof(*w));
    int err = w ? open_networks(tachy_stage_priv(st), w) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK) {
        size_t size = (size_t)w->prompter.width * (size_t)w->prompter.height;
        w->turned = malloc(size * sizeof(*w->turned));
        w->row = malloc((size_t)TACHY_MAX(w->prompter.width, w->prompter.height) * sizeof(*w->row));
        w->scratch = malloc(2 * size * sizeof(*w->scratch));
        err = w->turned && w->row && w->scratch ? TACHY_OK : TACHY_ERR_NOMEM;
    }
    if (err < 0 && w) {
        worker_close(w);
        *worker = NULL;
    }
    return err;
}

static bool grow(void *array, size_t n, size_t size)
{
    void *p, *more;
    memcpy(&p, array, sizeof(p));
    more = realloc(p, n * size);
    if (more)
        memcpy(array, &more, sizeof(more));
    return more;
}

static int make_room(struct worker *w)
{
    size_t room = (size_t)TACHY_MAX(2 * w->room, 64);
    if (w->nb_found < w->room)
        return TACHY_OK;
    if (!grow(&w->found, room, sizeof(*w->found)) || !grow(&w->sorted, room, sizeof(*w->sorted)) || !grow(&w->box, room, sizeof(*w->box)) ||
        !grow(&w->score, room, sizeof(*w->score)) || !grow(&w->kept, room, sizeof(*w->kept)) ||
        !grow(&w->order, room, sizeof(*w->order)))
        return TACHY_ERR_NOMEM;
    w->room = (int)room;
    return TACHY_OK;
}

// ---- Crops

static int add_crop(struct propose *p, struct worker *w, struct tachy_rect r, int layer)
{
    struct crop *more = realloc(w->crop, ((size_t)w->nb_crops + 1) * sizeof(*more));
    if (!more)
        return TACHY_ERR_NOMEM;
    bool side = p->rotation == 90 || p->rotation == 270;
    w->crop = more;
    struct crop *c = &w->crop[w->nb_crops++];
    *c = (struct crop){.r = r, .layer = layer};
    int err = tachy_logits_axis_open(&c->x, side ? w->prompter.height : w->prompter.width, r.w);
    return err < 0 ? err : tachy_logits_axis_open(&c->y, side ? w->prompter.width : w->prompter.height, r.h);
}

static int add_layer(struct propose *p, struct worker *w, int layer)
{
    int n = 1 << layer, overlap = (int)((double)p->overlap * TACHY_MIN(w->width, w->height) * 2 / n), err = TACHY_OK;
    int cw = (overlap * (n - 1) + w->width + n - 1) / n, ch = (overlap * (n - 1) + w->height + n - 1) / n;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n && err == TACHY_OK; k++) {
            struct tachy_rect r = {(cw - overlap) * i, (ch - overlap) * k, cw, ch};
            r.w = TACHY_MIN(r.w, w->width - r.x);
            r.h = TACHY_MIN(r.h, w->height - r.y);
            err = r.w > 0 && r.h > 0 ? add_crop(p, w, r, layer) : TACHY_OK;
        }
    return err;
}

static int make_crops(struct propose *p, struct worker *w, const tachy_frame *f)
{
    if (w->nb_crops && w->width == f->width && w->height == f->height)
        return TACHY_OK;
    close_crops(w);
    w->width = f->width;
    w->height = f->height;
    int err = add_crop(p, w, (struct tachy_rect){0, 0, f->width, f->height}, 0);
    for (int layer = 1; layer <= p->layers && !p->asked && err == TACHY_OK; layer++)
        err = add_layer(p, w, layer);
    return err;
}

// ---- Prompts

// From shares of the picture as shown to shares of it as stored.
static void to_stored(const struct propose *p, double x, double y, double to[2])
{
    x = p->flip ? 1 - x : x;
    to[0] = p->rotation == 90 ? y : p->rotation == 180 ? 1 - x : p->rotation == 270 ? 1 - y : x;
    to[1] = p->rotation == 90 ? 1 - x : p->rotation == 180 ? 1 - y : p->rotation == 270 ? x : y;
}

// And back, in pixels of the encoder's picture.
static void to_seen(const struct propose *p, const double at[2], float to[2])
{
    const struct tachy_preprocess_params *in = &p->net.net[TACHY_INFER_FULL].card->in;
    double x = at[0], y = at[1];
    double u = p->rotation == 90 ? 1 - y : p->rotation == 180 ? 1 - x : p->rotation == 270 ? y : x;
    double v = p->rotation == 90 ? x : p->rotation == 180 ? 1 - y : p->rotation == 270 ? 1 - x : y;
    to[0] = (float)((p->flip ? 1 - u : u) * in->width);
    to[1] = (float)(v * in->height);
}

// Corners in any order become the upper left and the lower right one as seen.
static void add_box(const struct propose *p, struct ask *a, const double one[2], const double other[2])
{
    float u[2], v[2];
    to_seen(p, one, u);
    to_seen(p, other, v);
    double first[2], last[2];
    const struct tachy_preprocess_params *in = &p->net.net[TACHY_INFER_FULL].card->in;
    to_stored(p, (double)fminf(u[0], v[0]) / in->width, (double)fminf(u[1], v[1]) / in->height, first);
    to_stored(p, (double)fmaxf(u[0], v[0]) / in->width, (double)fmaxf(u[1], v[1]) / in->height, last);
    memcpy(a->at[a->nb], first, sizeof(first));
    a->label[a->nb++] = CORNER;
    memcpy(a->at[a->nb], last, sizeof(last));
    a->label[a->nb++] = CORNER + 1;
}

static void ask_of_user(const struct propose *p, const struct worker *w, int box, struct ask *a)
{
    bool side = p->rotation == 90 || p->rotation == 270;
    double width = side ? w->height : w->width, height = side ? w->width : w->height;
    *a = (struct ask){0};
    if (box < p->nb_boxes) {
        const struct tachy_garbage_rect *r = &p->box[box];
        double v[4], one[2], other[2];
        for (int i = 0; i < 4; i++)
            v[i] = r->v[i] / (r->percent[i] ? 100 : i % 2 ? height : width);
        to_stored(p, v[0], v[1], one);
        to_stored(p, v[0] + v[2], v[1] + v[3], other);
        add_box(p, a, one, other);
    }
    for (int i = 0; i < p->nb_points; i++) {
        const struct given_point *g = &p->point[i];
        to_stored(p, g->x / (g->percent[0] ? 100 : width), g->y / (g->percent[1] ? 100 : height), a->at[a->nb]);
        a->label[a->nb++] = g->label;
    }
}

static void ask_of_region(const struct propose *p, const struct worker *w, const struct tachy_region *r, struct ask *a)
{
    double x[4], y[4];
    tachy_region_corners(r, x, y);
    const double one[2] = {fmin(fmin(x[0], x[1]), fmin(x[2], x[3])) / w->width, fmin(fmin(y[0], y[1]), fmin(y[2], y[3])) / w->height};
    const double other[2] = {fmax(fmax(x[0], x[1]), fmax(x[2], x[3])) / w->width, fmax(fmax(y[0], y[1]), fmax(y[2], y[3])) / w->height};
    *a = (struct ask){.of = r};
    add_box(p, a, one, other);
}

static void ask_of_grid(int i, int side, struct ask *a)
{
    *a = (struct ask){.at = {{(i % side + 0.5) / side, (i / side + 0.5) / side}}, .label = {POSITIVE}, .nb = 1};
}

static void put(const struct propose *p, struct prompter *to, int i, const struct ask *a)
{
    for (int k = 0; k < to->points; k++) {
        float *at = to->at + 2 * ((ptrdiff_t)i * to->points + k);
        at[0] = at[1] = 0;
        if (k < a->nb)
            to_seen(p, a->at[k], at);
        to->label[(ptrdiff_t)i * to->points + k] = k < a->nb ? (float)a->label[k] : NO_POINT;
    }
}

// ---- Masks

// Whether a crop's edge that is none of the picture's cuts the mask off.
static bool is_cut(const struct worker *w, const struct crop *c, const struct tachy_logits_counts *m)
{
    const float box[4] = {(float)(m->x0 + c->r.x), (float)(m->y0 + c->r.y), (float)(m->x1 + c->r.x), (float)(m->y1 + c->r.y)};
    const float crop[4] = {(float)c->r.x, (float)c->r.y, (float)(c->r.x + c->r.w), (float)(c->r.y + c->r.h)};
    const float all[4] = {0, 0, (float)w->width, (float)w->height};
    bool cut = false;
    for (int i = 0; i < 4; i++)
        cut |= fabsf(box[i] - crop[i]) <= NEAR_EDGE && fabsf(box[i] - all[i]) > NEAR_EDGE;
    return cut;
}

static int keep(struct worker *w, const struct tachy_logits *map, const struct crop *c, const struct found *like)
{
    int err = make_room(w);
    if (err < 0)
        return err;
    struct found *f = &w->found[w->nb_found];
    *f = *like;
    f->at = tachy_logits_needed(&f->c, &c->x, &c->y);
    size_t row = (size_t)f->at.width * sizeof(float);
    f->part = malloc(row * (size_t)f->at.height);
    if (!f->part)
        return TACHY_ERR_NOMEM;
    for (int y = 0; y < f->at.height; y++)
        memcpy(f->part + (ptrdiff_t)y * f->at.width, map->v + (ptrdiff_t)(f->at.y + y) * map->width + f->at.x, row);
    f->at.v = f->part;
    w->nb_found++;
    return TACHY_OK;
}

// One of the network's masks: filtered, unless somebody asked for it.
static int judge(const struct propose *p, struct worker *w, int crop, const struct ask *a, const float *mask, float score)
{
    const struct crop *c = &w->crop[crop];
    const struct prompter *n = &w->prompter;
    if (!p->asked && p->good > 0 && !(score > p->good))
        return TACHY_OK;
    const struct tachy_logits map = {.v = w->turned, .width = c->x.from, .height = c->y.from};
    tachy_logits_turn(w->turned, mask, n->width, n->height, p->rotation, p->flip);
    if (p->mend)
        tachy_logits_mend(w->turned, map.width, map.height, p->mend, w->scratch);
    struct found f = {.score = score, .ask = *a, .crop = crop};
    tachy_logits_count(&map, &c->x, &c->y, p->offset, w->row, &f.c);
    if (!f.c.mask)
        return TACHY_OK;
    f.stability = (float)f.c.sure / (float)f.c.maybe;
    if (!p->asked && (f.stability < p->stable || is_cut(w, c, &f.c)))
        return TACHY_OK;
    return keep(w, &map, c, &f);
}

// Of a grid all masks of a prompt, else the best.
static int judge_all(const struct propose *p, struct worker *w, int crop, const struct ask *a, int i)
{
    const struct prompter *n = &w->prompter;
    const float *score = n->score + (ptrdiff_t)i * n->ways, *mask = n->mask + (ptrdiff_t)i * n->ways * n->width * n->height;
    int best = 0, err = TACHY_OK;
    for (int k = 1; k < n->ways; k++)
        best = score[k] > score[best] ? k : best;
    for (int k = 0; k < n->ways && err == TACHY_OK; k++)
        if (!p->asked || k == best)
            err = judge(p, w, crop, a, mask + (ptrdiff_t)k * n->width * n->height, score[k]);
    return err;
}

// Of the masks from `from` on those stay that no better one has the box of; of equal ones the first.
static void suppress(struct worker *w, int from, bool by_crop, float same)
{
    int n = w->nb_found - from;
    for (int i = 0; i < n; i++) {
        const struct found *f = &w->found[from + i];
        const struct tachy_rect *r = &w->crop[f->crop].r;
        w->box[i][0] = (float)(f->c.x0 + r->x), w->box[i][1] = (float)(f->c.y0 + r->y);
        w->box[i][2] = (float)(f->c.x1 + r->x), w->box[i][3] = (float)(f->c.y1 + r->y);
        w->score[i] = by_crop ? 1 / ((float)r->w * (float)r->h) : f->score;
    }
    int kept = n ? tachy_suppress(w->kept, (const float (*)[4])w->box, w->score, NULL, n, same, n, w->order) : 0;
    for (int i = 0; i < kept; i++) {
        struct found *f = &w->found[from + w->kept[i]];
        w->sorted[i] = *f;
        f->part = NULL; // it is kept
    }
    forget_found(w, from);
    for (int i = 0; i < kept; i++)
        w->found[w->nb_found++] = w->sorted[i];
}

static int see(const struct propose *p, struct worker *w, const tachy_frame *f, const struct crop *c)
{
    struct infer_engine *e = &w->encoder.run;
    const struct tachy_view view = {.x = c->r.x, .y = c->r.y, .w = c->r.w, .h = c->r.h, .rotation = p->rotation, .flip = p->flip};
    int err = tachy_preprocess_run(e->preprocess[0], f, &view, &e->tensors.in[e->net->picture], NULL);
    return err < 0 ? err : tachy_engine_run(e->engine, e->tensors.in, e->tensors.out);
}

static void ask_for(const struct propose *p, const struct worker *w, int i, int side, struct ask *a)
{
    if (p->finds && i < w->boxes.nb)
        ask_of_region(p, w, &w->boxes.v[i], a);
    else if (p->asked)
        ask_of_user(p, w, i - w->boxes.nb, a);
    else
        ask_of_grid(i, side, a);
}

static int look_at(const struct propose *p, struct worker *w, const tachy_frame *f, int crop)
{
    const struct crop *c = &w->crop[crop];
    struct prompter *to = &w->prompter;
    int side = p->side, from = w->nb_found;
    for (int i = 0; i < c->layer; i++)
        side /= p->shrink;
    int n = !p->asked ? side * side : p->finds ? w->boxes.nb + p->nb_boxes : TACHY_MAX(p->nb_boxes, 1);
    int err = n ? see(p, w, f, c) : TACHY_OK;
    for (int first = 0; first < n && err == TACHY_OK; first += to->batch) {
        struct ask a;
        int here = TACHY_MIN(to->batch, n - first);
        for (int i = 0; i < to->batch; i++) { // a part of a batch is filled up with its last prompt
            ask_for(p, w, first + TACHY_MIN(i, here - 1), side, &a);
            put(p, to, i, &a);
        }
        err = prompter_run(to);
        for (int i = 0; i < here && err == TACHY_OK; i++) {
            ask_for(p, w, first + i, side, &a);
            err = judge_all(p, w, crop, &a, i);
        }
    }
    if (err == TACHY_OK && !p->asked)
        suppress(w, from, false, p->same);
    return err;
}

// ---- Results

static int add_points(const struct worker *w, const struct crop *c, const struct ask *a, struct tachy_region *r, struct tachy_regions *list)
{
    struct tachy_point *points = tachy_regions_alloc(list, sizeof(*points) * (size_t)TACHY_MAX(a->nb, 1));
    if (!points)
        return TACHY_ERR_NOMEM;
    r->points = points;
    for (int i = 0; i < a->nb; i++)
        if (a->label[i] < CORNER)
            points[r->nb_points++] = (struct tachy_point){.x = (float)(c->r.x + a->at[i][0] * c->r.w),
                                                          .y = (float)(c->r.y + a->at[i][1] * c->r.h), .score = (float)a->label[i]};
    return TACHY_OK;
}

static int add_region(const struct worker *w, const struct found *f, struct tachy_regions *list)
{
    const struct crop *c = &w->crop[f->crop];
    struct tachy_region *r = tachy_regions_add(list);
    struct tachy_named *v = tachy_regions_alloc(list, NAMED * sizeof(*v));
    int width = f->c.x1 - f->c.x0 + 1, height = f->c.y1 - f->c.y0 + 1;
    uint8_t *mask = tachy_regions_alloc(list, (size_t)width * (size_t)height);
    if (!r || !v || !mask)
        return TACHY_ERR_NOMEM;
    tachy_logits_paint(&f->at, &c->x, &c->y, &f->c, w->row, mask);
    if (f->ask.of) {
        r->label = f->ask.of->label;
        r->class_id = f->ask.of->class_id;
    }
    r->mask = (struct tachy_mask){mask, width, height, width, {c->r.x + f->c.x0, c->r.y + f->c.y0, width, height}};
    r->x = r->mask.region.x + width / 2.0;
    r->y = r->mask.region.y + height / 2.0;
    r->w = width;
    r->h = height;
    r->score = f->score;
    v[0] = (struct tachy_named){"stability", (double)f->stability};
    v[1] = (struct tachy_named){"area", (double)f->c.mask};
    r->values = v;
    r->nb_values = NAMED;
    return add_points(w, c, &f->ask, r, list);
}

static int propose(struct tachy_stage *st, struct worker *w, struct tachy_item *item)
{
    struct propose *p = tachy_stage_priv(st);
    struct tachy_regions *list = tachy_stage_item(st, item);
    tachy_regions_clear(list);
    tachy_regions_clear(&w->boxes);
    forget_found(w, 0);
    int err = make_crops(p, w, item->in);
    if (err == TACHY_OK && p->finds)
        err = tachy_net_run(&w->finder, item->in, &(struct tachy_view){.rotation = p->rotation, .flip = p->flip}, NULL, &w->boxes);
    for (int i = 0; i < w->nb_crops && err == TACHY_OK; i++)
        err = look_at(p, w, item->in, i);
    if (err == TACHY_OK && w->nb_crops > 1)
        suppress(w, 0, true, p->same_crops);
    for (int i = 0; i < w->nb_found && err == TACHY_OK; i++)
        err = add_region(w, &w->found[i], list);
    atomic_fetch_add_explicit(&st->task->model[TACHY_INFER_FULL].runs, w->nb_crops, memory_order_relaxed);
    forget_found(w, 0);
    item->result.regions = list->v;
    item->result.nb_regions = err < 0 ? 0 : list->nb;
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = propose(st, worker, pieces[i].item);
}

static void item_close(void *item) { tachy_regions_free(item); }

const struct tachy_stage_ops tachy_stage_propose = {
    .name = "masks",
    .options = options,
    .flags = TACHY_STAGE_READS | TACHY_STAGE_MODEL,
    .priv_size = sizeof(struct propose),
    .item_size = sizeof(struct tachy_regions),
    .open = open,
    .close = close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .item_close = item_close,
};
