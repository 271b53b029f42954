#include "job/job.h"

// Settings that somebody gave and that do nothing in this job: each is logged once, with its origin. Values of presets
// are nobody's wish.

static bool on_gpu(const tachy_job *j) { return j->nb_gpus > 0; }

static bool in_turn(const tachy_job *j) { return tachy_settings_int(j->set, "run.parallel") < 2; }

static bool in_batches(const tachy_job *j) { return tachy_settings_int(j->set, "model.batch_size") > 1; }

static bool model_on_gpu(const tachy_job *j)
{
    return on_gpu(j) || !tachy_word_in("auto|tachy|cpu|null", tachy_settings_str(j->set, "model.provider"));
}

static bool skips_by_similarity(const tachy_job *j)
{
    return tachy_settings_bool(j->set, "performance.frame_skip_enabled") &&
           !tachy_settings_is_set(j->set, "performance.frame_skip_distance");
}

#define ON_CPU "in a run on the CPU; --device cuda runs on the GPU"
#define COLOURED "cutout|blur|replace|side-by-side|alpha", "in this --mode, whose pixels are the picture's own or none"

// Options that are used if `of` has one of `words` (NULL: any value), or if used() says so.
static const struct {
    const char *path;
    bool (*used)(const tachy_job *j);
    const char *of, *words;
    const char *why;
} conditions[] = {
    {"performance.max_latency_ms", NULL, "performance.live", "yes",
     "without --live: every frame is worked on, however long it takes"},
    {"performance.target_fps", NULL, "performance.live", "yes",
     "without --live: every frame is worked on as fast as it can be; -re reads at the input's rate"},
    {"performance.auto_tune", in_turn, NULL, NULL, "with --parallel, whose runs share their workers"},
    {"performance.frame_skip_threshold", skips_by_similarity, NULL, NULL,
     "without frame_skip_enabled, or beside a distance (--frame-skip=D)"},
    {"gpu.id", on_gpu, NULL, NULL, ON_CPU},
    {"gpu.ids", on_gpu, NULL, NULL, ON_CPU},
    {"gpu.memory_fraction", on_gpu, NULL, NULL, ON_CPU},
    {"gpu.max_vram_usage", on_gpu, NULL, NULL, ON_CPU},
    {"gpu.cudnn_benchmark", model_on_gpu, NULL, NULL, ON_CPU},
    {"gpu.cudnn_deterministic", model_on_gpu, NULL, NULL, ON_CPU},
    {"gpu.allow_tf32", NULL, "model.provider", "cuda-ort", "without --provider cuda-ort; tachy has --precision tf32"},
    {"tensorrt.precision.fp16", NULL, "model.provider", "tensorrt", "without --provider tensorrt; tachy has --precision fp16"},
    {"tensorrt.precision.int8", NULL, "model.provider", "tensorrt", "without --provider tensorrt"},
    {"batching.dynamic.timeout_ms", in_batches, NULL, NULL, "without batches; --batch N makes them"},
    {"processing.chunk_size", NULL, "output.resume", "yes", "without --resume, which writes in parts"},
    {"debug.save_frames", NULL, "debug.save_stage", NULL, "without --save-stage"},
    {"metrics.linger", NULL, "metrics.address", NULL, "without --enable-metrics"},
    {"segment.blur", NULL, "segment.mode", "blur", "without --mode blur"},
    {"segment.tint", NULL, "segment.mode", "overlay", "without --mode overlay"},
    {"segment.background", NULL, "segment.mode", "cutout|replace|side-by-side", "in this --mode; cutout, replace and side-by-side show it"},
    {"segment.foreground", NULL, "segment.mode", COLOURED},
    {"segment.despill", NULL, "segment.mode", COLOURED},
    {"segment.feather", NULL, "segment.edge", "soft|natural", "with --edge hard"},
    {"segment.refine", NULL, "segment.edge", "soft|hard", "with --edge natural, which finds the edge itself"},
    {"segment.key_black", NULL, "segment.key", NULL, "without --key"},
    {"segment.key_white", NULL, "segment.key", NULL, "without --key"},
    {"segment.key_shadows", NULL, "segment.key", NULL, "without --key"},
    {"segment.plate_tolerance", NULL, "segment.plate", NULL, "without --plate"},
};

static bool is_used(const tachy_job *j, size_t i)
{
    const char *of = conditions[i].of, *words = conditions[i].words;
    if (conditions[i].used)
        return conditions[i].used(j);
    if (!words)
        return tachy_settings_is_set(j->set, of);
    return !strcmp(words, "yes") ? tachy_settings_bool(j->set, of) : tachy_word_in(words, tachy_settings_str(j->set, of));
}

// A switch that is off asks for nothing.
static bool asks(const tachy_job *j, const char *path)
{
    const struct tachy_option *o = tachy_option_find_in(tachy_settings_options(j->set), path, NULL);
    bool off = o && o->type == TACHY_OPT_BOOL && !tachy_settings_bool(j->set, path) == !(o->def && !strcmp(o->def, "yes"));
    return o && job_reads(j, o) && !off;
}

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
        if (is_given(j, conditions[i].path) && asks(j, conditions[i].path) && !is_used(j, i))
            note(j, conditions[i].path, TACHY_LOG_INFO, "has no effect", conditions[i].why);
    for (const struct tachy_option *o = tachy_settings_options(j->set); o->path; o++)
        if (o->needless && is_given(j, o->path))
            note(j, o->path, TACHY_LOG_VERBOSE, "is not needed here:", o->needless);
}
