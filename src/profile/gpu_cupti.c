#include "profile/gpu_priv.h"

#include "base/base.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

// CUPTI delivers buffers of records on its own thread, without saying whose they are: so there is one collector per
// process. Memory is bounded: a few buffers, a ring of the newest records and a bounded table of names.

enum { BUFFERS = 8, MAX_NAMES = 4096, NAME_SLOTS = 4 * MAX_NAMES, MAX_NAME = 2048 };
static const size_t buffer_bytes = (size_t)1 << 20;

struct name {
    char *mangled, *text;
    struct gpu_activity_sum sum;
};

struct gpu_collector {
    const struct tachy_cupti *cupti;
    const struct tachy_log *log;
    struct tachy_tick_anchor first, last; // ticks: CUPTI's ns
    struct tachy_ring *ring;
    struct gpu_collector_counts counts;
    uint32_t slot[NAME_SLOTS]; // index + 1 in `name`
    uint32_t nb_names;
    struct name name[MAX_NAMES];
};

// `lock` guards the rest and what is in the collector. The buffers stay with the process: CUPTI
// may hold one for as long.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu_collector *current;
static struct {
    uint8_t *memory;
    bool taken;
} buffers[BUFFERS];

static const int kinds[] = {CUPTI_CONCURRENT_KERNEL, CUPTI_MEMCPY, CUPTI_MEMSET, CUPTI_MEMCPY_PEER};

// "int f<float>(int)" for "_Z1fIfEii" if a C++ library is loaded.
static char *readable(const char *mangled)
{
    static char *(*demangle)(const char *, char *, size_t *, int *);
    static bool asked;
    if (!asked) {
        asked = true;
        void *lib = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        if (lib)
            *(void **)&demangle = dlsym(lib, "__cxa_demangle");
    }
    int status = -1;
    char *text =
        demangle && !strncmp(mangled, "_Z", 2) ? demangle(mangled, NULL, NULL, &status) : NULL;
    return text ? text : strndup(mangled, MAX_NAME);
}

static uint32_t hash(const char *s)
{
    uint32_t h = 2166136261u; // FNV-1a
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 16777619u;
    return h;
}

// Index of a name; the last stands for all that do not fit the table. UINT32_MAX: no memory.
static uint32_t intern(struct gpu_collector *c, const char *raw, enum gpu_activity_kind kind)
{
    static const char other[] = "(other kernels)";
    if (!raw)
        raw = "(no name)";
    uint32_t at = hash(raw) % NAME_SLOTS;
    for (; c->slot[at]; at = (at + 1) % NAME_SLOTS)
        if (!strcmp(c->name[c->slot[at] - 1].mangled, raw))
            return c->slot[at] - 1;
    if (c->nb_names == MAX_NAMES)
        return MAX_NAMES - 1;
    if (c->nb_names == MAX_NAMES - 1)
        raw = other;
    struct name *n = &c->name[c->nb_names];
    *n = (struct name){.mangled = strdup(raw), .text = readable(raw)};
    if (!n->mangled || !n->text) {
        free(n->mangled);
        free(n->text);
        return UINT32_MAX;
    }
    n->sum = (struct gpu_activity_sum){.name = n->text, .kind = kind};
    c->slot[at] = ++c->nb_names;
    return c->nb_names - 1;
}

static const char *copy_name(const struct cupti_memcpy *m)
{
    enum { PAGEABLE = 1 };
    static const char *const names[] = {"copy",
                                        "copy host to device",
                                        "copy device to host",
                                        "copy host to array",
                                        "copy array to host",
                                        "copy array to array",
                                        "copy array to device",
                                        "copy device to array",
                                        "copy device to device",
                                        "copy host to host",
                                        "copy device to other device"};
    static const char *const pageable[] = {NULL, "copy host to device, pageable",
                                           "copy device to host, pageable"};
    if ((m->copy == 1 && m->from == PAGEABLE) || (m->copy == 2 && m->to == PAGEABLE))
        return pageable[m->copy];
    return names[m->copy < TACHY_ARRAY_SIZE(names) ? m->copy : 0];
}

static void add(struct gpu_collector *c, const struct gpu_activity *a, const char *name)
{
    c->counts.records++;
    if (!a->start || a->end < a->start) { // CUPTI had no memory for its time, or it is unfinished
        c->counts.untimed++;
        return;
    }
    uint32_t i = intern(c, name, (enum gpu_activity_kind)a->kind);
    if (i == UINT32_MAX) {
        c->counts.dropped++;
        return;
    }
    struct gpu_activity_sum *s = &c->name[i].sum;
    uint64_t ns = a->end - a->start;
    s->calls++;
    s->ns += ns;
    s->max_ns = TACHY_MAX(s->max_ns, ns);
    s->bytes += a->bytes;
    const uint64_t word[TACHY_RING_WORDS] = {a->start, a->end, a->bytes,
                                             (uint64_t)i << 32 | a->stream,
                                             (uint64_t)a->device << 8 | a->kind};
    tachy_ring_add(c->ring, word);
}

