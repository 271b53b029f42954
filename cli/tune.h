#pragma once
#include "cli.h"

// The parts of `tachy tune`; docs/tune.md has the method.

enum { TUNE_ROWS = 12, TUNE_VALUES = 12, TUNE_TEXT = 64, TUNE_ROUNDS = 5, TUNE_FINAL = 6, TUNE_FIXED = 16 };

struct tune_row {
    const struct tachy_option *option;
    bool changes;                      // its values may change results
    int n;                             // values, the first of which is the command's own
    char value[TUNE_VALUES][TUNE_TEXT]; // "" for that one
    double gain[TUNE_VALUES];          // score over that of the first; 0: failed or refused
    char why[TUNE_VALUES][96];         // of 0; "": it was not tried
};

struct tune_trial {
    double fps, p99_ms, memory_mib; // fps 0: it failed
    char why[96];                   // it failed
};

// A setting: a value of each row.
struct tune_setting {
    int at[TUNE_ROWS];
    double predicted;           // gain
    double gain[TUNE_ROUNDS];   // score over that of the command in the same round
    struct tune_trial last;
    int rounds;
    double quality;             // mean IoU; 1: nothing that changes results; < 0: not judged
    char why[96];               // it is out: why; "": it is not
};

struct tune {
    struct cli *c;
    struct tune_row row[TUNE_ROWS];
    int n_rows;
    char folder[64];   // of the trials
    char output[160];  // what a trial writes
    FILE *log;         // standard error of the trial
    const char **argv; // of the trial: room for the command and what a trial adds
    int64_t frames;    // of a trial; 0: the whole clip
    bool masks;        // the task has them, so that results can be judged
    bool reference;    // the masks of the command are there
    int trials;
    struct tune_setting final[TUNE_FINAL + 1]; // the first is the command as given
    int n_final, best;
    struct tune_setting judged[64]; // settings whose results were judged already
    int n_judged;
};

// tune_space.c: the rows and their values, from the option table and --only. The sentence of a failure is left for
// message_failed().
int tune_space(struct tune *t);
// "model.num_workers 4, model.batch_size 8"; "as given".
void tune_words(const struct tune *t, const int *at, char *buf, size_t size);

// tune_trial.c
int tune_open(struct tune *t);
void tune_close(struct tune *t);
bool tune_stopped(const struct tune *t);
// Runs the command with these values over `frames` frames (0: all). That it fails is a figure like others; negative: an error
// of ours.
int tune_run(struct tune *t, const int *at, int64_t frames, struct tune_trial *out);
// Mean IoU of the masks with these values and those of the command as given; 0: it failed.
int tune_judge(struct tune *t, const int *at, double *iou);
double tune_score(const struct tune *t, const struct tune_trial *r); // larger is better; 0: it failed
// Why the limits refuse a trial; NULL: they do not.
const char *tune_limit(const struct tune *t, const struct tune_trial *r, char *buf, size_t size);

// tune_search.c: fills row[].gain, final[] and best. TACHY_OK also when stopped early.
int tune_search(struct tune *t);

// tune_store.c: results by (hardware, model, input class). *out: NULL where there is none.
json_t *tune_class(struct tune *t); // NULL: an error, whose sentence is left
json_t *tune_load(const json_t *class);
int tune_save(const json_t *result);
int tune_all(json_t **out); // the array of all
