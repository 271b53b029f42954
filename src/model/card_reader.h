#pragma once
#include "model/card.h"

// Reading the keys of a card. Every reader does nothing once `err` is set, so that the first mistake is the one
// that is reported. A key that is missing or wrong gives a value that is safe to go on with.
struct card_reader {
    const char *origin;
    const char *section; // "", "input.", "sources[1]."
    const struct tachy_log *log;
    int err;
    json_t *root; // of the card; strings live as long
};

void card_bad(struct card_reader *r, const char *key, const char *fmt, ...) TACHY_PRINTF(3, 4);
// Refuses keys that mean nothing here: a misspelt key would silently leave its default.
void card_only(struct card_reader *r, json_t *o, const char *const *known, size_t n);
// Refuses what is left open ("" or null), as skeletons do, with the question that decides it.
void card_ask(struct card_reader *r, json_t *o, const char *key, const char *question);
json_t *card_object(struct card_reader *r, json_t *o, const char *key);
// `def` NULL: the key is required and not empty.
const char *card_text(struct card_reader *r, json_t *o, const char *key, const char *def);
// `def` below `lo`: required.
int card_whole(struct card_reader *r, json_t *o, const char *key, int lo, int hi, int def);
float card_number(struct card_reader *r, const char *key, json_t *v);
// Index in `names` (ends with NULL). `def` -1: required.
int card_choice(struct card_reader *r, json_t *o, const char *key, const char *const *names, int def);
// A number, or one for each channel; `def` if the key is absent.
void card_triple(struct card_reader *r, json_t *o, const char *key, float def, float out[3]);
// 64 lower-case hexadecimal digits.
const char *card_digest(struct card_reader *r, json_t *o, const char *key, const char *def);
// A name that is safe as a file name and as a command's argument.
const char *card_plain_name(struct card_reader *r, json_t *o, const char *key, bool lower);

// The array `outputs` (card_decoders.c).
void card_read_decoders(struct card_reader *r, json_t *list, struct card_doc *d);
