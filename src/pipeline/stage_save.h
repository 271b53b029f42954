#pragma once
#include "media/describe.h"
#include "stage/stage.h"

// --save-stage DIR N: for the first N frames of a stream, what preprocess, model and postprocess
// read and wrote, as .npy files with an index (docs/replay.md), and the way back for a replay.

#define STAGE_INDEX "index.json"
enum { STAGE_INDEX_VERSION = 1 };

struct tachy_stage_save;

// The stage of a task whose tensors can be saved; NULL: none.
struct tachy_stage *tachy_stage_save_of(const tachy_task *task);

// Makes the folder. TACHY_ERR_EXISTS: there is an index in it already. `settings`: of the task,
// those that the replay needs are written into the index.
int tachy_stage_save_open(struct tachy_stage_save **out, const char *dir, int64_t frames,
                          const tachy_task *task, const tachy_settings *settings,
                          const struct tachy_log *log);
// After the stages of this region, with the objects of the worker that ran them. Nothing for frames from N on
// and for those that were saved before. Thread-safe.
int tachy_stage_save_item(struct tachy_stage_save *s, const tachy_task *task, void *const worker[],
                          struct tachy_item *item, int eye,
                          const struct tachy_video_info *input);
// Writes the index and frees. TACHY_OK for NULL.
int tachy_stage_save_close(struct tachy_stage_save **s);
