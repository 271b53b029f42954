#include "task/segment_gpu_order.h"
#include "task/segment_stages.h"

#include <stdlib.h>

// Temporal smoothing on a device; the bytes of a saved state are those of the other form.

static int state_open(struct tachy_stage *st, void **state)
{
    struct segment_gpu_order *o;
    int err = segment_gpu_order_open(&o, st->task);
    *state = o;
    return err;
}

static void state_close(void *state) { segment_gpu_order_close(&(struct segment_gpu_order *){state}); }

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < st->task->eyes && err[0] == TACHY_OK; i++)
        err[0] = segment_gpu_order_smooth(state, pieces[0].item, i);
}

static size_t eye_size(const struct segment_gpu_order *o, int eye, struct segment_saved_smooth *head)
{
    size_t n;
    int w, h;
    segment_gpu_order_size(o, eye, &w, &h, &n);
    *head = (struct segment_saved_smooth){w, h};
    return n;
}

static int state_save(const void *state, void **data, size_t *size)
{
    struct segment_gpu_order *o = (struct segment_gpu_order *)(uintptr_t)state; // nothing of it changes
    struct segment_saved_smooth head;
    int err = TACHY_OK;
    *size = 0;
    for (int e = 0; e < TACHY_MAX_EYES; e++)
        *size += sizeof(head) + eye_size(o, e, &head);
    uint8_t *d = *data = malloc(*size);
    for (int e = 0; e < TACHY_MAX_EYES && d && err == TACHY_OK; e++) {
        size_t n = eye_size(o, e, &head);
        memcpy(d, &head, sizeof(head));
        d += sizeof(head);
        err = n ? segment_gpu_order_save(o, e, d) : TACHY_OK;
        d += n;
    }
    if (err < 0) {
        free(*data);
        *data = NULL;
    }
    return *data || err < 0 ? err : TACHY_ERR_NOMEM;
}

static int state_load(void *state, const void *data, size_t size)
{
    const uint8_t *d = data, *end = d + size;
    for (int e = 0; e < TACHY_MAX_EYES; e++) {
        struct segment_saved_smooth head;
        if ((size_t)(end - d) < sizeof(head))
            return TACHY_ERR_FORMAT;
        memcpy(&head, d, sizeof(head));
        d += sizeof(head);
        if (!head.width)
            continue;
        int err = segment_gpu_order_load(state, e, head.width, head.height, d, (size_t)(end - d));
        if (err < 0)
            return err;
        d += eye_size(state, e, &head);
    }
    return d == end ? TACHY_OK : TACHY_ERR_FORMAT;
}

static bool load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    for (int i = 0; i < st->task->eyes; i++)
        l->to_host += (double)item->result.mask[i].width * item->result.mask[i].height;
    return segment_cuda_load(st, NULL, false, l);
}

const struct tachy_stage_ops segment_stage_smooth_cuda = {
    .name = "smooth",
    .flags = TACHY_STAGE_ORDERED,
    .step = "postprocess",
    .remedy = "leave out what goes frame by frame (--smooth=0)",
    .open = segment_smooth_open,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
    .state_save = state_save,
    .state_load = state_load,
    .load = load,
};
