#include "base/options.h"
#include "base/base.h"
#include "base/settings_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <yaml.h>

// Reads a configuration file into separate values first and applies them only if the whole file is valid. libyaml's
// events are read one by one: nesting is bounded here, and aliases are refused, so that a small file stays small in
// memory.

enum { FILE_MAX = 1 << 20, DEPTH_MAX = 8, PATH_MAX_LEN = 128 };

struct seen {
    char path[PATH_MAX_LEN]; // of a key or section
    size_t line;
};

// The file's value for a row so far, and the key that gave it.
struct staged {
    struct tachy_value value;
    char key[PATH_MAX_LEN];
    size_t line;
};

struct loader {
    const struct tachy_log *log;
    const struct tachy_option *options;
    const char *file;
    const char *preset; // its name; NULL: the file is no preset
    int rank;
    yaml_parser_t parser;
    struct staged *staged; // one per row
    struct seen *seen;          // every key is an option or a section: bounded by the table
    size_t n_seen;
};

static size_t line_of(const yaml_event_t *e) { return e->start_mark.line + 1; }

static int syntax_error(const struct loader *l)
{
    const yaml_parser_t *p = &l->parser;
    if (p->error == YAML_MEMORY_ERROR)
        return tachy_fail(l->log, TACHY_ERR_NOMEM, "%s: no memory to read it", l->file);
    if (p->error == YAML_READER_ERROR)
        return tachy_fail(l->log, TACHY_ERR_FORMAT, "%s: is not a YAML text: %s at byte %zu",
                          l->file, p->problem, p->problem_offset);
    return tachy_fail(l->log, TACHY_ERR_FORMAT, "%s:%zu: is not valid YAML: %s%s%s", l->file,
                      p->problem_mark.line + 1, p->context ? p->context : "",
                      p->context ? ", " : "", p->problem ? p->problem : "unknown problem");
}

static bool foreign_tag(const yaml_char_t *tag)
{
    const char *t = (const char *)tag;
    return t && strcmp(t, "!") && strncmp(t, "tag:yaml.org,2002:", 18);
}

// The next event, to be deleted by the caller. Anchors, aliases and foreign tags end here.
static int next_event(struct loader *l, yaml_event_t *e)
{
    if (!yaml_parser_parse(&l->parser, e))
        return syntax_error(l);
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (e->type) {
    case YAML_ALIAS_EVENT:
        anchor = e->data.alias.anchor;
        break;
    case YAML_SCALAR_EVENT:
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
        break;
    default:
        break;
    }
    int err = TACHY_OK;
    if (anchor)
        err = tachy_fail(l->log, TACHY_ERR_FORMAT,
                         "%s:%zu: anchors and aliases (&name, *name) are not taken; write the "
                         "value out",
                         l->file, line_of(e));
    else if (foreign_tag(tag))
        err = tachy_fail(l->log, TACHY_ERR_FORMAT, "%s:%zu: the tag %.40s is not known", l->file,
                         line_of(e), (const char *)tag);
    if (err < 0)
        yaml_event_delete(e);
    return err;
}

// Text of a scalar event without NUL bytes in it; NULL if it has some.
static const char *scalar_text(const yaml_event_t *e)
{
    const char *text = (const char *)e->data.scalar.value;
    return strlen(text) == e->data.scalar.length ? text : NULL;
}

