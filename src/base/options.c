#include "base/options.h"
#include "base/base.h"

#include <stdio.h>
#include <strings.h>
#include <tachy/tensor.h>

// The one table. A row's order is the order of help, man page and docs/config.md. Groups and
// sections (the path up to its last dot) are kept together.

#define RUNS (TACHY_VERB_SEGMENT | TACHY_VERB_CONFIG)
#define PROFILES (TACHY_VERB_PROFILE | TACHY_VERB_CONFIG)
#define THREADS_MAX 256
#define KEYS(...) (const struct tachy_key[]){__VA_ARGS__, {0}}
#define KEY(p) {.path = p}
#define SWITCH(p, y, n) {.path = p, .yes = y, .no = n}

// What happens instead of options whose part is not built yet.
#define NO_GPU "models run on the CPU, in the precision they are stored in"
#define NO_ANIMATE "there is no tachy animate yet"
#define NO_IRISES "the face mesh has 468 points, without irises"
#define NO_WINDOW "points are calmed by the one-euro filter (tracking.min_cutoff, tracking.beta)"
#define NO_CACHE "results are not kept from one frame to the next"

static const struct tachy_option options[] = {
    {"input.files", "input", 'i', TACHY_OPT_LIST, .arg = "FILE", .group = "Input",
     .verbs = RUNS | TACHY_VERB_PROBE,
     .help = "video, picture, numbered pictures (shot_%04d.png), address, or - for standard input; "
             "arguments without an option are inputs as well"},
    {"input.start", "ss", 0, TACHY_OPT_TIME, .max = 1e9, .group = "Input", .verbs = RUNS,
     .aliases = "start", .one_dash = true, .help = "start here, exact to the frame"},
    {"input.duration", "duration", 't', TACHY_OPT_TIME, .max = 1e9, .group = "Input", .verbs = RUNS,
     .help = "read this much of the input"},
    {"input.rate", "rate", 'r', TACHY_OPT_RATE, .group = "Input", .verbs = RUNS,
     .help = "constant frame rate: frames are dropped or repeated to it; pictures are read at it"},
    {"input.max_frames", "max-frames", 0, TACHY_OPT_INT, "0", .max = 1e15, .group = "Input",
     .verbs = RUNS, .help = "stop after this many frames; 0: all"},
    {"input.every_nth", "every-nth", 0, TACHY_OPT_INT, "1", .min = 1, .max = 1e9, .group = "Input",
     .verbs = RUNS, .help = "take the frames 0, N, 2N, ... only"},
    {"input.realtime", "re", 0, TACHY_OPT_BOOL, "no", .group = "Input", .verbs = RUNS,
     .aliases = "realtime", .one_dash = true,
     .help = "read the input at its own rate, as a camera would deliver it"},
    {"input.timeout", "timeout", 0, TACHY_OPT_FLOAT, .max = 1e6, .arg = "SECONDS", .group = "Input",
     .verbs = RUNS | TACHY_VERB_PROBE,
     .help = "give an input up that sends nothing for so long; 0: wait for ever; without it 10 for "
             "addresses, 0 for files and pipes"},
    {"input.stereo", "stereo", 0, TACHY_OPT_ENUM, "auto", .values = "auto|mono|sbs|tb",
     .group = "Input", .verbs = RUNS,
     .help = "how two eyes lie in a picture: side by side, top and bottom; auto: from side data, "
             "file name or aspect"},
    {"pipeline.stages.decode.device", "decode", 0, TACHY_OPT_ENUM, "auto", .values = "auto|cpu|nvdec",
     .group = "Input", .verbs = RUNS,
     .help = "what decodes the input; auto: the GPU's decoder for frames that stay on the GPU, else the "
             "CPU; nvdec: the GPU's, or it is an error"},
    {"pipeline.stages.decode.threads", "decode-threads", 0, TACHY_OPT_INT, "0", .max = THREADS_MAX,
     .group = "Input", .verbs = RUNS,
     .help = "decoder threads; 0: by picture size and cores"},
    {"pipeline.stages.decode.decoders", "decoders", 0, TACHY_OPT_INT, "0", .max = THREADS_MAX,
     .group = "Input", .verbs = RUNS,
     .help = "decoders of one file side by side; 0: one a core where results are small (mask, json), "
             "on a GPU one for 250 frames, else 1"},
    {"pipeline.stages.preprocess.cuda_streams", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 32,
     .group = "Pipeline", .verbs = RUNS, .help = "CUDA streams of the stage preprocess",
     .planned = NO_GPU},
    {"pipeline.stages.postprocess.threads", NULL, 0, TACHY_OPT_INT, .max = THREADS_MAX,
     .group = "Pipeline", .verbs = RUNS, .help = "workers of the stage postprocess",
     .planned = "one worker carries a frame through preprocess, model and postprocess "
                "(model.num_workers)"},

    {"output.file", "output", 'o', TACHY_OPT_STRING, .arg = "FILE", .group = "Output",
     .verbs = RUNS | TACHY_VERB_MODEL,
     .help = "where to write; a folder ending in / takes derived names, - is standard output; "
             "without it in.mp4 becomes in.cutout.mp4, after the mode"},
    {"output.format", "format", 'f', TACHY_OPT_STRING, .arg = "NAME", .group = "Output",
     .verbs = RUNS,
     .help = "FFmpeg's muxer, or null, framemd5, json; by file name without it"},
    {"output.overwrite", "overwrite", 'y', TACHY_OPT_BOOL, "no", .group = "Output",
     .verbs = RUNS | TACHY_VERB_MODEL | TACHY_VERB_PROFILE,
     .help = "replace an output file that exists already"},
    {"output.no_overwrite", NULL, 'n', TACHY_OPT_BOOL, "no", .group = "Output", .verbs = RUNS,
     .help = "never replace a file, whatever a configuration file says"},
    {"output.resume", "resume", 0, TACHY_OPT_BOOL, "no", .group = "Output", .verbs = RUNS,
     .help = "write in parts that are kept in OUTPUT.tachy/ until the output is whole; where a run "
             "was ended, the same command goes on"},
    {"output.codec", "c:v", 0, TACHY_OPT_STRING, .arg = "NAME", .group = "Output", .verbs = RUNS,
     .aliases = "vcodec|codec:v", .one_dash = true,
     .help = "FFmpeg's video encoder; by container without it: H.264, above 4096 wide HEVC"},
    {"output.encoder", "encoder", 0, TACHY_OPT_ENUM, "auto", .values = "auto|cpu|nvenc", .group = "Output", .verbs = RUNS,
     .help = "what makes H.264 and HEVC without -c:v; auto: NVENC with --device cuda where the GPU has it, else x264 "
             "and x265 on the CPU"},
    {"output.crf", "crf", 0, TACHY_OPT_FLOAT, .max = 63, .group = "Output", .verbs = RUNS,
     .one_dash = true,
     .help = "constant quality on the encoder's scale, lower is better; 18 for x264 and x265 "
             "without it"},
    {"output.preset", "preset", 0, TACHY_OPT_STRING, .arg = "NAME", .group = "Output",
     .verbs = RUNS, .one_dash = true, .help = "speed preset of the encoder"},
    {"output.pix_fmt", "pix_fmt", 0, TACHY_OPT_STRING, .arg = "NAME", .group = "Output",
     .verbs = RUNS, .aliases = "pix-fmt", .one_dash = true,
     .help = "FFmpeg's pixel format; that of the frames, or the nearest the encoder takes, "
             "without it"},
    {"output.no_audio", "an", 0, TACHY_OPT_BOOL, "no", .group = "Output", .verbs = RUNS,
     .aliases = "no-audio", .one_dash = true, .help = "leave the audio out"},
    {"output.no_subtitles", "sn", 0, TACHY_OPT_BOOL, "no", .group = "Output", .verbs = RUNS,
     .aliases = "no-subtitles", .one_dash = true, .help = "leave the subtitles out"},
    {"output.threads", "encode-threads", 0, TACHY_OPT_INT, "0", .max = THREADS_MAX,
     .group = "Output", .verbs = RUNS, .help = "encoder threads; 0: the encoder's choice"},

    {"segment.mode", "mode", 0, TACHY_OPT_ENUM, "cutout",
     .values = "mask|cutout|blur|replace|overlay|alpha|json|side-by-side", .group = "Segment",
     .verbs = RUNS,
     .help = "what is written: the mask in grey, people on a colour, on their blurred "
             "surroundings, on a picture or video, tinted, with transparency, a JSON line a "
             "frame, or before and after"},
    {"segment.background", "background", 0, TACHY_OPT_STRING, "black", .arg = "COLOR|FILE",
     .group = "Segment", .verbs = RUNS,
     .help = "colour behind the people; for the mode replace a picture or video as well"},
    {"segment.tint", "tint", 0, TACHY_OPT_COLOR, "#00ff0080", .group = "Segment", .verbs = RUNS,
     .help = "colour and strength of the mode overlay"},
    {"segment.blur", "blur", 0, TACHY_OPT_FLOAT, "0.02", .max = 0.5, .group = "Segment",
     .verbs = RUNS, .help = "radius of the mode blur as a share of the frame height"},
    {"segment.threshold", "threshold", 0, TACHY_OPT_FLOAT, "0.5", .max = 1, .group = "Segment",
     .verbs = RUNS, .help = "probability from which a pixel is a person"},
    {"segment.feather", "feather", 0, TACHY_OPT_FLOAT, "0.3", .max = 1, .group = "Segment",
     .verbs = RUNS,
     .help = "width of the soft edge around the threshold, in probability; 0: a hard edge"},
    {"segment.refine", "refine", 0, TACHY_OPT_BOOL, "no", .group = "Segment", .verbs = RUNS,
     .help = "fit the mask to the picture's edges, guided by luma"},
    {"segment.smooth", "smooth", 0, TACHY_OPT_FLOAT, "0", .max = 1, .bare = "0.7",
     .group = "Segment", .verbs = RUNS,
     .help = "calm the mask over time; 0: not at all, 1: most"},

    {"model.name", "model", 0, TACHY_OPT_STRING, "selfie", .arg = "NAME|FILE", .group = "Model",
     .verbs = RUNS | TACHY_VERB_REPLAY,
     .help = "model card of the zoo (tachy model list), or an ONNX file with --card"},
    {"model.card", "card", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Model",
     .verbs = RUNS | TACHY_VERB_MODEL | TACHY_VERB_REPLAY, .help = "model card of one's own (JSON)"},
    {"model.dir", "model-dir", 0, TACHY_OPT_STRING, .arg = "DIR", .group = "Model",
     .verbs = RUNS | TACHY_VERB_MODEL | TACHY_VERB_REPLAY | TACHY_VERB_ENGINE,
     .help = "folder of the models; without it $TACHY_MODELS, then the user's data folder"},
    {"model.provider", "provider", 0, TACHY_OPT_STRING, "auto", .arg = "NAME", .group = "Model",
     .verbs = RUNS | TACHY_VERB_REPLAY | TACHY_VERB_ENGINE, .help = "what runs the model: tachy (our own plans), cpu (ONNX Runtime's kernels), auto (tachy where it "
             "runs all of the model, else cpu), null, or a provider of ONNX Runtime's (docs/models.md)"},
    {"model.strict", "strict", 0, TACHY_OPT_BOOL, "no", .group = "Model", .verbs = RUNS | TACHY_VERB_REPLAY,
     .help = "it is an error when the provider does not run all of the model"},
    {"model.build_effort", "build-effort", 0, TACHY_OPT_INT, "0", .max = 3, .group = "Model",
     .verbs = RUNS | TACHY_VERB_REPLAY | TACHY_VERB_ENGINE, .help = "what the provider tachy may spend on finding the fastest kernels for a "
             "model on this machine, once: nothing, 0.5, 3 or 30 seconds at most; what was found serves every later "
             "run; engine bench: 2 without it"},
    {"model.provider_options", "provider-option", 0, TACHY_OPT_LIST, .arg = "KEY=VALUE",
     .group = "Model", .verbs = RUNS | TACHY_VERB_REPLAY | TACHY_VERB_ENGINE, .help = "handed to the provider"},
    {"model.library", "ort-library", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Model",
     .verbs = RUNS | TACHY_VERB_REPLAY | TACHY_VERB_ENGINE, .help = "libonnxruntime.so to load; searched without it"},
    {"model.threads", "engine-threads", 0, TACHY_OPT_INT, "1", .max = THREADS_MAX,
     .group = "Model", .verbs = RUNS | TACHY_VERB_REPLAY, .help = "threads inside one run of the model; 0: 1"},
    {"model.batch_size", "batch", 0, TACHY_OPT_INT, "1", .min = 1, .max = 256, .group = "Model",
     .verbs = RUNS, .help = "pictures in one run of the model, of all inputs together; more than 1 where the "
             "model takes them",
     .keys = KEYS(KEY("batching.dynamic.max_batch_size"),
                  KEY("pipeline.stages.inference.batch_size"))},
    {"model.num_workers", "workers", 0, TACHY_OPT_INT, "0", .max = 1024, .group = "Model",
     .verbs = RUNS, .help = "frames in work side by side; 0: one a core, or two where a GPU runs model and all",
     .keys = KEYS(KEY("processing.num_threads"))},
    {"model.input_size", NULL, 0, TACHY_OPT_SIZE, .group = "Model", .verbs = RUNS,
     .help = "width and height that the model sees",
     .planned = "a model sees pictures of the size on its card"},
    {"model.prefetch_factor", NULL, 0, TACHY_OPT_INT, .max = 64, .group = "Model", .verbs = RUNS,
     .help = "batches that are made ready in advance for each worker",
     .planned = "as many frames are read ahead as processing.max_memory holds"},
    {"processing.max_memory", "max-memory", 0, TACHY_OPT_INT, "0", .max = 1 << 30, .arg = "MIB",
     .group = "Model", .verbs = RUNS,
     .help = "bound of what is in flight in MiB: pictures and results; 0: 160 MiB or what the "
             "workers need"},

    {"processing.use_multiprocessing", NULL, 0, TACHY_OPT_BOOL, .group = "Processing",
     .verbs = RUNS, .help = "workers in processes of their own",
     .planned = "workers are threads of one process, between which nothing is copied"},
    {"processing.max_queue_size", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 4096,
     .group = "Processing", .verbs = RUNS, .help = "frames that may wait in front of a stage",
     .planned = "queues are bounded in bytes, by processing.max_memory"},
    {"processing.chunk_size", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 1e9,
     .group = "Processing", .verbs = RUNS,
     .help = "frames in each of the parts that a run with --resume is written in; those of ten "
             "seconds without it"},
    {"processing.enable_caching", NULL, 0, TACHY_OPT_BOOL, .group = "Processing", .verbs = RUNS,
     .help = "keep decoded frames and results for when they are asked for again",
     .planned = NO_CACHE},
    {"processing.cache_size_gb", NULL, 0, TACHY_OPT_FLOAT, .max = 1024, .group = "Processing",
     .verbs = RUNS, .help = "most that is kept, in GiB", .planned = NO_CACHE},
    {"dataloader.pin_memory", NULL, 0, TACHY_OPT_BOOL, .group = "Processing", .verbs = RUNS,
     .help = "frames lie in memory that a GPU reads directly", .planned = NO_GPU},
    {"dataloader.persistent_workers", NULL, 0, TACHY_OPT_BOOL, .group = "Processing",
     .verbs = RUNS, .help = "keep the workers from one input to the next",
     .planned = "each input has workers of its own"},

    {"batching.dynamic.timeout_ms", NULL, 0, TACHY_OPT_FLOAT, .max = 60000, .group = "Pipeline",
     .verbs = RUNS, .help = "how long a picture waits in ms for others to fill a batch with; 0: 5"},

    {"gpu.id", "gpu-id", 0, TACHY_OPT_INT, "0", .max = TACHY_MAX_GPUS - 1, .group = "GPU", .verbs = RUNS,
     .help = "number of the GPU that is used, as CUDA counts them"},
    {"gpu.ids", "gpus", 0, TACHY_OPT_STRING, .arg = "LIST", .group = "GPU", .verbs = RUNS,
     .help = "GPUs that one run is spread over: numbers with commas between them, or all; in the place of --gpu-id"},
    {"gpu.device", "device", 0, TACHY_OPT_ENUM, "cpu", .values = "cpu|cuda", .group = "GPU", .verbs = RUNS,
     .help = "where frames are preprocessed and composited; cuda: they stay on the GPU from the decoder to the "
             "finished picture"},
    {"gpu.precision", NULL, 0, TACHY_OPT_ENUM, .values = "fp32|fp16|int8|mixed", .group = "GPU",
     .verbs = RUNS, .help = "what the model is computed in", .planned = NO_GPU},
    {"gpu.memory_fraction", NULL, 0, TACHY_OPT_FLOAT, .min = 0.01, .max = 1, .group = "GPU",
     .verbs = RUNS, .help = "share of the GPU's memory that this program may take",
     .keys = KEYS(KEY("performance.gpu_memory_fraction"))},
    {"gpu.max_vram_usage", NULL, 0, TACHY_OPT_FLOAT, .min = 0.01, .max = 1, .group = "GPU",
     .verbs = RUNS,
     .help = "share of the GPU's memory, of all programs together, from which caches shrink"},
    {"gpu.cudnn_benchmark", NULL, 0, TACHY_OPT_BOOL, .group = "GPU", .verbs = RUNS,
     .help = "try cuDNN's ways to compute each step and keep the fastest", .planned = NO_GPU},
    {"gpu.cudnn_deterministic", NULL, 0, TACHY_OPT_BOOL, .group = "GPU", .verbs = RUNS,
     .help = "only ways that give the same bits in every run", .planned = NO_GPU},
    {"gpu.allow_tf32", NULL, 0, TACHY_OPT_BOOL, .group = "GPU", .verbs = RUNS,
     .help = "matrix units may round float32 to 10 bits of mantissa", .planned = NO_GPU},
    {"tensorrt.precision.fp16", NULL, 0, TACHY_OPT_BOOL, .group = "GPU", .verbs = RUNS,
     .help = "the provider tensorrt may compute in float16", .planned = NO_GPU},
    {"tensorrt.precision.int8", NULL, 0, TACHY_OPT_BOOL, .group = "GPU", .verbs = RUNS,
     .help = "the provider tensorrt may compute in int8", .planned = NO_GPU},

    {"performance.live", "live", 0, TACHY_OPT_BOOL, "no", .group = "Performance", .verbs = RUNS,
     .help = "never hold back the source: the newest frame wins, and frames that nobody has time "
             "for are shed and counted; without it every frame is worked on"},
    {"performance.max_latency_ms", "max-latency", 0, TACHY_OPT_FLOAT, "0", .max = 60000,
     .arg = "MS", .group = "Performance", .verbs = RUNS,
     .help = "with --live: deadline of a frame from its arrival to its result in ms; frames that "
             "miss it are shed; 0: none"},
    {"performance.adapt", "adapt", 0, TACHY_OPT_BOOL, "yes", .group = "Performance",
     .verbs = RUNS,
     .help = "with --max-latency: do less for a frame, step by step, while frames miss the "
             "deadline"},
    {"performance.frame_skip_enabled", NULL, 0, TACHY_OPT_BOOL, "no", .group = "Performance",
     .verbs = RUNS,
     .help = "a frame like the last one that the model has seen takes over its result"},
    {"performance.frame_skip_threshold", "frame-skip", 0, TACHY_OPT_FLOAT, "0.02", .max = 1,
     .bare = "0.02", .arg = "THRESHOLD", .group = "Performance", .verbs = RUNS,
     .help = "how different two frames may be for that (largest difference of luma means over a "
             "grid); 0: not at all. On the command line it turns frame skipping on"},
    {"performance.target_fps", NULL, 0, TACHY_OPT_FLOAT, "0", .max = 1000, .group = "Performance",
     .verbs = RUNS, .help = "with --live: frames a second that are worked on; what comes beyond is shed when it "
                            "comes; 0: all"},
    {"performance.prefetch_frames", NULL, 0, TACHY_OPT_INT, .max = 4096, .group = "Performance",
     .verbs = RUNS, .help = "frames that are read ahead",
     .planned = "as many frames are read ahead as processing.max_memory holds"},
    {"performance.auto_tune", NULL, 0, TACHY_OPT_BOOL, .group = "Performance", .verbs = RUNS,
     .help = "find the fastest settings for this machine first",
     .planned = "workers and threads follow from the number of cores"},
    {"performance.clear_cache_interval", NULL, 0, TACHY_OPT_INT, .max = 1e9,
     .group = "Performance", .verbs = RUNS,
     .help = "frames after which memory that is kept for the next ones is given back; 0: never"},
    {"performance.use_async_capture", NULL, 0, TACHY_OPT_BOOL, .group = "Performance",
     .verbs = RUNS, .help = "read frames while others are worked on",
     .planned = "that is always so and cannot be turned off"},
    {"performance.use_async_output", NULL, 0, TACHY_OPT_BOOL, .group = "Performance",
     .verbs = RUNS, .help = "write frames while others are worked on",
     .planned = "that is always so and cannot be turned off"},

    {"animation.gpu_id", NULL, 0, TACHY_OPT_INT, .max = 255, .group = "Animation", .verbs = RUNS,
     .help = "number of the GPU that animates", .planned = NO_ANIMATE},
    {"animation.batch_size", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 256, .group = "Animation",
     .verbs = RUNS, .help = "stands in for model.batch_size when animating",
     .over = "model.batch_size", .planned = NO_ANIMATE},
    {"animation.inference_precision", NULL, 0, TACHY_OPT_ENUM, .values = "fp32|fp16|int8|mixed",
     .group = "Animation", .verbs = RUNS, .help = "stands in for gpu.precision when animating",
     .keys = KEYS(SWITCH("animation.use_half_precision", "fp16", "fp32")),
     .over = "gpu.precision", .planned = NO_ANIMATE},
    {"animation.enable_tensorrt", NULL, 0, TACHY_OPT_BOOL, .group = "Animation", .verbs = RUNS,
     .help = "animate with the provider tensorrt", .planned = NO_ANIMATE},

    {"regions.confidence", "conf", 0, TACHY_OPT_FLOAT, .max = 1, .group = "Regions", .verbs = RUNS,
     .aliases = "confidence", .help = "least score of what is kept; the model card's without it"},
    {"regions.overlap", "iou", 0, TACHY_OPT_FLOAT, .max = 1, .group = "Regions", .verbs = RUNS,
     .help = "intersection over union above which the lower of two boxes of a class goes; the model card's without it"},
    {"regions.limit", "max-det", 0, TACHY_OPT_INT, .min = 1, .max = 100000, .group = "Regions", .verbs = RUNS,
     .help = "most regions of a frame, the best; the model card's without it"},
    {"regions.classes", "classes", 0, TACHY_OPT_STRING, .arg = "LIST", .group = "Regions", .verbs = RUNS,
     .help = "keep these classes only: names or numbers with commas between them"},
    {"regions.top", "top", 0, TACHY_OPT_INT, .min = 1, .max = 1000, .group = "Regions", .verbs = RUNS,
     .help = "classes that are named for a picture, the best; the model card's without it"},
    {"regions.labels", "labels", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Regions", .verbs = RUNS,
     .help = "names of the classes, one a line, in place of the model card's"},

    {"draw.boxes", "boxes", 0, TACHY_OPT_BOOL, "yes", .group = "Overlay", .verbs = RUNS, .help = "draw boxes"},
    {"draw.names", "names", 0, TACHY_OPT_BOOL, "yes", .group = "Overlay", .verbs = RUNS,
     .help = "write names and scores beside the boxes"},
    {"draw.points", "points", 0, TACHY_OPT_BOOL, "yes", .group = "Overlay", .verbs = RUNS, .help = "draw points"},
    {"draw.line", "line-width", 0, TACHY_OPT_FLOAT, .max = 0.5, .group = "Overlay", .verbs = RUNS,
     .help = "width of lines as a share of the frame height; 1/360 without it"},
    {"draw.text", "text-size", 0, TACHY_OPT_FLOAT, .max = 0.5, .group = "Overlay", .verbs = RUNS,
     .help = "height of letters as a share of the frame height; 1/40 without it"},

    {"tracking.max_num_faces", "max-faces", 0, TACHY_OPT_INT, "1", .min = 1, .max = 32, .group = "Tracking",
     .verbs = RUNS, .aliases = "num-faces", .help = "most faces that are followed"},
    {"tracking.detector", "detector", 0, TACHY_OPT_STRING, "face", .arg = "NAME", .group = "Tracking", .verbs = RUNS,
     .help = "model card of the face detector"},
    {"tracking.detect_every", "detect-every", 0, TACHY_OPT_INT, "15", .min = 1, .max = 100000, .group = "Tracking",
     .verbs = RUNS, .help = "frames after which the detector looks for more faces, while fewer than --max-faces are followed"},
    {"tracking.confidence", "tracking-conf", 0, TACHY_OPT_FLOAT, "0.5", .max = 1, .group = "Tracking", .verbs = RUNS,
     .help = "score of a face's points below which it is lost"},
    {"tracking.smoothing", "smoothing", 0, TACHY_OPT_BOOL, "yes", .group = "Tracking", .verbs = RUNS,
     .help = "calm the points with the one-euro filter"},
    {"tracking.min_cutoff", "min-cutoff", 0, TACHY_OPT_FLOAT, "1", .min = 0.001, .max = 1000, .arg = "HZ",
     .group = "Tracking", .verbs = RUNS, .help = "cut-off of that filter for what is still: lower is calmer"},
    {"tracking.beta", "beta", 0, TACHY_OPT_FLOAT, "30", .max = 10000, .group = "Tracking", .verbs = RUNS,
     .help = "what that cut-off rises by with speed: higher lags less"},
    {"tracking.refine_landmarks", NULL, 0, TACHY_OPT_BOOL, .group = "Tracking", .verbs = RUNS,
     .help = "find irises and lips more exactly", .planned = NO_IRISES},
    {"tracking.smoothing_window", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 1000,
     .group = "Tracking", .verbs = RUNS,
     .help = "frames over which a face's movement is calmed; 1: not at all",
     .planned = NO_WINDOW},

    {"run.profile", "profile", 0, TACHY_OPT_ENUM, .values = "fast|balanced|quality",
     .arg = "PRESET", .group = "Run", .verbs = RUNS,
     .help = "settings that go together, from configs/PRESET.yaml; a file given with -c and the "
             "command line win over them"},
    {"run.calibrate", "calibrate", 0, TACHY_OPT_BOOL, "no", .group = "Run", .verbs = RUNS,
     .help = "measure each step alone as well, for the light ratio"},
    {"run.parallel", "parallel", 0, TACHY_OPT_INT, "1", .min = 1, .max = 64, .group = "Run",
     .verbs = RUNS, .help = "inputs worked on at once, through one set of workers"},
    {"run.json", "json", 0, TACHY_OPT_STRING, .arg = "FILE", .bare = "-", .group = "Run",
     .verbs = TACHY_VERB_ALL, .help = "write the result as JSON to standard output or to FILE"},
    {"run.sandbox", "sandbox", 0, TACHY_OPT_BOOL, "no", .group = "Run", .verbs = RUNS | TACHY_VERB_PROBE,
     .help = "confine the process before it reads anything: it can open the input, the output's folder, the model "
             "and the engine store, and nothing else; for local input on the CPU"},
    {"run.quiet", "quiet", 'q', TACHY_OPT_BOOL, "no", .group = "Run", .verbs = TACHY_VERB_ALL,
     .help = "print errors only"},
    {"run.log_level", "loglevel", 'v', TACHY_OPT_ENUM, "info",
     .values = "error|warning|info|verbose|debug", .arg = "LEVEL", .group = "Run",
     .verbs = TACHY_VERB_ALL, .aliases = "log-level", .help = "how much is printed"},

    {"run.interactive", "interactive", 0, TACHY_OPT_BOOL, "no", .group = "Run", .verbs = RUNS,
     .help = "a prompt during the run: stats, set, pause, resume, profile 10s, quit, help"},
    {"run.keys", "keys", 0, TACHY_OPT_BOOL, "yes", .group = "Run", .verbs = RUNS,
     .help = "single keys during a run on a terminal: r report, p pause, + and - batch, q quit, "
             "? help"},
    {"metrics.address", "enable-metrics", 0, TACHY_OPT_STRING, .arg = "ADDR", .group = "Run",
     .verbs = RUNS | TACHY_VERB_SHELL,
     .help = "serve figures for Prometheus at http://ADDR/metrics; [HOST:]PORT, without HOST on "
             "127.0.0.1"},
    {"metrics.token_file", "metrics-token-file", 0, TACHY_OPT_STRING, .arg = "FILE",
     .group = "Run", .verbs = RUNS | TACHY_VERB_SHELL,
     .help = "its first line is the bearer token that a scrape must bring; without it "
             "$TACHY_METRICS_TOKEN. An address other machines reach needs one"},

    {"debug.profile_performance", NULL, 0, TACHY_OPT_BOOL, "no", .group = "Run", .verbs = RUNS,
     .help = "profile the run, as `tachy profile` does"},

    {"debug.save_stage", "save-stage", 0, TACHY_OPT_STRING, .arg = "DIR [N]", .group = "Run",
     .verbs = RUNS, .then = "debug.save_frames",
     .help = "keep what preprocess, model and postprocess read and write in the first N frames, "
             "as .npy files, for tachy replay"},
    {"debug.save_frames", NULL, 0, TACHY_OPT_INT, "8", .min = 1, .max = 100000, .group = "Run",
     .verbs = RUNS, .help = "the N of --save-stage"},

    {"replay.stage", "stage", 0, TACHY_OPT_ENUM, "engine", .values = "preprocess|engine|postprocess",
     .group = "Replay", .verbs = TACHY_VERB_REPLAY, .command_only = true,
     .help = "what is run"},
    {"replay.loop", "loop", 0, TACHY_OPT_INT, "1000", .min = 1, .max = 10000000, .group = "Replay",
     .verbs = TACHY_VERB_REPLAY, .command_only = true,
     .help = "how often it is run, over the saved frames in turn"},
    {"replay.golden", "golden", 0, TACHY_OPT_BOOL, "no", .group = "Replay",
     .verbs = TACHY_VERB_REPLAY, .command_only = true,
     .help = "compare what comes out with what was saved; exit status 1 where it differs"},
    {"replay.tolerance", "tolerance", 0, TACHY_OPT_FLOAT, "0", .max = 1e30, .group = "Replay",
     .verbs = TACHY_VERB_REPLAY, .command_only = true,
     .help = "largest difference of a value that --golden lets pass; 0: the same bits"},
    {"replay.min_psnr", "min-psnr", 0, TACHY_OPT_FLOAT, .max = 1000, .group = "Replay",
     .verbs = TACHY_VERB_REPLAY, .command_only = true,
     .help = "let --golden pass whatever has at least this PSNR in dB"},

    {"engine.after", "after", 0, TACHY_OPT_STRING, .arg = "PASS", .group = "Engine",
     .verbs = TACHY_VERB_ENGINE, .command_only = true,
     .help = "show: the graph as it is after this pass; none: as it was read; without it as it is compiled"},
    {"engine.all", "all", 0, TACHY_OPT_BOOL, "no", .group = "Engine", .verbs = TACHY_VERB_ENGINE,
     .command_only = true, .help = "gc: remove every entry of the engine store"},
    {"engine.unused_days", "unused-days", 0, TACHY_OPT_INT, "90", .min = 1, .max = 100000,
     .group = "Engine", .verbs = TACHY_VERB_ENGINE, .command_only = true,
     .help = "gc: remove entries that were not used for so many days"},
    {"engine.batch", "batches", 0, TACHY_OPT_STRING, "1", .arg = "N[,N...]", .group = "Engine",
     .verbs = TACHY_VERB_ENGINE, .command_only = true,
     .help = "bench: pictures in one run; also --batch"},
    {"engine.threads", "threads", 0, TACHY_OPT_STRING, "1", .arg = "N[,N...]", .group = "Engine",
     .verbs = TACHY_VERB_ENGINE, .command_only = true, .help = "bench: threads inside one run"},
    {"engine.rounds", "rounds", 0, TACHY_OPT_INT, "20", .min = 1, .max = 100000, .group = "Engine",
     .verbs = TACHY_VERB_ENGINE, .command_only = true, .help = "bench: turns of each contestant"},
    {"engine.no_reference", "no-reference", 0, TACHY_OPT_BOOL, "no", .group = "Engine",
     .verbs = TACHY_VERB_ENGINE, .command_only = true,
     .help = "bench: leave out the error, which takes a second for each 10^8 multiply-adds"},

    {"profile.trace", "trace", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Profile",
     .verbs = PROFILES,
     .help = "write every step of every frame for Perfetto or Chrome; the default where no file "
             "is asked for"},
    {"profile.folded", "folded", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Profile",
     .verbs = PROFILES, .help = "write folded stacks for a flame graph"},
    {"profile.csv", "csv", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Profile",
     .verbs = PROFILES, .help = "write a row a span"},
    {"profile.json", "profile-json", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Profile",
     .verbs = PROFILES, .help = "write the tables and the environment as JSON"},
    {"profile.operators", "operators", 0, TACHY_OPT_BOOL, "yes", .group = "Profile",
     .verbs = PROFILES,
     .help = "measure the model's operators too, in its first 64 runs, which that slows down"},
    {"profile.gpu_interval", "gpu-interval", 0, TACHY_OPT_INT, "100", .max = 60000, .arg = "MS",
     .group = "Profile", .verbs = PROFILES,
     .help = "read the sensors of NVIDIA GPUs this often in ms; 0: not at all"},
    {"profile.gpu_activity", "gpu-activity", 0, TACHY_OPT_BOOL, "no", .group = "Profile",
     .verbs = PROFILES,
     .help = "record every kernel and copy on the GPU through CUPTI, which slows launches down"},
    {"profile.nvtx", "nvtx", 0, TACHY_OPT_BOOL, "no", .group = "Profile", .verbs = PROFILES,
     .help = "fail where no tool takes the steps as NVTX ranges; one that does gets them without "
             "this too"},
    {"profile.max_spans", "max-spans", 0, TACHY_OPT_INT, "32768", .min = 16, .max = 1 << 26,
     .group = "Profile", .verbs = PROFILES, .help = "newest spans that are kept a thread"},
    {"profile.max_trace", "max-trace", 0, TACHY_OPT_INT, "64", .min = 1, .max = 65536, .arg = "MIB",
     .group = "Profile", .verbs = PROFILES,
     .help = "size of the trace file at most; the newest is kept"},
    {"profile.tool", "tool", 0, TACHY_OPT_ENUM, .values = "perf|nsys|ncu", .group = "Profile",
     .verbs = PROFILES, .help = "run under this profiler instead, with fitting options"},

    {"general.config", "config", 'c', TACHY_OPT_LIST, .arg = "FILE", .group = "General",
     .verbs = TACHY_VERB_ALL, .command_only = true,
     .help = "read settings from a YAML file; the command line wins, a later file wins over an "
             "earlier one"},
    {"general.markdown", "markdown", 0, TACHY_OPT_BOOL, "no", .group = "General",
     .verbs = TACHY_VERB_CONFIG, .command_only = true,
     .help = "print the table of all settings for docs/config.md"},
    {"general.help", "help", 'h', TACHY_OPT_BOOL, "no", .group = "General",
     .verbs = TACHY_VERB_ALL, .command_only = true, .help = "show this help"},
    {"general.version", "version", 'V', TACHY_OPT_BOOL, "no", .group = "General",
     .verbs = TACHY_VERB_ALL, .command_only = true,
     .help = "show the version and those of the libraries in use"},
    {0},
};

