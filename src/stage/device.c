#include "stage/device.h"

#include "base/clock.h"
#include "cuda/mem.h"

#include <sched.h>
#include <stdlib.h>
#include <tachy/gpu.h>

// ---- The task's ----

int device_read_settings(struct task_devices *d, struct tachy_stage *st, const tachy_settings *set)
{
    d->st = st;
    d->fraction = tachy_settings_float(set, "gpu.memory_fraction");
    d->vram = tachy_settings_float(set, "gpu.max_vram_usage");
    st->task->devices = d;
    return tachy_gpus_asked(set, d->ids, &d->nb_ids, st->task->log);
}

int device_open(struct task_devices *d)
{
    tachy_task *t = d->st->task;
    int err = TACHY_OK;
    for (int i = 0; i < d->nb_ids && err == TACHY_OK; i++) {
        struct task_device *one = &d->list[i];
        err = tachy_gpu_open(&one->gpu, d->ids[i], NULL, t->log);
        if (err < 0)
            return tachy_fail(t->log, err, "--device cuda: GPU %d cannot be used", d->ids[i]);
        d->nb = t->nb_gpus = i + 1;
        t->gpu[i].ordinal = one->gpu->device.ordinal;
        one->mem = tachy_mem_of_gpu(d->ids[i]);
        err = tachy_cuda_need(&one->gpu->device, t->log);
    }
    return err;
}

void device_close(struct task_devices *d)
{
    tachy_memory_close(&d->memory);
    for (int i = 0; i < d->nb; i++)
        tachy_gpu_unref(&d->list[i].gpu);
    d->nb = 0;
}

bool device_starts_anew(const struct task_devices *d) { return d->memory != d->st->task->memory; }

int device_start(struct task_devices *d)
{
    const tachy_task *t = d->st->task;
    const struct tachy_gpu_mem_params p = {.fraction = d->fraction, .vram_most = d->vram, .log = t->log};
    int err = TACHY_OK;
    for (int i = 0; i < d->nb && err == TACHY_OK; i++)
        err = tachy_gpu_mem_open(t->memory, &d->list[i].gpu->device, &p);
    tachy_memory_close(&d->memory);
    d->memory = err == TACHY_OK ? tachy_memory_ref(t->memory) : NULL;
    return err;
}

// For the light ratio: the device that tachy_task.pinned names, else the first.
static struct task_device *pinned_device(struct task_devices *d) { return &d->list[TACHY_MAX(d->st->task->pinned, 0)]; }

struct task_device *device_with(struct task_devices *d, int ordinal)
{
    for (int i = 0; i < d->nb; i++)
        if (d->list[i].gpu->device.ordinal == ordinal)
            return &d->list[i];
    return NULL;
}

int device_group_size(const struct task_devices *d)
{
    return d->only_queues && !d->waits && !d->states ? TACHY_DEF(d->group, (int)DEVICE_GROUP) : 1;
}

// ---- A worker's ----

// Times for the profile, if there is one.
static int open_times(struct device_worker *g)
{
    struct tachy_gpu_timer_params p = {.profile = g->task->profile, .device = &g->gpu->device, .stream = g->stream};
    int err = tachy_gpu_timer_open(&g->kernel_times, &p);
    p.copies = true;
    return err < 0 ? err : tachy_gpu_timer_open(&g->copy_times, &p);
}

// True if the stage keeps data for each worker on a device.
static bool keeps_part(const struct tachy_stage *st) { return st->ops->worker_open && st->worker_of != st->index; }

static int open_parts(struct device_worker *g)
{
    int err = TACHY_OK;
    for (int i = 0; i < g->task->nb_stages && err == TACHY_OK; i++) {
        struct tachy_stage *st = g->task->stage[i];
        if (!keeps_part(st))
            continue;
        void *part = g;
        err = st->ops->worker_open(st, 0, &part);
        g->part[i] = err < 0 ? NULL : part;
    }
    return err;
}

static int open_all(struct device_worker *g)
{
    int err = device_failed(g, g->cu->stream_create(&g->stream, CUDA_STREAM_OWN_ORDER), "a stream");
    if (err == TACHY_OK)
        err = open_times(g);
    if (err == TACHY_OK)
        err = device_failed(g, g->cu->event_create(&g->arrived, CUDA_EVENT_ORDERS), "an event");
    if (err == TACHY_OK)
        err = device_failed(g, g->cu->event_create(&g->done, CUDA_EVENT_BLOCKS), "an event");
    if (err == TACHY_OK)
        err = device_flight_open(&g->flight, g->gpu, g->stream, g->task->log);
    return err < 0 ? err : open_parts(g);
}

