#pragma once
#include <tachy/settings.h>

#ifdef __cplusplus
extern "C" {
#endif

// For untrusted inputs and models: the process can then open only what a job on local files on the CPU needs, whatever a
// decoder or the model makes it do. docs/reliability.md lists what is allowed and what is not prevented.
struct tachy_sandbox_params {
    // Read: as `url` of tachy_source_params. Of numbered pictures and lists of files it
    // is their whole folder.
    const char *const *inputs;
    size_t nb_inputs;
    // Written: names of files ("-" is standard output), which need not exist; the folder that a file lies
    // in and all below it is open for reading, making, changing and removing files. It must exist.
    const char *const *outputs;
    size_t nb_outputs;
    // The settings that name the job's model, background and engine store; read during the call. NULL: no model.
    const tachy_settings *settings;
    const struct tachy_log *log; // NULL: silent
};
#define tachy_sandbox_params(...) (&(struct tachy_sandbox_params){__VA_ARGS__})

// Confines the calling process for as long as it lives. Call it before anything is opened and before
// any thread is started. After a failure the process is not confined as asked, but may be in part: it has
// to end, or to go on knowing that. TACHY_ERR_UNSUPPORTED: a kernel without Landlock (Linux 5.19) or seccomp;
// TACHY_ERR_INVAL: an input or setting that is not local or not the CPU's, an output in a folder that
// holds the home folder; TACHY_ERR_STATE: there are other threads; TACHY_ERR_NOT_FOUND, TACHY_ERR_IO: an
// output's folder; TACHY_ERR_NOMEM. Each is logged as one sentence.
TACHY_API int tachy_sandbox_sized(size_t p_size, const struct tachy_sandbox_params *p);
#define tachy_sandbox(...) tachy_sandbox_sized(sizeof(struct tachy_sandbox_params), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
