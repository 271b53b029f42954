#include "stage/categories.h"

#include <jansson.h>
#include <stdlib.h>

enum { MOST_CLASSES = 10000, MOST_TEXTS = 200000, MOST_BYTES = 16 << 20 };

static int bad(const struct tachy_log *log, const char *path, const char *what)
{
    return tachy_fail(log, TACHY_ERR_FORMAT, "%s: %s (docs/categorize.md)", path, what);
}

// A phrase in a template, whose {} it stands for.
static int add_text(struct tachy_categories *c, const char *form, const char *phrase)
{
    const char *hole = strstr(form, "{}");
    char **text = realloc(c->text, (size_t)(c->nb_texts + 1) * sizeof(*text));
    c->text = text ? text : c->text;
    int *of = realloc(c->class_of, (size_t)(c->nb_texts + 1) * sizeof(*of));
    c->class_of = of ? of : c->class_of;
    if (!text || !of)
        return TACHY_ERR_NOMEM;
    text[c->nb_texts] = tachy_asprintf("%.*s%s%s", (int)(hole - form), form, phrase, hole + 2);
    of[c->nb_texts] = c->nb - 1;
    return text[c->nb_texts] ? (c->nb_texts++, TACHY_OK) : TACHY_ERR_NOMEM;
}

static int add_phrase(struct tachy_categories *c, json_t *templates, const char *phrase)
{
    json_t *form;
    size_t i;
    int err = json_array_size(templates) ? TACHY_OK : add_text(c, "a photo of a {}.", phrase);
    json_array_foreach(templates, i, form)
        if (err == TACHY_OK)
            err = add_text(c, json_string_value(form), phrase);
    return err;
}

static int add_class(struct tachy_categories *c, json_t *templates, const char *name, json_t *phrases)
{
    char **names = realloc(c->name, (size_t)(c->nb + 1) * sizeof(*names));
    json_t *phrase;
    size_t i;
    if (!names || (c->name = names, !(names[c->nb] = strdup(name))))
        return TACHY_ERR_NOMEM;
    c->nb++;
    int err = json_array_size(phrases) ? TACHY_OK : add_phrase(c, templates, name);
    json_array_foreach(phrases, i, phrase)
        if (err == TACHY_OK)
            err = add_phrase(c, templates, json_string_value(phrase));
    return err;
}

static bool are_texts(const json_t *list)
{
    json_t *v;
    size_t i;
    json_array_foreach(list, i, v)
        if (!json_is_string(v) || !json_string_length(v))
            return false;
    return json_is_array(list);
}

static int check(json_t *o, const char *path, const struct tachy_log *log)
{
    json_t *classes = json_object_get(o, "classes"), *templates = json_object_get(o, "templates"), *v;
    const char *key;
    size_t i, texts = 0;
    json_object_foreach(o, key, v)
        if (strcmp(key, "classes") && strcmp(key, "templates"))
            return tachy_fail(log, TACHY_ERR_FORMAT, "%s: `%s` is not known; there are `classes` and `templates` (docs/categorize.md)", path, key);
    if (!json_is_object(classes) || !json_object_size(classes))
        return bad(log, path, "`classes` must be an object: a name, and a list of phrases for it, which may be empty");
    json_object_foreach(classes, key, v) {
        if (!*key || !are_texts(v))
            return tachy_fail(log, TACHY_ERR_FORMAT, "%s: `classes.%s` must be a list of phrases, [] for its name alone", path, key);
        texts += TACHY_MAX(json_array_size(v), 1);
    }
    if (templates && (!are_texts(templates) || !json_array_size(templates)))
        return bad(log, path, "`templates` must be a list of texts, as [\"a photo of a {}.\"]");
    json_array_foreach(templates, i, v)
        if (!strstr(json_string_value(v), "{}"))
            return tachy_fail(log, TACHY_ERR_FORMAT, "%s: the template \"%.80s\" has no {} for the phrase", path, json_string_value(v));
    if (json_object_size(classes) > MOST_CLASSES || texts * TACHY_MAX(json_array_size(templates), 1) > MOST_TEXTS)
        return bad(log, path, "has more than 10000 classes or 200000 texts");
    return TACHY_OK;
}

// A name a line as what check() takes.
static json_t *from_lines(char *text)
{
    json_t *classes = json_object();
    bool good = classes;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        line[strcspn(line, "\r")] = '\0';
        line += strspn(line, " \t");
        if (*line && *line != '#')
            good = !json_object_set_new(classes, line, json_array()) && good;
    }
    if (good)
        return json_pack("{s:o}", "classes", classes);
    json_decref(classes);
    return NULL;
}

int tachy_categories_read(struct tachy_categories *c, const char *path, const struct tachy_log *log)
{
    const char *name;
    char *text;
    size_t size;
    json_error_t at;
    memset(c, 0, sizeof(*c));
    int err = tachy_read_file(path, MOST_BYTES, &text, &size, log);
    if (err < 0)
        return err;
    bool json = text[strspn(text, " \t\r\n")] == '{';
    json_t *o = json ? json_loadb(text, size, JSON_REJECT_DUPLICATES, &at) : from_lines(text);
    if (!o)
        err = json ? tachy_fail(log, TACHY_ERR_FORMAT, "%s:%d: is not valid JSON: %s", path, at.line, at.text)
                   : bad(log, path, "is no UTF-8 text with a class a line");
    else
        err = check(o, path, log);
    json_t *phrases;
    if (err == TACHY_OK)
        json_object_foreach(json_object_get(o, "classes"), name, phrases)
            if (err == TACHY_OK)
                err = add_class(c, json_object_get(o, "templates"), name, phrases);
    json_decref(o);
    tachy_free(text);
    if (err < 0)
        tachy_categories_free(c);
    return err;
}

void tachy_categories_free(struct tachy_categories *c)
{
    for (int i = 0; i < c->nb; i++)
        free(c->name[i]);
    for (int i = 0; i < c->nb_texts; i++)
        free(c->text[i]);
    free(c->name);
    free(c->text);
    free(c->class_of);
    memset(c, 0, sizeof(*c));
}
