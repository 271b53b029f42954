#include "pipeline/light_priv.h"

#include "base/cpu.h"
#include "base/side_by_side.h"
#include "pipeline/spans.h"
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

// Continues where the previous round ended, because opening is not decoding and the beginning of a file is not typical
// of all of it.
static int lane_decode(struct light_lane *l)
{
    uint64_t now = tachy_now_ns();
    do {
        tachy_frame *f = NULL;
        uint64_t start = now;
        int err = tachy_source_read(l->source, &f);
        if (err == TACHY_ERR_EOF) {
            tachy_source_close(&l->source);
            err = light_open_decode(l);
            start = tachy_now_ns();
            if (err == TACHY_OK)
                err = tachy_source_read(l->source, &f);
        }
        if (err < 0)
            return err == TACHY_ERR_EOF ? TACHY_ERR_UNSUPPORTED : err;
        tachy_frame_unref(&f);
        now = tachy_now_ns();
        l->frames++;
        l->ns += now - start;
    } while (now < l->b->until_ns);
    return TACHY_OK;
}

// Frame n, with the pixels of one that was composited.
static int encode_one(struct light_lane *l, int64_t n)
{
    struct light_bench *b = l->b;
    const tachy_frame *f = b->outs[n % b->nb_frames];
    double apart = b->nb_frames > 1 ? (double)b->frames[1]->pts - (double)b->frames[0]->pts : 1;
    int64_t step = (int64_t)TACHY_CLAMP(apart, 1.0, (double)INT32_MAX); // those made here are many
    struct tachy_frame_params fp = {.format = f->format,
                                    .width = f->width,
                                    .height = f->height,
                                    .color = f->color,
                                    .pts = n * step,
                                    .duration = step,
                                    .mem = f->mem,
                                    .device = f->device,
                                    .stream = f->stream};
    for (int i = 0; i < 4; i++) {
        fp.data[i] = (uint8_t *)(uintptr_t)f->data[i];
        fp.stride[i] = f->stride[i];
    }
    tachy_frame *copy;
    int err = tachy_frame_new(&copy, &fp);
    if (err < 0)
        return err;
    err = tachy_sink_write(l->sink, copy, NULL);
    tachy_frame_unref(&copy);
    return err;
}

// An encoder opens with its first frame.
static int open_encode(struct light_lane *l)
{
    char dir[96];
    snprintf(dir, sizeof(dir), "%s/%d", l->b->dir, l->index);
    int err = tachy_sink_clone(&l->sink, l->b->p->sink, dir);
    if (err == TACHY_OK)
        err = tachy_sink_start(l->sink, l->b->p->output);
    return err < 0 ? err : encode_one(l, 0);
}

// Counts the frames after the first, however long opening took.
static int lane_encode(struct light_lane *l)
{
    int err = TACHY_OK;
    uint64_t start = tachy_now_ns();
    do {
        err = encode_one(l, (int64_t)++l->frames);
    } while (err == TACHY_OK && tachy_now_ns() < l->b->until_ns);
    if (err == TACHY_OK)
        err = tachy_sink_finish(l->sink, false); // the encoder's delayed frames count
    l->ns = tachy_now_ns() - start;
    return err;
}

// A stage of a step that is measured: what ordered stages without workers' objects do is no worker's.
static bool is_of(const tachy_task *t, int i, int step)
{
    return t->stage[i]->step == step && !tachy_stage_of_nobody(t->stage[i]);
}

// True if the task has such a stage with these flags.
static bool has_step(const tachy_task *t, int step, unsigned flags)
{
    for (int i = 0; i < t->nb_stages; i++)
        if (is_of(t, i, step) && (t->stage[i]->flags & flags) == flags)
            return true;
    return false;
}

// Stages from .. end - 1 of a group's items, from items[first] on.
static int run_stages(struct light_lane *l, int from, int end, int first, int n)
{
    struct tachy_item *items[LIGHT_FRAMES];
    int err[LIGHT_FRAMES] = {0};
    for (int i = 0; i < n; i++)
        items[i] = &l->items[first + i];
    struct tachy_stage_pass p = {.task = l->b->p->task, .worker = l->worker, .state = l->state, .items = items, .n = n, .err = err};
    tachy_stage_pass(&p, from, end);
    for (int i = 0; i < n; i++) {
        int end_err = tachy_task_sync(p.task, items[i]);
        err[i] = err[i] < 0 ? err[i] : end_err;
        items[i]->nobody = false; // the cost of a frame that shows somebody is measured
    }
    for (int i = 0; i < n; i++)
        if (err[i] < 0)
            return err[i];
    return TACHY_OK;
}

