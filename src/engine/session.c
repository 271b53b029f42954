#include "engine/session.h"

#include "base/clock.h"
#include "onnx/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// Sessions in use. Process-wide, because engines of one model are opened by workers that know
// nothing of each other and must not hold the weights twice.
static struct tachy_session *sessions;
static pthread_mutex_t sessions_lock = PTHREAD_MUTEX_INITIALIZER;

// The text with another line; frees `key`, which may be NULL. NULL: out of memory.
static char *lengthen(char *key, const char *line)
{
    char *longer = key ? tachy_asprintf("%s\n%s", key, line) : NULL;
    free(key);
    return longer;
}

// Text that is equal for two engines exactly if they may share a session. NULL: out of memory.
static char *make_key(const struct tachy_ort *ort, const struct tachy_session_params *p,
                      const struct stat *st)
{
    char *key = tachy_asprintf("%p %d %d %d %llu:%llu %lld.%09ld %lld %s\n%s", (const void *)ort,
                               p->threads, p->batch, p->arena, (unsigned long long)st->st_dev,
                               (unsigned long long)st->st_ino, (long long)st->st_mtim.tv_sec,
                               st->st_mtim.tv_nsec, (long long)st->st_size, p->path,
                               p->profile_dir ? p->profile_dir : "");
    for (const char *const *o = p->entries; o && *o; o++)
        key = lengthen(key, *o);
    for (int i = 0; i < p->nb_shapes; i++) {
        char text[128];
        key = lengthen(key, TACHY_DEF(p->shapes[i].name, ""));
        key = lengthen(key, tachy_tensor_text(&p->shapes[i].spec, text));
    }
    for (int i = 0; i < p->nb_constants; i++) {
        const struct tachy_engine_constant *c = &p->constants[i];
        key = lengthen(key, c->input);
        for (int k = 0; k < c->n && key; k++) {
            char text[40];
            snprintf(text, sizeof(text), "%a", (double)c->values[k]);
            key = lengthen(key, text);
        }
    }
    if (p->settle)
        key = lengthen(key, "settle");
    if (key && p->look) {
        char text[40];
        snprintf(text, sizeof(text), "look %p", (const void *)p->look);
        key = lengthen(key, text);
    }
    if (!p->ep)
        return key;
    key = lengthen(key, p->ep->name);
    key = lengthen(key, TACHY_DEF(p->ep->library, ""));
    for (const char *const *o = p->ep->options; o && *o; o++)
        key = lengthen(key, *o);
    return key;
}

static enum tachy_dtype dtype_of(ONNXTensorElementDataType t)
{
    switch (t) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
        return TACHY_F32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
        return TACHY_F16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
        return TACHY_U8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
        return TACHY_I8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
        return TACHY_I32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
        return TACHY_I64;
    default:
        return (enum tachy_dtype)0;
    }
}

enum { MAX_DIMS = 32 };

// Loading one model.
struct load {
    struct tachy_session *s;
    const struct tachy_session_params *p;
    const struct tachy_log *log;
    void *data; // the model's bytes, if they are not the file's
    size_t size;
    // Named dimensions that get a size: with fixed sizes the graph gets simpler and memory is planned once.
    struct fixed_dim {
        char name[64];
        int64_t size;
    } dim[MAX_DIMS];
    int nb_dims;
    bool batch; // the first of them, of the first input whose leading dimension is free
    struct tachy_ep_context *context; // of the session that is made; NULL: its provider has no table
};

#define TRY(call, what)                                                                            \
    do {                                                                                           \
        int err_ = tachy_ort_check(l->s->ort, api->call, l->log, "%s: %s", l->p->path, what);      \
        if (err_ < 0)                                                                              \
            return err_;                                                                           \
    } while (0)

