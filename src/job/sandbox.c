#include "base/landlock.h"
#include "base/options.h"
#include "base/path.h"
#include "base/code_dir.h"
#include "base/seccomp.h"
#include "model/zoo.h"
#include "source/source_ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tachy/sandbox.h>

// Settings under which a job leaves this machine, the CPU or the code that is built in.
static const struct {
    const char *path, *allowed; // values, with | between them; "": none
    const char *why;
} limits[] = {
    {"gpu.device", "auto|cpu", "works on the CPU"},
    {"gpu.ids", "", "works on the CPU"},
    {"pipeline.stages.decode.device", "auto|cpu", "works on the CPU"},
    {"output.encoder", "auto|cpu", "works on the CPU"},
    {"model.provider", "auto|tachy|cpu|null", "loads no plugins"},
    {"metrics.address", "", "opens no sockets"},
    {"run.interactive", "no", "has no prompt, which reads files of its own"},
    {"run.calibrate", "no", "cannot measure steps alone, which takes files of its own"},
};

// Files that libraries read: for loading, the number of cores, and the machine's load.
static const char *const system_files[] = {
    "/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime",
    "/dev/null", "/dev/urandom", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/pressure",
    "/sys/devices/system", "/sys/fs/cgroup",
};

static int check_settings(const tachy_settings *s, const struct tachy_log *log)
{
    const char *const *options, *const *stages;
    char shown[64];
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(limits); i++) {
        const char *value = tachy_settings_str(s, limits[i].path);
        const struct tachy_option *o = tachy_option_find(limits[i].path, NULL);
        if (value && !tachy_word_in(limits[i].allowed, value))
            return tachy_fail(log, TACHY_ERR_INVAL, "--sandbox %s; leave %s%s%s out", limits[i].why,
                              tachy_option_shown(o, shown, sizeof(shown)), o->type == TACHY_OPT_BOOL ? "" : " ",
                              o->type == TACHY_OPT_BOOL ? "" : value);
    }
    size_t n = tachy_settings_list(s, "model.provider_options", &options);
    for (size_t i = 0; i < n; i++)
        if (!strncmp(options[i], "library=", 8))
            return tachy_fail(log, TACHY_ERR_INVAL, "--sandbox loads no plugins; leave the provider option %s out",
                              options[i]);
    n = tachy_settings_list(s, "task.stages", &stages);
    for (size_t i = 0; i < n; i++)
        if (strchr(stages[i], '/'))
            return tachy_fail(log, TACHY_ERR_INVAL, "--sandbox loads no plugins; leave --stage %s out", stages[i]);
    const char *name = tachy_settings_str(s, "model.name");
    if (tachy_settings_str(s, "model.card") && !(name && strchr(name, '/')))
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "--sandbox opens the files that are named, not those that a card names; add --model "
                          "FOLDER/FILE.onnx");
    return TACHY_OK;
}

static int allow_input(struct tachy_landlock *l, const char *url)
{
    char *path;
    int err = tachy_source_reads(url, &path);
    if (err == TACHY_ERR_UNSUPPORTED)
        return tachy_fail(l->log, TACHY_ERR_INVAL, "--sandbox is for local input, and %s is neither a file nor a pipe",
                          url);
    if (err == TACHY_OK && path)
        err = tachy_landlock_read(l, path);
    free(path);
    return err;
}

// A folder above the home folder, or itself: whoever writes there has the user's account tomorrow.
static bool holds_home(const char *folder)
{
    const char *named = getenv("HOME");
    char *home = named && *named ? realpath(named, NULL) : NULL;
    size_t n = strlen(folder);
    bool holds = home && (!strcmp(folder, "/") || (!strncmp(home, folder, n) && (!home[n] || home[n] == '/')));
    free(home);
    return holds;
}

