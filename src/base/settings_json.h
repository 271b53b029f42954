#pragma once
#include <jansson.h>
#include <tachy/settings.h>

// The value of an option as a JSON text, the same for each value however it was written ("yes" or "no", "0.5"); of a list
// an array of texts. NULL: it has none, or out of memory.
json_t *tachy_setting_json(const tachy_settings *s, const struct tachy_option *o);