// The size that a free dimension of an input is to have; -1: it stays free.
static int64_t size_of(struct load *l, const struct onnx_free_dim *d)
{
    for (int i = 0; i < l->p->nb_shapes; i++) {
        const struct tachy_io *s = &l->p->shapes[i];
        bool meant = s->name ? !strcmp(s->name, d->input) : d->first;
        if (meant && s->spec.rank == d->rank && s->spec.shape[d->axis] > 0)
            return s->spec.shape[d->axis];
    }
    if (d->axis || l->batch || !l->p->batch)
        return -1;
    l->batch = true;
    return l->p->batch;
}

static int fix_dim(void *load, const struct onnx_free_dim *d)
{
    struct load *l = load;
    bool known = l->nb_dims == MAX_DIMS;
    for (int i = 0; i < l->nb_dims && !known; i++)
        known = !strcmp(l->dim[i].name, d->name);
    int64_t size = known ? -1 : size_of(l, d);
    if (size < 0)
        return TACHY_OK;
    snprintf(l->dim[l->nb_dims].name, sizeof(l->dim[0].name), "%s", d->name);
    l->dim[l->nb_dims++].size = size;
    return TACHY_OK;
}

static int read_tensor_info(struct load *l, const OrtTensorTypeAndShapeInfo *info, bool input,
                            struct tachy_io *io)
{
    const OrtApi *api = l->s->ort->api;
    ONNXTensorElementDataType type;
    size_t rank = 0;
    TRY(GetTensorElementType(info, &type), "its tensor type cannot be read");
    TRY(GetDimensionsCount(info, &rank), "its tensor rank cannot be read");
    io->spec.dtype = dtype_of(type);
    if (!io->spec.dtype || rank > TACHY_MAX_RANK)
        return tachy_fail(l->log, TACHY_ERR_UNSUPPORTED,
                          "%s: `%s` has element type %d of ONNX and %zu dimensions; float32, "
                          "float16, uint8, int8, int32 and int64 with up to %d are supported",
                          l->p->path, io->name, (int)type, rank, TACHY_MAX_RANK);
    io->spec.rank = (int)rank;
    TRY(GetDimensions(info, io->spec.shape, rank), "its shape cannot be read");
    const char *names[TACHY_MAX_RANK] = {0};
    TRY(GetSymbolicDimensions(info, names, rank), "its dimensions cannot be read");
    for (size_t i = 0; i < rank; i++)
        if (io->spec.shape[i] < 0)
            io->spec.shape[i] = -1;
    for (int i = 0; input && !tachy_session_fixes(l->p) && i < io->spec.rank; i++)
        if (names[i] && *names[i] && io->spec.shape[i] < 0)
            fix_dim(l, &(struct onnx_free_dim){io->name, names[i], io == l->s->in, io->spec.rank, i});
    return TACHY_OK;
}

static int read_name(struct load *l, bool input, size_t i, struct tachy_io *io)
{
    const OrtApi *api = l->s->ort->api;
    OrtAllocator *allocator = NULL;
    char *name = NULL;
    TRY(GetAllocatorWithDefaultOptions(&allocator), "no allocator");
    if (input)
        TRY(SessionGetInputName(l->s->session, i, allocator, &name), "an input has no name");
    else
        TRY(SessionGetOutputName(l->s->session, i, allocator, &name), "an output has no name");
    io->name = tachy_asprintf("%s", name);
    TRY(AllocatorFree(allocator, name), "a name cannot be freed");
    return io->name ? TACHY_OK : TACHY_ERR_NOMEM;
}

static int read_io(struct load *l, bool input, size_t i, struct tachy_io *io)
{
    const OrtApi *api = l->s->ort->api;
    OrtTypeInfo *type = NULL;
    const OrtTensorTypeAndShapeInfo *info = NULL; // belongs to `type`
    int err = read_name(l, input, i, io);
    if (err < 0)
        return err;
    if (input)
        TRY(SessionGetInputTypeInfo(l->s->session, i, &type), "an input has no type");
    else
        TRY(SessionGetOutputTypeInfo(l->s->session, i, &type), "an output has no type");
    err = tachy_ort_check(l->s->ort, api->CastTypeInfoToTensorInfo(type, &info), l->log,
                          "%s: the type of `%s` cannot be read", l->p->path, io->name);
    if (!err)
        err = info ? read_tensor_info(l, info, input, io)
                   : tachy_fail(l->log, TACHY_ERR_UNSUPPORTED,
                                "%s: `%s` is no tensor, and nothing else is supported", l->p->path,
                                io->name);
    api->ReleaseTypeInfo(type);
    return err;
}

