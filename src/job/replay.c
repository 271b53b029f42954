#include "job/replay.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[TACHY_REPLAY_COUNT] = {"preprocess", "engine", "postprocess"};

const char *tachy_replay_stage_name(enum tachy_replay_stage s)
{
    return (unsigned)s < TACHY_REPLAY_COUNT ? names[s] : "?";
}

// The settings, the task, and one worker of it.
static int open_worker(struct replay *r)
{
    const char *name = json_string_value(json_object_get(r->index, "task"));
    struct tachy_video_info out;
    int err = replay_settings(r);
    if (err == TACHY_OK)
        err = tachy_task_open(&r->task, name ? name : "?", r->settings, r->p->log);
    if (err < 0)
        return err;
    tachy_task *t = r->task;
    if (!tachy_stage_save_of(t))
        return tachy_fail(r->p->log, TACHY_ERR_UNSUPPORTED, "task %s: cannot be replayed", t->name);
    err = tachy_stages_start(t, &r->input, &out);
    if (err == TACHY_OK)
        err = tachy_task_worker_open(t, r->worker);
    r->item.priv = err == TACHY_OK && t->item_size ? calloc(1, t->item_size) : NULL;
    if (err == TACHY_OK && t->item_size && !r->item.priv)
        err = TACHY_ERR_NOMEM;
    return err;
}

static void close_worker(struct replay *r)
{
    if (!r->task)
        return;
    tachy_task_item_close(r->task, r->item.priv);
    free(r->item.priv);
    tachy_task_worker_close(r->task, r->worker);
    tachy_task_close(&r->task);
}

static int fill(const struct replay *r, const struct replay_item *i, struct tachy_tensor *t, int n)
{
    for (int k = 0; k < n; k++) {
        if (k >= i->n_given || !tachy_npy_fits(&i->given[k], &t[k]))
            return tachy_fail(r->p->log, TACHY_ERR_MISMATCH,
                              "%s: array %d of frame %lld is not there, or not of the type and "
                              "shape that the model has now",
                              r->p->dir, k, (long long)i->frame->id);
        memcpy(t[k].data, i->given[k].data, i->given[k].bytes);
    }
    return TACHY_OK;
}

// Makes the stage's input ready.
static int ready(struct replay *r, const struct replay_item *i)
{
    r->item.in = i->frame;
    r->item.result = (struct tachy_result){.frame_id = i->frame->id, .pts = i->frame->pts};
    struct tachy_stage *st = tachy_stage_save_of(r->task);
    if (i->eye >= r->task->eyes)
        return tachy_fail(r->p->log, TACHY_ERR_MISMATCH, "%s: frame %lld has no eye %d", r->p->dir,
                          (long long)i->frame->id, i->eye);
    const struct tachy_piece piece = {&r->item, i->eye};
    int err = st->ops->tensors(st, tachy_stage_worker(st, r->worker), &piece, &r->tensors);
    if (err < 0)
        return err;
    if (r->p->stage == TACHY_REPLAY_ENGINE)
        return fill(r, i, r->tensors.in, r->tensors.n_in);
    if (r->p->stage == TACHY_REPLAY_POSTPROCESS) {
        if (r->tensors.placement)
            *r->tensors.placement = i->placement;
        return fill(r, i, r->tensors.out, r->tensors.n_out);
    }
    return TACHY_OK;
}

// The stages with regions that belong to this one (the model, or those before or after it), for one of them.
static int run_stage(struct replay *r, int eye)
{
    const int model = tachy_stage_save_of(r->task)->index;
    struct tachy_item *item = &r->item;
    const tachy_task *t = r->task;
    int err = TACHY_OK;
    item->reuse = ~(1u << eye); // the others are left out
    struct tachy_stage_pass p = {.task = r->task, .worker = r->worker, .items = &item, .n = 1, .err = &err};
    for (int i = 0; i < t->nb_stages; i++) {
        enum tachy_replay_stage of = i < model    ? TACHY_REPLAY_PREPROCESS
                                     : i == model ? TACHY_REPLAY_ENGINE
                                                  : TACHY_REPLAY_POSTPROCESS;
        if (t->stage[i]->flags & TACHY_STAGE_REGIONS && of == r->p->stage)
            tachy_stage_pass(&p, i, i + 1);
    }
    return err;
}

static int compare_tensors(const struct replay *r, const struct replay_item *i, const char *list,
                           const struct tachy_tensor *t, int n, struct tachy_npy_difference *d)
{
    int err = TACHY_OK;
    for (int k = 0; k < n && err == TACHY_OK; k++) {
        struct tachy_npy a;
        err = replay_array(r, i, list, (size_t)k, &a);
        if (err < 0)
            break;
        if (tachy_npy_fits(&a, &t[k]))
            tachy_npy_compare(d, &a, t[k].data);
        else
            err = tachy_fail(r->p->log, TACHY_ERR_MISMATCH,
                             "%s: %s %d of frame %lld is not of the type and shape that the stage "
                             "makes now",
                             r->p->dir, list, k, (long long)i->frame->id);
        tachy_npy_free(&a);
    }
    return err;
}

