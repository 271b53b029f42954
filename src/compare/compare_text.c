#include "compare/comparison.h"

#include "base/base.h"
#include "base/numeric.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

// A comparison for programs (JSON, docs/compare.md) and for people (a table).

static json_t *number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *metric_json(const tachy_comparison *c, int which, enum tachy_matte_metric m)
{
    int64_t worst = tachy_comparison_worst(c, which, m);
    json_t *frames = json_array();
    for (int64_t i = 0; i < c->frames; i++)
        json_array_append_new(frames, number(c->figures[which][i][m]));
    return json_pack("{s:o, s:o, s:o, s:o}", "mean", number(tachy_comparison_mean(c, which, m)), "worst",
                     worst < 0 ? json_null() : number(c->figures[which][worst][m]), "worst_frame",
                     worst < 0 ? json_null() : json_integer(worst), "frames", frames);
}

static json_t *judged_json(const tachy_comparison *c, int which)
{
    json_t *o = json_pack("{s:s}", "file", c->file[which]);
    for (int m = 0; o && m < TACHY_MATTE_METRICS; m++) {
        enum tachy_matte_metric metric = (enum tachy_matte_metric)m;
        json_object_set_new(o, tachy_matte_metric_name(metric), metric_json(c, which, metric));
    }
    return o;
}

int tachy_comparison_json(char **json, const tachy_comparison *c)
{
    TACHY_CLEAR(json);
    if (!json || !c)
        return TACHY_ERR_INVAL;
    json_t *judged = json_array();
    for (int k = 0; k < c->nb; k++)
        json_array_append_new(judged, judged_json(c, k));
    json_t *o = json_pack("{s:s, s:i, s:I, s:i, s:i, s:s, s:o}", "kind", "matte comparison", "version", 1, "frames", (json_int_t)c->frames, "width", c->width,
                          "height", c->height, "against", c->against, "judged", judged);
    *json = o ? json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(o);
    return *json ? TACHY_OK : TACHY_ERR_NOMEM;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static void put_figure(FILE *f, double v)
{
    if (isnan(v))
        fprintf(f, "  %20s", "-");
    else
        fprintf(f, "  %20.6g", v);
}

static void put_row(FILE *f, const tachy_comparison *c, enum tachy_matte_metric m)
{
    static const char *const names[] = {"IoU", "mean difference", "squared difference", "gradient error, 1000",
                                        "connectivity, 1000", "dtSSD", "ghosting", "false alpha"};
    fprintf(f, "%-22s", names[m]);
    for (int k = 0; k < c->nb; k++)
        put_figure(f, tachy_comparison_mean(c, k, m));
    const char *gap = "  ";
    for (int k = 0; k < c->nb; k++, gap = ", ") {
        int64_t worst = tachy_comparison_worst(c, k, m);
        if (worst < 0)
            fprintf(f, "%s-", gap);
        else
            fprintf(f, "%s%lld", gap, (long long)worst);
    }
    fputc('\n', f);
}

int tachy_comparison_text(char **text, const tachy_comparison *c)
{
    size_t size;
    TACHY_CLEAR(text);
    if (!text || !c)
        return TACHY_ERR_INVAL;
    FILE *f = open_memstream(text, &size);
    if (!f)
        return TACHY_ERR_NOMEM;
    locale_t before = tachy_numeric_enter();
    fprintf(f, "%lld frame%s of %dx%d, held against %s\n%-22s", (long long)c->frames, c->frames == 1 ? "" : "s",
            c->width, c->height, c->against, "mean of the frames");
    for (int k = 0; k < c->nb; k++)
        fprintf(f, "  %20.20s", base_name(c->file[k]));
    fprintf(f, "  worst frame%s\n", c->nb > 1 ? "s" : "");
    for (int m = 0; m < TACHY_MATTE_METRICS; m++)
        put_row(f, c, (enum tachy_matte_metric)m);
    tachy_numeric_leave(before);
    return fclose(f) == 0 ? TACHY_OK : TACHY_ERR_NOMEM;
}
