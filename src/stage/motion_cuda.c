#include "stage/motion.h"

#include "cuda/mem.h"
#include "flow/flow_cuda.h"
#include "media/device.h"
#include "stage/device.h"
#include "stage/infer_cuda.h"
#include "stage/pair.h"

#include <stdlib.h>

// Flow on a device, for several pairs at once. The finest level's vectors come to the host, which makes numbers and things of them.
// With a cache, the host gets the pictures first, and those whose flow is kept are not compared.

enum {
    MOST = TACHY_PAIRS_MOST,
    WORKERS = 6, // while the host makes numbers for some, the device compares for the others
};
_Static_assert((int)MOST <= (int)FLOW_CUDA_PAIRS, "a launch takes so many pairs");

// The stage's data for a worker on a device.
struct part {
    struct device_worker *g;
    struct flow_cuda flow;     // levels 0: the pictures are too small to move
    struct tachy_block memory; // flow.bytes there
    struct tachy_block pinned; // results of flow.most pairs
    float *u, *v;              // of a pair: all pixels with a cache, else what numbers are made of
    float *row;
    void *scratch;
    tachy_frame_pool *lumas; // pinned, for the cache
    void *flo;               // as flow_cache_write() says
};

// A call's items, for the cache.
struct kept {
    char *path[TACHY_STAGE_ITEMS]; // of the item's flow; NULL: there is no cache
    bool found[TACHY_STAGE_ITEMS]; // its numbers are there
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    const struct tachy_stage *luma = st->task->devices->st;
    st->worker_of = luma->worker_of;
    st->task->workers = WORKERS * st->task->devices->nb;
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
    free(p->flo);
    tachy_frame_pool_close(&p->lumas);
    free(p);
}

// As many pairs as were asked for, less if their memory would be more than a share of the device's: all workers have some.
static void plan(struct part *p, const struct tachy_motion_stage *m, int asked)
{
    enum { SHARE = 16 };
    const uint64_t usual = (uint64_t)1280 << 20;
    struct tachy_memory_stats now;
    if (!flow_cuda_plan(&p->flow, m->width, m->height, TACHY_MAX(asked, 1)))
        return;
    tachy_memory_read(p->g->task->memory, &now);
    uint64_t room = now.budget[p->g->device->mem] / SHARE, most = TACHY_MIN(room ? room : usual, usual) / (uint64_t)p->flow.next;
    if ((uint64_t)p->flow.most > most)
        flow_cuda_plan(&p->flow, m->width, m->height, (int)TACHY_MAX(most, 1));
}

