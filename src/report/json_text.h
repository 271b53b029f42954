#pragma once
#include "base/base.h"

#include <jansson.h>
#include <stdio.h>

// Reports that are JSON objects, as text for a person.

// The value of a key; `other` or 0 if it is missing or empty.
const char *report_text(const json_t *o, const char *key, const char *other);
long long report_int(const json_t *o, const char *key);
// What `print` writes of the object `json`. TACHY_ERR_INVAL: a pointer is NULL; TACHY_ERR_FORMAT: `json` is no object;
// TACHY_ERR_NOMEM; then *text is NULL.
int report_as_text(char **text, const char *json, void (*print)(FILE *f, json_t *o));
