#include "pipeline/stage_save.h"

#include "base/options.h"
#include "base/settings_json.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct tachy_stage_save {
    char *dir;
    int64_t frames;
    const struct tachy_log *log;
    pthread_mutex_t lock; // guards the following
    json_t *index;        // the object of index.json
    bool *seen;           // by frame and eye
    bool described;       // the index has the video
};

static json_t *settings_json(const tachy_settings *set)
{
    static const char *const of_run[] = {"input.", "output.", "run.", "debug.", "profile.", "general."};
    json_t *o = json_object();
    for (const struct tachy_option *opt = tachy_settings_options(set); opt->path; opt++) {
        bool other = false;
        for (size_t i = 0; i < TACHY_ARRAY_SIZE(of_run); i++)
            other = other || !strncmp(opt->path, of_run[i], strlen(of_run[i]));
        if (other || opt->planned || opt->command_only || !tachy_settings_is_set(set, opt->path))
            continue;
        json_object_set_new(o, opt->path, tachy_setting_json(set, opt));
    }
    return o;
}

static int make_folder(const char *dir, const struct tachy_log *log)
{
    if (mkdir(dir, 0777) < 0 && errno != EEXIST)
        return tachy_fail(log, tachy_err_from_errno(errno), "%s: the folder cannot be made: %s", dir,
                          strerror(errno));
    char *index = tachy_asprintf("%s/" STAGE_INDEX, dir);
    int err = !index ? TACHY_ERR_NOMEM : TACHY_OK;
    if (index && access(index, F_OK) == 0)
        err = tachy_fail(log, TACHY_ERR_EXISTS,
                         "%s: holds saved stages already; name another folder for --save-stage, or "
                         "remove it",
                         dir);
    tachy_free(index);
    return err;
}

struct tachy_stage *tachy_stage_save_of(const tachy_task *task)
{
    for (int i = 0; i < task->nb_stages; i++)
        if (task->stage[i]->ops->tensors)
            return task->stage[i];
    return NULL;
}

int tachy_stage_save_open(struct tachy_stage_save **out, const char *dir, int64_t frames,
                          const tachy_task *task, const tachy_settings *settings,
                          const struct tachy_log *log)
{
    *out = NULL;
    if (!tachy_stage_save_of(task))
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "task %s: its stages cannot be saved",
                          task->name);
    int err = make_folder(dir, log);
    if (err < 0)
        return err;
    struct tachy_stage_save *s = calloc(1, sizeof(*s));
    if (!s)
        return TACHY_ERR_NOMEM;
    pthread_mutex_init(&s->lock, NULL);
    s->frames = frames;
    s->log = log;
    s->dir = tachy_asprintf("%s", dir);
    s->seen = calloc((size_t)frames * TACHY_MAX_EYES, sizeof(*s->seen));
    s->index = json_pack("{s:i, s:s, s:s, s:s, s:o, s:[]}", "version", STAGE_INDEX_VERSION, "tachy",
                         tachy_version(), "task", task->name, "describe",
                         task->describe, "settings",
                         settings_json(settings), "items");
    *out = s;
    if (s->dir && s->seen && s->index)
        return TACHY_OK;
    json_decref(s->index);
    s->index = NULL;
    tachy_stage_save_close(out);
    return TACHY_ERR_NOMEM;
}

// Writes an array and appends its name to `list`. The name: "frame-000003.eye0.in0.npy".
static int put_array(const struct tachy_stage_save *s, json_t *list, const char *name,
                     const struct tachy_npy *a)
{
    char *path = tachy_asprintf("%s/%s", s->dir, name);
    int err = path ? tachy_npy_write(path, a, s->log) : TACHY_ERR_NOMEM;
    json_array_append_new(list, json_string(name));
    tachy_free(path);
    return err;
}

static int put_plane(const struct tachy_stage_save *s, json_t *list, const tachy_frame *f, int plane)
{
    char name[64];
    struct tachy_npy a = tachy_plane_array(f, plane);
    size_t row = a.bytes / (size_t)a.shape[0];
    a.data = malloc(a.bytes);
    if (!a.data)
        return TACHY_ERR_NOMEM;
    for (int64_t y = 0; y < a.shape[0]; y++)
        memcpy((char *)a.data + (size_t)y * row, f->data[plane] + y * f->stride[plane], row);
    snprintf(name, sizeof(name), "frame-%06lld.plane%d.npy", (long long)f->id, plane);
    int err = put_array(s, list, name, &a);
    free(a.data);
    return err;
}

// The frame's planes; one in a GPU's memory is fetched.
static int put_frame(const struct tachy_stage_save *s, json_t *list, tachy_frame *f)
{
    tachy_frame *here;
    int err = tachy_frame_download(&here, f, s->log);
    for (int i = 0; err == TACHY_OK && i < tachy_pix_desc(f->format)->planes; i++)
        err = put_plane(s, list, here, i);
    tachy_frame_unref(&here);
    return err;
}

static int put_tensors(const struct tachy_stage_save *s, json_t *list, const struct tachy_item *item,
                       int eye, const char *kind, const struct tachy_tensor *t, int n)
{
    int err = TACHY_OK;
    for (int i = 0; i < n && err == TACHY_OK; i++) {
        char name[64];
        struct tachy_npy a = tachy_npy_of(&t[i]);
        snprintf(name, sizeof(name), "frame-%06lld.eye%d.%s%d.npy", (long long)item->in->id, eye,
                 kind, i);
        err = put_array(s, list, name, &a);
    }
    return err;
}