static int read_all_io(struct load *l)
{
    const OrtApi *api = l->s->ort->api;
    size_t n_in = 0, n_out = 0;
    TRY(SessionGetInputCount(l->s->session, &n_in), "its inputs cannot be counted");
    TRY(SessionGetOutputCount(l->s->session, &n_out), "its outputs cannot be counted");
    if (n_in > TACHY_MAX_IO || n_out > TACHY_MAX_IO)
        return tachy_fail(l->log, TACHY_ERR_LIMIT,
                          "%s: has %zu inputs and %zu outputs; at most %d of each are supported",
                          l->p->path, n_in, n_out, TACHY_MAX_IO);
    for (size_t i = 0; i < n_in + n_out; i++) {
        bool input = i < n_in;
        int *count = input ? &l->s->n_in : &l->s->n_out;
        struct tachy_io *io = input ? l->s->in : l->s->out;
        int err = read_io(l, input, (size_t)*count, &io[*count]);
        ++*count; // also after a failure, so that its name is freed
        if (err < 0)
            return err;
    }
    return TACHY_OK;
}

// A model passed as bytes may have weights in files beside it.
static int set_folder(struct load *l, OrtSessionOptions *o)
{
    const OrtApi *api = l->s->ort->api;
    const char *slash = strrchr(l->p->path, '/');
    char *folder = slash ? tachy_asprintf("%.*s", (int)(slash - l->p->path + 1), l->p->path) : tachy_asprintf(".");
    if (!folder)
        return TACHY_ERR_NOMEM;
    int err = tachy_ort_check(l->s->ort,
                              api->AddSessionConfigEntry(
                                  o, "session.model_external_initializers_file_folder_path", folder),
                              l->log, "%s: its folder cannot be set", l->p->path);
    tachy_free(folder);
    return err;
}

static int set_entries(struct load *l, OrtSessionOptions *o)
{
    const OrtApi *api = l->s->ort->api;
    int err = tachy_session_fixes(l->p) ? set_folder(l, o) : TACHY_OK;
    if (err < 0)
        return err;
    // Spinning threads would take the cores that other frames' workers need.
    TRY(AddSessionConfigEntry(o, "session.intra_op.allow_spinning", "0"), "spinning");
    TRY(AddSessionConfigEntry(o, "session.inter_op.allow_spinning", "0"), "spinning");
    for (const char *const *entry = l->p->entries; entry && *entry; entry++) {
        char key[128];
        const char *value = strchr(*entry, '=');
        snprintf(key, sizeof(key), "%.*s", (int)strcspn(*entry, "="), *entry);
        TRY(AddSessionConfigEntry(o, key, value ? value + 1 : ""), *entry);
    }
    return TACHY_OK;
}

// Files of one folder need names of their own; ONNX Runtime adds the time in milliseconds.
static int set_profile(struct load *l, OrtSessionOptions *o)
{
    const OrtApi *api = l->s->ort->api;
    static atomic_uint number;
    if (!l->p->profile_dir)
        return TACHY_OK;
    char *prefix = tachy_asprintf("%s/onnxruntime-%u", l->p->profile_dir, atomic_fetch_add(&number, 1));
    if (!prefix)
        return TACHY_ERR_NOMEM;
    int err = tachy_ort_check(l->s->ort, api->EnableProfiling(o, prefix), l->log,
                              "%s: its profile cannot be set", l->p->path);
    free(prefix);
    return err;
}

