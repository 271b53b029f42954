#pragma once
#include "media/frame_pool.h"
#include "profile/rows.h"
#include "stage/stage_ops.h"

// A task's list of stages, and the one way to run it.

// Opens a stage at the end of the task's list. `task->log` is set. On failure the list is as before.
int tachy_stage_add(tachy_task *t, const struct tachy_stage_ops *ops, const tachy_settings *s);
// As above, for a stage that a program has registered or that is a shared library (docs/stage.md).
int tachy_stage_add_user(tachy_task *t, const char *name, const tachy_settings *s);
// The stages are closed, the last first. Not the task itself.
void tachy_stages_close(tachy_task *t);
// All streams have come to their end without an error: see tachy_stage_ops.finish.
int tachy_stages_finish(tachy_task *t);
// A pipeline begins on a stream of `in`; *out: what the sink is given. The task's memory and profile are set.
int tachy_stages_start(tachy_task *t, const struct tachy_video_info *in, struct tachy_video_info *out);

// Time is counted in this table from now on: it gets a row for each name of the task's stages. After the start, before
// anything runs.
void tachy_task_count(tachy_task *t, struct tachy_rows *steps);

// The nearest stage before `st` in its task of that name; NULL: there is none. Also in open(), when `st` is not in the
// list yet.
struct tachy_stage *tachy_stage_before(const struct tachy_stage *st, const char *name);
// The part of a stream's frames that each eye is, frame pixels as stored; returns how many eyes there are.
int tachy_eye_regions(const struct tachy_video_info *video, struct tachy_rect region[TACHY_MAX_EYES]);
// In start(): opens a pool of frames of the host's that the stage makes, counted in the task's memory. *pool is closed
// before, if it is open.
int tachy_stage_pool(const struct tachy_stage *st, tachy_frame_pool **pool, enum tachy_pix format, int width, int height);
// Adds to tachy_task.reads. TACHY_ERR_NOMEM.
int tachy_task_reads(tachy_task *t, const char *file);
// Adds to tachy_task.describe what of a stage's settings changes its speed or its results.
void tachy_task_describe(tachy_task *t, const char *format, ...) TACHY_PRINTF(2, 3);

// Bytes that an item holds besides tachy_task.item_size, about. After the start.
size_t tachy_task_item_bytes(const tachy_task *t);
// True if a stage from index `first` on has the flag.
bool tachy_task_flag(const tachy_task *t, int first, unsigned flag);
// The stage that copies results, NULL: results cannot be taken over.
struct tachy_stage *tachy_task_copies(const tachy_task *t);
// The GPUs that items are worked on, with the frames of each since the task was opened; returns how many. Any
// thread, after the start.
int tachy_task_gpus(const tachy_task *t, struct tachy_gpu_share share[TACHY_MAX_GPUS]);

// The state of a stream for an ordered stage, as state_open to state_load of struct tachy_stage_ops say. open: *state is NULL
// after a failure, and for a stage that needs none. close: NULL is nothing to do.
int tachy_stage_state_open(struct tachy_stage *st, void **state);
void tachy_stage_state_close(const struct tachy_stage *st, void *state);
bool tachy_stage_state_saves(const struct tachy_stage *st); // whether the next two can be called
int tachy_stage_state_save(const struct tachy_stage *st, const void *state, void **data, size_t *size);
int tachy_stage_state_load(const struct tachy_stage *st, void *state, const void *data, size_t size);
// state_save and state_load for states of this many bytes without pointers.
int tachy_state_save(const void *state, size_t bytes, void **data, size_t *size);
int tachy_state_load(void *state, size_t bytes, const void *data, size_t size);

// Changes a setting of a stage, see struct tachy_stage_dial. Any thread, concurrently with the stages' calls.
// TACHY_ERR_UNSUPPORTED: no stage can change it, or not to that value; *why (may be left NULL) as in
// pipeline/control.h.
int tachy_task_set(tachy_task *t, const char *path, double value, char **why);

// The worker objects of one worker, one a stage.
int tachy_task_worker_open(tachy_task *t, void *worker[TACHY_MAX_STAGES]);
void tachy_task_worker_close(const tachy_task *t, void *worker[TACHY_MAX_STAGES]);
// The worker object that the stage is called with.
static inline void *tachy_stage_worker(const struct tachy_stage *st, void *const worker[])
{
    return worker[st->worker_of];
}

// Frees what the stages keep in an item's priv, not the block itself; NULL allowed.
void tachy_task_item_close(const tachy_task *t, void *priv);
// Ends what a device still does for the item.
int tachy_task_sync(const tachy_task *t, struct tachy_item *item);

enum { TACHY_STAGE_ITEMS = 64 }; // items of a pass, at most

// Items on their way through some of a task's stages. Whoever starts a pass has its items and workers to itself.
struct tachy_stage_pass {
    tachy_task *task;
    void *const *worker; // by stage, see tachy_task_worker_open()
    void *const *state;  // by stage, of the items' stream; NULL: there is none
    struct tachy_item *const *items;
    int n;
    struct tachy_item *const *later; // for a stage with `ahead`: the items after items[0], which is the only one
    int nb_later;
    int *err;            // by item: negative: it has failed and goes no further
    const struct tachy_stage **at; // by item: the stage that it was in last; NULL: nobody asks
    // Both may be NULL. Stages one after another that count as one have run `n` of the items, of[i] (their region).
    void (*ran)(struct tachy_stage_pass *p, const struct tachy_stage *st, const int of[], int n);
    // A region has been through all stages that have regions.
    void (*region_done)(struct tachy_stage_pass *p, int region);
    void *user;
};

// Takes the items through the stages first .. end - 1: stages with regions one region after another, so that what
// one hands to the next is still in the core's cache.
void tachy_stage_pass(struct tachy_stage_pass *p, int first, int end);
