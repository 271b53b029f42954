#include "model/family.h"
#include "model/card_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const roles[] = {"appearance", "motion", "stitching", "warping", "generator", "lips", "sound", "expression", NULL};

const char *tachy_role_name(enum tachy_role r) { return roles[r]; }

static double number(struct card_reader *r, json_t *o, const char *key, double low, double high, double def)
{
    json_t *v = json_object_get(o, key);
    double d = v ? card_number(r, key, v) : def;
    if (d < low || d > high)
        card_bad(r, key, "must be a number from %g to %g", low, high);
    return d;
}

static void read_crop(struct card_reader *r, json_t *root, const char *section, struct tachy_family_crop *crop, double grow, double up)
{
    static const char *const known[] = {"grow", "up"};
    json_t *o = json_object_get(root, section);
    char name[16];
    snprintf(name, sizeof(name), "%s.", section);
    r->section = name;
    if (o && !json_is_object(o))
        card_bad(r, "", "must be an object");
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    crop->grow = number(r, o, "grow", 1, 8, grow);
    crop->up = number(r, o, "up", -1, 1, up);
    r->section = "";
}

static void read_animate(struct card_reader *r, json_t *root, struct tachy_family *f)
{
    read_crop(r, root, "portrait", &f->portrait, 2.3, 0.125);
    read_crop(r, root, "driver", &f->driver, 2.2, 0.1);
    f->feather = number(r, root, "feather", 0, 0.5, 0.1);
}

static void read_avsync(struct card_reader *r, json_t *root, struct tachy_family *f)
{
    static const char *const channels[] = {"bgr", "rgb", NULL};
    f->rgb = card_choice(r, root, "channels", channels, 0) == 1;
    f->white = (float)number(r, root, "white", 1e-3, 1e6, 255);
}

// An array of 1 to `most` elements; NULL: it is none.
static json_t *list(struct card_reader *r, json_t *root, const char *key, size_t most, const char *of)
{
    json_t *v = json_object_get(root, key);
    size_t n = json_array_size(v);
    if (!n || n > most)
        card_bad(r, key, "must be an array of 1 to %zu %s", most, of);
    return r->err ? NULL : v;
}

static void read_track(struct card_reader *r, json_t *root, struct tachy_family *f)
{
    size_t i;
    json_t *e, *points = list(r, root, "points", TACHY_FAMILY_POINTS, "numbers of points");
    json_array_foreach(points, i, e) {
        json_int_t n = json_integer_value(e);
        if (!json_is_integer(e) || n < 0 || n >= TACHY_FAMILY_POINTS)
            card_bad(r, "points", "must be whole numbers from 0 to %d", TACHY_FAMILY_POINTS - 1);
        f->point[f->nb_points++] = (int)TACHY_CLAMP(n, 0, TACHY_FAMILY_POINTS - 1);
    }
    json_t *names = list(r, root, "names", TACHY_FAMILY_NAMES, "names");
    json_array_foreach(names, i, e) {
        if (!json_string_length(e) || json_string_length(e) > 64)
            card_bad(r, "names", "must be texts of 1 to 64 bytes");
        f->names[f->nb_names] = json_is_string(e) ? strdup(json_string_value(e)) : NULL;
        if (!r->err && !f->names[f->nb_names])
            r->err = TACHY_ERR_NOMEM;
        f->nb_names++;
    }
}

// A task's cards have the roles from first to end, and these keys.
static const struct kind {
    const char *task;
    enum tachy_role first, end;
    unsigned optional; // roles, bits 1 << role
    void (*read)(struct card_reader *r, json_t *root, struct tachy_family *f);
    const char *known[12];
    size_t nb_known;
} kinds[] = {
    {"animate", TACHY_ROLE_APPEARANCE, TACHY_ROLE_LIPS, 1 << TACHY_ROLE_STITCHING | 1 << TACHY_ROLE_WARPING, read_animate,
     {"version", "name", "title", "task", "network", "license", "homepage", "notes", "networks", "portrait", "driver", "feather"}, 12},
    {"avsync", TACHY_ROLE_LIPS, TACHY_ROLE_EXPRESSION, 0, read_avsync,
     {"version", "name", "title", "task", "network", "license", "homepage", "notes", "networks", "channels", "white"}, 11},
    {"track", TACHY_ROLE_EXPRESSION, TACHY_ROLES, 0, read_track,
     {"version", "name", "title", "task", "network", "license", "homepage", "notes", "networks", "points", "names"}, 11},
};

static int find_files(struct card_reader *r, json_t *root, const struct kind *k, struct tachy_family *f)
{
    json_t *o = card_object(r, root, "networks");
    const char *slash = strrchr(r->origin, '/');
    r->section = "networks.";
    card_only(r, o, roles + k->first, k->end - k->first);
    for (enum tachy_role i = k->first; i < k->end && !r->err; i++) {
        const char *name = card_text(r, o, roles[i], k->optional >> i & 1 ? "" : NULL);
        if (r->err || !*name)
            continue;
        f->file[i] = *name == '/' || !slash ? strdup(name) : tachy_asprintf("%.*s/%s", (int)(slash - r->origin), r->origin, name);
        if (!f->file[i])
            return TACHY_ERR_NOMEM;
        if (access(f->file[i], R_OK) != 0)
            return tachy_fail(r->log, tachy_err_from_errno(errno), "%s: cannot be read: %s; the card %s names it as `networks.%s`",
                              f->file[i], strerror(errno), r->origin, roles[i]);
    }
    r->section = "";
    return r->err;
}

static int read_root(struct card_reader *r, json_t *root, const struct kind *k, struct tachy_family *f)
{
    static const char *const texts[] = {"title", "network", "license", "homepage", "notes"};
    const char *const tasks[] = {k->task, NULL};
    card_only(r, root, k->known, k->nb_known);
    card_whole(r, root, "version", 1, 1, 1);
    card_choice(r, root, "task", tasks, -1);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(texts); i++)
        card_text(r, root, texts[i], "");
    const char *name = card_plain_name(r, root, "name", true);
    if (!r->err && !(f->name = strdup(name)))
        return TACHY_ERR_NOMEM;
    int err = r->err ? r->err : find_files(r, root, k, f);
    k->read(r, root, f);
    return err < 0 ? err : r->err;
}

int tachy_family_read(struct tachy_family *f, const char *path, const char *task, const struct tachy_log *log)
{
    const struct kind *k = kinds;
    char *data;
    size_t size;
    json_error_t e;
    *f = (struct tachy_family){0};
    while (strcmp(task, k->task))
        k++;
    int err = tachy_read_file(path, 1 << 20, &data, &size, log);
    if (err < 0)
        return err;
    json_t *root = json_loadb(data, size, JSON_REJECT_DUPLICATES, &e);
    struct card_reader r = {.origin = path, .section = "", .log = log, .root = root};
    tachy_free(data);
    err = json_is_object(root) ? read_root(&r, root, k, f)
                               : tachy_fail(log, TACHY_ERR_FORMAT, "%s: is no JSON object: line %d: %s", path, e.line, e.text);
    json_decref(root);
    return err;
}

void tachy_family_free(struct tachy_family *f)
{
    for (int i = 0; i < TACHY_ROLES; i++)
        free(f->file[i]);
    for (int i = 0; i < f->nb_names; i++)
        free(f->names[i]);
    free(f->name);
    *f = (struct tachy_family){0};
}
