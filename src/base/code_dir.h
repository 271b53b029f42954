#pragma once

// Location of this library and of files installed beside it.

// Folder of the file that holds the library's code: libtachy.so, or the program that it is linked into. NULL if it
// cannot be found. Free with tachy_free().
char *tachy_code_dir(void);

// Folder with lib/, wheels/ and venv/ that tools/setup downloaded: $TACHY_DEPS, else <code dir>/../.deps. NULL if there
// is no such folder. Free with tachy_free().
char *tachy_deps_dir(void);