// The folder that a file of this name is made in, links followed. NULL with errno: there is none.
static char *folder_of(const char *name)
{
    char *path = realpath(name, NULL), *parent = NULL;
    struct stat st;
    if (path && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return path;
    const char *from = path ? path : name, *slash = strrchr(from, '/');
    char *cut = slash ? strndup(from, (size_t)(slash - from) + 1) : strdup(".");
    parent = cut ? realpath(cut, NULL) : NULL;
    free(cut);
    free(path);
    return parent;
}

static int allow_output(struct tachy_landlock *l, const char *url)
{
    const char *name = tachy_path_local(url);
    struct stat st;
    if (!strcmp(name, "-") || !strncmp(name, "pipe:", 5))
        return TACHY_OK;
    if (tachy_path_is_shown(url))
        return tachy_fail(l->log, TACHY_ERR_INVAL, "--sandbox opens no sockets, which %s is shown by; name a file or a pipe", url);
    if (name == url && strstr(url, "://"))
        return tachy_fail(l->log, TACHY_ERR_INVAL, "--sandbox opens no sockets; name a file or a pipe instead of %s", url);
    if (stat(name, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return tachy_landlock_write_file(l, name);
    char *folder = folder_of(name);
    if (!folder)
        return tachy_fail(l->log, tachy_err_from_errno(errno), "%s: its folder cannot be used: %s", name,
                          strerror(errno));
    int err = holds_home(folder)
                  ? tachy_fail(l->log, TACHY_ERR_INVAL,
                               "--sandbox opens an output's folder for writing, and that of %s is %s, where the home "
                               "folder's start-up files lie; name a file in a folder of its own with -o",
                               name, folder)
                  : tachy_landlock_write(l, folder);
    free(folder);
    return err;
}

// `dir`/`name`; takes `dir`, which may be NULL.
static int allow_below(struct tachy_landlock *l, char *dir, const char *name)
{
    char *path = dir ? tachy_asprintf("%s/%s", dir, name) : NULL;
    int err = !dir ? TACHY_OK : path ? tachy_landlock_read(l, path) : TACHY_ERR_NOMEM;
    free(path);
    free(dir);
    return err;
}

// ONNX Runtime and our provider, wherever they are looked for.
static int allow_libraries(struct tachy_landlock *l, const tachy_settings *s)
{
    static const char *const of_code[] = {
        "tachy", "../lib/tachy", "src/provider", "libtachy_ep.so", "libonnxruntime.so", "libonnxruntime.so.1"};
    const char *named[] = {getenv("TACHY_ORT"), getenv("TACHY_EP"), s ? tachy_settings_str(s, "model.library") : NULL};
    int err = TACHY_OK;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(of_code) && err == TACHY_OK; i++)
        err = allow_below(l, tachy_code_dir(), of_code[i]);
    if (err == TACHY_OK)
        err = allow_below(l, tachy_deps_dir(), "lib");
    if (err == TACHY_OK)
        err = allow_below(l, tachy_data_dir(), "lib");
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(named) && err == TACHY_OK; i++)
        err = named[i] && *named[i] ? tachy_landlock_read(l, named[i]) : TACHY_OK;
    return err;
}

// Allows pictures among the mattes' bounds. An entry that is neither a picture nor a rectangle is an error when the
// task is opened.
static int allow_bounds(struct tachy_landlock *l, const tachy_settings *s)
{
    const char *const *items;
    int err = TACHY_OK;
    size_t n = tachy_settings_list(s, "segment.garbage_matte", &items);
    for (size_t i = 0; i < n && err == TACHY_OK; i++)
        err = access(tachy_path_local(items[i]), R_OK) == 0 ? allow_input(l, items[i]) : TACHY_OK;
    const char *plate = tachy_settings_str(s, "segment.plate");
    return err == TACHY_OK && plate ? allow_input(l, plate) : err;
}

// Its file, its card, and what else the folders of models and of kept results hold.
static int allow_model(struct tachy_landlock *l, const tachy_settings *s)
{
    const char *files[] = {tachy_settings_str(s, "model.name"), tachy_settings_str(s, "model.card"),
                           tachy_settings_str(s, "regions.labels")};
    int err = TACHY_OK;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(files) && err == TACHY_OK; i++) // a name without / is the zoo's
        err = files[i] && (i || strchr(files[i], '/')) ? tachy_landlock_read(l, files[i]) : TACHY_OK;
    if (err == TACHY_OK)
        err = allow_below(l, zoo_dir(tachy_settings_str(s, "model.dir")), "");
    char *cache = tachy_cache_dir(); // the engine store, and what calibration has measured
    if (err == TACHY_OK && cache && access(cache, W_OK) == 0)
        err = tachy_landlock_write(l, cache);
    tachy_free(cache);
    const char *behind = tachy_settings_str(s, "segment.background");
    const char *mode = tachy_settings_str(s, "segment.mode");
    bool file = behind && mode && !strcmp(mode, "replace") && !tachy_settings_color(s, "segment.background");
    if (err == TACHY_OK && file)
        err = allow_input(l, behind);
    return err == TACHY_OK ? allow_bounds(l, s) : err;
}

static int allow_all(struct tachy_landlock *l, const struct tachy_sandbox_params *p)
{
    int err = TACHY_OK;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(system_files) && err == TACHY_OK; i++)
        err = tachy_landlock_read(l, system_files[i]);
    for (size_t i = 0; i < p->nb_inputs && err == TACHY_OK; i++)
        err = allow_input(l, p->inputs[i]);
    for (size_t i = 0; i < p->nb_outputs && err == TACHY_OK; i++)
        err = allow_output(l, p->outputs[i]);
    if (err == TACHY_OK)
        err = allow_libraries(l, p->settings);
    return err == TACHY_OK && p->settings ? allow_model(l, p->settings) : err;
}

int tachy_sandbox_sized(size_t p_size, const struct tachy_sandbox_params *p)
{
    struct tachy_sandbox_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    struct tachy_landlock l;
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && (p->inputs || !p->nb_inputs) && (p->outputs || !p->nb_outputs)))
        return TACHY_ERR_INVAL;
    int err = p->settings ? check_settings(p->settings, p->log) : TACHY_OK;
    if (err < 0)
        return err;
    err = tachy_landlock_open(&l, p->log);
    if (err == TACHY_OK)
        err = allow_all(&l, p);
    if (err == TACHY_OK)
        err = tachy_landlock_enter(&l);
    tachy_landlock_close(&l);
    return err == TACHY_OK ? tachy_seccomp_enter(p->log) : err;
}
