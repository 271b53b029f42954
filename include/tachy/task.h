#pragma once
#include <tachy/frame.h>
#include <tachy/result.h>
#include <tachy/settings.h>

#ifdef __cplusplus
extern "C" {
#endif

// A named recipe: preprocess, model card, postprocess and composite with their settings.
// A task only describes; a pipeline (run.h) runs it with as many workers as it likes, and
// one task may serve several pipelines, one after the other.
typedef struct tachy_task tachy_task;

// `name`: "segment". Reads the settings that belong to it, opens the model (and checks its
// digest) and one engine, so that what is missing is known here. `settings` may be NULL for
// the defaults and need only live until this returns.
TACHY_API int tachy_task_open(tachy_task **out, const char *name, const tachy_settings *settings,
                              const struct tachy_log *log);

// The tasks that there are, in the order of help.
struct tachy_example {
    const char *command, *what;
};
struct tachy_task_info {
    const char *name;    // "segment"
    const char *summary; // one line, lower case, no full stop
    const char *details; // paragraphs, with an empty line between them
    const struct tachy_example *examples; // of the command; ends with {0}
};
// Static memory; NULL: there are not so many.
TACHY_API const struct tachy_task_info *tachy_task_at(int i);

TACHY_API void tachy_task_close(tachy_task **t); // after every pipeline that uses it

#ifdef __cplusplus
}
#endif
