#pragma once
#include <tachy/settings.h>

#ifdef __cplusplus
extern "C" {
#endif

// For untrusted inputs and models: the process can then open only what a job on local files on the CPU needs, even if a
// decoder or the model is exploited. docs/reliability.md lists what is allowed and what is not prevented.
struct tachy_sandbox_params {
    // Files to read, as `url` of tachy_source_params. For numbered pictures and lists of files their whole folder
    // becomes readable.
    const char *const *inputs;
    size_t nb_inputs;
    // Files to write ("-" is standard output); they need not exist. The folder that holds a file, which must exist, and
    // everything below it is open for reading, creating, changing and removing files.
    const char *const *outputs;
    size_t nb_outputs;
    // The settings that name the job's model, background and engine store; read during the call. NULL: no model.
    const tachy_settings *settings;
    const struct tachy_log *log; // NULL: silent
};
#define tachy_sandbox_params(...) (&(struct tachy_sandbox_params){__VA_ARGS__})

// Confines the calling process for the rest of its life. Call it before anything is opened and any thread is started.
// After a failure the process may be partly confined: it has to exit, or to go on knowing that. TACHY_ERR_UNSUPPORTED:
// a kernel without Landlock (Linux 5.19) or seccomp; TACHY_ERR_INVAL: an input or setting that is not local or not for
// the CPU, or an output in a folder that holds the home folder; TACHY_ERR_STATE: there are other threads;
// TACHY_ERR_NOT_FOUND, TACHY_ERR_IO: an output's folder; TACHY_ERR_NOMEM. Each is logged as one sentence.
TACHY_API int tachy_sandbox_sized(size_t p_size, const struct tachy_sandbox_params *p);
#define tachy_sandbox(...) tachy_sandbox_sized(sizeof(struct tachy_sandbox_params), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