static void add_record(struct gpu_collector *c, const struct cupti_record *r)
{
    if (r->kind == CUPTI_KERNEL || r->kind == CUPTI_CONCURRENT_KERNEL) {
        const struct cupti_kernel *k = (const void *)r;
        add(c,
            &(struct gpu_activity){.start = k->start,
                                   .end = k->end,
                                   .stream = k->stream,
                                   .device = (uint16_t)k->device,
                                   .kind = GPU_KERNEL},
            k->name);
    } else if (r->kind == CUPTI_MEMCPY || r->kind == CUPTI_MEMCPY_PEER) {
        const struct cupti_memcpy *m = (const void *)r;
        add(c,
            &(struct gpu_activity){m->start, m->end, m->bytes, 0, m->stream, (uint16_t)m->device,
                                   GPU_COPY},
            r->kind == CUPTI_MEMCPY ? copy_name(m) : "copy device to other device");
    } else if (r->kind == CUPTI_MEMSET) {
        const struct cupti_memset *m = (const void *)r;
        add(c,
            &(struct gpu_activity){m->start, m->end, m->bytes, 0, m->stream, (uint16_t)m->device,
                                   GPU_SET},
            "set memory");
    }
}

// CUPTI's callbacks.
static void on_requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *buffer = NULL; // CUPTI drops and counts what has no room
    *size = *max_records = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BUFFERS && current && !*buffer; i++) {
        if (buffers[i].taken || !buffers[i].memory)
            continue;
        buffers[i].taken = true;
        *buffer = buffers[i].memory;
        *size = buffer_bytes;
    }
    pthread_mutex_unlock(&lock);
}

static void on_completed(cuda_context context, uint32_t stream, uint8_t *buffer, size_t size,
                         size_t valid)
{
    struct cupti_record *r = NULL;
    size_t dropped = 0;
    pthread_mutex_lock(&lock);
    if (current) {
        while (valid && current->cupti->next(buffer, valid, &r) == CUPTI_OK)
            add_record(current, r);
        if (current->cupti->dropped(context, stream, &dropped) == CUPTI_OK)
            current->counts.dropped += dropped;
    }
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i].memory == buffer)
            buffers[i].taken = false;
    pthread_mutex_unlock(&lock);
}

static struct tachy_tick_anchor anchor(const struct tachy_cupti *cupti)
{
    struct tachy_tick_anchor best = {0};
    uint64_t slack = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t cupti_ns = 0, before = tachy_now_ns();
        if (cupti->timestamp(&cupti_ns) != CUPTI_OK)
            continue;
        uint64_t after = tachy_now_ns();
        if (after - before < slack) {
            slack = after - before;
            best = (struct tachy_tick_anchor){cupti_ns, before + (after - before) / 2};
        }
    }
    return best;
}

static int cupti_fail(const struct tachy_cupti *cupti, int status, const struct tachy_log *log,
                      const char *what)
{
    const char *text = NULL, *path = tachy_cuda_library_path("cupti");
    cupti->result_text(status, &text);
    return tachy_fail(log, TACHY_ERR_UNAVAILABLE,
                      "CUPTI (%s) %s: %s; its version must fit the driver, no other profiler may "
                      "run, and some systems allow it to root only",
                      path, what, text ? text : "unknown error");
}

static int enable(const struct tachy_cupti *cupti, const struct tachy_log *log)
{
    int status = cupti->callbacks(on_requested, on_completed);
    if (status != CUPTI_OK)
        return cupti_fail(cupti, status, log, "takes no callbacks");
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(kinds); i++) {
        status = cupti->enable(kinds[i]);
        if (status != CUPTI_OK && kinds[i] != CUPTI_MEMCPY_PEER)
            return cupti_fail(cupti, status, log, "records no kernels or copies");
    }
    return TACHY_OK;
}

static void free_collector(struct gpu_collector *c)
{
    for (uint32_t i = 0; i < c->nb_names; i++) {
        free(c->name[i].mangled);
        free(c->name[i].text);
    }
    tachy_aligned_free(c->ring);
    free(c);
}

// Makes `c` the one that callbacks work for.
static int install(struct gpu_collector *c)
{
    int err = TACHY_OK;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BUFFERS && err == TACHY_OK; i++) {
        if (!buffers[i].memory)
            buffers[i].memory = tachy_aligned_alloc(buffer_bytes);
        err = buffers[i].memory ? TACHY_OK : TACHY_ERR_NOMEM;
    }
    if (err == TACHY_OK && current)
        err = tachy_fail(c->log, TACHY_ERR_STATE,
                         "another profile of this process records the GPU's activity already");
    if (err == TACHY_OK)
        current = c;
    pthread_mutex_unlock(&lock);
    return err;
}

