#include "model/card_reader.h"

#include <stdio.h>
#include <stdlib.h>

static void read_input(struct card_reader *r, json_t *o, struct tachy_card *c)
{
    static const char *const known[] = {"name",  "width", "height", "layout", "channels",
                                        "dtype", "fit",   "scale",  "mean",   "std", "pad", "plate", "hole", "batch"};
    static const char *const layouts[] = {"nhwc", "nchw", NULL};
    static const char *const channels[] = {"rgb", "bgr", "luma", NULL};
    static const char *const fits[] = {"stretch", "letterbox", "crop", NULL};
    static const char *const batches[] = {"one", "free", NULL};
    static const char *const dtypes[] = {"float32", "float16", "uint8", NULL}; // TACHY_F32, ...
    r->section = "input.";
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    card_ask(r, o, "width", "how many pixels wide is the picture that it sees?");
    card_ask(r, o, "height", "how many pixels high is the picture that it sees?");
    card_ask(r, o, "layout", "in which order are its extents? nchw: channels first; nhwc: channels last");
    card_ask(r, o, "channels", "which colours come in? rgb; bgr (trained with OpenCV's pictures); luma");
    card_ask(r, o, "scale", "which numbers are black and white? 0, 1: 0.00392156886; -1, 1: 0.00784313772 and \"mean\": 1; 0, 255: 1");
    c->input = card_text(r, o, "name", "");
    c->plate = card_text(r, o, "plate", "");
    c->foreground = "";
    if (*c->plate && strcmp(c->task, "segment"))
        card_bad(r, "plate", "is for the task segment");
    c->hole = card_text(r, o, "hole", "");
    if (!*c->hole != !!strcmp(c->task, "inpaint"))
        card_bad(r, "hole", "and the task inpaint go together: it names the input that says what is to be filled");
    c->in.width = card_whole(r, o, "width", 1, 16384, 0);
    c->in.height = card_whole(r, o, "height", 1, 16384, 0);
    c->in.layout = (enum tachy_layout)card_choice(r, o, "layout", layouts, -1);
    c->in.channels = (enum tachy_channels)card_choice(r, o, "channels", channels, TACHY_RGB);
    c->in.dtype = (enum tachy_dtype)(TACHY_F32 + card_choice(r, o, "dtype", dtypes, 0));
    c->in.fit = (enum tachy_fit)card_choice(r, o, "fit", fits, TACHY_FIT_STRETCH);
    c->free_batch = card_choice(r, o, "batch", batches, 0) == 1;
    if (*c->hole && (c->in.fit != TACHY_FIT_STRETCH || c->in.dtype != TACHY_F32 || c->in.channels == TACHY_LUMA))
        card_bad(r, "hole", "goes with `fit` stretch, float32 and colours");
    json_t *scale = json_object_get(o, "scale"), *pad = json_object_get(o, "pad");
    c->in.scale = scale ? card_number(r, "scale", scale) : 1.0f;
    c->in.pad = pad ? card_number(r, "pad", pad) : 0.0f;
    if (c->in.scale == 0)
        card_bad(r, "scale", "must not be 0");
    if (c->in.pad < 0 || c->in.pad > 255)
        card_bad(r, "pad", "must be from 0 to 255");
    card_triple(r, o, "mean", 0, c->in.mean);
    card_triple(r, o, "std", 1, c->in.std);
    for (int i = 0; i < 3; i++)
        if (c->in.std[i] == 0)
            card_bad(r, "std", "must not be 0");
}

static bool several_channels(enum tachy_output_meaning m)
{
    return m == TACHY_OUT_SOFTMAX || m == TACHY_OUT_PROBABILITIES;
}

