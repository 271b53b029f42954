#include "base/base.h"
#include "base/numeric.h"
#include "report/environment.h"
#include "report/summary_live.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tachy/run.h>

// A run's summary for programs (JSON, stable) and for people (a few lines).

static json_t *number(double v, int decimals)
{
    double scale = pow(10, decimals);
    return json_real(isfinite(v) ? round(v * scale) / scale : 0);
}

static json_t *step_json(const struct tachy_step_stats *s)
{
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(s->name));
    json_object_set_new(o, "calls", json_integer(s->calls));
    json_object_set_new(o, "busy_s", number(s->busy_s, 6));
    json_object_set_new(o, "wait_s", number(s->wait_s, 6));
    json_object_set_new(o, "p50_ms", number(s->p50_ms, 4));
    json_object_set_new(o, "p90_ms", number(s->p90_ms, 4));
    json_object_set_new(o, "p95_ms", number(s->p95_ms, 4));
    json_object_set_new(o, "p99_ms", number(s->p99_ms, 4));
    json_object_set_new(o, "max_ms", number(s->max_ms, 4));
    json_object_set_new(o, "light_ms", s->light_ms > 0 ? number(s->light_ms, 4) : json_null());
    return o;
}

// Those that the job used and that were measured.
static json_t *resources_json(const struct tachy_resource_stats all[TACHY_RESOURCE_COUNT])
{
    json_t *list = json_array();
    for (int r = 0; r < TACHY_RESOURCE_COUNT; r++) {
        const struct tachy_resource_stats *u = &all[r];
        if (u->light_ms > 0)
            json_array_append_new(
                list, json_pack("{s:s, s:o, s:o, s:o, s:o}", "name", tachy_resource_name((enum tachy_resource)r),
                                "light_ms", number(u->light_ms, 5), "fps", number(1e3 / u->light_ms, 2), "busy",
                                number(u->busy, 4), "copies", u->copies ? json_integer(u->copies) : json_null()));
    }
    return list;
}

static json_t *latency_json(const struct tachy_latency *l)
{
    json_t *o = json_object();
    json_object_set_new(o, "p50", number(l->p50_ms, 4));
    json_object_set_new(o, "p90", number(l->p90_ms, 4));
    json_object_set_new(o, "p95", number(l->p95_ms, 4));
    json_object_set_new(o, "p99", number(l->p99_ms, 4));
    json_object_set_new(o, "max", number(l->max_ms, 4));
    return o;
}

static json_t *curve_json(const struct tachy_latency *l)
{
    json_t *list = json_array();
    for (int i = 0; i < TACHY_LATENCY_CURVE; i++)
        json_array_append_new(list, number(l->curve_ms[i], 4));
    return list;
}

static json_t *verdict_json(const struct tachy_verdict *v)
{
    char *text = NULL;
    json_t *o = tachy_verdict_json(&text, v) == TACHY_OK ? json_loads(text, 0, NULL) : NULL;
    tachy_free(text);
    return o ? o : json_null();
}

static json_t *gpus_json(const struct tachy_summary *s)
{
    json_t *all = json_array();
    for (int i = 0; i < s->nb_gpus; i++) {
        json_t *o = json_object();
        json_object_set_new(o, "gpu", json_integer(s->gpus[i].gpu));
        json_object_set_new(o, "frames", json_integer(s->gpus[i].frames));
        if (s->nb_gpus > 1)
            json_object_set_new(o, "resources", resources_json(s->gpus[i].resources));
        json_array_append_new(all, o);
    }
    return all;
}

static json_t *outputs_json(const struct tachy_summary *s)
{
    json_t *all = json_array();
    for (int i = 0; i < s->nb_outputs; i++) {
        const struct tachy_output_stats *k = &s->outputs[i];
        json_t *o = json_pack("{s:I, s:I, s:I, s:s?}", "frames", (json_int_t)k->frames, "bytes", (json_int_t)k->bytes, "shed",
                              (json_int_t)k->shed, "error", k->error ? tachy_err_name(k->error) : NULL);
        json_object_set_new(o, "name", json_string(k->name)); // left out if it is not UTF-8
        json_array_append_new(all, o);
    }
    return all;
}

