#pragma once
#include "pipeline/live.h"
#include "pipeline/pipeline.h"

// Joins live.h to a stream: its policy, its clock and its tickets. For mode all only what
// frame_skip needs is in the way of an item.
//
//   live_stream_open(&ls, ...)
//   pipeline_join(p, &s, ..., live_stream_policy(ls), ...)
//   live_stream_start(ls, s)
//   live_stream_push ... live_stream_push(ls, NULL)    one thread
//   pipeline_pull_timed, live_stream_due, live_stream_written    one thread
//   live_stream_stop, tachy_stream_leave, live_stream_close
struct live_stream;

// TACHY_ERR_INVAL: a parameter is out of range, or frame_skip is asked for and the task cannot
// take over results.
int live_stream_open(struct live_stream **out, tachy_task *t,
                     const struct tachy_live_params *p, const struct tachy_log *log);
// NULL if the pipeline needs none: every frame is processed, none is skipped.
const struct pipeline_policy *live_stream_policy(const struct live_stream *ls);
// Before the first push. The stream must outlive every call but close.
void live_stream_start(struct live_stream *ls, tachy_stream *s);
// Before the stream leaves: takes back what it asked of others. `ls` may be NULL or not started.
void live_stream_stop(struct live_stream *ls);
void live_stream_close(struct live_stream **ls);

// As tachy_stream_push(); in mode live it never blocks.
int live_stream_push(struct live_stream *ls, tachy_frame *f);
// True if a pulled item shall be written; false: it was shed.
bool live_stream_due(struct live_stream *ls, const struct pipeline_times *t);
// It has been; in ticks.
void live_stream_written(struct live_stream *ls, const struct pipeline_times *t, uint64_t started,
                         uint64_t end);
// For frames that come from now on; 0: none. TACHY_ERR_UNSUPPORTED: the mode is not live. Any
// thread.
int live_stream_set_latency(struct live_stream *ls, double max_latency_ms);
// For a resumable run with frame_skip that is not in mode live; call it before the first push. `look` is called on the
// pushing thread after each frame that was looked at.
void live_stream_watch(struct live_stream *ls,
                       void (*look)(void *user, const struct tachy_frame_skip *s, int64_t frame_id), void *user);
// Its frame_skip state, to be loaded before the first push.
struct tachy_frame_skip *live_stream_skip(struct live_stream *ls);
// At any time from any thread.
void live_stream_read(struct live_stream *ls, struct tachy_live_stats *out);
