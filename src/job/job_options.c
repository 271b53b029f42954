#include "base/options.h"
#include "job/job.h"

const struct tachy_option tachy_job_options[] = {
    {"input.files", "input", 'i', TACHY_OPT_LIST, .arg = "FILE", .group = "Input",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_PROBE | TACHY_VERB_CURATE,
     .help = "video, picture, numbered pictures (shot_%04d.png), folder, address, /dev/video0, screen, or - for "
             "standard input; arguments without an option name are inputs too"},
    {"output.file", "output", 'o', TACHY_OPT_LIST, .arg = "FILE", .group = "Output",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_MODEL | TACHY_VERB_COMPARE | TACHY_VERB_CURATE | TACHY_VERB_BENCH | TACHY_VERB_RESULTS,
     .help = "where to write: a file, a folder ending in / (files get derived names), - for standard output, window "
             "for a screen, /dev/video2 or pipewire for other programs, http://127.0.0.1:8090/ for a browser. Repeat "
             "it for several outputs; [key=value:...] before a name sets options of that one (docs/sink.md)"},
    {"output.format", "format", 'f', TACHY_OPT_STRING, .arg = "NAME", .group = "Output", .verbs = TACHY_VERB_RUN,
     .help = "FFmpeg's muxer, or null, framemd5, json; default: by file name"},
    {"output.overwrite", "overwrite", 'y', TACHY_OPT_BOOL, "no", .group = "Output",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_PROBE | TACHY_VERB_DOCTOR | TACHY_VERB_MODEL | TACHY_VERB_PROFILE | TACHY_VERB_REPLAY |
              TACHY_VERB_ENGINE | TACHY_VERB_COMPARE | TACHY_VERB_TUNE | TACHY_VERB_CHECK | TACHY_VERB_CURATE | TACHY_VERB_BENCH |
              TACHY_VERB_RESULTS,
     .help = "overwrite an output file that already exists"},
    {"output.skip_existing", "skip-existing", 0, TACHY_OPT_BOOL, "no", .group = "Output", .verbs = TACHY_VERB_RUN,
     .help = "skip an input whose output already exists"},
    {"output.no_overwrite", NULL, 'n', TACHY_OPT_BOOL, "no", .group = "Output", .verbs = TACHY_VERB_RUN,
     .help = "never replace a file, whatever a configuration file says"},
    {0},
};

const struct tachy_option tachy_job_run_options[] = {
    {"run.profile", "profile", 0, TACHY_OPT_ENUM, .values = "fast|balanced|quality|high-throughput|memory-constrained|cpu-only", .arg = "PRESET",
     .group = "Run", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "a preset: settings that belong together, from configs/PRESET.yaml; files given with -c and the command "
             "line override it"},
    {"task.stages", "stage", 0, TACHY_OPT_LIST, .arg = "NAME|FILE", .group = "Run", .verbs = TACHY_VERB_RUN,
     .command_only = true,
     .help = "one more stage, which adds values to the results: a shared library, given by its path (./motion.so), or "
             "one that the program has registered"},
    {"run.calibrate", "calibrate", 0, TACHY_OPT_BOOL, "no", .group = "Run", .verbs = TACHY_VERB_RUN,
     .help = "also measure each step alone, for the light ratio"},
    {"run.parallel", "parallel", 0, TACHY_OPT_INT, "1", .min = 1, .max = JOB_AT_ONCE, .group = "Run", .verbs = TACHY_VERB_RUN,
     .help = "inputs processed at the same time, by one set of workers"},
    {"run.json", "json", 0, TACHY_OPT_STRING, .arg = "FILE", .bare = "-", .group = "Run",
     .verbs = TACHY_VERB_ALL | TACHY_VERB_RUN, .help = "write the result as JSON to standard output or to FILE"},
    {"run.sandbox", "sandbox", 0, TACHY_OPT_BOOL, "no", .group = "Run", .verbs = TACHY_VERB_RUN | TACHY_VERB_PROBE,
     .help = "confine the process before it reads anything: it can open the input, the output's folder, the model "
             "and the engine store, and nothing else; for local input on the CPU"},
    TACHY_SOUND_OPTION,
    {0},
};
