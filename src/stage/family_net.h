#pragma once
#include "engine/engine_options.h"
#include "model/family.h"

#include <tachy/engine.h>

// A network of several that work as one (model/family.h), with memory for all that it takes and gives.
struct family_net {
    tachy_engine *engine;
    struct tachy_tensor in[TACHY_MAX_IO], out[TACHY_MAX_IO];
    const struct tachy_io *ins, *outs;
    int nb_in, nb_out;
    int lent; // input whose memory is another's; -1: none
    const char *file, *role; // for messages
    const struct tachy_log *log;
};

// What the network leaves free of its shapes is 1. The family must outlive the network, which is to be closed also on failure.
// TACHY_ERR_MISMATCH: it takes or gives other numbers than float32. With setup->gpu_stream its tensors are to lie on that GPU, and
// their memory is the caller's; TACHY_ERR_UNSUPPORTED: it does not run there.
int family_net_open(struct family_net *n, const struct tachy_family *f, enum tachy_role role, const struct tachy_engine_setup *setup,
                    const struct tachy_log *log);
void family_net_close(struct family_net *n);
// Opens an engine of the network `n`, which is open with that setup, for so many pictures per run: its tensors are those of `n` with
// another first extent. TACHY_ERR_MISMATCH: it takes one picture per run.
int family_net_open_batch(const struct family_net *n, int pictures, const struct tachy_engine_setup *setup, tachy_engine **out);

// The number of an input or output by name, the only one if `name` is NULL. Negative, logged: it is not there, or has another number
// of elements than `elements`; 0: it may have any.
int family_net_in(const struct family_net *n, const char *name, int64_t elements);
int family_net_out(const struct family_net *n, const char *name, int64_t elements);
// The side of a square picture 1 x 3 x side x side; negative, logged.
int family_net_side(const struct family_net *n, const struct tachy_tensor *t);
