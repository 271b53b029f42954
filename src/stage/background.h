#pragma once
#include "stage/composite.h"

#include <tachy/source.h>

// The background picture: shared by both forms of the stage. An item's bytes hold the picture's reference.

struct background {
    char *file;
    int threads; // of its decoder; 0: as the source chooses
    // True if a picture stays as decoded, since the stage itself scales it; NULL: none does.
    bool (*leaves)(const tachy_task *t, const tachy_frame *f);
};

// The pictures of a stream. An image serves every frame; a video is read along with the stream by time and starts
// again at its end.
struct background_reader;
// `of` must outlive it.
int background_reader_open(struct background_reader **out, const struct background *of, const tachy_task *task);
// The background of a frame with this time (seconds from the start, rising), of the stream's
// format and size. The caller gets a reference.
int background_reader_at(struct background_reader *b, double time_s, tachy_frame **out);
void background_reader_close(struct background_reader **b);

// See struct tachy_stage_ops. A state has nothing to save, since a background video follows from the time.
int background_open(struct tachy_stage *st, const tachy_settings *set);
void background_close(struct tachy_stage *st);
int background_save(const void *state, void **data, size_t *size);
int background_load(void *state, const void *data, size_t size);
void background_item_close(void *item);
