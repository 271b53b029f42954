#include "stage/propagate.h"
#include "stage/mask_region.h"
#include "stage/memory_nets.h"
#include "stage/stages.h"

#include <math.h>
#include <stdlib.h>

// Things are followed through a video by what is remembered of them, as SAM 2 does it (Ravi et al. 2024): prompts in one frame, and
// in each later one the features of the picture attend to memories of the first and the latest frames. In order, with a state.

struct propagate {
    const struct features *features;
    struct prompts prompts;
    struct memory_nets first; // opened with the task; the first worker takes it
    struct memory_sizes size; // of what they remember
    int feature[FEATURES];    // numbers of the encoder's outputs
    int mend;
    float offset;
};

// A stream's. The kind of a thing is its class, as the detector says; -1: none.
struct state {
    const struct propagate *of;
    struct memory_bank bank;
    bool waits; // frames came, and none had what is to be followed
};

struct worker {
    struct memory_nets nets;
    struct tachy_net_worker finder;
    struct tachy_regions found;
    struct mask_axes axes;
    int width, height; // of the frame that these are for
    struct mask_map map;
    struct state own; // if no stream is at hand: a run of one worker's items
};

// ---- The task's

static void take_features(struct propagate *p)
{
    const struct tachy_infer_net *net = &p->features->net.net[TACHY_INFER_FULL];
    for (int i = 0; i < FEATURES; i++)
        while (strcmp(net->out[p->feature[i]].name, memory_features[i])) // it is there: memory_nets_open()
            p->feature[i]++;
}

static int open_nets(const struct propagate *p, struct memory_nets *m)
{
    return memory_nets_open(m, &p->features->net, prompts_points(&p->prompts), p->features->batch);
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct propagate *p = tachy_stage_priv(st);
    p->features = features_of(st);
    if (!p->features)
        return TACHY_STAGE_LEFT_OUT;
    p->mend = (int)tachy_settings_int(s, "masks.min_mask_region_area");
    p->offset = (float)tachy_settings_float(s, "masks.stability_score_offset");
    int err = prompts_open(&p->prompts, st, s);
    if (err == TACHY_OK && !p->prompts.asked)
        err = tachy_fail(st->task->log, TACHY_ERR_INVAL,
                         "--propagate needs to know what to follow: --point X,Y, --box X,Y,W,H or --find NAME");
    if (err == TACHY_OK)
        err = open_nets(p, &p->first);
    if (err < 0)
        return err;
    p->size = p->first.size;
    take_features(p);
    if (p->prompts.finds)
        st->flags |= TACHY_STAGE_READS;
    tachy_task_describe(st->task, " propagate");
    return TACHY_OK;
}

static void close(struct tachy_stage *st)
{
    struct propagate *p = tachy_stage_priv(st);
    memory_nets_close(&p->first);
    prompts_close(&p->prompts);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    const struct propagate *p = tachy_stage_priv(st);
    return prompts_check(&p->prompts, &(struct prompts_picture){video->width, video->height, video->rotation, video->flipped});
}

// ---- A stream's