static void uninstall(void)
{
    pthread_mutex_lock(&lock);
    current = NULL;
    pthread_mutex_unlock(&lock);
}

int gpu_collector_open(struct gpu_collector **out, int64_t max_records, const struct tachy_log *log)
{
    const struct tachy_cu *cu;
    const struct tachy_cupti *cupti;
    *out = NULL;
    int err = tachy_cu_load(&cu, TACHY_LOG_ERR, log);
    if (err == TACHY_OK)
        err = tachy_cupti_load(&cupti, TACHY_LOG_ERR, log);
    if (err < 0)
        return err;
    struct gpu_collector *c = calloc(1, sizeof(*c));
    if (!c)
        return TACHY_ERR_NOMEM;
    c->cupti = cupti;
    c->log = log;
    c->ring = tachy_ring_new(max_records);
    err = c->ring ? install(c) : TACHY_ERR_NOMEM;
    if (err < 0) {
        free_collector(c);
        return err;
    }
    c->first = anchor(cupti);
    err = enable(cupti, log);
    if (err < 0) {
        gpu_collector_close(&c);
        return err;
    }
    *out = c;
    return TACHY_OK;
}

void gpu_collector_close(struct gpu_collector **pc)
{
    struct gpu_collector *c = *pc;
    *pc = NULL;
    if (!c)
        return;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(kinds); i++)
        c->cupti->disable(kinds[i]);
    c->cupti->flush(CUPTI_FLUSH_FORCED);
    uninstall();
    free_collector(c);
}

void gpu_collector_flush(struct gpu_collector *c)
{
    // Flushes complete records, then the rest: a kernel that is running now comes without its end and is counted as
    // untimed. The callbacks take the lock.
    c->cupti->flush(0);
    c->cupti->flush(CUPTI_FLUSH_FORCED);
    struct tachy_tick_anchor now = anchor(c->cupti);
    pthread_mutex_lock(&lock);
    c->last = now;
    pthread_mutex_unlock(&lock);
}

static int by_time(const void *a, const void *b)
{
    const struct gpu_activity_sum *x = a, *y = b;
    return (x->ns < y->ns) - (x->ns > y->ns);
}

struct gpu_activity_sum *gpu_collector_sums(struct gpu_collector *c, size_t *n)
{
    pthread_mutex_lock(&lock);
    struct gpu_activity_sum *list = calloc(c->nb_names + 1u, sizeof(*list));
    *n = list ? c->nb_names : 0;
    for (size_t i = 0; i < *n; i++)
        list[i] = c->name[i].sum;
    pthread_mutex_unlock(&lock);
    if (*n)
        qsort(list, *n, sizeof(*list), by_time);
    return list;
}

// CUPTI's clock is the system's by default; two pairs with ours follow its adjustments.
static uint64_t on_host(const struct gpu_collector *c, uint64_t ns)
{
    if (c->last.ticks - c->first.ticks < 100000000 || c->last.ns <= c->first.ns)
        return c->first.ns + (ns - c->first.ticks);
    return tachy_ticks_at(ns, &c->first, &c->last);
}

static int by_start(const void *a, const void *b)
{
    const struct gpu_activity *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

struct gpu_activity *gpu_collector_records(struct gpu_collector *c, size_t *n)
{
    uint64_t dropped, capacity = tachy_ring_capacity(c->ring);
    uint64_t(*words)[TACHY_RING_WORDS] = malloc(capacity * sizeof(*words));
    struct gpu_activity *list = malloc(capacity * sizeof(*list));
    pthread_mutex_lock(&lock);
    *n = words && list ? tachy_ring_read(c->ring, words, &dropped) : 0;
    for (size_t i = 0; i < *n; i++) {
        const uint64_t *w = words[i];
        list[i] = (struct gpu_activity){.start = on_host(c, w[0]),
                                        .end = on_host(c, w[1]),
                                        .bytes = w[2],
                                        .name = (uint32_t)(w[3] >> 32),
                                        .stream = (uint32_t)w[3],
                                        .device = (uint16_t)(w[4] >> 8),
                                        .kind = (uint8_t)w[4]};
    }
    pthread_mutex_unlock(&lock);
    free(words);
    if (*n)
        qsort(list, *n, sizeof(*list), by_start);
    return list;
}

const char *gpu_collector_name(struct gpu_collector *c, uint32_t name)
{
    return c->name[name].text; // written once, before its index is handed out
}

struct gpu_collector_counts gpu_collector_counts(struct gpu_collector *c)
{
    pthread_mutex_lock(&lock);
    struct gpu_collector_counts counts = c->counts;
    uint64_t n = atomic_load(&c->ring->count), most = tachy_ring_capacity(c->ring);
    pthread_mutex_unlock(&lock);
    counts.kept = n < most ? n : most - 1;
    return counts;
}
