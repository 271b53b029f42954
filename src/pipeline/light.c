#include "pipeline/light_priv.h"

#include "base/cpu.h"
#include "profile/prof.h"
#include "sink/sink_ops.h"
#include "source/source_ops.h"

#include <ftw.h>
#include <stdio.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

int light_open_decode(struct light_lane *l)
{
    struct tachy_source_params sp = *l->b->p->source;
    sp.url = l->b->p->url;
    sp.want_side = false;
    sp.log = NULL;
    sp.every_nth = 1; // a skipped frame is decoded as well
    sp.max_frames = 0;
    sp.threads = sp.decoders = 1;
    int err = tachy_source_open(&l->source, &sp);
    tachy_frame *f = NULL; // decoded while opening
    if (err == TACHY_OK)
        err = tachy_source_read(l->source, &f);
    tachy_frame_unref(&f);
    return err;
}

// Goes on where the round before ended: opening is not decoding, and the beginning of a file is
// not the whole of it.
static int lane_decode(struct light_lane *l)
{
    uint64_t start = tachy_now_ns(), now = start;
    while (now < l->b->until_ns) {
        tachy_frame *f = NULL;
        int err = tachy_source_read(l->source, &f);
        now = tachy_now_ns();
        if (err == TACHY_OK) {
            tachy_frame_unref(&f);
            l->frames++;
            l->ns += now - start;
        } else if (err == TACHY_ERR_EOF) {
            tachy_source_close(&l->source);
            err = light_open_decode(l);
            now = tachy_now_ns();
        }
        if (err != TACHY_OK)
            return err == TACHY_ERR_EOF ? TACHY_ERR_UNSUPPORTED : err;
        start = now;
    }
    return TACHY_OK;
}

static int lane_encode(struct light_lane *l)
{
    struct light_bench *b = l->b;
    tachy_sink *s = NULL;
    char dir[96];
    snprintf(dir, sizeof(dir), "%s/%d", b->dir, l->index);
    int err = tachy_sink_clone(&s, b->p->sink, dir);
    if (err < 0)
        return err;
    err = tachy_sink_start(s, b->p->output);
    int64_t step = 1, last = INT64_MIN;
    if (b->nb_frames > 1)
        step = TACHY_MAX(1, b->frames[1]->pts - b->frames[0]->pts);
    uint64_t start = tachy_now_ns(), now = start;
    for (int64_t n = 0; err == TACHY_OK && now < b->until_ns; n++) {
        tachy_frame *f = b->outs[n % b->nb_frames];
        struct tachy_frame_params fp = {.format = f->format,
                                        .width = f->width,
                                        .height = f->height,
                                        .color = f->color,
                                        .pts = n * step,
                                        .duration = step,
                                        .place = f->place,
                                        .device = f->device,
                                        .stream = f->stream};
        for (int i = 0; i < 4; i++) {
            fp.data[i] = (uint8_t *)(uintptr_t)f->data[i];
            fp.stride[i] = f->stride[i];
        }
        tachy_frame *copy;
        err = tachy_frame_new(&copy, &fp);
        if (err == TACHY_OK) {
            err = tachy_sink_write(s, copy, NULL);
            tachy_frame_unref(&copy);
        }
        last = n;
        now = tachy_now_ns();
    }
    if (err == TACHY_OK)
        err = tachy_sink_finish(s, false); // the encoder's delayed frames count
    l->frames = (uint64_t)(last + 1);
    l->ns = tachy_now_ns() - start;
    tachy_sink_close(&s);
    return err;
}

// One eye's part of a step; composite has one part.
static int run_step(struct light_lane *l, enum tachy_step step, struct tachy_item *item, int eye)
{
    const struct tachy_task_ops *ops = l->b->p->task->ops;
    if (step == TACHY_STEP_COMPOSITE) {
        tachy_frame_unref(&item->out);
        int err = ops->composite(l->worker, item);
        return err < 0 ? err : tachy_task_settle(ops, item);
    }
    return step == TACHY_STEP_PREPROCESS ? ops->preprocess(l->worker, item, eye)
           : step == TACHY_STEP_MODEL    ? ops->model(l->worker, item, eye)
                                         : ops->postprocess(l->worker, item, eye);
}

static int lane_step(struct light_lane *l)
{
    int eyes = l->step == TACHY_STEP_COMPOSITE ? 1 : l->b->p->task->eyes, err = TACHY_OK;
    uint64_t start = tachy_now_ns(), now = start;
    while (err == TACHY_OK && now < l->b->until_ns) {
        for (int eye = 0; eye < eyes && err == TACHY_OK; eye++)
            err = run_step(l, l->step, &l->items[l->next], eye);
        l->next = (l->next + 1) % l->b->nb_frames;
        now = tachy_now_ns();
        l->frames++;
        l->ns = now - start;
    }
    return err;
}

