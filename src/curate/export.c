#include "curate/export.h"

#include "base/numeric.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const struct curate_format *const formats[] = {
    &curate_csv, &curate_parquet_files, &curate_page, &curate_coco, &curate_yolo, &curate_folders, &curate_captions,
    &curate_webdataset,
#if HAVE_SQLITE
    &curate_sqlite,
#endif
};
enum { FORMATS = TACHY_ARRAY_SIZE(formats) };

json_t *curate_regions(json_t *frame, const char *task) { return json_object_get(json_object_get(frame, task), "regions"); }

void curate_box(const json_t *region, double box[4])
{
    double v[4], turn = json_number_value(json_object_get(region, "angle")) * acos(-1) / 180;
    for (size_t i = 0; i < 4; i++)
        v[i] = json_number_value(json_array_get(json_object_get(region, "box"), i));
    box[2] = fabs(v[2] * cos(turn)) + fabs(v[3] * sin(turn));
    box[3] = fabs(v[2] * sin(turn)) + fabs(v[3] * cos(turn));
    box[0] = v[0] - box[2] / 2;
    box[1] = v[1] - box[3] / 2;
}

const json_t *curate_best(const json_t *regions)
{
    const json_t *best = NULL;
    json_t *r;
    size_t i;
    json_array_foreach(regions, i, r)
        if (!best || json_number_value(json_object_get(r, "score")) > json_number_value(json_object_get(best, "score")))
            best = r;
    return best;
}

static int find(const char *name, size_t n)
{
    for (int i = 0; i < FORMATS; i++)
        if (strlen(formats[i]->name) == n && !memcmp(formats[i]->name, name, n))
            return i;
    return -1;
}

// Bits of formats[] that are asked for: "csv,coco", or a list.
static int asked(const tachy_settings *s, unsigned *bits, const struct tachy_log *log)
{
    const char *const *given;
    size_t n = tachy_settings_list(s, "curate.to", &given);
    *bits = 0;
    for (size_t i = 0; i < n; i++)
        for (const char *p = given[i]; *p; p += *p == ',') {
            size_t size = strcspn(p, ",");
            int k = find(p, size);
            char all[160] = "";
            for (int f = 0; f < FORMATS; f++)
                snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", f ? ", " : "", formats[f]->name);
            if (k < 0)
                return tachy_fail(log, TACHY_ERR_INVAL, "--to %.*s: is not known; there are: %s", (int)TACHY_MIN(size, 40), p, all);
            *bits |= 1u << k;
            p += size;
        }
    return TACHY_OK;
}

int curate_export_check(const tachy_settings *s, bool *pictures, const struct tachy_log *log)
{
    unsigned bits;
    int err = asked(s, &bits, log);
    for (int i = 0; i < FORMATS; i++)
        *pictures |= bits >> i & 1 && formats[i]->pictures;
    return err;
}

// Calls `each` for every kept frame.
static int walk(const struct curate_export *x, int (*each)(void *user, json_t *frame), void *user)
{
    char *path = tachy_asprintf("%s/results.jsonl", x->dir), *line = NULL;
    size_t room = 0, labels[CURATE_TASKS_MAX] = {0};
    ssize_t n = 0;
    FILE *f = path ? fopen(path, "r") : NULL;
    int err = f ? TACHY_OK : tachy_fail(x->log, TACHY_ERR_IO, "%s/results.jsonl: cannot be read", x->dir);
    while (err == TACHY_OK && (n = getline(&line, &room, f)) > 0) {
        json_t *frame = json_loads(line, 0, NULL);
        curate_notes_label(x->c, frame, labels);
        if (!frame)
            err = tachy_fail(x->log, TACHY_ERR_FORMAT, "%s: a line is no JSON", path);
        else if (json_is_true(json_object_get(frame, "keep")))
            err = each(user, frame);
        json_decref(frame);
    }
    if (f)
        fclose(f);
    free(line);
    free(path);
    return err;
}

static int note_columns(void *user, json_t *frame)
{
    const struct curate_export *x = user;
    const char *task, *name;
    json_t *of_task, *value;
    json_object_foreach(frame, task, of_task) {
        if (!json_is_object(of_task))
            continue;
        json_object_set_new(x->tasks, task, json_true());
        json_object_foreach(json_object_get(of_task, "values"), name, value) {
            char *column = tachy_asprintf("%s.%s", task, name);
            if (column && !json_object_get(x->columns, column))
                json_object_set_new(x->columns, column, json_true());
            free(column);
        }
    }
    return TACHY_OK;
}

struct all {
    void *priv[FORMATS];
    unsigned open;
};

static int each_format(void *user, json_t *frame)
{
    struct all *a = user;
    int err = TACHY_OK;
    for (int i = 0; i < FORMATS && err == TACHY_OK; i++)
        if (a->open >> i & 1)
            err = formats[i]->frame(a->priv[i], frame);
    return err;
}

int curate_export(struct curate *c)
{
    struct curate_export x = {.c = c, .dir = curate_ledger_dir(c), .log = c->log, .columns = json_object(), .tasks = json_object()};
    struct all a = {.open = 0};
    unsigned bits;
    int err = asked(c->set, &bits, c->log);
    locale_t before = tachy_numeric_enter();
    if (err == TACHY_OK && bits)
        err = walk(&x, note_columns, &x);
    for (int i = 0; i < FORMATS && err == TACHY_OK; i++)
        if (bits >> i & 1 && (err = formats[i]->open(&x, &a.priv[i])) == TACHY_OK)
            a.open |= 1u << i;
    if (err == TACHY_OK && bits)
        err = walk(&x, each_format, &a);
    for (int i = 0; i < FORMATS; i++) {
        int closed = a.open >> i & 1 ? formats[i]->close(a.priv[i], err == TACHY_OK) : TACHY_OK;
        err = err < 0 ? err : closed;
    }
    tachy_numeric_leave(before);
    json_decref(x.columns);
    json_decref(x.tasks);
    return err;
}
