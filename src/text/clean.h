#pragma once
#include "base/base.h"

// Normalises text as CLIP's training did, before OpenAI's and open_clip's tokenizers split it into tokens: the default
// repairs of the Python package ftfy (ligatures, full-width forms, curly quotes, control characters, HTML entities,
// normalization form C), HTML entities twice more, white space collapsed to one space, lower case. Not repaired: text
// that was decoded in the wrong encoding ("â€™").

// UTF-8 to UTF-8; bytes that are none become U+FFFD. TACHY_ERR_NOMEM; *out is for free().
int tachy_text_clean(char **out, const char *text);

// A named character of HTML without its "&"; the table is made by make_entities.py and sorted by the names' bytes.
struct text_entity {
    const char *name, *text;
    bool capital; // it is no name of HTML: a lower case name in capitals
};
extern const struct text_entity text_entities[];
extern const int text_nb_entities;
