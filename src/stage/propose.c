#include "postprocess/decode.h"
#include "stage/mask_region.h"
#include "stage/prompter.h"
#include "stage/propagate.h"
#include "stage/stages.h"

#include <math.h>
#include <stdlib.h>

// Masks of all that a picture shows, or of what points and boxes in it are of: an encoder sees the picture once, and a second
// network makes masks of many prompts a run. Without prompts there is a grid of points. Its masks are kept if the network thinks
// them good, if they stay nearly the same at other thresholds, and if no better one has the same box (Kirillov et al. 2023; Ravi et
// al. 2024).

enum { MOST_LAYERS = 4 };
static const float NEAR_EDGE = 20; // pixels from a crop's edge at which a mask is cut off by it

struct propose {
    struct tachy_infer net;
    struct prompts prompts;
    int side, layers, shrink, batch, mend;
    float good, stable, offset, same, same_crops, overlap;
    int rotation;
    bool flip;
};

// A mask that has passed, with a copy of what it is painted from.
struct found {
    struct mask_found is;
    float *part;
    int crop;
};

struct crop {
    struct tachy_rect r;
    int layer;
    struct mask_axes axes;
};

struct worker {
    struct tachy_net_worker encoder, finder;
    struct prompter prompter;
    struct found *found, *sorted;
    struct crop *crop;
    int nb_found, room, nb_crops;
    int width, height;  // of the frame that the crops are of
    struct mask_map map;
    struct tachy_regions boxes;
    // For suppression, `room` of each.
    float (*box)[4], *score;
    int32_t *kept, *order;
};

static const struct tachy_option options[] = {
    {"masks.points_per_side", "points-per-side", 0, TACHY_OPT_INT, "32", .min = 1, .max = 256, .group = "Masks",
     .help = "points along each side of the grid that prompts the network if nothing else does"},
    {"masks.pred_iou_thresh", "pred-iou-thresh", 0, TACHY_OPT_FLOAT, "0.8", .max = 1, .group = "Masks",
     .help = "keep masks of the grid only if the network predicts a higher IoU than this"},
    {"masks.stability_score_thresh", "stability-score-thresh", 0, TACHY_OPT_FLOAT, "0.95", .max = 1, .group = "Masks",
     .help = "and only if the masks at a lower and a higher threshold agree this much (IoU)"},
    {"masks.stability_score_offset", "stability-score-offset", 0, TACHY_OPT_FLOAT, "1", .max = 30, .group = "Masks",
     .help = "how far these two thresholds are from the normal one, in logits"},
    {"masks.box_nms_thresh", "box-nms-thresh", 0, TACHY_OPT_FLOAT, "0.7", .max = 1, .group = "Masks",
     .help = "IoU of the boxes of two masks above which the one with the lower score is dropped"},
    {"masks.crop_n_layers", "crop-n-layers", 0, TACHY_OPT_INT, "0", .max = MOST_LAYERS, .group = "Masks",
     .help = "layers of crops to search as well: of 4 crops, of 16 and so on"},
    {"masks.crop_nms_thresh", "crop-nms-thresh", 0, TACHY_OPT_FLOAT, "0.7", .max = 1, .group = "Masks",
     .help = "as --box-nms-thresh, between crops; the mask of the smaller crop stays"},
    {"masks.crop_overlap_ratio", "crop-overlap-ratio", 0, TACHY_OPT_FLOAT, "0.3413", .max = 0.9, .group = "Masks",
     .help = "overlap of the crops of the first layer, as a share of the shorter side; half of it in the next"},
    {"masks.crop_n_points_downscale_factor", "crop-points-downscale", 0, TACHY_OPT_INT, "1", .min = 1, .max = 16, .group = "Masks",
     .help = "how many times fewer points a side of the grid has in each layer than in the one before"},
    {"masks.min_mask_region_area", "min-mask-region-area", 0, TACHY_OPT_INT, "0", .max = 1e6, .group = "Masks",
     .help = "close holes and remove islands of at most this many pixels of the network's masks"},
    {"masks.sam2_batch", "sam2-batch", 0, TACHY_OPT_INT, "64", .min = 1, .max = 1024, .group = "Masks",
     .help = "prompts per run of the second network"},
    {0},
};

// ---- Settings

