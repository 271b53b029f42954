#include "stage/decode.h"
#include "stage/stages.h"

#include <stdlib.h>

// Regions from a network's outputs, by the decoders of its card (docs/models.md).

const struct tachy_option tachy_decode_options[] = {
    {"regions.confidence", "conf", 0, TACHY_OPT_FLOAT, .max = 1, .group = "Regions", .aliases = "confidence",
     .help = "lowest score to keep; default: the model card's"},
    {"regions.overlap", "iou", 0, TACHY_OPT_FLOAT, .max = 1, .group = "Regions",
     .help = "intersection over union above which the lower of two boxes of a class is dropped; default: the model "
             "card's"},
    {"regions.limit", "max-det", 0, TACHY_OPT_INT, .min = 1, .max = 100000, .group = "Regions",
     .help = "most regions per frame, the best ones; default: the model card's"},
    {"regions.classes", "classes", 0, TACHY_OPT_STRING, .arg = "LIST", .group = "Regions",
     .help = "keep only these classes: names or numbers, separated by commas"},
    {"regions.top", "top", 0, TACHY_OPT_INT, .min = 1, .max = 1000, .group = "Regions",
     .help = "classes to name per picture, the best ones; default: the model card's"},
    {"regions.labels", "labels", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Regions",
     .help = "names of the classes, one per line, instead of the model card's"},
    {0},
};

// ---- The task's

static void take_settings(struct tachy_card_decoder *c, const struct tachy_decode_stage *d, const tachy_settings *s)
{
    if (tachy_settings_is_set(s, "regions.confidence"))
        c->threshold = (float)tachy_settings_float(s, "regions.confidence");
    if (tachy_settings_is_set(s, "regions.overlap"))
        c->overlap = (float)tachy_settings_float(s, "regions.overlap");
    if (tachy_settings_is_set(s, "regions.top"))
        c->top = (int)tachy_settings_int(s, "regions.top");
    if (d->labels.nb) {
        c->labels = d->labels.v;
        c->nb_labels = d->labels.nb;
    }
}

int tachy_decode_open(struct tachy_stage *st, const tachy_settings *s)
{
    struct tachy_decode_stage *d = tachy_stage_priv(st);
    const struct tachy_log *log = st->task->log;
    const char *file = tachy_settings_str(s, "regions.labels");
    d->infer = tachy_infer_of(st);
    const struct tachy_card *card = d->infer->net[TACHY_INFER_FULL].card;
    if (!card->n_decoders)
        return tachy_fail(log, TACHY_ERR_MISMATCH, "model %s: its card says task \"%s\"; %s needs one with `outputs`",
                          card->name, card->task, st->task->name);
    int err = file ? tachy_labels_read(&d->labels, file, log) : TACHY_OK;
    d->limit = (int)tachy_settings_int(s, "regions.limit");
    for (d->nb = 0; d->nb < card->n_decoders && err == TACHY_OK; d->nb++) {
        struct tachy_card_decoder *c = &d->decoder[d->nb];
        *c = card->decoder[d->nb];
        take_settings(c, d, s);
        if (c->kind > TACHY_DECODE_CORNERS)
            continue;
        d->boxes = true;
        d->limit = TACHY_DEF(d->limit, c->limit);
        tachy_classes_free(&d->classes); // of a list of boxes before
        err = tachy_classes_read(&d->classes, tachy_settings_str(s, "regions.classes"), c->labels, c->nb_labels, log);
        c->limit = d->classes.nb ? INT32_MAX : d->limit; // the others do not count
    }
    return err;
}

int tachy_decode_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    const struct tachy_decode_stage *d = tachy_stage_priv(st);
    st->flags = st->ops->flags | tachy_infer_flags(d->infer);
    return TACHY_OK;
}

void tachy_decode_close(struct tachy_stage *st)
{
    struct tachy_decode_stage *d = tachy_stage_priv(st);
    tachy_labels_free(&d->labels);
    tachy_classes_free(&d->classes);
}

// ---- A worker's

void tachy_decode_worker_close(struct tachy_decode_worker *w)
{
    for (int i = 0; i < TACHY_INFER_SIZES; i++)
        for (int k = 0; k < TACHY_MAX_DECODERS; k++)
            tachy_decoder_close(&w->decode[i][k]);
}

int tachy_decode_worker_open(struct tachy_stage *st, struct tachy_decode_worker *w)
{
    const struct tachy_decode_stage *d = tachy_stage_priv(st);
    int err = TACHY_OK;
    for (int i = 0; i < TACHY_INFER_SIZES; i++) {
        const struct tachy_infer_net *net = &d->infer->net[i];
        for (int k = 0; k < d->nb && net->card && err == TACHY_OK; k++)
            err = tachy_decoder_open(&w->decode[i][k], net->card, &d->decoder[k], net->out, net->nb_out, 1, st->task->log);
    }
    return err;
}

static void worker_close(void *worker)
{
    tachy_decode_worker_close(worker);
    free(worker);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct tachy_decode_worker *w = *worker = calloc(1, sizeof(*w));
    int err = w ? tachy_decode_worker_open(st, w) : TACHY_ERR_NOMEM;
    if (err < 0 && w) {
        worker_close(w);
        *worker = NULL;
    }
    return err;
}

