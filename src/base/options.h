#pragma once
#include <tachy/settings.h>

// Rows of the table without its end.
size_t tachy_option_count(void);

// Row with this dotted path, -1: none. Rows are numbered in the order of the table.
int tachy_option_index(const char *path);

// How the option is written on a command line: "-crf", "--threshold"; its path where it has
// no name. `buf` may be what is returned.
const char *tachy_option_shown(const struct tachy_option *o, char *buf, size_t size);

// Row of a key of a configuration file: its path or another key. *key: the latter's entry, NULL
// for the path itself. NULL: no row.
const struct tachy_option *tachy_option_by_key(const char *path, const struct tachy_key **key);

// How special the section of a key is: where several keys name one option, a higher one wins.
int tachy_option_order(const char *key);

// True for a path that keys lie below: "output", "pipeline.stages".
bool tachy_option_is_section(const char *path);

// Closest path for an unknown key of a configuration file; a command-line name gives the path
// of its row. NULL: none is near.
const char *tachy_option_nearest_path(const char *key);
