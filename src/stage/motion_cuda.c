#include "stage/motion.h"

#include "cuda/mem.h"
#include "flow/flow_cuda.h"
#include "stage/device.h"
#include "stage/infer_cuda.h"
#include "stage/pair.h"

#include <stdlib.h>

// Flow on a device, for several pairs at once. The finest level's vectors come to the host, which makes numbers and things of them.

enum { MOST = TACHY_PAIRS_MOST };

// The stage's data for a worker on a device.
struct part {
    struct device_worker *g;
    struct flow_cuda flow;     // levels 0: the pictures are too small to move
    struct tachy_block memory; // flow.bytes there
    struct tachy_block pinned; // results of MOST pairs
    float *u, *v, *row;        // a pair's, at the pictures' size
    void *scratch;
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    const struct tachy_stage *luma = st->task->devices->st;
    if (tachy_settings_str(s, "motion.flow_cache"))
        return tachy_fail(st->task->log, TACHY_ERR_UNSUPPORTED, "--flow-cache runs on the CPU only: leave it or --device cuda out");
    st->worker_of = luma->worker_of;
    return tachy_motion_open(st, s);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    int err = tachy_motion_start(st, video);
    st->group = st->task->stage[st->worker_of]->group;
    return err;
}

static void part_close(void *part)
{
    struct part *p = part;
    tachy_memory_give(p->g->task->memory, &p->memory);
    tachy_memory_give(p->g->task->memory, &p->pinned);
    free(p->u);
    free(p->v);
    free(p->row);
    free(p->scratch);
    free(p);
}

static int part_open(struct tachy_stage *st, int batch, void **part)
{
    const struct tachy_motion_stage *m = tachy_stage_priv(st);
    struct device_worker *g = *part;
    struct part *p = *part = calloc(1, sizeof(*p));
    size_t n = (size_t)m->width * (size_t)m->height;
    if (!p)
        return TACHY_ERR_NOMEM;
    p->g = g;
    p->u = calloc(n, sizeof(float));
    p->v = calloc(n, sizeof(float));
    p->row = malloc((size_t)m->width * sizeof(float));
    p->scratch = malloc(tachy_motion_scratch(m->width, m->height));
    int err = p->u && p->v && p->row && p->scratch ? TACHY_OK : TACHY_ERR_NOMEM;
    struct tachy_gpu_scratch s = {g->task->memory, g->device->mem, g->cu, g->stream, g->task->log};
    if (flow_cuda_plan(&p->flow, m->width, m->height, TACHY_MAX(st->group, 1)) && err == TACHY_OK) {
        err = tachy_gpu_scratch_need(&s, &p->memory, p->flow.bytes);
        if (err == TACHY_OK)
            err = infer_cuda_pin(g, &p->pinned, (size_t)p->flow.most * flow_cuda_result_bytes(&p->flow));
    }
    if (err < 0) {
        part_close(p);
        *part = NULL;
    }
    return err;
}

// ---- Pairs

static const struct tachy_pair *pair_of(const struct device_group *p, int i) { return tachy_pair_of(p->st, p->items[i]); }

// Queues the flow of items from `first` on that have a frame before; of[] is which. Returns how many, or a negative code.
static int queue_some(struct device_group *p, int first, int of[MOST])
{
    const struct part *own = p->part;
    struct device_worker *g = p->g;
    cuda_address here[MOST], there[MOST];
    int64_t stride = 0;
    int n = 0, err = TACHY_OK;
    for (int i = first; i < p->n && n < own->flow.most && err == TACHY_OK; i++) {
        const struct tachy_pair *q = pair_of(p, i);
        err = device_come_after(p, q->here->stream); // also of one that nobody compares: then its surface may go
        if (err < 0 || !q->before)
            continue;
        err = device_come_after(p, q->before->stream);
        stride = q->here->surface->stride[0];
        here[n] = tachy_cu_address(q->before->surface->data[0]);
        there[n] = tachy_cu_address(q->here->surface->data[0]);
        of[n++] = i;
    }
    if (err < 0 || !n)
        return err;
    device_kernels(g);
    err = device_failed(g, flow_cuda_run(&own->flow, g->kernels, tachy_cu_address(own->memory.data), here, there, stride, n, g->stream),
                        "starting the flow's kernels");
    device_kernels_end(g, (double)n * 2 * own->flow.width * own->flow.height);
    return err < 0 ? err : n;
}

