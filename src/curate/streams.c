#include "base/options.h"
#include "curate/curate.h"
#include "stage/note.h"
#include "task/task.h"

#include <stdlib.h>

// A set has a task and a stream for each of the run's tasks, for frames of one format. Folders of pictures of a few sizes
// change between sets that stay open.

enum { RECENT = 4 };

struct curate_set {
    struct curate_set *next; // in curate_streams.recent
    struct tachy_video_info info;
    tachy_task *task[CURATE_TASKS_MAX];
    tachy_stream *stream[CURATE_TASKS_MAX];
    const struct curate_file *file[CURATE_TASKS_MAX]; // of the frame that was pushed last; of the thread that pushes to the task
    int refs; // under curate_streams.lock
    atomic_int err;
};

struct curate_streams {
    pthread_mutex_t lock;
    struct curate_set *recent; // used only by the reader; most recently used first
    struct tachy_log again;    // of all sets but the first, which has told what holds for each
    bool told[2];              // of sets whose tasks hear, and of the others
};

int curate_streams_open(struct curate *c)
{
    c->streams = calloc(1, sizeof(*c->streams));
    if (!c->streams)
        return TACHY_ERR_NOMEM;
    pthread_mutex_init(&c->streams->lock, NULL);
    if (c->log)
        c->streams->again = *c->log;
    c->streams->again.max_level = TACHY_MIN(c->streams->again.max_level, TACHY_LOG_WARN);
    return TACHY_OK;
}

static bool serves(const struct curate_set *set, const struct tachy_video_info *v)
{
    const struct tachy_video_info *own = &set->info;
    return own->format == v->format && own->width == v->width && own->height == v->height && own->mem == v->mem &&
           own->device == v->device && own->time_base.num == v->time_base.num && own->time_base.den == v->time_base.den &&
           own->fps.num == v->fps.num && own->fps.den == v->fps.den && own->sar.num == v->sar.num && own->sar.den == v->sar.den &&
           own->rotation == v->rotation && own->flipped == v->flipped && own->stereo == v->stereo &&
           !memcmp(&own->color, &v->color, sizeof(v->color));
}

static void close_set(struct curate_set *set)
{
    for (int i = CURATE_TASKS_MAX - 1; i >= 0; i--) {
        tachy_stream_leave(&set->stream[i]);
        tachy_task_close(&set->task[i]);
    }
    free(set);
}

// A task that needs frames after the one it works on would wait for ever for those that a condition leaves out.
static int check_ahead(const struct curate *c, const struct curate_task *t, const tachy_task *task)
{
    for (int i = 0; i < task->nb_stages; i++)
        if (t->when && task->stage[i]->ahead)
            return tachy_fail(c->log, TACHY_ERR_INVAL, "%s.when: the stage %s of %s looks at the frames that follow, so it must see every "
                              "frame; leave the condition or the stage out", t->name, task->stage[i]->ops->name, t->name);
    return TACHY_OK;
}

// `path`: of the input for those that hear; NULL: for the others.
static int open_set(struct curate *c, const struct tachy_video_info *info, const char *path, struct curate_set **out)
{
    struct curate_set *set = *out = calloc(1, sizeof(*set));
    bool *told = &c->streams->told[path != NULL];
    const struct tachy_log *log = *told && c->log ? &c->streams->again : c->log;
    int err = set ? TACHY_OK : TACHY_ERR_NOMEM;
    if (set) {
        set->info = *info;
        set->info.codec = NULL;
        set->refs = 1; // that of `recent`, or the reader's
    }
    for (int i = 0; i < c->nb_tasks && err == TACHY_OK; i++) {
        const struct curate_task *t = &c->task[i];
        if (t->hears != (path != NULL))
            continue;
        err = tachy_task_make(&set->task[i], t->name, t->notes ? TACHY_TASK_KEEPS_NOTES : TACHY_TASK_RUNS, t->set, log);
        if (err == TACHY_OK)
            err = check_ahead(c, t, set->task[i]);
        if (err == TACHY_OK) {
            set->task[i]->input = path;
            set->task[i]->beside = true;
        }
        if (err == TACHY_OK)
            err = tachy_pipeline_join(c->pipeline, &set->stream[i],
                                      tachy_stream_params(.task = set->task[i], .input = set->info, .name = t->name));
    }
    if (err < 0 && set) {
        close_set(set);
        *out = NULL;
    }
    *told |= err == TACHY_OK;
    return err;
}

