#include "stage/infer_priv.h"
#include "stage/propagate.h"
#include "stage/stages.h"

#include <stdlib.h>

// The encoder of pictures for propagate, which reads what it gives of each frame.

struct item {
    float *v[TACHY_MAX_IO];
    bool looked;
};

static const struct tachy_option options[] = {
    {"masks.propagate", "propagate", 0, TACHY_OPT_BOOL, "no", .group = "Masks",
     .help = "follow the prompted things through the video, by memory; the prompts are for one frame (docs/masks.md)"},
    {"masks.prompt_frame", "prompt-frame", 0, TACHY_OPT_INT, "0", .max = 1e9, .group = "Masks",
     .help = "--propagate: number of the frame that the prompts are for, from 0; earlier frames get no masks"},
    {0},
};

int masks_open_network(struct tachy_infer *net, struct tachy_stage *st, const tachy_settings *s)
{
    const struct tachy_net_params named = {.name = tachy_settings_str(s, "model.name"), .card = tachy_settings_str(s, "model.card"),
                                     .task = "masks"};
    return tachy_net_open(net, st, &named, s);
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct features *f = tachy_stage_priv(st);
    bool propagates = tachy_settings_bool(s, "masks.propagate");
    if (!propagates && tachy_settings_is_set(s, "masks.prompt_frame"))
        return tachy_fail(st->task->log, TACHY_ERR_INVAL, "--prompt-frame: without --propagate the prompts are of every frame");
    if (!propagates)
        return TACHY_STAGE_LEFT_OUT;
    f->from = tachy_settings_int(s, "masks.prompt_frame");
    f->batch = (int)tachy_settings_int(s, "masks.sam2_batch");
    int err = masks_open_network(&f->net, st, s);
    if (err == TACHY_OK)
        infer_describe(&f->net);
    return err;
}

static void close(struct tachy_stage *st) { infer_free(&((struct features *)tachy_stage_priv(st))->net); }

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct features *f = tachy_stage_priv(st);
    const struct tachy_infer_net *net = &f->net.net[TACHY_INFER_FULL];
    f->rotation = video->rotation;
    f->flip = video->flipped;
    st->item_bytes = 0;
    for (int i = 0; i < net->nb_out; i++)
        st->item_bytes += tachy_tensor_bytes(&net->out[i].spec);
    return TACHY_OK;
}

static void worker_close(void *worker)
{
    tachy_net_worker_close(worker);
    free(worker);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct features *f = tachy_stage_priv(st);
    *worker = calloc(1, sizeof(struct tachy_net_worker));
    int err = *worker ? tachy_net_worker_open(*worker, &f->net) : TACHY_ERR_NOMEM;
    if (err < 0 && *worker) {
        worker_close(*worker);
        *worker = NULL;
    }
    return err;
}

// The engine writes into the item's memory.
static int lend(const struct tachy_infer_net *net, struct item *to, struct tachy_tensor out[])
{
    for (int i = 0; i < net->nb_out; i++) {
        if (!to->v[i])
            to->v[i] = tachy_aligned_alloc(tachy_tensor_bytes(&out[i]));
        if (!to->v[i])
            return TACHY_ERR_NOMEM;
        out[i].data = to->v[i];
    }
    return TACHY_OK;
}

static int look(struct tachy_stage *st, struct tachy_net_worker *w, struct tachy_item *item)
{
    struct features *f = tachy_stage_priv(st);
    struct item *to = tachy_stage_item(st, item);
    struct infer_tensors *t = &w->run.tensors;
    const struct tachy_view view = {.rotation = f->rotation, .flip = f->flip};
    to->looked = item->in->id >= f->from;
    if (!to->looked)
        return TACHY_OK;
    int err = lend(w->run.net, to, t->out);
    if (err == TACHY_OK)
        err = tachy_preprocess_run(w->run.preprocess[0], item->in, &view, &t->in[w->run.net->picture], NULL);
    if (err == TACHY_OK)
        err = tachy_engine_run(w->run.engine, t->in, t->out);
    atomic_fetch_add_explicit(&st->task->model[TACHY_INFER_FULL].runs, 1, memory_order_relaxed);
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = look(st, worker, pieces[i].item);
}

static void item_close(void *item)
{
    for (int i = 0; i < TACHY_MAX_IO; i++)
        tachy_aligned_free(((struct item *)item)->v[i]);
}

static struct tachy_stage *stage_of(const struct tachy_stage *st) { return tachy_stage_before(st, tachy_stage_features.name); }

const struct features *features_of(const struct tachy_stage *st)
{
    struct tachy_stage *from = stage_of(st);
    return from ? tachy_stage_priv(from) : NULL;
}

float *const *features_in(const struct tachy_stage *st, const struct tachy_item *item)
{
    const struct item *from = tachy_stage_item(stage_of(st), item);
    return from->looked ? from->v : NULL;
}

const struct tachy_stage_ops tachy_stage_features = {
    .name = "features",
    .options = options,
    .flags = TACHY_STAGE_READS | TACHY_STAGE_MODEL,
    .priv_size = sizeof(struct features),
    .item_size = sizeof(struct item),
    .open = open,
    .close = close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .item_close = item_close,
};