static int fetch(struct device_group *p, int n)
{
    struct part *own = p->part;
    struct device_worker *g = p->g;
    size_t bytes = flow_cuda_result_bytes(&own->flow);
    int err = TACHY_OK;
    device_copies(g);
    for (int i = 0; i < n && err == TACHY_OK; i++)
        err = device_failed(g, g->cu->copy_to_host_async((char *)own->pinned.data + (size_t)i * bytes,
                                                         flow_cuda_result(&own->flow, tachy_cu_address(own->memory.data), i), bytes, g->stream),
                            "a copy");
    device_copies_end(g);
    return err;
}

// Also after a failure: then nothing reads the surfaces any more.
static int wait_for(struct device_worker *g)
{
    int err = device_failed(g, g->cu->event_record(g->done, g->stream), "an event");
    return err < 0 ? err : device_event_wait(g->gpu, g->done, g->task->log);
}

static void tell(struct device_group *p, int pair, int item)
{
    struct part *own = p->part;
    const struct flow_cuda *f = &own->flow;
    const float *found = (const float *)((const char *)own->pinned.data + (size_t)pair * flow_cuda_result_bytes(f));
    size_t plane = (size_t)(f->width >> f->finest) * (size_t)(f->height >> f->finest);
    flow_stretch(found, f->finest, f->width, f->height, own->row, own->u);
    flow_stretch(found + plane, f->finest, f->width, f->height, own->row, own->v);
    tachy_motion_tell(p->st, p->items[item], own->u, own->v, own->scratch);
}

static void compare(struct device_group *p)
{
    struct part *own = p->part;
    int of[MOST], next = 0;
    while (next < p->n) {
        int n = own->flow.levels ? queue_some(p, next, of) : 0;
        int err = n > 0 ? fetch(p, n) : n, waited = wait_for(p->g);
        err = err < 0 ? err : waited;
        if (err < 0) {
            device_fail_all(p, err);
            return;
        }
        for (int i = 0; i < n; i++)
            tell(p, i, of[i]);
        next = n == own->flow.most ? of[n - 1] + 1 : p->n;
    }
    for (int i = 0; i < p->n && !own->flow.levels; i++) // u and v are 0
        if (pair_of(p, i)->before)
            tachy_motion_tell(p->st, p->items[i], own->u, own->v, own->scratch);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    device_run_where_it_is(worker, st, pieces, n, err, compare);
}

static void queue_group(struct device_group *p)
{
    int of[MOST], n = ((struct part *)p->part)->flow.levels ? queue_some(p, 0, of) : 0;
    device_fail_all(p, TACHY_MIN(n, 0));
}

static int queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return device_queue(worker, st, items, n, 1, queue_group);
}

static bool load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const struct tachy_motion_stage *m = tachy_stage_priv(st);
    l->to_host = 2 * sizeof(float) * (double)m->width * m->height / 4;
    return device_load(st, worker, item, l);
}

const struct tachy_stage_ops tachy_stage_motion_cuda = {
    .name = "motion",
    .options = tachy_motion_options,
    .remedy = "compare smaller pictures (--motion-size 320)",
    .priv_size = sizeof(struct tachy_motion_stage),
    .item_size = sizeof(struct motion_things),
    .open = open,
    .close = tachy_motion_close,
    .start = start,
    .worker_open = part_open,
    .worker_close = part_close,
    .run = run,
    .load = load,
    .queue = queue,
};
