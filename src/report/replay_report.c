#include "base/base.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <tachy/replay.h>

// JSON has no infinity: null stands for it.
static json_t *number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *golden_json(const struct tachy_replay *r)
{
    if (!r->compared)
        return json_null();
    return json_pack("{s:b, s:I, s:I, s:o, s:o, s:I, s:i}", "same", r->same, "identical",
                     (json_int_t)r->identical, "differ", (json_int_t)r->differ, "max_difference",
                     number(r->max_difference), "min_psnr_db", number(r->min_psnr), "worst_frame",
                     (json_int_t)r->worst_frame, "worst_eye", r->worst_eye);
}

int tachy_replay_json_sized(size_t r_size, char **json, const struct tachy_replay *r)
{
    struct tachy_replay own;
    r = tachy_sized_in(&own, sizeof(own), r, r_size);
    TACHY_CLEAR(json);
    if (!json || !r)
        return TACHY_ERR_INVAL;
    json_t *o = json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:s, s:s, s:o}", "stage",
                          tachy_replay_stage_name(r->stage), "items", (json_int_t)r->items, "runs",
                          (json_int_t)r->runs, "median_ms", r->median_ms, "p99_ms", r->p99_ms,
                          "max_ms", r->max_ms, "rate", r->rate, "saved", r->saved, "now", r->now,
                          "golden", golden_json(r));
    *json = o ? json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    return *json ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void put_golden(FILE *f, const struct tachy_replay *r)
{
    if (r->identical == r->items) {
        fprintf(f, "golden        same: all %lld results have the same bits\n", (long long)r->items);
        return;
    }
    fprintf(f,
            "golden        %s: %lld of %lld results have the same bits, %lld differ by too much\n"
            "              largest difference %.6g (frame %lld, eye %d), PSNR of the worst %.2f dB\n",
            r->same ? "same" : "differs", (long long)r->identical, (long long)r->items,
            (long long)r->differ, r->max_difference, (long long)r->worst_frame, r->worst_eye,
            r->min_psnr);
}

int tachy_replay_text_sized(size_t r_size, char **text, const struct tachy_replay *r)
{
    struct tachy_replay own;
    r = tachy_sized_in(&own, sizeof(own), r, r_size);
    size_t size;
    TACHY_CLEAR(text);
    if (!text || !r)
        return TACHY_ERR_INVAL;
    FILE *f = open_memstream(text, &size);
    if (!f)
        return TACHY_ERR_NOMEM;
    fprintf(f,
            "%-13s %lld runs over %lld saved results: median %.3f, p99 %.3f, max %.3f ms, "
            "%.1f a second\n",
            tachy_replay_stage_name(r->stage), (long long)r->runs, (long long)r->items, r->median_ms,
            r->p99_ms, r->max_ms, r->rate);
    if (r->compared)
        put_golden(f, r);
    if (r->compared && strcmp(r->saved, r->now))
        fprintf(f, "saved by      %s\nruns on       %s\n", r->saved, r->now);
    return fclose(f) == 0 ? TACHY_OK : TACHY_ERR_NOMEM;
}
