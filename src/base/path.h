#pragma once
#include <stdbool.h>

// Whether `path` is there but lies neither in the folder of the file `file` nor below it, once symbolic links are
// followed: what a file that somebody sent must not name. False where it is not there.
bool tachy_path_outside(const char *path, const char *file);
