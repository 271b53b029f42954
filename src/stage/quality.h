#pragma once
#include "measure/quality.h"
#include "stage/stage_ops.h"

// Values of all frames that the stage quality keeps for its report.

struct quality_report;

// NULL: out of memory. Close with quality_report_close(); NULL is allowed there.
struct quality_report *quality_report_open(const char *file);
void quality_report_close(struct quality_report *r);
// Adds the frame `id` of `input` (NULL: unnamed). Thread-safe. TACHY_ERR_NOMEM.
int quality_report_add(struct quality_report *r, const char *input, int64_t id, const double value[TACHY_Q_COUNT],
                       uint64_t digest, uint64_t hash);
// Writes the file: counts, spreads, duplicates and odd sizes (docs/quality.md).
int quality_report_write(struct quality_report *r, const struct tachy_log *log);
