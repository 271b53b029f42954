#include "engine/session.h"

#include "base/clock.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

// A plan's steps, timed in each run, in the form of ONNX Runtime's operator profile: a JSON array with one event per
// line, times in microseconds from the start that names the file.

struct tachy_steps {
    pthread_mutex_t lock; // of what follows
    FILE *file;
    char *path;
    uint64_t start;
    bool any; // an event was written
    // Constant.
    int nb;
    char *name[]; // of each step, all different
};

static void steps_free(struct tachy_steps *t)
{
    if (!t)
        return;
    if (t->file)
        fclose(t->file);
    for (int i = 0; i < t->nb; i++)
        tachy_free(t->name[i]);
    pthread_mutex_destroy(&t->lock);
    tachy_free(t->path);
    free(t);
}

// The node's name; the operator's and a number if it has none, or shares it with a step before.
static char *name_of(const struct tachy_steps *t, const struct tachy_ep_step *s, int i)
{
    bool taken = !*s->name;
    for (int k = 0; k < i && !taken; k++)
        taken = !strcmp(t->name[k], s->name);
    return taken ? tachy_asprintf("%s%s%s %d", s->name, *s->name ? " " : "", s->op, i)
                 : tachy_asprintf("%s", s->name);
}

int tachy_steps_open(struct tachy_session *s, const struct tachy_log *log)
{
    static atomic_uint number;
    struct tachy_ep_plan_info info;
    struct tachy_ep_step step;
    s->table->info(s->plan, &info);
    struct tachy_steps *t = calloc(1, sizeof(*t) + sizeof(t->name[0]) * (size_t)info.steps);
    if (!t)
        return TACHY_ERR_NOMEM;
    pthread_mutex_init(&t->lock, NULL);
    bool ok = true;
    for (t->nb = 0; t->nb < info.steps && ok; t->nb++) {
        s->table->step(s->plan, t->nb, &step);
        t->name[t->nb] = name_of(t, &step, t->nb);
        ok = t->name[t->nb];
    }
    t->start = tachy_now_ns();
    t->path = tachy_asprintf("%s/tachy-%d-%u", s->profile_dir, (int)getpid(), atomic_fetch_add(&number, 1));
    int err = ok && t->path ? TACHY_OK : TACHY_ERR_NOMEM;
    if (!err && !(t->file = fopen(t->path, "w")))
        err = tachy_fail(log, TACHY_ERR_IO, "%s: the profile of the model's steps cannot be written", t->path);
    if (err) {
        steps_free(t);
        return err;
    }
    s->steps = t;
    return TACHY_OK;
}

static void write_event(struct tachy_steps *t, const char *cat, const char *name, uint64_t from, uint64_t to,
                        json_t *args)
{
    json_t *e = json_pack("{s:s, s:i, s:i, s:f, s:f, s:s, s:s, s:o}", "cat", cat, "pid", (int)getpid(), "tid",
                          (int)syscall(SYS_gettid), "dur", (double)(to - from) / 1e3, "ts",
                          (double)(from - t->start) / 1e3, "ph", "X", "name", name, "args", args);
    char *text = e ? json_dumps(e, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    if (text)
        fprintf(t->file, "%s%s", t->any ? ",\n" : "[\n", text);
    t->any = t->any || text;
    free(text);
    json_decref(e);
}

static void write_run(const struct tachy_session *s, uint64_t start, const uint64_t *end)
{
    struct tachy_steps *t = s->steps;
    char bytes[24];
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < t->nb && t->file; i++) {
        struct tachy_ep_step step;
        s->table->step(s->plan, i, &step);
        char *name = tachy_asprintf("%s_kernel_time", t->name[i]);
        snprintf(bytes, sizeof(bytes), "%zu", step.bytes);
        if (name)
            write_event(t, "Node", name, i ? end[i - 1] : start, end[i],
                        json_pack("{s:s, s:s, s:s, s:I, s:I}", "op_name", step.op, "output_size", bytes, "provider", "tachy",
                                  "multiply_adds", (json_int_t)step.cost.multiply_adds, "moved_bytes", (json_int_t)step.cost.bytes));
        tachy_free(name);
    }
    if (t->file)
        write_event(t, "Session", "model_run", start, t->nb ? end[t->nb - 1] : start, json_object());
    pthread_mutex_unlock(&t->lock);
}

int tachy_steps_run(struct tachy_session *s, const float *const in[], float *const out[])
{
    if (atomic_fetch_sub(&s->profile_runs, 1) <= 0)
        return s->table->run(s->plan, in, out);
    uint64_t *end = calloc((size_t)s->steps->nb + 1, sizeof(*end)), start = tachy_now_ns();
    int err = end ? s->table->run_timed(s->plan, in, out, end) : TACHY_ERR_NOMEM;
    if (!err)
        write_run(s, start, end);
    free(end);
    return err;
}

void tachy_steps_close(struct tachy_session *s)
{
    struct tachy_steps *t = s->steps;
    s->steps = NULL;
    if (!t)
        return;
    fputs(t->any ? "\n]\n" : "[]\n", t->file);
    char *to = tachy_asprintf("%s/%llu.ort.json", s->profile_dir, (unsigned long long)t->start);
    bool ok = fclose(t->file) == 0 && to && rename(t->path, to) == 0;
    t->file = NULL;
    if (!ok)
        unlink(t->path);
    tachy_free(to);
    steps_free(t);
}