static void *lane_main(void *arg)
{
    struct light_lane *l = arg;
    l->frames = l->ns = 0;
    l->err = l->step == TACHY_STEP_DECODE   ? lane_decode(l)
             : l->step == TACHY_STEP_ENCODE ? lane_encode(l)
                                            : lane_step(l);
    return NULL;
}

// Frames a second of `n` lanes side by side, 0 with *err set where one failed.
static double rate_of(struct light_bench *b, struct light_lane *lanes, int n, enum tachy_step step, int *err)
{
    pthread_t threads[256];
    double seconds = light_seconds(b), rate = 0;
    // An encoder is opened and flushed each time, which must not be most of it.
    double rounds = step == TACHY_STEP_ENCODE ? TACHY_LIGHT_ROUNDS / 2.0 : TACHY_LIGHT_ROUNDS;
    b->until_ns = tachy_now_ns() + (uint64_t)(seconds / rounds * 1e9);
    int started = 0;
    for (int i = 0; i < n; i++) {
        lanes[i].step = step;
        if (pthread_create(&threads[i], NULL, lane_main, &lanes[i]))
            break;
        started++;
    }
    *err = started == n ? TACHY_OK : TACHY_ERR_AGAIN;
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        if (lanes[i].err < 0)
            *err = lanes[i].err;
        else if (lanes[i].ns)
            rate += (double)lanes[i].frames / ((double)lanes[i].ns * 1e-9);
    }
    return *err ? 0 : rate;
}

static int load_frames(struct light_bench *b)
{
    struct tachy_source_params sp = *b->p->source;
    sp.url = b->p->url;
    sp.want_side = false;
    sp.log = NULL;
    tachy_source *s;
    int err = tachy_source_open(&s, &sp);
    if (err < 0)
        return err;
    size_t bytes = tachy_frame_bytes(b->p->input->format, b->p->input->width, b->p->input->height);
    int most = (int)TACHY_CLAMP(((size_t)64 << 20) / TACHY_MAX(bytes, (size_t)1), (size_t)2,
                                (size_t)LIGHT_FRAMES);
    while (b->nb_frames < most && tachy_source_read(s, &b->frames[b->nb_frames]) == TACHY_OK) {
        tachy_frame *f = b->frames[b->nb_frames];
        if (f->width == b->p->input->width && f->height == b->p->input->height &&
            f->format == b->p->input->format)
            b->nb_frames++;
        else
            tachy_frame_unref(&b->frames[b->nb_frames]);
    }
    b->gpu.decodes = atomic_load(&s->nvdec);
    tachy_source_close(&s);
    return b->nb_frames >= 2 ? TACHY_OK : TACHY_ERR_UNSUPPORTED;
}

// Carries every frame through the steps once, so that each step's input is ready.
static int prepare(struct light_lane *l)
{
    struct light_bench *b = l->b;
    tachy_task *t = b->p->task;
    int err = t->ops->worker_open(t, &l->worker);
    if (err < 0)
        return err;
    l->items = calloc((size_t)b->nb_frames, sizeof(*l->items));
    if (!l->items)
        return TACHY_ERR_NOMEM;
    void *order = NULL;
    if (t->ops->order_open)
        err = t->ops->order_open(t, &order);
    for (int i = 0; i < b->nb_frames && err == TACHY_OK; i++) {
        struct tachy_item *item = &l->items[i];
        item->in = tachy_frame_ref(b->frames[i]);
        item->result = (struct tachy_result){.frame_id = i, .pts = item->in->pts};
        item->anew = item->in->discontinuity != 0;
        item->priv = t->ops->item_size ? calloc(1, t->ops->item_size) : NULL;
        if (t->ops->item_size && !item->priv)
            err = TACHY_ERR_NOMEM;
        for (int eye = 0; eye < t->eyes; eye++)
            for (int s = TACHY_STEP_PREPROCESS; s <= TACHY_STEP_POSTPROCESS && err == TACHY_OK; s++)
                err = run_step(l, (enum tachy_step)s, item, eye);
        if (err == TACHY_OK && t->ops->order && (order || !t->ops->order_open))
            err = t->ops->order(order, item);
        if (err == TACHY_OK && t->ops->composite)
            err = run_step(l, TACHY_STEP_COMPOSITE, item, 0);
        if (l->index == 0 && item->out)
            b->outs[i] = tachy_frame_ref(item->out);
        else if (b->gpu.task.steps) // pinned memory, which nobody reads
            tachy_frame_unref(&item->out);
    }
    if (order)
        t->ops->order_close(order);
    // A GPU's sessions are opened as they are tried.
    return err || b->gpu.decodes ? err : light_open_decode(l);
}

