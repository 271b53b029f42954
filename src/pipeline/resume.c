#include "pipeline/resume.h"
#include "pipeline/checkpoint.h"
#include "base/cpu.h"
#include "base/mix.h"
#include "base/numeric.h"
#include "base/path.h"
#include "media/describe.h"
#include "sink/sink_ops.h"
#include "source/source_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// Two frames before a cut are compared when a run goes on there: a seek that does not lead to the
// same pictures is noticed, and the input is read from its beginning instead.
enum { CHECKED = 2 };

// Data kept about a frame that was read shortly before a cut.
struct mark {
    int64_t id, pts;
    uint64_t pixels;
};

struct tachy_resume {
    const struct tachy_run_params *p;
    const struct tachy_log *log;
    struct tachy_record *job; // the sink's
    struct live_stream *live;
    int64_t part;          // frames of a part
    int64_t kept;          // frames in whole parts that are recorded
    pthread_mutex_t lock;  // marks: written ahead of the cut by other threads
    struct mark *marks;
    size_t nb_marks, room;
    struct checkpoint states;
};

// ---- what must stay as it was

static bool put(json_t *what, const char *name, const char *format, ...) TACHY_PRINTF(3, 4);
static bool put(json_t *what, const char *name, const char *format, ...)
{
    char text[512];
    va_list args;
    locale_t before = tachy_numeric_enter();
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tachy_numeric_leave(before);
    return json_object_set_new(what, name, json_string(text)) == 0;
}