// For our provider: the session shall leave its plan with a context.
static int set_context(struct load *l, OrtSessionOptions *o)
{
    const OrtApi *api = l->s->ort->api;
    const struct tachy_ep *ep = l->p->ep;
    const struct tachy_session_look *look = l->p->look;
    char key[80];
    if (!ep->table)
        return TACHY_OK;
    l->context = ep->table->open(look ? look->want : ep->whole ? TACHY_EP_WHOLE : 0, look ? look->after : NULL);
    if (!l->context)
        return TACHY_ERR_NOMEM;
    snprintf(key, sizeof(key), "ep.%.60s.context", ep->name);
    TRY(AddSessionConfigEntry(o, key, ep->table->id(l->context)), "its context cannot be set");
    return TACHY_OK;
}

static int set_options(struct load *l, OrtSessionOptions *o)
{
    const OrtApi *api = l->s->ort->api;
    TRY(SetIntraOpNumThreads(o, l->p->threads), "threads cannot be set");
    TRY(SetInterOpNumThreads(o, 1), "threads cannot be set");
    TRY(SetSessionExecutionMode(o, ORT_SEQUENTIAL), "sequential mode cannot be set");
    TRY(SetSessionGraphOptimizationLevel(o, ORT_ENABLE_ALL), "optimisation cannot be set");
    TRY(EnableMemPattern(o), "memory patterns cannot be set");
    if (l->p->arena)
        TRY(EnableCpuMemArena(o), "the arena cannot be set");
    else
        TRY(DisableCpuMemArena(o), "the arena cannot be set");
    for (int i = 0; i < l->nb_dims; i++)
        TRY(AddFreeDimensionOverrideByName(o, l->dim[i].name, l->dim[i].size), "a dimension cannot be set");
    int err = set_profile(l, o);
    if (!err)
        err = set_entries(l, o);
    if (err || !l->p->ep)
        return err;
    if (!l->p->ep->table) // the placement of nodes is only logged there
        TRY(SetSessionLogSeverityLevel(o, ORT_LOGGING_LEVEL_VERBOSE), "its log cannot be set");
    err = tachy_ep_add(l->s->ort, o, l->p->ep, l->log);
    return err < 0 ? err : set_context(l, o);
}

// ONNX Runtime counts from a time of std::chrono::high_resolution_clock, which is the realtime
// clock in one C++ library and the monotonic clock in another.
static uint64_t on_monotonic(uint64_t start_ns)
{
    struct timespec t;
    uint64_t before = tachy_now_ns();
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t mono = before + (tachy_now_ns() - before) / 2;
    uint64_t real = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    uint64_t from_mono = start_ns > mono ? start_ns - mono : mono - start_ns;
    uint64_t from_real = start_ns > real ? start_ns - real : real - start_ns;
    return from_mono < from_real ? start_ns : start_ns - real + mono;
}

// Leaves the profile as <start in ns on CLOCK_MONOTONIC>.ort.json.
static void name_profile(struct tachy_session *s, const char *file)
{
    const OrtApi *api = s->ort->api;
    uint64_t start = 0;
    OrtStatus *status = api->SessionGetProfilingStartTimeNs(s->session, &start);
    if (status) {
        api->ReleaseStatus(status);
        return;
    }
    char *to = tachy_asprintf("%s/%llu.ort.json", s->profile_dir,
                              (unsigned long long)on_monotonic(start));
    if (to && rename(file, to) < 0)
        unlink(file);
    free(to);
}

static void end_profile(struct tachy_session *s)
{
    const OrtApi *api = s->ort->api;
    OrtAllocator *allocator = NULL;
    char *file = NULL;
    if (!s->profile_dir || !s->session)
        return;
    pthread_rwlock_wrlock(&s->profile_lock);
    if (s->profiling) {
        OrtStatus *status = api->GetAllocatorWithDefaultOptions(&allocator);
        if (!status)
            status = api->SessionEndProfiling(s->session, allocator, &file);
        if (!status) {
            name_profile(s, file);
            status = api->AllocatorFree(allocator, file);
        }
        if (status)
            api->ReleaseStatus(status);
    }
    s->profiling = false;
    pthread_rwlock_unlock(&s->profile_lock);
}

