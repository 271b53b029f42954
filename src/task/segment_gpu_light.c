#include "task/segment_gpu_priv.h"

// The steps' kernels alone, for the light ratio: what a worker queues for the items that it takes at once, without
// the copies between host and device and without what it keeps for later.

enum { MOST = SEGMENT_GPU_GROUP };

void *segment_gpu_stream(const void *worker) { return ((const struct segment_worker *)worker)->gpu->stream; }

bool segment_gpu_mask_from_host(const struct tachy_item *item, int eye)
{
    const struct segment_eye *e = &((const struct segment_item *)item->priv)->eye[eye];
    return e->gpu->from_host;
}

static struct segment_eye *eye_of(const struct tachy_item *item, int eye)
{
    return &((struct segment_item *)item->priv)->eye[eye];
}

static int first_error(const struct segment_gpu_part *p)
{
    int err = TACHY_OK;
    for (int i = 0; i < p->n && err == TACHY_OK; i++)
        err = p->err[i];
    return err;
}

static int preprocess(struct segment_gpu_part *p)
{
    segment_gpu_queue_preprocess(p);
    return first_error(p);
}

static int model(struct segment_gpu_part *p)
{
    int at[MOST];
    for (int i = 0; i < p->n; i++)
        at[i] = i;
    segment_gpu_run_models(p->g, at, p->n, p->err);
    return first_error(p);
}

static int masks(struct segment_gpu_part *p)
{
    const struct segment_worker *w = p->g->w;
    const struct segment_net *net = w->size[w->last].net;
    int of[MOST], tw, th, err = tachy_mask_extent(&net->spec, &p->g->size[w->last].out, &tw, &th);
    if (err < 0)
        return err;
    for (int i = 0; i < p->n; i++)
        of[i] = i;
    struct tachy_placement at = segment_mask_place(net, &eye_of(p->items[0], p->eye)->placement, tw, th);
    return segment_gpu_queue_masks(p, of, p->n, &at);
}

static int postprocess(struct segment_gpu_part *p)
{
    int err = eye_of(p->items[0], p->eye)->gpu->from_host ? TACHY_OK : masks(p);
    for (int i = 0; i < p->n && err == TACHY_OK && segment_needs_guide(p->g->w->s); i++) {
        const tachy_frame *f;
        err = segment_gpu_frame_of(p, p->items[i], &f);
        if (err == TACHY_OK)
            err = segment_gpu_queue_guide(p->g, p->items[i], f, p->eye);
    }
    return err;
}

// What composites read and write.
struct composites {
    struct tachy_result there[MOST];
    tachy_frame *surface[MOST];
    struct tachy_refine refine[TACHY_MAX_EYES];
    struct tachy_composite_cuda_item item[MOST];
};

static int lay(struct segment_gpu_part *p, struct composites *c, int i)
{
    struct segment_gpu_worker *g = p->g;
    struct tachy_item *item = p->items[i];
    const tachy_frame *f;
    int err = segment_gpu_frame_of(p, item, &f);
    if (err == TACHY_OK)
        err = tachy_frame_pool_get(g->surfaces, &c->surface[i]);
    if (err < 0)
        return err;
    c->there[i] = item->result;
    for (int eye = 0; eye < item->result.eyes; eye++)
        c->there[i].mask[eye].data = (const uint8_t *)(uintptr_t)eye_of(item, eye)->gpu->mask;
    err = segment_gpu_laid(p, item, f, &c->there[i], c->surface[i], c->refine, &c->item[i]);
    // The coefficients are the next item's from here on.
    return err < 0 || !g->w->s->refine ? err : tachy_composite_cuda_run(g->composite, &c->item[i], 1, g->stream);
}

static int composite(struct segment_gpu_part *p)
{
    struct composites c = {0};
    int err = TACHY_OK;
    for (int i = 0; i < p->n && err == TACHY_OK; i++)
        err = lay(p, &c, i);
    if (err == TACHY_OK && !p->g->w->s->refine)
        err = tachy_composite_cuda_run(p->g->composite, c.item, p->n, p->g->stream);
    for (int i = 0; i < p->n; i++)
        tachy_frame_unref(&c.surface[i]); // who gets it next writes to it on this stream
    return err;
}

int segment_gpu_queue(void *worker, enum segment_step step, struct tachy_item *const items[], int n)
{
    struct segment_worker *w = worker;
    int each[MOST], err = TACHY_OK;
    struct segment_gpu_part p = {.g = w->gpu, .items = items, .err = each, .n = n};
    for (int i = 0; i < n; i++)
        ((struct segment_item *)items[i]->priv)->gpu.picture = i;
    if (step == SEGMENT_STEP_COMPOSITE)
        return composite(&p);
    for (int eye = 0; eye < w->task->eyes && err == TACHY_OK; eye++) {
        p.eye = eye;
        err = step == SEGMENT_STEP_PREPROCESS ? preprocess(&p) : step == SEGMENT_STEP_MODEL ? model(&p) : postprocess(&p);
    }
    return err;
}
