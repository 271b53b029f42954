#pragma once
#include <tachy/control.h>
#include <tachy/profile.h>
#include <tachy/run.h>
#include <tachy/settings.h>

#ifdef __cplusplus
extern "C" {
#endif

// A job runs a task from inputs to outputs, as the settings say (docs/job.md). `tachy segment in.mp4 -o out.mp4` is a job; a
// program that sets input.files and output.file and runs a job gets the same files, names, checks and messages.
//
// Thread-safety: use one job from one thread at a time; separate jobs are independent.
typedef struct tachy_job tachy_job;

// One input and its output. Strings are the job's, valid until it is closed.
struct tachy_job_file {
    int index;          // among those of the job, from 0
    const char *input;  // as in input.files; "-": standard input
    const char *output; // file name or number pattern; "-": standard output; NULL: nothing is written
    bool misused;       // it failed because of an option's value, before its first frame
};

struct tachy_job_params {
    const char *task;               // required: name of a task (tachy_task_at())
    const tachy_settings *settings; // required; copied
    // Options that the program reads itself, as TACHY_VERB_* bits: the job accepts and ignores them.
    uint64_t reads;
    // Each may be NULL. `begin` and `end` are never called at the same time. With run.parallel they are called from the
    // job's threads; otherwise they and `progress` are called from the thread in tachy_job_run().
    void (*begin)(void *user, const struct tachy_job_file *f);
    // See tachy_run_params. With run.parallel, calls for several files may come at the same time.
    bool (*progress)(void *user, const struct tachy_job_file *f, const struct tachy_progress *now);
    // The file is finished, or could not be started. `err`: of tachy_run(); `s`: zeroed if nothing ran.
    void (*end)(void *user, const struct tachy_job_file *f, int err, const struct tachy_summary *s);
    void *user;
    struct tachy_profile *profile;  // as in tachy_run_params
    const char *engine_option;      // added to model.provider_options: tachy_profile_engine_option(); NULL: none
    struct tachy_control *control;  // as in tachy_run_params. After a stop no further file is started
    const struct tachy_log *log;    // NULL: silent; must outlive the job
    void (*key)(void *user, char key); // as in tachy_sink_params, with `user`; called from its own thread. NULL: keys are ignored
};
#define tachy_job_params(...) (&(struct tachy_job_params){__VA_ARGS__})

// Finds out what to read and write, and whether that is possible, before any work: inputs, output names, contradictory
// settings, files that would be replaced, GPUs. Creates the folder that output.file names, and with run.sandbox
// confines the process (sandbox.h: no other thread may run). An option that was set by name (tachy_settings_set()) and
// that neither the task nor its source, sink or run reads is an error. TACHY_ERR_INVAL: the settings are wrong;
// TACHY_ERR_NOT_FOUND: no such task or input; TACHY_ERR_EXISTS: a file would be replaced; also what tachy_gpus_asked()
// and tachy_sandbox() return. Each is logged as one sentence.
TACHY_API int tachy_job_open_sized(size_t p_size, tachy_job **out, const struct tachy_job_params *p);
#define tachy_job_open(...) tachy_job_open_sized(sizeof(struct tachy_job_params), __VA_ARGS__)

struct tachy_job_info {
    const struct tachy_job_file *files; // in order; the job's, until it is closed
    int nb_files;
    bool parallel;  // several run at once
    bool overwrite; // files that exist already may be replaced
    bool to_stdout; // an output or the summary goes to standard output
};
// The job's, until it is closed.
TACHY_API const struct tachy_job_info *tachy_job_info(const tachy_job *j);

// Runs the job, once. Files run in turn until one fails. With run.parallel several run at once, a failed one does not
// end the others, and the first failure's code is returned. At the end the summaries go where run.json says.
// TACHY_ERR_INTERRUPTED: it was stopped; the log says what has been written.
TACHY_API int tachy_job_run(tachy_job *j);

// True if a folder given as input includes a file of this name: videos and pictures, by extension, that are not hidden.
// `name` may be NULL: false. Thread-safe.
TACHY_API bool tachy_job_takes(const char *name);

TACHY_API void tachy_job_close(tachy_job **j);

#ifdef __cplusplus
}
#endif