static int group_at(const struct light_lane *l, int first) { return TACHY_MIN(l->b->group, l->b->nb_frames - first); }

// End of the stages that run together from `from` on: the step's, either all with a state or all without.
static int together(const tachy_task *t, int from, int step)
{
    bool ordered = tachy_stage_has_state(t->stage[from]);
    int end = from;
    while (end < t->nb_stages && is_of(t, end, step) && tachy_stage_has_state(t->stage[end]) == ordered)
        end++;
    return end;
}

// A step of the group's items.
static int run_step(struct light_lane *l, int step, int first)
{
    const tachy_task *t = l->b->p->task;
    int err = TACHY_OK, n = group_at(l, first);
    for (int i = 0; i < n && has_step(t, step, TACHY_STAGE_WRITES); i++)
        tachy_frame_unref(&l->items[first + i].out);
    for (int from = 0, end; from < t->nb_stages; from = TACHY_MAX(end, from + 1)) {
        end = together(t, from, step);
        int each = tachy_stage_has_state(t->stage[from]) ? 1 : n;
        for (int i = 0; i < n && end > from && err == TACHY_OK; i += each)
            err = run_stages(l, from, end, first + i, each);
    }
    return err;
}

static int lane_step(struct light_lane *l)
{
    int err = TACHY_OK;
    uint64_t start = tachy_now_ns(), now = start;
    do {
        err = run_step(l, l->step, l->next);
        int done = group_at(l, l->next);
        l->next = (l->next + done) % l->b->nb_frames;
        now = tachy_now_ns();
        l->frames += (uint64_t)done;
        l->ns = now - start;
    } while (err == TACHY_OK && now < l->b->until_ns);
    return err;
}

