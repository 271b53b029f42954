#pragma once
#include "engine/engine_options.h"
#include "postprocess/decode.h"

#include <tachy/engine.h>
#include <tachy/model.h>
#include <tachy/settings.h>

// A network of its own that a stage runs on parts of a frame, one after the other: a detector, what looks at each thing
// that it found. The card says what goes in and what is decoded from the outputs.

struct tachy_net_params {
    const char *name;  // a card of the zoo, or a file
    const char *card;  // NULL: the name's own
    const char *task;  // that the card must be for
    const struct tachy_log *log; // must outlive the network
};

// The stage's. Constant while workers run but for `first`, which one thread at a time takes.
struct tachy_net {
    tachy_model *model;
    const struct tachy_card *card;
    struct tachy_engine_setup setup;
    struct tachy_engine_params engine; // of every engine; the texts are the setup's and the model's
    struct tachy_io input;
    tachy_engine *first; // opened with the stage; the first worker takes it
};
// Opens model and engine with the settings of section "model" (provider, library, threads, ...). As tachy_model_open()
// and tachy_engine_open(); TACHY_ERR_MISMATCH: the card is for another task or its model is another one. To be closed
// also on failure.
int tachy_net_open(struct tachy_net *n, const struct tachy_net_params *p, const tachy_settings *s);
void tachy_net_close(struct tachy_net *n);

// A worker's.
struct tachy_net_worker {
    const struct tachy_net *net;
    tachy_engine *engine;
    tachy_preprocess *preprocess;
    struct tachy_tensor in, out[TACHY_MAX_IO];
    int nb_out;
    tachy_decoder *decode[TACHY_MAX_DECODERS];
};
int tachy_net_worker_open(struct tachy_net_worker *w, struct tachy_net *n); // to be closed also on failure
void tachy_net_worker_close(struct tachy_net_worker *w);

// Runs the network on the part of a host frame that `view` is. Boxes are added to `list`, what else the card's decoders
// find is set in `about`, whose memory is the list's; `about` may be NULL of a network of boxes.
int tachy_net_run(struct tachy_net_worker *w, const tachy_frame *f, const struct tachy_view *view,
                  struct tachy_region *about, struct tachy_regions *list);
