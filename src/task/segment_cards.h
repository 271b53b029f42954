#pragma once
#include "base/memory.h"
#include "cuda/gpu.h"
#include "task/segment_gpu.h"

#include <pthread.h>

// The GPUs that a task is spread over. A frame is worked on where it lies; one of the host's goes to the
// card with its stream's state of a recurrent model, else to that with the fewest workers at a frame. A worker has
// a part of its own on each card: on the first from the start, on another once a frame of it comes.

struct segment_card {
    struct tachy_gpu *gpu;   // reference
    enum tachy_place place;  // of its memory
    struct segment_gpu_masks *masks;
    // Where the provider runs a model there (segment_gpu_model.c): held while a run is queued, and for `first`.
    pthread_mutex_t running;
    tachy_engine *first;     // opened with the task; the first worker that comes takes it. NULL on the first card
    size_t model_bytes;      // that the engines were seen to take
    struct tachy_memory *memory; // reference; NULL: they are not counted
    struct tachy_block model;    // reservation of them
    atomic_int busy;         // workers that are at a frame there, from its preprocess to its mask
    atomic_int states;       // streams whose states are there
};

// The cards that the settings ask for, each with its kernels tried. Negative, said: the card is named.
int segment_cards_open(tachy_task *t, struct segment *s);
// Their memory becomes places of the task's memory manager, once for each manager.
int segment_cards_start(tachy_task *t, struct segment *s);
void segment_cards_close(struct segment *s);

// The worker's part on the first card, in w->gpu too.
int segment_cards_open_worker(struct segment_worker *w);
void segment_cards_close_worker(struct segment_worker *w);

// In front of the item's preprocess and, where another worker may have done that, of its postprocess:
// w->gpu is its card's part from here on.
int segment_cards_begin(struct segment_worker *w, struct tachy_item *item);
// One eye more was preprocessed there.
void segment_cards_count(struct segment_worker *w);
// Behind the mask of one eye.
void segment_cards_end(struct segment_worker *w);
// The card that an item will be composited on: that of its frame or, where that is gone or the host's, of its
// masks. TACHY_ERR_UNSUPPORTED, said: none of the task's.
int segment_cards_of(const struct segment *s, const tachy_task *t, const struct tachy_item *item,
                     struct segment_card **out);
// For composite, which other items' steps may surround: the worker's part on that card. w->gpu stays.
int segment_cards_composite(struct segment_worker *w, struct tachy_item *item, struct segment_gpu_worker **out);

// For the light ratio: the card that tachy_task.pinned names, else the first.
struct segment_card *segment_card_pinned(const struct segment *s);
