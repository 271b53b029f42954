#include "job/replay.h"

#include "base/options.h"
#include "base/settings_priv.h"

#include <stdlib.h>
#include <unistd.h>

// The index of a folder of saved stages, and its frames.

static int bad(const struct replay *r, const char *what)
{
    return tachy_fail(r->p->log, TACHY_ERR_FORMAT,
                      "%s/" STAGE_INDEX ": %s; save the stages again with --save-stage", r->p->dir,
                      what);
}

static int load_index(struct replay *r)
{
    json_error_t e;
    char *path = tachy_asprintf("%s/" STAGE_INDEX, r->p->dir), *text = NULL;
    size_t size;
    if (path && access(path, F_OK) != 0) {
        tachy_free(path);
        return tachy_fail(r->p->log, TACHY_ERR_NOT_FOUND, "%s: is no folder of saved stages: --save-stage DIR writes " STAGE_INDEX
                          " into one", r->p->dir);
    }
    int err = path ? tachy_read_file(path, (size_t)64 << 20, &text, &size, r->p->log)
                   : TACHY_ERR_NOMEM;
    tachy_free(path);
    if (err < 0)
        return err;
    r->index = json_loadb(text, size, 0, &e);
    tachy_free(text);
    if (!json_is_object(r->index))
        return bad(r, "is no JSON object");
    if (json_integer_value(json_object_get(r->index, "version")) != STAGE_INDEX_VERSION)
        return bad(r, "is of another version of this program");
    if (!tachy_video_from_json(&r->input, json_object_get(r->index, "input")))
        return bad(r, "does not describe its video");
    return json_array_size(json_object_get(r->index, "items")) ? TACHY_OK : bad(r, "has no items");
}

// Names are of files in the folder itself.
static int read_array(const struct replay *r, const json_t *name, struct tachy_npy *a)
{
    const char *text = json_string_value(name);
    memset(a, 0, sizeof(*a));
    if (!text || !*text || strchr(text, '/'))
        return bad(r, "does not name a file where one should be");
    char *path = tachy_asprintf("%s/%s", r->p->dir, text);
    int err = path ? tachy_npy_read(a, path, r->p->log) : TACHY_ERR_NOMEM;
    tachy_free(path);
    return err;
}

int replay_array(const struct replay *r, const struct replay_item *i, const char *list, size_t n,
                 struct tachy_npy *a)
{
    return read_array(r, json_array_get(json_object_get(i->entry, list), n), a);
}

static int read_plane(const struct replay *r, const json_t *name, tachy_frame *f, int plane)
{
    struct tachy_npy a, want = tachy_plane_array(f, plane);
    int err = read_array(r, name, &a);
    if (err < 0)
        return err;
    bool fits = a.kind == want.kind && a.size == want.size && a.rank == want.rank &&
                a.bytes == want.bytes && !memcmp(a.shape, want.shape, sizeof(a.shape[0]) * 2);
    size_t row = want.bytes / (size_t)want.shape[0];
    uint8_t *to = tachy_frame_writable(f, plane);
    for (int64_t y = 0; y < want.shape[0] && fits; y++)
        memcpy(to + y * f->stride[plane], (char *)a.data + (size_t)y * row, row);
    tachy_npy_free(&a);
    return fits ? TACHY_OK
                : tachy_fail(r->p->log, TACHY_ERR_MISMATCH,
                             "%s/%s: is not a plane of a frame of %dx%d %s", r->p->dir,
                             json_string_value(name), f->width, f->height,
                             tachy_pix_desc(f->format)->name);
}

static int64_t int_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static int load_frame(struct replay *r, struct replay_item *i)
{
    struct tachy_frame_params fp = {
        .format = r->input.format,
        .width = r->input.width,
        .height = r->input.height,
        .color = tachy_color_from_json(json_object_get(i->entry, "color")),
        .pts = int_of(i->entry, "pts"),
        .duration = int_of(i->entry, "duration"),
    };
    int err = tachy_frame_new(&i->frame, &fp);
    if (err < 0)
        return err;
    i->frame->id = int_of(i->entry, "frame");
    i->frame->discontinuity = int_of(i->entry, "discontinuity") != 0;
    // The engine does not look at the picture.
    int planes = r->p->stage == TACHY_REPLAY_ENGINE ? 0 : tachy_pix_desc(fp.format)->planes;
    for (int k = 0; k < planes && err == TACHY_OK; k++)
        err = read_plane(r, json_array_get(i->planes, (size_t)k), i->frame, k);
    return err;
}

