#pragma once
#include <tachy/frame.h>
#include <tachy/result.h>
#include <tachy/settings.h>

#ifdef __cplusplus
extern "C" {
#endif

// A named recipe: preprocess, model card, postprocess and composite with their settings. A task only describes; a
// pipeline (pipeline.h) or a run (run.h) executes it with any number of workers. One task may serve several pipelines,
// one after the other.
typedef struct tachy_task tachy_task;

// Opens the task `name` ("segment"): reads its settings, opens the model (and checks its digest) and one engine, so
// that missing parts are found here. `settings` may be NULL for the defaults and need only live until this returns.
TACHY_API int tachy_task_open(tachy_task **out, const char *name, const tachy_settings *settings,
                              const struct tachy_log *log);

// One of the available tasks.
struct tachy_example {
    const char *command, *what;
};
struct tachy_task_info {
    const char *name;    // "segment"
    const char *summary; // one line, lower case, no full stop
    const char *details; // paragraphs, separated by empty lines
    const struct tachy_example *examples; // command lines; ends with {0}
};
// Task number `i` in the order of help; NULL: past the last. Static memory.
TACHY_API const struct tachy_task_info *tachy_task_at(int i);

TACHY_API void tachy_task_close(tachy_task **t); // after every pipeline that uses it

#ifdef __cplusplus
}
#endif
