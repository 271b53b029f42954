#pragma once
#include "base/base.h"

#include <tachy/result.h>
#include <tachy/run.h>
#include <tachy/task.h>

// What a task fills in and the pipeline runs. The three steps of the worker stage and
// composite are separate calls so that each can be timed, and run alone for the light ratio.

// One frame on its way through a pipeline.
struct tachy_item {
    tachy_frame *in;  // decoded; NULL in order and composite where the task does not keep it,
                      // and after composite
    tachy_frame head; // all but the pixels of `in`, where that is NULL in order and composite
    tachy_frame *out; // composited; NULL before composite, or where the task makes none
    struct tachy_result result;
    uint64_t arrived;    // into the current queue, tachy_ticks()
    uint64_t pushed;     // into the pipeline, tachy_ticks()
    uint32_t stream;     // number of its stream in the profile
    void *priv;          // item_size zeroed bytes of the task's; kept from frame to frame
};

// What is known of the decoded frame besides its pixels.
static inline const tachy_frame *tachy_item_head(const struct tachy_item *item)
{
    return item->in ? item->in : &item->head;
}

struct tachy_task_ops {
    const char *name;
    size_t priv_size; // zeroed bytes at tachy_task.priv
    size_t item_size; // zeroed bytes at tachy_item.priv
    int (*open)(tachy_task *t, const tachy_settings *s);
    void (*close)(tachy_task *t); // also after a failed open

    // A pipeline starts on a stream: maps input to output; may keep what it needs of `in`.
    // t->eyes is set here.
    int (*start)(tachy_task *t, const struct tachy_video_info *in, struct tachy_video_info *out);

    // After start(): whether composite reads the pixels of item->in; NULL: yes. Where it does
    // not, they are dropped before, so that many frames can wait for their turn.
    bool (*keeps_input)(const tachy_task *t);
    // After start(): about how many bytes item->priv holds; NULL: next to nothing.
    size_t (*item_bytes)(const tachy_task *t);

    // Each worker has its own engine, tables and buffers (never NULL). One thread a worker; one
    // thread at a time is in worker_open.
    int (*worker_open)(tachy_task *t, void **worker);
    void (*worker_close)(void *worker);

    // In any order, in parallel over frames; eye 0 .. t->eyes - 1.
    int (*preprocess)(void *worker, struct tachy_item *item, int eye);
    int (*model)(void *worker, struct tachy_item *item, int eye);
    int (*postprocess)(void *worker, struct tachy_item *item, int eye);

    // Batches larger than one: the model runs apart from the workers, so an item keeps the model's
    // input and output in its priv. All of these or none (NULL: batches are of one).
    // What items that share a batch have in common, the model's path; NULL: no batches.
    const char *(*batch_key)(const tachy_task *t);
    // An engine for up to `most` pictures; any task of the same key may open it for the others.
    // TACHY_ERR_MISMATCH: the model takes one picture a run.
    int (*batch_open)(tachy_task *t, int most, void **engine);
    void (*batch_close)(void *engine);
    int (*batch_preprocess)(void *worker, struct tachy_item *item, int eye);
    // n = 1..most pictures, eyes[i] of items[i]. One thread an engine. TACHY_ERR_NOMEM: comes again
    // with half of them.
    int (*batch_model)(void *engine, struct tachy_item *const items[], const int eyes[], int n);
    int (*batch_postprocess)(void *worker, struct tachy_item *item, int eye);

    // In the order of the stream, one at a time; NULL: nothing to do in order. order_open may
    // set *state to NULL where the settings leave nothing to do: then `order` is not called, and
    // a worker composites at once.
    int (*order_open)(tachy_task *t, void **state);
    void (*order_close)(void *state);
    int (*order)(void *state, struct tachy_item *item);

    // In any order again, after `order`; sets item->out. NULL: no pictures are made.
    int (*composite)(void *worker, struct tachy_item *item);

    void (*item_close)(void *item_priv); // frees what the item's priv holds
    // Text that names model and mode, key of the stored light figures.
    const char *(*describe)(const tachy_task *t);
};

struct tachy_task {
    const struct tachy_task_ops *ops;
    const struct tachy_log *log;
    int eyes; // 1 or 2
    struct tachy_memory *memory; // of the pipeline, from start() until the last worker is closed
    max_align_t priv[];
};

extern const struct tachy_task_ops tachy_task_segment;
