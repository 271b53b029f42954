#include "cuda/gpu_options.h"

#include "base/options.h"

#include <tachy/tensor.h>

const struct tachy_option tachy_gpu_options[] = {
    {"gpu.id", "gpu-id", 0, TACHY_OPT_INT, "0", .max = TACHY_MAX_GPUS - 1, .group = "GPU",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_ENGINE | TACHY_VERB_CURATE,
     .help = "the GPU to use, by CUDA's number"},
    {"gpu.ids", "gpus", 0, TACHY_OPT_STRING, .arg = "LIST", .group = "GPU", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "spread one run over these GPUs: numbers separated by commas, or all; instead of --gpu-id"},
    {"gpu.device", "device", 0, TACHY_OPT_ENUM, "auto", .values = "auto|cpu|cuda", .group = "GPU", .tune = "cpu", .tune_changes = true,
     .verbs = TACHY_VERB_RUN | TACHY_VERB_ENGINE | TACHY_VERB_CURATE,
     .help = "cuda: process frames on the GPU, from the decoder to the finished picture; cpu: on the CPU; auto: on "
             "the GPU if the kernels run on it and it can do everything requested"},
    {"gpu.precision", "precision", 0, TACHY_OPT_ENUM, .values = "fp32|tf32|fp16|bf16|int8|mixed", .group = "GPU",
     .tune = "fp16", .tune_changes = true,
     .verbs = TACHY_VERB_RUN | TACHY_VERB_REPLAY | TACHY_VERB_CURATE,
     .help = "number format of the model on a GPU; default: mixed, which is fp16 except where that costs accuracy. "
             "The CPU computes in fp32"},
    {"gpu.fp16", "fp16", 0, TACHY_OPT_BOOL, .group = "GPU", .verbs = TACHY_VERB_RUN | TACHY_VERB_REPLAY | TACHY_VERB_CURATE,
     .help = "the same as --precision fp16"},
    {"gpu.allow_tf32", NULL, 0, TACHY_OPT_BOOL, .group = "GPU", .verbs = TACHY_VERB_RUN,
     .help = "with the provider cuda-ort and without gpu.precision: yes is tf32, no is fp32; tachy rounds to tf32 with "
             "--precision tf32 alone"},
    {"gpu.cudnn_benchmark", NULL, 0, TACHY_OPT_BOOL, .group = "GPU", .verbs = TACHY_VERB_RUN,
     .help = "with --device cuda, yes is the same as --build-effort 2: kernels are timed and the fastest kept"},
    {"gpu.cudnn_deterministic", NULL, 0, TACHY_OPT_BOOL, .group = "GPU", .verbs = TACHY_VERB_RUN,
     .help = "choose no kernel by its time, so that every process gives the same bits"},
    {"tensorrt.precision.fp16", NULL, 0, TACHY_OPT_BOOL, .group = "GPU", .verbs = TACHY_VERB_RUN,
     .help = "the same as gpu.precision fp16 with the provider tensorrt"},
    {"tensorrt.precision.int8", NULL, 0, TACHY_OPT_BOOL, .group = "GPU", .verbs = TACHY_VERB_RUN,
     .help = "the same as gpu.precision int8 with the provider tensorrt"},
    {"gpu.memory_fraction", NULL, 0, TACHY_OPT_FLOAT, .min = 0.01, .max = 1, .group = "GPU", .verbs = TACHY_VERB_RUN,
     .help = "share of the GPU's memory that this program may take",
     .keys = TACHY_KEYS(TACHY_KEY("performance.gpu_memory_fraction"))},
    {"gpu.max_vram_usage", NULL, 0, TACHY_OPT_FLOAT, .min = 0.01, .max = 1, .group = "GPU", .verbs = TACHY_VERB_RUN,
     .help = "share of the GPU's memory, in use by all programs together, above which caches shrink"},
    {0},
};
