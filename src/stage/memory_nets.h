#pragma once
#include "stage/memory_bank.h"
#include "stage/net.h"

// The networks of a card with `memory`, besides the encoder of pictures: attention to what is remembered, the decoder of masks, and
// the encoder of memories. Names and shapes of what they read and give are those of published exports (docs/masks.md#the-card).
// Each run is of several things at once, as many as all three networks take and memory allows.

// What the encoder of pictures gives of one, each by its name.
enum memory_feature { FEATURE_PIXELS, FEATURE_FINE, FEATURE_FINER, FEATURE_PICTURE, FEATURE_PLACES, FEATURES };
extern const char *const memory_features[FEATURES];

struct memory_net {
    tachy_engine *engine;
    char *file;
    struct tachy_tensor in[TACHY_MAX_IO], out[TACHY_MAX_IO]; // in the model's order
    int in_at[8], out_at[8];                                 // where the tensors of a role are, by its own order
};

struct memory_nets {
    struct memory_net attention, decoder, encoder;
    struct memory_sizes size;
    struct tachy_tensor feature[FEATURES]; // shapes
    int together;        // things of a run, at most
    int points;          // of a prompt
    int width, height;   // of a mask
    float *at, *label;   // [together][points][2], [together][points]: prompts, as struct prompter
    float *mask;         // [together][height][width]: logits
    float *score;        // [together]: how good each mask is, 0..1
    float *presence;     // [together]: above 0: the thing is seen
    // Between the networks.
    float *seen;         // [together][channels of the picture][cells]
    float *pointer, *memory, *new_memory, *memory_at, *pointers, *for_memory, *new_place, *new_age;
};

// `net`: whose card it is, with the encoder's outputs. `together`: of a run at most. To be closed also on failure.
// TACHY_ERR_NOT_FOUND: the card has no `memory`, or a file is missing; TACHY_ERR_MISMATCH: a network is another one.
int memory_nets_open(struct memory_nets *m, const struct tachy_infer *net, int points, int together);
void memory_nets_close(struct memory_nets *m);

// Masks of the prompts at m->at, `n` of them, in a picture with these features (of memory_features' order): m->mask, m->score,
// m->presence.
int memory_nets_ask(struct memory_nets *m, float *const feature[FEATURES], int n);
// Masks of what the bank remembers of the `n` things from `first` on.
int memory_nets_follow(struct memory_nets *m, float *const feature[FEATURES], const struct memory_bank *b, int first, int n);
// After either: what is remembered of them is written into the bank, which has begun with m->size.
int memory_nets_remember(struct memory_nets *m, float *const feature[FEATURES], struct memory_bank *b, int first, int n);