static void read_output(struct card_reader *r, json_t *o, struct tachy_card *c)
{
    static const char *const known[] = {"name", "meaning", "channel", "layout", "width", "height", "foreground", "white"};
    static const char *const layouts[] = {"nhwc", "nchw", NULL};
    static const char *const meanings[] = {"probability", "logit", "softmax", "probabilities", "alpha", "picture", NULL};
    r->section = "output.";
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    card_ask(r, o, "meaning", "what is a number? 0..1: probability; of a matte: alpha; any: logit; a channel per class: softmax or "
                              "probabilities; the filled picture: picture");
    card_ask(r, o, "channel", "which channel is the person's, from 0?");
    c->output = card_text(r, o, "name", "");
    c->foreground = card_text(r, o, "foreground", "");
    if (*c->foreground && c->in.channels == TACHY_LUMA)
        card_bad(r, "foreground", "has colours, but the card's input has none");
    if (*c->foreground && !*c->output)
        card_bad(r, "foreground", "is one of several outputs: `output.name` must name the mask");
    if (*c->foreground && !strcmp(c->foreground, c->output))
        card_bad(r, "foreground", "is the same output as `output.name`");
    c->meaning = (enum tachy_output_meaning)(TACHY_OUT_PROBABILITY +
                                             card_choice(r, o, "meaning", meanings, -1));
    c->channel = card_whole(r, o, "channel", 0, 65535, several_channels(c->meaning) ? -1 : 0);
    c->out_layout = (enum tachy_layout)card_choice(r, o, "layout", layouts, (int)c->in.layout);
    c->out_width = card_whole(r, o, "width", 0, 16384, 0);
    c->out_height = card_whole(r, o, "height", 0, 16384, 0);
    if (!several_channels(c->meaning) && c->channel)
        card_bad(r, "channel", "is for meanings with several channels (softmax, probabilities)");
    if (!c->out_width != !c->out_height)
        card_bad(r, "width", "and `output.height` go together");
    bool picture = c->meaning == TACHY_OUT_PICTURE;
    json_t *white = json_object_get(o, "white");
    c->white = white ? card_number(r, "white", white) : 1;
    if (picture != !strcmp(c->task, "inpaint"))
        card_bad(r, "meaning", "picture and the task inpaint go together");
    if (white && (!picture || !(c->white > 0)))
        card_bad(r, "white", "is for the meaning picture, and above 0");
}

static void read_state(struct card_reader *r, json_t *o, struct tachy_card_state *s)
{
    static const char *const known[] = {"input", "output", "shape", "start"};
    json_t *shape = json_object_get(o, "shape"), *start = json_object_get(o, "start"), *v;
    size_t i;
    s->input = s->output = "";
    if (!json_is_object(o)) {
        card_bad(r, "", "must be an object");
        return;
    }
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    s->input = card_text(r, o, "input", NULL);
    s->output = card_text(r, o, "output", NULL);
    s->start = start ? card_number(r, "start", start) : 0;
    if (shape && (!json_array_size(shape) || json_array_size(shape) > TACHY_MAX_RANK))
        card_bad(r, "shape", "must be an array of 1 to %d extents", TACHY_MAX_RANK);
    json_array_foreach(shape, i, v) {
        if (r->err)
            return;
        s->shape[s->rank++] = json_integer_value(v);
        if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > 65536)
            card_bad(r, "shape", "must be extents from 1 to 65536");
    }
}

static void read_states(struct card_reader *r, json_t *root, struct tachy_card *c)
{
    json_t *list = json_object_get(root, "state");
    r->section = "";
    if (list && !json_is_array(list))
        card_bad(r, "state", "must be an array");
    if (json_array_size(list) > TACHY_MAX_STATES)
        card_bad(r, "state", "may have at most %d entries", TACHY_MAX_STATES);
    for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
        char section[32];
        snprintf(section, sizeof(section), "state[%zu].", i);
        r->section = section;
        read_state(r, json_array_get(list, i), &c->state[c->n_states++]);
        r->section = "";
    }
    c->warm_up = card_whole(r, root, "warm_up", 0, 8, 0);
    if (c->warm_up && !c->n_states)
        card_bad(r, "warm_up", "is for networks with a `state`");
}

static void read_constant(struct card_reader *r, const char *name, json_t *v, struct tachy_card_constant *c)
{
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    c->input = name;
    if (!n || n > TACHY_MAX_CONSTANT_VALUES) {
        card_bad(r, name, "must have 1 to %d numbers", TACHY_MAX_CONSTANT_VALUES);
        return;
    }
    c->n = (int)n;
    for (size_t i = 0; i < n; i++)
        c->value[i] = card_number(r, name, json_is_array(v) ? json_array_get(v, i) : v);
}

