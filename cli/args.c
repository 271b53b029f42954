#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// FFmpeg's one-dash names (-ss 3 -c:v libx264 -an) and GNU long options (--mode mask,
// --mode=mask, --no-refine) both reach every row of the table. "--" ends the options; a lone
// "-" is an argument.

struct parser {
    struct cli *c;
    int argc;
    char **argv;
    int at;                            // next element of argv
    const struct tachy_option **used;  // rows that were given, argc at most
    bool *by_path;                     // of each: it was given as its path
    int n_used;
};

struct found {
    const struct tachy_option *option;
    char name[64];     // as it was given
    const char *value; // text after '='; NULL: none
    bool negated;      // --no-name
};

static bool find_name(struct found *f, const char *text, size_t n, const char **nearest)
{
    if (nearest)
        *nearest = NULL;
    if (!n || n >= sizeof(f->name))
        return false;
    memcpy(f->name, text, n);
    f->name[n] = '\0';
    f->option = tachy_option_find(f->name, nearest);
    return f->option != NULL;
}

// `text` is the text after the dashes.
static bool match(const char *text, struct found *f, const char **nearest)
{
    const char *eq = strchr(text, '=');
    size_t n = eq ? (size_t)(eq - text) : strlen(text);
    *f = (struct found){.value = eq ? eq + 1 : NULL};
    if (find_name(f, text, n, nearest) || eq || strncmp(text, "no", 2))
        return f->option != NULL;
    const char *rest = text + (text[2] == '-' ? 3 : 2);
    f->negated = find_name(f, rest, strlen(rest), NULL) && f->option->type == TACHY_OPT_BOOL &&
                 !f->option->command_only;
    return f->negated;
}

static bool looks_like_option(const char *arg)
{
    struct found f;
    if (arg[0] != '-' || !arg[1])
        return false;
    return match(arg + (arg[1] == '-' ? 2 : 1), &f, NULL);
}

// The shown form of a name: "-crf", "--threshold", "-n", "--gpu.precision".
static const char *shown(const struct tachy_option *o, char *buf, size_t size)
{
    if (o->name)
        snprintf(buf, size, "%s%s", o->one_dash ? "-" : "--", o->name);
    else if (o->letter)
        snprintf(buf, size, "-%c", o->letter);
    else
        snprintf(buf, size, "--%s", o->path);
    return buf;
}

// Options that people type out of habit, and what to type here.
static const char *habit(const char *arg)
{
    static const char *const habits[][2] = {
        {"gpu", "--device cuda"}, {"cuda", "--device cuda"}, {"hwaccel", "--device cuda"}, {"cpu", "--device cpu"},
        {"verbose", "-v verbose"}, {"debug", "-v debug"}, {"silent", "-q"}, {"force", "-y"}, {"overwrite-output", "-y"},
        {"codec", "-c:v"}, {"fps", "-r"}, {"seek", "-ss"}, {"in", "-i"}, {"out", "-o"}, {"threads", "--workers"},
        {"b", "-b:v"}, {"s", "-vf scale=WIDTH:HEIGHT"}, {"size", "-vf scale=WIDTH:HEIGHT"}, {"hide_banner", "-v error"},
        {"nostats", "-q"}, {"stream_loop", "ffmpeg -stream_loop N -i FILE ... | tachy segment -"}, {"set", "--KEY VALUE"},
        {"transparent", "--mode alpha"}, {"alpha", "--mode alpha"}, {"bg", "--background"}, {"bg-color", "--background"},
        {"background-color", "--background"}, {"q:v", "-crf"}, {"qscale:v", "-crf"}, {"output-dir", "-o DIR/"},
        {"outdir", "-o DIR/"}, {"list-models", "tachy model list"},
    };
    const char *name = arg + strspn(arg, "-");
    for (size_t i = 0; i < sizeof(habits) / sizeof(habits[0]); i++)
        if (strlen(habits[i][0]) == strcspn(name, "=") && !strncmp(name, habits[i][0], strlen(habits[i][0])))
            return habits[i][1];
    return NULL;
}

static int unknown(const struct cli *c, const char *arg, const char *nearest)
{
    const struct verb *verb = c->inner ? c->inner : c->verb; // NULL: a file was named first
    char name[80];
    const char *other = habit(arg);
    const struct tachy_option *o = nearest ? tachy_option_find(nearest, NULL) : NULL;
    if (other)
        message_error("the option %.60s is not known; did you mean %s?", arg, other);
    else if (o && strchr(nearest, '.'))
        message_error("the option %.60s is not known; did you mean --%s?", arg, nearest);
    else if (o)
        message_error("the option %.60s is not known; did you mean %s?", arg,
                      shown(o, name, sizeof(name)));
    else
        message_error("the option %.60s is not known; `tachy help %s` lists all", arg, verb ? verb->name : "segment");
    return TACHY_ERR_INVAL;
}

