#include "cli.h"

#include <string.h>

// Completes the last word of a command, for shells and for the prompt of `tachy shell`.

static bool names_file(const struct tachy_option *o)
{
    return o->arg && (strstr(o->arg, "FILE") || strstr(o->arg, "DIR"));
}

// The option that `n` characters name, dashes and all; NULL: none.
static const struct tachy_option *option_of(const char *word, size_t n)
{
    char name[64];
    if (n < 2 || n >= sizeof(name) || word[0] != '-')
        return NULL;
    snprintf(name, sizeof(name), "%.*s", (int)n, word);
    return tachy_option_find(name + 1 + (name[1] == '-'), NULL);
}

// Adds each value of "a|b|c" after the first `n` characters of `before`.
static void add_words(const char *words, const char *before, size_t n, add_word *add, void *to)
{
    char word[64], all[128];
    for (int i = 0; nth_word(words, i, word, sizeof(word)); i++) {
        snprintf(all, sizeof(all), "%.*s%s", (int)n, before, word);
        add(to, all, "");
    }
}

static void add_option(const struct tachy_option *o, add_word *add, void *to)
{
    char name[80];
    snprintf(name, sizeof(name), "-%c", o->letter);
    if (o->letter)
        add(to, name, o->help);
    snprintf(name, sizeof(name), "%s%s", o->one_dash ? "-" : "--", o->name ? o->name : "");
    if (o->name)
        add(to, name, o->help);
    snprintf(name, sizeof(name), "--no-%s", o->name ? o->name : "");
    if (o->name && o->type == TACHY_OPT_BOOL && !o->command_only && !o->one_dash)
        add(to, name, o->help);
}

// A verb around another takes the options of what it runs as well. `v` NULL: those of every command.
static void add_options(const struct verb *v, add_word *add, void *to)
{
    uint64_t verbs = v ? v->options : VERB_GENERAL;
    if (v && v->wraps)
        verbs |= TACHY_VERB_RUN | TACHY_VERB_COMMAND | TACHY_VERB_TASKS;
    for (const struct tachy_option *o = tachy_options(); o->path; o++)
        if (o->verbs & verbs)
            add_option(o, add, to);
}

static void add_models(add_word *add, void *to)
{
    char *text = NULL;
    size_t i;
    json_t *m, *all = tachy_model_list(&text, NULL, NULL) == TACHY_OK ? json_loads(text, 0, NULL) : NULL;
    json_array_foreach(all, i, m)
        add(to, text_of(m, "name"), text_of(m, "title"));
    json_decref(all);
    tachy_free(text);
}

// Values that no table has: models by name, the presets of x264 and x265.
static void add_values(const struct tachy_option *o, const char *before, size_t n, add_word *add, void *to)
{
    if (o->values)
        add_words(o->values, before, n, add, to);
    else if (!strcmp(o->path, "output.preset"))
        add_words("ultrafast|superfast|veryfast|faster|fast|medium|slow|slower|veryslow", before, n, add, to);
    else if (!strcmp(o->path, "model.name") && !n)
        add_models(add, to);
}

static bool is_word(const char *words, const char *word)
{
    char buf[64];
    int i = 0;
    while (nth_word(words, i, buf, sizeof(buf)) && strcmp(buf, word))
        i++;
    return nth_word(words, i, buf, sizeof(buf)) != NULL;
}

bool complete_words(const char *const *words, size_t n, add_word *add, void *to)
{
    const char *last = words[n - 1], *value = last[0] == '-' ? strchr(last, '=') : NULL;
    const char *before = n > 1 ? words[n - 2] : "";
    size_t given = value ? (size_t)(value - last) : 0, at = 0;
    const struct tachy_option *o = value ? option_of(last, given) : option_of(before, strlen(before));
    if (o && o->type != TACHY_OPT_BOOL && (value || !o->bare)) {
        add_values(o, last, value ? given + 1 : 0, add, to);
        return names_file(o);
    }
    while (at + 1 < n && !cli_verb(words[at]))
        at++;
    const struct verb *v = at + 1 < n ? cli_verb(words[at]) : NULL;
    if (last[0] == '-') {
        add_options(v, add, to);
        return false;
    }
    for (const struct verb *const *i = cli_verbs(); *i && !v; i++)
        add(to, (*i)->name, (*i)->summary);
    bool chosen = v && !v->words;
    for (size_t i = at + 1; v && i + 1 < n; i++)
        chosen = chosen || is_word(v->words, words[i]);
    if (v && !chosen)
        add_words(v->words, "", 0, add, to);
    if (v == &verb_model && chosen && strcmp(words[at + 1], "import") != 0)
        add_models(add, to);
    return chosen;
}