// Reads the key `constants` of `o`; `section` is the section with its own keys.
static void read_constants(struct card_reader *r, json_t *o, const char *section, struct tachy_card_constant *to, int *n)
{
    json_t *all = json_object_get(o, "constants"), *v;
    const char *name, *outer = r->section;
    if (all && !json_is_object(all))
        card_bad(r, "constants", "must be an object");
    r->section = section;
    json_object_foreach(all, name, v)
        card_ask(r, all, name, "what goes in? fixed numbers: those; the last picture's output: `state`; an empty scene: "
                               "`input.plate`");
    r->section = outer;
    if (json_object_size(all) > TACHY_MAX_CONSTANTS)
        card_bad(r, "constants", "may have at most %d entries", TACHY_MAX_CONSTANTS);
    r->section = section;
    json_object_foreach(all, name, v)
        if (!r->err)
            read_constant(r, name, v, &to[(*n)++]);
    r->section = outer;
}

static void read_wheel(struct card_reader *r, json_t *o, struct card_source *s)
{
    static const char *const known[] = {"package", "version", "file", "sha256", "member",
                                        "member_sha256"};
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    s->package = card_plain_name(r, o, "package", false);
    s->version = card_plain_name(r, o, "version", false);
    s->wheel = card_plain_name(r, o, "file", false);
    s->wheel_sha256 = card_digest(r, o, "sha256", NULL);
    s->member = card_text(r, o, "member", NULL);
    s->sha256 = card_digest(r, o, "member_sha256", NULL);
    size_t n = strlen(s->wheel);
    if (n < 5 || strcmp(s->wheel + n - 4, ".whl"))
        card_bad(r, "file", "must end with .whl");
}

static void read_url(struct card_reader *r, json_t *o, struct card_source *s)
{
    s->url = card_text(r, o, "url", NULL);
    if (strncmp(s->url, "https://", 8) && strncmp(s->url, "http://", 7) &&
        strncmp(s->url, "file://", 7))
        card_bad(r, "url", "must begin with https://, http:// or file://");
}

static void read_source(struct card_reader *r, json_t *o, struct card_source *s)
{
    static const char *const known[] = {"url", "wheel", "file", "sha256", "import"};
    *s = (struct card_source){.url = "", .path = "", .package = "", .version = "", .wheel = "",
                              .wheel_sha256 = "", .member = "", .sha256 = "", .import = ""};
    if (!json_is_object(o)) {
        card_bad(r, "", "must be an object");
        return;
    }
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    json_t *wheel = json_object_get(o, "wheel");
    int ways = (json_object_get(o, "url") != NULL) + (wheel != NULL) +
               (json_object_get(o, "file") != NULL);
    if (ways != 1)
        card_bad(r, "url", "or `wheel` or `file` must be given, and only one of them");
    s->import = card_text(r, o, "import", "");
    if (*s->import && strcmp(s->import, "tflite"))
        card_bad(r, "import", "is \"%s\"; it must be tflite", s->import);
    s->sha256 = card_digest(r, o, "sha256", "");
    if (wheel) {
        s->kind = CARD_WHEEL;
        if (*s->sha256)
            card_bad(r, "sha256", "belongs into `wheel`, with `member_sha256`");
        json_t *w = card_object(r, o, "wheel");
        if (w)
            read_wheel(r, w, s);
    } else if (json_object_get(o, "url")) {
        s->kind = CARD_URL;
        read_url(r, o, s);
    } else {
        s->kind = CARD_FILE;
        s->path = card_text(r, o, "file", ways == 1 ? NULL : "");
    }
}

// Name, size, digest and sources of a file, from the object that has them. `section` is that object's.
static void read_file(struct card_reader *r, json_t *o, const char *section, struct card_file *f)
{
    json_t *list = json_object_get(o, "sources");
    r->section = section;
    f->name = card_plain_name(r, o, "file", false);
    f->sha256 = card_digest(r, o, "sha256", "");
    f->bytes = card_whole(r, o, "bytes", 0, INT32_MAX, 0);
    if (list && !json_is_array(list))
        card_bad(r, "sources", "must be an array");
    if (json_array_size(list) > CARD_MAX_SOURCES)
        card_bad(r, "sources", "may have at most %d entries", CARD_MAX_SOURCES);
    for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
        char source[64];
        snprintf(source, sizeof(source), "%ssources[%zu].", section, i);
        r->section = source;
        read_source(r, json_array_get(list, i), &f->sources[f->n_sources++]);
    }
    r->section = section;
}

