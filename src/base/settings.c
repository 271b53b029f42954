#include "base/options.h"
#include "base/base.h"
#include "base/parse.h"
#include "base/settings_priv.h"

#include <stdio.h>
#include <stdlib.h>

enum { TEXT_MAX = 65536, ITEMS_MAX = 65536, SHOWN_MAX = 80 };

void tachy_value_clear(struct tachy_value *v)
{
    for (size_t i = 0; i < v->count; i++)
        free(v->items[i]);
    free(v->items);
    free(v->text);
    free(v->origin);
    *v = (struct tachy_value){0};
}

// "a, b or c" of "a|b|c".
static void list_values(const char *values, char *out, size_t size)
{
    size_t n = 0;
    for (const char *p = values; *p && n + 6 < size; p++) {
        if (*p != '|') {
            out[n++] = *p;
            continue;
        }
        const char *sep = strchr(p + 1, '|') ? ", " : " or ";
        n += (size_t)snprintf(out + n, size - n, "%s", sep);
    }
    out[n] = '\0';
}

// "a whole number from 1 to 256".
static void describe_range(const struct tachy_option *o, const char *what, char *out, size_t size)
{
    char or_range[80];
    snprintf(or_range, sizeof(or_range), "%s%s%s", o->range ? ", or a range of them (16-32)" : "", o->type == TACHY_OPT_INT && o->values ? ", or " : "",
             o->type == TACHY_OPT_INT && o->values ? o->values : "");
    if (o->min == 0 && o->max == 0)
        snprintf(out, size, "%s", what);
    else if (o->max >= 1e9)
        snprintf(out, size, "%s of at least %.10g%s", what, o->min, or_range);
    else
        snprintf(out, size, "%s from %.10g to %.10g%s", what, o->min, o->max, or_range);
}

// The type that the row expects, as a noun for an error message.
static void describe_type(const struct tachy_option *o, char *out, size_t size)
{
    char values[256];
    switch (o->type) {
    case TACHY_OPT_BOOL:
        snprintf(out, size, "yes or no");
        break;
    case TACHY_OPT_INT:
        describe_range(o, o->arg && !strcmp(o->arg, "MIB") ? "a whole number of MiB" : "a whole number", out, size);
        break;
    case TACHY_OPT_FLOAT:
        describe_range(o, "a number", out, size);
        break;
    case TACHY_OPT_TIME:
        snprintf(out, size, "a time (seconds, or [HH:]MM:SS[.m...])");
        break;
    case TACHY_OPT_RATE:
        snprintf(out, size, "a frame rate (25, 30000/1001)");
        break;
    case TACHY_OPT_COLOR:
        snprintf(out, size, "a colour (a CSS name, #RRGGBB or #RRGGBBAA)");
        break;
    case TACHY_OPT_SIZE:
        snprintf(out, size, "a size (256, 256x144; each side from 1 to 16384)");
        break;
    case TACHY_OPT_ENUM:
        list_values(o->values, values, sizeof(values));
        snprintf(out, size, "%s", values);
        break;
    default:
        snprintf(out, size, "a text");
    }
}

static bool in_range(const struct tachy_option *o, double v)
{
    return (o->min == 0 && o->max == 0) || (v >= o->min && v <= o->max);
}

// A whole number, or of a range its upper end; a word that the row has means 0.
static bool parse_int(const struct tachy_option *o, const char *text, int64_t *out)
{
    char low[24];
    int64_t from;
    const char *dash = o->range && *text ? strchr(text + 1, '-') : NULL;
    if (o->values && tachy_word_in(o->values, text)) {
        *out = 0;
        return true;
    }
    if (!dash)
        return tachy_parse_int(text, out) && in_range(o, (double)*out);
    snprintf(low, sizeof(low), "%.*s", (int)(dash - text), text);
    return tachy_parse_int(low, &from) && tachy_parse_int(dash + 1, out) && from <= *out &&
           in_range(o, (double)from) && in_range(o, (double)*out);
}

// Sets the typed fields of *v; false if the text is not of the row's type and range.
static bool interpret(const struct tachy_option *o, const char *text, struct tachy_value *v)
{
    switch (o->type) {
    case TACHY_OPT_BOOL:
        if (!tachy_parse_bool(text, &v->on))
            return false;
        v->integer = v->on;
        v->number = v->on;
        return true;
    case TACHY_OPT_INT:
        if (!parse_int(o, text, &v->integer))
            return false;
        v->number = (double)v->integer;
        return true;
    case TACHY_OPT_FLOAT:
        return tachy_parse_float(text, &v->number) && in_range(o, v->number);
    case TACHY_OPT_TIME:
        return tachy_parse_time(text, &v->number) && in_range(o, v->number);
    case TACHY_OPT_RATE:
        return tachy_parse_rate(text, &v->rate);
    case TACHY_OPT_COLOR:
        return tachy_parse_color(text, &v->color);
    case TACHY_OPT_SIZE:
        return tachy_parse_size(text, &v->width, &v->height);
    case TACHY_OPT_ENUM:
        v->number = tachy_word_at(o->values, text);
        return v->number >= 0;
    default:
        return true;
    }
}

