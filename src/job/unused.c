#include "job/job.h"

// Settings that somebody gave and that do nothing in this job: each is logged once, with its origin. Values of presets
// are nobody's wish.

static bool live(const tachy_job *j) { return tachy_settings_bool(j->set, "performance.live"); }

static bool on_gpu(const tachy_job *j) { return j->nb_gpus > 0; }

static bool in_batches(const tachy_job *j) { return tachy_settings_int(j->set, "model.batch_size") > 1; }

static bool resumes(const tachy_job *j) { return tachy_settings_bool(j->set, "output.resume"); }

static const struct {
    const char *path;
    bool (*used)(const tachy_job *j);
    const char *why;
} conditions[] = {
    {"performance.max_latency_ms", live, "without --live: every frame is worked on, however long it takes"},
    {"performance.target_fps", live, "without --live: every frame is worked on as fast as it can be; -re reads at the input's rate"},
    {"gpu.id", on_gpu, "in a run on the CPU; --device cuda runs on the GPU"},
    {"gpu.ids", on_gpu, "in a run on the CPU; --device cuda runs on the GPU"},
    {"gpu.memory_fraction", on_gpu, "in a run on the CPU; --device cuda runs on the GPU"},
    {"gpu.max_vram_usage", on_gpu, "in a run on the CPU; --device cuda runs on the GPU"},
    {"batching.dynamic.timeout_ms", in_batches, "without batches; --batch N makes them"},
    {"processing.chunk_size", resumes, "without --resume, which writes in parts"},
};

static bool is_given(const tachy_job *j, const char *path)
{
    return tachy_settings_is_set(j->set, path) && strncmp(tachy_settings_origin(j->set, path), "preset ", 7);
}

// "--max-latency", or for a file "studio.yaml:4: performance.max_latency_ms".
static void note(const tachy_job *j, const char *path, enum tachy_log_level level, const char *what, const char *why)
{
    const struct tachy_option *o = tachy_option_find_in(tachy_settings_options(j->set), path, NULL);
    bool named = tachy_settings_by_name(j->set, path);
    char shown[80];
    tachy_msg(j->p.log, level, "%s%s%s %s %s", named ? "" : tachy_settings_origin(j->set, path), named ? "" : ": ",
              named ? tachy_option_shown(o, shown, sizeof(shown)) : path, what, why);
}

void job_note_unused(const tachy_job *j)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(conditions); i++)
        if (is_given(j, conditions[i].path) && !conditions[i].used(j))
            note(j, conditions[i].path, TACHY_LOG_INFO, "has no effect", conditions[i].why);
    for (const struct tachy_option *o = tachy_settings_options(j->set); o->path; o++)
        if (o->needless && is_given(j, o->path))
            note(j, o->path, TACHY_LOG_VERBOSE, "is not needed here:", o->needless);
}