// The network that makes vectors of texts which compare with those of pictures, as CLIP's.
static void read_text(struct card_reader *r, json_t *root, struct card_doc *d)
{
    static const char *const known[] = {"file", "sha256", "bytes", "sources", "input", "mask", "output", "tokens", "pad", "scale",
                                        "vocabulary"};
    static const char *const known_vocabulary[] = {"file", "sha256", "bytes", "sources"};
    struct tachy_card_text *t = &d->card.text;
    json_t *o = json_object_get(root, "text"), *scale = json_object_get(o, "scale");
    r->section = "";
    t->file = t->input = t->mask = t->output = t->vocabulary = "";
    if (!o || !card_object(r, root, "text"))
        return;
    bool embeds = false;
    for (int i = 0; i < d->card.n_decoders; i++)
        embeds |= d->card.decoder[i].kind == TACHY_DECODE_EMBEDDING;
    if (!embeds)
        card_bad(r, "text", "needs an entry with the meaning embedding in `outputs`");
    r->section = "text.";
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    t->input = card_text(r, o, "input", "");
    t->mask = card_text(r, o, "mask", "");
    t->output = card_text(r, o, "output", "");
    t->tokens = card_whole(r, o, "tokens", 2, 1024, 77);
    t->pad = card_whole(r, o, "pad", 0, INT32_MAX, 0);
    t->scale = scale ? card_number(r, "scale", scale) : 100;
    if (*t->mask && !*t->input)
        card_bad(r, "mask", "is one of several inputs: `text.input` must name that of the tokens");
    if (t->scale <= 0)
        card_bad(r, "scale", "must be above 0");
    read_file(r, o, "text.", &d->file[CARD_TEXT]);
    json_t *v = card_object(r, o, "vocabulary");
    r->section = "text.vocabulary.";
    card_only(r, v, known_vocabulary, TACHY_ARRAY_SIZE(known_vocabulary));
    if (v)
        read_file(r, v, "text.vocabulary.", &d->file[CARD_VOCABULARY]);
    t->file = d->file[CARD_TEXT].name;
    t->vocabulary = v ? d->file[CARD_VOCABULARY].name : "";
    r->section = "";
}

// The network that makes masks of prompts, as SAM 2's.
static void read_prompts(struct card_reader *r, json_t *root, struct card_doc *d)
{
    static const char *const known[] = {"file", "sha256", "bytes", "sources", "points", "labels", "masks", "scores", "constants"};
    struct tachy_card_prompts *p = &d->card.prompts;
    json_t *o = json_object_get(root, "prompts");
    r->section = "";
    p->file = p->points = p->labels = p->masks = p->scores = "";
    if (!o || !card_object(r, root, "prompts"))
        return;
    r->section = "prompts.";
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    p->points = card_text(r, o, "points", "point_coords");
    p->labels = card_text(r, o, "labels", "point_labels");
    p->masks = card_text(r, o, "masks", "masks");
    p->scores = card_text(r, o, "scores", "iou_predictions");
    read_constants(r, o, "prompts.constants.", p->constant, &p->n_constants);
    read_file(r, o, "prompts.", &d->file[CARD_PROMPTS]);
    p->file = d->file[CARD_PROMPTS].name;
    if (d->card.in.fit != TACHY_FIT_STRETCH)
        card_bad(r, "", "goes with `input.fit` stretch: masks are stretched back over the picture");
    r->section = "";
}

// A file with a role among several of a section, "memory.attention.".
static const char *read_role(struct card_reader *r, json_t *o, const char *section, const char *role, struct card_file *f)
{
    static const char *const known[] = {"file", "sha256", "bytes", "sources"};
    char inner[64];
    r->section = section;
    json_t *part = card_object(r, o, role);
    if (!part)
        return "";
    snprintf(inner, sizeof(inner), "%s%s.", section, role);
    r->section = inner;
    card_only(r, part, known, TACHY_ARRAY_SIZE(known));
    read_file(r, part, inner, f);
    r->section = "";
    return f->name;
}

// The networks that follow things through a video, as SAM 2's.
static void read_memory(struct card_reader *r, json_t *root, struct card_doc *d)
{
    static const char *const known[] = {"attention", "decoder", "encoder"};
    struct tachy_card_memory *m = &d->card.memory;
    json_t *o = json_object_get(root, "memory");
    r->section = "";
    m->attention = m->decoder = m->encoder = "";
    if (!o || !card_object(r, root, "memory"))
        return;
    r->section = "memory.";
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    m->attention = read_role(r, o, "memory.", "attention", &d->file[CARD_MEMORY_ATTENTION]);
    m->decoder = read_role(r, o, "memory.", "decoder", &d->file[CARD_MEMORY_DECODER]);
    m->encoder = read_role(r, o, "memory.", "encoder", &d->file[CARD_MEMORY_ENCODER]);
    r->section = "memory.";
    if (d->card.in.fit != TACHY_FIT_STRETCH)
        card_bad(r, "", "goes with `input.fit` stretch: masks are stretched back over the picture");
    r->section = "";
}

