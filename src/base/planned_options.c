#include "base/options.h"

// Rows that files of other tools have and nobody reads here. Those whose part is not built yet warn of what happens
// instead. Those that have no use here say why with -v; a file that has them runs as it should.

#define ALWAYS_ASYNC "reading, work and writing always run side by side"
#define READ_ONCE "a run reads each frame once; decoding again is a tenth of a run that encodes, and a second of 720p would take 35 MB"
#define CROPS "where a crop lies follows from the frame before, so each is run when it is known; on a GPU a frame's crops are one run"

const struct tachy_option tachy_planned_options[] = {
    {"pipeline.stages.preprocess.cuda_streams", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 32, .group = "Input",
     .verbs = TACHY_VERB_RUN, .help = "CUDA streams of the stage preprocess",
     .needless = "each worker has a CUDA stream of its own (model.num_workers)"},
    {"pipeline.stages.postprocess.threads", NULL, 0, TACHY_OPT_INT, .max = TACHY_THREADS_MAX, .group = "Input",
     .verbs = TACHY_VERB_RUN, .help = "workers of the stage postprocess",
     .needless = "a worker takes its frame through every stage (model.num_workers)"},
    {"processing.use_multiprocessing", NULL, 0, TACHY_OPT_BOOL, .group = "Processing", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "workers in processes of their own", .needless = "workers are threads, which run side by side and share frames"},
    {"processing.arcface_batch", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 65536, .group = "Processing",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE, .help = "faces in one run of the network that makes their vectors", .needless = CROPS},
    {"processing.mediapipe_batch", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 65536, .group = "Processing",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE, .help = "crops of faces or bodies in one run of the network of their points", .needless = CROPS},
    {"processing.enable_caching", NULL, 0, TACHY_OPT_BOOL, .group = "Processing", .verbs = TACHY_VERB_RUN,
     .help = "keep decoded and preprocessed frames for when they are asked for again", .needless = READ_ONCE},
    {"processing.cache_size_gb", NULL, 0, TACHY_OPT_FLOAT, .max = 1024, .group = "Processing",
     .verbs = TACHY_VERB_RUN, .help = "most that is kept, in GiB", .needless = READ_ONCE},
    {"dataloader.pin_memory", NULL, 0, TACHY_OPT_BOOL, .group = "Processing", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "frames lie in memory that a GPU reads directly", .needless = "what is copied to or from a GPU is always pinned"},
    {"dataloader.persistent_workers", NULL, 0, TACHY_OPT_BOOL, .group = "Processing", .verbs = TACHY_VERB_RUN,
     .help = "keep the workers from one input to the next",
     .needless = "the model stays open from one input to the next, and --parallel N shares the workers"},
    {"performance.use_async_capture", NULL, 0, TACHY_OPT_BOOL, .group = "Performance",
     .verbs = TACHY_VERB_RUN, .help = "read frames while others are worked on", .needless = ALWAYS_ASYNC},
    {"performance.use_async_output", NULL, 0, TACHY_OPT_BOOL, .group = "Performance",
     .verbs = TACHY_VERB_RUN, .help = "write frames while others are worked on", .needless = ALWAYS_ASYNC},
    {0},
};
