#pragma once
#include <stdint.h>
#include <tachy/settings.h>

// The batch size of --batch auto, found by trial.

// One trial: ms per picture in runs of `batch` pictures. TACHY_ERR_NOMEM: it does not fit; TACHY_ERR_MISMATCH: the
// network does not take that many; other errors end the search.
typedef int tachy_batch_trial(void *user, int batch, double *ms);

// Tries 1, 2, 4, ... up to `most` until one does not fit or is much slower than the best, then halves the interval between the
// largest that fits and the smallest that does not. *best: the smallest of those tried that takes at most 3 % more time per picture
// than the quickest. An error of the first trial is returned.
int tachy_batch_find(int most, tachy_batch_trial *trial, void *user, int *best);

// Searches with the task's network on this machine, within processing.max_memory (if unset, half of the free memory).
// *best is 1 for tasks without a network that takes batches. Opens and closes the task. Logs the result at INFO.
int tachy_batch_of_task(const char *task, const tachy_settings *s, int *best, const struct tachy_log *log);

// True if the settings ask for it.
bool tachy_batch_is_auto(const tachy_settings *s);