// The one that was used least recently, or that is broken, goes.
static void forget(struct curate *c, struct curate_set **at)
{
    struct curate_set *set = *at;
    *at = set->next;
    curate_set_unref(c, set);
}

int curate_streams_take(struct curate *c, const struct tachy_video_info *info, struct curate_set **out)
{
    struct curate_set **at = &c->streams->recent, *set = NULL;
    int n = 0, err = TACHY_OK;
    while (*at && !set) {
        if (curate_set_broken(*at)) {
            forget(c, at);
        } else if (serves(*at, info)) {
            set = *at;
            *at = set->next;
        } else if (++n == RECENT) {
            while (*at)
                forget(c, at);
        } else {
            at = &(*at)->next;
        }
    }
    if (!set)
        err = open_set(c, info, NULL, &set);
    if (err == TACHY_OK) {
        set->next = c->streams->recent;
        c->streams->recent = set;
        curate_set_ref(c, set);
    }
    *out = set;
    return err;
}

static bool has_sound(const char *path)
{
    tachy_source *source;
    bool is = tachy_source_open(&source, tachy_source_params(.url = path, .sound = true)) == TACHY_OK;
    tachy_source_close(&source);
    return is;
}

int curate_streams_own(struct curate *c, const struct tachy_video_info *info, const char *path, struct curate_set **out)
{
    bool hears = false;
    for (int i = 0; i < c->nb_tasks; i++)
        hears |= c->task[i].hears;
    *out = NULL;
    return hears && has_sound(path) ? open_set(c, info, path, out) : TACHY_OK;
}

void curate_set_ref(struct curate *c, struct curate_set *set)
{
    if (!set)
        return;
    pthread_mutex_lock(&c->streams->lock);
    set->refs++;
    pthread_mutex_unlock(&c->streams->lock);
}

void curate_set_unref(struct curate *c, struct curate_set *set)
{
    if (!set)
        return;
    pthread_mutex_lock(&c->streams->lock);
    bool last = !--set->refs;
    pthread_mutex_unlock(&c->streams->lock);
    if (last)
        close_set(set);
}

tachy_stream *curate_set_stream(struct curate_set *set, int task) { return set ? set->stream[task] : NULL; }

int curate_set_push(struct curate_set *set, int task, const struct curate_file *file, tachy_frame *frame)
{
    if (set->file[task] && set->file[task] != file)
        tachy_stream_flush(set->stream[task]); // nothing goes on from the input before
    set->file[task] = file;
    return tachy_stream_push(set->stream[task], frame);
}

const struct tachy_text *curate_set_note(const struct curate_set *set, int task, const struct tachy_result *result)
{
    return tachy_note_of(set->task[task], result);
}

void curate_set_flush(const struct curate *c, struct curate_set *set)
{
    for (int i = 0; i < c->nb_tasks && set; i++)
        if (c->task[i].level == 0 && set->stream[i])
            tachy_stream_flush(set->stream[i]);
}

void curate_set_end(const struct curate *c, struct curate_set *set)
{
    for (int i = 0; i < c->nb_tasks && set; i++)
        if (set->stream[i])
            tachy_stream_push(set->stream[i], NULL);
}

void curate_set_break(struct curate_set *set, int err) { atomic_store(&set->err, err); }

bool curate_set_broken(const struct curate_set *set) { return atomic_load(&set->err) < 0; }

void curate_streams_close(struct curate *c)
{
    if (!c->streams)
        return;
    while (c->streams->recent)
        forget(c, &c->streams->recent);
    pthread_mutex_destroy(&c->streams->lock);
    free(c->streams);
    c->streams = NULL;
}
