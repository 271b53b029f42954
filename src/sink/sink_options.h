#pragma once
#include <tachy/settings.h>
#include <tachy/sink.h>

extern const struct tachy_option tachy_sink_options[]; // ends with {0}

// Sets what these options and gpu.device say; leaves the other members. Texts are the settings'.
void tachy_sink_read_settings(struct tachy_sink_params *p, const tachy_settings *s);
