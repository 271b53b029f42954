#include "cli.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/engine.h>
#include <tachy/job.h>
#include <tachy/model.h>
#include <unistd.h>

static const char *dir_of(const struct cli *c)
{
    return tachy_settings_str(c->settings, "model.dir");
}

// The zoo; *cards is to be released with json_decref().
static int get_zoo(struct cli *c, json_t **cards)
{
    char *text;
    *cards = NULL;
    int err = tachy_model_list(&text, dir_of(c), &c->log);
    if (err < 0)
        return err;
    *cards = json_loads(text, 0, NULL);
    tachy_free(text);
    return *cards ? TACHY_OK : TACHY_ERR_NOMEM;
}

static bool wants_json(const struct cli *c)
{
    return tachy_settings_str(c->settings, "run.json") != NULL;
}

static void print_table(const json_t *cards)
{
    size_t i;
    json_t *m;
    printf("%-18s %-10s %-14s %-8s %s\n", "NAME", "TASK", "LICENSE", "PRESENT", "TITLE");
    json_array_foreach(cards, i, m)
        printf("%-18s %-10s %-14s %-8s %s\n", text_of(m, "name"), text_of(m, "task"),
               text_of(m, "license"), json_is_true(json_object_get(m, "present")) ? "yes" : "no",
               text_of(m, "title"));
}

static int model_list(struct cli *c)
{
    json_t *cards;
    int err = get_zoo(c, &cards);
    if (err < 0)
        return err;
    if (wants_json(c))
        err = cli_write_json(c, json_incref(cards));
    else
        print_table(cards);
    json_decref(cards);
    return err;
}

// Lists of plain values stay in one line; the rest is nested by two columns.
static bool is_flat(const json_t *v)
{
    size_t i;
    json_t *item;
    if (!json_is_array(v))
        return !json_is_object(v);
    json_array_foreach(v, i, item) if (json_is_object(item) || json_is_array(item)) return false;
    return true;
}

