#include "base/clock.h"
#include "curate/curate.h"
#include "profile/prof.h"
#include "source/source_options.h"
#include "task/task.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tachy/gpu.h>

// The reader and the levels.

enum { ROOM_MIN = 48, ROOM_MAX = 512, BYTES_MAX = 192 << 20 };

bool curate_stopped(const struct curate *c) { return c->p.control && tachy_control_stopped(c->p.control); }

static const int *stop_flag(const struct curate *c) { return c->p.control ? tachy_control_stop_flag(c->p.control) : NULL; }

// ---- Records and queues

void curate_queue_put(struct curate_queue *q, struct curate_record *r)
{
    pthread_mutex_lock(&q->lock);
    r->next = NULL;
    *q->last = r;
    q->last = &r->next;
    pthread_cond_signal(&q->cond);
    pthread_mutex_unlock(&q->lock);
}

struct curate_record *curate_queue_take(struct curate_queue *q, uint64_t until)
{
    pthread_mutex_lock(&q->lock);
    while (!q->first && !tachy_cond_wait_until(&q->cond, &q->lock, until))
        continue;
    struct curate_record *r = q->first;
    if (r && !(q->first = r->next))
        q->last = &q->first;
    pthread_mutex_unlock(&q->lock);
    return r;
}

struct curate_record *curate_record_new(struct curate *c, struct curate_file *f)
{
    struct curate_record *r = calloc(1, sizeof(*r));
    if (r && !(r->value = calloc((size_t)c->names.n + 1, sizeof(*r->value)))) {
        free(r);
        return NULL;
    }
    if (r)
        r->file = f;
    return r;
}

void curate_record_free(struct curate *c, struct curate_record *r)
{
    if (!r)
        return;
    for (int i = 0; i < c->nb_tasks; i++) {
        tachy_text_free(&r->text[i]);
        tachy_text_free(&r->note[i]);
    }
    tachy_frame_unref(&r->mended);
    if (r->frame) {
        tachy_frame_unref(&r->frame);
        pthread_mutex_lock(&c->room_lock);
        c->room++;
        pthread_cond_signal(&c->room_cond);
        pthread_mutex_unlock(&c->room_lock);
    }
    curate_set_unref(c, r->set);
    curate_set_unref(c, r->own);
    free(r->value);
    free(r);
}

// Waits until another frame may start: enough run at once to keep all workers busy, within a pipeline's memory.
static void wait_room(struct curate *c, const tachy_frame *f)
{
    int64_t size = 0;
    for (int i = 0; i < 4 && f->data[i]; i++)
        size += llabs((long long)f->stride[i]) * f->height;
    int most = (int)TACHY_CLAMP(BYTES_MAX / TACHY_MAX(size, 1), c->nb_room, ROOM_MAX);
    pthread_mutex_lock(&c->room_lock);
    while (c->room <= -most)
        pthread_cond_wait(&c->room_cond, &c->room_lock);
    c->room--;
    pthread_mutex_unlock(&c->room_lock);
}

// ---- The reader

static tachy_stream *stream_of(const struct curate *c, const struct curate_record *r, int task)
{
    return curate_set_stream(c->task[task].hears ? r->own : r->set, task);
}

static int push(struct curate *c, struct curate_record *r, int task)
{
    if (!stream_of(c, r, task))
        return TACHY_OK;
    int err = curate_set_push(c->task[task].hears ? r->own : r->set, task, r->file, r->frame);
    r->pushed[task] = err == TACHY_OK;
    if (err < 0 && !r->err) {
        r->err = err;
        r->retry = true;
        curate_set_break(r->set, err);
    }
    return err;
}

struct input {
    struct curate_file *file;
    tachy_source *source;
    const struct tachy_video_info *info;
    struct curate_set *set, *own;
    bool anew; // the next frame is the first of the file, or of another format
};

// No frame of the input follows in its streams.
static void leave_streams(struct curate *c, struct input *in)
{
    curate_set_flush(c, in->set);
    curate_set_end(c, in->own);
    curate_set_unref(c, in->set);
    curate_set_unref(c, in->own);
    in->set = in->own = NULL;
}

// A stream may change its format on the way.
static int follow_format(struct curate *c, struct input *in, const tachy_frame *f)
{
    struct tachy_video_info now = *in->info;
    if (in->set && !f->discontinuity)
        return TACHY_OK;
    now.format = f->format;
    now.width = f->width;
    now.height = f->height;
    now.color = f->color;
    now.mem = f->mem;
    now.device = f->device;
    leave_streams(c, in);
    in->anew = true;
    int err = curate_streams_take(c, &now, &in->set);
    return err == TACHY_OK ? curate_streams_own(c, &now, in->file->path, &in->own) : err;
}

