#include "cuda/gpu_options.h"

#include "base/options.h"

#include <tachy/tensor.h>

const struct tachy_option tachy_gpu_options[] = {
    {"gpu.id", "gpu-id", 0, TACHY_OPT_INT, "0", .max = TACHY_MAX_GPUS - 1, .group = "GPU", .verbs = TACHY_VERB_RUN,
     .help = "number of the GPU that is used, as CUDA counts them"},
    {"gpu.ids", "gpus", 0, TACHY_OPT_STRING, .arg = "LIST", .group = "GPU", .verbs = TACHY_VERB_RUN,
     .help = "GPUs that one run is spread over: numbers with commas between them, or all; in the place of --gpu-id"},
    {"gpu.device", "device", 0, TACHY_OPT_ENUM, "cpu", .values = "cpu|cuda", .group = "GPU", .verbs = TACHY_VERB_RUN,
     .help = "cuda: process frames on the GPU, from the decoder to the finished picture; cpu: on the CPU"},
    {"gpu.memory_fraction", NULL, 0, TACHY_OPT_FLOAT, .min = 0.01, .max = 1, .group = "GPU", .verbs = TACHY_VERB_RUN,
     .help = "share of the GPU's memory that this program may take",
     .keys = TACHY_KEYS(TACHY_KEY("performance.gpu_memory_fraction"))},
    {"gpu.max_vram_usage", NULL, 0, TACHY_OPT_FLOAT, .min = 0.01, .max = 1, .group = "GPU", .verbs = TACHY_VERB_RUN,
     .help = "share of the GPU's memory, of all programs together, from which caches shrink"},
    {0},
};