static json_t *batches_json(const struct tachy_summary *s)
{
    if (!s->batch_runs)
        return json_null();
    json_t *o = json_pack("{s:I, s:I}", "runs", (json_int_t)s->batch_runs, "pictures", (json_int_t)s->batch_pictures);
    json_object_set_new(o, "mean", number((double)s->batch_pictures / (double)s->batch_runs, 3));
    return o;
}

// `model`: the one that saw most.
static void put_models(json_t *o, const struct tachy_summary *s)
{
    json_t *all = json_array();
    for (int i = 0; i < s->nb_models; i++)
        json_array_append_new(all, json_pack("{s:s, s:I}", "name", s->models[i].name, "runs", (json_int_t)s->models[i].runs));
    if (s->nb_models)
        json_object_set_new(o, "model", json_string(s->models[0].name));
    json_object_set_new(o, "models", all);
}

// null: it is not known.
static json_t *energy_json(const struct tachy_summary *s)
{
    const struct tachy_energy *e = &s->energy;
    if (!(e->joules > 0) || s->frames <= 0)
        return json_null();
    return json_pack("{s:o, s:o, s:b, s:b}", "joules", number(e->joules, 3), "joules_per_frame", number(e->joules / (double)s->frames, 6),
                     "cpu", e->cpu, "gpus", e->gpus);
}

int tachy_summary_json_sized(size_t s_size, char **json, const struct tachy_summary *s, const char *context)
{
    struct tachy_summary own;
    s = tachy_sized_in(&own, sizeof(own), s, s_size);
    TACHY_CLEAR(json);
    if (!json || !s)
        return TACHY_ERR_INVAL;
    json_t *o = context ? json_loads(context, 0, NULL) : json_object();
    if (!json_is_object(o)) {
        json_decref(o);
        return TACHY_ERR_INVAL;
    }
    json_object_set_new(o, "kind", json_string("summary"));
    json_object_set_new(o, "version", json_integer(1));
    json_object_set_new(o, "environment", report_environment());
    json_object_set_new(o, "frames", json_integer(s->frames));
    json_object_set_new(o, "decoded", json_integer(s->decoded));
    json_object_set_new(o, "damaged", json_integer(s->damaged));
    json_object_set_new(o, "seconds", number(s->seconds, 6));
    json_object_set_new(o, "fps", number(s->fps, 3));
    json_object_set_new(o, "steady_fps", number(s->steady_fps, 3));
    json_object_set_new(o, "first_frame_s", number(s->first_frame_s, 6));
    json_object_set_new(o, "light_ratio",
                        s->light_ratio > 0 ? number(s->light_ratio, 4) : json_null());
    json_object_set_new(o, "light_stored", json_boolean(s->light_stored));
    json_object_set_new(o, "light_by",
                        s->light_ratio > 0 ? json_string(tachy_resource_name(s->light_by)) : json_null());
    bool several = s->light_ratio > 0 && s->nb_gpus > 1 && s->light_gpu >= 0;
    json_object_set_new(o, "light_gpu", several ? json_integer(s->light_gpu) : json_null());
    json_object_set_new(o, "resources", s->light_ratio > 0 ? resources_json(s->resources) : json_array());
    json_object_set_new(o, "utilisation", number(s->utilisation, 4));
    bool limited = s->nb_steps && s->verdict.limit != TACHY_LIMIT_NONE;
    json_object_set_new(o, "limited_by", limited ? json_string(s->steps[s->verdict.step].name) : json_null());
    json_object_set_new(o, "limited_text", json_string(s->verdict.words));
    json_object_set_new(o, "verdict", verdict_json(&s->verdict));
    json_object_set_new(o, "peak_memory_mib", number(s->peak_memory_mib, 1));
    json_object_set_new(o, "energy", energy_json(s));
    json_object_set_new(o, "workers", json_integer(s->workers));
    json_object_set_new(o, "decoders", json_integer(s->decoders));
    json_object_set_new(o, "decode_engines", s->decode_engines ? json_integer(s->decode_engines) : json_null());
    json_object_set_new(o, "cores", json_integer(s->cores));
    json_object_set_new(o, "engine", *s->engine ? json_string(s->engine) : json_null());
    put_models(o, s);
    json_object_set_new(o, "batches", batches_json(s));
    json_object_set_new(o, "interrupted", json_boolean(s->interrupted));
    json_object_set_new(o, "resumed", json_integer(s->resumed));
    json_object_set_new(o, "kept", s->kept >= 0 ? json_integer(s->kept) : json_null());
    json_t *steps = json_array();
    for (int i = 0; i < s->nb_steps; i++)
        json_array_append_new(steps, step_json(&s->steps[i]));
    json_object_set_new(o, "steps", steps);
    json_object_set_new(o, "latency_ms", latency_json(&s->latency));
    json_object_set_new(o, "latency_curve_ms", curve_json(&s->latency));
    tachy_summary_live_json(o, s);
    json_object_set_new(o, "gpus", gpus_json(s));
    json_object_set_new(o, "outputs", outputs_json(s));
    *json = json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(o);
    return *json ? TACHY_OK : TACHY_ERR_NOMEM;
}