static bool is_plain(const yaml_event_t *e)
{
    return e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static bool is_null(const char *text)
{
    return !*text || !strcmp(text, "~") || !strcasecmp(text, "null");
}

static int note_seen(struct loader *l, const char *path, size_t line)
{
    for (size_t i = 0; i < l->n_seen; i++)
        if (!strcmp(l->seen[i].path, path))
            return tachy_fail(l->log, TACHY_ERR_FORMAT,
                              "%s:%zu: %s is there twice, the first time in line %zu", l->file,
                              line, path, l->seen[i].line);
    struct seen *seen = realloc(l->seen, (l->n_seen + 1) * sizeof(*seen));
    if (!seen)
        return tachy_fail(l->log, TACHY_ERR_NOMEM, "%s: no memory to read it", l->file);
    l->seen = seen;
    snprintf(seen[l->n_seen].path, sizeof(seen[0].path), "%s", path);
    seen[l->n_seen++].line = line;
    return TACHY_OK;
}

static int unknown_key(const struct loader *l, const char *path, size_t line)
{
    int i = tachy_option_index(l->options, path);
    if (i >= 0)
        return tachy_fail(l->log, TACHY_ERR_FORMAT,
                          "%s:%zu: %s belongs on the command line, not into a file", l->file, line,
                          path);
    const char *near = tachy_option_nearest_path(l->options, path);
    if (near)
        return tachy_fail(l->log, TACHY_ERR_FORMAT,
                          "%s:%zu: the key %s is not known; did you mean %s?", l->file, line, path,
                          near);
    return tachy_fail(l->log, TACHY_ERR_FORMAT,
                      "%s:%zu: the key %s is not known; `tachy config` prints all keys", l->file,
                      line, path);
}

static char *origin_of(const struct loader *l, size_t line)
{
    return l->preset ? tachy_asprintf("preset %s (configs/%s.yaml:%zu)", l->preset, l->preset, line)
                     : tachy_asprintf("%s:%zu", l->file, line);
}

// One key of a file with the row that it sets.
struct leaf {
    const struct tachy_option *o;
    const struct tachy_key *key; // NULL: the row's path
    const char *path;            // as in the file
    size_t line;
};

static bool same_section(const char *a, const char *b)
{
    const char *x = strrchr(a, '.'), *y = strrchr(b, '.');
    return x && y && x - a == y - b && !memcmp(a, b, (size_t)(x - a));
}

// Two keys of one option say different things: which of them counts.
static void tell_two_keys(const struct loader *l, const struct leaf *f, const struct staged *old)
{
    bool first = tachy_option_order(old->key) > tachy_option_order(f->path);
    if (same_section(old->key, f->path))
        return; // an error
    tachy_msg(l->log, TACHY_LOG_INFO, "%s:%zu: %s is ignored: %s in line %zu sets the same option and counts more", l->file,
              first ? f->line : old->line, first ? f->path : old->key, first ? old->key : f->path,
              first ? old->line : f->line);
}

// Stores a value for its row. If another key of the row gave one already, the more specific section wins, and within
// one section both must agree. Takes over `v`.
static int stage(struct loader *l, const struct leaf *f, struct tachy_value *v)
{
    struct staged *old = &l->staged[f->o - l->options];
    if (old->line && !tachy_value_equal(f->o, &old->value, v))
        tell_two_keys(l, f, old);
    if (old->line && same_section(old->key, f->path) &&
        !tachy_value_equal(f->o, &old->value, v)) {
        tachy_value_clear(v);
        return tachy_fail(l->log, TACHY_ERR_FORMAT,
                          "%s:%zu: %s contradicts %s in line %zu; both set the same option",
                          l->file, f->line, f->path, old->key, old->line);
    }
    if (old->line && tachy_option_order(old->key) > tachy_option_order(f->path)) {
        tachy_value_clear(v);
        return TACHY_OK;
    }
    tachy_value_clear(&old->value);
    old->value = *v;
    old->line = f->line;
    snprintf(old->key, sizeof(old->key), "%s", f->path);
    return TACHY_OK;
}

// Reads a scalar into *v, or adds it to a list. Null leaves *v unchanged.
static int read_scalar(struct loader *l, const struct leaf *f, const yaml_event_t *e,
                       struct tachy_value *v)
{
    const char *text = scalar_text(e);
    if (!text)
        return tachy_fail(l->log, TACHY_ERR_INVAL, "%s:%zu: %s has a NUL byte in its value",
                          l->file, line_of(e), f->path);
    if (is_plain(e) && !*text)
        return tachy_fail(l->log, TACHY_ERR_INVAL,
                          "%s:%zu: %s has no value; a value that begins with # needs quotes",
                          l->file, line_of(e), f->path);
    if (is_plain(e) && is_null(text))
        return TACHY_OK; // as if it were not there
    char *why;
    int err = tachy_value_parse_key(f->o, f->key, text, v, &why);
    if (err < 0) {
        tachy_msg(l->log, TACHY_LOG_ERR, "%s:%zu: %s: %s", l->file, line_of(e), f->path,
                  why ? why : "no memory for the value");
        free(why);
        return err;
    }
    v->rank = l->rank;
    return TACHY_OK;
}

static int read_list(struct loader *l, const struct leaf *f, struct tachy_value *v)
{
    int err = TACHY_OK;
    v->rank = l->rank; // also an empty list counts
    for (bool end = false; err == TACHY_OK && !end;) {
        yaml_event_t e;
        err = next_event(l, &e);
        if (err < 0)
            return err;
        if (e.type == YAML_SCALAR_EVENT)
            err = read_scalar(l, f, &e, v);
        else if (e.type == YAML_SEQUENCE_END_EVENT)
            end = true;
        else
            err = tachy_fail(l->log, TACHY_ERR_INVAL,
                             "%s:%zu: %s is a list of texts, without lists or keys in it", l->file,
                             line_of(&e), f->path);
        yaml_event_delete(&e);
    }
    return err;
}

// A size as a list: [width, height] or [side].
static int read_size(struct loader *l, const struct leaf *f, const yaml_event_t *start, struct tachy_value *v)
{
    struct tachy_option sides = *f->o;
    struct tachy_value list = {0};
    char *why = NULL;
    sides.type = TACHY_OPT_LIST;
    int err = read_list(l, &(struct leaf){&sides, NULL, f->path, f->line}, &list);
    char *text = err == TACHY_OK && list.count && list.count <= 2
                     ? tachy_asprintf("%s%s%s", list.items[0], list.count == 2 ? "x" : "", list.count == 2 ? list.items[1] : "")
                     : NULL;
    if (err == TACHY_OK && (!text || tachy_value_parse_key(f->o, f->key, text, v, &why) < 0))
        err = tachy_fail(l->log, TACHY_ERR_INVAL, "%s:%zu: %s %s", l->file, line_of(start), f->path,
                         why ? why : "takes a list of width and height, [1024, 1024]");
    v->rank = l->rank;
    tachy_value_clear(&list);
    free(text);
    free(why);
    return err;
}

static int load_leaf(struct loader *l, const struct leaf *f, const yaml_event_t *e)
{
    struct tachy_value v = {0};
    int err;
    if (e->type == YAML_SCALAR_EVENT)
        err = read_scalar(l, f, e, &v);
    else if (e->type == YAML_SEQUENCE_START_EVENT && f->o->type == TACHY_OPT_LIST)
        err = read_list(l, f, &v);
    else if (e->type == YAML_SEQUENCE_START_EVENT && f->o->type == TACHY_OPT_SIZE)
        err = read_size(l, f, e, &v);
    else
        err = tachy_fail(l->log, TACHY_ERR_INVAL, "%s:%zu: %s takes a value, not %s", l->file,
                         line_of(e), f->path,
                         e->type == YAML_SEQUENCE_START_EVENT ? "a list" : "keys below it");
    if (err == TACHY_OK && v.rank && !(v.origin = origin_of(l, line_of(e))))
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK && v.rank)
        return stage(l, f, &v);
    tachy_value_clear(&v);
    return err;
}

