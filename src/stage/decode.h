#pragma once
#include "base/options.h"
#include "model/labels.h"
#include "postprocess/decode.h"
#include "stage/infer.h"

// Regions from a network's output: shared by the stage's two forms.

// The stage's.
struct tachy_decode_stage {
    const struct tachy_infer *infer;
    struct tachy_card_decoder decoder[TACHY_MAX_DECODERS]; // the card's, with what the settings say
    int nb;
    bool boxes;                   // the network finds regions; else it describes the one that it saw
    struct tachy_labels labels;   // of a file; none: the card's
    struct tachy_classes classes; // that are kept; none: all
    int limit;                    // most regions of a view
};

// A worker's: decoders with their scratch, for each of the network's sizes.
struct tachy_decode_worker {
    tachy_decoder *decode[TACHY_INFER_SIZES][TACHY_MAX_DECODERS];
};

struct tachy_decode_item {
    struct tachy_regions view[TACHY_MAX_EYES];
    struct tachy_regions all; // of two views; it points into theirs
};

extern const struct tachy_option tachy_decode_options[];

int tachy_decode_worker_open(struct tachy_stage *st, struct tachy_decode_worker *w); // to be closed also on failure
void tachy_decode_worker_close(struct tachy_decode_worker *w);
// From what the model said of the piece, on the host, to regions of its item.
int tachy_decode_run(struct tachy_stage *st, struct tachy_decode_worker *w, const struct tachy_piece *p,
                     const struct tachy_infer_output *o);

// See struct tachy_stage_ops.
int tachy_decode_open(struct tachy_stage *st, const tachy_settings *s);
void tachy_decode_close(struct tachy_stage *st);
int tachy_decode_start(struct tachy_stage *st, struct tachy_video_info *video);
int tachy_decode_copy(struct tachy_stage *st, struct tachy_item *to, const struct tachy_item *from, int region);
int tachy_decode_copy_save(struct tachy_stage *st, const struct tachy_item *from, void **data, size_t *size);
int tachy_decode_copy_load(struct tachy_stage *st, struct tachy_item *to, const void *data, size_t size);
void tachy_decode_item_close(void *item);