static bool uses_gpu(const struct tachy_summary *s)
{
    for (int r = 0; r < TACHY_RESOURCE_COUNT; r++)
        if (r != TACHY_RESOURCE_CORES && s->resources[r].light_ms > 0)
            return true;
    return false;
}

static const char *resource_words(enum tachy_resource r)
{
    static const char *const words[TACHY_RESOURCE_COUNT] = {"cores", "SMs", "decoder", "copies to host",
                                                            "copies to GPU", "encoder"};
    return words[r];
}

// A line a resource, for a job that has more than the cores.
static void resource_lines(FILE *f, const struct tachy_summary *s)
{
    fputs("  resource     isolated ms    isolated fps   busy  side by side\n", f);
    for (int r = 0; r < TACHY_RESOURCE_COUNT; r++) {
        const struct tachy_resource_stats *u = &s->resources[r];
        char copies[16] = "";
        if (u->copies)
            snprintf(copies, sizeof(copies), "%d", u->copies);
        if (u->light_ms > 0)
            fprintf(f, "  %-14s %9.4f %15.1f %4.0f %% %13s\n", resource_words((enum tachy_resource)r), u->light_ms,
                    1e3 / u->light_ms, 100 * u->busy, copies);
    }
}

// The light ratio, if this run measured it.
static void light_line(FILE *f, const struct tachy_summary *s)
{
    char of[32] = "";
    if (s->light_ratio <= 0 || s->light_stored)
        return;
    if (s->nb_gpus > 1 && s->light_gpu >= 0)
        snprintf(of, sizeof(of), " of GPU %d", s->light_gpu);
    fprintf(f, "Pipeline efficiency: %.0f %% of ideal (%s%s", 100 * s->light_ratio, resource_words(s->light_by), of);
    if (!uses_gpu(s))
        fprintf(f, ": %.2f ms per frame", s->resources[s->light_by].light_ms);
    fputs(")\n", f);
}

// "GPUs: 300 frames on GPU 0, 298 on GPU 1"; nothing if the CPU did it all.
static void gpus_line(FILE *f, const struct tachy_summary *s)
{
    for (int i = 0; i < s->nb_gpus; i++)
        fprintf(f, "%s%lld %son GPU %d%s", i ? ", " : "GPUs: ", (long long)s->gpus[i].frames, i ? "" : "frames ",
                s->gpus[i].gpu, i + 1 == s->nb_gpus ? "\n" : "");
}

// `isolated ms` is what a frame costs if the step runs alone, if this run measured that.
static void step_lines(FILE *f, const struct tachy_summary *s)
{
    bool measured = false;
    for (int i = 0; i < s->nb_steps; i++)
        measured |= s->steps[i].light_ms > 0 && !s->light_stored;
    fprintf(f, "  step            calls    busy s    wait s   p50 ms   p95 ms   p99 ms%s\n", measured ? "  isolated ms" : "");
    for (int i = 0; i < s->nb_steps; i++) {
        const struct tachy_step_stats *st = &s->steps[i];
        if (!st->calls)
            continue;
        fprintf(f, "  %-12s %8lld %9.2f %9.2f %8.2f %8.2f %8.2f", st->name, (long long)st->calls, st->busy_s, st->wait_s,
                st->p50_ms, st->p95_ms, st->p99_ms);
        fprintf(f, measured && st->light_ms > 0 ? " %12.3f\n" : "\n", st->light_ms);
    }
}

