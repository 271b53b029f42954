#include "pipeline/run_options.h"

#include "base/base.h"
#include "base/cpu.h"
#include "base/options.h"

const struct tachy_option tachy_run_options[] = {
    {"model.batch_size", "batch", 0, TACHY_OPT_INT, "1", .min = 1, .max = 256, .group = "Model",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE, .aliases = "batch-size", .range = true, .values = "auto", .tune = "1|2|4|8|16|32", .tune_changes = true,
     .help = "pictures per run of the model, from all inputs together; above 1 only if the model takes them; of a "
             "range (16-32) the upper end; auto: found by trial before the first frame",
     .keys = TACHY_KEYS(TACHY_KEY("batching.dynamic.max_batch_size"),
     TACHY_KEY("pipeline.stages.inference.batch_size"))},
    {"model.num_workers", "workers", 0, TACHY_OPT_INT, "0", .max = 1024, .group = "Model", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .tune = "cores", .help = "frames in work at the same time; 0: one per core, or two if a GPU runs everything",
     .keys = TACHY_KEYS(TACHY_KEY("processing.num_threads"))},
    {"processing.max_memory", "max-memory", 0, TACHY_OPT_INT, "0", .max = 1 << 30, .arg = "MIB", .group = "Model",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "limit in MiB of the pictures and results in flight; 0: 160 MiB, or what the workers need"},
    {"processing.max_queue_size", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 4096, .group = "Processing",
     .verbs = TACHY_VERB_RUN,
     .help = "frames that may wait for a worker, as performance.prefetch_frames; the smaller value applies"},
    {"model.prefetch_factor", NULL, 0, TACHY_OPT_INT, .max = 64, .group = "Model", .verbs = TACHY_VERB_RUN,
     .help = "batches that may wait for each worker; 0: as many frames as processing.max_memory holds"},
    {"batching.dynamic.timeout_ms", NULL, 0, TACHY_OPT_FLOAT, .max = 60000, .group = "Pipeline",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "how long a picture waits for others to fill a batch, in ms; 0: 5"},
    {"performance.live", "live", 0, TACHY_OPT_BOOL, "no", .group = "Performance", .verbs = TACHY_VERB_RUN,
     .help = "never hold back the source: the newest frame wins, and frames that no worker has time for are shed and "
             "counted; without it every frame is processed"},
    {"performance.max_latency_ms", "max-latency", 0, TACHY_OPT_FLOAT, "0", .max = 60000, .arg = "MS",
     .group = "Performance", .verbs = TACHY_VERB_RUN,
     .help = "with --live: deadline from a frame's arrival to its result, in ms; frames that miss it are shed; "
             "0: none"},
    {"performance.adapt", "adapt", 0, TACHY_OPT_BOOL, "yes", .group = "Performance", .verbs = TACHY_VERB_RUN,
     .help = "with --max-latency: reduce the work per frame, step by step, while frames miss the deadline"},
    {"performance.frame_skip_enabled", NULL, 0, TACHY_OPT_BOOL, "no", .group = "Performance", .verbs = TACHY_VERB_RUN,
     .tune = "yes", .tune_changes = true,
     .help = "reuse the last result for a frame that looks like the last one that the model saw"},
    {"performance.frame_skip_threshold", NULL, 0, TACHY_OPT_FLOAT, "0.92", .max = 1, .group = "Performance",
     .verbs = TACHY_VERB_RUN,
     .help = "how similar two frames must be for that, 1: identical; as a distance of --frame-skip it is (1 - value) "
             "/ 4"},
    {"performance.frame_skip_distance", "frame-skip", 0, TACHY_OPT_FLOAT, .max = 1, .bare = "0.02",
     .arg = "DISTANCE", .group = "Performance", .verbs = TACHY_VERB_RUN,
     .help = "reuse the last result while frames differ by at most this from the last one that the model saw (largest "
             "difference of luma means over a grid); 0: never. It replaces frame_skip_threshold, and on the command "
             "line it turns frame skipping on"},
    {"performance.auto_tune", "auto-tune", 0, TACHY_OPT_BOOL, "no", .group = "Performance", .verbs = TACHY_VERB_RUN,
     .help = "find the best numbers of workers and decoders during the run, in the first seconds and when its rate changes; results stay the same, bit for bit"},
    {"run.time_limit", "time-limit", 0, TACHY_OPT_FLOAT, "0", .max = 1e9, .arg = "SECONDS", .group = "Run", .verbs = TACHY_VERB_RUN,
     .help = "stop reading this many seconds after the first frame was written and every decoder has begun, then "
             "finish the frames in work; 0: no limit"},
    {"performance.target_fps", NULL, 0, TACHY_OPT_FLOAT, "0", .max = 1000, .group = "Performance",
     .verbs = TACHY_VERB_RUN,
     .help = "with --live: frames per second to process; more are shed on arrival; 0: all"},
    {"performance.prefetch_frames", NULL, 0, TACHY_OPT_INT, .max = 4096, .group = "Performance",
     .verbs = TACHY_VERB_RUN,
     .help = "frames to read ahead of those in work; 0: as many as processing.max_memory holds"},
    {"performance.clear_cache_interval", NULL, 0, TACHY_OPT_INT, .max = 1e9, .group = "Performance",
     .verbs = TACHY_VERB_RUN,
     .help = "frames after which memory kept for later frames is given back; 0: never"},
    {0},
};