// ---- A frame

// Keeps the regions of the selected classes, at most `limit`.
static void filter(const struct tachy_decode_stage *d, struct tachy_regions *list)
{
    int n = 0;
    for (int i = 0; i < list->nb && n < d->limit; i++)
        if (!d->classes.nb || tachy_classes_have(&d->classes, list->v[i].class_id))
            list->v[n++] = list->v[i];
    list->nb = n;
}

static int decode(const struct tachy_decode_stage *d, struct tachy_decode_worker *w, const struct tachy_piece *p,
                  const struct tachy_infer_output *o, struct tachy_regions *list)
{
    const struct tachy_rect *r = &d->infer->region[p->region];
    struct tachy_region about = {.x = r->x + r->w / 2.0, .y = r->y + r->h / 2.0, .w = r->w, .h = r->h, .class_id = -1,
                                 .track = -1, .score = 1};
    tachy_regions_clear(list);
    struct tachy_decoder_frame f = {.out = o->out, .about = &about};
    int err = tachy_infer_map(d->infer, p, o->size, f.map);
    for (int k = 0; k < d->nb && err == TACHY_OK; k++)
        err = tachy_decoder_run(w->decode[o->size][k], &f, list);
    if (err == TACHY_OK && d->boxes) {
        filter(d, list);
    } else if (err == TACHY_OK) {
        struct tachy_region *added = tachy_regions_add(list);
        err = added ? TACHY_OK : TACHY_ERR_NOMEM;
        if (added)
            *added = about;
    }
    return err;
}

// Sets the item's regions: the views' regions, the left one's first.
static int tell(const struct tachy_stage *st, struct tachy_item *item)
{
    struct tachy_decode_item *di = tachy_stage_item(st, item);
    struct tachy_regions *list = st->task->eyes > 1 ? &di->all : di->view;
    tachy_regions_clear(&di->all);
    for (int e = 0; e < st->task->eyes && list == &di->all; e++)
        for (int i = 0; i < di->view[e].nb; i++) {
            struct tachy_region *r = tachy_regions_add(list);
            if (!r)
                return TACHY_ERR_NOMEM;
            *r = di->view[e].v[i];
        }
    item->result.regions = list->v;
    item->result.nb_regions = list->nb;
    return TACHY_OK;
}

int tachy_decode_run(struct tachy_stage *st, struct tachy_decode_worker *w, const struct tachy_piece *p,
                     const struct tachy_infer_output *o)
{
    struct tachy_decode_item *di = tachy_stage_item(st, p->item);
    int err = decode(tachy_stage_priv(st), w, p, o, &di->view[p->region]);
    return err < 0 ? err : tell(st, p->item);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct tachy_infer_output o;
    for (int i = 0; i < n; i++) {
        tachy_infer_output(tachy_infer_of(st), &pieces[i], &o);
        err[i] = tachy_decode_run(st, worker, &pieces[i], &o);
    }
}

// ---- Regions that later frames take over

int tachy_decode_copy(struct tachy_stage *st, struct tachy_item *to, const struct tachy_item *from, int region)
{
    const struct tachy_regions *list = &((struct tachy_decode_item *)tachy_stage_item(st, from))->view[region];
    struct tachy_regions *copies = &((struct tachy_decode_item *)tachy_stage_item(st, to))->view[region];
    tachy_regions_clear(copies);
    int err = tachy_regions_copy(copies, list->v, list->nb);
    return err == TACHY_OK ? tell(st, to) : err;
}

int tachy_decode_copy_save(struct tachy_stage *st, const struct tachy_item *from, void **data, size_t *size)
{
    const struct tachy_decode_item *di = tachy_stage_item(st, from);
    return tachy_regions_save(di->view, st->task->eyes, data, size);
}

int tachy_decode_copy_load(struct tachy_stage *st, struct tachy_item *to, const void *data, size_t size)
{
    struct tachy_decode_item *di = tachy_stage_item(st, to);
    int err = tachy_regions_load(di->view, st->task->eyes, data, size);
    return err == TACHY_OK ? tell(st, to) : err;
}

void tachy_decode_item_close(void *item)
{
    struct tachy_decode_item *di = item;
    for (int e = 0; e < TACHY_MAX_EYES; e++)
        tachy_regions_free(&di->view[e]);
    tachy_regions_free(&di->all);
}

const struct tachy_stage_ops tachy_stage_decode = {
    .name = "postprocess",
    .options = tachy_decode_options,
    .flags = TACHY_STAGE_REGIONS,
    .priv_size = sizeof(struct tachy_decode_stage),
    .item_size = sizeof(struct tachy_decode_item),
    .open = tachy_decode_open,
    .close = tachy_decode_close,
    .start = tachy_decode_start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .item_close = tachy_decode_item_close,
    .copy = tachy_decode_copy,
    .copy_save = tachy_decode_copy_save,
    .copy_load = tachy_decode_copy_load,
};
