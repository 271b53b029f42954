#include "base/base.h"
#include "base/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

// Settings as a configuration file, which settings_yaml.c reads back.

// Writes a text so that YAML reads it back: plain if that is safe, else double-quoted.
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

static void put_row(FILE *f, const tachy_settings *s, const struct tachy_option *o, int depth)
{
    long start = ftell(f);
    bool there = has_value(s, o), set = tachy_settings_is_set(s, o->path);
    fprintf(f, "%*s%s%s:", depth * 2, "", is_comment(s, o) ? "# " : "", strrchr(o->path, '.') + 1);
    if (there) {
        fputc(' ', f);
        put_value(f, s, o);
    }
    fprintf(f, "%*s # %s", (int)TACHY_MAX(36 - (ftell(f) - start), 0), "",
            there ? tachy_settings_origin(s, o->path) : "not set");
    const char *why = o->planned ? o->planned : o->needless;
    if (why)
        fprintf(f, "; %s%s%s", o->planned ? "no effect yet" : "not needed here", set ? ": " : "", set ? why : "");
    fputc('\n', f);
}

static bool same_section(const struct tachy_option *a, const struct tachy_option *b)
{
    return !strncmp(a->path, b->path, strcspn(a->path, ".") + 1);
}

// The table is in the order of help; a section's rows are written together at its first row.
static bool is_first(const struct tachy_option *table, const struct tachy_option *o)
{
    while (!same_section(table, o))
        table++;
    return table == o;
}

static void put_all(FILE *f, const tachy_settings *s, uint64_t verbs)
{
    const struct tachy_option *table = tachy_settings_options(s);
    const char *previous = "";
    fputs("# Effective settings; behind each where it comes from.\nversion: 1\n", f);
    for (const struct tachy_option *first = table; first->path; first++) {
        for (const struct tachy_option *o = is_first(table, first) ? first : NULL; o && o->path; o++) {
            if (!same_section(o, first) || o->command_only || (!(o->verbs & verbs) && !tachy_settings_is_set(s, o->path)))
                continue;
            put_row(f, s, o, open_sections(f, o->path, previous));
            previous = o->path;
        }
    }
}

int tachy_settings_yaml(char **yaml, const tachy_settings *s, uint64_t verbs)
{
    size_t size;
    TACHY_CLEAR(yaml);
    if (!TACHY_CHECK(s ? tachy_settings_log(s) : NULL, yaml && s))
        return TACHY_ERR_INVAL;
    FILE *f = open_memstream(yaml, &size);
    if (f)
        put_all(f, s, verbs);
    bool bad = !f || ferror(f);
    if (f && fclose(f) == 0 && !bad)
        return TACHY_OK;
    free(*yaml);
    *yaml = NULL;
    return TACHY_ERR_NOMEM;
}
