#include "cli.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// A text as YAML reads it back: plain where it is plainly safe, else double-quoted.
static void put_scalar(FILE *f, const char *text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789_./-+";
    bool plain = *text && strspn(text, safe) == strlen(text) && *text != '-' &&
                 strcasecmp(text, "null") != 0;
    if (plain) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(f, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(f, "\\x%02x", *p);
        else
            fputc(*p, f);
    }
    fputc('"', f);
}

static bool has_value(const tachy_settings *s, const struct tachy_option *o)
{
    const char *const *items;
    return o->type == TACHY_OPT_LIST
               ? tachy_settings_list(s, o->path, &items) > 0 || tachy_settings_is_set(s, o->path)
               : tachy_settings_str(s, o->path) != NULL;
}

static void put_value(FILE *f, const tachy_settings *s, const struct tachy_option *o)
{
    const char *const *items;
    if (o->type != TACHY_OPT_LIST) {
        put_scalar(f, tachy_settings_str(s, o->path));
        return;
    }
    size_t n = tachy_settings_list(s, o->path, &items);
    fputc('[', f);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ", " : "", f);
        put_scalar(f, items[i]);
    }
    fputc(']', f);
}

// Opens the sections of `path` that the previous row's path had not opened; returns the depth.
static int open_sections(FILE *f, const char *path, const char *previous)
{
    size_t common = 0; // length of the sections that both share, with their last dot
    for (size_t i = 0; path[i] && path[i] == previous[i]; i++)
        if (path[i] == '.')
            common = i + 1;
    int depth = 0;
    for (const char *p = path, *dot; (dot = strchr(p, '.')); p = dot + 1, depth++)
        if (p >= path + common)
            fprintf(f, "%*s%.*s:\n", depth * 2, "", (int)(dot - p), p);
    return depth;
}

// A row that has no effect yet is a comment unless it was set: read back, the rest is silent.
static bool is_comment(const tachy_settings *s, const struct tachy_option *o)
{
    return !has_value(s, o) || (o->planned && !tachy_settings_is_set(s, o->path));
}

// False: no memory.
static bool print_row(FILE *to, const tachy_settings *s, const struct tachy_option *o, int depth)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return false;
    bool there = has_value(s, o), set = tachy_settings_is_set(s, o->path);
    fprintf(f, "%*s%s%s:", depth * 2, "", is_comment(s, o) ? "# " : "",
            strrchr(o->path, '.') + 1);
    if (there) {
        fputc(' ', f);
        put_value(f, s, o);
    }
    bool whole = fclose(f) == 0;
    fprintf(to, "%-36s # %s", whole ? text : "", there ? tachy_settings_origin(s, o->path) : "not set");
    if (o->planned)
        fprintf(to, "; no effect yet%s%s", set ? ": " : "", set ? o->planned : "");
    fputc('\n', to);
    free(text);
    return whole;
}

static bool same_section(const struct tachy_option *a, const struct tachy_option *b)
{
    return !strncmp(a->path, b->path, strcspn(a->path, ".") + 1);
}

// The table is in the order of help; the rows of a section come where its first one is.
static bool is_first(const struct tachy_option *o)
{
    const struct tachy_option *p = tachy_options();
    while (!same_section(p, o))
        p++;
    return p == o;
}

int config_print(FILE *f, const tachy_settings *s, bool all)
{
    fputs("# Effective settings; behind each where it comes from.\nversion: 1\n", f);
    const char *previous = "";
    for (const struct tachy_option *first = tachy_options(); first->path; first++) {
        for (const struct tachy_option *o = is_first(first) ? first : NULL; o && o->path; o++) {
            if (!same_section(o, first) || o->command_only || (!all && !tachy_settings_is_set(s, o->path)))
                continue;
            int depth = open_sections(f, o->path, previous);
            if (!print_row(f, s, o, depth))
                return TACHY_ERR_NOMEM;
            previous = o->path;
        }
    }
    return TACHY_OK;
}

