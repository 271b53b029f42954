#include "task/segment_gpu_priv.h"

#include "postprocess/mask_cuda.h"

// The steps' kernels alone, for the light ratio: what segment_gpu.c queues without its copies between host
// and card and without waiting.

bool segment_gpu_load(const tachy_task *t, const struct tachy_item *item, struct tachy_task_gpu *g)
{
    const struct segment *s = (const void *)t->priv;
    const struct segment_item *si = item->priv;
    const struct tachy_preprocess_params *in = &s->net[SEGMENT_FULL].card->in;
    if (!s->gpu)
        return false;
    *g = (struct tachy_task_gpu){.device = &(s->pinned ? s->pinned : s->cards)->gpu->device,
                                 .steps = 1u << TACHY_STEP_PREPROCESS | 1u << TACHY_STEP_COMPOSITE};
    for (int i = 0; i < t->eyes; i++) {
        const struct segment_eye *e = &si->eye[i];
        double mask = (double)e->width * e->height;
        if (segment_needs_guide(s))
            g->steps |= 1u << TACHY_STEP_POSTPROCESS;
        if (s->smooth > 0)
            g->to_host += mask;
        if (!e->gpu->from_host) {
            g->steps |= 1u << TACHY_STEP_MODEL | 1u << TACHY_STEP_POSTPROCESS;
            g->to_host += mask;
        } else {
            g->to_host += (double)in->width * in->height * 3 * (double)tachy_dtype_size(in->dtype);
            g->to_device += mask;
        }
    }
    if (item->out)
        g->to_host += (double)tachy_frame_bytes(item->out->format, item->out->width, item->out->height);
    if (s->composite.mode == TACHY_MODE_JSON)
        g->to_host += (double)item->in->width * item->in->height;
    if (item->in->place != TACHY_DEVICE)
        g->to_device += (double)tachy_frame_bytes(item->in->format, item->in->width, item->in->height);
    return true;
}

void *segment_gpu_stream(const void *worker) { return ((const struct segment_worker *)worker)->gpu->stream; }

static int mask(struct segment_gpu_worker *g, struct tachy_item *item, int eye)
{
    struct segment_worker *w = g->w;
    const struct segment_net *net = w->size[w->last].net;
    const struct segment_eye *e = &((struct segment_item *)item->priv)->eye[eye];
    const struct tachy_tensor *out = &g->size[w->last].out;
    int tw, th, err = tachy_mask_extent(&net->spec, out, &tw, &th);
    if (err < 0)
        return err;
    struct tachy_placement pl = segment_mask_place(net, &w->placement, tw, th);
    return tachy_mask_from_tensor_cuda(&net->spec, out, &pl, w->s->rotation, w->s->flip, e->gpu->mask, e->width, 1, 0, g->cu,
                                       g->stream, w->task->log);
}

static int postprocess(struct segment_gpu_worker *g, struct tachy_item *item, int eye)
{
    const tachy_frame *f;
    int err = ((struct segment_item *)item->priv)->eye[eye].gpu->from_host ? TACHY_OK : mask(g, item, eye);
    if (err < 0 || !segment_needs_guide(g->w->s))
        return err;
    err = segment_gpu_frame_of(g, item, &f);
    return err < 0 ? err : segment_gpu_queue_guide(g, item, f, eye);
}

static int composite(struct segment_gpu_worker *g, struct tachy_item *item)
{
    struct segment_item *si = item->priv;
    struct tachy_result there = item->result;
    tachy_frame *surface;
    const tachy_frame *f;
    int err = segment_gpu_frame_of(g, item, &f);
    if (err == TACHY_OK)
        err = tachy_frame_pool_get(g->surfaces, &surface);
    if (err < 0)
        return err;
    for (int i = 0; i < there.eyes; i++)
        there.mask[i].data = (const uint8_t *)(uintptr_t)si->eye[i].gpu->mask;
    err = segment_gpu_lay(g, item, f, &there, surface);
    tachy_frame_unref(&surface); // who gets it next writes to it on this stream
    return err;
}

int segment_gpu_queue(void *worker, enum tachy_step step, struct tachy_item *item)
{
    struct segment_worker *w = worker;
    struct segment_gpu_worker *g = w->gpu;
    int err = TACHY_OK;
    if (step == TACHY_STEP_COMPOSITE)
        return composite(g, item);
    for (int eye = 0; eye < w->task->eyes && err == TACHY_OK; eye++)
        err = step == TACHY_STEP_PREPROCESS ? segment_gpu_queue_preprocess(g, item, eye)
              : step == TACHY_STEP_MODEL    ? segment_gpu_run_model(g)
                                            : postprocess(g, item, eye);
    return err;
}
