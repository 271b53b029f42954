#pragma once
#include <tachy/settings.h>

// Shared by settings.c and settings_yaml.c.

// Origin of a value; a higher one wins. Files count up from TACHY_RANK_FILE.
enum { TACHY_RANK_DEFAULT, TACHY_RANK_PRESET, TACHY_RANK_FILE, TACHY_RANK_SET = 1 << 30 };

#define TACHY_PROFILE "run.profile" // the row that names a preset

// One value: its text and what that means by the row's type.
struct tachy_value {
    int rank; // TACHY_RANK_*
    bool present;
    char *text;   // NULL for lists and where absent
    char *origin; // NULL: "default"
    bool on;
    int64_t integer;
    double number;
    struct tachy_rational rate;
    uint32_t color;
    int width, height;
    char **items; // lists; a NULL follows the last
    size_t count;
};

struct tachy_settings {
    const struct tachy_log *log;
    const char *section; // tachy_settings_for(); NULL: none
    const struct tachy_option *options; // the table; static
    size_t nb_options;
    int files;           // read so far
    bool *warned;        // one per row: that its part is not built yet was said
    struct tachy_value values[]; // one a row of the table
};

void tachy_value_clear(struct tachy_value *v);

// Reads `text` by the type of the row, and by `key` (another key of it; NULL: its path), which may take yes or no; for lists it adds an item. On failure `v` is unchanged and
// `why` (may be NULL after TACHY_ERR_NOMEM) receives the rest of a sentence that starts with
// the option's name: `"x" is not a number from 0 to 1`. Free with tachy_free().
int tachy_value_parse_key(const struct tachy_option *o, const struct tachy_key *key,
                          const char *text, struct tachy_value *v, char **why);
bool tachy_value_equal(const struct tachy_option *o, const struct tachy_value *a,
                       const struct tachy_value *b);

// Logs once that the option `name` (as the user wrote it) has no effect yet, if so.
void tachy_settings_warn_planned(tachy_settings *s, const struct tachy_option *o, const char *name,
                                 const char *origin);

// settings_preset.c: takes in the file of this preset, instead of that of an earlier one. Nothing
// changes on failure.
int tachy_settings_preset(tachy_settings *s, const char *name);
// settings_yaml.c: reads a file at a rank; `preset` (NULL: none): shown in the origins.
int tachy_settings_load_as(tachy_settings *s, const char *yaml_path, const char *preset, int rank);
// settings.c
int tachy_settings_reset(tachy_settings *s, size_t row); // to the default
