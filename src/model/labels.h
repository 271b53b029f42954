#pragma once
#include "base/base.h"

// Names of classes, and choices among them.

struct tachy_labels { // {0}: none
    const char **v;
    int nb;
    char *text; // that the names lie in
};
// A file with a name in each line; empty lines at the end do not count. TACHY_ERR_NOT_FOUND, TACHY_ERR_IO,
// TACHY_ERR_FORMAT: no line, or over 65536; all logged, and *l is none then.
int tachy_labels_read(struct tachy_labels *l, const char *path, const struct tachy_log *log);
void tachy_labels_free(struct tachy_labels *l);

struct tachy_classes { // {0}: all
    int *id;
    int nb;
};
// "person,car" or "0,2": names in capitals or not, numbers from 0; NULL and "": all. TACHY_ERR_INVAL, logged: a name that
// is not among the labels; *c is all then.
int tachy_classes_read(struct tachy_classes *c, const char *text, const char *const *labels, int nb_labels,
                       const struct tachy_log *log);
bool tachy_classes_have(const struct tachy_classes *c, int id);
void tachy_classes_free(struct tachy_classes *c);
