#include "stage/decode.h"
#include "stage/infer_cuda.h"
#include "stage/stages.h"

#include <stdlib.h>

// Regions of a network whose frames are on devices. The host decodes, because a network's output is small compared with
// the picture, and suppression is a loop. So a group waits once for its tensors, and for nothing else. Meanwhile the device has
// what other workers have queued: of a group of one is copied and of another decoded, while it runs the network on a third.

// The stage's data for a worker on a device.
struct part {
    struct device_worker *g;
    struct tachy_decode_worker decode;
    struct tachy_block pinned; // outputs of an engine that runs there, of each picture, as net.out_at says
};

// As many as are asked for, else as many as fit some memory: a network runs several small pictures in little more time than one.
static int group_of(const struct tachy_infer *in, const tachy_settings *s)
{
    enum { BYTES = 64 << 20, USUAL = 32 };
    const struct tachy_infer_net *net = &in->net[TACHY_INFER_FULL];
    size_t fit = BYTES / (tachy_tensor_bytes(&net->in[net->picture].spec) + net->out_bytes);
    int asked = tachy_settings_is_set(s, "model.batch_size") ? (int)tachy_settings_int(s, "model.batch_size") : 0;
    return asked ? TACHY_MIN(asked, (int)DEVICE_MOST) : (int)TACHY_CLAMP(fit, (size_t)DEVICE_GROUP, (size_t)USUAL);
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    enum { WORKERS = 4 };
    const struct tachy_infer *in = tachy_infer_of(st);
    struct task_devices *d = st->task->devices;
    const bool plans = infer_runs_plans(in->net[TACHY_INFER_FULL].first);
    st->worker_of = in->st->worker_of;
    st->task->workers = plans ? WORKERS * d->nb : 0;
    d->group = plans ? group_of(in, s) : 0;
    return tachy_decode_open(st, s);
}

static void part_close(void *part)
{
    struct part *p = part;
    tachy_decode_worker_close(&p->decode);
    tachy_memory_give(p->g->task->memory, &p->pinned);
    free(p);
}

static int part_open(struct tachy_stage *st, int batch, void **part)
{
    struct device_worker *g = *part;
    struct part *p = *part = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->g = g;
    const struct tachy_infer *in = tachy_infer_of(st);
    size_t bytes = TACHY_MAX(in->net[TACHY_INFER_FULL].out_bytes, in->net[TACHY_INFER_SMALL].out_bytes);
    int err = st->task->devices->only_queues ? infer_cuda_pin(g, &p->pinned, bytes * (size_t)device_group_size(st->task->devices)) : TACHY_OK;
    if (err == TACHY_OK)
        err = tachy_decode_worker_open(st, &p->decode);
    if (err < 0) {
        part_close(p);
        *part = NULL;
    }
    return err;
}

static void decode(struct device_group *p)
{
    struct part *part = p->part;
    struct tachy_infer_output o;
    bool there = !infer_cuda_on_host(p);
    int err = there ? infer_cuda_outputs_to_host(p, part->pinned.data) : TACHY_OK;
    device_fail_all(p, err);
    for (int i = 0; i < p->n && err == TACHY_OK; i++) {
        const struct tachy_piece piece = {p->items[i], p->region};
        tachy_infer_output(tachy_infer_of(p->st), &piece, &o);
        if (there)
            infer_cuda_output_in(p, i, part->pinned.data, &o);
        p->err[i] = tachy_decode_run(p->st, &part->decode, &piece, &o);
    }
    device_end(p->g->set);
    if (device_flight_kept(p->g->flight)) // frames that preprocess has read
        device_fail_all(p, device_flight_mark(p->g->flight, NULL));
    device_let_go(p);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n && pieces[0].item->apart; i++)
        infer_cuda_choose(worker, state, pieces + i, 1, err + i);
    device_run(worker, st, state, pieces, n, err, false, decode);
}

static bool load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const struct tachy_infer *in = tachy_infer_of(st);
    if (infer_cuda_from_host(in, item))
        return false;
    l->to_host = st->task->eyes * (double)in->net[TACHY_INFER_FULL].out_bytes;
    device_load(st, worker, item, l);
    l->computes = false;
    return true;
}

const struct tachy_stage_ops tachy_stage_decode_cuda = {
    .name = "postprocess",
    .options = tachy_decode_options,
    .flags = TACHY_STAGE_REGIONS,
    .priv_size = sizeof(struct tachy_decode_stage),
    .item_size = sizeof(struct tachy_decode_item),
    .open = open,
    .close = tachy_decode_close,
    .start = tachy_decode_start,
    .worker_open = part_open,
    .worker_close = part_close,
    .run = run,
    .item_close = tachy_decode_item_close,
    .copy = tachy_decode_copy,
    .copy_save = tachy_decode_copy_save,
    .copy_load = tachy_decode_copy_load,
    .load = load,
};
