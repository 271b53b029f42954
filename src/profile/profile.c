#include "profile/profile_priv.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int tachy_profile_open_sized(size_t params_size, tachy_profile **out, const struct tachy_profile_params *params)
{
    struct tachy_profile_params own;
    params = tachy_sized_in(&own, sizeof(own), params, params_size);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(params, log), out && params) ||
        !TACHY_CHECK(params->log, params->max_spans >= 0) ||
        !TACHY_CHECK(params->log, params->max_operators >= 0) ||
        !TACHY_CHECK(params->log, params->max_operators <= 1 << 26) ||
        !TACHY_CHECK(params->log, params->max_trace_bytes >= 0) ||
        !TACHY_CHECK(params->log, params->gpu_interval_ms <= 60000))
        return TACHY_ERR_INVAL;
    tachy_profile *p = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->params = *params;
    p->log = params->log;
    p->params.max_spans = TACHY_DEF(params->max_spans, 32768);
    p->params.max_operators = TACHY_DEF(params->max_operators, 131072);
    p->params.max_trace_bytes = TACHY_DEF(params->max_trace_bytes, (int64_t)64 << 20);
    pthread_mutex_init(&p->lock, NULL);
    tachy_rows_open(&p->steps);
    tachy_ticks_init();
    p->start = tachy_ticks_anchor();
    int err = profile_gpu_open(p);
    if (err < 0)
        tachy_profile_close(&p);
    *out = p;
    return err;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    remove(path);
    return 0;
}

static void free_lane(struct tachy_lane *l)
{
    if (!l)
        return;
    tachy_aligned_free(l->spans);
    tachy_aligned_free(l->samples);
    tachy_aligned_free(l->total);
    free(l);
}

void tachy_profile_close(tachy_profile **pp)
{
    tachy_profile *p = pp ? *pp : NULL;
    if (!p)
        return;
    *pp = NULL;
    profile_gpu_close(p);
    for (int i = 0; i < p->nb_lanes; i++)
        free_lane(p->lane[i]);
    if (p->dir)
        nftw(p->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    profile_ops_free(&p->ops);
    json_decref(p->context);
    free(p->thread);
    free(p->dir);
    free(p->option);
    tachy_rows_close(&p->steps);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

const char *tachy_profile_engine_option(tachy_profile *p)
{
    if (!p)
        return NULL;
    pthread_mutex_lock(&p->lock);
    if (!p->dir) {
        const char *tmp = getenv("TMPDIR");
        p->dir = tachy_asprintf("%s/tachy-profile-XXXXXX", tmp && tmp[0] ? tmp : P_tmpdir);
        if (p->dir && !mkdtemp(p->dir)) {
            tachy_msg(p->log, TACHY_LOG_WARN,
                      "%s: cannot be made (%s), so operators are not profiled", p->dir,
                      strerror(errno));
            free(p->dir);
            p->dir = NULL;
        }
        p->option = p->dir ? tachy_asprintf("profile=%s", p->dir) : NULL;
    }
    const char *option = p->option;
    pthread_mutex_unlock(&p->lock);
    return option;
}

int tachy_profile_describe(tachy_profile *p, const char *json)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && json))
        return TACHY_ERR_INVAL;
    json_t *o = json_loads(json, 0, NULL);
    if (!json_is_object(o)) {
        json_decref(o);
        return tachy_fail(p->log, TACHY_ERR_INVAL, "profile: its description is no JSON object");
    }
    pthread_mutex_lock(&p->lock);
    if (!p->context)
        p->context = json_object();
    int bad = json_object_update(p->context, o);
    pthread_mutex_unlock(&p->lock);
    json_decref(o);
    return bad ? TACHY_ERR_NOMEM : TACHY_OK;
}

const char *profile_kind_name(enum tachy_lane_kind kind)
{
    static const char *const names[TACHY_LANE_KINDS] = {"source", "worker", "order", "sink",
                                                        "gpu",    "copy",   "samples"};
    return names[kind];
}

const char *profile_lane_name(const struct tachy_lane *l, char buf[32])
{
    if (l->kind == TACHY_LANE_WORKER || l->kind == TACHY_LANE_GPU || l->kind == TACHY_LANE_COPY || l->index)
        snprintf(buf, 32, "%s %d", profile_kind_name(l->kind), l->index);
    else
        snprintf(buf, 32, "%s", profile_kind_name(l->kind));
    return buf;
}

struct tachy_rows *tachy_profile_rows(struct tachy_profile *p) { return p ? &p->steps : NULL; }

uint32_t tachy_profile_stream(struct tachy_profile *p)
{
    if (!p)
        return 0;
    pthread_mutex_lock(&p->lock);
    uint32_t n = p->streams++;
    pthread_mutex_unlock(&p->lock);
    return n;
}

// A lane that nobody has, or a new one. Under the lock.
static struct tachy_lane *take_lane(struct tachy_profile *p, enum tachy_lane_kind kind)
{
    int index = 0;
    for (int i = 0; i < p->nb_lanes; i++) {
        if (p->lane[i]->kind != kind)
            continue;
        if (!p->lane[i]->live)
            return p->lane[i];
        index++;
    }
    struct tachy_lane *l = p->nb_lanes < PROFILE_MAX_LANES ? calloc(1, sizeof(*l)) : NULL;
    if (!l)
        return NULL;
    l->kind = kind;
    l->index = index;
    l->total = tachy_prof_new(&p->steps);
    l->spans = tachy_ring_new(p->params.max_spans);
    if (kind == TACHY_LANE_SAMPLES)
        l->samples = tachy_ring_new(p->params.max_spans);
    if (!l->total || !l->spans || (kind == TACHY_LANE_SAMPLES && !l->samples)) {
        free_lane(l);
        return NULL;
    }
    p->lane[p->nb_lanes++] = l;
    return l;
}