// Size, time of change, and a digest of both ends of a file.
static int identify(json_t *what, const char *name, const char *path)
{
    enum { END = 1 << 20 };
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *buffer = malloc(END);
    int err = !buffer ? TACHY_ERR_NOMEM : fd < 0 || fstat(fd, &st) < 0 ? TACHY_ERR_IO : TACHY_OK;
    uint64_t h = 0;
    for (int i = 0; i < 2 && err == TACHY_OK; i++) {
        ssize_t n = pread(fd, buffer, END, i ? TACHY_MAX(st.st_size - END, 0) : 0);
        err = n < 0 ? TACHY_ERR_IO : TACHY_OK;
        h = n > 0 ? tachy_mix(h, buffer, (size_t)n) : h;
    }
    if (err == TACHY_OK && !put(what, name, "%lld bytes of %lld.%09ld, %016llx", (long long)st.st_size,
                                (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (unsigned long long)h))
        err = TACHY_ERR_NOMEM;
    if (fd >= 0)
        close(fd);
    free(buffer);
    return err;
}

static int describe_input(const struct tachy_resume *r, json_t *what)
{
    const char *url = r->p->source->url, *file = tachy_path_local(url);
    struct stat st;
    if (stat(file, &st) < 0 || !S_ISREG(st.st_mode))
        return tachy_fail(r->log, TACHY_ERR_UNSUPPORTED,
                          "%s: a run can be resumed only where its input is one file, which can be "
                          "read again; leave --resume out",
                          url);
    int err = identify(what, "input", file);
    return err < 0 ? tachy_fail(r->log, err, "%s: cannot be read: %s", file, strerror(errno)) : err;
}

static int describe_range(const struct tachy_resume *r, json_t *what)
{
    const struct tachy_source_params *p = &r->p->source->params;
    bool ok = put(what, "input.start", "%.9g s", p->start) && put(what, "input.duration", "%.9g s", p->duration) &&
              put(what, "input.max_frames", "%lld", (long long)p->max_frames) &&
              put(what, "input.every_nth", "%d", p->every_nth) &&
              put(what, "input.rate", "%d/%d", p->rate.num, p->rate.den) &&
              put(what, "input.stereo", "%d", (int)p->stereo);
    return ok ? TACHY_OK : TACHY_ERR_NOMEM;
}

// The file that a setting names, if it is one; `i`: which of a list.
static int identify_file(json_t *what, const char *setting, size_t i, const char *path)
{
    struct stat st;
    char name[80];
    int n = snprintf(name, sizeof(name), "the file of %s", setting);
    if (i)
        snprintf(name + n, sizeof(name) - (size_t)n, ", number %zu", i + 1);
    return path && stat(path, &st) == 0 && S_ISREG(st.st_mode) ? identify(what, name, path) : TACHY_OK;
}

// A setting that names a file, or several.
static int identify_files(json_t *what, const json_t *settings, const char *setting)
{
    const json_t *value = json_object_get(settings, setting), *item;
    size_t i;
    int err = identify_file(what, setting, 0, json_string_value(value));
    json_array_foreach(value, i, item)
        err = err < 0 ? err : identify_file(what, setting, i, json_string_value(item));
    return err;
}

// Each as text; a list as JSON.
static bool put_settings(json_t *what, json_t *settings)
{
    const char *name;
    json_t *v;
    bool ok = true;
    json_object_foreach (settings, name, v) {
        char *list = json_is_string(v) ? NULL : json_dumps(v, JSON_COMPACT);
        ok = ok && json_object_set_new(what, name, json_string(list ? list : json_string_value(v))) == 0;
        free(list);
    }
    return ok;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// The settings, and the files that they name.
static int describe_task(const struct tachy_resume *r, json_t *what)
{
    static const char *const files[] = {"model.name", "model.card", "segment.background", "segment.garbage_matte", "segment.plate",
                                        "regions.labels"};
    const tachy_task *t = r->p->task;
    json_t *settings = t->settings ? json_loads(t->settings, 0, NULL) : json_object();
    bool ok = settings && put_settings(what, settings) &&
              put(what, "task", "%s", t->name) && put(what, "model", "%s", t->describe);
    int err = ok ? TACHY_OK : TACHY_ERR_NOMEM;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(files) && err == TACHY_OK; i++)
        err = identify_files(what, settings, files[i]);
    for (int i = 0; t->reads && t->reads[i] && err == TACHY_OK; i++) {
        size_t alike = 0; // files of this name, from other folders, before
        for (int k = 0; k < i; k++)
            alike += !strcmp(base_name(t->reads[k]), base_name(t->reads[i]));
        err = identify_file(what, base_name(t->reads[i]), alike, t->reads[i]);
    }
    json_decref(settings);
    return err;
}

static int describe(const struct tachy_resume *r, json_t **out)
{
    json_t *what = *out = json_object();
    bool ok = what && put(what, "program", "tachy " TACHY_VERSION) &&
              put(what, "processor", "%s, %s", tachy_cpu_name(), tachy_isa_name(tachy_cpu_isa()));
    int err = ok ? describe_input(r, what) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = describe_range(r, what);
    if (err == TACHY_OK)
        err = describe_task(r, what);
    if (err == TACHY_OK)
        err = tachy_sink_describe(r->p->sink, what);
    return err;
}

static int changed(const struct tachy_resume *r, const char *name, const char *was, const char *is)
{
    const char *dir = r->job->dir;
    if (!strcmp(name, "input") || !strncmp(name, "the file of", 11))
        return tachy_fail(r->log, TACHY_ERR_EXISTS,
                          "%s: %s has changed since the unfinished run in %s began, so it cannot go "
                          "on; to start over, remove that folder",
                          r->job->output, strcmp(name, "input") ? name : r->p->source->url, dir);
    return tachy_fail(r->log, TACHY_ERR_EXISTS,
                      "%s: the unfinished run in %s was begun with %s \"%s\", which is \"%s\" now, so "
                      "it cannot go on; run it as it was begun, or, to start over, remove that folder",
                      r->job->output, dir, name, was, is);
}

// Each name's text is in both.
static int compare(const struct tachy_resume *r, json_t *was, json_t *is)
{
    const char *name;
    json_t *v;
    json_object_foreach (is, name, v) {
        const char *old = json_string_value(json_object_get(was, name));
        if (!old || strcmp(old, json_string_value(v)))
            return changed(r, name, old ? old : "", json_string_value(v));
    }
    json_object_foreach (was, name, v)
        if (!json_object_get(is, name))
            return changed(r, name, json_string_value(v) ? json_string_value(v) : "", "");
    return TACHY_OK;
}

// True if the task can save its whole state between frames.
static bool can_save(const tachy_task *t, bool frame_skip)
{
    for (int i = 0; i < t->nb_stages; i++)
        if (tachy_stage_has_state(t->stage[i]) && !tachy_stage_state_saves(t->stage[i]))
            return false;
    return !frame_skip || tachy_task_copies(t);
}

int tachy_resume_open(struct tachy_resume **out, const struct tachy_run_params *p)
{
    *out = NULL;
    if (!p->sink->job)
        return TACHY_OK;
    struct tachy_resume *r = calloc(1, sizeof(*r));
    if (!r)
        return TACHY_ERR_NOMEM;
    r->p = p;
    r->log = p->log;
    r->job = p->sink->job;
    pthread_mutex_init(&r->lock, NULL);
    checkpoint_open(&r->states);
    json_t *is = NULL;
    int err = describe(r, &is);
    // If no frames are kept, nothing is lost by starting afresh with the current request.
    if (r->job->begun && !json_integer_value(json_object_get(r->job->record, "frames"))) {
        json_object_clear(r->job->record);
        r->job->begun = false;
    }
    if (err == TACHY_OK && r->job->begun)
        err = compare(r, json_object_get(r->job->record, "of"), is);
    else if (err == TACHY_OK && json_object_set(r->job->record, "of", is) < 0)
        err = TACHY_ERR_NOMEM;
    json_decref(is);
    if (err == TACHY_OK && !can_save(p->task, p->live.frame_skip))
        err = tachy_fail(r->log, TACHY_ERR_UNSUPPORTED,
                         "tachy %s cannot be resumed; leave --resume out", p->task->name);
    if (err == TACHY_OK && p->live.mode == TACHY_RUN_LIVE)
        err = tachy_fail(r->log, TACHY_ERR_UNSUPPORTED,
                         "a live run cannot be resumed; leave --live or --resume out");
    if (err < 0)
        tachy_resume_close(&r);
    *out = r;
    return err;
}

// ---- frames that are read and worked on, ahead of the cut

static uint64_t digest(const tachy_frame *f)
{
    tachy_frame *host;
    if (tachy_frame_download(&host, (tachy_frame *)(uintptr_t)f, NULL) < 0)
        return 0; // a frame that cannot be read is like none
    uint64_t h = (uint64_t)f->format << 32 ^ (uint64_t)f->width << 16 ^ (uint64_t)f->height;
    for (int i = 0; i < tachy_pix_desc(f->format)->planes; i++) {
        const struct tachy_npy plane = tachy_plane_array(host, i);
        for (int64_t y = 0; y < plane.shape[0]; y++)
            h = tachy_mix(h, host->data[i] + y * host->stride[i], plane.bytes / (size_t)plane.shape[0]);
    }
    tachy_frame_unref(&host);
    return h;
}

// Frames before a cut that are compared.
static int64_t checked(const struct tachy_resume *r) { return TACHY_MIN(r->part, CHECKED); }

int tachy_resume_read(struct tachy_resume *r, const tachy_frame *f)
{
    if (!r || f->id % r->part < r->part - checked(r))
        return TACHY_OK;
    struct mark m = {f->id, f->pts, digest(f)};
    int err = TACHY_OK;
    pthread_mutex_lock(&r->lock);
    if (r->nb_marks == r->room) {
        size_t room = r->room * 2 + 16;
        struct mark *more = realloc(r->marks, room * sizeof(*more));
        err = more ? TACHY_OK : TACHY_ERR_NOMEM;
        r->marks = more ? more : r->marks;
        r->room = more ? room : r->room;
    }
    if (err == TACHY_OK)
        r->marks[r->nb_marks++] = m;
    pthread_mutex_unlock(&r->lock);
    return err;
}

static bool is_last(const struct tachy_resume *r, int64_t frame_id) { return (frame_id + 1) % r->part == 0; }

static int add(struct tachy_resume *r, int64_t id, int part, struct checkpoint_bytes *b, int err)
{
    return checkpoint_add(&r->states, id, part, b, err);
}

// Called after a stage's turn.
static int after(void *user, const struct tachy_stage *st, const void *state, int64_t frame_id)
{
    struct tachy_resume *r = user;
    struct checkpoint_bytes b = {0};
    if (!is_last(r, frame_id))
        return TACHY_OK;
    if (st)
        return add(r, frame_id, CHECKPOINT_STATE + st->index, &b, tachy_stage_state_save(st, state, &b.data, &b.size));
    struct tachy_stage *copies = tachy_task_copies(r->p->task);
    return add(r, frame_id, CHECKPOINT_KEPT, &b, copies->ops->copy_save(copies, state, &b.data, &b.size));
}

// The source's thread.
static void after_look(void *user, const struct tachy_frame_skip *s, int64_t frame_id)
{
    struct tachy_resume *r = user;
    struct checkpoint_bytes b = {0};
    if (is_last(r, frame_id))
        add(r, frame_id, CHECKPOINT_SKIP, &b, tachy_frame_skip_save(s, &b.data, &b.size));
}

// ---- cuts

// The marks of the frames before `cut`; older ones are dropped.
static int record_marks(struct tachy_resume *r, int64_t cut)
{
    json_t *all = json_array();
    size_t left = 0;
    bool ok = all;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->nb_marks; i++) {
        const struct mark *m = &r->marks[i];
        if (m->id >= cut)
            r->marks[left++] = *m;
        else if (m->id >= cut - checked(r))
            ok = ok && json_array_append_new(
                           all, json_pack("{s:I, s:I, s:o}", "frame", (json_int_t)m->id, "pts",
                                          (json_int_t)m->pts, "pixels",
                                          json_sprintf("%016llx", (unsigned long long)m->pixels))) == 0;
    }
    r->nb_marks = left;
    pthread_mutex_unlock(&r->lock);
    if (json_object_set_new(r->job->record, "last_frames", all) < 0 || !ok)
        return TACHY_ERR_NOMEM;
    return TACHY_OK;
}