// The likely intended value: a word of the list with a typo, a number with a decimal comma. NULL: none. Free it.
static char *meant_value(const struct tachy_option *o, const char *text)
{
    struct tachy_value v = {0};
    char words[320], *names[32], *more = NULL;
    size_t n = 0;
    if (o->type == TACHY_OPT_ENUM && strlen(o->values) < sizeof(words)) {
        strcpy(words, o->values);
        for (char *w = strtok_r(words, "|", &more); w && n < TACHY_ARRAY_SIZE(names); w = strtok_r(NULL, "|", &more))
            names[n++] = w;
        const char *near = tachy_nearest(text, (const char *const *)names, n);
        return near ? strdup(near) : NULL;
    }
    char *point = o->type == TACHY_OPT_FLOAT ? strdup(text) : NULL, *comma = point ? strchr(point, ',') : NULL;
    if (comma)
        *comma = '.';
    if (comma && interpret(o, point, &v))
        return point;
    free(point);
    return NULL;
}

static char *explain(const struct tachy_option *o, const char *text)
{
    char wanted[320];
    if (!*text)
        return tachy_asprintf("needs a value that is not empty");
    if (strlen(text) > TEXT_MAX)
        return tachy_asprintf("has a value of more than %d bytes", TEXT_MAX);
    describe_type(o, wanted, sizeof(wanted));
    bool cut = strlen(text) > SHOWN_MAX;
    char *meant = meant_value(o, text);
    char *why = tachy_asprintf("\"%.*s%s\" is not %s%s%s%s", SHOWN_MAX, text, cut ? "..." : "", wanted,
                               meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
    free(meant);
    return why;
}

static int add_item(struct tachy_value *v, const char *text)
{
    char *copy = strdup(text);
    char **items = copy ? realloc(v->items, (v->count + 2) * sizeof(*items)) : NULL;
    if (!items) {
        free(copy);
        return TACHY_ERR_NOMEM;
    }
    v->items = items;
    items[v->count++] = copy;
    items[v->count] = NULL;
    v->present = true;
    return TACHY_OK;
}

static int parse(const struct tachy_option *o, const char *text, struct tachy_value *v, char **why)
{
    struct tachy_value typed = {0};
    *why = NULL;
    if (!*text || strlen(text) > TEXT_MAX || !interpret(o, text, &typed)) {
        *why = explain(o, text);
        return TACHY_ERR_INVAL;
    }
    if (o->type == TACHY_OPT_LIST) {
        if (v->count >= ITEMS_MAX) {
            *why = tachy_asprintf("is given more than %d times", ITEMS_MAX);
            return TACHY_ERR_LIMIT;
        }
        return add_item(v, text);
    }
    typed.text = strdup(text);
    if (!typed.text)
        return TACHY_ERR_NOMEM;
    typed.present = true;
    typed.rank = v->rank;
    typed.origin = v->origin;
    free(v->text);
    *v = typed;
    return TACHY_OK;
}

int tachy_value_parse_key(const struct tachy_option *o, const struct tachy_key *key,
                          const char *text, struct tachy_value *v, char **why)
{
    bool yes;
    if (!key || !key->yes)
        return parse(o, text, v, why);
    if (!tachy_parse_bool(text, &yes)) {
        *why = tachy_asprintf("\"%.*s\" is not yes or no", SHOWN_MAX, text);
        return TACHY_ERR_INVAL;
    }
    return parse(o, yes ? key->yes : key->no, v, why);
}

bool tachy_value_equal(const struct tachy_option *o, const struct tachy_value *a,
                       const struct tachy_value *b)
{
    if (o->type == TACHY_OPT_BOOL || o->type == TACHY_OPT_INT || o->type == TACHY_OPT_FLOAT ||
        o->type == TACHY_OPT_TIME)
        return a->number == b->number;
    return !strcmp(a->text, b->text);
}

int tachy_settings_reset(tachy_settings *s, size_t row)
{
    const struct tachy_option *o = &s->options[row];
    struct tachy_value v = {0};
    char *why = NULL;
    int err = o->def ? parse(o, o->def, &v, &why) : TACHY_OK;
    if (err < 0)
        tachy_msg(s->log, TACHY_LOG_ERR, "default of %s: %s", o->path, why ? why : "no memory");
    free(why);
    if (err < 0)
        return err;
    tachy_value_clear(&s->values[row]);
    s->values[row] = v;
    return TACHY_OK;
}

static int make(tachy_settings **out, const struct tachy_option *table, const struct tachy_log *log)
{
    size_t n = tachy_option_count(table);
    *out = NULL;
    tachy_settings *s = calloc(1, sizeof(*s) + n * sizeof(s->values[0]));
    if (!s)
        return tachy_fail(log, TACHY_ERR_NOMEM, "no memory for the settings");
    s->log = log;
    s->options = table;
    s->nb_options = n;
    s->warned = calloc(n, sizeof(*s->warned));
    *out = s;
    return s->warned ? TACHY_OK : tachy_fail(log, TACHY_ERR_NOMEM, "no memory for the settings");
}

int tachy_settings_new_of(tachy_settings **out, const struct tachy_option *table, const struct tachy_log *log)
{
    int err = make(out, table, log);
    for (size_t i = 0; err == TACHY_OK && i < (*out)->nb_options; i++)
        err = tachy_settings_reset(*out, i);
    if (err < 0)
        tachy_settings_free(out);
    return err;
}

static int copy_value(struct tachy_value *to, const struct tachy_value *from)
{
    *to = *from;
    to->text = from->text ? strdup(from->text) : NULL;
    to->origin = from->origin ? strdup(from->origin) : NULL;
    to->items = NULL;
    to->count = 0;
    int err = !from->text == !to->text && !from->origin == !to->origin ? TACHY_OK : TACHY_ERR_NOMEM;
    for (size_t i = 0; i < from->count && err == TACHY_OK; i++)
        err = add_item(to, from->items[i]);
    return err;
}

int tachy_settings_copy(tachy_settings **out, const tachy_settings *from, const struct tachy_log *log)
{
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(log, out && from))
        return TACHY_ERR_INVAL;
    int err = make(out, from->options, log);
    for (size_t i = 0; err == TACHY_OK && i < from->nb_options; i++)
        err = copy_value(&(*out)->values[i], &from->values[i]);
    if (err < 0) {
        tachy_settings_free(out);
        return err;
    }
    (*out)->section = from->section;
    (*out)->files = from->files;
    memcpy((*out)->warned, from->warned, from->nb_options * sizeof(*from->warned));
    return TACHY_OK;
}