// True if the word after an option with an optional value is its value: a number, or the [HOST:]PORT of an address.
static bool is_value(const struct tachy_option *o, const char *next)
{
    bool address = o->arg && !strcmp(o->arg, "ADDR");
    const char *colon = next && address ? strrchr(next, ':') : NULL;
    const char *number = colon ? colon + 1 : next;
    return number && *number && (address || o->type == TACHY_OPT_FLOAT) && strspn(number, "0123456789.") == strlen(number);
}

// The value of an option that needs one: after '=', or the next argument.
static int take_value(struct parser *p, const char *arg, struct found *f)
{
    if (f->value)
        return TACHY_OK;
    const char *next = p->at < p->argc ? p->argv[p->at] : NULL;
    if (f->option->bare && !is_value(f->option, next)) {
        f->value = f->option->bare;
        return TACHY_OK;
    }
    if (!next || !strcmp(next, "--") || looks_like_option(next)) {
        char word[256];
        const char *value = f->option->type == TACHY_OPT_ENUM && !f->option->arg
                                ? list_words(f->option->values, " or ", word, sizeof(word))
                                : option_value(f->option, word, sizeof(word));
        if (next)
            message_error("%s needs a value (%s), but %s follows; write %s=%s where that is meant",
                          arg, value, next, arg, next);
        else
            message_error("%s needs a value (%s)", arg, value);
        return TACHY_ERR_INVAL;
    }
    f->value = next;
    p->at++;
    return TACHY_OK;
}

// The number after the value, if the option takes one. NULL: none.
static const char *take_second(struct parser *p, const struct found *f)
{
    const char *next = f->option->then && p->at < p->argc ? p->argv[p->at] : NULL;
    if (!next || !*next || strspn(next, "0123456789") != strlen(next))
        return NULL;
    p->at++;
    return next;
}

// Keeps the arguments for the command under another verb or --watch; their own options are left out.
static void pass_on(struct parser *p, const struct tachy_option *o, int from)
{
    bool own = o->verbs == TACHY_VERB_PROFILE || !(o->verbs & ~(uint64_t)(TACHY_VERB_TUNE | TACHY_VERB_CHECK)) || !strcmp(o->path, "run.watch");
    for (int i = from; i < p->at && !own; i++) {
        p->c->inner_row[p->c->n_inner] = o;
        p->c->inner_argv[p->c->n_inner++] = p->argv[i];
    }
}

// A verb around another goes first: --max-memory of `tachy tune segment` is tune.max_memory.
static bool prefers_outer(const struct cli *c, const struct found *f)
{
    for (const struct tachy_option *o = tachy_options(); o->path; o++)
        if (o->verbs & c->verb->options && !(o->verbs & TACHY_VERB_RUN) && o->name && !strcmp(o->name, f->name))
            return true;
    return false;
}

// Several verbs may have an option of one name: the one of this verb is meant. --batch of `tachy engine` is engine.batch.
static void prefer_own(const struct cli *c, struct found *f)
{
    char path[128];
    uint64_t verbs = (c->verb ? c->verb->options : 0) | (c->inner ? c->inner->options : 0);
    if (c->verb && c->verb->wraps)
        verbs = prefers_outer(c, f) ? c->verb->options : verbs;
    if (!verbs || (f->option->verbs & verbs))
        return;
    snprintf(path, sizeof(path), "%s.%s", c->verb->name, f->name);
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        bool named = (o->name && !strcmp(o->name, f->name)) || !strcmp(o->path, path);
        if (!named || !(o->verbs & verbs) || strlen(o->path) >= sizeof(f->name))
            continue;
        f->option = o;
        strcpy(f->name, o->path);
        return;
    }
}

static int take_option(struct parser *p, const char *arg)
{
    struct found f;
    const char *nearest = NULL;
    int from = p->at - 1;
    if (!match(arg + (arg[1] == '-' ? 2 : 1), &f, &nearest))
        return unknown(p->c, arg, nearest);
    prefer_own(p->c, &f);
    int err = TACHY_OK;
    if (f.negated)
        f.value = "no";
    else if (f.option->type == TACHY_OPT_BOOL && !f.value)
        f.value = "yes";
    else
        err = take_value(p, arg, &f);
    const char *second = err == TACHY_OK ? take_second(p, &f) : NULL;
    p->by_path[p->n_used] = !strcmp(f.name, f.option->path);
    p->used[p->n_used++] = f.option;
    pass_on(p, f.option, from);
    if (err == TACHY_OK)
        err = tachy_settings_set(p->c->settings, f.name, f.value, "command line");
    if (err == TACHY_OK && second)
        err = tachy_settings_set(p->c->settings, f.option->then, second, "command line");
    return err;
}

