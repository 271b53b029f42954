#pragma once
#include <tachy/settings.h>
#include <tachy/source.h>

extern const struct tachy_option tachy_source_options[]; // ends with {0}

// Sets what these options and gpu.device say; leaves the other members.
void tachy_source_read_settings(struct tachy_source_params *p, const tachy_settings *s);
