#pragma once
#include "base/base.h"
#include "base/options.h"
#include "base/output_options.h"

#include <jansson.h>
#include <tachy/job.h>
#include <tachy/sink.h>

// Shared by the files of a job.

extern const struct tachy_option tachy_job_options[], tachy_job_run_options[]; // end with {0}

struct tachy_task_ops;

enum { JOB_AT_ONCE = 64 }; // most files

// The objects of a file in progress.
struct job_work {
    tachy_job *job;
    struct tachy_job_file *file;
    char *output; // owns file->output
    bool done;    // its output was there before
    tachy_source *source;
    tachy_sink *sink;
    tachy_task *task;
    const char *extension; // of the output, see struct job_task
};

// A task that no file has now.
struct job_task {
    tachy_task *task;
    const char *extension; // of the output that it was opened for
};

struct tachy_job {
    struct tachy_job_params p; // task, settings: NULL once it is open
    int task_index;
    const struct tachy_task_ops *ops;
    tachy_settings *set;      // a copy, in which output.file names the outputs in work
    const char *mode;         // how a derived name says what is written
    const char *format, *json; // of outputs that give none of their own: output.format, or what the mode wants; run.json;
                              // NULL: none
    char *outputs[TACHY_MAX_OUTPUTS]; // output.file as it was given
    int nb_outputs;
    const char *file;         // the name of the first; NULL: none was given
    char **inputs;              // names, folders resolved
    int nb_inputs;
    struct tachy_job_info info;
    struct tachy_job_file *files; // info.nb_files
    struct job_work *work;        // the same number
    int gpus[TACHY_MAX_GPUS], nb_gpus; // that it is spread over; none: it is the CPU's
    struct job_task idle[JOB_AT_ONCE]; // as many as files ran at once
    int nb_idle;
    json_t *summaries;          // array; NULL: nobody asked
};

// job_device.c: --device auto becomes cpu or cuda.
int job_choose_device(tachy_job *j);

// input_list.c: fills inputs and nb_inputs.
int job_list_inputs(tachy_job *j);

// job_files.c: what is to be read and written, and whether it can be.
int job_find_files(tachy_job *j);  // wrong settings: TACHY_ERR_INVAL
int job_check_files(tachy_job *j); // looks at the files
int job_enter_sandbox(const tachy_job *j);
bool job_writes_nothing(const tachy_job *j);
bool job_writes_files(const tachy_job *j); // an output is neither an address nor a window
bool job_is_folder(const char *name); // it is one, or is to be: ends in '/'; NULL: no
bool job_writes_text(const tachy_job *j); // JSON lines, hashes
int job_nb_outputs(const tachy_job *j);   // of each file; at least 1
// The name of output i of a file; NULL: nothing is written.
const char *job_output(const tachy_job *j, const struct tachy_job_file *f, int i);
// Its format; NULL: by its name. `own`: the memory of one that is its own.
const char *job_format(const tachy_job *j, int i, char own[TACHY_OUTPUT_VALUE]);
const char *job_extension(const char *name); // without the dot; "": none

bool job_reads(const tachy_job *j, const struct tachy_option *o); // whether the option is the task's or every run's
void job_note_unused(const tachy_job *j); // unused.c: logs what was set and does nothing in this job

// job_summary.c: what goes to run.json.
int job_keep_summary(tachy_job *j, const struct tachy_job_file *f, const struct tachy_summary *s);
int job_write_summaries(const tachy_job *j);

// output_name.c
// The name that is derived from an input's. `folder` (may be NULL) ends in '/'. Free it.
char *job_output_name(const char *input, const char *mode, const char *format, const char *folder);
