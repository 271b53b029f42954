#pragma once
#include "base/output_options.h"

#include <tachy/settings.h>
#include <tachy/sink.h>

extern const struct tachy_option tachy_sink_options[]; // ends with {0}

// Sets what these options and gpu.device say; leaves the other members. Texts are the settings'.
void tachy_sink_read_settings(struct tachy_sink_params *p, const tachy_settings *s);

// The memory of one output's own options.
struct tachy_sink_own {
    char value[9][TACHY_OUTPUT_VALUE];
};
// Replaces fields of `p` by the output's own options (output_options.h); `own` must outlive the use of `p`. `text` may
// be NULL.
void tachy_sink_read_own(struct tachy_sink_params *p, const char *text, struct tachy_sink_own *own);
