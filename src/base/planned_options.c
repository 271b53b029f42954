#include "base/options.h"

// Options whose part is not built yet. A configuration file may have them; each warns of what happens instead.

#define NO_GPU "models run on the CPU, in the precision they are stored in"
#define NO_ANIMATE "there is no tachy animate yet"
#define NO_IRISES "the face mesh has 468 points, without irises"
#define NO_WINDOW "points are calmed by the one-euro filter (tracking.min_cutoff, tracking.beta)"
#define NO_CACHE "results are not kept from one frame to the next"

const struct tachy_option tachy_planned_options[] = {
    {"pipeline.stages.preprocess.cuda_streams", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 32, .group = "Input",
     .verbs = TACHY_VERB_RUN, .help = "CUDA streams of the stage preprocess", .planned = NO_GPU},
    {"pipeline.stages.postprocess.threads", NULL, 0, TACHY_OPT_INT, .max = TACHY_THREADS_MAX, .group = "Input",
     .verbs = TACHY_VERB_RUN, .help = "workers of the stage postprocess",
     .planned = "one worker carries a frame through preprocess, model and postprocess (model.num_workers)"},
    {"model.input_size", NULL, 0, TACHY_OPT_SIZE, .group = "Model", .verbs = TACHY_VERB_RUN,
     .help = "width and height that the model sees", .planned = "a model sees pictures of the size on its card"},
    {"model.prefetch_factor", NULL, 0, TACHY_OPT_INT, .max = 64, .group = "Model", .verbs = TACHY_VERB_RUN,
     .help = "batches that are made ready in advance for each worker",
     .planned = "as many frames are read ahead as processing.max_memory holds"},
    {"processing.use_multiprocessing", NULL, 0, TACHY_OPT_BOOL, .group = "Processing", .verbs = TACHY_VERB_RUN,
     .help = "workers in processes of their own",
     .planned = "workers are threads of one process, between which nothing is copied"},
    {"processing.max_queue_size", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 4096, .group = "Processing",
     .verbs = TACHY_VERB_RUN, .help = "frames that may wait in front of a stage",
     .planned = "queues are bounded in bytes, by processing.max_memory"},
    {"processing.enable_caching", NULL, 0, TACHY_OPT_BOOL, .group = "Processing", .verbs = TACHY_VERB_RUN,
     .help = "keep decoded frames and results for when they are asked for again", .planned = NO_CACHE},
    {"processing.cache_size_gb", NULL, 0, TACHY_OPT_FLOAT, .max = 1024, .group = "Processing",
     .verbs = TACHY_VERB_RUN, .help = "most that is kept, in GiB", .planned = NO_CACHE},
    {"dataloader.pin_memory", NULL, 0, TACHY_OPT_BOOL, .group = "Processing", .verbs = TACHY_VERB_RUN,
     .help = "frames lie in memory that a GPU reads directly", .planned = NO_GPU},
    {"dataloader.persistent_workers", NULL, 0, TACHY_OPT_BOOL, .group = "Processing", .verbs = TACHY_VERB_RUN,
     .help = "keep the workers from one input to the next", .planned = "each input has workers of its own"},
    {"performance.prefetch_frames", NULL, 0, TACHY_OPT_INT, .max = 4096, .group = "Performance",
     .verbs = TACHY_VERB_RUN, .help = "frames that are read ahead",
     .planned = "as many frames are read ahead as processing.max_memory holds"},
    {"performance.auto_tune", NULL, 0, TACHY_OPT_BOOL, .group = "Performance", .verbs = TACHY_VERB_RUN,
     .help = "find the fastest settings for this machine first",
     .planned = "workers and threads follow from the number of cores"},
    {"performance.use_async_capture", NULL, 0, TACHY_OPT_BOOL, .group = "Performance", .verbs = TACHY_VERB_RUN,
     .help = "read frames while others are worked on", .planned = "that is always so and cannot be turned off"},
    {"performance.use_async_output", NULL, 0, TACHY_OPT_BOOL, .group = "Performance", .verbs = TACHY_VERB_RUN,
     .help = "write frames while others are worked on", .planned = "that is always so and cannot be turned off"},
    {"animation.gpu_id", NULL, 0, TACHY_OPT_INT, .max = 255, .group = "Animation", .verbs = TACHY_VERB_RUN,
     .help = "number of the GPU that animates", .planned = NO_ANIMATE},
    {"animation.batch_size", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 256, .group = "Animation",
     .verbs = TACHY_VERB_RUN, .help = "stands in for model.batch_size when animating", .over = "model.batch_size",
     .planned = NO_ANIMATE},
    {"animation.inference_precision", NULL, 0, TACHY_OPT_ENUM, .values = "fp32|fp16|int8|mixed", .group = "Animation",
     .verbs = TACHY_VERB_RUN, .help = "stands in for gpu.precision when animating",
     .keys = TACHY_KEYS(TACHY_SWITCH("animation.use_half_precision", "fp16", "fp32")), .over = "gpu.precision",
     .planned = NO_ANIMATE},
    {"animation.enable_tensorrt", NULL, 0, TACHY_OPT_BOOL, .group = "Animation", .verbs = TACHY_VERB_RUN,
     .help = "animate with the provider tensorrt", .planned = NO_ANIMATE},
    {"tracking.refine_landmarks", NULL, 0, TACHY_OPT_BOOL, .group = "Tracking", .verbs = TACHY_VERB_RUN,
     .help = "find irises and lips more exactly", .planned = NO_IRISES},
    {"tracking.smoothing_window", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 1000, .group = "Tracking",
     .verbs = TACHY_VERB_RUN, .help = "frames over which a face's movement is calmed; 1: not at all",
     .planned = NO_WINDOW},
    {0},
};
