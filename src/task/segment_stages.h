#pragma once
#include "task/segment.h"
#include "task/segment_gpu.h"

// segment as a list of stages: each a file with its form for the CPU, and the form for a device in a second file of the same
// stem. A task has one of the two lists; no stage asks where it runs. The first stage has what all share (struct
// segment); those that a worker runs share its engine, tables and buffers, which are the model's stage's.

enum { SEGMENT_PREPROCESS, SEGMENT_MODEL }; // indices

extern const struct tachy_stage_ops segment_stage_preprocess, segment_stage_preprocess_cuda; // segment_infer.c
extern const struct tachy_stage_ops segment_stage_model, segment_stage_model_cuda;
extern const struct tachy_stage_ops segment_stage_mask, segment_stage_mask_cuda;
extern const struct tachy_stage_ops segment_stage_smooth, segment_stage_smooth_cuda;
extern const struct tachy_stage_ops segment_stage_background, segment_stage_background_cuda;
extern const struct tachy_stage_ops segment_stage_refine; // a device's composite fits the edges itself
extern const struct tachy_stage_ops segment_stage_composite, segment_stage_composite_cuda;
extern const struct tachy_stage_ops segment_stage_lines, segment_stage_lines_cuda;

static inline struct segment *segment_of(const struct tachy_stage *st) { return st->task->shared; }

// ---- What both forms of a stage have; see struct tachy_stage_ops

int segment_preprocess_open(struct tachy_stage *st, const tachy_settings *set);
void segment_preprocess_close(struct tachy_stage *st);
int segment_preprocess_start(struct tachy_stage *st, struct tachy_video_info *video);
unsigned segment_preprocess_degrade(struct tachy_stage *st);

int segment_model_open(struct tachy_stage *st, const tachy_settings *set);
int segment_model_worker_open(struct tachy_stage *st, int batch, void **worker);
void segment_model_worker_close(void *worker);
int segment_model_state_open(struct tachy_stage *st, void **state);
// What comes before and after the runs of a worker that is no batch's.
void segment_model_begin(struct segment_worker *w, void *state, const struct tachy_piece *first);
void segment_model_end(struct tachy_stage *st, struct segment_worker *w);
// Runs the pieces where the worker is a batch's; false: it is not.
bool segment_model_batch(struct tachy_stage *st, void *worker, const struct tachy_piece pieces[], int n, int err[]);
void segment_model_tensors(struct tachy_stage *st, void *worker, struct tachy_stage_tensors *t);

int segment_mask_open(struct tachy_stage *st, const tachy_settings *set);
int segment_smooth_open(struct tachy_stage *st, const tachy_settings *set);
int segment_background_stage_open(struct tachy_stage *st, const tachy_settings *set);
// Both of background: nothing, since a video behind people follows from the time.
int segment_background_save(const void *state, void **data, size_t *size);
int segment_background_load(void *state, const void *data, size_t size);
int segment_composite_open(struct tachy_stage *st, const tachy_settings *set);
int segment_lines_open(struct tachy_stage *st, const tachy_settings *set);
// The item's line of JSON: of its masks or, where `alpha` is not NULL, of that picture.
int segment_write_line(struct segment_worker *w, struct tachy_item *item, const struct tachy_refine *refine,
                       tachy_frame *alpha);
// The coefficients of the item's regions as a composite takes them; NULL without --refine.
const struct tachy_refine *segment_refined(const struct segment *s, const struct tachy_item *item,
                                           struct tachy_refine r[TACHY_MAX_EYES]);

// ---- segment_infer_cuda.c: what the stages on a device have in common

// A step of the pieces, which are of one region.
void segment_cuda_run(struct segment_worker *w, enum segment_step step, const struct tachy_piece pieces[], int n, int err[]);
// struct tachy_stage_ops.load but for the bytes.
bool segment_cuda_load(struct tachy_stage *st, void *worker, bool computes, struct tachy_stage_load *l);
int segment_cuda_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n);
