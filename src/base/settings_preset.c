#include "base/base.h"
#include "base/options.h"
#include "base/code_dir.h"
#include "base/settings_priv.h"

#include <stdlib.h>
#include <unistd.h>

// Presets are files of their own, configs/NAME.yaml, so that people can read and copy them.

// Their folders relative to the library: in the build folder, and installed (the library's folder below lib/ may carry
// the machine's name).
static const char *const places[] = {"configs", "../share/tachy/configs",
                                     "../../share/tachy/configs"};

static char *find_preset(const char *name)
{
    char *dir = tachy_code_dir(), *path = NULL;
    const char *asked = getenv("TACHY_CONFIGS");
    if (asked && *asked)
        path = tachy_asprintf("%s/%s.yaml", asked, name);
    for (size_t i = 0; dir && !path && i < TACHY_ARRAY_SIZE(places); i++) {
        path = tachy_asprintf("%s/%s/%s.yaml", dir, places[i], name);
        if (path && access(path, R_OK) != 0) {
            free(path);
            path = NULL;
        }
    }
    free(dir);
    return path;
}

int tachy_settings_preset(tachy_settings *s, const char *name)
{
    char *path = find_preset(name);
    if (!path)
        return tachy_fail(s->log, TACHY_ERR_NOT_FOUND,
                          "the preset %s is not there: configs/%s.yaml was found neither beside "
                          "the library nor in share/tachy/configs; install tachy whole, or name "
                          "the folder in $TACHY_CONFIGS",
                          name, name);
    int err = tachy_settings_load_as(s, path, name, TACHY_RANK_PRESET);
    free(path);
    return err;
}
