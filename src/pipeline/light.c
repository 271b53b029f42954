#include "pipeline/light.h"

#include "base/cpu.h"
#include "profile/prof.h"
#include "sink/sink_ops.h"
#include "source/source_ops.h"

#include <ftw.h>
#include <jansson.h>
#include <stdio.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_FRAMES = 24 };

struct bench {
    const struct tachy_light_params *p;
    tachy_frame *frames[MAX_FRAMES]; // decoded
    tachy_frame *outs[MAX_FRAMES];   // composited
    int nb_frames;
    uint64_t until_ns; // threads stop at this time
    char dir[64];      // for encoders
};

// One thread of a saturated measurement.
struct lane {
    struct bench *b;
    int index;
    enum tachy_step step;
    void *worker;
    struct tachy_item *items; // one a frame, processed up to the step before
    int next;                 // of items
    tachy_source *source;     // for decoding
    uint64_t frames, ns;      // done, and the time that took
    int err;
};

static int open_decode(struct lane *l)
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
static int lane_decode(struct lane *l)
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
            err = open_decode(l);
            now = tachy_now_ns();
        }
        if (err != TACHY_OK)
            return err == TACHY_ERR_EOF ? TACHY_ERR_UNSUPPORTED : err;
        start = now;
    }
    return TACHY_OK;
}

static int lane_encode(struct lane *l)
{
    struct bench *b = l->b;
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
static int run_step(struct lane *l, enum tachy_step step, struct tachy_item *item, int eye)
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

static int lane_step(struct lane *l)
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
    struct lane *l = arg;
    l->frames = l->ns = 0;
    l->err = l->step == TACHY_STEP_DECODE   ? lane_decode(l)
             : l->step == TACHY_STEP_ENCODE ? lane_encode(l)
                                            : lane_step(l);
    return NULL;
}

// Frames a second of `n` lanes side by side, 0 with *err set where one failed.
static double rate_of(struct bench *b, struct lane *lanes, int n, enum tachy_step step, int *err)
{
    pthread_t threads[256];
    double seconds = b->p->seconds > 0 ? b->p->seconds : 0.4, rate = 0;
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

static int load_frames(struct bench *b)
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
                                (size_t)MAX_FRAMES);
    while (b->nb_frames < most && tachy_source_read(s, &b->frames[b->nb_frames]) == TACHY_OK) {
        tachy_frame *f = b->frames[b->nb_frames];
        if (f->width == b->p->input->width && f->height == b->p->input->height &&
            f->format == b->p->input->format)
            b->nb_frames++;
        else
            tachy_frame_unref(&b->frames[b->nb_frames]);
    }
    tachy_source_close(&s);
    return b->nb_frames >= 2 ? TACHY_OK : TACHY_ERR_UNSUPPORTED;
}

// Carries every frame through the steps once, so that each step's input is ready.
static int prepare(struct lane *l)
{
    struct bench *b = l->b;
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
    }
    if (order)
        t->ops->order_close(order);
    return err ? err : open_decode(l);
}

static void release(struct bench *b, struct lane *lanes, int n)
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
    for (int i = 0; i < MAX_FRAMES; i++) {
        tachy_frame_unref(&b->frames[i]);
        tachy_frame_unref(&b->outs[i]);
    }
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    remove(path);
    return 0;
}

static void add_rate(struct tachy_light *l, enum tachy_step step, double rate)
{
    if (rate > 0 && l->nb[step] < TACHY_LIGHT_MOST)
        l->rate[step][l->nb[step]++] = rate;
}

static int measure_encode(struct bench *b, struct lane *lanes, int n, struct tachy_light *l)
{
    int err;
    if (!b->dir[0])
        return TACHY_OK;
    // One encoder with threads of its own, then one a core: what gives the most counts.
    double one = rate_of(b, lanes, 1, TACHY_STEP_ENCODE, &err), many = 0;
    if (err == TACHY_OK && n > 1)
        many = rate_of(b, lanes, n, TACHY_STEP_ENCODE, &err);
    add_rate(l, TACHY_STEP_ENCODE, TACHY_MAX(one, many));
    return err == TACHY_ERR_UNSUPPORTED ? TACHY_OK : err;
}

