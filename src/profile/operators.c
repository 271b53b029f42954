#include "profile/profile_priv.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

// ONNX Runtime's operator profile: a JSON array with one event per line. It is read line by line, because the whole may
// be too large for memory; single runs go into a ring.

enum { MAX_OPERATORS = 100000 }; // names; a model has hundreds

struct reader {
    struct tachy_profile *p;
    struct profile_ops *ops;
    uint64_t start_ns; // what the file's times count from
    uint32_t last;     // operator of the last event: the next is often the one after it
};

static int lane_of(const struct tachy_profile *p, long tid)
{
    for (size_t i = p->nb_threads; i-- > 0;) // a number may have been used again: the latest
        if (p->thread[i].tid == tid)
            return p->thread[i].lane;
    return -1;
}

static bool is_named(const struct profile_ops *ops, size_t i, const char *name, size_t length)
{
    return i < ops->n && !strncmp(ops->sum[i].name, name, length) && !ops->sum[i].name[length];
}

// Index of the operator; -1: no memory.
static int64_t find(struct reader *r, const char *name, size_t length, const char *type)
{
    struct profile_ops *ops = r->ops;
    if (is_named(ops, r->last + 1, name, length))
        return ++r->last;
    for (size_t i = 0; i < ops->n; i++)
        if (is_named(ops, i, name, length))
            return r->last = (uint32_t)i;
    void *more =
        ops->n < MAX_OPERATORS ? realloc(ops->sum, (ops->n + 1) * sizeof(*ops->sum)) : NULL;
    if (!more)
        return -1;
    ops->sum = more;
    struct profile_op_sum *s = &ops->sum[ops->n];
    *s = (struct profile_op_sum){.name = strndup(name, length), .type = strdup(type)};
    if (!s->name || !s->type) {
        free(s->name);
        free(s->type);
        return -1;
    }
    return r->last = (uint32_t)ops->n++;
}

static uint64_t number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (json_is_string(v)) // sizes are texts
        return strtoull(json_string_value(v), NULL, 10);
    return json_is_integer(v) && json_integer_value(v) > 0 ? (uint64_t)json_integer_value(v) : 0;
}

// A time of the file, in microseconds there: whole ones from ONNX Runtime. Longer ones than a century are broken.
static uint64_t time_ns(const json_t *o, const char *key)
{
    const double longest = 3.2e15;
    double us = json_number_value(json_object_get(o, key));
    return us > 0 && us <= longest ? (uint64_t)(us * 1e3 + 0.5) : 0;
}

static void add_kernel(struct reader *r, const json_t *e, const char *name, size_t length)
{
    struct profile_ops *ops = r->ops;
    const json_t *args = json_object_get(e, "args");
    const char *type = json_string_value(json_object_get(args, "op_name"));
    int lane = lane_of(r->p, (long)number(e, "tid"));
    if (lane < 0) // a run that belongs to nobody here, such as a calibration
        return;
    int64_t i = find(r, name, length, type ? type : "?");
    if (i < 0)
        return;
    uint64_t ns = time_ns(e, "dur"), bytes = number(args, "output_size");
    struct profile_op_sum *s = &ops->sum[i];
    s->calls++;
    s->ns += ns;
    s->bytes = TACHY_MAX(s->bytes, bytes);
    s->multiply_adds = number(args, "multiply_adds");
    s->moved_bytes = number(args, "moved_bytes");
    if (!ops->run) {
        ops->capacity = (uint64_t)r->p->params.max_operators;
        ops->run = calloc(ops->capacity, sizeof(*ops->run));
    }
    if (!ops->run)
        return;
    uint64_t at = r->start_ns + time_ns(e, "ts");
    ops->run[ops->count++ % ops->capacity] =
        (struct profile_op){at, at + ns, (uint32_t)i, (uint32_t)lane};
}

static void add_event(struct reader *r, const json_t *e)
{
    static const char suffix[] = "_kernel_time";
    const char *name = json_string_value(json_object_get(e, "name"));
    const char *cat = json_string_value(json_object_get(e, "cat"));
    size_t n = name ? strlen(name) : 0, m = sizeof(suffix) - 1;
    if (!cat || !name)
        return;
    if (!strcmp(cat, "Node") && n > m && !strcmp(name + n - m, suffix))
        add_kernel(r, e, name, n - m);
    else if (!strcmp(name, "model_run") && lane_of(r->p, (long)number(e, "tid")) >= 0)
        r->ops->model_runs++;
}

static void read_profile(struct reader *r, FILE *f)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    while ((n = getline(&line, &size, f)) > 0) {
        while (n > 0 && strchr(",\r\n ", line[n - 1]))
            n--;
        json_t *e = n > 2 ? json_loadb(line, (size_t)n, 0, NULL) : NULL;
        if (json_is_object(e))
            add_event(r, e);
        json_decref(e);
    }
    free(line);
}

void profile_ops_collect(struct tachy_profile *p)
{
    static const char suffix[] = ".ort.json";
    DIR *dir = p->dir ? opendir(p->dir) : NULL;
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        char *end;
        uint64_t start = strtoull(entry->d_name, &end, 10);
        char *path = strcmp(end, suffix) ? NULL : tachy_asprintf("%s/%s", p->dir, entry->d_name);
        FILE *f = path ? fopen(path, "r") : NULL;
        struct reader r = {.p = p, .ops = &p->ops, .start_ns = start};
        if (f) {
            read_profile(&r, f);
            fclose(f);
            unlink(path);
        }
        free(path);
    }
    if (dir)
        closedir(dir);
}

void profile_ops_free(struct profile_ops *ops)
{
    for (size_t i = 0; i < ops->n; i++) {
        free(ops->sum[i].name);
        free(ops->sum[i].type);
    }
    free(ops->sum);
    free(ops->run);
    *ops = (struct profile_ops){0};
}

static int by_time(const void *a, const void *b)
{
    const struct profile_op_sum *x = *(const struct profile_op_sum *const *)a,
                                *y = *(const struct profile_op_sum *const *)b;
    return (x->ns < y->ns) - (x->ns > y->ns);
}

static int by_bytes(const void *a, const void *b)
{
    const struct profile_op_sum *x = *(const struct profile_op_sum *const *)a,
                                *y = *(const struct profile_op_sum *const *)b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

const struct profile_op_sum **profile_ops_sorted(const struct profile_ops *ops, uint64_t *total_ns)
{
    const struct profile_op_sum **list = calloc(ops->n + 1, sizeof(*list));
    *total_ns = 0;
    for (size_t i = 0; list && i < ops->n; i++) {
        list[i] = &ops->sum[i];
        *total_ns += ops->sum[i].ns;
    }
    if (list)
        qsort(list, ops->n, sizeof(*list), by_time);
    return list;
}

void profile_ops_by_bytes(const struct profile_op_sum **sorted, size_t n)
{
    qsort(sorted, n, sizeof(*sorted), by_bytes);
}

static int by_lane(const void *a, const void *b)
{
    const struct profile_op *x = a, *y = b;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

struct profile_op *profile_ops_runs(const struct profile_ops *ops, size_t *n)
{
    *n = (size_t)TACHY_MIN(ops->count, ops->capacity);
    struct profile_op *run = calloc(*n + 1, sizeof(*run));
    if (!run)
        *n = 0;
    else if (*n)
        memcpy(run, ops->run, *n * sizeof(*run));
    if (run)
        qsort(run, *n, sizeof(*run), by_lane);
    return run;
}
