#include "engine/ep.h"

#include "base/base.h"
#include "base/code_dir.h"

#include <dlfcn.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Open libraries. They share the process: an environment is one a library by design of ONNX
// Runtime, so the list is process-wide and has a lock.
static struct tachy_ort *opened;
static pthread_mutex_t opened_lock = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local const struct tachy_log *thread_log;

const struct tachy_log *tachy_ort_log(const struct tachy_log *log)
{
    const struct tachy_log *before = thread_log;
    thread_log = log;
    return before;
}

static _Thread_local struct {
    void (*line)(void *user, const char *text);
    void *user;
} watch;

void tachy_ort_watch(void (*line)(void *user, const char *text), void *user)
{
    watch.line = line;
    watch.user = user;
}

static void ORT_API_CALL on_message(void *user, OrtLoggingLevel level, const char *category,
                                    const char *id, const char *where, const char *text)
{
    if (watch.line)
        watch.line(watch.user, text);
    tachy_msg(thread_log, level >= ORT_LOGGING_LEVEL_WARNING ? TACHY_LOG_VERBOSE : TACHY_LOG_DEBUG,
              "ONNX Runtime: %s (%s)", text, where);
}

static int code_of(OrtErrorCode code)
{
    switch (code) {
    case ORT_NO_SUCHFILE:
        return TACHY_ERR_NOT_FOUND;
    case ORT_NO_MODEL:
    case ORT_INVALID_PROTOBUF:
    case ORT_INVALID_GRAPH:
        return TACHY_ERR_FORMAT;
    case ORT_NOT_IMPLEMENTED:
        return TACHY_ERR_UNSUPPORTED;
    case ORT_INVALID_ARGUMENT:
        return TACHY_ERR_INVAL;
    default:
        return TACHY_ERR_EXTERNAL;
    }
}

int tachy_ort_check(const struct tachy_ort *ort, OrtStatus *status, const struct tachy_log *log,
                    const char *fmt, ...)
{
    if (!status)
        return TACHY_OK;
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    const char *text = ort->api->GetErrorMessage(status), *own = strstr(text, "[ONNXRuntimeError] : ");
    const char *ours = own ? strstr(own, " : tachy: ") : NULL;
    int err = code_of(ort->api->GetErrorCode(status)), code;
    // Our own provider's message comes wrapped in ONNX Runtime's error text.
    if (ours && sscanf(own, "[ONNXRuntimeError] : %d :", &code) == 1) {
        err = code_of((OrtErrorCode)code);
        tachy_msg(log, TACHY_LOG_ERR, "%s: %s", what, ours + 3);
    } else {
        tachy_msg(log, TACHY_LOG_ERR, "%s: ONNX Runtime says: %s", what, text);
    }
    ort->api->ReleaseStatus(status);
    return err;
}

// One search for a library: what was tried, for the message of a failure.
struct search {
    char tried[600];
    char too_old[200]; // "/usr/lib/libonnxruntime.so is 1.17.1"
    void *handle;
    const OrtApiBase *base;
    char *path;
};

static void note(struct search *s, const char *name)
{
    size_t used = strlen(s->tried);
    snprintf(s->tried + used, sizeof(s->tried) - used, "%s%s", used ? ", " : "", name);
}

// True if the runtime's version text, "1.31.1", offers the required API. Asking a library for an API that it lacks
// would make it print to standard error.
static bool new_enough(const char *version)
{
    int major = 0, minor = 0;
    return sscanf(version, "%d.%d", &major, &minor) == 2 &&
           (major > 1 || (major == 1 && minor >= TACHY_ORT_MINOR));
}

static bool try_library(struct search *s, const char *name)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    const char *why = handle ? NULL : dlerror();
    // "NAME: WHY" if there is such a file and it is no good.
    note(s, why && access(name, F_OK) == 0 ? why : name);
    if (!handle)
        return false;
    const OrtApiBase *(*get)(void) = NULL;
    *(void **)&get = dlsym(handle, "OrtGetApiBase");
    const OrtApiBase *base = get ? get() : NULL;
    const char *version = base ? base->GetVersionString() : NULL;
    if (!version || !new_enough(version) || !base->GetApi(TACHY_ORT_API)) {
        snprintf(s->too_old, sizeof(s->too_old), "%s is %s%s", name,
                 version ? "ONNX Runtime " : "not ONNX Runtime", version ? version : "");
        dlclose(handle);
        return false;
    }
    Dl_info info;
    bool known = dladdr((void *)(uintptr_t)get, &info) && info.dli_fname;
    s->handle = handle;
    s->base = base;
    s->path = tachy_asprintf("%s", known ? info.dli_fname : name);
    return true;
}

static bool try_folder(struct search *s, const char *dir, const char *below)
{
    static const char *const names[] = {"libonnxruntime.so", "libonnxruntime.so.1"};
    for (size_t i = 0; dir && i < TACHY_ARRAY_SIZE(names); i++) {
        char *name = tachy_asprintf("%s/%s%s", dir, below, names[i]);
        // The first name is tried in any case, so that a failure names the folder.
        bool ok = name && (access(name, F_OK) == 0 || i == 0) && try_library(s, name);
        free(name);
        if (ok)
            return true;
    }
    return false;
}

static bool search_everywhere(struct search *s)
{
    char *code = tachy_code_dir(), *deps = tachy_deps_dir(), *data = tachy_data_dir();
    bool ok = try_folder(s, code, "tachy/") || try_folder(s, deps, "lib/") ||
              try_folder(s, data, "lib/") || try_library(s, "libonnxruntime.so.1") ||
              try_library(s, "libonnxruntime.so");
    free(code);
    free(deps);
    free(data);
    return ok;
}