static int make_folder(struct bench *b)
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

static int measure_round(struct bench *b, struct lane *lanes, int n, struct tachy_light *l)
{
    int err = TACHY_OK;
    for (int s = TACHY_STEP_DECODE; s <= TACHY_STEP_COMPOSITE && err == TACHY_OK; s++)
        if (s != TACHY_STEP_COMPOSITE || b->p->task->ops->composite)
            add_rate(l, (enum tachy_step)s, rate_of(b, lanes, n, (enum tachy_step)s, &err));
    return err ? err : measure_encode(b, lanes, n, l);
}

int tachy_light_measure(const struct tachy_light_params *p, struct tachy_light *l)
{
    struct bench b = {.p = p};
    struct lane lanes[256] = {0};
    int n = TACHY_MIN(p->workers ? p->workers : tachy_cpu_count(), 256);
    int err = load_frames(&b);
    for (int i = 0; i < n; i++) {
        lanes[i].b = &b;
        lanes[i].index = i;
        if (err == TACHY_OK)
            err = prepare(&lanes[i]);
    }
    if (err == TACHY_OK)
        err = make_folder(&b);
    for (int round = 0; round < TACHY_LIGHT_ROUNDS && err == TACHY_OK; round++)
        err = measure_round(&b, lanes, n, l);
    if (b.dir[0])
        nftw(b.dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    release(&b, lanes, n);
    return err;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void tachy_light_ms(const struct tachy_light *l, double light_ms[TACHY_STEP_COUNT])
{
    for (int s = 0; s < TACHY_STEP_COUNT; s++) {
        double v[TACHY_LIGHT_MOST];
        int n = l->nb[s];
        memcpy(v, l->rate[s], sizeof(v));
        qsort(v, (size_t)n, sizeof(v[0]), compare);
        light_ms[s] = n ? 1e3 / ((v[n / 2] + v[(n - 1) / 2]) / 2) : 0;
    }
}

static char *store_path(const char *dir)
{
    char *cache = dir ? NULL : tachy_cache_dir();
    char *path = dir || cache ? tachy_asprintf("%s/light.json", dir ? dir : cache) : NULL;
    free(cache);
    return path;
}

int tachy_light_load(const char *dir, const char *key, double light_ms[TACHY_STEP_COUNT])
{
    char *path = store_path(dir);
    json_t *all = path ? json_load_file(path, 0, NULL) : NULL;
    json_t *row = json_object_get(all, key);
    for (int s = 0; s < TACHY_STEP_COUNT; s++)
        light_ms[s] = json_number_value(json_object_get(row, tachy_step_name((enum tachy_step)s)));
    int err = row ? TACHY_OK : TACHY_ERR_NOT_FOUND;
    json_decref(all);
    free(path);
    return err;
}

int tachy_light_save(const char *dir, const char *key, const double light_ms[TACHY_STEP_COUNT],
                     const struct tachy_log *log)
{
    char *path = store_path(dir);
    if (!path)
        return TACHY_ERR_NOT_FOUND;
    json_t *all = json_load_file(path, 0, NULL);
    if (!json_is_object(all)) {
        json_decref(all);
        all = json_object();
    }
    json_t *row = json_object();
    for (int s = 0; s < TACHY_STEP_COUNT; s++)
        json_object_set_new(row, tachy_step_name((enum tachy_step)s), json_real(light_ms[s]));
    json_object_set_new(all, key, row);
    char *text = json_dumps(all, JSON_INDENT(1) | JSON_SORT_KEYS);
    int err = text ? tachy_write_file(path, text, strlen(text), log) : TACHY_ERR_NOMEM;
    free(text);
    json_decref(all);
    free(path);
    return err;
}