int tachy_profile_join(struct tachy_profile *p, enum tachy_lane_kind kind, struct tachy_prof *prof)
{
    if (!p)
        return TACHY_OK;
    pthread_mutex_lock(&p->lock);
    struct tachy_lane *l = take_lane(p, kind);
    if (l) {
        l->live = prof;
        prof->lane = l;
        prof->spans = l->spans;
        prof->samples = l->samples;
    }
    pthread_mutex_unlock(&p->lock);
    return l ? TACHY_OK
             : tachy_fail(p->log, TACHY_ERR_NOMEM,
                          "profile: no memory for the spans of another thread; keep fewer spans");
}

int tachy_profile_open_prof(struct tachy_profile *p, struct tachy_rows *steps, enum tachy_lane_kind kind,
                            struct tachy_prof **prof)
{
    *prof = tachy_prof_new(steps);
    return *prof ? tachy_profile_join(p, kind, *prof) : TACHY_ERR_NOMEM;
}

void tachy_profile_thread(struct tachy_profile *p, struct tachy_prof *prof)
{
    tachy_prof_thread_start(prof);
    if (!p || !prof->lane)
        return;
    pthread_mutex_lock(&p->lock);
    void *more = realloc(p->thread, (p->nb_threads + 1) * sizeof(*p->thread));
    if (more) {
        p->thread = more;
        p->thread[p->nb_threads].tid = syscall(SYS_gettid);
        for (int i = 0; i < p->nb_lanes; i++)
            if (p->lane[i] == prof->lane)
                p->thread[p->nb_threads].lane = i;
        p->nb_threads++;
    }
    pthread_mutex_unlock(&p->lock);
}

void tachy_profile_leave(struct tachy_profile *p, struct tachy_prof *prof)
{
    if (!p || !prof || !prof->lane)
        return;
    pthread_mutex_lock(&p->lock);
    tachy_prof_merge(prof->lane->total, prof);
    prof->lane->live = NULL;
    prof->lane = NULL;
    prof->spans = prof->samples = NULL;
    pthread_mutex_unlock(&p->lock);
}

void tachy_profile_close_prof(struct tachy_profile *p, struct tachy_prof **prof)
{
    tachy_profile_leave(p, *prof);
    tachy_aligned_free(*prof);
    *prof = NULL;
}

void tachy_profile_run(struct tachy_profile *p, const struct tachy_summary *s)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->runs++;
    p->frames += s->frames;
    p->seconds += s->seconds;
    p->workers = s->workers;
    p->verdict = s->verdict;
    pthread_mutex_unlock(&p->lock);
}

int profile_figures(struct tachy_profile *p, struct profile_figures *f)
{
    struct tachy_prof *all = tachy_prof_new(&p->steps);
    int err = all ? TACHY_OK : TACHY_ERR_NOMEM;
    memset(f, 0, sizeof(*f));
    for (int kind = 0; kind < TACHY_LANE_KINDS && err == TACHY_OK; kind++) {
        struct tachy_prof *sum = tachy_prof_new(&p->steps);
        err = sum ? TACHY_OK : TACHY_ERR_NOMEM;
        for (int i = 0; i < p->nb_lanes && sum; i++) {
            const struct tachy_lane *l = p->lane[i];
            if (l->kind != (enum tachy_lane_kind)kind)
                continue;
            tachy_prof_merge(sum, l->total);
            if (l->live)
                tachy_prof_merge(sum, l->live);
        }
        if (sum) {
            tachy_prof_read(sum, f->step[kind]);
            tachy_prof_merge(all, sum);
        }
        tachy_aligned_free(sum);
    }
    if (err == TACHY_OK) {
        f->nb_steps = tachy_prof_read(all, f->all);
        tachy_prof_read_latency(all, &f->latency);
    }
    tachy_aligned_free(all);
    return err;
}

int profile_file_open(struct profile_file *o, const char *path, const struct tachy_log *log)
{
    *o = (struct profile_file){.log = log, .before = tachy_numeric_enter()};
    o->path = tachy_asprintf("%s", path);
    o->part = tachy_asprintf("%s.%ld.part", path, (long)getpid());
    o->f = o->path && o->part ? fopen(o->part, "w") : NULL;
    if (o->f)
        return TACHY_OK;
    int err = o->path && o->part ? tachy_fail(log, tachy_err_from_errno(errno),
                                              "%s: cannot be written: %s", path, strerror(errno))
                                 : TACHY_ERR_NOMEM;
    tachy_numeric_leave(o->before);
    free(o->path);
    free(o->part);
    return err;
}

int profile_file_close(struct profile_file *o, int err)
{
    tachy_numeric_leave(o->before);
    errno = 0;
    bool bad = fflush(o->f) != 0 || ferror(o->f);
    int code = TACHY_DEF(errno, EIO);
    if (fclose(o->f) != 0 && !bad) {
        bad = true;
        code = errno;
    }
    if (err == TACHY_OK && !bad && rename(o->part, o->path) < 0) {
        bad = true;
        code = errno;
    }
    if (err == TACHY_OK && bad)
        err = tachy_fail(o->log, tachy_err_from_errno(code), "%s: cannot be written: %s", o->path,
                         strerror(code));
    if (err < 0)
        unlink(o->part);
    free(o->path);
    free(o->part);
    return err;
}

void profile_put_string(FILE *f, const char *text)
{
    putc('"', f);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(f, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(f, "\\u%04x", *c);
        else
            putc(*c, f);
    }
    putc('"', f);
}
