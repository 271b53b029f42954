#include "profile/profile_priv.h"

#include <math.h>
#include <stdlib.h>

// The figures as a table, as JSON and as folded stacks.

enum { TOP_TEXT = 10 };

static double busy_of_all(const struct profile_figures *f)
{
    double busy = 0;
    for (int s = 0; s < f->nb_steps; s++)
        busy += f->all[s].busy_s;
    return busy > 0 ? busy : 1;
}

static void text_steps(FILE *f, const struct profile_figures *fig)
{
    double all = busy_of_all(fig);
    fprintf(f, "  %-8s %-12s %8s %9s %9s %8s %8s %8s %8s %7s\n", "stage", "step", "calls", "busy s",
            "wait s", "p50 ms", "p95 ms", "p99 ms", "max ms", "share");
    for (int k = 0; k < TACHY_LANE_KINDS; k++) {
        for (int s = 0; s < fig->nb_steps; s++) {
            const struct tachy_step_stats *st = &fig->step[k][s];
            if (st->calls)
                fprintf(f, "  %-8s %-12s %8lld %9.3f %9.3f %8.3f %8.3f %8.3f %8.3f %5.1f %%\n",
                        profile_kind_name((enum tachy_lane_kind)k), st->name, (long long)st->calls, st->busy_s,
                        st->wait_s, st->p50_ms, st->p95_ms, st->p99_ms, st->max_ms, 100 * st->busy_s / all);
        }
    }
}

static void text_operators(FILE *f, const struct profile_ops *ops)
{
    uint64_t total;
    const struct profile_op_sum **list = profile_ops_sorted(ops, &total);
    if (list && ops->n) {
        fprintf(f, "  operators by time (in the first %lld runs of the model)\n  %-36s %-18s %8s %9s %7s %11s\n",
                (long long)ops->model_runs, "name", "type", "calls", "total ms", "share",
                "output KiB");
        for (size_t i = 0; i < ops->n && i < TOP_TEXT; i++)
            fprintf(f, "  %-36.36s %-18.18s %8lld %9.2f %5.1f %% %11.1f\n", list[i]->name,
                    list[i]->type, (long long)list[i]->calls, (double)list[i]->ns * 1e-6,
                    100 * (double)list[i]->ns / (double)TACHY_MAX(total, 1u),
                    (double)list[i]->bytes / 1024);
    }
    free(list);
}

static void text_verdict(FILE *f, const struct tachy_profile *p)
{
    char *text = NULL;
    if (p->runs && tachy_verdict_text(&text, &p->verdict, true) == TACHY_OK)
        fputs(text, f);
    tachy_free(text);
}

int tachy_profile_text(tachy_profile *p, char **text)
{
    TACHY_CLEAR(text);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && text))
        return TACHY_ERR_INVAL;
    struct profile_figures *fig = malloc(sizeof(*fig));
    size_t size;
    pthread_mutex_lock(&p->lock);
    profile_ops_collect(p);
    int err = fig ? profile_figures(p, fig) : TACHY_ERR_NOMEM;
    FILE *f = err == TACHY_OK ? open_memstream(text, &size) : NULL;
    if (f) {
        fprintf(f, "%lld frames in %.2f s, %.1f fps, %d run%s\n", (long long)p->frames,
                p->seconds, p->seconds > 0 ? (double)p->frames / p->seconds : 0, p->runs,
                p->runs == 1 ? "" : "s");
        text_steps(f, fig);
        const struct tachy_latency *l = &fig->latency;
        fprintf(f,
                "Latency: p50 %.2f, p90 %.2f, p95 %.2f, p99 %.2f, max %.2f ms from arrival to "
                "written\n",
                l->p50_ms, l->p90_ms, l->p95_ms, l->p99_ms, l->max_ms);
        text_verdict(f, p);
        text_operators(f, &p->ops);
        profile_gpu_text(p, f);
        if (fclose(f) != 0)
            err = TACHY_ERR_NOMEM;
    } else {
        err = TACHY_ERR_NOMEM;
    }
    pthread_mutex_unlock(&p->lock);
    free(fig);
    return err;
}

static json_t *number(double v) { return json_real(isfinite(v) ? v : 0); }

