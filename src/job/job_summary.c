#include "job/job.h"
#include "sink/output.h"

#include <stdio.h>
#include <stdlib.h>

int job_keep_summary(tachy_job *j, const struct tachy_job_file *f, const struct tachy_summary *s)
{
    char *text = NULL, *json = NULL;
    bool ran = s->engine[0]; // a keyer or a plate needs no model
    json_t *context = json_pack("{s:s, s:s, s:s?, s:s, s:s?}", "tachy", tachy_version(), "input", f->input, "output",
                                f->output, "mode", j->mode, "model", ran ? tachy_settings_str(j->set, "model.name") : NULL);
    int err = context && (text = json_dumps(context, JSON_COMPACT)) ? TACHY_OK : TACHY_ERR_NOMEM;
    tachy_hide_secrets(text);
    if (err == TACHY_OK)
        err = tachy_summary_json(&json, s, text);
    json_t *one = err == TACHY_OK ? json_loads(json, 0, NULL) : NULL;
    if (err == TACHY_OK && (!one || json_array_append_new(j->summaries, one) < 0))
        err = TACHY_ERR_NOMEM;
    json_decref(context);
    free(text);
    tachy_free(json);
    return err;
}

// One file: the object, indented. Several: one object per line.
static char *summaries_text(const tachy_job *j)
{
    char *text = NULL;
    size_t used, i, n = json_array_size(j->summaries);
    json_t *one;
    FILE *f = open_memstream(&text, &used);
    if (!f)
        return NULL;
    json_array_foreach(j->summaries, i, one) {
        json_dumpf(one, f, JSON_REAL_PRECISION(15) | (n > 1 ? JSON_COMPACT : JSON_INDENT(2)));
        fputc('\n', f);
    }
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

int job_write_summaries(const tachy_job *j)
{
    struct tachy_output o = {0};
    if (!json_array_size(j->summaries))
        return TACHY_OK;
    char *text = summaries_text(j);
    int err = text ? tachy_output_open(&o, j->json, j->info.overwrite, j->p.log) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK) {
        tachy_output_write(&o, text, strlen(text));
        err = tachy_output_finish(&o); // says what failed before it, too
    }
    tachy_output_close(&o);
    free(text);
    return err;
}