static int worker_open(struct device_worker **out, struct device_set *set, struct task_device *device)
{
    struct device_worker *g = *out = calloc(1, sizeof(*g));
    if (!g)
        return TACHY_ERR_NOMEM;
    g->set = set;
    g->task = set->devices->st->task;
    g->device = device;
    g->gpu = tachy_gpu_ref(device->gpu);
    g->cu = g->gpu->device.cu;
    g->kernels = tachy_cuda_kernels();
    int err = tachy_device_enter(&g->gpu->device, g->task->log);
    if (err < 0)
        return err;
    err = open_all(g);
    tachy_device_leave(&g->gpu->device);
    return err;
}

static void worker_close(struct device_worker **worker)
{
    struct device_worker *g = *worker;
    *worker = NULL;
    if (!g)
        return;
    bool in = tachy_device_enter(&g->gpu->device, NULL) == TACHY_OK;
    if (in && g->stream)
        g->cu->stream_wait(g->stream);
    tachy_gpu_timer_close(&g->kernel_times);
    tachy_gpu_timer_close(&g->copy_times);
    device_flight_close(&g->flight);
    for (int i = 0; i < g->task->nb_stages; i++)
        if (g->part[i])
            g->task->stage[i]->ops->worker_close(g->part[i]);
    tachy_frame_pool_close(&g->uploads);
    tachy_frame_pool_close(&g->pinned);
    if (in && g->arrived)
        g->cu->event_destroy(g->arrived);
    if (in && g->done)
        g->cu->event_destroy(g->done);
    if (in && g->stream)
        g->cu->stream_destroy(g->stream);
    if (in)
        tachy_device_leave(&g->gpu->device);
    tachy_gpu_unref(&g->gpu);
    free(g);
}

// The worker on that device, opened if it is not there yet.
static int worker_on(struct device_set *set, struct task_device *device, struct device_worker **out)
{
    int i = device_index(set->devices, device);
    int err = set->on[i] ? TACHY_OK : worker_open(&set->on[i], set, device);
    if (err < 0)
        worker_close(&set->on[i]);
    *out = set->on[i];
    return err;
}

int device_set_open(struct device_set *set, struct task_devices *d)
{
    set->devices = d;
    return worker_on(set, d->list, &set->now);
}

void device_set_close(struct device_set *set)
{
    device_end(set);
    for (int i = TACHY_MAX_GPUS - 1; i >= 0; i--) // the others use what the first one has
        worker_close(&set->on[i]);
    set->now = NULL;
}

// ---- Which device ----

// The first of those that the fewest workers are at.
static struct task_device *idlest(struct task_devices *d)
{
    struct task_device *best = d->list;
    for (int i = 1; i < d->nb; i++)
        if (atomic_load_explicit(&d->list[i].busy, memory_order_relaxed) <
            atomic_load_explicit(&best->busy, memory_order_relaxed))
            best = &d->list[i];
    return best;
}

// The one that has the item's picture; *out NULL: it is on the host, or gone.
static int device_of_picture(struct task_devices *d, const struct tachy_item *item, struct task_device **out)
{
    const struct device_item *di = device_item_of(d, item);
    const tachy_frame *f = di->frame ? di->frame : item->in;
    bool there = f && f->mem == TACHY_DEVICE;
    *out = there ? device_with(d, f->device) : NULL;
    if (there && !*out)
        return tachy_fail(d->st->task->log, TACHY_ERR_UNSUPPORTED,
                          "a frame is on GPU %d, which this task was not opened for", f->device);
    return TACHY_OK;
}

int device_of_item(struct task_devices *d, const struct tachy_item *item, struct task_device **out)
{
    const struct device_worker *at = device_item_of(d, item)->at;
    int err = device_of_picture(d, item, out);
    if (err == TACHY_OK && !*out)
        *out = at ? at->device : d->list;
    return err;
}

int device_begin(struct device_set *set, struct tachy_item *item, struct task_device *preferred)
{
    struct task_devices *d = set->devices;
    struct device_item *di = device_item_of(d, item);
    struct task_device *device;
    device_end(set); // of an item that failed
    di->at = NULL;
    int err = device_of_picture(d, item, &device);
    if (err < 0)
        return err;
    if (!device)
        device = d->st->task->pinned >= 0 ? pinned_device(d) : preferred ? preferred : idlest(d);
    atomic_fetch_add_explicit(&device->busy, 1, memory_order_relaxed);
    set->counted = device;
    err = worker_on(set, device, &set->now);
    di->at = set->now;
    return err;
}

void device_count(struct device_set *set)
{
    if (set->counted)
        atomic_fetch_add_explicit(&set->devices->st->task->gpu[device_index(set->devices, set->counted)].regions, 1,
                                  memory_order_relaxed);
}

