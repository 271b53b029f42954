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

TACHY_API void tachy_task_close(tachy_task **t); // after every pipeline that uses it

#ifdef __cplusplus
}
#endif
