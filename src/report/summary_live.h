#pragma once
#include <jansson.h>
#include <tachy/run.h>

// Adds the members of docs/live.md to a summary's object.
void tachy_summary_live_json(json_t *o, const struct tachy_summary *s);
// Lines for a person, each with its end; "" where every frame was worked on. NULL: out of memory.
// Free with tachy_free().
char *tachy_summary_live_text(const struct tachy_summary *s);