static int push_frame(struct curate *c, struct input *in, tachy_frame *f)
{
    struct curate_record *r = curate_record_new(c, in->file);
    double tick = (double)in->info->time_base.num / in->info->time_base.den, length = in->info->duration;
    if (!r)
        return TACHY_ERR_NOMEM;
    if (in->anew)
        f->discontinuity = 1; // nothing goes on from the file before
    in->anew = false;
    wait_room(c, f);
    r->frame = tachy_frame_ref(f);
    r->head = *f;
    memset(r->head.data, 0, sizeof(r->head.data));
    r->time = (double)f->pts * tick;
    r->share = length > 0 ? TACHY_CLAMP(r->time / length, 0.0, 1.0) : in->info->frames > 0
                   ? TACHY_MIN((double)f->id / (double)in->info->frames, 1.0) : 0;
    r->still = in->info->still;
    r->set = in->set;
    r->own = in->own;
    curate_set_ref(c, in->set);
    curate_set_ref(c, in->own);
    uint64_t start = tachy_ticks();
    int err = curate_look(c, r);
    if (r->looked)
        curate_count(c, c->reads, "scenes", f->id, start);
    if (err < 0) {
        curate_record_free(c, r);
        return err;
    }
    curate_values_of_frame(c, r);
    for (int i = 0; i < c->nb_tasks; i++)
        if (c->task[i].level == 0)
            push(c, r, i);
    err = r->err;
    curate_queue_put(&c->queue[0], r);
    return err;
}

static int read_frames(struct curate *c, struct input *in)
{
    tachy_frame *f = NULL;
    int err = TACHY_OK;
    while (err == TACHY_OK && !curate_stopped(c) && !atomic_load(&c->stop)) {
        uint64_t start = tachy_ticks();
        err = tachy_source_read(in->source, &f);
        if (err < 0)
            break;
        curate_count(c, c->reads, "decode", f->id, start);
        in->file->decoded++;
        err = follow_format(c, in, f);
        if (err == TACHY_OK)
            err = push_frame(c, in, f);
        tachy_frame_unref(&f);
    }
    if (err == TACHY_ERR_EOF)
        return TACHY_OK;
    return err < 0 ? err : TACHY_ERR_INTERRUPTED;
}

// The last message of a failing input says why; it is no failure of the run.
static void keep_why(void *user, enum tachy_log_level level, const char *text)
{
    const struct input *in = user;
    if (level == TACHY_LOG_ERR)
        snprintf(in->file->why, sizeof(in->file->why), "%s", text);
}

static int read_file(struct curate *c, struct input *in)
{
    const struct tachy_log why = {keep_why, in, TACHY_LOG_ERR};
    int gpus[TACHY_MAX_GPUS], n = 0;
    struct tachy_source_params p = {.url = in->file->path, .stop = stop_flag(c), .log = &why};
    tachy_source_read_settings(&p, c->set);
    for (int i = 0; i < c->nb_tasks; i++) // what wants them there copies them
        p.on_gpu = p.on_gpu && tachy_task_frames_on_gpu(tachy_tasks[c->task[i].index], c->task[i].set);
    if (tachy_settings_bool(c->set, "curate.fast_mode") && !tachy_settings_is_set(c->set, "input.every_nth"))
        p.every_nth = 3;
    int err = tachy_gpus_asked(c->set, gpus, &n, c->log);
    p.gpus = gpus;
    p.nb_gpus = n;
    if (err == TACHY_OK)
        err = tachy_source_open(&in->source, &p);
    if (err == TACHY_OK) {
        in->info = tachy_source_info(in->source);
        curate_look_begin(c, in->file);
        err = read_frames(c, in);
        if (err < 0)
            curate_look_failed(c, in->file);
    }
    tachy_source_close(&in->source);
    leave_streams(c, in);
    return err;
}

static bool same_bytes(const void *user, const void *key, int i)
{
    const struct curate *c = user;
    return !memcmp(c->file[i].digest, key, sizeof(c->file[i].digest));
}

// Looks the file up by its content: in another shard, done before, a copy, or to do.
static int know(struct curate *c, int i, const struct tachy_log *log)
{
    struct curate_file *f = &c->file[i];
    if (f->known) // a second try
        return TACHY_OK;
    bool listed = curate_ledger_knows(c, f);
    int err = listed ? TACHY_OK : curate_digest(f, stop_flag(c), log);
    if (err < 0)
        return err;
    f->known = true;
    if (c->shards && f->digest[1] % (uint64_t)c->shards != (uint64_t)c->shard) {
        f->state = CURATE_OTHER;
        return TACHY_OK;
    }
    int first = tachy_index_find(&c->seen, f->digest[0], same_bytes, c, f->digest);
    f->first = first + 1;
    if (curate_ledger_has(c, f) && (listed || first < 0)) // else it is a copy that is still to be listed
        f->state = CURATE_BEFORE;
    return first < 0 ? tachy_index_add(&c->seen, f->digest[0], i) : TACHY_OK;
}

