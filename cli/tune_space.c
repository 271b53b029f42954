#include "tune.h"

#include <stdlib.h>
#include <string.h>

static void add_value(struct tune_row *r, const char *value, size_t n)
{
    char text[TUNE_TEXT];
    if (r->n == TUNE_VALUES || !n || n >= sizeof(text))
        return;
    snprintf(text, sizeof(text), "%.*s", (int)n, value);
    if (!r->option->def || strcmp(r->option->def, text) != 0)
        strcpy(r->value[r->n++], text);
}

// Cores that trials may run on.
static long count_cores(void)
{
    json_t *o = environment_json();
    long n = (long)int_of(json_object_get(o, "cpu"), "cores");
    json_decref(o);
    return n > 0 ? n : 1;
}

// 1, 2, 4 to twice the number of cores, and that number itself.
static void add_cores(struct tune_row *r)
{
    char text[24];
    long cores = count_cores();
    for (long k = 1; k <= 2 * cores; k *= 2) {
        if (k > cores && k / 2 < cores)
            add_value(r, text, (size_t)snprintf(text, sizeof(text), "%ld", cores));
        add_value(r, text, (size_t)snprintf(text, sizeof(text), "%ld", k));
    }
}

// A range that the command gives, as in "16-32", bounds what is tried; its upper end is the command's own value.
static bool gives_range(const struct cli *c, const struct tachy_option *o, int64_t *low, int64_t *high)
{
    const char *text = o->range && tachy_settings_is_set(c->settings, o->path) ? tachy_settings_str(c->settings, o->path) : NULL;
    const char *dash = text && *text ? strchr(text + 1, '-') : NULL;
    *low = dash ? strtoll(text, NULL, 10) : 0;
    *high = dash ? strtoll(dash + 1, NULL, 10) : 0;
    return dash;
}

static bool given(const struct cli *c, const struct tachy_option *o)
{
    int64_t low, high;
    return tachy_settings_is_set(c->settings, o->path) && !gives_range(c, o, &low, &high);
}

// Leaves out what does not lie in the command's range.
static void bound(struct tune_row *r, const struct cli *c)
{
    int64_t low, high;
    int n = 1;
    if (!gives_range(c, r->option, &low, &high))
        return;
    for (int i = 1; i < r->n; i++) {
        int64_t v = strtoll(r->value[i], NULL, 10);
        if (v >= low && v < high)
            memmove(r->value[n++], r->value[i], sizeof(r->value[i]));
    }
    r->n = n;
}

static int add_row(struct tune *t, const struct tachy_option *o, const char *values, size_t n)
{
    if (t->n_rows == TUNE_ROWS) {
        message_error("--only: %d settings are tuned at most", TUNE_ROWS);
        return TACHY_ERR_LIMIT;
    }
    struct tune_row *r = &t->row[t->n_rows++];
    *r = (struct tune_row){.option = o, .part = tune_part_of(o->path), .n = 1, .changes = !o->tune || o->tune_changes};
    if (!values && !strcmp(o->tune, "cores"))
        add_cores(r);
    const char *at = values ? values : o->tune, *end = at + (values ? n : strlen(at));
    while (at < end && (values || strcmp(o->tune, "cores") != 0)) {
        size_t len = strcspn(at, "|,");
        add_value(r, at, len);
        at += len + 1;
    }
    bound(r, t->c);
    return TACHY_OK;
}

// One KEY[=V|V...] of --only, n characters.
static int add_named(struct tune *t, const char *text, size_t n)
{
    char name[TUNE_TEXT];
    const char *near = NULL, *eq = memchr(text, '=', n);
    snprintf(name, sizeof(name), "%.*s", (int)(eq ? (size_t)(eq - text) : n), text);
    const struct tachy_option *o = tachy_option_lookup(name, &near);
    if (!o)
        message_error("--only %s: there is no such setting%s%s", name, near ? "; did you mean " : "", near ? near : "");
    else if (!(o->verbs & t->c->inner->options) || o->type == TACHY_OPT_LIST)
        message_error("--only %s: tachy %s cannot tune it", name, t->c->inner->name);
    else if (!eq && !o->tune)
        message_error("--only %s: give the values to try: --only %s=A|B", name, name);
    else if (given(t->c, o))
        message_error("--only %s: the command gives it a value already; leave one of them out", name);
    else if (!t->guard && (!o->tune || o->tune_changes))
        message_error("--only %s: it may change results, and those of tachy %s cannot be judged yet", name, t->c->inner->name);
    else
        return add_row(t, o, eq ? eq + 1 : NULL, eq ? (size_t)(text + n - eq - 1) : 0);
    return TACHY_ERR_INVAL;
}

// Without --only. The models of the table are those of segment, and a GPU's settings need one that the command may use.
static bool offered(const struct tune *t, const struct tachy_option *o)
{
    const char *device = tachy_settings_str(t->c->settings, "gpu.device");
    if (!strncmp(o->path, "gpu.", 4) && (!strcmp(device, "cpu") || !tachy_gpu_runs(t->c->settings, NULL, 0)))
        return false;
    bool segment = !strcmp(t->c->inner->name, "segment");
    return segment || (strcmp(o->path, "model.name") != 0 && (t->guard || !o->tune_changes));
}

int tune_space(struct tune *t)
{
    const char *const *only;
    size_t n = tachy_settings_list(t->c->settings, "tune.only", &only);
    int err = TACHY_OK;
    for (size_t i = 0; i < n; i++)
        for (const char *at = only[i]; err == TACHY_OK && *at;) {
            size_t len = strcspn(at, ",");
            err = add_named(t, at, len);
            at += len + (at[len] == ',');
        }
    for (const struct tachy_option *o = tachy_options(); !n && o->path && err == TACHY_OK; o++)
        if (o->tune && (o->verbs & t->c->inner->options) && !given(t->c, o) && offered(t, o))
            err = add_row(t, o, NULL, 0);
    if (err == TACHY_OK && !t->n_rows) {
        message_error("nothing is left to tune: the command gives each of the settings");
        err = TACHY_ERR_INVAL;
    }
    return err;
}

void tune_words(const struct tune *t, const int *at, char *buf, size_t size)
{
    size_t n = 0;
    snprintf(buf, size, "as given");
    for (int i = 0; i < t->n_rows && n < size; i++)
        if (at[i])
            n += (size_t)snprintf(buf + n, size - n, "%s%s %s", n ? ", " : "", t->row[i].option->path, t->row[i].value[at[i]]);
}
