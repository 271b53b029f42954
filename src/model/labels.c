#include "model/labels.h"

#include "base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { MOST = 65536, MOST_BYTES = 16 << 20 };

void tachy_labels_free(struct tachy_labels *l)
{
    free(l->v);
    free(l->text);
    *l = (struct tachy_labels){0};
}

static int read_text(struct tachy_labels *l, const char *path, const struct tachy_log *log)
{
    FILE *f;
    uint64_t size;
    int err = tachy_open_regular(&f, path, &size, log);
    if (err < 0)
        return err;
    l->text = size <= MOST_BYTES ? malloc((size_t)size + 1) : NULL;
    size_t n = l->text ? fread(l->text, 1, (size_t)size, f) : 0;
    fclose(f);
    if (!l->text)
        return size <= MOST_BYTES ? TACHY_ERR_NOMEM
                                  : tachy_fail(log, TACHY_ERR_FORMAT, "%s: over 16 MiB; this is no list of names", path);
    l->text[n] = '\0';
    return TACHY_OK;
}

// Cuts the text into lines.
static int split(struct tachy_labels *l)
{
    for (char *at = l->text, *end; at; at = end) {
        if (l->nb == MOST)
            return TACHY_ERR_FORMAT;
        l->v[l->nb++] = at;
        end = strchr(at, '\n');
        if (end)
            *end++ = '\0';
        size_t n = strlen(at);
        if (n && at[n - 1] == '\r')
            at[n - 1] = '\0';
    }
    while (l->nb && !*l->v[l->nb - 1])
        l->nb--;
    return l->nb ? TACHY_OK : TACHY_ERR_FORMAT;
}

int tachy_labels_read(struct tachy_labels *l, const char *path, const struct tachy_log *log)
{
    *l = (struct tachy_labels){.v = calloc(MOST, sizeof(*l->v))};
    int err = l->v ? read_text(l, path, log) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && (err = split(l)) < 0)
        tachy_fail(log, err, "%s: must have a class name in each line, 1 to %d of them", path, MOST);
    if (err < 0)
        tachy_labels_free(l);
    return err;
}

// ---- Choices

void tachy_classes_free(struct tachy_classes *c)
{
    free(c->id);
    *c = (struct tachy_classes){0};
}

bool tachy_classes_have(const struct tachy_classes *c, int id)
{
    int i = 0;
    while (i < c->nb && c->id[i] != id)
        i++;
    return i < c->nb;
}

// Number of the class that n letters name; -1: none.
static int class_of(const char *name, size_t n, const char *const *labels, int nb_labels)
{
    for (int i = 0; i < nb_labels; i++)
        if (!strncasecmp(labels[i], name, n) && !labels[i][n])
            return i;
    char *end;
    long id = strtol(name, &end, 10);
    return end == name + n && n && id >= 0 && id < MOST ? (int)id : -1;
}

int tachy_classes_read(struct tachy_classes *c, const char *text, const char *const *labels, int nb_labels,
                       const struct tachy_log *log)
{
    *c = (struct tachy_classes){0};
    if (!text || !*text)
        return TACHY_OK;
    c->id = calloc(strlen(text) + 1, sizeof(*c->id));
    if (!c->id)
        return TACHY_ERR_NOMEM;
    for (const char *at = text, *end; at; at = *end ? end + 1 : NULL) {
        at += strspn(at, " ");
        end = at + strcspn(at, ",");
        int id = class_of(at, (size_t)(end - at), labels, nb_labels);
        if (id < 0) {
            tachy_classes_free(c);
            return tachy_fail(log, TACHY_ERR_INVAL,
                              "classes: the model has no class \"%.*s\"%s%s; give names of its card or numbers from 0",
                              (int)(end - at), at, nb_labels ? ", its first is " : "", nb_labels ? labels[0] : "");
        }
        c->id[c->nb++] = id;
    }
    return TACHY_OK;
}