static int compare_mask(const struct replay *r, const struct replay_item *i, struct tachy_npy_difference *d)
{
    const struct tachy_mask *m = &r->item.result.mask[i->eye];
    struct tachy_tensor t = {.dtype = TACHY_U8, .rank = 2, .shape = {m->height, m->width}};
    if (!m->data)
        return tachy_fail(r->p->log, TACHY_ERR_MISMATCH, "%s: this task makes no masks to compare",
                          r->p->dir);
    int err = tachy_tensor_alloc(&t);
    for (int y = 0; y < m->height && err == TACHY_OK; y++)
        memcpy((uint8_t *)t.data + (ptrdiff_t)y * m->width, m->data + y * m->stride, (size_t)m->width);
    if (err == TACHY_OK)
        err = compare_tensors(r, i, "mask", &t, 1, d);
    tachy_tensor_free(&t);
    return err;
}

static int compare(const struct replay *r, const struct replay_item *i, struct tachy_replay *out)
{
    struct tachy_npy_difference d = {.identical = true};
    const struct tachy_stage_tensors *t = &r->tensors;
    int err = r->p->stage == TACHY_REPLAY_PREPROCESS ? compare_tensors(r, i, "inputs", t->in, t->n_in, &d)
              : r->p->stage == TACHY_REPLAY_ENGINE ? compare_tensors(r, i, "outputs", t->out, t->n_out, &d)
                                                  : compare_mask(r, i, &d);
    if (err < 0)
        return err;
    double psnr = tachy_npy_psnr(&d);
    bool matches = d.identical || (r->p->tolerance > 0 && d.max <= r->p->tolerance) ||
                   (r->p->min_psnr > 0 && psnr >= r->p->min_psnr);
    out->identical += d.identical;
    out->differ += !matches;
    out->min_psnr = fmin(out->min_psnr, psnr);
    if (d.identical || (out->worst_frame >= 0 && d.max <= out->max_difference))
        return TACHY_OK;
    out->max_difference = d.max;
    out->worst_frame = i->frame->id;
    out->worst_eye = i->eye;
    return TACHY_OK;
}

static bool stopped(const struct replay *r)
{
    return r->p->stop && *(const volatile int *)r->p->stop;
}

// Every item once: warms up, and is where results are compared.
static int first_pass(struct replay *r, struct tachy_replay *out)
{
    int err = TACHY_OK;
    for (int64_t i = 0; i < r->nb_items && err == TACHY_OK; i++) {
        err = stopped(r) ? TACHY_ERR_INTERRUPTED : ready(r, &r->items[i]);
        if (err == TACHY_OK)
            err = run_stage(r, r->items[i].eye);
        if (err == TACHY_OK && r->p->golden)
            err = compare(r, &r->items[i], out);
    }
    out->compared = err == TACHY_OK && r->p->golden;
    out->same = out->compared && !out->differ;
    return err;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Preparing the input is not timed.
static int timed(struct replay *r, int64_t loop, struct tachy_replay *out)
{
    double *ms = malloc((size_t)loop * sizeof(*ms)), sum = 0;
    int err = ms ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int64_t n = 0; n < loop && err == TACHY_OK; n++) {
        const struct replay_item *i = &r->items[n % r->nb_items];
        err = stopped(r) ? TACHY_ERR_INTERRUPTED : ready(r, i);
        uint64_t start = tachy_now_ns();
        if (err == TACHY_OK)
            err = run_stage(r, i->eye);
        ms[n] = (double)(tachy_now_ns() - start) * 1e-6;
        sum += ms[n];
    }
    if (err == TACHY_OK) {
        qsort(ms, (size_t)loop, sizeof(*ms), by_value);
        out->runs = loop;
        out->median_ms = ms[loop / 2];
        out->p99_ms = ms[(loop * 99 + 99) / 100 - 1];
        out->max_ms = ms[loop - 1];
        out->rate = sum > 0 ? 1e3 * (double)loop / sum : 0;
    }
    free(ms);
    return err;
}

static int replay_stage(const struct tachy_replay_params *p, struct tachy_replay *out)
{
    *out = (struct tachy_replay){.stage = p->stage, .worst_frame = -1, .min_psnr = INFINITY};
    if (!TACHY_CHECK(p->log, p->dir) || !TACHY_CHECK(p->log, (unsigned)p->stage < TACHY_REPLAY_COUNT) ||
        !TACHY_CHECK(p->log, p->loop >= 0 && p->loop <= 10000000) ||
        !TACHY_CHECK(p->log, p->tolerance >= 0))
        return TACHY_ERR_INVAL;
    struct replay r = {.p = p};
    int err = replay_load(&r);
    if (err == TACHY_OK)
        err = open_worker(&r);
    if (err == TACHY_OK) {
        const char *saved = json_string_value(json_object_get(r.index, "describe"));
        snprintf(out->saved, sizeof(out->saved), "%s", saved ? saved : "");
        snprintf(out->now, sizeof(out->now), "%s", r.task->describe);
        out->items = r.nb_items;
        err = first_pass(&r, out);
    }
    if (err == TACHY_OK)
        err = timed(&r, TACHY_DEF(p->loop, 1000), out);
    close_worker(&r);
    replay_unload(&r);
    return err;
}

int tachy_replay_sized(size_t p_size, size_t r_size, const struct tachy_replay_params *p, struct tachy_replay *r)
{
    struct tachy_replay_params own;
    struct tachy_replay now;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && r))
        return TACHY_ERR_INVAL;
    int err = replay_stage(p, &now);
    tachy_sized_out(r, r_size, &now, sizeof(now));
    return err;
}
