#include "stage/infer_cuda.h"

#include <stdlib.h>

// Per-stream state of a recurrent model whose engine runs on a device; infer_state.c is the version for the host. All
// reads and writes of a state are on the stream on which the runs are queued, so nothing needs to wait.

struct infer_state_cuda {
    tachy_task *task;
    struct infer_cuda *c;
    _Atomic(struct task_device *) device; // whose memory it is in: that of the last frame
    const struct tachy_cu *cu;
    cuda_stream stream; // of the runs there
    struct tachy_block block;
    void *start[TACHY_MAX_STATES]; // the first state's elements, on the host; NULL: zeros
    int eyes;
    struct gpu_state_eye {
        cuda_address now[TACHY_MAX_STATES], next[TACHY_MAX_STATES];
        bool begins; // the next run's is the first state
        int32_t warm_up; // runs of the next picture before the one that counts
    } eye[TACHY_MAX_EYES];
};

static int failed(const struct infer_state_cuda *st, int status, const char *what)
{
    return tachy_cu_check(st->cu, status, st->task->log, what);
}

static size_t bytes_of(const struct infer_state_cuda *st, int i) { return tachy_tensor_bytes(&st->c->infer.state[i].spec); }

static struct infer_device *infer_device_of(const struct infer_state_cuda *st, const struct task_device *device)
{
    return &st->c->device[device_index(st->c->devices, device)];
}

// Memory for all of it on the device, and where each state is there.
static int place(struct infer_state_cuda *st, struct task_device *device)
{
    size_t all = 0, at[TACHY_MAX_STATES];
    for (int i = 0; i < st->c->infer.nb_states; i++) {
        at[i] = all;
        all += TACHY_ALIGN(bytes_of(st, i), (size_t)DEVICE_ALIGN);
    }
    atomic_fetch_add(&infer_device_of(st, device)->states, 1);
    atomic_store(&st->device, device);
    st->cu = device->gpu->device.cu;
    st->stream = infer_device_of(st, device)->gpu->stream;
    int err = tachy_memory_take(st->task->memory, &st->block, device->mem, TACHY_MEMORY_TENSORS,
                                2 * all * (size_t)st->eyes);
    if (err == TACHY_ERR_NOMEM)
        return tachy_fail(st->task->log, err, "GPU %d has no %zu bytes left for the model's states: close what else uses "
                          "it, or use fewer workers", device->gpu->device.ordinal, 2 * all * (size_t)st->eyes);
    if (err < 0)
        return err;
    cuda_address from = tachy_cu_address(st->block.data);
    for (int e = 0; e < st->eyes; e++) {
        for (int i = 0; i < st->c->infer.nb_states; i++) {
            st->eye[e].now[i] = from + 2 * all * (size_t)e + at[i];
            st->eye[e].next[i] = st->eye[e].now[i] + all;
        }
    }
    return TACHY_OK;
}

// The first of the devices that have the fewest streams' states.
static struct task_device *fewest(struct infer_cuda *c)
{
    int best = 0;
    for (int i = 1; i < c->devices->nb; i++)
        if (atomic_load(&c->device[i].states) < atomic_load(&c->device[best].states))
            best = i;
    return &c->devices->list[best];
}

int infer_state_cuda_open(struct infer_state_cuda **out, struct infer_cuda *c)
{
    struct infer_state_cuda *st = *out = calloc(1, sizeof(*st));
    if (!st)
        return TACHY_ERR_NOMEM;
    st->task = c->infer.st->task;
    st->c = c;
    st->eyes = st->task->eyes;
    int err = TACHY_OK;
    for (int i = 0; i < st->c->infer.nb_states && err == TACHY_OK; i++) {
        if (st->c->infer.state[i].start == 0)
            continue;
        st->start[i] = malloc(bytes_of(st, i));
        err = st->start[i] ? TACHY_OK : TACHY_ERR_NOMEM;
        if (st->start[i])
            infer_state_begin(st->start[i], &st->c->infer.state[i]);
    }
    if (err == TACHY_OK)
        err = place(st, fewest(c));
    if (err < 0)
        infer_state_cuda_close(out);
    return err;
}

static void leave(struct infer_state_cuda *st)
{
    struct task_device *c = st->device;
    if (!c)
        return;
    if (st->block.data && tachy_device_enter(&c->gpu->device, NULL) == TACHY_OK) {
        st->cu->stream_wait(st->stream); // the last runs write it
        tachy_device_leave(&c->gpu->device);
    }
    tachy_memory_give(st->task->memory, &st->block);
    atomic_fetch_sub(&infer_device_of(st, c)->states, 1);
}

struct task_device *infer_state_cuda_device(struct infer_state_cuda *st) { return st->device; }