static void print_plain(const json_t *v)
{
    size_t i;
    json_t *item;
    if (json_is_string(v))
        fputs(json_string_value(v), stdout);
    else if (json_is_integer(v))
        printf("%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        printf("%.9g", json_real_value(v));
    else if (!json_is_array(v))
        fputs(json_is_true(v) ? "yes" : json_is_null(v) ? "-" : "no", stdout);
    json_array_foreach(v, i, item)
    {
        fputs(i ? " " : "", stdout);
        print_plain(item);
    }
}

static void print_tree(const json_t *v, int depth)
{
    const char *key;
    size_t i;
    json_t *item;
    json_array_foreach(v, i, item)
    {
        if (i)
            putchar('\n');
        print_tree(item, depth);
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        int at = printf("%*s%s:", depth * 2, "", key);
        if (!is_flat(item)) {
            putchar('\n');
            print_tree(item, depth + 1);
            continue;
        }
        printf("%*s", at < 26 ? 26 - at : 1, "");
        print_plain(item);
        putchar('\n');
    }
}

static const json_t *find_card(const json_t *cards, const char *name)
{
    size_t i;
    json_t *m;
    json_array_foreach(cards, i, m) if (!strcmp(text_of(m, "name"), name)) return m;
    return NULL;
}

// tachy_model_open() suggests the nearest name for an unknown one; it is also called for a known one, to report whether
// the file is there.
static int open_model(struct cli *c, const char *name, bool fetch, tachy_model **m)
{
    struct tachy_model_params p = {.name = name,
                                   .card = tachy_settings_str(c->settings, "model.card"),
                                   .dir = dir_of(c),
                                   .fetch = fetch,
                                   .accept_licence = tachy_settings_bool(c->settings, "model.accept_licence"),
                                   .log = &c->log};
    return tachy_model_open(m, &p);
}

// ---- A file without a card

static int open_file(const struct cli *c, const char *file, tachy_engine **e)
{
    return tachy_engine_open(e, tachy_engine_params(.provider = "cpu", .model_path = file, .log = &c->log,
                                                    .library = tachy_settings_str(c->settings, "model.library")));
}

// Name, type and extents; null: an extent that is free.
static json_t *io_json(const struct tachy_io *io, int n)
{
    json_t *all = json_array();
    for (int i = 0; i < n; i++) {
        json_t *shape = json_array();
        for (int k = 0; k < io[i].spec.rank; k++)
            json_array_append_new(shape, io[i].spec.shape[k] < 0 ? json_null() : json_integer(io[i].spec.shape[k]));
        json_array_append_new(all, json_pack("{s:s, s:s, s:o}", "name", io[i].name, "dtype",
                                             tachy_dtype_name(io[i].spec.dtype), "shape", shape));
    }
    return all;
}

static int file_info(struct cli *c, const char *file)
{
    const struct tachy_io *in, *out;
    tachy_engine *e;
    int err = open_file(c, file, &e);
    if (err < 0)
        return err;
    int n = tachy_engine_inputs(e, &in), m = tachy_engine_outputs(e, &out);
    json_t *o = json_pack("{s:s, s:o, s:o}", "file", file, "inputs", io_json(in, n), "outputs", io_json(out, m));
    tachy_engine_close(&e);
    if (wants_json(c))
        return cli_write_json(c, o);
    print_tree(o, 0);
    json_decref(o);
    return TACHY_OK;
}

static int model_card(struct cli *c, const char *file)
{
    const struct tachy_io *in, *out;
    tachy_engine *e;
    char *text = NULL;
    int err = open_file(c, file, &e);
    if (err < 0)
        return err;
    int n = tachy_engine_inputs(e, &in), m = tachy_engine_outputs(e, &out);
    err = tachy_model_skeleton(&text, file, in, n, out, m, &c->log);
    tachy_engine_close(&e);
    if (err == TACHY_OK)
        puts(text);
    tachy_free(text);
    return err;
}

static int model_info(struct cli *c, const char *name)
{
    json_t *cards;
    tachy_model *m = NULL;
    if (tachy_model_is_path(name))
        return file_info(c, name);
    int err = get_zoo(c, &cards);
    if (err < 0)
        return err;
    const json_t *card = find_card(cards, name);
    if (!card) {
        err = open_model(c, name, false, &m);
        if (err == TACHY_OK) { // cannot be: a model that the zoo does not list
            message_error("%s is not in the zoo; `tachy model list` shows what is", name);
            err = TACHY_ERR_NOT_FOUND;
        }
        tachy_model_close(&m);
    } else if (wants_json(c)) {
        err = cli_write_json(c, json_incref((json_t *)(uintptr_t)card));
    } else {
        print_tree(card, 0);
    }
    json_decref(cards);
    return err;
}

static int model_pull(struct cli *c, const char *name)
{
    tachy_model *m;
    int err = open_model(c, name, true, &m);
    if (err == TACHY_OK)
        printf("%s: %s\n", name, tachy_model_path(m));
    tachy_model_close(&m);
    return err;
}

// Passes on what a run logs and remembers warnings: one means that the card does not fit the model.
struct watched {
    const struct tachy_log *to;
    atomic_bool warned;
};

static void watch(void *user, enum tachy_log_level level, const char *msg)
{
    struct watched *w = user;
    if (level <= TACHY_LOG_WARN)
        w->warned = true;
    w->to->fn(w->to->user, level, msg);
}

// Why two made-up frames cannot be put through the card's task; NULL: they can.
static const char *not_run(const struct tachy_card *card)
{
    return *card->plate             ? "it needs a --plate"
           : !strcmp(card->task, "track") ? "it sees faces that another model finds"
           : !strcmp(card->task, "pose")  ? "it sees people whom another model finds"
           : !strcmp(card->task, "embed") ? "it sees faces that other models find"
                                          : NULL;
}

// Prepared as the card says, without warnings. Sizes, names and types are checked against the card when the model is
// opened.
static int run_frames(struct cli *c, const char *name, const struct tachy_card *card)
{
    const char *const with[][2] = {{"input.files", "null:640x360@25,frames=2,format=rgb24,pattern=noise"},
                                   {"output.format", "null"},
                                   {"model.name", name},
                                   {"model.card", tachy_settings_str(c->settings, "model.card")},
                                   {"model.dir", dir_of(c)},
                                   {"model.library", tachy_settings_str(c->settings, "model.library")},
                                   {"model.batch_size", card->free_batch ? "2" : NULL},
                                   {"inpaint.network", strcmp(card->task, "inpaint") ? NULL : name},
                                   {"inpaint.hole", strcmp(card->task, "inpaint") ? NULL : "40%,40%,20%,20%"},
                                   {"segment.focus", strcmp(card->task, "segment") ? NULL : "off"},
                                   {"categorize.vectors", strcmp(card->task, "categorize") ? NULL : "yes"}};
    struct watched w = {.to = &c->log};
    const struct tachy_log log = {.fn = watch, .user = &w, .max_level = TACHY_LOG_WARN};
    tachy_settings *s;
    tachy_job *job = NULL;
    int err = tachy_settings_new(&s, &log);
    for (size_t i = 0; i < sizeof(with) / sizeof(with[0]) && err == TACHY_OK; i++)
        err = with[i][1] ? tachy_settings_set(s, with[i][0], with[i][1], NULL) : TACHY_OK;
    if (err == TACHY_OK)
        err = tachy_job_open(&job, tachy_job_params(.task = card->task, .settings = s, .log = &log));
    if (err == TACHY_OK)
        err = tachy_job_run(job);
    tachy_job_close(&job);
    tachy_settings_free(&s);
    return err == TACHY_OK && w.warned ? TACHY_ERR_MISMATCH : err;
}

static int model_verify(struct cli *c, const char *name)
{
    tachy_model *m;
    int err = open_model(c, name, false, &m);
    if (err == TACHY_OK) {
        const struct tachy_card *card = tachy_model_card(m);
        const char *why = not_run(card), *digest = card->sha256[0] ? "the digest is right" : "no SHA-256 in the card; not verified";
        err = why ? TACHY_OK : run_frames(c, name, card);
        if (err == TACHY_OK)
            printf("%s: %s; %s%s (%s)\n", name, digest, why ? "it was not run: " : "it runs as its card says",
                   why ? why : "", tachy_model_path(m));
    }
    tachy_model_close(&m);
    return err;
}

// Every model that is present.
static int verify_all(struct cli *c)
{
    json_t *cards, *m;
    size_t i;
    int err = get_zoo(c, &cards);
    json_array_foreach(cards, i, m)
    {
        if (err < 0)
            break;
        if (json_is_true(json_object_get(m, "present")))
            err = model_verify(c, text_of(m, "name"));
    }
    json_decref(cards);
    return err;
}

// "face.tflite" -> "face.onnx", in the current folder.
static char *import_name(const char *file)
{
    const char *base = strrchr(file, '/');
    base = base ? base + 1 : file;
    const char *dot = strrchr(base, '.');
    int n = dot && dot > base ? (int)(dot - base) : (int)strlen(base);
    char *out = NULL;
    return asprintf(&out, "%.*s.onnx", n, base) < 0 ? NULL : out;
}

static int model_import(struct cli *c, const char *file)
{
    const char *named = tachy_settings_str(c->settings, "output.file");
    const char *card = tachy_settings_str(c->settings, "model.card");
    char *out = named ? strdup(named) : import_name(file), *report = NULL;
    int err = out ? cli_check_free(c, out) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = cli_check_free(c, card);
    if (err == TACHY_OK)
        err = tachy_model_import(file, out, card, &report, &c->log);
    json_t *tree = err == TACHY_OK && report ? json_loads(report, 0, NULL) : NULL;
    if (tree && wants_json(c)) {
        err = cli_write_json(c, json_incref(tree));
    } else if (err == TACHY_OK) {
        printf("%s%s%s\n", out, card ? ", " : "", card ? card : "");
        print_tree(tree, 1);
    }
    json_decref(tree);
    tachy_free(report);
    free(out);
    return err;
}

static const struct word words[] = {
    {"list", .all = model_list},
    {"pull", .one = model_pull, .needs = "a name; `tachy model list` shows them"},
    {"info", .one = model_info, .needs = "a name (`tachy model list` shows them) or an ONNX file"},
    {"card", .one = model_card, .single = true, .needs = "an ONNX file"},
    {"verify", .all = verify_all, .one = model_verify},
    {"import", .one = model_import, .needs = "a TFLite file"},
    {0},
};

static int run_model(struct cli *c) { return cli_run_word(c, words, "list"); }

const struct verb verb_model = {
    .name = "model",
    .usage = "list | pull NAME... | info NAME|FILE | card FILE | verify [NAME...] | import FILE",
    .summary = "list, get, describe and check models; convert TFLite to ONNX",
    .details =
        "list shows the zoo. pull gets a model from the sources of its card and checks its SHA-256; if its licence is "
        "not permissive, it needs --accept-licence. info prints the card: licence, digest, sources, and what goes in "
        "and comes out. For an ONNX file it lists inputs and outputs with types and shapes, and card prints a card "
        "for it, with gaps for what the file does not say. verify checks the digests of the installed models, and "
        "runs two frames through each as its card says. import turns a TFLite file into ONNX (-o FILE.onnx; default: "
        "in the current folder), and with --card FILE.json writes a card to complete.",
    .words = "list|pull|info|card|verify|import",
    .options = TACHY_VERB_MODEL,
    .examples = EXAMPLES(
        {"tachy model pull selfie", "get the default model"},
        {"tachy model import face.tflite -o face.onnx --card face.json",
         "your own network"},
        {"tachy model card my.onnx > my.json", "a card to complete: its gaps are marked"},
        {"tachy model verify my.onnx --card my.json", "is the card right?"},
        {"tachy segment --model my.onnx --card my.json in.mp4", "and use it"}),
    .run = run_model,
};
