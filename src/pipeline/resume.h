#pragma once
#include "pipeline/live_stream.h"

// A run that can be resumed: its output is written in parts that are cut at fixed frame numbers
// (sink/parts.c), and at each cut job.json says how far it is, with what must still be so when the
// run goes on: input, settings, model, program. Every run of a job therefore makes the same parts,
// wherever an earlier one ended.
struct tachy_resume;

// *out is NULL where p->sink is not to be resumed; every other function takes NULL then. Compares
// with what was begun: TACHY_ERR_EXISTS with a sentence that says what has changed.
// TACHY_ERR_UNSUPPORTED: the input cannot be read again.
int tachy_resume_open(struct tachy_resume **out, const struct tachy_run_params *p);

// Replaces tachy_sink_start(): starts the sink and moves source and task to the point where the run continues. Call it
// before the stream's first frame. `live` has been started and must outlive all calls on `r` except close.
int tachy_resume_start(struct tachy_resume *r, tachy_stream *stream, struct live_stream *live);
bool tachy_resume_all_in(const struct tachy_resume *r); // no frame is missing, only the joining

// The source's thread: a frame that was read.
int tachy_resume_read(struct tachy_resume *r, const tachy_frame *f);
// Called on the calling thread before each tachy_sink_write(), with the frame's id: cuts if it is time.
int tachy_resume_cut(struct tachy_resume *r, int64_t frame_id);
// Instead of tachy_sink_finish(). `whole`: the source has ended.
int tachy_resume_finish(struct tachy_resume *r, bool whole);

// Frames in parts that are whole; -1: `r` is NULL.
int64_t tachy_resume_kept(const struct tachy_resume *r);

void tachy_resume_close(struct tachy_resume **r);
