#pragma once
#include <tachy/engine.h>
#include <tachy/settings.h>

// Options for a task's model and its engine. Ends with {0}.
extern const struct tachy_option tachy_model_options[];

// The settings that all engines of a model share. The strings are copies.
struct tachy_engine_setup {
    char *provider, *library; // NULL: not set
    char **provider_options;  // ends with NULL
    const char *precision; // as tachy_engine_params; static
    const char *device; // the same, with `gpu`: where engines without a stream run; not read from the settings
    int gpu;
    void *gpu_stream;   // as tachy_engine_params; not read from the settings
    int threads, build_effort;
    bool strict, deterministic;
};
// `e` is zeroed at entry and is to be freed also on failure. TACHY_ERR_NOMEM.
int tachy_engine_setup_read(struct tachy_engine_setup *e, const tachy_settings *s);
void tachy_engine_setup_free(struct tachy_engine_setup *e);
// Converts to parameters, without a model yet. Their strings belong to `e`.
struct tachy_engine_params tachy_engine_setup_params(const struct tachy_engine_setup *e);