static void energy_line(FILE *f, const struct tachy_summary *s)
{
    const struct tachy_energy *e = &s->energy;
    if (e->joules > 0 && s->frames > 0)
        fprintf(f, "Energy: %.3g J per frame, %.0f W (%s)\n", e->joules / (double)s->frames, e->joules / s->seconds,
                e->cpu && e->gpus ? "CPU and GPUs" : e->cpu ? "CPU" : "GPUs");
}

// Of several outputs, what each got.
static void output_lines(FILE *f, const struct tachy_summary *s)
{
    for (int i = 0; i < s->nb_outputs && s->nb_outputs > 1; i++) {
        const struct tachy_output_stats *k = &s->outputs[i];
        fprintf(f, "Output %s: %lld frames", k->name, (long long)k->frames);
        if (k->bytes)
            fprintf(f, ", %.1f MiB", (double)k->bytes / (1 << 20));
        if (k->shed)
            fprintf(f, ", %lld shed", (long long)k->shed);
        fprintf(f, k->error ? "; failed: %s\n" : "\n", tachy_err_text(k->error));
    }
}

static void batches_line(FILE *f, const struct tachy_summary *s)
{
    if (s->batch_runs)
        fprintf(f, "Batches: %lld pictures in %lld runs of the model, %.2f on average\n", (long long)s->batch_pictures,
                (long long)s->batch_runs, (double)s->batch_pictures / (double)s->batch_runs);
}

// "Model: selfie-landscape", or "Models: selfie (120 pictures), selfie-landscape (30)".
static void models_line(FILE *f, const struct tachy_summary *s)
{
    if (s->nb_models == 1)
        fprintf(f, "Model: %s\n", s->models[0].name);
    else if (s->nb_models)
        fprintf(f, "Models: %s (%lld pictures), %s (%lld)\n", s->models[0].name, (long long)s->models[0].runs,
                s->models[1].name, (long long)s->models[1].runs);
}

static void frames_line(FILE *f, const struct tachy_summary *s)
{
    fprintf(f, "%lld frames in %.2f s, %.1f fps", (long long)s->frames, s->seconds, s->fps);
    if (s->resumed)
        fprintf(f, ", after %lld of an earlier run", (long long)s->resumed);
    if (s->damaged)
        fprintf(f, ", %lld damaged", (long long)s->damaged);
    fputs(s->interrupted ? ", interrupted\n" : "\n", f);
}

int tachy_summary_text_sized(size_t s_size, char **text, const struct tachy_summary *s)
{
    struct tachy_summary own;
    s = tachy_sized_in(&own, sizeof(own), s, s_size);
    size_t size;
    TACHY_CLEAR(text);
    if (!text || !s)
        return TACHY_ERR_INVAL;
    char *verdict = NULL, *live = tachy_summary_live_text(s);
    locale_t before = tachy_numeric_enter();
    FILE *f = live && tachy_verdict_text(&verdict, &s->verdict, false) == TACHY_OK ? open_memstream(text, &size) : NULL;
    if (f) {
        frames_line(f, s);
        step_lines(f, s);
        fprintf(f, "%s%s", live, verdict);
        output_lines(f, s);
        if (*s->engine)
            fprintf(f, "Engine: %s\n", s->engine);
        models_line(f, s);
        batches_line(f, s);
        gpus_line(f, s);
        fprintf(f, "CPU: %.0f %% of %d cores, %d workers, peak memory %.0f MiB\n", 100 * s->utilisation, s->cores, s->workers,
                s->peak_memory_mib);
        energy_line(f, s);
        if (s->light_ratio > 0 && !s->light_stored && uses_gpu(s))
            resource_lines(f, s);
        light_line(f, s);
    }
    tachy_numeric_leave(before);
    tachy_free(live);
    tachy_free(verdict);
    return f && fclose(f) == 0 ? TACHY_OK : TACHY_ERR_NOMEM;
}