// Sections whose keys may name an option that another section names too, the more special one
// later: what the whole run is for, how it is worked on, a part, a part of a part, a task.
static const char *const sections[] = {"performance",      "processing",      "gpu",      "model",
                                       "batching.dynamic", "pipeline.stages", "animation"};

const struct tachy_option *tachy_options(void) { return options; }

size_t tachy_option_count(void) { return TACHY_ARRAY_SIZE(options) - 1; }

int tachy_option_index(const char *path)
{
    for (size_t i = 0; i < tachy_option_count(); i++)
        if (!strcmp(options[i].path, path))
            return (int)i;
    return -1;
}

const struct tachy_option *tachy_option_by_key(const char *path, const struct tachy_key **key)
{
    *key = NULL;
    for (const struct tachy_option *o = options; o->path; o++) {
        if (!strcmp(o->path, path))
            return o;
        for (const struct tachy_key *k = o->keys; k && k->path; k++) {
            if (!strcmp(k->path, path)) {
                *key = k;
                return o;
            }
        }
    }
    return NULL;
}

// True where `path` lies below `section`.
static bool is_below(const char *path, const char *section)
{
    size_t n = strlen(section);
    return !strncmp(path, section, n) && path[n] == '.';
}

int tachy_option_order(const char *key)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(sections); i++)
        if (is_below(key, sections[i]))
            return (int)i + 1;
    return 0;
}

