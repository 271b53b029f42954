#include "base/numeric.h"
#include "pipeline/stage_save.h"
#include "stage/composite.h"
#include "stage/smooth.h"
#include "stage/stages.h"
#include "task/segment_stages.h"

#include <jansson.h>
#include <stdlib.h>

// A stage of a task in its two forms; NULL: where frames are there, the task goes without it.
struct forms {
    const struct tachy_stage_ops *cpu, *cuda;
};

static const struct forms segment[] = {
    {&tachy_stage_preprocess, &segment_stage_preprocess_cuda},
    {&tachy_stage_model, &segment_stage_model_cuda},
    {&tachy_stage_mask, &segment_stage_mask_cuda},
    {&tachy_stage_smooth, &segment_stage_smooth_cuda},
    {&tachy_stage_background, &segment_stage_background_cuda},
    {&tachy_stage_refine, NULL},
    {&tachy_stage_composite, &segment_stage_composite_cuda},
    {&tachy_stage_mask_lines, &segment_stage_lines_cuda},
    {0},
};

// detect, classify
static const struct forms find[] = {
    {&tachy_stage_preprocess, NULL}, {&tachy_stage_model, NULL}, {&tachy_stage_decode, NULL},
    {&tachy_stage_draw, NULL},       {&tachy_stage_lines, NULL}, {0},
};

static const struct forms track[] = {
    {&tachy_stage_track, NULL}, {&tachy_stage_draw, NULL}, {&tachy_stage_lines, NULL}, {0},
};

static const struct {
    const char *name;
    const struct forms *stages; // ends with {0}
    const char *model;          // card that it runs if none is named; NULL: one must be
    bool host;                  // its stages have no form for devices
} tasks[] = {
    {"segment", segment, "selfie", false},
    {"detect", find, "face", true},
    {"classify", find, NULL, true},
    {"track", track, "face-mesh", true},
};

static const char task_names[] = "segment, detect, classify, track";

// Where a setting belongs that changes nothing of what a task makes of a frame, or that the source
// or sink answers for.
static bool is_outside(const struct tachy_option *o)
{
    static const char *const sections[] = {"input.", "output.", "run.", "general.", "profile.",
                                           "debug.", "processing.", "pipeline.", "dataloader."};
    static const char *const rows[] = {"model.num_workers", "model.dir", "model.library",
                                       "model.prefetch_factor", "model.build_effort"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(sections); i++)
        if (!strncmp(o->path, sections[i], strlen(sections[i])))
            return true;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(rows); i++)
        if (!strcmp(o->path, rows[i]))
            return true;
    return false;
}

static json_t *setting_text(const tachy_settings *s, const struct tachy_option *o)
{
    const char *const *items, *text = tachy_settings_str(s, o->path);
    if (o->type == TACHY_OPT_BOOL && text) // one text for each value, however it was written
        return json_string(tachy_settings_bool(s, o->path) ? "yes" : "no");
    if ((o->type == TACHY_OPT_INT || o->type == TACHY_OPT_FLOAT) && text)
        return json_sprintf("%.9g", tachy_settings_float(s, o->path));
    if (o->type != TACHY_OPT_LIST)
        return text ? json_string(text) : NULL;
    size_t n = tachy_settings_list(s, o->path, &items);
    char *all = strdup("");
    for (size_t i = 0; i < n && all; i++) {
        char *longer = tachy_asprintf("%s%s%s", all, i ? " " : "", items[i]);
        free(all);
        all = longer;
    }
    json_t *one = n && all ? json_string(all) : NULL;
    free(all);
    return one;
}

static int keep_settings(tachy_task *t, const tachy_settings *s)
{
    json_t *all = json_object();
    locale_t before = tachy_numeric_enter();
    for (const struct tachy_option *o = tachy_options(); o->path; o++) {
        json_t *text = is_outside(o) ? NULL : setting_text(s, o);
        if (text)
            json_object_set_new(all, o->path, text);
    }
    tachy_numeric_leave(before);
    t->settings = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return t->settings ? TACHY_OK : TACHY_ERR_NOMEM;
}

int tachy_task_open(tachy_task **out, const char *name, const tachy_settings *settings,
                    const struct tachy_log *log)
{
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(log, out && name))
        return TACHY_ERR_INVAL;
    size_t k = 0;
    while (k < TACHY_ARRAY_SIZE(tasks) && strcmp(tasks[k].name, name))
        k++;
    if (k == TACHY_ARRAY_SIZE(tasks))
        return tachy_fail(log, TACHY_ERR_NOT_FOUND,
                          "task %s: there is none of this name; there are: %s", name, task_names);

    tachy_settings *defaults = NULL;
    if (!settings) {
        int err = tachy_settings_new(&defaults, log);
        if (err < 0)
            return err;
        settings = defaults;
    }
    tachy_task *t = calloc(1, sizeof(*t));
    int err = TACHY_ERR_NOMEM;
    if (t) {
        t->name = tasks[k].name;
        t->model = tasks[k].model;
        t->log = log;
        t->eyes = 1;
        t->pinned = -1;
        err = keep_settings(t, settings);
    }
    bool cuda = !strcmp(TACHY_DEF(tachy_settings_str(settings, "gpu.device"), ""), "cuda");
    if (cuda && tasks[k].host && err == TACHY_OK)
        err = tachy_fail(log, TACHY_ERR_UNSUPPORTED, "task %s: runs on the CPU only; leave --device cuda out", name);
    for (const struct forms *f = tasks[k].stages; f->cpu && err == TACHY_OK; f++)
        if (!cuda || f->cuda)
            err = tachy_stage_add(t, cuda ? f->cuda : f->cpu, settings);
    const char *dir = tachy_settings_str(settings, "debug.save_stage");
    if (err == TACHY_OK && dir)
        err = tachy_stage_save_open(&t->save, dir, tachy_settings_int(settings, "debug.save_frames"),
                                    t, settings, log);
    tachy_settings_free(&defaults);
    if (err < 0) {
        tachy_task_close(&t);
        return err;
    }
    *out = t;
    return TACHY_OK;
}

void tachy_task_close(tachy_task **t)
{
    if (!t || !*t)
        return;
    tachy_stage_save_close(&(*t)->save); // what went wrong was logged
    tachy_stages_close(*t);
    free((*t)->settings);
    free(*t);
    *t = NULL;
}