void device_end(struct device_set *set)
{
    if (set->counted)
        atomic_fetch_sub_explicit(&set->counted->busy, 1, memory_order_relaxed);
    set->counted = NULL;
}

// ---- A call ----

static void run_one(struct device_group *p, bool keeps, void (*call)(struct device_group *p))
{
    struct device_worker *g = p->g;
    int err = tachy_device_enter(&g->gpu->device, g->task->log);
    if (err < 0) {
        device_fail_all(p, err);
        return;
    }
    g->set->now = keeps ? g->set->now : g;
    g->at_work = (struct tachy_prof_item){p->items[0]->result.frame_id, p->items[0]->stream};
    g->step = p->st->step;
    call(p);
    tachy_device_leave(&g->gpu->device);
}

void device_run(struct device_set *set, struct tachy_stage *st, void *state, const struct tachy_piece pieces[], int n,
                int err[], bool keeps, void (*call)(struct device_group *p))
{
    struct tachy_item *items[TACHY_STAGE_ITEMS];
    const struct device_item *di[TACHY_STAGE_ITEMS];
    for (int i = 0; i < n; i++) {
        items[i] = pieces[i].item;
        di[i] = device_item_of(set->devices, items[i]);
    }
    for (int i = 0, last; i < n; i = last) {
        for (last = i + 1; last < n && di[last]->at == di[i]->at && di[last]->kind == di[i]->kind;)
            last++;
        struct device_group p = {.g = di[i]->at, .st = st, .state = state, .items = items + i, .err = err + i, .n = last - i,
                                 .region = pieces[i].region, .kind = di[i]->kind};
        if (!p.g)
            continue;
        p.part = p.g->part[st->index];
        run_one(&p, keeps, call);
    }
}

void device_run_where_it_is(struct device_set *set, struct tachy_stage *st, const struct tachy_piece pieces[], int n, int err[],
                            void (*call)(struct device_group *p))
{
    for (int i = 0; i < n; i++) {
        struct device_item *di = device_item_of(set->devices, pieces[i].item);
        struct task_device *device;
        err[i] = device_of_item(set->devices, pieces[i].item, &device);
        di->at = NULL;
        di->kind = 0;
        if (err[i] == TACHY_OK)
            err[i] = worker_on(set, device, &di->at);
    }
    device_run(set, st, NULL, pieces, n, err, true, call);
}

int device_queue(struct device_set *set, struct tachy_stage *st, struct tachy_item *const items[], int n, int regions,
                 void (*call)(struct device_group *p))
{
    int each[DEVICE_MOST] = {0}, err = TACHY_OK;
    struct device_group p = {.g = set->now, .st = st, .part = set->now->part[st->index], .items = items, .err = each, .n = n,
                             .kind = device_item_of(set->devices, items[0])->kind};
    for (; p.region < regions && err == TACHY_OK; p.region++) {
        for (int i = 0; i < n; i++)
            device_item_of(set->devices, items[i])->picture = i;
        call(&p);
        for (int i = 0; i < n && err == TACHY_OK; i++)
            err = each[i];
    }
    return err;
}

int device_follow(struct device_worker *g, cuda_stream to, cuda_stream from)
{
    int err = device_failed(g, g->cu->event_record(g->arrived, from), "an event");
    return err < 0 ? err : device_failed(g, g->cu->stream_wait_event(to, g->arrived, 0), "an event");
}

enum { LOOK_NS = 200000, BETWEEN_NS = 2000 };

// A sleeper is woken some 50 us late, so what takes a moment is looked for, as long as nobody else needs the core; not all the time,
// since the driver lets one thread in at a time.
int device_wait(struct device_worker *g, cuda_stream stream)
{
    int status = g->cu->event_record(g->done, stream);
    if (status != CUDA_OK)
        return device_failed(g, status, "an event");
    uint64_t until = tachy_now_ns() + LOOK_NS;
    while ((status = g->cu->event_query(g->done)) == CUDA_NOT_READY && tachy_now_ns() < until)
        for (uint64_t next = tachy_now_ns() + BETWEEN_NS; tachy_now_ns() < next;)
            sched_yield();
    return device_failed(g, status == CUDA_NOT_READY ? g->cu->event_wait(g->done) : status, "a network's stages");
}

int device_come_after(struct device_group *p, cuda_stream from)
{
    for (int i = 0; i < p->nb_behind; i++)
        if (p->behind[i] == from)
            return TACHY_OK;
    int err = device_follow(p->g, p->g->stream, from);
    if (err == TACHY_OK && p->nb_behind < (int)TACHY_ARRAY_SIZE(p->behind))
        p->behind[p->nb_behind++] = from;
    return err;
}