bool tachy_option_is_section(const char *path)
{
    for (const struct tachy_option *o = options; o->path; o++) {
        if (!o->command_only && is_below(o->path, path))
            return true;
        for (const struct tachy_key *k = o->keys; k && k->path; k++)
            if (is_below(k->path, path))
                return true;
    }
    return false;
}

static bool has_alias(const struct tachy_option *o, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = o->aliases; p && *p;) {
        size_t n = strcspn(p, "|");
        if (n == len && !memcmp(p, name, n))
            return true;
        p += n + (p[n] == '|');
    }
    return false;
}

static const struct tachy_option *find(const char *name)
{
    const struct tachy_key *key;
    const struct tachy_option *row = tachy_option_by_key(name, &key);
    if (row)
        return row;
    for (const struct tachy_option *o = options; o->path; o++) {
        if (o->name && !strcmp(o->name, name))
            return o;
        if (o->letter && name[0] == o->letter && !name[1])
            return o;
        if (has_alias(o, name))
            return o;
    }
    return NULL;
}

enum { NAMES_MAX = 2 * TACHY_ARRAY_SIZE(options) }; // a unit test holds that all keys fit

// Paths and other keys, of rows of files or of all.
static size_t list_keys(const char **out, bool all)
{
    size_t n = 0;
    for (const struct tachy_option *o = options; o->path; o++) {
        if (!all && o->command_only)
            continue;
        if (n < NAMES_MAX)
            out[n++] = o->path;
        for (const struct tachy_key *k = o->keys; k && k->path && n < NAMES_MAX; k++)
            out[n++] = k->path;
    }
    return n;
}

