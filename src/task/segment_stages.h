#pragma once
#include "task/segment.h"

// The stages of segment, ends with NULL.
extern const struct tachy_stage_ops *const tachy_task_segment[];
