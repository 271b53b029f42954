#pragma once
#include <stdbool.h>
#include <stdio.h>
#include <tachy/common.h>

// Whether `path` is there but lies neither in the folder of the file `file` nor below it, once symbolic links are
// followed: what a file that somebody sent must not name. False where it is not there.
bool tachy_path_outside(const char *path, const char *file);

// Opens a regular file to read and gives its size; *out is the caller's, for fclose(). Does not wait, as opening a named
// pipe would. TACHY_ERR_NOT_FOUND, TACHY_ERR_IO, logged; *out is NULL then.
int tachy_open_regular(FILE **out, const char *path, uint64_t *size, const struct tachy_log *log);
