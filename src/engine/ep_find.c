#include "engine/ep.h"

#include "base/code_dir.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Our own provider's library.

#define NAME "libtachy_ep.so"

struct find {
    char tried[600]; // names, or "NAME: WHY" if there is such a file and it is no good
    char *path;
    const struct tachy_ep_table *table;
};

static void note(struct find *f, const char *text)
{
    size_t used = strlen(f->tried);
    snprintf(f->tried + used, sizeof(f->tried) - used, "%s%s", used ? ", " : "", text);
}

static void note_why(struct find *f, const char *path, const char *why)
{
    char *text = tachy_asprintf("%s: %s", path, why ? why : "it cannot be loaded");
    note(f, text ? text : path);
    free(text);
}

// The library stays in the process: plans are code of it, and ONNX Runtime opens it as well.
static bool try_path(struct find *f, const char *path)
{
    if (access(path, F_OK) != 0) {
        note(f, path);
        return false;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        note_why(f, path, dlerror());
        return false;
    }
    const struct tachy_ep_table *table = dlsym(handle, "tachy_ep_table");
    if (!table || table->version != TACHY_EP_TABLE_VERSION) {
        note_why(f, path, table ? "it belongs to another version" : "it is not our provider");
        dlclose(handle);
        return false;
    }
    f->path = strdup(path);
    f->table = table;
    return f->path;
}

// Installed beside the library, or beside a program that contains the library; or in a build folder.
static bool search(struct find *f)
{
    static const char *const below[] = {"tachy/", "", "../lib/tachy/", "src/provider/"};
    char *code = tachy_code_dir();
    bool found = false;
    for (size_t i = 0; code && i < TACHY_ARRAY_SIZE(below) && !found; i++) {
        char *path = tachy_asprintf("%s/%s%s", code, below[i], NAME);
        found = path && try_path(f, path);
        free(path);
    }
    free(code);
    return found;
}

int tachy_ep_find(char **path, const struct tachy_ep_table **table, const char *library,
                  const struct tachy_log *log)
{
    struct find f = {0};
    const char *asked = library ? library : getenv("TACHY_EP");
    bool found = asked && asked[0] ? try_path(&f, asked) : search(&f);
    *path = f.path;
    *table = f.table;
    if (found)
        return TACHY_OK;
    if (asked && asked[0])
        return tachy_fail(log, TACHY_ERR_UNAVAILABLE, "engine tachy: " NAME " was not found (tried %s)", f.tried);
    tachy_msg(log, TACHY_LOG_VERBOSE, "engine tachy: tried %s", f.tried);
    return tachy_fail(log, TACHY_ERR_UNAVAILABLE, NAME " was not found beside libtachy.so; $TACHY_EP can name it");
}
