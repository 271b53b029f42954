#pragma once
#include <tachy/settings.h>

// Rows of `tachy curate`; of the second table each task has its own, below its name ("pose.when").
extern const struct tachy_option tachy_curate_options[], tachy_curate_task_options[];
