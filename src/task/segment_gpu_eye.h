#pragma once
#include "base/memory.h"
#include "cuda/gpu.h"
#include "cuda/loader.h"
#include "task/segment_cards.h"
#include "task/segment_gpu.h"

// What the card has of an eye's mask. `host` of the piece is the eye's own `mask`.
struct segment_gpu_eye {
    struct segment_card *card; // that the piece is of
    struct segment_gpu_piece *piece;
    cuda_address mask;
    cuda_event done; // of the piece: the mask has been copied to the host
    bool pending;    // and that has not been waited for
    bool stale;      // the host's is the true one
};

// Memory for masks of items: pairs of device and pinned memory, many of one size in a block, since as many
// items as a stream's window has may wait and each block costs the driver a tenth of a millisecond.
// Pieces may be taken and put by any thread.
struct segment_gpu_masks;
int segment_gpu_masks_open(struct segment_gpu_masks **out, struct tachy_memory *m, struct tachy_gpu *g);
// Every piece must have been put back.
void segment_gpu_masks_close(struct segment_gpu_masks **m);

// The eye's memory becomes that of another card; nothing where it is there already. `keep`: with what is
// in it, which the host's mask then says; else it is about to be written.
int segment_gpu_eye_move(struct segment_eye *e, struct segment_card *to, bool keep);