static int record_state(struct tachy_resume *r, int64_t cut)
{
    struct checkpoint_bytes all;
    int err = checkpoint_take(&r->states, cut - 1, &all);
    if (err < 0 || !all.data)
        return err;
    char *path = tachy_record_name(r->job, "state", cut);
    err = path ? tachy_record_write(r->job, path, all.data, all.size) : TACHY_ERR_NOMEM;
    json_t *o = json_pack("{s:I, s:o}", "bytes", (json_int_t)all.size, "digest",
                          json_sprintf("%016llx", (unsigned long long)tachy_mix(0, all.data, all.size)));
    if (err == TACHY_OK && (!o || json_object_set(r->job->record, "state", o) < 0))
        err = TACHY_ERR_NOMEM;
    json_decref(o);
    free(path);
    free(all.data);
    return err;
}

// A cut lies in front of the first frame of the next part, so a run never ends in an empty part.
int tachy_resume_cut(struct tachy_resume *r, int64_t frame_id)
{
    tachy_sink *k = r ? r->p->sink : NULL;
    if (r && frame_id != k->frames)
        return tachy_fail(r->log, TACHY_ERR_UNSUPPORTED,
                          "%s: frame %lld was left out, so what is written would be another time "
                          "something else; leave --resume out",
                          r->job->output, (long long)k->frames);
    if (!r || !k->in_part || k->frames % r->part)
        return TACHY_OK;
    int64_t before = r->kept;
    int err = tachy_sink_cut(k);
    if (err == TACHY_OK)
        err = record_state(r, k->frames);
    if (err == TACHY_OK)
        err = record_marks(r, k->frames);
    if (err == TACHY_OK)
        err = tachy_record_save(r->job);
    if (err < 0)
        return err;
    r->kept = k->frames;
    char *old = before ? tachy_record_name(r->job, "state", before) : NULL;
    if (old)
        unlink(old);
    free(old);
    return TACHY_OK;
}