OrtStatus *tachy_session_run(struct tachy_session *s, const OrtRunOptions *options, const OrtIoBinding *binding)
{
    const OrtApi *api = s->ort->api;
    if (!s->profile_dir)
        return api->RunWithBinding(s->session, options, binding);
    pthread_rwlock_rdlock(&s->profile_lock); // the profile must not end within a run
    OrtStatus *status = api->RunWithBinding(s->session, options, binding);
    pthread_rwlock_unlock(&s->profile_lock);
    if (atomic_fetch_sub(&s->profile_runs, 1) == 1)
        end_profile(s);
    return status;
}

static void drop_session(struct tachy_session *s)
{
    for (int i = 0; i < TACHY_MAX_IO; i++) {
        tachy_free((void *)(uintptr_t)s->in[i].name);
        tachy_free((void *)(uintptr_t)s->out[i].name);
    }
    end_profile(s);
    tachy_steps_close(s);
    if (s->plan)
        s->table->release(s->plan);
    s->plan = NULL;
    if (s->session)
        s->ort->api->ReleaseSession(s->session);
    memset(s->in, 0, sizeof(s->in));
    memset(s->out, 0, sizeof(s->out));
    s->n_in = s->n_out = s->nb_nodes = s->nb_left = s->nb_shown = 0;
    s->left[0] = '\0';
    s->session = NULL;
}

// From the file, or from its modified bytes.
static int create_session(struct load *l, const OrtSessionOptions *options)
{
    const OrtApi *api = l->s->ort->api;
    int err = tachy_ort_check(
        l->s->ort,
        l->data ? api->CreateSessionFromArray(l->s->ort->env, l->data, l->size, options, &l->s->session)
                : api->CreateSession(l->s->ort->env, l->p->path, options, &l->s->session),
        l->log, "%s: cannot be loaded", l->p->path);
    if (err < 0 && l->context && l->p->ep->table->failed(l->context) == TACHY_ERR_NOMEM)
        return TACHY_ERR_NOMEM; // whatever the runtime calls it
    // A problem with the file, whatever the runtime calls it.
    return (err == TACHY_ERR_INVAL && !l->p->ep) || err == TACHY_ERR_EXTERNAL ? TACHY_ERR_FORMAT : err;
}

// Makes the session, and takes from the context what its provider has left there.
static int create_with(struct load *l, const OrtSessionOptions *options)
{
    const struct tachy_ep_table *table = l->p->ep ? l->p->ep->table : NULL;
    int dims = l->nb_dims;
    if (l->p->ep && !table)
        tachy_ort_watch(tachy_session_on_line, l->s);
    int err = create_session(l, options);
    tachy_ort_watch(NULL, NULL);
    l->s->profiling = !err && l->p->profile_dir;
    if (!err)
        err = read_all_io(l);
    if (table && l->p->look && dims == l->nb_dims) // else the next round's is the session
        err = tachy_session_show_plan(l->s, table, l->context, l->p->look, err);
    else if (table)
        tachy_session_take_plan(l->s, table, l->context, err);
    return err;
}

static int create(struct load *l)
{
    const OrtApi *api = l->s->ort->api;
    OrtSessionOptions *options = NULL;
    TRY(CreateSessionOptions(&options), "cannot be opened");
    int err = set_options(l, options);
    if (!err)
        err = create_with(l, options);
    api->ReleaseSessionOptions(options);
    if (l->context)
        l->p->ep->table->close(l->context);
    l->context = NULL;
    if (err || !l->s->plan)
        return err;
    // ONNX Runtime's objects are no longer needed.
    end_profile(l->s);
    api->ReleaseSession(l->s->session);
    l->s->session = NULL;
    return l->p->profile_dir ? tachy_steps_open(l->s, l->log) : TACHY_OK;
}