static json_t *steps_json(const struct profile_figures *fig)
{
    json_t *list = json_array();
    double all = busy_of_all(fig);
    for (int k = 0; k < TACHY_LANE_KINDS; k++) {
        for (int s = 0; s < fig->nb_steps; s++) {
            const struct tachy_step_stats *st = &fig->step[k][s];
            if (!st->calls)
                continue;
            json_array_append_new(
                list, json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "stage",
                                profile_kind_name((enum tachy_lane_kind)k), "name", st->name, "calls",
                                (json_int_t)st->calls,
                                "busy_s", number(st->busy_s), "wait_s", number(st->wait_s),
                                "p50_ms", number(st->p50_ms), "p90_ms", number(st->p90_ms),
                                "p95_ms", number(st->p95_ms), "p99_ms", number(st->p99_ms),
                                "max_ms", number(st->max_ms), "share", number(st->busy_s / all)));
        }
    }
    return list;
}

static json_t *latency_json(const struct tachy_latency *l)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "p50", number(l->p50_ms), "p90",
                     number(l->p90_ms), "p95", number(l->p95_ms), "p99", number(l->p99_ms), "max",
                     number(l->max_ms));
}

static json_t *curve_json(const struct tachy_latency *l)
{
    json_t *list = json_array();
    for (int i = 0; i < TACHY_LATENCY_CURVE; i++)
        json_array_append_new(list, number(l->curve_ms[i]));
    return list;
}

static json_t *known(uint64_t n) { return n ? json_integer((json_int_t)n) : json_null(); }

static json_t *operators_json(const struct profile_ops *ops)
{
    uint64_t total;
    json_t *o = json_object(), *time = json_array(), *memory = json_array();
    const struct profile_op_sum **list = profile_ops_sorted(ops, &total);
    for (size_t i = 0; list && i < ops->n; i++)
        json_array_append_new(time,
                              json_pack("{s:s, s:s, s:I, s:f, s:f, s:I, s:o, s:o}", "name", list[i]->name,
                                        "type", list[i]->type, "calls", (json_int_t)list[i]->calls,
                                        "total_ms", (double)list[i]->ns * 1e-6, "share",
                                        (double)list[i]->ns / (double)TACHY_MAX(total, 1u),
                                        "output_bytes", (json_int_t)list[i]->bytes, "multiply_adds", known(list[i]->multiply_adds),
                                        "moved_bytes", known(list[i]->moved_bytes)));
    if (list)
        profile_ops_by_bytes(list, ops->n);
    for (size_t i = 0; list && i < ops->n && i < TOP_TEXT; i++)
        json_array_append_new(memory,
                              json_pack("{s:s, s:s, s:I}", "name", list[i]->name, "type",
                                        list[i]->type, "output_bytes", (json_int_t)list[i]->bytes));
    free(list);
    json_object_set_new(o, "model_runs", json_integer(ops->model_runs));
    json_object_set_new(o, "total_ms", json_real((double)total * 1e-6));
    json_object_set_new(o, "by_time", time);
    json_object_set_new(o, "by_memory", memory);
    return o;
}

// Spans that the rings hold and that they no longer hold.
static json_t *spans_json(const struct tachy_profile *p)
{
    uint64_t kept = 0, dropped = 0;
    for (int i = 0; i < p->nb_lanes; i++) {
        uint64_t n = atomic_load(&p->lane[i]->spans->count);
        uint64_t most = tachy_ring_capacity(p->lane[i]->spans);
        uint64_t in = n < most ? n : most - 1; // as tachy_ring_read() says
        kept += in;
        dropped += n - in;
    }
    return json_pack("{s:I, s:I}", "kept", (json_int_t)kept, "dropped", (json_int_t)dropped);
}

static json_t *verdict_json(const struct tachy_verdict *v)
{
    char *text = NULL;
    json_t *o = tachy_verdict_json(&text, v) == TACHY_OK ? json_loads(text, 0, NULL) : NULL;
    tachy_free(text);
    return o ? o : json_null();
}

