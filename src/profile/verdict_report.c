#include "base/base.h"

#include <jansson.h>
#include <stdio.h>
#include <tachy/verdict.h>

int tachy_verdict_json(char **json, const struct tachy_verdict *v)
{
    TACHY_CLEAR(json);
    if (!json || !v)
        return TACHY_ERR_INVAL;
    json_t *list = json_array();
    for (int i = 0; i < v->n_evidence; i++)
        json_array_append_new(list, json_string(v->evidence[i]));
    json_t *gain = v->expected_gain > 0 ? json_real(v->expected_gain) : json_null();
    json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:o}", "limit", *v->name ? v->name : tachy_limit_name(v->limit), "words",
                          v->words, "remedy", v->remedy, "expected_gain", gain, "evidence", list);
    *json = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(o);
    return *json ? TACHY_OK : TACHY_ERR_NOMEM;
}

int tachy_verdict_text(char **text, const struct tachy_verdict *v, bool evidence)
{
    size_t size;
    TACHY_CLEAR(text);
    if (!text || !v)
        return TACHY_ERR_INVAL;
    FILE *f = open_memstream(text, &size);
    if (!f)
        return TACHY_ERR_NOMEM;
    fprintf(f, "%s\n", v->words);
    for (int i = 0; i < v->n_evidence && evidence; i++)
        fprintf(f, "  %s\n", v->evidence[i]);
    if (v->remedy[0])
        fprintf(f, "Remedy: %s.\n", v->remedy);
    if (v->without[0] && v->expected_gain >= 1.05)
        fprintf(f, "Gain: up to %.1fx faster %s.\n", v->expected_gain, v->without);
    return fclose(f) == 0 ? TACHY_OK : TACHY_ERR_NOMEM;
}
