#pragma once
#include "postprocess/regions.h"

#include <tachy/engine.h>
#include <tachy/model.h>

// From a network's outputs to regions, as its card says (struct tachy_card_decoder, docs/models.md). One
// picture of a batch at a time. A decoder is constant once it is open; its scratch is one thread's.
typedef struct tachy_decoder tachy_decoder;

// Input of a decoder and place for its findings.
struct tachy_decoder_frame {
    const struct tachy_tensor *out; // of the model, in its order; host memory
    int item;                       // picture of the batch, below `batch` of tachy_decoder_open()
    double map[6];                  // tensor pixels to frame pixels (tachy_preprocess_map())
    struct tachy_region *about;     // the region that the network saw, a copy of the list's; boxes do not need it
};

// Checks the card's decoder against the model: names, number types and shapes. TACHY_ERR_MISMATCH, with one sentence
// that names the difference; TACHY_ERR_NOMEM. `card` must outlive the decoder. `batch`: pictures per run.
int tachy_decoder_open(tachy_decoder **out, const struct tachy_card *card, const struct tachy_card_decoder *decoder,
                      const struct tachy_io *io, int nb_io, int batch, const struct tachy_log *log);
void tachy_decoder_close(tachy_decoder **d);

// Boxes: adds the regions to `list`, best first. Others: sets what the decoder finds in frame->about, whose
// memory is the list's. TACHY_ERR_NOMEM: nothing was added.
int tachy_decoder_run(tachy_decoder *d, const struct tachy_decoder_frame *frame, struct tachy_regions *list);

// Greedy suppression: numbers of the boxes (x0, y0, x1, y1) that stay, best first, at most `limit`; returns how
// many. The same boxes as tachy_ref_nms() with `least` below every score. `order`: scratch of n. Scores are no NaN.
int tachy_suppress(int32_t *kept, const float (*box)[4], const float *score, const int32_t *classes, int n, float most,
                   int limit, int32_t *order);