// A name, or extents of the same model.
static void read_smaller(struct card_reader *r, json_t *root, struct tachy_card *c)
{
    static const char *const known[] = {"width", "height"};
    json_t *o = json_object_get(root, "smaller");
    r->section = c->smaller = "";
    if (!json_is_object(o)) {
        c->smaller = o ? card_plain_name(r, root, "smaller", true) : "";
        if (o && !strcmp(c->smaller, c->name))
            card_bad(r, "smaller", "is this card itself");
        return;
    }
    r->section = "smaller.";
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    c->smaller_width = card_whole(r, o, "width", 1, 16384, 0);
    c->smaller_height = card_whole(r, o, "height", 1, 16384, 0);
    if ((int64_t)c->smaller_width * c->smaller_height >= (int64_t)c->in.width * c->in.height)
        card_bad(r, "width", "and `smaller.height` are no smaller picture than `input` is");
    r->section = "";
}

static void read_card(struct card_reader *r, struct card_doc *d)
{
    static const char *const known[] = {"version", "name",  "title", "task",  "network",
                                        "license", "file",  "sha256", "bytes", "homepage",
                                        "notes",   "input", "output", "outputs", "state", "warm_up", "constants",
                                        "smaller", "sources", "text", "prompts", "memory"};
    struct tachy_card *c = &d->card;
    json_t *root = d->json;
    card_only(r, root, known, TACHY_ARRAY_SIZE(known));
    if (card_whole(r, root, "version", 1, 65535, 1) != 1)
        card_bad(r, "version", "is newer than the 1 that this program reads: update it");
    c->name = card_plain_name(r, root, "name", true);
    if (!strcmp(c->name, TACHY_MODEL_AUTO))
        card_bad(r, "name", "is \"auto\", by which --model chooses among others");
    c->title = card_text(r, root, "title", c->name);
    card_ask(r, root, "task", "what does it find? segment: people; detect: boxes; classify: classes; track, pose: points of faces, bodies; embed, categorize: vectors of faces, pictures; masks: masks of prompts; inpaint: what fills a hole");
    c->task = card_text(r, root, "task", NULL);
    c->network = card_text(r, root, "network", "");
    c->license = card_text(r, root, "license", "");
    card_text(r, root, "homepage", "");
    card_text(r, root, "notes", "");
    read_file(r, root, "", &d->file[CARD_MODEL]);
    c->file = d->file[CARD_MODEL].name;
    c->sha256 = d->file[CARD_MODEL].sha256;
    json_t *in = card_object(r, root, "input"), *outputs = json_object_get(root, "outputs");
    json_t *out = outputs ? NULL : card_object(r, root, "output");
    if (in)
        read_input(r, in, c);
    if (outputs && json_object_get(root, "output"))
        card_bad(r, "outputs", "and `output` exclude each other");
    if (outputs && (!strcmp(c->task, "segment") || !strcmp(c->task, "inpaint")))
        card_bad(r, "outputs", "is not for the task %s, whose cards have `output`", c->task);
    if (outputs)
        card_read_decoders(r, outputs, d);
    if (out)
        read_output(r, out, c);
    read_states(r, root, c);
    r->section = "";
    read_constants(r, root, "constants.", c->constant, &c->n_constants);
    read_smaller(r, root, c);
    read_text(r, root, d);
    read_prompts(r, root, d);
    read_memory(r, root, d);
}

// The part of a path before its last slash, "." if there is none.
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
    for (int i = 0; i < CARD_FILES; i++)
        d->file[i].name = d->file[i].sha256 = "";
    d->folder = folder;
    d->origin = tachy_asprintf("%s", origin);
    json_error_t at;
    d->json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &at);
    struct card_reader r = {.origin = origin, .section = "", .log = log};
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
    for (int i = 0; i < TACHY_MAX_DECODERS; i++)
        free(d->labels[i]);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(d->places); i++)
        free(d->places[i]);
    json_decref(d->json);
    free(d->origin);
    free(d->folder);
    free(d);
}