static int state_open(struct tachy_stage *st, void **state)
{
    struct state *s = *state = calloc(1, sizeof(*s));
    if (s)
        s->of = tachy_stage_priv(st);
    return s ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void state_close(void *state)
{
    struct state *s = state;
    const struct propagate *p = s->of;
    if (s->waits && p->prompts.finds)
        tachy_msg(p->prompts.log, TACHY_LOG_WARN, "masks: the detector found nothing to follow from frame %lld on, so there are no masks",
                  (long long)p->features->from);
    else if (s->waits)
        tachy_msg(p->prompts.log, TACHY_LOG_WARN, "masks: there is no frame %lld (--prompt-frame), so nothing was followed",
                  (long long)p->features->from);
    memory_bank_close(&s->bank);
    free(s);
}

static int state_save(const void *state, void **data, size_t *size)
{
    return memory_bank_save(&((const struct state *)state)->bank, data, size);
}

static int state_load(void *state, const void *data, size_t size)
{
    struct state *s = state;
    return memory_bank_load(&s->bank, &s->of->size, data, size);
}

// ---- Workers

static void worker_close(void *worker)
{
    struct worker *w = worker;
    memory_nets_close(&w->nets);
    tachy_net_worker_close(&w->finder);
    tachy_regions_free(&w->found);
    memory_bank_close(&w->own.bank);
    mask_axes_close(&w->axes);
    mask_map_close(&w->map);
    free(w);
}

static int open_networks(struct propagate *p, struct worker *w)
{
    int err = TACHY_OK;
    if (p->first.attention.engine) {
        w->nets = p->first;
        p->first = (struct memory_nets){0};
    } else {
        err = open_nets(p, &w->nets);
    }
    return err == TACHY_OK && p->prompts.finds ? tachy_net_worker_open(&w->finder, &p->prompts.finder) : err;
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct worker *w = *worker = calloc(1, sizeof(*w));
    int err = w ? open_networks(tachy_stage_priv(st), w) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = mask_map_open(&w->map, w->nets.width, w->nets.height);
    if (err < 0 && w) {
        worker_close(w);
        *worker = NULL;
    }
    return err;
}

// ---- A frame

struct frame {
    struct propagate *p;
    struct worker *w;
    struct memory_bank *bank;
    struct tachy_item *item;
    struct tachy_regions *list;
    struct prompts_picture picture;
    float *feature[FEATURES];
    bool begins; // it has the prompts
};

static int make_axes(struct worker *w, const struct prompts_picture *in)
{
    if (w->width == in->width && w->height == in->height)
        return TACHY_OK;
    mask_axes_close(&w->axes);
    int err = mask_axes_open(&w->axes, &w->map, in->rotation, in->width, in->height);
    w->width = err < 0 ? 0 : in->width;
    w->height = in->height;
    return err;
}

// NULL: the detector says none, or no detector did.
static const char *label_of(const struct propagate *p, int kind)
{
    const struct tachy_card *c = p->prompts.finds ? p->prompts.finder.net[TACHY_INFER_FULL].card : NULL;
    for (int i = 0; c && kind >= 0 && i < c->n_decoders; i++)
        if (kind < c->decoder[i].nb_labels)
            return c->decoder[i].labels[kind];
    return NULL;
}

// Thing `thing`, whose mask is the run's `i`. A thing that is not seen has no region.
static int add(struct frame *f, int thing, int i)
{
    struct worker *w = f->w;
    const struct memory_nets *n = &w->nets;
    struct mask_found m = {.part = {0, 0, f->picture.width, f->picture.height}, .score = n->score[i]};
    if (!(n->presence[i] > 0))
        return TACHY_OK;
    if (!mask_map_count(&w->map, n->mask + (ptrdiff_t)i * n->width * n->height, &w->axes, f->picture.rotation, f->picture.flip, f->p->mend,
                        f->p->offset, &m))
        return TACHY_OK;
    if (f->begins)
        prompts_get(&f->p->prompts, &f->picture, &w->found, thing, &m.prompt);
    struct tachy_region *r = mask_region_add(f->list, &m, &w->axes, &w->map, 1 / (1 + exp(-(double)n->presence[i])));
    if (!r)
        return TACHY_ERR_NOMEM;
    r->track = thing;
    r->class_id = f->bank->kind[thing];
    r->label = label_of(f->p, r->class_id);
    return TACHY_OK;
}

static void put_prompts(struct frame *f, int first, int n)
{
    const struct tachy_preprocess_params *in = &f->p->features->net.net[TACHY_INFER_FULL].card->in;
    struct memory_nets *to = &f->w->nets;
    for (int i = 0; i < n; i++) {
        struct prompt p;
        ptrdiff_t at = (ptrdiff_t)i * to->points;
        prompts_get(&f->p->prompts, &f->picture, &f->w->found, first + i, &p);
        prompt_put(&p, &f->picture, in->width, in->height, to->at + 2 * at, to->label + at, to->points);
    }
}

// Some things, in one run of each network.
static int follow(struct frame *f, int first, int n)
{
    struct memory_nets *nets = &f->w->nets;
    if (f->begins)
        put_prompts(f, first, n);
    int err = f->begins ? memory_nets_ask(nets, f->feature, n) : memory_nets_follow(nets, f->feature, f->bank, first, n);
    for (int i = 0; i < n && err == TACHY_OK; i++)
        err = add(f, first + i, i);
    return err < 0 ? err : memory_nets_remember(nets, f->feature, f->bank, first, n);
}

// The frame with the prompts; with those of a detector alone, the first in which it finds something.
static int begin(struct frame *f)
{
    struct propagate *p = f->p;
    struct worker *w = f->w;
    const struct tachy_view view = {.rotation = f->picture.rotation, .flip = f->picture.flip};
    int err = p->prompts.finds ? tachy_net_run(&w->finder, f->item->in, &view, NULL, &w->found) : TACHY_OK;
    int things = prompts_count(&p->prompts, w->found.nb);
    if (err < 0 || !things)
        return err;
    err = memory_bank_begin(f->bank, &p->size, things);
    for (int i = 0; i < things && err == TACHY_OK; i++)
        f->bank->kind[i] = i < w->found.nb ? w->found.v[i].class_id : -1;
    return err;
}

static int propagate(struct tachy_stage *st, struct worker *w, struct state *state, struct tachy_item *item)
{
    struct propagate *p = tachy_stage_priv(st);
    const tachy_frame *head = tachy_item_head(item);
    float *const *feature = features_in(st, item);
    struct frame f = {.p = p, .w = w, .bank = state ? &state->bank : &w->own.bank, .item = item, .list = tachy_stage_item(st, item)};
    f.picture = (struct prompts_picture){head->width, head->height, p->features->rotation, p->features->flip};
    tachy_regions_clear(f.list);
    tachy_regions_clear(&w->found);
    int err = feature ? make_axes(w, &f.picture) : TACHY_OK;
    for (int i = 0; i < FEATURES && feature; i++)
        f.feature[i] = feature[p->feature[i]];
    f.begins = !f.bank->things;
    if (err == TACHY_OK && feature && f.begins)
        err = begin(&f);
    for (int first = 0; first < f.bank->things && feature && err == TACHY_OK; first += w->nets.together)
        err = follow(&f, first, TACHY_MIN(w->nets.together, f.bank->things - first));
    if (feature && f.bank->things)
        memory_bank_next(f.bank);
    if (state)
        state->waits = !f.bank->things;
    item->result.regions = f.list->v;
    item->result.nb_regions = err < 0 ? 0 : f.list->nb;
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = propagate(st, worker, state, pieces[i].item);
}

static void item_close(void *item) { tachy_regions_free(item); }

const struct tachy_stage_ops tachy_stage_propagate = {
    .name = "propagate",
    .options = prompts_options,
    .flags = TACHY_STAGE_ORDERED | TACHY_STAGE_MODEL,
    .priv_size = sizeof(struct propagate),
    .item_size = sizeof(struct tachy_regions),
    .open = open,
    .close = close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
    .state_save = state_save,
    .state_load = state_load,
    .item_close = item_close,
};