static int load(struct tachy_session *s, const struct tachy_session_params *p,
                const struct tachy_log *log)
{
    struct load l = {.s = s, .p = p, .log = log};
    int err = tachy_session_file(&l.data, &l.size, p, fix_dim, &l, log), dims = l.nb_dims;
    if (!err)
        err = create(&l);
    bool runs = !(p->ep && p->ep->whole && s->nb_left);
    if (!err && p->settle && !p->look && runs)
        err = tachy_session_settle(s, p->path, log);
    if (!err && l.nb_dims > dims) { // in ONNX Runtime's own format the names of free dimensions are known only now
        drop_session(s);
        err = create(&l);
    }
    free(l.data);
    return err;
}

static void destroy(struct tachy_session *s)
{
    drop_session(s);
    tachy_ort_close(&s->ort);
    pthread_rwlock_destroy(&s->profile_lock);
    free(s->profile_dir);
    free(s->key);
    free(s);
}

// Takes over `ort` and `key` in any case.
static int open_locked(struct tachy_session **out, struct tachy_ort *ort, char *key,
                       const struct tachy_session_params *p, const struct tachy_log *log)
{
    struct tachy_session *s = sessions;
    while (s && (strcmp(s->key, key) != 0 || (s->given_up && !p->ep->whole)))
        s = s->next;
    if (s) {
        tachy_ort_close(&ort);
        free(key);
        s->refs++;
        *out = s;
        return TACHY_OK;
    }
    s = calloc(1, sizeof(*s));
    if (!s) {
        tachy_ort_close(&ort);
        free(key);
        return TACHY_ERR_NOMEM;
    }
    s->ort = ort;
    s->key = key;
    pthread_rwlock_init(&s->profile_lock, NULL);
    s->profile_dir = p->profile_dir ? strdup(p->profile_dir) : NULL;
    atomic_init(&s->profile_runs, p->profile_runs);
    const uint64_t start = tachy_now_ns();
    int err = p->profile_dir && !s->profile_dir ? TACHY_ERR_NOMEM : load(s, p, log);
    if (err < 0) {
        destroy(s);
        return err;
    }
    tachy_msg(log, TACHY_LOG_VERBOSE, "engine: %s was loaded in %.0f ms", p->path, (double)(tachy_now_ns() - start) * 1e-6);
    s->given_up = p->ep && p->ep->whole && s->nb_left;
    s->refs = 1;
    s->next = sessions;
    sessions = s;
    *out = s;
    return TACHY_OK;
}

int tachy_session_open(struct tachy_session **out, const char *library,
                       const struct tachy_session_params *p, const struct tachy_log *log)
{
    struct tachy_ort *ort;
    struct stat st;
    *out = NULL;
    int err = tachy_ort_open(&ort, library, log);
    if (err < 0)
        return err;
    char *key = stat(p->path, &st) == 0 ? make_key(ort, p, &st) : NULL;
    if (!key) {
        tachy_ort_close(&ort);
        return tachy_fail(log, TACHY_ERR_IO, "%s: cannot be looked at", p->path);
    }
    const struct tachy_log *before = tachy_ort_log(log);
    pthread_mutex_lock(&sessions_lock);
    err = open_locked(out, ort, key, p, log);
    pthread_mutex_unlock(&sessions_lock);
    tachy_ort_log(before);
    return err;
}

void tachy_session_close(struct tachy_session **session)
{
    struct tachy_session *s = *session;
    *session = NULL;
    if (!s)
        return;
    pthread_mutex_lock(&sessions_lock);
    bool last = --s->refs == 0;
    if (last) {
        struct tachy_session **link = &sessions;
        while (*link != s)
            link = &(*link)->next;
        *link = s->next;
    }
    pthread_mutex_unlock(&sessions_lock);
    if (last)
        destroy(s);
}