int tachy_settings_append(tachy_settings *s, const char *path, const char *text)
{
    return add_item(&s->values[tachy_option_index(s->options, path)], text);
}

const struct tachy_option *tachy_settings_options(const tachy_settings *s) { return s->options; }

const struct tachy_log *tachy_settings_log(const tachy_settings *s) { return s->log; }

void tachy_settings_free(tachy_settings **s)
{
    if (!s || !*s)
        return;
    for (size_t i = 0; i < (*s)->nb_options; i++)
        tachy_value_clear(&(*s)->values[i]);
    free((*s)->warned);
    free(*s);
    *s = NULL;
}

static int unknown_option(const tachy_settings *s, const char *name, const char *nearest)
{
    if (nearest)
        return tachy_fail(s->log, TACHY_ERR_NOT_FOUND,
                          "unknown option \"%.80s\"; did you mean \"%s\"?", name, nearest);
    return tachy_fail(s->log, TACHY_ERR_NOT_FOUND,
                      "unknown option \"%.80s\"; `tachy help` lists what there is", name);
}

void tachy_settings_warn_planned(tachy_settings *s, const struct tachy_option *o, const char *name,
                                 const char *origin)
{
    bool *warned = &s->warned[o - s->options];
    if (!o->planned || *warned)
        return;
    *warned = true;
    tachy_msg(s->log, TACHY_LOG_WARN, "%s: %s has no effect yet: %s", origin, name, o->planned);
}

// A preset comes in before its name is set: if it cannot, the old one stands.
static int take_preset(tachy_settings *s, const struct tachy_option *o, const char *value)
{
    struct tachy_value v = {0};
    char *why;
    int err = TACHY_OK;
    if (!strcmp(o->path, TACHY_PROFILE) && parse(o, value, &v, &why) == TACHY_OK)
        err = tachy_settings_preset(s, v.text);
    else if (!strcmp(o->path, TACHY_PROFILE))
        free(why); // the caller's own check says it
    tachy_value_clear(&v);
    return err;
}

