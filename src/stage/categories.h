#pragma once
#include "base/base.h"

// Classes that are told by texts: names, and for each the texts that describe it.

struct tachy_categories { // {0}: none
    char **name;
    int nb;
    char **text;  // of all classes
    int *class_of; // of each text; ascending
    int nb_texts;
};

// Reads a file with one name per line, or JSON (docs/categorize.md): an object with `classes`, which maps names to
// lists of phrases, and `templates`, in which {} stands for a phrase. TACHY_ERR_NOT_FOUND, TACHY_ERR_IO,
// TACHY_ERR_FORMAT; logged, and *c is empty.
int tachy_categories_read(struct tachy_categories *c, const char *path, const struct tachy_log *log);
void tachy_categories_free(struct tachy_categories *c);
