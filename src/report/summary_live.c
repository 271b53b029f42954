#include "report/summary_live.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

// The part of a summary that says what a run did without: what was shed, what was taken over.

static json_t *shed_json(const struct tachy_live_stats *s)
{
    json_t *o = json_object();
    for (int i = 0; i < TACHY_SHED_STAGES; i++) {
        json_t *stage = json_object();
        for (int r = 0; r < TACHY_SHED_COUNT; r++)
            json_object_set_new(stage, tachy_shed_reason_name((enum tachy_shed_reason)r),
                                json_integer(s->shed[i][r]));
        json_object_set_new(o, tachy_shed_stage_name((enum tachy_shed_stage)i), stage);
    }
    return o;
}

static json_t *steps_json(const struct tachy_live_stats *s)
{
    json_t *a = json_array();
    for (int e = 0; e < TACHY_DEGRADE_COUNT; e++) {
        if (!s->degraded[e].times)
            continue;
        json_t *o = json_object();
        json_object_set_new(o, "name", json_string(tachy_degrade_name((enum tachy_degrade)e)));
        json_object_set_new(o, "times", json_integer(s->degraded[e].times));
        json_object_set_new(o, "seconds", json_real(s->degraded[e].seconds));
        json_object_set_new(o, "now", json_boolean(s->degrading >> e & 1));
        json_array_append_new(a, o);
    }
    return a;
}

void tachy_summary_live_json(json_t *o, const struct tachy_summary *of)
{
    const struct tachy_live_stats *s = &of->live;
    json_object_set_new(o, "run_mode", json_string(tachy_run_mode_name(s->mode)));
    json_object_set_new(o, "max_latency_ms",
                        s->max_latency_ms > 0 ? json_real(s->max_latency_ms) : json_null());
    json_object_set_new(o, "target_fps", of->target_fps > 0 ? json_real(of->target_fps) : json_null());
    json_object_set_new(o, "frame_skip_distance", of->skip_distance >= 0 ? json_real(of->skip_distance) : json_null());
    json_object_set_new(o, "prefetch_frames", of->ahead ? json_integer(of->ahead) : json_null());
    json_object_set_new(o, "memory_returned", json_pack("{s:I, s:I}", "times", (json_int_t)of->returns, "bytes",
                                                        (json_int_t)of->returned_bytes));
    json_object_set_new(o, "shed_frames", json_integer(tachy_live_shed(s)));
    json_object_set_new(o, "shed", shed_json(s));
    json_object_set_new(o, "late", json_integer(s->late));
    json_t *reused = json_object();
    json_object_set_new(reused, "similar", json_integer(s->similar));
    json_object_set_new(reused, "alternate", json_integer(s->alternate));
    json_object_set_new(o, "reused", reused);
    json_object_set_new(o, "steps_down", steps_json(s));
}

static void shed_line(FILE *f, const struct tachy_live_stats *s)
{
    const char *before = "";
    fprintf(f, "Shed: %lld", (long long)tachy_live_shed(s));
    for (int i = 0; i < TACHY_SHED_STAGES; i++)
        for (int r = 0; r < TACHY_SHED_COUNT; r++) {
            if (!s->shed[i][r])
                continue;
            fprintf(f, "%s %s %s %lld", before[0] ? "," : " frames:",
                    tachy_shed_stage_name((enum tachy_shed_stage)i),
                    tachy_shed_reason_name((enum tachy_shed_reason)r), (long long)s->shed[i][r]);
            before = ",";
        }
    if (s->late)
        fprintf(f, "; %lld written late", (long long)s->late);
    fputc('\n', f);
}

static void steps_line(FILE *f, const struct tachy_live_stats *s)
{
    const char *between = "Steps down: ";
    for (int e = 0; e < TACHY_DEGRADE_COUNT; e++) {
        if (!s->degraded[e].times)
            continue;
        fprintf(f, "%s%s %lld times, %.1f s", between, tachy_degrade_name((enum tachy_degrade)e),
                (long long)s->degraded[e].times, s->degraded[e].seconds);
        between = "; ";
    }
    if (between[0] == ';')
        fputc('\n', f);
}

char *tachy_summary_live_text(const struct tachy_summary *of)
{
    const struct tachy_live_stats *s = &of->live;
    const struct tachy_latency *l = &of->latency;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    if (s->mode == TACHY_RUN_LIVE) {
        fprintf(f, "Mode: live");
        if (s->max_latency_ms > 0)
            fprintf(f, ", at most %.0f ms", s->max_latency_ms);
        if (of->target_fps > 0)
            fprintf(f, ", at most %g frames/s", of->target_fps);
        fprintf(f, "; latency p50 %.1f, p95 %.1f, p99 %.1f, max %.1f ms\n", l->p50_ms, l->p95_ms, l->p99_ms, l->max_ms);
        shed_line(f, s);
        steps_line(f, s);
    }
    if (s->similar || s->alternate || of->skip_distance >= 0)
        fprintf(f, "Taken over: %lld results of similar frames, %lld of every other frame", (long long)s->similar,
                (long long)s->alternate);
    if (of->skip_distance >= 0)
        fprintf(f, "; frames count as similar up to a distance of %g", of->skip_distance);
    if (s->similar || s->alternate || of->skip_distance >= 0)
        fputc('\n', f);
    if (of->ahead)
        fprintf(f, "Read ahead: at most %lld frames\n", (long long)of->ahead);
    if (of->returns)
        fprintf(f, "Memory given back: %lld times, %.1f MiB in all\n", (long long)of->returns, (double)of->returned_bytes / (1 << 20));
    if (fclose(f)) {
        free(text);
        return NULL;
    }
    return text;
}
