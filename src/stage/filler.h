#pragma once
#include "inpaint/carry.h"
#include "stage/infer_priv.h"

// What fills the points that no frame shows, for a stream: patches (inpaint/fill.h), or a network as LaMa, by its card.

struct filler {
    // Any frame size. TACHY_ERR_NOMEM; of a network as tachy_engine_run().
    int (*fill)(struct filler *f, const struct carry_rest *rest);
    void (*close)(struct filler *f);
};

// The stage's, which outlive its fillers.
struct filler_params {
    struct tachy_infer net; // without a card: patches. The stage frees it
    int batch;              // windows of a run
    bool counted;           // its runs are the task's: no other network is
    int rotation;           // of the frames, set by start()
    bool flip;
};

// Reads the settings and opens the network that they name, into the zeroed `p`. As tachy_net_open_model().
int filler_read(struct filler_params *p, struct tachy_stage *st, const tachy_settings *s);
int filler_open(struct filler **f, const struct filler_params *p);
void filler_close(struct filler **f); // sets *f to NULL, which it may be