static int find_library(struct search *s, const char *library, const struct tachy_log *log)
{
    const char *asked = library ? library : getenv("TACHY_ORT");
    if (asked && asked[0] ? try_library(s, asked) : search_everywhere(s))
        return TACHY_OK;
    if (s->too_old[0])
        return tachy_fail(log, TACHY_ERR_UNAVAILABLE,
                          "%s, and ONNX Runtime 1.%d or newer is needed: ./tools/setup or `pip "
                          "download onnxruntime` gets one (tried %s)",
                          s->too_old, TACHY_ORT_MINOR, s->tried);
    return tachy_fail(log, TACHY_ERR_UNAVAILABLE,
                      "ONNX Runtime was not found: ./tools/setup or `pip download onnxruntime` gets "
                      "it; TACHY_ORT names its libonnxruntime.so (tried %s)",
                      s->tried);
}

static struct tachy_ort *find_opened(void *handle)
{
    for (struct tachy_ort *o = opened; o; o = o->next)
        if (o->handle == handle)
            return o;
    return NULL;
}

static int start(struct tachy_ort *ort, const struct tachy_log *log)
{
    OrtStatus *status = ort->api->CreateEnvWithCustomLogger(
        on_message, NULL, ORT_LOGGING_LEVEL_WARNING, "tachy", &ort->env);
    int err = tachy_ort_check(ort, status, log, "%s: cannot be started", ort->path);
    if (err)
        return err;
    status = ort->api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &ort->host);
    return tachy_ort_check(ort, status, log, "%s: cannot describe host memory", ort->path);
}

// Releases the contents of `ort`. The library itself stays in the process, whose threads or thread-local destructors
// might still need its code; only our reference to it goes.
static void destroy(struct tachy_ort *ort)
{
    if (ort->host)
        ort->api->ReleaseMemoryInfo(ort->host);
    if (ort->env)
        tachy_ep_unload(ort);
    if (ort->env)
        ort->api->ReleaseEnv(ort->env);
    free(ort->path);
    free(ort);
}

static int open_locked(struct tachy_ort **out, struct search *s, const struct tachy_log *log)
{
    struct tachy_ort *ort = find_opened(s->handle);
    if (ort) {
        dlclose(s->handle); // counted by the first
        ort->refs++;
        *out = ort;
        return TACHY_OK;
    }
    ort = calloc(1, sizeof(*ort));
    if (!ort)
        return TACHY_ERR_NOMEM;
    ort->api = s->base->GetApi(TACHY_ORT_API);
    ort->handle = s->handle;
    ort->path = s->path;
    s->path = NULL;
    snprintf(ort->version, sizeof(ort->version), "%s", s->base->GetVersionString());
    int err = start(ort, log);
    if (err < 0) {
        destroy(ort);
        return err;
    }
    ort->refs = 1;
    ort->next = opened;
    opened = ort;
    *out = ort;
    return TACHY_OK;
}

int tachy_ort_open(struct tachy_ort **out, const char *library, const struct tachy_log *log)
{
    struct search s = {0};
    *out = NULL;
    int err = find_library(&s, library, log);
    if (err < 0)
        return err;
    pthread_mutex_lock(&opened_lock);
    err = open_locked(out, &s, log);
    pthread_mutex_unlock(&opened_lock);
    free(s.path);
    return err;
}

void tachy_ort_close(struct tachy_ort **ort)
{
    struct tachy_ort *o = *ort;
    *ort = NULL;
    if (!o)
        return;
    pthread_mutex_lock(&opened_lock);
    if (--o->refs == 0) {
        struct tachy_ort **link = &opened;
        while (*link != o)
            link = &(*link)->next;
        *link = o->next;
        destroy(o);
    }
    pthread_mutex_unlock(&opened_lock);
}

static json_t *provider_names(const struct tachy_ort *ort)
{
    json_t *list = json_array();
    char **names = NULL;
    int n = 0;
    OrtStatus *status = ort->api->GetAvailableProviders(&names, &n);
    if (status) {
        ort->api->ReleaseStatus(status);
        return list;
    }
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_string(names[i]));
    status = ort->api->ReleaseAvailableProviders(names, n);
    if (status)
        ort->api->ReleaseStatus(status);
    return list;
}

// Our own provider's library; null if there is none.
static json_t *own_provider(void)
{
    const struct tachy_ep_table *table;
    char *path;
    json_t *o = tachy_ep_find(&path, &table, NULL, NULL) == TACHY_OK
                    ? json_pack("{s:s, s:s}", "path", path, "version", table->about())
                    : json_null();
    free(path);
    return o;
}

int tachy_engine_library(char **json, const char *library, const struct tachy_log *log)
{
    struct tachy_ort *ort = NULL;
    if (!TACHY_CHECK(log, json))
        return TACHY_ERR_INVAL;
    *json = NULL;
    int err = tachy_ort_open(&ort, library, log);
    if (err < 0)
        return err;
    json_t *o = json_pack("{s:s, s:s, s:o, s:o}", "path", ort->path, "version", ort->version,
                          "providers", provider_names(ort), "tachy", own_provider());
    *json = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    json_decref(o);
    tachy_ort_close(&ort);
    return *json ? TACHY_OK : TACHY_ERR_NOMEM;
}