// ---- going on

// Gives each part to whom it belongs.
static int load_parts(struct tachy_resume *r, tachy_stream *stream, const void *data, size_t size)
{
    tachy_task *t = r->p->task;
    struct checkpoint_bytes b[CHECKPOINT_PARTS], *of = b + CHECKPOINT_STATE;
    struct tachy_stage *copies = tachy_task_copies(t);
    unsigned parts = r->states.parts;
    int err = checkpoint_split(&r->states, data, size, b);
    for (int i = 0; i < t->nb_stages && err == TACHY_OK; i++)
        if (parts >> (CHECKPOINT_STATE + i) & 1)
            err = tachy_stage_state_load(t->stage[i], stream->state[i], of[i].data, of[i].size);
    if (err == TACHY_OK && parts & 1u << CHECKPOINT_SKIP)
        err = tachy_frame_skip_load(live_stream_skip(r->live), b[CHECKPOINT_SKIP].data,
                                    b[CHECKPOINT_SKIP].size);
    if (err == TACHY_OK && parts & 1u << CHECKPOINT_KEPT)
        err = copies->ops->copy_load(copies, &stream->kept, b[CHECKPOINT_KEPT].data, b[CHECKPOINT_KEPT].size);
    return err;
}

static int load_state(struct tachy_resume *r, tachy_stream *stream)
{
    const json_t *o = json_object_get(r->job->record, "state");
    if (!r->states.parts)
        return TACHY_OK;
    char *path = tachy_record_name(r->job, "state", r->kept), *data = NULL, text[20];
    size_t size = 0;
    int err = path ? tachy_read_file(path, (size_t)1 << 32, &data, &size, r->log) : TACHY_ERR_NOMEM;
    const char *was = json_string_value(json_object_get(o, "digest"));
    snprintf(text, sizeof(text), "%016llx", (unsigned long long)(data ? tachy_mix(0, data, size) : 0));
    if (err == TACHY_OK && (!was || strcmp(was, text)))
        err = TACHY_ERR_FORMAT;
    if (err == TACHY_OK)
        err = load_parts(r, stream, data, size);
    if (err == TACHY_ERR_FORMAT)
        tachy_msg(r->log, TACHY_LOG_ERR,
                  "%s: is not what this run left behind; to start over, remove the folder %s", path,
                  r->job->dir);
    tachy_free(data);
    free(path);
    return err;
}

