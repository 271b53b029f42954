#pragma once
#include "stage/stage_ops.h"

// Definition of a task: one table in its own file, src/task/<name>_task.c, and one line in tasks.inc (docs/job.md).
// Command line, help, man page, completion and jobs read it.

// A stage in its two forms; NULL: where frames are there, the task goes without it.
struct tachy_task_stage {
    const struct tachy_stage_ops *cpu, *cuda;
};

struct tachy_task_ops {
    struct tachy_task_info info;
    const struct tachy_option *options;    // the task's own rows, ends with {0}; NULL: none
    const struct tachy_option *shared;     // rows that several tasks have; as `options`
    const struct tachy_task_stage *stages; // in their order; ends with {0}
    // The stages for these settings, which are some of `stages`; NULL: all of them.
    const struct tachy_task_stage *(*choose)(const tachy_settings *s);
    bool text;                             // it writes text only: JSON lines, unless the output's name or format says CSV
    bool mends;                            // its pictures are the frames themselves, mended: curate keeps them as such
    bool hears;                            // reads the sound of tachy_task.input as well, so that it serves one input
    bool host;                             // nothing of it runs on a GPU: --device cuda is refused
    // Checks the settings for contradictions before anything is opened: TACHY_ERR_INVAL, after a message. NULL: nothing
    // to check.
    int (*check)(const tachy_settings *s, const struct tachy_log *log);
};

// tasks.inc has one line TASK(name) per task, in the order of help.
#define TASK(name) extern const struct tachy_task_ops tachy_task_##name;
#include "task/tasks.inc"
#undef TASK
extern const struct tachy_task_ops *const tachy_tasks[]; // in the order of help; ends with NULL

// Index in tachy_tasks. TACHY_ERR_NOT_FOUND: none has this name; the message lists those that there are.
int tachy_task_find(const char *name, const struct tachy_log *log);

// The next row, after `last` or the first one, of the task's section that is set and is about all inputs together
// (tachy_option.at_end); NULL: there is none.
const struct tachy_option *tachy_task_at_end(const struct tachy_task_ops *ops, const tachy_settings *s, const struct tachy_option *last);
// True if the row belongs to a stage that takes notes, so it changes no frame's result, only what is written at the end.
bool tachy_task_takes(const struct tachy_task_ops *ops, const char *path);

// True if --device cuda puts the frames on a GPU: a stage of these settings has a form for devices. Else frames stay in host memory,
// and only networks run on the GPU.
bool tachy_task_frames_on_gpu(const struct tachy_task_ops *ops, const tachy_settings *s);

// Checks that the task can run with these settings, before anything is opened: TACHY_ERR_INVAL or
// TACHY_ERR_UNSUPPORTED, after a message.
int tachy_task_check(const struct tachy_task_ops *ops, const tachy_settings *s, const struct tachy_log *log);

enum tachy_task_use {
    TACHY_TASK_RUNS,
    TACHY_TASK_KEEPS_NOTES, // runs, and items keep their notes (stage/note.h)
    TACHY_TASK_TAKES_NOTES, // has only the stages that take notes: nothing runs
};

// tachy_task_open() with settings and a name that are not NULL.
int tachy_task_make(tachy_task **out, const char *name, enum tachy_task_use use, const tachy_settings *settings, const struct tachy_log *log);