static int load_mapping(struct loader *l, const char *prefix, int depth);

static int load_section(struct loader *l, const char *path, int depth, const yaml_event_t *e)
{
    if (e->type == YAML_MAPPING_START_EVENT)
        return load_mapping(l, path, depth + 1);
    const char *text = e->type == YAML_SCALAR_EVENT ? scalar_text(e) : NULL;
    if (text && is_plain(e) && is_null(text))
        return TACHY_OK; // every key of it is commented out
    return tachy_fail(l->log, TACHY_ERR_INVAL, "%s:%zu: %s takes keys below it, not a value",
                      l->file, line_of(e), path);
}

static int load_version(struct loader *l, const yaml_event_t *e)
{
    const char *text = e->type == YAML_SCALAR_EVENT ? scalar_text(e) : NULL;
    if (text && !strcmp(text, "1"))
        return TACHY_OK;
    return tachy_fail(l->log, TACHY_ERR_UNSUPPORTED,
                      "%s:%zu: version %.20s of configuration files is not known; this program "
                      "reads version 1",
                      l->file, line_of(e), text ? text : "(no number)");
}

// One key with its value; `key` is deleted by the caller.
static int load_pair(struct loader *l, const char *prefix, int depth, const yaml_event_t *key)
{
    char path[PATH_MAX_LEN];
    size_t line = line_of(key);
    const char *name = key->type == YAML_SCALAR_EVENT ? scalar_text(key) : NULL;
    if (!name)
        return tachy_fail(l->log, TACHY_ERR_FORMAT, "%s:%zu: a key must be a name", l->file, line);
    int n = snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", name);
    if (n < 0 || (size_t)n >= sizeof(path))
        return tachy_fail(l->log, TACHY_ERR_FORMAT, "%s:%zu: the key %.40s... is too long", l->file,
                          line, name);
    struct leaf leaf = {.path = path, .line = line};
    const struct tachy_option *o = leaf.o = tachy_option_by_key(l->options, path, &leaf.key);
    bool version = !strcmp(path, "version");
    if (!version && (o ? o->command_only : !tachy_option_is_section(l->options, path)))
        return unknown_key(l, path, line);
    if (l->preset && o && !strcmp(o->path, TACHY_PROFILE))
        return tachy_fail(l->log, TACHY_ERR_FORMAT, "%s:%zu: a preset cannot name another one",
                          l->file, line);
    int err = note_seen(l, path, line);
    yaml_event_t value;
    if (err == TACHY_OK)
        err = next_event(l, &value);
    if (err < 0)
        return err;
    err = version ? load_version(l, &value)
          : o     ? load_leaf(l, &leaf, &value)
                  : load_section(l, path, depth, &value);
    yaml_event_delete(&value);
    return err;
}

