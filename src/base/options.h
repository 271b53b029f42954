#pragma once
#include <tachy/settings.h>

// Tables of options. Each part has its own rows beside it (source_options.c, segment_rows.c, ...), and src/job joins
// them into the one table of <tachy/settings.h>. A table ends with {0}.

#define TACHY_KEYS(...) (const struct tachy_key[]){__VA_ARGS__, {0}}
#define TACHY_KEY(p) {.path = p}
#define TACHY_SWITCH(p, y, n) {.path = p, .yes = y, .no = n}

enum {
    TACHY_THREADS_MAX = 256,
    TACHY_OPTIONS_MAX = 512, // rows of the joined table
};

extern const struct tachy_option tachy_command_options[]; // that the command reads, not a job
extern const struct tachy_option tachy_planned_options[]; // whose part is not built yet

// True if `word` is one of "a|b|c"; `words` may be NULL.
bool tachy_word_in(const char *words, const char *word);
int tachy_word_at(const char *words, const char *word); // its number there, from 0; -1: it is not one

// Rows without the end.
size_t tachy_option_count(const struct tachy_option *table);

// Row with this dotted path, -1: none. Rows are numbered in the order of the table.
int tachy_option_index(const struct tachy_option *table, const char *path);

// The option as written on a command line: "-crf", "--threshold"; its path if it has no name. May return `buf`.
const char *tachy_option_shown(const struct tachy_option *o, char *buf, size_t size);

// Row of a key of a configuration file: its path or another key. *key: the latter's entry, NULL
// for the path itself. NULL: no row.
const struct tachy_option *tachy_option_by_key(const struct tachy_option *table, const char *path,
                                               const struct tachy_key **key);

// As tachy_option_find() and tachy_option_lookup().
const struct tachy_option *tachy_option_find_in(const struct tachy_option *table, const char *name,
                                                const char **nearest);
const struct tachy_option *tachy_option_lookup_in(const struct tachy_option *table, const char *name,
                                                  const char **nearest);

// How specific the section of a key is: if several keys name one option, a higher one wins.
int tachy_option_order(const char *key);

// True for a path that keys lie below: "output", "pipeline.stages".
bool tachy_option_is_section(const struct tachy_option *table, const char *path);

// Closest path for an unknown key of a configuration file; a command-line name gives the path
// of its row. NULL: none is near.
const char *tachy_option_nearest_path(const struct tachy_option *table, const char *key);

// Settings of a table with their defaults. Errors are logged; then *out is NULL.
int tachy_settings_new_of(tachy_settings **out, const struct tachy_option *table, const struct tachy_log *log);

// Adds to a list, wherever its items came from. TACHY_ERR_NOMEM.
int tachy_settings_append(tachy_settings *s, const char *path, const char *text);

const struct tachy_option *tachy_settings_options(const tachy_settings *s); // the table
const struct tachy_log *tachy_settings_log(const tachy_settings *s);

// True if tachy_settings_set() gave the value in force: a person or a program asked for it by name, not a file, preset
// or default.
bool tachy_settings_by_name(const tachy_settings *s, const char *path);

// The option of a task that accepts sound as its only input. Every job has the row, since every source reads it.
#define TACHY_SOUND_OPTION                                                                                                     \
    {"animation.audio", "audio", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Animation",                                     \
     .help = "the portrait says what is heard in this file, without an input: its sound moves the mouth and is in the output; 25 " \
             "frames a second or --rate"}
