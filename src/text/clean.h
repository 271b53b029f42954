#pragma once
#include "base/base.h"

// Text as CLIP's training saw it: what OpenAI's and open_clip's tokenizers do before they cut a text into tokens. Repairs that
// the Python package ftfy makes by default (ligatures, full-width forms, curly quotes, control characters, HTML's entities,
// normalization form C), HTML's entities twice more, runs of white space as one blank, lower case. Left out: text that was
// decoded in the wrong encoding ("â€™") stays as it is.

// UTF-8 to UTF-8; bytes that are none become U+FFFD. TACHY_ERR_NOMEM; *out is for free().
int tachy_text_clean(char **out, const char *text);

// A named character of HTML without its "&"; the table is made by make_entities.py and sorted by the names' bytes.
struct text_entity {
    const char *name, *text;
    bool capital; // it is no name of HTML: a lower case name in capitals
};
extern const struct text_entity text_entities[];
extern const int text_nb_entities;