static int load_given(const struct replay *r, struct replay_item *i)
{
    static const char *const lists[TACHY_REPLAY_COUNT] = {NULL, "inputs", "outputs"};
    const char *list = lists[r->p->stage];
    size_t n = list ? json_array_size(json_object_get(i->entry, list)) : 0;
    int err = n <= TACHY_MAX_IO ? TACHY_OK : bad(r, "an item has too many arrays");
    for (size_t k = 0; k < n && err == TACHY_OK; k++, i->n_given++)
        err = replay_array(r, i, list, k, &i->given[k]);
    return err;
}

static int load_item(struct replay *r, struct replay_item *i, const json_t *entry)
{
    const json_t *pl = json_object_get(entry, "placement");
    double v[4];
    i->entry = entry;
    i->eye = (int)TACHY_CLAMP(int_of(entry, "eye"), 0, TACHY_MAX_EYES - 1);
    for (size_t k = 0; k < 4; k++)
        v[k] = json_number_value(json_array_get(pl, k));
    i->placement = (struct tachy_placement){v[0], v[1], v[2], v[3]};
    i->planes = json_object_get(entry, "planes");
    // The other eye's frame stands at the first.
    if (!json_array_size(i->planes) && i > r->items)
        i->planes = i[-1].planes;
    int err = load_frame(r, i);
    return err < 0 ? err : load_given(r, i);
}

int replay_load(struct replay *r)
{
    int err = load_index(r);
    if (err < 0)
        return err;
    const json_t *items = json_object_get(r->index, "items");
    r->nb_items = (int64_t)json_array_size(items);
    r->items = calloc((size_t)r->nb_items, sizeof(*r->items));
    if (!r->items)
        return TACHY_ERR_NOMEM;
    for (int64_t i = 0; i < r->nb_items && err == TACHY_OK; i++)
        err = load_item(r, &r->items[i], json_array_get(items, (size_t)i));
    return err;
}

void replay_unload(struct replay *r)
{
    for (int64_t i = 0; r->items && i < r->nb_items; i++) {
        tachy_frame_unref(&r->items[i].frame);
        for (int k = 0; k < TACHY_MAX_IO; k++)
            tachy_npy_free(&r->items[i].given[k]);
    }
    free(r->items);
    tachy_settings_free(&r->settings);
    json_decref(r->index);
}

static int set_saved(struct replay *r, const char *path, const json_t *value)
{
    char *origin = tachy_asprintf("%s/" STAGE_INDEX, r->p->dir);
    int err = origin ? TACHY_OK : TACHY_ERR_NOMEM;
    if (json_is_string(value) && err == TACHY_OK)
        err = tachy_settings_set(r->settings, path, json_string_value(value), origin);
    for (size_t i = 0; i < json_array_size(value) && err == TACHY_OK; i++) {
        const char *text = json_string_value(json_array_get(value, i));
        err = text ? tachy_settings_set(r->settings, path, text, origin) : TACHY_ERR_FORMAT;
    }
    tachy_free(origin);
    return err;
}

int replay_settings(struct replay *r)
{
    const json_t *saved = json_object_get(r->index, "settings"), *value;
    const tachy_settings *given = r->p->settings;
    int err = given ? tachy_settings_copy(&r->settings, given, r->p->log) : tachy_settings_new(&r->settings, r->p->log);
    for (const struct tachy_option *o = tachy_options(); o->path && err == TACHY_OK; o++) {
        if (!strncmp(o->path, "debug.", 6)) // nothing is saved again
            err = tachy_settings_reset(r->settings, (size_t)(o - tachy_options()));
        else if (!o->command_only && (value = json_object_get(saved, o->path)) && !tachy_settings_is_set(r->settings, o->path))
            err = set_saved(r, o->path, value);
    }
    // A step is run on its own on the CPU, wherever it was saved.
    return err < 0 ? err : tachy_settings_set(r->settings, "gpu.device", "cpu", "replay");
}