static int load_mapping(struct loader *l, const char *prefix, int depth)
{
    if (depth > DEPTH_MAX)
        return tachy_fail(l->log, TACHY_ERR_LIMIT, "%s: is nested more than %d deep", l->file,
                          DEPTH_MAX);
    int err = TACHY_OK;
    for (bool end = false; err == TACHY_OK && !end;) {
        yaml_event_t key;
        err = next_event(l, &key);
        if (err < 0)
            return err;
        if (key.type == YAML_MAPPING_END_EVENT)
            end = true;
        else
            err = load_pair(l, prefix, depth, &key);
        yaml_event_delete(&key);
    }
    return err;
}

// The single document: a mapping, or nothing at all.
static int load_document(struct loader *l)
{
    int documents = 0, err = TACHY_OK;
    for (bool end = false; err == TACHY_OK && !end;) {
        yaml_event_t e;
        err = next_event(l, &e);
        if (err < 0)
            return err;
        const char *text = e.type == YAML_SCALAR_EVENT ? scalar_text(&e) : NULL;
        if (e.type == YAML_DOCUMENT_START_EVENT && documents++)
            err = tachy_fail(l->log, TACHY_ERR_FORMAT, "%s:%zu: a second document begins here; "
                             "one file holds one",
                             l->file, line_of(&e));
        else if (e.type == YAML_MAPPING_START_EVENT)
            err = load_mapping(l, "", 1);
        else if (e.type == YAML_SEQUENCE_START_EVENT ||
                 (e.type == YAML_SCALAR_EVENT && !(text && is_plain(&e) && is_null(text))))
            err = tachy_fail(l->log, TACHY_ERR_FORMAT,
                             "%s:%zu: a configuration file is made of `key: value` lines", l->file,
                             line_of(&e));
        end = e.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&e);
    }
    return err;
}

static bool wins(const tachy_settings *s, const struct loader *l, size_t row)
{
    return l->staged[row].line && s->values[row].rank <= l->rank;
}

static void take_over(tachy_settings *s, struct loader *l)
{
    for (size_t i = 0; i < s->nb_options; i++) {
        struct staged *from = &l->staged[i];
        if (!wins(s, l, i))
            continue;
        tachy_value_clear(&s->values[i]);
        s->values[i] = from->value;
        from->value = (struct tachy_value){0};
        tachy_settings_warn_planned(s, &s->options[i], from->key, s->values[i].origin);
    }
}

// A preset takes the place of another.
static int drop_preset(tachy_settings *s)
{
    int err = TACHY_OK;
    for (size_t i = 0; i < s->nb_options && err == TACHY_OK; i++)
        if (s->values[i].rank == TACHY_RANK_PRESET)
            err = tachy_settings_reset(s, i);
    return err;
}

// A file may name a preset, which comes in below it.
static int take_preset(tachy_settings *s, const struct loader *l)
{
    size_t row = (size_t)tachy_option_index(s->options, TACHY_PROFILE);
    return wins(s, l, row) ? tachy_settings_preset(s, l->staged[row].value.text) : TACHY_OK;
}

int tachy_settings_load_as(tachy_settings *s, const char *yaml_path, const char *preset, int rank)
{
    struct loader l = {.log = s->log, .options = s->options, .file = yaml_path, .preset = preset, .rank = rank};
    char *text;
    size_t size;
    int err = tachy_read_file(yaml_path, FILE_MAX, &text, &size, s->log);
    if (err < 0)
        return err;
    size_t n = s->nb_options;
    l.staged = calloc(n, sizeof(*l.staged));
    if (!l.staged || !yaml_parser_initialize(&l.parser)) {
        err = tachy_fail(s->log, TACHY_ERR_NOMEM, "%s: no memory to read it", yaml_path);
        goto error;
    }
    yaml_parser_set_input_string(&l.parser, (const unsigned char *)text, size);
    err = load_document(&l);
    yaml_parser_delete(&l.parser);
    if (err == TACHY_OK)
        err = preset ? drop_preset(s) : take_preset(s, &l);
    if (err == TACHY_OK)
        take_over(s, &l);

error:
    for (size_t i = 0; l.staged && i < n; i++)
        tachy_value_clear(&l.staged[i].value);
    free(l.staged);
    free(l.seen);
    free(text);
    return err;
}

int tachy_settings_load(tachy_settings *s, const char *yaml_path)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(s, log), s && yaml_path))
        return TACHY_ERR_INVAL;
    int err = tachy_settings_load_as(s, yaml_path, NULL, TACHY_RANK_FILE + s->files);
    s->files += err == TACHY_OK;
    return err;
}