static json_t *value_json(const tachy_settings *s, const struct tachy_option *o)
{
    const char *const *items;
    if (!has_value(s, o))
        return json_null();
    switch (o->type) {
    case TACHY_OPT_BOOL:
        return json_boolean(tachy_settings_bool(s, o->path));
    case TACHY_OPT_INT:
        return json_integer(tachy_settings_int(s, o->path));
    case TACHY_OPT_FLOAT:
    case TACHY_OPT_TIME:
        return json_real(tachy_settings_float(s, o->path));
    case TACHY_OPT_LIST: {
        json_t *list = json_array();
        size_t n = tachy_settings_list(s, o->path, &items);
        for (size_t i = 0; i < n; i++)
            json_array_append_new(list, json_string(items[i]));
        return list;
    }
    default:
        return json_string(tachy_settings_str(s, o->path));
    }
}

static int print_json(const struct cli *c)
{
    const tachy_settings *s = c->settings;
    json_t *all = json_object();
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        if (o->command_only)
            continue;
        const char *origin = has_value(s, o) ? tachy_settings_origin(s, o->path) : "not set";
        json_t *row = json_pack("{s:o, s:s}", "value", value_json(s, o), "origin", origin);
        if (o->planned)
            json_object_set_new(row, "no_effect_yet", json_string(o->planned));
        json_object_set_new(all, o->path, row);
    }
    return cli_write_json(c, all);
}

static const char *type_name(enum tachy_opt_type type)
{
    static const char *const names[] = {"yes or no", "whole number", "number", "time", "text",
                                        "one of", "rate", "colour", "list", "size"};
    return names[type];
}

// '|' ends a cell of a Markdown table.
static void put_cell(const char *text)
{
    for (; *text; text++)
        printf(*text == '|' ? "\\|" : "%c", *text);
}

// The other keys of a row, below its path.
static void put_keys(const struct tachy_option *o)
{
    for (const struct tachy_key *k = o->keys; k && k->path; k++) {
        printf("<br>`%s`", k->path);
        if (k->yes)
            printf(" (yes: `%s`, no: `%s`)", k->yes, k->no);
    }
}

static void put_meaning(const struct tachy_option *o)
{
    put_cell(o->help);
    if (!o->planned)
        return;
    fputs(". **No effect yet**: ", stdout);
    put_cell(o->planned);
}

static void print_markdown(void)
{
    puts("| key | command line | type | default | meaning |\n|--|--|--|--|--|");
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        if (o->command_only)
            continue;
        char left[128], word[32];
        option_left(o, left, sizeof(left));
        printf("| `%s`", o->path);
        put_keys(o);
        fputs(has_name(o) ? " | `" : " | ", stdout);
        put_cell(has_name(o) ? left : "");
        printf("%s | %s", has_name(o) ? "`" : "", type_name(o->type));
        for (int i = 0; o->values && nth_word(o->values, i, word, sizeof(word)); i++)
            printf("%s `%s`", i ? "," : "", word);
        if (o->max >= 1e9)
            printf(" >= %.10g", o->min);
        else if (o->min < o->max)
            printf(" %.10g to %.10g", o->min, o->max);
        printf(" | %s%s%s | ", o->def ? "`" : "", o->def ? o->def : "", o->def ? "`" : "");
        put_meaning(o);
        puts(" |");
    }
}

static int run_config(struct cli *c)
{
    int err = cli_take_inputs(c);
    if (err == TACHY_OK && tachy_settings_bool(c->settings, "general.markdown"))
        print_markdown();
    else if (err == TACHY_OK)
        err = tachy_settings_str(c->settings, "run.json") ? print_json(c) : config_print(stdout, c->settings, true);
    return err < 0 ? message_failed(err) : STATUS_OK;
}

const struct verb verb_config = {
    .name = "config",
    .usage = "[options of tachy segment]",
    .summary = "print the effective settings and where each comes from",
    .details =
        "Takes the same options and configuration files as tachy segment, runs nothing, and prints "
        "what would hold as a configuration file, with the origin of each value behind it: "
        "default, FILE:LINE, or command line. docs/config.md explains the files.",
    .options = TACHY_VERB_CONFIG | TACHY_VERB_RUN | TACHY_VERB_COMMAND | TACHY_VERB_PROFILE | TACHY_VERB_TASKS,
    .examples = EXAMPLES(
        {"tachy config > my.yaml", "a file to start from"},
        {"tachy config -c my.yaml -crf 20", "what holds when both are given"}),
    .run = run_config,
};
