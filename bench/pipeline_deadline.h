#pragma once
#include <jansson.h>

// See pipeline_deadline.c; runs for about 2 * `seconds`. A new reference.
json_t *bench_pipeline_deadline(int seconds);
