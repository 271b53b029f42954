#include "base/options.h"
#include "job/job.h"

const struct tachy_option tachy_job_options[] = {
    {"input.files", "input", 'i', TACHY_OPT_LIST, .arg = "FILE", .group = "Input",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_PROBE | TACHY_VERB_CURATE,
     .help = "video, picture, numbered pictures (shot_%04d.png), folder, address, /dev/video0, screen, or - for standard input; "
             "arguments without an option are inputs as well"},
    {"output.file", "output", 'o', TACHY_OPT_LIST, .arg = "FILE", .group = "Output",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_MODEL | TACHY_VERB_COMPARE | TACHY_VERB_CURATE | TACHY_VERB_BENCH | TACHY_VERB_RESULTS,
     .help = "where to write; a folder ending in / takes derived names, - is standard output, window a screen, "
             "/dev/video2 and pipewire cameras for other programs, http://127.0.0.1:8090/ serves a browser. Given again, the run has "
             "several outputs; [key=value:...] before a name are options of that one (docs/sink.md)"},
    {"output.format", "format", 'f', TACHY_OPT_STRING, .arg = "NAME", .group = "Output", .verbs = TACHY_VERB_RUN,
     .help = "FFmpeg's muxer, or null, framemd5, json; by file name without it"},
    {"output.overwrite", "overwrite", 'y', TACHY_OPT_BOOL, "no", .group = "Output",
     .verbs = TACHY_VERB_RUN | TACHY_VERB_PROBE | TACHY_VERB_DOCTOR | TACHY_VERB_MODEL | TACHY_VERB_PROFILE | TACHY_VERB_REPLAY |
              TACHY_VERB_ENGINE | TACHY_VERB_COMPARE | TACHY_VERB_TUNE | TACHY_VERB_CHECK | TACHY_VERB_CURATE | TACHY_VERB_BENCH |
              TACHY_VERB_RESULTS,
     .help = "overwrite an output file that already exists"},
    {"output.skip_existing", "skip-existing", 0, TACHY_OPT_BOOL, "no", .group = "Output", .verbs = TACHY_VERB_RUN,
     .help = "leave out an input whose output already exists"},
    {"output.no_overwrite", NULL, 'n', TACHY_OPT_BOOL, "no", .group = "Output", .verbs = TACHY_VERB_RUN,
     .help = "never replace a file, whatever a configuration file says"},
    {0},
};

const struct tachy_option tachy_job_run_options[] = {
    {"run.profile", "profile", 0, TACHY_OPT_ENUM, .values = "fast|balanced|quality|high-throughput|memory-constrained|cpu-only", .arg = "PRESET",
     .group = "Run", .verbs = TACHY_VERB_RUN | TACHY_VERB_CURATE,
     .help = "settings that go together, from configs/PRESET.yaml; a file given with -c and the command line win "
             "over them"},
    {"task.stages", "stage", 0, TACHY_OPT_LIST, .arg = "NAME|FILE", .group = "Run", .verbs = TACHY_VERB_RUN,
     .command_only = true,
     .help = "another stage, which adds values to the results: a shared library, named with its path (./motion.so), "
             "or one that the program has registered"},
    {"run.calibrate", "calibrate", 0, TACHY_OPT_BOOL, "no", .group = "Run", .verbs = TACHY_VERB_RUN,
     .help = "measure each step alone as well, for the light ratio"},
    {"run.parallel", "parallel", 0, TACHY_OPT_INT, "1", .min = 1, .max = 64, .group = "Run", .verbs = TACHY_VERB_RUN,
     .help = "inputs worked on at once, through one set of workers"},
    {"run.json", "json", 0, TACHY_OPT_STRING, .arg = "FILE", .bare = "-", .group = "Run",
     .verbs = TACHY_VERB_ALL | TACHY_VERB_RUN, .help = "write the result as JSON to standard output or to FILE"},
    {"run.sandbox", "sandbox", 0, TACHY_OPT_BOOL, "no", .group = "Run", .verbs = TACHY_VERB_RUN | TACHY_VERB_PROBE,
     .help = "confine the process before it reads anything: it can open the input, the output's folder, the model "
             "and the engine store, and nothing else; for local input on the CPU"},
    TACHY_SOUND_OPTION,
    {0},
};