int tachy_settings_set(tachy_settings *s, const char *name, const char *value, const char *origin)
{
    const char *nearest;
    const struct tachy_key *key = NULL;
    if (!TACHY_CHECK(TACHY_LOG_OF(s, log), s && name && value))
        return TACHY_ERR_INVAL;
    const struct tachy_option *o = tachy_option_by_key(s->options, name, &key);
    if (!o)
        o = tachy_option_find_in(s->options, name, &nearest);
    if (!o)
        return unknown_option(s, name, nearest);
    int err = take_preset(s, o, value);
    if (err < 0)
        return err;
    struct tachy_value *v = &s->values[o - s->options];
    char *from = strdup(origin ? origin : "program");
    if (!from)
        return tachy_fail(s->log, TACHY_ERR_NOMEM, "no memory for the option %s", o->path);
    // A list that came from a file or the default is replaced.
    struct tachy_value fresh = {0};
    bool replace = o->type == TACHY_OPT_LIST && v->rank < TACHY_RANK_SET;
    char shown[80], *why;
    err = tachy_value_parse_key(o, key, value, replace ? &fresh : v, &why);
    const char *as = key ? key->path : tachy_option_shown(o, shown, sizeof(shown));
    if (err < 0) {
        tachy_msg(s->log, TACHY_LOG_ERR, "%s: %s", as, why ? why : "no memory for the value");
        free(why);
        free(from);
        return err;
    }
    if (replace) {
        tachy_value_clear(v);
        *v = fresh;
    }
    free(v->origin);
    v->origin = from;
    v->rank = TACHY_RANK_SET;
    tachy_settings_warn_planned(s, o, as, from);
    return TACHY_OK;
}

int tachy_settings_for(tachy_settings *s, const char *section)
{
    if (!s)
        return TACHY_ERR_INVAL;
    s->section = NULL;
    for (const struct tachy_option *o = s->options; section && o->path && !s->section; o++)
        if (!strncmp(o->path, section, strlen(section)) && o->path[strlen(section)] == '.')
            s->section = o->path;
    if (section && !s->section)
        return tachy_fail(s->log, TACHY_ERR_NOT_FOUND, "there is no section \"%.80s\" of settings",
                          section);
    return TACHY_OK;
}

// True if a row is in the section, or belongs to the section's task only (animation.* is animate's).
static bool in_section(const tachy_settings *s, const struct tachy_option *o)
{
    const struct tachy_option *first = &s->options[tachy_option_index(s->options, s->section)];
    return !strncmp(o->path, s->section, strcspn(s->section, ".") + 1) || (first->verbs && o->verbs == first->verbs);
}

// The task section's value that overrides a general one.
static const struct tachy_value *special(const tachy_settings *s, const struct tachy_value *general)
{
    const struct tachy_option *all = s->options, *o = &all[general - s->values];
    for (size_t i = 0; s->section && all[i].path; i++) {
        const struct tachy_value *v = &s->values[i];
        if (all[i].over && !strcmp(all[i].over, o->path) &&
            in_section(s, &all[i]) && v->present && v->rank >= general->rank)
            return v;
    }
    return general;
}

static const struct tachy_value *get(const tachy_settings *s, const char *path)
{
    static const struct tachy_value none;
    if (!TACHY_CHECK(TACHY_LOG_OF(s, log), s && path))
        return &none;
    int i = tachy_option_index(s->options, path);
    if (i >= 0)
        return special(s, &s->values[i]);
    tachy_msg(s->log, TACHY_LOG_ERR, "the program asks for the setting %s, which does not exist",
              path);
    return &none;
}

bool tachy_settings_is_set(const tachy_settings *s, const char *path)
{
    return get(s, path)->rank > TACHY_RANK_DEFAULT;
}

bool tachy_settings_by_name(const tachy_settings *s, const char *path) { return get(s, path)->rank == TACHY_RANK_SET; }

bool tachy_settings_bool(const tachy_settings *s, const char *path) { return get(s, path)->on; }

int64_t tachy_settings_int(const tachy_settings *s, const char *path)
{
    return get(s, path)->integer;
}

double tachy_settings_float(const tachy_settings *s, const char *path)
{
    return get(s, path)->number;
}

const char *tachy_settings_str(const tachy_settings *s, const char *path)
{
    const struct tachy_value *v = get(s, path);
    return v->count ? v->items[0] : v->text;
}

struct tachy_rational tachy_settings_rate(const tachy_settings *s, const char *path)
{
    return get(s, path)->rate;
}

uint32_t tachy_settings_color(const tachy_settings *s, const char *path)
{
    const struct tachy_value *v = get(s, path);
    uint32_t color = v->color;
    if (!color && v->text)
        tachy_parse_color(v->text, &color); // a text row: segment.background
    return color;
}

bool tachy_settings_size(const tachy_settings *s, const char *path, int *width, int *height)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(s, log), width && height))
        return false;
    const struct tachy_value *v = get(s, path);
    *width = v->width;
    *height = v->height;
    return v->width > 0;
}

size_t tachy_settings_list(const tachy_settings *s, const char *path, const char *const **items)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(s, log), items))
        return 0;
    const struct tachy_value *v = get(s, path);
    *items = (const char *const *)v->items;
    return v->count;
}

const char *tachy_settings_origin(const tachy_settings *s, const char *path)
{
    const struct tachy_value *v = get(s, path);
    return !s || !path ? NULL : v->origin ? v->origin : "default";
}
