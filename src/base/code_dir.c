#include "base/code_dir.h"

#include "base/base.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>

char *tachy_code_dir(void)
{
    Dl_info info;
    // Any address of this library's own code will do.
    if (!dladdr((void *)(uintptr_t)tachy_code_dir, &info) || !info.dli_fname)
        return NULL;
    char *path = realpath(info.dli_fname, NULL);
    char *slash = path ? strrchr(path, '/') : NULL;
    if (!slash) {
        free(path);
        return NULL;
    }
    slash[slash == path] = '\0'; // "/" stays
    return path;
}

char *tachy_deps_dir(void)
{
    const char *asked = getenv("TACHY_DEPS");
    char *dir = NULL;
    if (asked && asked[0]) {
        dir = tachy_asprintf("%s", asked);
    } else {
        char *code = tachy_code_dir();
        dir = code ? tachy_asprintf("%s/../.deps", code) : NULL;
        free(code);
    }
    struct stat st;
    if (dir && (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode))) {
        free(dir);
        dir = NULL;
    }
    return dir;
}