static void release(struct light_bench *b, struct light_lane *lanes, int n)
{
    tachy_task *t = b->p->task;
    for (int k = 0; k < n; k++) {
        for (int i = 0; lanes[k].items && i < b->nb_frames; i++) {
            struct tachy_item *item = &lanes[k].items[i];
            tachy_frame_unref(&item->in);
            tachy_frame_unref(&item->out);
            if (item->priv && t->ops->item_close)
                t->ops->item_close(item->priv);
            free(item->priv);
        }
        free(lanes[k].items);
        tachy_source_close(&lanes[k].source);
        if (lanes[k].worker)
            t->ops->worker_close(lanes[k].worker);
    }
    for (int i = 0; i < LIGHT_FRAMES; i++) {
        tachy_frame_unref(&b->frames[i]);
        tachy_frame_unref(&b->outs[i]);
    }
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    remove(path);
    return 0;
}

void light_add_rate(struct tachy_light *l, enum tachy_step step, double rate)
{
    if (rate > 0 && l->nb[step] < TACHY_LIGHT_MOST)
        l->rate[step][l->nb[step]++] = rate;
}

static int measure_encode(struct light_bench *b, struct light_lane *lanes, int n, struct tachy_light *l)
{
    int err;
    if (!b->dir[0])
        return TACHY_OK;
    // One encoder with threads of its own, then one a core: what gives the most counts.
    double one = rate_of(b, lanes, 1, TACHY_STEP_ENCODE, &err), many = 0;
    if (err == TACHY_OK && n > 1)
        many = rate_of(b, lanes, n, TACHY_STEP_ENCODE, &err);
    light_add_rate(l, TACHY_STEP_ENCODE, TACHY_MAX(one, many));
    return err == TACHY_ERR_UNSUPPORTED ? TACHY_OK : err;
}

static int make_folder(struct light_bench *b)
{
    if (!b->p->sink || !b->outs[0])
        return TACHY_OK;
    snprintf(b->dir, sizeof(b->dir), "%s/tachy-light-XXXXXX", P_tmpdir);
    if (mkdtemp(b->dir))
        return TACHY_OK;
    int err = tachy_fail(b->p->log, TACHY_ERR_IO,
                         "%s: cannot be made, so encoding cannot be measured alone", b->dir);
    b->dir[0] = '\0';
    return err;
}

static int measure_round(struct light_bench *b, struct light_lane *lanes, int n, struct tachy_light *l)
{
    int err = TACHY_OK;
    const bool cores = !b->p->gpu_only;
    for (int s = TACHY_STEP_DECODE; s <= TACHY_STEP_COMPOSITE && err == TACHY_OK; s++)
        if (l->of[s] != TACHY_RESOURCE_CORES)
            err = light_gpu_measure(b, lanes, n, (enum tachy_step)s, l);
        else if (cores && (s != TACHY_STEP_COMPOSITE || b->p->task->ops->composite))
            light_add_rate(l, (enum tachy_step)s, rate_of(b, lanes, n, (enum tachy_step)s, &err));
    return err || !cores ? err : measure_encode(b, lanes, n, l);
}

int tachy_light_measure(const struct tachy_light_params *p, struct tachy_light *l)
{
    struct light_bench b = {.p = p};
    struct light_lane lanes[256] = {0};
    struct tachy_profile *profile = p->task->profile;
    int n = TACHY_MIN(p->workers ? p->workers : tachy_cpu_count(), 256);
    int err = load_frames(&b);
    p->task->profile = NULL; // this is not the job
    for (int i = 0; i < n; i++) {
        lanes[i].b = &b;
        lanes[i].index = i;
        if (err == TACHY_OK)
            err = prepare(&lanes[i]);
        if (err == TACHY_OK && i == 0)
            light_gpu_find(&b, &lanes[0], l);
    }
    if (err == TACHY_OK)
        err = light_gpu_link(&b, l);
    if (err == TACHY_OK)
        err = make_folder(&b);
    for (int round = 0; round < TACHY_LIGHT_ROUNDS && err == TACHY_OK; round++)
        err = measure_round(&b, lanes, n, l);
    if (b.dir[0])
        nftw(b.dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    light_gpu_close(&b);
    release(&b, lanes, n);
    p->task->profile = profile;
    return err;
}