static int part_open(struct tachy_stage *st, int batch, void **part)
{
    const struct tachy_motion_stage *m = tachy_stage_priv(st);
    struct device_worker *g = *part;
    struct part *p = *part = calloc(1, sizeof(*p));
    const bool keeps = m->cache.folder;
    size_t n = keeps ? (size_t)m->width * (size_t)m->height : tachy_motion_vectors(m->width, m->height);
    if (!p)
        return TACHY_ERR_NOMEM;
    p->g = g;
    p->flo = keeps ? malloc(flow_cache_bytes(&m->cache)) : NULL;
    p->u = calloc(n, sizeof(float));
    p->v = calloc(n, sizeof(float));
    p->row = malloc((size_t)m->width * sizeof(float));
    p->scratch = malloc(tachy_motion_scratch(m->width, m->height));
    int err = p->u && p->v && p->row && p->scratch && (p->flo || !keeps) ? TACHY_OK : TACHY_ERR_NOMEM;
    struct tachy_gpu_scratch s = {g->task->memory, g->device->mem, g->cu, g->stream, g->task->log};
    plan(p, m, st->group);
    if (p->flow.levels && err == TACHY_OK) {
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

// Queues the flow of items from `first` on that have a frame before, but not of those that are found; of[] is which. Returns how many,
// or a negative code.
static int queue_some(struct device_group *p, int first, const bool *found, int of[MOST])
{
    const struct part *own = p->part;
    struct device_worker *g = p->g;
    cuda_address here[MOST], there[MOST];
    int64_t stride = 0;
    int n = 0, err = TACHY_OK;
    for (int i = first; i < p->n && n < own->flow.most && err == TACHY_OK; i++) {
        const struct tachy_pair *q = pair_of(p, i);
        err = device_come_after(p, q->here->stream); // also of one that nobody compares: then its surface may go
        if (err < 0 || !q->before || (found && found[i]))
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

// ---- The cache

static struct tachy_motion_stage *stage_of(const struct device_group *p) { return tachy_stage_priv(p->st); }

static void tell_whole(struct device_group *p, int item)
{
    const struct tachy_motion_stage *m = stage_of(p);
    struct part *own = p->part;
    tachy_motion_take(own->u, m->width, m->height, own->u);
    tachy_motion_take(own->v, m->width, m->height, own->v);
    tachy_motion_tell(p->st, p->items[item], own->u, own->v, own->scratch);
}

// Queues the copy of a picture to the host.
static int fetch_luma(struct device_group *p, const struct tachy_luma *l, tachy_frame **out)
{
    struct device_worker *g = p->g;
    struct part *own = p->part;
    int err = device_come_after(p, l->stream);
    if (err == TACHY_OK)
        err = tachy_frame_pool_get_like(&own->lumas, g->gpu, TACHY_PINNED, g->task->memory, l->surface, out);
    return err < 0 ? err : tachy_frame_copy_planes(*out, l->surface, &g->gpu->device, g->stream, false, g->task->log);
}

static int look_up(struct device_group *p, int i, struct kept *k)
{
    struct tachy_motion_stage *m = stage_of(p);
    struct part *own = p->part;
    const struct tachy_pair *q = pair_of(p, i);
    tachy_frame *of[2] = {0};
    int err = fetch_luma(p, q->before, &of[0]);
    if (err == TACHY_OK)
        err = fetch_luma(p, q->here, &of[1]);
    int waited = wait_for(p->g);
    err = err < 0 ? err : waited;
    if (err == TACHY_OK && !(k->path[i] = flow_cache_path(&m->cache, (struct flow_picture){of[0]->data[0], of[0]->stride[0]},
                                                          (struct flow_picture){of[1]->data[0], of[1]->stride[0]})))
        err = TACHY_ERR_NOMEM;
    tachy_frame_unref(&of[0]);
    tachy_frame_unref(&of[1]);
    k->found[i] = err == TACHY_OK && flow_cache_read(&m->cache, k->path[i], own->u, own->v);
    if (k->found[i])
        tell_whole(p, i);
    return err;
}

static void tell(struct device_group *p, int pair, int item, const struct kept *k)
{
    struct tachy_motion_stage *m = stage_of(p);
    struct part *own = p->part;
    const struct flow_cuda *f = &own->flow;
    const float *found = (const float *)((const char *)own->pinned.data + (size_t)pair * flow_cuda_result_bytes(f));
    size_t plane = (size_t)(f->width >> f->finest) * (size_t)(f->height >> f->finest);
    int every = k->path[item] ? 1 : tachy_motion_every(f->width, f->height);
    flow_stretch(found, f->finest, f->width, f->height, every, own->row, own->u);
    flow_stretch(found + plane, f->finest, f->width, f->height, every, own->row, own->v);
    if (!k->path[item]) {
        tachy_motion_tell(p->st, p->items[item], own->u, own->v, own->scratch);
        return;
    }
    flow_cache_write(&m->cache, k->path[item], own->u, own->v, own->flo);
    tell_whole(p, item);
}

// Results for pictures that are too small for a patch.
static void tell_still(struct device_group *p, int item, const struct kept *k)
{
    struct tachy_motion_stage *m = stage_of(p);
    struct part *own = p->part;
    size_t n = k->path[item] ? (size_t)m->width * (size_t)m->height : tachy_motion_vectors(m->width, m->height);
    memset(own->u, 0, n * sizeof(float));
    memset(own->v, 0, n * sizeof(float));
    if (k->path[item])
        flow_cache_write(&m->cache, k->path[item], own->u, own->v, own->flo);
    tachy_motion_tell(p->st, p->items[item], own->u, own->v, own->scratch);
}

// ---- Items

static int compare_some(struct device_group *p, int first, const struct kept *k, int *next)
{
    const struct part *own = p->part;
    int of[MOST], n = queue_some(p, first, k->found, of);
    int err = n > 0 ? fetch(p, n) : n, waited = wait_for(p->g);
    err = err < 0 ? err : waited;
    for (int i = 0; i < n && err == TACHY_OK; i++)
        tell(p, i, of[i], k);
    *next = n == own->flow.most ? of[n - 1] + 1 : p->n;
    return err;
}

static void compare(struct device_group *p)
{
    const struct part *own = p->part;
    const struct tachy_motion_stage *m = stage_of(p);
    struct kept k = {0};
    int err = TACHY_OK;
    for (int i = 0; i < p->n && err == TACHY_OK && m->cache.folder; i++)
        if (pair_of(p, i)->before)
            err = look_up(p, i, &k);
    for (int next = 0; next < p->n && err == TACHY_OK && own->flow.levels;)
        err = compare_some(p, next, &k, &next);
    for (int i = 0; i < p->n && err == TACHY_OK && !own->flow.levels; i++)
        if (pair_of(p, i)->before && !k.found[i])
            tell_still(p, i, &k);
    for (int i = 0; i < p->n; i++)
        tachy_free(k.path[i]);
    if (err < 0)
        device_fail_all(p, err);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    device_run_where_it_is(worker, st, pieces, n, err, compare);
}

static void queue_group(struct device_group *p)
{
    int of[MOST], n = ((struct part *)p->part)->flow.levels ? queue_some(p, 0, NULL, of) : 0;
    device_fail_all(p, TACHY_MIN(n, 0));
}

static int queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    return device_queue(worker, st, items, n, 1, queue_group);
}

static bool load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const struct tachy_motion_stage *m = tachy_stage_priv(st);
    l->to_host = 2 * sizeof(float) * (double)m->width * m->height / 4; // of the finest level
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