static bool is_mark(const json_t *m, const tachy_frame *f)
{
    char text[20];
    snprintf(text, sizeof(text), "%016llx", (unsigned long long)digest(f));
    const char *was = json_string_value(json_object_get(m, "pixels"));
    return json_integer_value(json_object_get(m, "frame")) == f->id &&
           json_integer_value(json_object_get(m, "pts")) == f->pts && was && !strcmp(was, text);
}

// Reads up to the cut. TACHY_ERR_FORMAT: the frames before it are others than they were.
static int read_up(struct tachy_resume *r)
{
    const json_t *marks = json_object_get(r->job->record, "last_frames");
    tachy_source *s = r->p->source;
    while (s->next_id < r->kept) {
        tachy_frame *f = NULL;
        int err = tachy_source_read(s, &f);
        if (err < 0)
            return err == TACHY_ERR_EOF ? TACHY_ERR_FORMAT : err;
        size_t back = (size_t)(r->kept - f->id), n = json_array_size(marks);
        bool same = back > n || is_mark(json_array_get(marks, n - back), f);
        tachy_frame_unref(&f);
        if (!same)
            return TACHY_ERR_FORMAT;
    }
    return TACHY_OK;
}

static int go_on(struct tachy_resume *r)
{
    tachy_source *s = r->p->source;
    const json_t *marks = json_object_get(r->job->record, "last_frames"),
                 *first = json_array_get(marks, 0);
    int64_t id = json_integer_value(json_object_get(first, "frame")),
            pts = json_integer_value(json_object_get(first, "pts"));
    bool enter = id > 0 && id == r->kept - (int64_t)json_array_size(marks);
    int err = enter ? tachy_source_seek(s, id, pts) : TACHY_ERR_UNSUPPORTED;
    bool sought = err == TACHY_OK;
    if (sought)
        err = read_up(r);
    if (sought && err == TACHY_ERR_FORMAT)
        err = tachy_source_seek(s, 0, INT64_MIN) < 0 ? TACHY_ERR_FORMAT : TACHY_ERR_UNSUPPORTED;
    if (err == TACHY_ERR_UNSUPPORTED) {
        tachy_msg(r->log, TACHY_LOG_INFO, "%s: cannot be entered at frame %lld, so it is read up to there",
                  s->url, (long long)r->kept);
        err = read_up(r);
    }
    if (err == TACHY_ERR_FORMAT)
        return tachy_fail(r->log, err,
                          "%s: gives other pictures before frame %lld than it gave to the unfinished "
                          "run in %s, so that cannot go on; to start over, remove that folder",
                          s->url, (long long)r->kept, r->job->dir);
    return err;
}

bool tachy_resume_all_in(const struct tachy_resume *r)
{
    return r && json_object_get(r->job->record, "all_in");
}