const struct tachy_option tachy_save_options[] = {
    {"debug.save_stage", "save-stage", 0, TACHY_OPT_STRING, .arg = "DIR [N]", .group = "Run", .verbs = TACHY_VERB_RUN,
     .then = "debug.save_frames",
     .help = "save what preprocess, model and postprocess read and write in the first N frames, as .npy files, for "
             "tachy replay"},
    {"debug.save_frames", NULL, 0, TACHY_OPT_INT, "8", .min = 1, .max = 100000, .group = "Run",
     .verbs = TACHY_VERB_RUN, .help = "the N of --save-stage"},
    {0},
};

static struct tachy_live_params live_settings(const tachy_settings *s)
{
    // --frame-skip=DISTANCE turns it on as well; in a file these are two keys, and a similarity may stand for the distance.
    static const char enabled[] = "performance.frame_skip_enabled", distance[] = "performance.frame_skip_distance";
    bool asked = tachy_settings_by_name(s, distance) && !tachy_settings_by_name(s, enabled);
    double similarity = tachy_settings_float(s, "performance.frame_skip_threshold");
    return (struct tachy_live_params){
        .mode = tachy_settings_bool(s, "performance.live") ? TACHY_RUN_LIVE : TACHY_RUN_ALL,
        .max_latency_ms = tachy_settings_float(s, "performance.max_latency_ms"),
        .frame_skip = tachy_settings_bool(s, enabled) || asked,
        .frame_skip_threshold = tachy_settings_is_set(s, distance) ? tachy_settings_float(s, distance) : (1 - similarity) / 4,
        .realtime = tachy_settings_bool(s, "input.realtime"),
        .target_fps = tachy_settings_float(s, "performance.target_fps"),
        .no_degrade = !tachy_settings_bool(s, "performance.adapt"),
    };
}

// Frames that may wait for a worker: the least that one of the keys asks for. 0: none does.
static int64_t read_ahead(const tachy_settings *s)
{
    int64_t workers = TACHY_DEF(tachy_settings_int(s, "model.num_workers"), tachy_cpu_count()), least = 0;
    const int64_t asked[] = {
        tachy_settings_int(s, "performance.prefetch_frames"),
        tachy_settings_int(s, "processing.max_queue_size"),
        tachy_settings_int(s, "model.prefetch_factor") * TACHY_MAX(tachy_settings_int(s, "model.batch_size"), 1) * workers,
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(asked); i++)
        if (asked[i] && (!least || asked[i] < least))
            least = asked[i];
    return least;
}

void tachy_run_read_settings(struct tachy_run_params *p, const tachy_settings *s)
{
    p->workers = (int)tachy_settings_int(s, "model.num_workers");
    p->max_bytes = tachy_settings_int(s, "processing.max_memory") << 20;
    p->batch = (int)tachy_settings_int(s, "model.batch_size");
    p->batch_timeout_us = (int64_t)(1000 * tachy_settings_float(s, "batching.dynamic.timeout_ms"));
    p->ahead = read_ahead(s);
    p->trim_every = tachy_settings_int(s, "performance.clear_cache_interval");
    p->calibrate = tachy_settings_bool(s, "run.calibrate");
    p->live = live_settings(s);
    p->auto_tune = tachy_settings_bool(s, "performance.auto_tune");
    p->time_limit_s = tachy_settings_float(s, "run.time_limit");
}