int tachy_profile_json(tachy_profile *p, char **json)
{
    TACHY_CLEAR(json);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && json))
        return TACHY_ERR_INVAL;
    struct profile_figures *fig = malloc(sizeof(*fig));
    json_t *o = json_object();
    pthread_mutex_lock(&p->lock);
    profile_ops_collect(p);
    int err = fig ? profile_figures(p, fig) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK) {
        json_object_set_new(o, "kind", json_string("profile"));
        json_object_set_new(o, "version", json_integer(1));
        json_object_set_new(o, "environment", profile_environment(p));
        json_object_set_new(o, "runs", json_integer(p->runs));
        json_object_set_new(o, "frames", json_integer(p->frames));
        json_object_set_new(o, "seconds", number(p->seconds));
        json_object_set_new(o, "fps", number(p->seconds > 0 ? (double)p->frames / p->seconds : 0));
        json_object_set_new(o, "workers", json_integer(p->workers));
        json_object_set_new(o, "limited_text", json_string(p->verdict.words));
        json_object_set_new(o, "verdict", verdict_json(&p->verdict));
        json_object_set_new(o, "latency_ms", latency_json(&fig->latency));
        json_object_set_new(o, "latency_curve_ms", curve_json(&fig->latency));
        json_object_set_new(o, "steps", steps_json(fig));
        json_object_set_new(o, "operators", operators_json(&p->ops));
        json_object_set_new(o, "gpu", profile_gpu_json(p));
        json_object_set_new(o, "spans", spans_json(p));
        json_object_set_new(o, "timeline", profile_timeline_json(p));
        json_object_set_new(o, "memory", profile_memory_json(p));
        *json = json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
        err = *json ? TACHY_OK : TACHY_ERR_NOMEM;
    }
    pthread_mutex_unlock(&p->lock);
    json_decref(o);
    free(fig);
    return err;
}

int tachy_profile_write_json(tachy_profile *p, const char *path)
{
    char *json;
    struct profile_file o;
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && path))
        return TACHY_ERR_INVAL;
    int err = tachy_profile_json(p, &json);
    if (err < 0)
        return err;
    err = profile_file_open(&o, path, p->log);
    if (err == TACHY_OK) {
        fprintf(o.f, "%s\n", json);
        err = profile_file_close(&o, err);
    }
    tachy_free(json);
    return err;
}

// ';' separates frames of a stack.
static void put_frame(FILE *f, const char *text)
{
    for (; *text; text++)
        putc(*text == ';' || *text == '\n' ? ':' : *text, f);
}

// The model's time is shared out to its operators as far as they were measured. Returns what
// is left.
static double fold_operators(FILE *f, const struct profile_ops *ops, const char *step, double model_us)
{
    uint64_t total;
    const struct profile_op_sum **list = profile_ops_sorted(ops, &total);
    for (size_t i = 0; list && i < ops->n && model_us >= (double)list[i]->ns * 1e-3; i++) {
        model_us -= (double)list[i]->ns * 1e-3;
        fprintf(f, "tachy;worker;%s;", step);
        put_frame(f, list[i]->type);
        putc(';', f);
        put_frame(f, list[i]->name);
        fprintf(f, " %.0f\n", (double)list[i]->ns * 1e-3);
    }
    free(list);
    return model_us;
}

// The workers' step with a model that took longest, to which the operators are shared out; -1: there is none.
static int model_of(const struct tachy_profile *p, const struct profile_figures *fig)
{
    const struct tachy_step_stats *work = fig->step[TACHY_LANE_WORKER];
    int best = -1;
    for (int s = 0; s < fig->nb_steps; s++)
        if (tachy_rows_has(&p->steps, s, TACHY_STEP_MODEL) && (best < 0 || work[s].busy_s > work[best].busy_s))
            best = s;
    return best;
}

int tachy_profile_write_folded(tachy_profile *p, const char *path)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && path))
        return TACHY_ERR_INVAL;
    struct profile_figures *fig = malloc(sizeof(*fig));
    struct profile_file o;
    int err = fig ? profile_file_open(&o, path, p->log) : TACHY_ERR_NOMEM;
    if (err < 0) {
        free(fig);
        return err;
    }
    pthread_mutex_lock(&p->lock);
    profile_ops_collect(p);
    err = profile_figures(p, fig);
    const int operators = err == TACHY_OK ? model_of(p, fig) : -1;
    for (int k = 0; k < TACHY_LANE_KINDS && err == TACHY_OK; k++) {
        for (int s = 0; s < fig->nb_steps; s++) {
            const struct tachy_step_stats *st = &fig->step[k][s];
            double us = st->busy_s * 1e6;
            if (k == TACHY_LANE_WORKER && s == operators)
                us = fold_operators(o.f, &p->ops, st->name, us);
            if (st->calls)
                fprintf(o.f, "tachy;%s;%s %.0f\n", profile_kind_name((enum tachy_lane_kind)k), st->name, us);
        }
    }
    pthread_mutex_unlock(&p->lock);
    free(fig);
    return profile_file_close(&o, err);
}