static void read_settings(struct propose *p, const tachy_settings *s)
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
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct propose *p = tachy_stage_priv(st);
    if (tachy_settings_bool(s, "masks.propagate"))
        return TACHY_STAGE_LEFT_OUT;
    read_settings(p, s);
    int err = prompts_open(&p->prompts, st, s);
    if (err == TACHY_OK)
        err = masks_open_network(&p->net, st, s);
    if (err == TACHY_OK)
        infer_describe(&p->net);
    return err;
}

static void close(struct tachy_stage *st)
{
    struct propose *p = tachy_stage_priv(st);
    infer_free(&p->net);
    prompts_close(&p->prompts);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct propose *p = tachy_stage_priv(st);
    p->rotation = video->rotation;
    p->flip = video->flipped;
    return prompts_check(&p->prompts, &(struct prompts_picture){video->width, video->height, p->rotation, p->flip});
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
    for (int i = 0; i < w->nb_crops; i++)
        mask_axes_close(&w->crop[i].axes);
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
    mask_map_close(&w->map);
    void *own[] = {w->found, w->sorted, w->box, w->score, w->kept, w->order, w};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(own); i++)
        free(own[i]);
}

static int open_networks(struct propose *p, struct worker *w)
{
    int err = tachy_net_worker_open(&w->encoder, &p->net);
    const struct prompts *asks = &p->prompts;
    if (err == TACHY_OK && asks->finds)
        err = tachy_net_worker_open(&w->finder, &p->prompts.finder);
    const struct prompter_params of = {.net = &p->net, .encoder = &w->encoder,
                                       .batch = asks->asked && !asks->finds ? prompts_count(asks, 0) : p->batch,
                                       .points = asks->asked ? asks->nb_points + 2 : 1};
    return err < 0 ? err : prompter_open(&w->prompter, &of);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct worker *w = *worker = calloc(1, sizeof(*w));
    int err = w ? open_networks(tachy_stage_priv(st), w) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = mask_map_open(&w->map, w->prompter.width, w->prompter.height);
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
    w->crop = more;
    struct crop *c = &w->crop[w->nb_crops++];
    *c = (struct crop){.r = r, .layer = layer};
    return mask_axes_open(&c->axes, &w->map, p->rotation, r.w, r.h);
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
    for (int layer = 1; layer <= p->layers && !p->prompts.asked && err == TACHY_OK; layer++)
        err = add_layer(p, w, layer);
    return err;
}

// ---- Prompts

static struct prompts_picture picture_of(const struct propose *p, int width, int height)
{
    return (struct prompts_picture){.width = width, .height = height, .rotation = p->rotation, .flip = p->flip};
}

static void ask_for(const struct propose *p, const struct worker *w, int i, int side, struct prompt *a)
{
    const struct prompts_picture in = picture_of(p, w->width, w->height);
    if (p->prompts.asked)
        prompts_get(&p->prompts, &in, &w->boxes, i, a);
    else
        *a = (struct prompt){.at = {{(i % side + 0.5) / side, (i / side + 0.5) / side}}, .label = {PROMPT_IN}, .nb = 1};
}

