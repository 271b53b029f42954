#pragma once
#include "postprocess/decode.h"
#include "stage/infer_priv.h"

// A network that a stage runs itself on parts of a frame: the number of runs, or their positions, depends on the
// previous run, so they cannot be separate stages. infer provides the network, its engines and tensors; the card
// defines its input and the decoding of its outputs.

struct tachy_net_params {
    const char *name; // a card of the zoo, or a file
    const char *card; // NULL: the name's own
    const char *task; // that the card must be for
    bool optional;    // that the model cannot be opened is not logged; the network then has no card
};

// Opens model and engine with the settings of section "model" (provider, library, threads, ...), in the zeroed `n` of the
// stage. As tachy_model_open() and tachy_engine_open(); TACHY_ERR_MISMATCH: the card is for another task or its model is
// another one. To be closed with infer_free(), also on failure.
int tachy_net_open(struct tachy_infer *n, struct tachy_stage *st, const struct tachy_net_params *p, const tachy_settings *s);
// As above without the engine, for infer_cuda_open_first().
int tachy_net_open_model(struct tachy_infer *n, struct tachy_stage *st, const struct tachy_net_params *p,
                         const tachy_settings *s);
// The card's preprocess.
struct tachy_preprocess_params tachy_net_params_of(const struct tachy_infer *n);

// A worker's.
struct tachy_net_worker {
    struct infer_engine run;
    tachy_decoder *decode[TACHY_MAX_DECODERS];
};
int tachy_net_worker_open(struct tachy_net_worker *w, struct tachy_infer *n); // to be closed also on failure
void tachy_net_worker_close(struct tachy_net_worker *w);

// Runs the network on the part of a host frame that `view` is. Boxes are added to `list`, what else the card's decoders
// find is set in `about`, whose memory is the list's; `about` may be NULL of a network of boxes.
int tachy_net_run(struct tachy_net_worker *w, const tachy_frame *f, const struct tachy_view *view,
                  struct tachy_region *about, struct tachy_regions *list);
// The last part of tachy_net_run(): decodes the network's output for the view, on the host. Of the frame only the size
// is read.
int tachy_net_decode(struct tachy_net_worker *w, const struct tachy_tensor out[], const tachy_frame *f,
                     const struct tachy_view *view, struct tachy_region *about, struct tachy_regions *list);