// The first argument names no verb: a file is segmented, a word is a mistake. `verb`: the one that is missing.
static int no_verb(struct cli *c, const struct verb **verb, const char *arg)
{
    if (strpbrk(arg, "./:") || !strcmp(arg, "-")) {
        *verb = cli_verb("segment");
        c->implied = true;
        c->args[c->n_args++] = arg;
        return TACHY_OK;
    }
    return cli_unknown_verb(arg);
}

// A file of -c that is not there may be meant as FFmpeg's -c, an encoder.
static int load_settings(struct cli *c, const char *file)
{
    if (!strpbrk(file, "./") && access(file, F_OK) != 0) {
        message_error("-c %s: there is no such configuration file; did you mean -c:v %s?", file, file);
        return TACHY_ERR_NOT_FOUND;
    }
    return tachy_settings_load(c->settings, file);
}

// The first argument without an option names the verb.
static int take_argument(struct parser *p, const char *arg)
{
    struct cli *c = p->c;
    const struct verb **verb = c->verb && c->verb->wraps && !c->inner ? &c->inner : &c->verb;
    if (*verb) {
        c->inner_argv[c->n_inner++] = c->args[c->n_args++] = arg;
        return TACHY_OK;
    }
    *verb = cli_verb(arg);
    if (!*verb || !(*verb)->wraps)
        c->inner_argv[c->n_inner++] = arg;
    if (*verb)
        return TACHY_OK;
    return no_verb(c, verb, arg);
}

static int check_verb(const struct parser *p)
{
    const struct verb *v = p->c->verb;
    char name[80];
    uint64_t options = (v ? v->options : 0) | (p->c->inner ? p->c->inner->options : 0);
    const char *const *outputs;
    if (v && !(options & TACHY_VERB_RUN) && tachy_settings_list(p->c->settings, "output.file", &outputs) > 1) {
        message_error("tachy %s writes one output; give -o once", v->name);
        return TACHY_ERR_INVAL;
    }
    for (int i = 0; v && i < p->n_used; i++) {
        if (p->used[i]->verbs & (options | (p->by_path[i] ? v->by_path : 0)))
            continue;
        if (p->c->inner)
            v = p->c->inner;
        const char *own = shown(p->used[i], name, sizeof(name)), *other = habit(own);
        if (p->used[i]->verbs & v->by_path)
            message_error("tachy %s takes %s as --%s", v->name, own, p->used[i]->path);
        else if (other)
            message_error("%s does not belong to tachy %s; did you mean %s?", own, v->name, other);
        else
            message_error("%s does not belong to tachy %s; `tachy help %s` lists its options", own, v->name, v->name);
        return TACHY_ERR_INVAL;
    }
    return TACHY_OK;
}

int args_parse(struct cli *c, int argc, char **argv)
{
    struct parser p = {.c = c, .argc = argc, .argv = argv, .at = 1};
    c->args = calloc((size_t)argc + 1, sizeof(*c->args));
    c->inner_argv = calloc((size_t)argc + 2, sizeof(*c->inner_argv));
    c->inner_row = calloc((size_t)argc + 2, sizeof(*c->inner_row));
    p.used = calloc((size_t)argc + 1, sizeof(*p.used));
    p.by_path = calloc((size_t)argc + 1, sizeof(*p.by_path));
    int err = c->args && c->inner_argv && c->inner_row && p.used && p.by_path ? TACHY_OK : TACHY_ERR_NOMEM;
    bool options = true;
    while (err == TACHY_OK && p.at < argc) {
        const char *arg = argv[p.at++];
        if (options && !strcmp(arg, "--")) {
            c->inner_argv[c->n_inner++] = arg;
            options = false;
        } else if (options && arg[0] == '-' && arg[1]) {
            err = take_option(&p, arg);
        } else {
            err = take_argument(&p, arg);
        }
    }
    if (err == TACHY_OK)
        err = check_verb(&p);
    if (err == TACHY_OK)
        cli_level(c); // what reading the files warns of is quiet already
    const char *const *files;
    size_t n = tachy_settings_list(c->settings, "general.config", &files);
    for (size_t i = 0; i < n && err == TACHY_OK; i++)
        err = load_settings(c, files[i]);
    free(p.used);
    free(p.by_path);
    return err;
}