// A copy of a frame of the host's in pinned memory, laid out as frames there: the driver copies other memory by way of its own,
// on the calling thread and for one thread at a time. NULL: the frame is pinned, or there is no such memory left.
static tachy_frame *pinned_copy(struct device_worker *g, const tachy_frame *f)
{
    struct tachy_gpu_plane planes[4];
    tachy_frame *to;
    if (f->mem != TACHY_HOST || tachy_frame_pool_get_like(&g->pinned, g->gpu, TACHY_PINNED, g->task->memory, f, &to) < 0)
        return NULL;
    for (int i = 0, n = tachy_frame_copy_list(to, f, planes); i < n; i++)
        for (size_t y = 0; y < planes[i].height; y++)
            memcpy((uint8_t *)planes[i].to + y * planes[i].to_pitch, (const uint8_t *)planes[i].from + y * planes[i].from_pitch,
                   planes[i].width);
    return to;
}

// A frame of the host's, on the device.
static int upload(struct device_worker *g, const tachy_frame *f, tachy_frame **out)
{
    int err = tachy_frame_pool_get_like(&g->uploads, g->gpu, TACHY_DEVICE, g->task->memory, f, out);
    if (err < 0)
        return err;
    tachy_frame *pinned = pinned_copy(g, f);
    device_copies(g);
    err = tachy_frame_copy_planes(*out, pinned ? pinned : f, &g->gpu->device, g->stream, false, g->task->log);
    device_copies_end(g);
    if (err == TACHY_OK && pinned)
        err = device_flight_keep(g->flight, pinned);
    if (err == TACHY_OK && pinned)
        err = device_flight_mark(g->flight, NULL);
    tachy_frame_unref(&pinned);
    if (err < 0)
        tachy_frame_unref(out); // another try must not take it for a copy
    return err;
}

int device_frame_of(struct device_group *p, struct tachy_item *item, const tachy_frame **out)
{
    struct device_worker *g = p->g;
    struct device_item *di = device_item_of(g->set->devices, item);
    if (item->in->mem != TACHY_DEVICE) {
        int err = di->frame ? TACHY_OK : upload(g, item->in, &di->frame);
        *out = di->frame;
        return err;
    }
    *out = item->in;
    if (item->in->device != g->gpu->device.ordinal)
        return tachy_fail(g->task->log, TACHY_ERR_UNSUPPORTED, "a frame of GPU %d reached a worker of GPU %d",
                          item->in->device, g->gpu->device.ordinal);
    if (di->behind == g && di->behind_id == item->result.frame_id)
        return TACHY_OK;
    int err = device_come_after(p, item->in->stream);
    di->behind = err == TACHY_OK ? g : NULL;
    di->behind_id = item->result.frame_id;
    return err;
}

int device_keep_frame(struct device_group *p, struct tachy_item *item)
{
    const tachy_task *t = p->g->task;
    tachy_frame *f = item->in->mem == TACHY_DEVICE ? item->in : device_item_of(t->devices, item)->frame;
    bool kept = false; // by a stage that writes
    for (int i = 0; i < t->nb_stages; i++)
        kept = kept || (t->stage[i]->flags & TACHY_STAGE_WRITES && t->stage[i]->flags & TACHY_STAGE_READS);
    return f && !kept ? device_flight_keep(p->g->flight, f) : TACHY_OK;
}

int device_keep_read(struct device_group *p, struct tachy_item *item)
{
    const struct device_item *di = device_item_of(p->g->task->devices, item);
    int err = item->in ? device_flight_keep(p->g->flight, item->in) : TACHY_OK;
    return err == TACHY_OK && di->frame ? device_flight_keep(p->g->flight, di->frame) : err;
}

void device_let_go(struct device_group *p)
{
    const tachy_task *t = p->g->task;
    bool read = tachy_task_flag(t, p->st->index + 1, TACHY_STAGE_READS);
    for (int i = 0; i < p->n && !read && p->region == t->eyes - 1; i++)
        tachy_frame_unref(&device_item_of(t->devices, p->items[i])->frame);
}

struct tachy_tensor device_picture(const struct tachy_tensor *first, int at)
{
    struct tachy_tensor t = *first;
    t.data = (uint8_t *)t.data + (size_t)at * tachy_tensor_bytes(first);
    return t;
}

bool device_load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    l->device = &pinned_device(st->task->devices)->gpu->device;
    l->stream = worker ? ((struct device_set *)worker)->now->stream : l->stream;
    l->computes = true;
    return true;
}
