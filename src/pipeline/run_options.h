#pragma once
#include <tachy/run.h>
#include <tachy/settings.h>

extern const struct tachy_option tachy_run_options[], tachy_save_options[]; // end with {0}

// Sets what the former say; leaves the other members.
void tachy_run_read_settings(struct tachy_run_params *p, const tachy_settings *s);
