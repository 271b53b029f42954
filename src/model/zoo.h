#pragma once
#include "model/card.h"

// The zoo: cards that are built in, and the user's own in the model folder.

struct zoo_builtin {
    const char *name; // NULL ends the list
    const char *text; // JSON
};
extern const struct zoo_builtin zoo_builtins[]; // made by embed_cards.py

// The model folder: `dir`, else $TACHY_MODELS, else <user's data>/models. Created if it is one of ours. NULL: none
// found. Free with tachy_free().
char *zoo_dir(const char *dir);

// The card of this name. TACHY_ERR_NOT_FOUND names the nearest and the folder looked in.
int zoo_find(struct card_doc **out, const char *name, const char *dir, const struct tachy_log *log);

// The built-in card of a task with the largest input among those whose files are in `dir` (NULL: none is); if there are
// none, among all. Static.
const char *zoo_best(const char *task, const char *dir);

// Downloads a file of the card into `path` inside `dir`, from the first source that works. Written under a temporary
// name and renamed after its digest is checked.
int zoo_fetch(const struct card_doc *doc, enum card_file_kind kind, const char *dir, const char *path, const struct tachy_log *log);

// The file of this kind that the card names, there or not, to be freed; NULL: it names none, or out of memory.
char *tachy_model_file(const tachy_model *m, enum card_file_kind kind);

// Where another file of a model's card is, of a network or a vocabulary: beside the model, else in the model folder. `verify`: its
// digest is checked, else the size alone. *path is for free(). TACHY_ERR_NOT_FOUND: the message names the command that gets it, or
// the card has none; TACHY_ERR_DIGEST.
int tachy_model_part(const tachy_model *m, enum card_file_kind kind, bool verify, char **path, const struct tachy_log *log);
