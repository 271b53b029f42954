#include "curate/curate_options.h"

const struct tachy_option tachy_curate_options[] = {
    {"curate.tasks", "tasks", 0, TACHY_OPT_LIST, .arg = "NAME,...", .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "tasks that see each frame, over one decoding; each has its settings in its own section (docs/curate.md)"},
    {"curate.keep", "keep", 0, TACHY_OPT_STRING, .arg = "EXPRESSION", .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "mark frames as kept if this holds: \"detect >= 1 and detect.score > 0.8\""},
    {"curate.to", "to", 0, TACHY_OPT_LIST, .arg = "FORM,...", .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "more formats for the results of kept frames: csv, sqlite, parquet, page, coco, yolo, webdataset, "
             "folders, captions"},
    {"curate.sample", "sample", 0, TACHY_OPT_INT, "0", .max = 1e9, .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "a trial with this many of the inputs, spread evenly over the list; 0: all"},
    {"curate.shard", "shard", 0, TACHY_OPT_STRING, .arg = "K/N", .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "work only on shard K of N, from 1; a file's bytes say which shard it is in; `tachy curate merge` joins "
             "the results"},
    {"curate.near", "near", 0, TACHY_OPT_INT, "6", .max = 64, .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "frames are near duplicates if at most this many of the 64 bits of their perceptual hashes differ "
             "(--keep 'not duplicate')"},
    {0},
};

// The rows that each task of a run has, below its name.
const struct tachy_option tachy_curate_task_options[] = {
    {"when", NULL, 0, TACHY_OPT_STRING, .arg = "EXPRESSION", .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "tachy curate: the task sees only frames for which this holds, by what the tasks before it found"},
    {"card", NULL, 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Curate", .verbs = TACHY_VERB_CURATE, .over = "model.card",
     .help = "tachy curate: model card for this task's network"},
    {0},
};
