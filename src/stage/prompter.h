#pragma once
#include "stage/net.h"

// The second network of a card with `prompts`: masks of points and boxes in a picture that the first, the encoder, has seen. It
// reads the encoder's outputs where they are.

struct prompter_params {
    const struct tachy_infer *net;         // whose card it is
    const struct tachy_net_worker *encoder; // whose outputs it reads; must outlive the prompter
    int batch;                             // prompts of a run
    int points;                            // of a prompt, at most
};

struct prompter {
    tachy_engine *engine;
    struct tachy_tensor in[TACHY_MAX_IO], out[TACHY_MAX_IO];
    bool lent[TACHY_MAX_IO]; // inputs that are the encoder's
    int nb_in, nb_out;
    int batch, points;   // as asked for
    int ways;            // masks of a prompt
    int width, height;   // of a mask
    float *at;           // [batch][points][2], pixels of the encoder's picture
    float *label;        // [batch][points], see tachy_card_prompts.labels
    const float *mask;   // [batch][ways][height][width]
    const float *score;  // [batch][ways]
};

// To be closed also on failure. TACHY_ERR_MISMATCH: the network is not what the card says, or takes no `batch` prompts.
int prompter_open(struct prompter *p, const struct prompter_params *params);
void prompter_close(struct prompter *p);
int prompter_run(struct prompter *p);