static void put(const struct propose *p, const struct worker *w, int i, const struct prompt *a)
{
    const struct tachy_preprocess_params *in = &p->net.net[TACHY_INFER_FULL].card->in;
    const struct prompts_picture picture = picture_of(p, w->width, w->height);
    ptrdiff_t at = (ptrdiff_t)i * w->prompter.points;
    prompt_put(a, &picture, in->width, in->height, w->prompter.at + 2 * at, w->prompter.label + at, w->prompter.points);
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

static int keep(struct worker *w, const struct crop *c, const struct found *like)
{
    int err = make_room(w);
    if (err < 0)
        return err;
    struct found *f = &w->found[w->nb_found];
    const struct tachy_logits *map = &like->is.at;
    *f = *like;
    struct tachy_logits *at = &f->is.at;
    *at = tachy_logits_needed(&f->is.c, &c->axes.x, &c->axes.y);
    size_t row = (size_t)at->width * sizeof(float);
    f->part = malloc(row * (size_t)at->height);
    if (!f->part)
        return TACHY_ERR_NOMEM;
    for (int y = 0; y < at->height; y++)
        memcpy(f->part + (ptrdiff_t)y * at->width, map->v + (ptrdiff_t)(at->y + y) * map->width + at->x, row);
    at->v = f->part;
    w->nb_found++;
    return TACHY_OK;
}

// One of the network's masks: filtered, unless somebody asked for it.
static int judge(const struct propose *p, struct worker *w, int crop, const struct prompt *a, const float *mask, float score)
{
    const struct crop *c = &w->crop[crop];
    if (!p->prompts.asked && p->good > 0 && !(score > p->good))
        return TACHY_OK;
    struct found f = {.is = {.part = c->r, .score = score, .prompt = *a}, .crop = crop};
    if (!mask_map_count(&w->map, mask, &c->axes, p->rotation, p->flip, p->mend, p->offset, &f.is))
        return TACHY_OK;
    if (!p->prompts.asked && (f.is.stability < p->stable || is_cut(w, c, &f.is.c)))
        return TACHY_OK;
    return keep(w, c, &f);
}

// Of a grid all masks of a prompt, else the best.
static int judge_all(const struct propose *p, struct worker *w, int crop, const struct prompt *a, int i)
{
    const struct prompter *n = &w->prompter;
    const float *score = n->score + (ptrdiff_t)i * n->ways, *mask = n->mask + (ptrdiff_t)i * n->ways * n->width * n->height;
    int best = 0, err = TACHY_OK;
    for (int k = 1; k < n->ways; k++)
        best = score[k] > score[best] ? k : best;
    for (int k = 0; k < n->ways && err == TACHY_OK; k++)
        if (!p->prompts.asked || k == best)
            err = judge(p, w, crop, a, mask + (ptrdiff_t)k * n->width * n->height, score[k]);
    return err;
}

// Of the masks from `from` on those stay that no better one has the box of; of equal ones the first.
static void suppress(struct worker *w, int from, bool by_crop, float same)
{
    int n = w->nb_found - from;
    for (int i = 0; i < n; i++) {
        const struct found *f = &w->found[from + i];
        const struct tachy_logits_counts *c = &f->is.c;
        const struct tachy_rect *r = &f->is.part;
        w->box[i][0] = (float)(c->x0 + r->x), w->box[i][1] = (float)(c->y0 + r->y);
        w->box[i][2] = (float)(c->x1 + r->x), w->box[i][3] = (float)(c->y1 + r->y);
        w->score[i] = by_crop ? 1 / ((float)r->w * (float)r->h) : f->is.score;
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

static int look_at(const struct propose *p, struct worker *w, const tachy_frame *f, int crop)
{
    const struct crop *c = &w->crop[crop];
    struct prompter *to = &w->prompter;
    int side = p->side, from = w->nb_found;
    for (int i = 0; i < c->layer; i++)
        side /= p->shrink;
    int n = p->prompts.asked ? prompts_count(&p->prompts, w->boxes.nb) : side * side;
    int err = n ? see(p, w, f, c) : TACHY_OK;
    for (int first = 0; first < n && err == TACHY_OK; first += to->batch) {
        struct prompt a;
        int here = TACHY_MIN(to->batch, n - first);
        for (int i = 0; i < to->batch; i++) { // a part of a batch is filled up with its last prompt
            ask_for(p, w, first + TACHY_MIN(i, here - 1), side, &a);
            put(p, w, i, &a);
        }
        err = prompter_run(to);
        for (int i = 0; i < here && err == TACHY_OK; i++) {
            ask_for(p, w, first + i, side, &a);
            err = judge_all(p, w, crop, &a, i);
        }
    }
    if (err == TACHY_OK && !p->prompts.asked)
        suppress(w, from, false, p->same);
    return err;
}

// ---- A frame

static int propose(struct tachy_stage *st, struct worker *w, struct tachy_item *item)
{
    struct propose *p = tachy_stage_priv(st);
    struct tachy_regions *list = tachy_stage_item(st, item);
    tachy_regions_clear(list);
    tachy_regions_clear(&w->boxes);
    forget_found(w, 0);
    int err = make_crops(p, w, item->in);
    if (err == TACHY_OK && p->prompts.finds)
        err = tachy_net_run(&w->finder, item->in, &(struct tachy_view){.rotation = p->rotation, .flip = p->flip}, NULL, &w->boxes);
    for (int i = 0; i < w->nb_crops && err == TACHY_OK; i++)
        err = look_at(p, w, item->in, i);
    if (err == TACHY_OK && w->nb_crops > 1)
        suppress(w, 0, true, p->same_crops);
    for (int i = 0; i < w->nb_found && err == TACHY_OK; i++)
        err = mask_region_add(list, &w->found[i].is, &w->crop[w->found[i].crop].axes, &w->map, NAN) ? TACHY_OK : TACHY_ERR_NOMEM;
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
