#pragma once
#include "cli.h"

#include <jansson.h>

// What the files of `tachy segment` share.

// One run: an input and where it goes.
struct job {
    const char *input;
    char *output; // file name, "-", or NULL for the null sink
    bool done;    // by an earlier run
    // While it runs:
    tachy_source *source;
    tachy_sink *sink;
    tachy_task *task; // of its own, where several run at once; NULL: the verb's
    struct progress progress;
};

struct segment {
    struct cli *c;
    const char *mode, *format; // format: -f, or what the mode wants; NULL: by name
    const char *json;          // --json; NULL: none
    bool named;                // -o is given
    struct job *jobs;
    size_t n_jobs;
    tachy_task *task;
    int gpus[TACHY_MAX_GPUS], nb_gpus; // that the run is spread over; none: it is the CPU's
    const char *task_extension; // of the output that the task was opened for
    int told;                   // status of the first failure that was told already; 0: none
    bool misused;               // a run failed because of an option's value
    json_t *summaries;          // array, where --json is given
};

// segment_check.c: what is wanted and whether it can be, before any work. Each tells what is wrong.

bool text_is(const char *text, const char *word); // false for NULL
// Of a file name, without the dot; "" where there is none.
const char *segment_extension(const char *name);
bool segment_writes_nothing(const struct segment *s);
bool segment_is_text(const char *format); // JSON lines, hashes; false for NULL
const char *segment_without_scheme(const char *name); // "file:" taken off
// Whether existing outputs may be replaced.
bool segment_may_overwrite(const struct cli *c);
int segment_prepare(struct segment *s);
int segment_check_files(struct segment *s);
// The last thing before any input is opened, where --sandbox asks for it.
int segment_enter_sandbox(const struct segment *s);
