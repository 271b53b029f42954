#pragma once
#include <tachy/settings.h>

// Rows of the table without its end.
size_t tachy_option_count(void);

// Row with this dotted path, -1: none. Rows are numbered in the order of the table.
int tachy_option_index(const char *path);

// How the option is written on a command line: "-crf", "--threshold"; its path where it has
// no name. `buf` may be what is returned.
const char *tachy_option_shown(const struct tachy_option *o, char *buf, size_t size);

// Closest path for an unknown key of a configuration file; a command-line name gives the path
// of its row. NULL: none is near.
const char *tachy_option_nearest_path(const char *key);