static int queue_end(struct curate *c, struct curate_file *f, int err)
{
    struct curate_record *r = curate_record_new(c, f);
    if (!r)
        return TACHY_ERR_NOMEM;
    r->err = err;
    curate_queue_put(&c->queue[0], r);
    return TACHY_OK;
}

void *curate_read(void *curate)
{
    struct curate *c = curate;
    int err = TACHY_OK;
    tachy_thread_name("curate-read");
    for (int i = 0; i < c->nb_files && err == TACHY_OK; i++) {
        struct curate_file *f = &c->file[i];
        struct input in = {.file = f};
        const struct tachy_log why = {keep_why, &in, TACHY_LOG_ERR};
        if (f->state != CURATE_TODO || curate_stopped(c) || atomic_load(&c->stop))
            continue;
        f->decoded = 0;
        f->why[0] = '\0';
        int ended = know(c, i, &why);
        if (ended == TACHY_OK && f->state == CURATE_TODO && !f->first)
            ended = read_file(c, &in);
        err = queue_end(c, f, ended);
    }
    c->read_err = err;
    if (queue_end(c, NULL, TACHY_OK) < 0) // no memory for 100 bytes: nothing can be said any more
        abort();
    return NULL;
}

// ---- The levels

// A task that hears says something of a stretch of time now and then: lines of JSON.
static void keep_lines(struct curate_record *r, int task, const struct tachy_result *result)
{
    struct tachy_text *t = &r->text[task];
    tachy_text_add(t, "{\"windows\":[");
    for (const char *p = result->json; p && *p; p++)
        tachy_text_char(t, *p == '\n' ? ',' : *p);
    tachy_text_char(t, ']');
    tachy_values_json(t, result->values, result->nb_values);
    tachy_text_char(t, '}');
    if (t->failed)
        r->err = TACHY_ERR_NOMEM;
}

static void keep_text(struct curate *c, struct curate_record *r, int task, const struct tachy_result *result)
{
    struct tachy_text head = {0}, own = {0}, *t = &r->text[task];
    const struct tachy_result none = {.regions = NULL};
    static const char tail[] = ",\"regions\":[]}";
    if (!result->json)
        tachy_regions_json(&own, &r->head, result, r->time);
    const char *json = result->json ? result->json : own.p;
    tachy_regions_json(&head, &r->head, &none, r->time);
    size_t n = head.failed || !head.p ? 0 : head.len - (sizeof(tail) - 1);
    // The members that the line repeats about the frame itself are dropped.
    bool again = json && n && !strncmp(json, head.p, n) && json[n] == ',';
    const char *rest = again ? json + n + 1 : json;
    if (again)
        tachy_text_char(t, '{');
    if (rest)
        tachy_text_put(t, rest, strlen(rest));
    if (t->failed || head.failed || own.failed)
        r->err = TACHY_ERR_NOMEM;
    tachy_text_free(&head);
    tachy_text_free(&own);
}

static void keep_note(struct curate_record *r, int task, const struct tachy_result *result)
{
    const struct tachy_text *note = curate_set_note(r->set, task, result);
    if (note && note->len)
        tachy_text_put(&r->note[task], note->p, note->len);
    if (r->note[task].failed)
        r->err = TACHY_ERR_NOMEM;
}

// The streams of a set that is broken are emptied all the same, so that nobody waits for room in them.
static void pull(struct curate *c, struct curate_record *r, int task)
{
    const struct tachy_result *result;
    bool broken = curate_set_broken(r->set);
    int err = tachy_stream_pull(stream_of(c, r, task), c->task[task].mends ? &r->mended : NULL, &result);
    if (err == TACHY_OK && !r->err) {
        if (c->task[task].hears)
            keep_lines(r, task, result);
        else
            keep_text(c, r, task, result);
        if (c->task[task].notes)
            keep_note(r, task, result);
        curate_values_of_result(c, r, task, result);
    } else if (err < 0 && !r->err) {
        r->err = err;
        r->retry = broken;
        curate_set_break(r->set, err);
    }
}

void *curate_level_run(void *arg)
{
    const struct curate_level *l = arg;
    struct curate *c = l->c;
    tachy_thread_name("curate-level");
    for (bool end = false; !end;) {
        struct curate_record *r = curate_queue_take(&c->queue[l->level], UINT64_MAX);
        end = !r->file;
        for (int i = 0; i < c->nb_tasks && r->frame; i++)
            if (c->task[i].level == l->level && r->pushed[i])
                pull(c, r, i);
        for (int i = 0; i < c->nb_tasks && r->frame; i++)
            if (c->task[i].level == l->level + 1 && !r->err && !curate_set_broken(r->set) &&
                curate_expression_holds(c->task[i].when, r->value))
                push(c, r, i);
        curate_queue_put(&c->queue[l->level + 1], r);
    }
    return NULL;
}