const struct tachy_option *tachy_option_find(const char *name, const char **nearest)
{
    TACHY_CLEAR(nearest);
    const struct tachy_option *o = name ? find(name) : NULL;
    if (o || !nearest || !name)
        return o;
    const char *names[NAMES_MAX];
    size_t n = tachy_option_count();
    for (size_t i = 0; i < n; i++)
        names[i] = options[i].name;
    if (strchr(name, '.'))
        n = list_keys(names, true);
    *nearest = tachy_nearest(name, names, n);
    return NULL;
}

const char *tachy_option_shown(const struct tachy_option *o, char *buf, size_t size)
{
    if (!o->name && !o->letter)
        return o->path;
    if (o->name)
        snprintf(buf, size, "%s%s", o->one_dash ? "-" : "--", o->name);
    else
        snprintf(buf, size, "-%c", o->letter);
    return buf;
}

const char *tachy_option_nearest_path(const char *key)
{
    const char *last = strrchr(key, '.');
    const struct tachy_option *o = find(last ? last + 1 : key);
    if (o && !o->command_only)
        return o->path;
    const char *paths[NAMES_MAX];
    size_t n = list_keys(paths, false);
    const char *best = tachy_nearest(key, paths, n);
    if (best)
        return best;
    // A bare last part of a path: "batch_size" means "model.batch_size".
    for (size_t i = 0; i < n; i++)
        if (!strcasecmp(strrchr(paths[i], '.') + 1, last ? last + 1 : key))
            return paths[i];
    return NULL;
}

// "batch_size" of "model.batch_size"; also "max_latency" of "performance.max_latency_ms".
static bool is_last_part(const char *path, const char *name)
{
    const char *last = strrchr(path, '.') + 1;
    size_t n = strlen(name);
    return n && !strncmp(last, name, n) && (!last[n] || !strcmp(last + n, "_ms"));
}

const struct tachy_option *tachy_option_lookup(const char *name, const char **nearest)
{
    char dashed[64];
    const struct tachy_option *o = tachy_option_find(name, nearest);
    if (!name)
        return NULL;
    snprintf(dashed, sizeof(dashed), "%s", name);
    for (char *p = dashed; *p; p++)
        *p = *p == '_' ? '-' : *p;
    o = o ? o : find(dashed);
    if (o)
        return o;
    for (o = options; o->path; o++) {
        if (is_last_part(o->path, name))
            return o;
        for (const struct tachy_key *k = o->keys; k && k->path; k++)
            if (is_last_part(k->path, name))
                return o;
    }
    return NULL;
}