// Registers the states that the run keeps between frames, with the callbacks that save them.
static void watch(struct tachy_resume *r, tachy_stream *stream)
{
    const tachy_task *t = r->p->task;
    for (int i = 0; i < t->nb_stages; i++)
        if (tachy_stage_has_state(t->stage[i]))
            r->states.parts |= 1u << (CHECKPOINT_STATE + i);
    if (r->p->live.frame_skip)
        r->states.parts |= 1u << CHECKPOINT_SKIP | 1u << CHECKPOINT_KEPT;
    stream->after_user = r;
    stream->after = after;
    if (r->p->live.frame_skip)
        live_stream_watch(r->live, after_look, r);
}

int tachy_resume_start(struct tachy_resume *r, tachy_stream *stream, struct live_stream *live)
{
    tachy_source_drop_side(r->p->source);
    bool begun = r->job->begun;
    int err = tachy_sink_parts_start(r->p->sink, &stream->bind->output);
    if (err < 0)
        return err;
    r->part = r->p->sink->part_frames;
    r->kept = r->p->sink->frames;
    r->live = live;
    watch(r, stream);
    if (!begun || !r->kept)
        return tachy_record_save(r->job);
    tachy_msg(r->log, TACHY_LOG_INFO, "%s: goes on at frame %lld", r->job->output, (long long)r->kept);
    if (tachy_resume_all_in(r))
        return TACHY_OK;
    err = load_state(r, stream);
    return err < 0 ? err : go_on(r);
}

// ---- the end

// Source of the streams besides the video: the input, read once more from its beginning.
struct again {
    const int *stop;      // the run's; may be NULL
    tachy_source *source; // NULL: nothing but the video is wanted
    double end_s; // of the video
    bool cut;     // by max_frames
};

static int more(void *user, double seconds)
{
    struct again *a = user;
    if (a->stop && *(const volatile int *)a->stop)
        return TACHY_ERR_INTERRUPTED;
    if (a->source && isfinite(seconds))
        tachy_source_read_side(a->source, seconds);
    else if (a->source)
        tachy_source_end_side(a->source, a->end_s, a->cut);
    return TACHY_OK;
}

static int join(struct tachy_resume *r)
{
    const tachy_source *s = r->p->source;
    struct tachy_source_params p = s->params;
    p.url = s->url;
    p.want_side = s->side != NULL;
    p.stop = NULL; // a read that is broken off would look like the end
    struct tachy_log errors = r->log ? *r->log : (struct tachy_log){0};
    errors.max_level = TACHY_LOG_ERR; // the rest was said when the run began
    p.log = &errors;
    const json_t *end = json_object_get(r->job->record, "all_in");
    struct again a = {.stop = r->p->stop,
                      .end_s = json_number_value(json_object_get(end, "end_time")),
                      .cut = json_is_true(json_object_get(end, "cut"))};
    int err = p.want_side ? tachy_source_open(&a.source, &p) : TACHY_OK;
    if (err < 0)
        return err;
    if (a.source)
        tachy_sink_set_side(r->p->sink, tachy_source_side(a.source));
    err = tachy_sink_join(r->p->sink, &(struct tachy_join){more, &a});
    tachy_source_close(&a.source);
    return err;
}

int tachy_resume_finish(struct tachy_resume *r, bool whole)
{
    if (!whole)
        return TACHY_OK; // the part that was begun is given up
    int err = tachy_sink_cut(r->p->sink);
    if (err == TACHY_OK && !tachy_resume_all_in(r)) {
        json_t *end = json_pack("{s:f, s:b}", "end_time", r->p->source->end_s, "cut",
                                (int)tachy_source_was_cut(r->p->source));
        if (!end || json_object_set_new(r->job->record, "all_in", end) < 0)
            return TACHY_ERR_NOMEM;
        err = tachy_record_save(r->job);
    }
    if (err < 0)
        return err;
    r->kept = r->p->sink->frames;
    return join(r);
}

int64_t tachy_resume_kept(const struct tachy_resume *r) { return r ? r->kept : -1; }

void tachy_resume_close(struct tachy_resume **resume)
{
    struct tachy_resume *r = *resume;
    if (!r)
        return;
    *resume = NULL;
    checkpoint_close(&r->states);
    free(r->marks);
    pthread_mutex_destroy(&r->lock);
    free(r);
}