static int put_mask(const struct tachy_stage_save *s, json_t *list, const struct tachy_item *item,
                    int eye)
{
    const struct tachy_mask *m = &item->result.mask[eye];
    struct tachy_tensor t = {.dtype = TACHY_U8, .rank = 2, .shape = {m->height, m->width}};
    if (!m->data)
        return TACHY_OK;
    int err = tachy_tensor_alloc(&t);
    for (int y = 0; y < m->height && err == TACHY_OK; y++)
        memcpy((uint8_t *)t.data + (ptrdiff_t)y * m->width, m->data + y * m->stride, (size_t)m->width);
    if (err == TACHY_OK)
        err = put_tensors(s, list, item, eye, "mask", &t, 1);
    tachy_tensor_free(&t);
    return err;
}

static json_t *entry_of(const struct tachy_item *item, int eye, const struct tachy_stage_tensors *t)
{
    const tachy_frame *f = item->in;
    json_t *o = json_pack("{s:I, s:i, s:I, s:I, s:i, s:o}", "frame", (json_int_t)f->id, "eye", eye,
                          "pts", (json_int_t)f->pts, "duration", (json_int_t)f->duration,
                          "discontinuity", f->discontinuity, "color", tachy_color_to_json(f->color));
    if (t->placement)
        json_object_set_new(o, "placement",
                            json_pack("[f, f, f, f]", t->placement->x, t->placement->y,
                                      t->placement->w, t->placement->h));
    return o;
}

// True if this frame and eye shall be saved now, which claims them.
static bool claim(struct tachy_stage_save *s, int64_t id, int eye, const struct tachy_video_info *in)
{
    if (id < 0 || id >= s->frames)
        return false;
    pthread_mutex_lock(&s->lock);
    bool *seen = &s->seen[id * TACHY_MAX_EYES + eye], mine = !*seen;
    *seen = true;
    if (!s->described)
        json_object_set_new(s->index, "input", tachy_video_to_json(in));
    s->described = true;
    pthread_mutex_unlock(&s->lock);
    return mine;
}

int tachy_stage_save_item(struct tachy_stage_save *s, const tachy_task *task, void *const worker[],
                          struct tachy_item *item, int eye, const struct tachy_video_info *input)
{
    if (!claim(s, item->in->id, eye, input))
        return TACHY_OK;
    struct tachy_stage_tensors t = {0};
    struct tachy_stage *st = tachy_stage_save_of(task);
    const struct tachy_piece piece = {item, eye};
    int err = st->ops->tensors(st, tachy_stage_worker(st, worker), &piece, &t);
    json_t *entry = entry_of(item, eye, &t), *planes = json_array(), *in = json_array(),
           *out = json_array(), *mask = json_array();
    if (err == TACHY_OK && eye == 0)
        err = put_frame(s, planes, item->in);
    if (err == TACHY_OK)
        err = put_tensors(s, in, item, eye, "in", t.in, t.n_in);
    if (err == TACHY_OK)
        err = put_tensors(s, out, item, eye, "out", t.out, t.n_out);
    if (err == TACHY_OK)
        err = put_mask(s, mask, item, eye);
    json_object_set_new(entry, "planes", planes); // of eye 0; the other's are the same
    json_object_set_new(entry, "inputs", in);
    json_object_set_new(entry, "outputs", out);
    json_object_set_new(entry, "mask", mask);
    pthread_mutex_lock(&s->lock);
    json_array_append_new(json_object_get(s->index, "items"), entry);
    pthread_mutex_unlock(&s->lock);
    return err;
}

static int by_frame(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    json_int_t fx = json_integer_value(json_object_get(x, "frame")) * TACHY_MAX_EYES +
                    json_integer_value(json_object_get(x, "eye"));
    json_int_t fy = json_integer_value(json_object_get(y, "frame")) * TACHY_MAX_EYES +
                    json_integer_value(json_object_get(y, "eye"));
    return (fx > fy) - (fx < fy);
}

// Workers finish in any order.
static void sort_items(json_t *index)
{
    json_t *items = json_object_get(index, "items"), *sorted = json_array();
    size_t n = json_array_size(items);
    json_t **list = calloc(n + 1, sizeof(json_t *));
    for (size_t i = 0; list && i < n; i++)
        list[i] = json_array_get(items, i);
    if (list)
        qsort(list, n, sizeof(json_t *), by_frame);
    for (size_t i = 0; list && i < n; i++)
        json_array_append(sorted, list[i]);
    if (list)
        json_object_set(index, "items", sorted);
    json_decref(sorted);
    free(list);
}

static int write_index(struct tachy_stage_save *s)
{
    sort_items(s->index);
    char *path = tachy_asprintf("%s/" STAGE_INDEX, s->dir);
    char *text = json_dumps(s->index, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    int err = path && text ? tachy_write_file(path, text, strlen(text), s->log) : TACHY_ERR_NOMEM;
    free(text);
    tachy_free(path);
    return err;
}

int tachy_stage_save_close(struct tachy_stage_save **ps)
{
    struct tachy_stage_save *s = *ps;
    *ps = NULL;
    if (!s)
        return TACHY_OK;
    int err = s->index && s->described ? write_index(s) : TACHY_OK;
    json_decref(s->index);
    free(s->seen);
    tachy_free(s->dir);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return err;
}