// Ready, or failed: until all are, nobody begins.
static void wait_for_others(struct light_bench *b)
{
    pthread_mutex_lock(&b->lock);
    b->ready++;
    pthread_cond_broadcast(&b->change);
    while (!b->begun)
        pthread_cond_wait(&b->change, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

static void *lane_main(void *arg)
{
    struct light_lane *l = arg;
    l->frames = l->ns = 0;
    l->err = l->step == l->b->encode ? open_encode(l) : TACHY_OK;
    wait_for_others(l->b);
    if (l->err == TACHY_OK)
        l->err = l->step == TACHY_STEP_DECODE ? lane_decode(l)
                 : l->step == l->b->encode    ? lane_encode(l)
                                              : lane_step(l);
    tachy_sink_close(&l->sink);
    return NULL;
}

// Once all lanes are ready, lets n lanes run for this long; not at all if one could not be opened.
static void begin(struct light_bench *b, const struct light_lane *lanes, int n, double seconds)
{
    pthread_mutex_lock(&b->lock);
    while (b->ready < n)
        pthread_cond_wait(&b->change, &b->lock);
    b->until_ns = tachy_now_ns() + (uint64_t)(seconds * 1e9);
    for (int i = 0; i < n; i++)
        if (lanes[i].err < 0)
            b->until_ns = 0;
    b->begun = true;
    pthread_cond_broadcast(&b->change);
    pthread_mutex_unlock(&b->lock);
}

int light_in_threads(void *lanes, size_t size, int n, void *(*main)(void *))
{
    pthread_t threads[LIGHT_LANES];
    int started = 0;
    while (started < n && !pthread_create(&threads[started], NULL, main, (char *)lanes + (size_t)started * size))
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return started == n ? TACHY_OK : TACHY_ERR_AGAIN;
}

// Frames per second of `n` parallel lanes; 0 with *err set if one failed.
static double rate_of(struct light_bench *b, struct light_lane *lanes, int n, int step, int *err)
{
    pthread_t threads[LIGHT_LANES];
    double rate = 0;
    // An encoder is flushed each time, which must not be most of it.
    double rounds = step == b->encode ? TACHY_LIGHT_ROUNDS / 2.0 : TACHY_LIGHT_ROUNDS;
    int started = 0;
    b->ready = 0;
    b->begun = false;
    for (int i = 0; i < n; i++) {
        lanes[i].step = step;
        if (pthread_create(&threads[i], NULL, lane_main, &lanes[i]))
            break;
        started++;
    }
    begin(b, lanes, started, light_seconds(b) / rounds);
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
    int most = (int)TACHY_CLAMP(((size_t)64 << 20) / TACHY_MAX(bytes, (size_t)1), (size_t)TACHY_MAX(2, b->group),
                                (size_t)TACHY_MAX((int)LIGHT_ENOUGH, b->group));
    most -= most % b->group;
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
    while (b->nb_frames > b->group && b->nb_frames % b->group)
        tachy_frame_unref(&b->frames[--b->nb_frames]);
    return b->nb_frames >= 2 ? TACHY_OK : TACHY_ERR_UNSUPPORTED;
}

static int make_item(struct light_lane *l, int i)
{
    const tachy_task *t = l->b->p->task;
    struct tachy_item *item = &l->items[i];
    item->in = tachy_frame_ref(l->b->frames[i]);
    item->result = (struct tachy_result){.frame_id = i, .pts = item->in->pts};
    item->anew = item->in->discontinuity != 0;
    item->due.deadline = UINT64_MAX; // none
    item->priv = t->item_size ? calloc(1, t->item_size) : NULL;
    return t->item_size && !item->priv ? TACHY_ERR_NOMEM : TACHY_OK;
}

// Passes the items of a group through a span: one by one if it is ordered.
static int prepare_span(struct light_lane *l, const struct pipeline_span *s, int first)
{
    int err = TACHY_OK, n = group_at(l, first), each = s->kind == SPAN_ORDERED ? 1 : n;
    for (int i = 0; i < n && err == TACHY_OK; i += each)
        err = run_stages(l, s->first, s->end, first + i, each);
    return err;
}

// A group's items through all stages.
static int prepare_group(struct light_lane *l, int first)
{
    struct light_bench *b = l->b;
    struct pipeline_span span[PIPELINE_SPANS];
    int err = TACHY_OK, end = first + group_at(l, first), n = pipeline_spans(b->p->task, false, false, span);
    for (int i = first; i < end && err == TACHY_OK; i++)
        err = make_item(l, i);
    for (int k = 0; k < n && err == TACHY_OK; k++)
        err = prepare_span(l, &span[k], first);
    for (int i = first; i < end; i++) {
        struct tachy_item *item = &l->items[i];
        if (l->index == 0 && item->out)
            b->outs[i] = tachy_frame_ref(item->out);
        else if (b->gpu.task.steps) // pinned memory, which nobody reads
            tachy_frame_unref(&item->out);
    }
    return err;
}

// Carries every frame through the stages once, so that each step's input is ready.
static int prepare(struct light_lane *l)
{
    struct light_bench *b = l->b;
    tachy_task *t = b->p->task;
    int err = tachy_task_worker_open(t, l->worker);
    if (err < 0)
        return err;
    l->items = calloc((size_t)b->nb_frames, sizeof(*l->items));
    if (!l->items)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < t->nb_stages && err == TACHY_OK; i++)
        if (tachy_stage_has_state(t->stage[i]))
            err = tachy_stage_state_open(t->stage[i], &l->state[i]);
    for (int i = 0; i < b->nb_frames && err == TACHY_OK; i += b->group)
        err = prepare_group(l, i);
    return err;
}

static void release(struct light_bench *b, struct light_lane *lanes, int n)
{
    tachy_task *t = b->p->task;
    for (int k = 0; k < n; k++) {
        for (int i = 0; lanes[k].items && i < b->nb_frames; i++) {
            struct tachy_item *item = &lanes[k].items[i];
            tachy_frame_unref(&item->in);
            tachy_frame_unref(&item->out);
            tachy_task_item_close(t, item->priv);
            free(item->priv);
        }
        free(lanes[k].items);
        tachy_source_close(&lanes[k].source);
        for (int i = 0; i < t->nb_stages; i++)
            tachy_stage_state_close(t->stage[i], lanes[k].state[i]);
        tachy_task_worker_close(t, lanes[k].worker);
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

void light_add_rate(struct tachy_light *l, int step, double rate)
{
    if (rate > 0 && l->nb[step] < TACHY_LIGHT_MOST)
        l->rate[step][l->nb[step]++] = rate;
}

struct encoders {
    struct light_bench *b;
    struct light_lane *lanes;
};

static int encoders_rate(void *user, int n, double *rate)
{
    const struct encoders *e = user;
    int err;
    *rate = rate_of(e->b, e->lanes, n, e->b->encode, &err);
    return err;
}

// Uses the number of the device's encoder sessions with the highest rate, or as many as it allows.
static int measure_nvenc(struct light_bench *b, struct light_lane *lanes, int n, struct tachy_light *l)
{
    int *best = &l->copies[b->encode], before = *best;
    double most;
    int err = tachy_side_by_side(best, &most, n, NULL, encoders_rate, &(struct encoders){b, lanes});
    light_add_rate(l, b->encode, most);
    return *best && !before ? TACHY_OK : err; // the GPU allows no more sessions
}

static int measure_encode(struct light_bench *b, struct light_lane *lanes, int n, struct tachy_light *l)
{
    int err;
    if (!b->dir[0])
        return TACHY_OK;
    if (l->of[b->encode] == TACHY_RESOURCE_NVENC)
        return measure_nvenc(b, lanes, n, l);
    // One encoder with its own threads, then one per core, if there is room for them: the better one counts.
    double one = rate_of(b, lanes, 1, b->encode, &err), many = 0;
    if (err == TACHY_OK && n > 1)
        many = rate_of(b, lanes, n, b->encode, &(int){0});
    light_add_rate(l, b->encode, TACHY_MAX(one, many));
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

// n lanes for the cores, and all of them for what is a GPU's.
static int measure_round(struct light_bench *b, struct light_lane *lanes, int n, int all, struct tachy_light *l)
{
    int err = TACHY_OK;
    const bool cores = !b->p->gpu_only;
    for (int s = 0, nb = tachy_rows_count(b->p->steps); s < nb && err == TACHY_OK; s++) {
        if (s == b->encode)
            continue;
        if (l->of[s] != TACHY_RESOURCE_CORES)
            err = light_gpu_measure(b, lanes, all, s, l);
        else if (cores && (s == TACHY_STEP_DECODE || has_step(b->p->task, s, 0)))
            light_add_rate(l, s, rate_of(b, lanes, n, s, &err));
    }
    return err || !cores ? err : measure_encode(b, lanes, l->of[b->encode] == TACHY_RESOURCE_NVENC ? all : n, l);
}

// True if part of a worker's work uses the cores.
static bool has_cores(const tachy_task *t, const struct tachy_light *l)
{
    for (int i = 0; i < t->nb_stages; i++)
        if (is_of(t, i, t->stage[i]->step) && l->of[t->stage[i]->step] == TACHY_RESOURCE_CORES)
            return true;
    return false;
}

// True if a GPU does the work of some stages without a model, and of no stage with one.
static bool only_queues(const struct light_bench *b)
{
    const tachy_task *t = b->p->task;
    bool model = false;
    for (int i = 0; i < t->nb_stages; i++)
        model |= t->stage[i]->flags & TACHY_STAGE_MODEL && b->gpu.task.steps >> t->stage[i]->step & 1;
    return b->gpu.task.steps && !model;
}

int tachy_light_measure(const struct tachy_light_params *p, struct tachy_light *l)
{
    struct light_bench b = {.p = p, .encode = tachy_rows_add(p->steps, "encode", 0, NULL), .group = TACHY_CLAMP(p->group, 1, (int)LIGHT_FRAMES),
                            .lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    struct light_lane lanes[LIGHT_LANES] = {0};
    struct tachy_profile *profile = p->task->profile;
    int n = TACHY_MIN(p->workers ? p->workers : tachy_cpu_count(), (int)LIGHT_LANES), all = n;
    int err = load_frames(&b);
    p->task->profile = NULL; // this is not the job
    for (int i = 0; i < all && err == TACHY_OK; i++) {
        lanes[i].b = &b;
        lanes[i].index = i;
        if (i < LIGHT_STREAMS || has_cores(p->task, l))
            err = prepare(&lanes[i]);
        if (err == TACHY_OK && i == 0) {
            light_gpu_find(&b, &lanes[0], l);
            // A device takes work of more streams than there are cores; engines there would take its memory.
            if (only_queues(&b) && !p->workers)
                all = TACHY_MAX(n, (int)LIGHT_STREAMS);
        }
        if (err == TACHY_OK && !b.gpu.decodes && i < n) // a GPU's sessions are opened as they are tried
            err = light_open_decode(&lanes[i]);
    }
    if (err == TACHY_OK)
        err = light_gpu_link(&b, l);
    if (err == TACHY_OK)
        err = make_folder(&b);
    for (int round = 0; round < TACHY_LIGHT_ROUNDS && err == TACHY_OK; round++)
        err = measure_round(&b, lanes, n, all, l);
    if (b.dir[0])
        nftw(b.dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    light_gpu_close(&b);
    release(&b, lanes, all);
    p->task->profile = profile;
    return err;
}
