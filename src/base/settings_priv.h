#pragma once
#include <tachy/settings.h>

// What settings.c and settings_yaml.c share.

enum tachy_rank { TACHY_RANK_DEFAULT, TACHY_RANK_FILE, TACHY_RANK_SET }; // a higher one wins

// One value: its text and what that means by the row's type.
struct tachy_value {
    enum tachy_rank rank;
    bool present;
    char *text;   // NULL for lists and where absent
    char *origin; // NULL: "default"
    bool on;
    int64_t integer;
    double number;
    struct tachy_rational rate;
    uint32_t color;
    char **items; // lists; a NULL follows the last
    size_t count;
};

struct tachy_settings {
    const struct tachy_log *log;
    struct tachy_value values[]; // one a row of the table
};

void tachy_value_clear(struct tachy_value *v);

// Reads `text` by the row's type; for lists it adds an item. On failure `v` is unchanged and
// `why` (may be NULL after TACHY_ERR_NOMEM) receives the rest of a sentence that starts with
// the option's name: `"x" is not a number from 0 to 1`. Free with tachy_free().
int tachy_value_parse(const struct tachy_option *o, const char *text, struct tachy_value *v,
                      char **why);
