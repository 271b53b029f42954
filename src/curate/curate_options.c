#include "curate/curate_options.h"

const struct tachy_option tachy_curate_options[] = {
    {"curate.tasks", "tasks", 0, TACHY_OPT_LIST, .arg = "NAME,...", .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "tasks that see each frame, over one decoding; the settings of each are in its section (docs/curate.md)"},
    {"curate.keep", "keep", 0, TACHY_OPT_STRING, .arg = "EXPRESSION", .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "frames for which this holds are marked as kept: \"detect >= 1 and detect.score > 0.8\""},
    {"curate.to", "to", 0, TACHY_OPT_LIST, .arg = "FORM,...", .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "further forms of the kept frames' results: csv, sqlite, parquet, page, coco, yolo, webdataset, folders, captions"},
    {"curate.sample", "sample", 0, TACHY_OPT_INT, "0", .max = 1e9, .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "a trial: so many of the inputs, evenly out of the list; 0: all"},
    {"curate.shard", "shard", 0, TACHY_OPT_STRING, .arg = "K/N", .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "of N shards of the inputs, by their bytes, only the K-th, from 1; `tachy curate merge` joins them"},
    {"curate.near", "near", 0, TACHY_OPT_INT, "6", .max = 64, .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "frames are near duplicates if so many of 64 bits of their perceptual hashes differ at most (--keep 'not duplicate')"},
    {0},
};

// The rows that each task of a run has, below its name.
const struct tachy_option tachy_curate_task_options[] = {
    {"when", NULL, 0, TACHY_OPT_STRING, .arg = "EXPRESSION", .group = "Curate", .verbs = TACHY_VERB_CURATE,
     .help = "tachy curate: the task sees the frames for which this holds, by what the tasks before it found"},
    {"card", NULL, 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Curate", .verbs = TACHY_VERB_CURATE, .over = "model.card",
     .help = "tachy curate: model card of this task's network"},
    {0},
};
