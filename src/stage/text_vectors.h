#pragma once
#include "engine/engine_options.h"

#include <tachy/model.h>

// Vectors of texts, by the text network of a card whose network makes vectors of pictures.

struct tachy_text_network {
    const tachy_model *model;
    const struct tachy_engine_setup *setup; // of the pictures' engine; its provider "null" runs nothing, and vectors are zeros
    const struct tachy_log *log;
};

// Writes the vectors, of unit length and `size` numbers each (that of a picture's), one after the other. They are kept in the
// user's cache for the next call with the same texts and the same network. Runs on the CPU with all cores; blocks.
// TACHY_ERR_NOT_FOUND: the card has no text network, or a file of it is not here, and the message says what gets it;
// TACHY_ERR_MISMATCH: the network is not as the card says.
int tachy_text_vectors(const struct tachy_text_network *net, const char *const texts[], int n, int size, float *to);