void infer_state_cuda_close(struct infer_state_cuda **state)
{
    struct infer_state_cuda *st = *state;
    *state = NULL;
    if (!st)
        return;
    leave(st);
    for (int i = 0; i < TACHY_MAX_STATES; i++)
        free(st->start[i]);
    free(st);
}

void infer_state_cuda_reset(struct infer_state_cuda *st, int eye)
{
    st->eye[eye].begins = true;
    st->eye[eye].warm_up = st->c->infer.warm_up;
}

// Queues the first state of an eye that begins. The context is current.
static int begin(struct infer_state_cuda *st, struct gpu_state_eye *e)
{
    const struct tachy_cu *cu = st->cu;
    int err = TACHY_OK;
    for (int i = 0; i < st->c->infer.nb_states && e->begins && err == TACHY_OK; i++) {
        int status = st->start[i] ? cu->copy_to_device_async(e->now[i], st->start[i], bytes_of(st, i), st->stream)
                                  : cu->fill_async(e->now[i], 0, bytes_of(st, i), st->stream);
        err = failed(st, status, "a first state");
    }
    e->begins = e->begins && err < 0;
    return err;
}

size_t infer_state_cuda_size(const struct infer_state_cuda *st)
{
    return infer_state_bytes(&st->c->infer) * (size_t)st->eyes;
}

int infer_state_cuda_save(struct infer_state_cuda *st, void *data)
{
    const struct tachy_cu *cu = st->cu;
    char *to = data;
    int err = tachy_device_enter(&st->device->gpu->device, st->task->log);
    if (err < 0)
        return err;
    for (int e = 0; e < st->eyes && err == TACHY_OK; e++) {
        err = begin(st, &st->eye[e]);
        memcpy(to, &st->eye[e].warm_up, sizeof(int32_t));
        to += sizeof(int32_t);
        for (int i = 0; i < st->c->infer.nb_states && err == TACHY_OK; i++) {
            err = failed(st, cu->copy_to_host_async(to, st->eye[e].now[i], bytes_of(st, i), st->stream), "a copy");
            to += bytes_of(st, i);
        }
    }
    int end = failed(st, cu->stream_wait(st->stream), "waiting for a stream");
    tachy_device_leave(&st->device->gpu->device);
    return err < 0 ? err : end;
}

int infer_state_cuda_load(struct infer_state_cuda *st, const void *data)
{
    const struct tachy_cu *cu = st->cu;
    const char *from = data;
    int err = tachy_device_enter(&st->device->gpu->device, st->task->log);
    if (err < 0)
        return err;
    for (int e = 0; e < st->eyes && err == TACHY_OK; e++) {
        st->eye[e].begins = false;
        memcpy(&st->eye[e].warm_up, from, sizeof(int32_t));
        from += sizeof(int32_t);
        for (int i = 0; i < st->c->infer.nb_states && err == TACHY_OK; i++) {
            err = failed(st, cu->copy_to_device_async(st->eye[e].now[i], from, bytes_of(st, i), st->stream), "a copy");
            from += bytes_of(st, i);
        }
    }
    int end = failed(st, cu->stream_wait(st->stream), "waiting for a stream");
    tachy_device_leave(&st->device->gpu->device);
    return err < 0 ? err : end;
}

// To the device that the next frame is on, by way of the host: a file's parts follow each other from device to device.
static int move(struct infer_state_cuda *st, struct task_device *to)
{
    void *data = malloc(infer_state_cuda_size(st));
    int err = data ? infer_state_cuda_save(st, data) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK) {
        leave(st);
        err = place(st, to);
    }
    if (err == TACHY_OK)
        err = infer_state_cuda_load(st, data);
    free(data);
    return err;
}

static int run_once(struct device_group *p, const struct infer_state_cuda *st, struct gpu_state_eye *e)
{
    struct infer_there *size = infer_part_of(p->g, p->kind);
    for (int i = 0; i < st->c->infer.nb_states; i++) {
        size->all_in[st->c->infer.state[i].in].data = (void *)(uintptr_t)e->now[i];
        size->all_out[st->c->infer.state[i].out].data = (void *)(uintptr_t)e->next[i];
    }
    infer_cuda_queue_models(p);
    for (int i = 0; i < st->c->infer.nb_states && *p->err == TACHY_OK; i++) {
        cuda_address old = e->now[i];
        e->now[i] = e->next[i];
        e->next[i] = old;
    }
    return *p->err;
}

int infer_state_cuda_run(struct device_group *p, struct infer_state_cuda *st)
{
    struct gpu_state_eye *e = &st->eye[p->region];
    int err = st->device == p->g->device ? TACHY_OK : move(st, p->g->device);
    if (err == TACHY_OK)
        err = begin(st, e);
    for (; e->warm_up > 0 && err == TACHY_OK; e->warm_up--)
        err = run_once(p, st, e);
    return err == TACHY_OK ? run_once(p, st, e) : err;
}
