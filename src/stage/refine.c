#include "base/options.h"
#include "postprocess/edges.h"
#include "stage/composite.h"

#include <stdlib.h>

// Corrections that a composite or a line applies with the picture's colours, computed only when the output is written,
// because they are large: --edge natural solves for alpha around the mask's boundary, --refine upsamples guided by
// luma.

static const struct tachy_option options[] = {
    {"segment.edge", "edge", 0, TACHY_OPT_ENUM, "soft", .values = "soft|natural|hard", .group = "Segment",
     .help = "soft: the mask's own edge; natural: solve for alpha along the edge, so that hair stays; hard: cut at "
             "the threshold"},
    {"segment.shrink", "shrink", 0, TACHY_OPT_FLOAT, "0", .max = 64, .arg = "PIXELS", .group = "Segment",
     .help = "move the edge inward by this many pixels of the frame; fractions are allowed"},
    {"segment.grow", "grow", 0, TACHY_OPT_FLOAT, "0", .max = 64, .arg = "PIXELS", .group = "Segment",
     .help = "move the edge outward by this many pixels of the frame; fractions are allowed"},
    {"segment.refine", "refine", 0, TACHY_OPT_BOOL, "no", .group = "Segment",
     .help = "fit the mask to the picture's edges, guided by luma; --edge natural does more"},
    {0},
};

struct refine {
    struct tachy_masks *masks;
    bool solves;
};

struct refine_item {
    struct refine_eye {
        struct tachy_buf memory;
        struct tachy_refine fit;
    } eye[TACHY_MAX_EYES];
};

struct refine_worker {
    struct tachy_buf scratch;
    struct tachy_edges edges;
};

static int open(struct tachy_stage *st, const tachy_settings *set)
{
    struct refine *r = tachy_stage_priv(st);
    r->solves = tachy_edge_of(set) == TACHY_EDGE_NATURAL;
    if (!r->solves && !tachy_settings_bool(set, "segment.refine"))
        return TACHY_STAGE_LEFT_OUT;
    r->masks = tachy_masks_of(st);
    if (r->solves)
        st->flags |= TACHY_STAGE_READS;
    else
        tachy_masks_guide(r->masks);
    return TACHY_OK;
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    const struct refine *r = tachy_stage_priv(st);
    const struct tachy_preprocess_params *in = &r->masks->infer->net[TACHY_INFER_FULL].card->in;
    size_t luma = (size_t)st->task->eyes * (size_t)in->width * (size_t)in->height * 2 * sizeof(float);
    // Cells are four pixels wide at least, and have four numbers.
    st->item_bytes = r->solves ? (size_t)video->width * (size_t)video->height / 16 * 4 * sizeof(float) : luma;
    return TACHY_OK;
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    *worker = calloc(1, sizeof(struct refine_worker));
    return *worker ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void worker_close(void *worker)
{
    struct refine_worker *w = worker;
    tachy_buf_free(&w->scratch);
    tachy_edges_free(&w->edges);
    free(w);
}

// Allocates `planes` planes, the last of which is b.
static int room(struct refine_eye *e, int width, int height, int cell, size_t planes)
{
    size_t n = (size_t)width * (size_t)height;
    if (!tachy_buf_need(&e->memory, planes * n * sizeof(float)))
        return TACHY_ERR_NOMEM;
    float *a = e->memory.p;
    e->fit = (struct tachy_refine){.a = a, .b = a + (planes - 1) * n, .width = width, .height = height, .cell = cell};
    return TACHY_OK;
}

static int solve(struct refine_worker *w, struct refine_eye *own, const struct tachy_item *item, int eye)
{
    const tachy_frame *f = item->in;
    const struct tachy_mask *m = &item->result.mask[eye];
    int width, height;
    tachy_edges_size(f, &m->region, &width, &height);
    int err = room(own, width, height, tachy_edges_cell(f), 4);
    return err < 0 ? err : tachy_edges_fit(&w->edges, &own->fit, f, m);
}

static int guided(struct refine_worker *w, struct refine_eye *own, const struct tachy_mask_eye *e)
{
    int err = room(own, e->width, e->height, 0, 2);
    if (err == TACHY_OK && !tachy_buf_need(&w->scratch, tachy_refine_scratch(e->width, e->height)))
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        tachy_refine_fit(&own->fit, e->mask, e->width, e->guide, e->width, w->scratch.p);
    return err;
}

static int fit(const struct tachy_stage *st, struct refine_worker *w, const struct tachy_item *item)
{
    const struct refine *r = tachy_stage_priv(st);
    struct refine_item *own = tachy_stage_item(st, item);
    int err = TACHY_OK;
    for (int i = 0; i < st->task->eyes && err == TACHY_OK; i++)
        err = r->solves ? solve(w, &own->eye[i], item, i) : guided(w, &own->eye[i], tachy_mask_eye(r->masks, item, i));
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = fit(st, worker, pieces[i].item);
}

static void item_close(void *item)
{
    for (int i = 0; i < TACHY_MAX_EYES; i++)
        tachy_buf_free(&((struct refine_item *)item)->eye[i].memory);
}

const struct tachy_refine *tachy_refined(const struct tachy_composite_stage *c, const struct tachy_item *item,
                                         struct tachy_refine r[TACHY_MAX_EYES])
{
    if (!c->refine)
        return NULL;
    const struct refine_item *own = tachy_stage_item(c->refine, item);
    for (int i = 0; i < item->result.eyes; i++)
        r[i] = own->eye[i].fit;
    return r;
}

const struct tachy_stage_ops tachy_stage_refine = {
    .name = "refine",
    .flags = TACHY_STAGE_WRITES,
    .options = options,
    .step = "composite",
    .remedy = "leave the edge as the mask has it (--edge soft)",
    .priv_size = sizeof(struct refine),
    .item_size = sizeof(struct refine_item),
    .open = open,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .item_close = item_close,
};
