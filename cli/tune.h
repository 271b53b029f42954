#pragma once
#include "cli.h"

// The parts of `tachy tune`; docs/tune.md has the method.

enum { TUNE_ROWS = 12, TUNE_VALUES = 12, TUNE_TEXT = 64, TUNE_ROUNDS = 4, TUNE_FINAL = 3, TUNE_FIXED = 16, TUNE_EXTRA = 16 };
enum { TUNE_SEEN = 64, TUNE_NEEDS = 6, TUNE_FEW = 12 }; // trials, resources of the model, trials that say too little of their noise
#define TUNE_WORTH 1.02 // a gain below it is no reason to change anything

// Rows whose meaning the pipeline's model knows; of any other row it knows only the cost of each value.
enum tune_part { TUNE_OTHER, TUNE_WORKERS, TUNE_THREADS, TUNE_BATCH, TUNE_DECODERS, TUNE_PARTS };

enum tune_objective { TUNE_THROUGHPUT, TUNE_LATENCY, TUNE_ENERGY };

// The cost of a frame in a trial.
struct tune_cost {
    double decode_ms, work_ms, model_ms, write_ms; // busy time of the source, the workers without the model, the model, the sink
    double cpu_ms;                                 // CPU time of the whole process
    double batch;                                  // frames in a run of the model, mean; 0: not known
    double fps;                                    // of the trial
    double memory_mib, vram_mib;                   // peak of the process and on one GPU, whatever the frame
};

struct tune_row {
    const struct tachy_option *option;
    enum tune_part part;
    bool changes;                      // its values may change results
    int n;                             // values, the first of which is the command's own
    char value[TUNE_VALUES][TUNE_TEXT]; // "" for that one
    double number[TUNE_VALUES];        // that it stands for; 0: none
    struct tune_cost cost[TUNE_VALUES]; // of a frame, with one worker and one decoder
    double given_fps[TUNE_VALUES];     // rate of the command as given with this value; 0: not measured (only if a GPU decodes)
    double gain[TUNE_VALUES];          // of a value alone, then of its best combination, over the first; 0: failed or refused
    char why[TUNE_VALUES][96];         // of 0; "": it was not tried
};

struct tune_trial {
    double fps, p99_ms, memory_mib; // fps 0: it failed
    double vram_mib;                // most that it took on one GPU; negative: not known
    double joules;                  // per frame; 0: no counter can be read
    struct tune_cost cost;
    int workers, decoders, cores;   // that it had
    int decode_engines;             // of the GPUs that decode; 0: unknown, or the CPU decodes
    char why[96];                   // it failed
    char limit[32], verdict[160], remedy[240]; // of the run
    double gain;                    // that its verdict expects; 0: not known
    double wall_s;                  // the process took so long
    double need[TUNE_NEEDS];        // of a prediction: what each resource adds to a frame's time, raised to a power
};

// The result of one trial.
struct tune_seen {
    int at[TUNE_ROWS];
    double score, seconds; // 0: it failed; how long it ran
    double beside_s;       // time of the process outside the trial
    bool fits;             // within the limits
};

// A setting: a value of each row.
struct tune_setting {
    int at[TUNE_ROWS];
    double predicted;           // gain
    double gain[TUNE_ROUNDS];   // score over that of the command in the same round
    struct tune_trial last;
    int rounds;
    double quality;             // as the task's guard measures it; 1: nothing that changes results; < 0: not judged
    char why[96];               // it is out: why; "": it is not
};

// The constants of the model that the trials fit to the machine; docs/tune.md has the formulas.
struct tune_constants {
    double sharp;  // exponent that joins the resources' needs
    double crowd;  // CPU time that each core's worth of threads over the cores adds, as a share
    double cores;  // CPU time of a frame beside that with one worker
    double gpu_ms; // GPU time per frame without decoding, if a GPU decodes
    double model_turn; // share of the model that goes one after the other
    double place;  // most that a place in a batch takes beside a frame alone
    double late;   // ms that a thread waits for a core if there are too few
};
enum { TUNE_CONSTANTS = sizeof(struct tune_constants) / sizeof(double) };

struct tune {
    struct cli *c;
    struct tune_row row[TUNE_ROWS];
    int n_rows;
    enum tune_objective objective;
    double min_fps, max_latency_ms, max_memory_mib, max_vram_mib; // 0: no limit
    char folder[64];   // of the trials
    char output[160];  // what a trial writes
    FILE *log;         // standard error of the trial
    const char **argv; // of the trial: room for the command and what a trial adds
    char extra[TUNE_EXTRA][40]; // words that each trial adds
    int n_extra;
    double seconds;    // of a trial after its first frame
    double patience_ms; // that a batch waits for more frames
    const struct tune_guard *guard; // of the task; NULL: its results cannot be judged
    struct tune_trial given, base; // the command as given, and the one that costs are measured beside
    bool reference;    // the results of the command are there
    int trials;
    double spent_s;    // in the trials that the search saw
    struct tune_seen seen[TUNE_SEEN];
    int n_seen;
    struct tune_constants k;
    const struct tune_constants *guess; // of them before any trial; NULL: tune_guess
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
// Runs the command with these values for `seconds` after its first frame. That it fails is a figure like others; negative: an
// error of ours.
int tune_run(struct tune *t, const int *at, double seconds, struct tune_trial *out);
// Writes the results with these values to `path`, which needs `words` (up to two). *status: of the process.
int tune_write(struct tune *t, const int *at, const char *const words[2], const char *path, int *status);
// The last line that the trial wrote to standard error.
void tune_last_line(const struct tune *t, char *buf, size_t size);

// tune_guard.c
struct tune_guard;
const struct tune_guard *tune_guard_of(const char *task); // NULL: there is none
const char *tune_measure(const struct tune_guard *g);     // "mean IoU"
// How much the results with these values are like those of the command as given, 0..1; 0 if it failed.
int tune_judge(struct tune *t, const int *at, double *quality);

// tune_model.c
// The constants before any trial, and how far off they may be: standard deviations of their logs.
extern const struct tune_constants tune_guess, tune_doubt;
enum tune_part tune_part_of(const char *path);
// Predicts the result of a setting's trial: fps, p99_ms, memory_mib, vram_mib, joules. Needs t->given, t->base and row[].cost.
void tune_predict(const struct tune *t, const int *at, struct tune_trial *out);

// The number that a value stands for: the command's own for the first one, 0 if there is none.
double tune_number(const struct tune *t, const struct tune_row *r, int v);
// Index of the part's row; -1: there is none.
int tune_row_of(const struct tune *t, enum tune_part part);
// As the costs show: decoding takes longer than all CPU time of a frame.
bool tune_gpu_decodes(const struct tune *t);

// tune_fit.c: what trials say about the model's error, as the log of a score's ratio to that of the model.
struct tune_fit {
    int n, n_rows;
    struct tune_point {
        int at[TUNE_ROWS];
        double limit[TUNE_NEEDS]; // each resource's part in limiting it
    } point[TUNE_SEEN];
    double off[TUNE_SEEN], spread[TUNE_SEEN];       // of each trial; variance of its noise, 1 of a trial of full length
    double scale, noise;                            // of the error and of a trial, as standard deviations
    double near[TUNE_ROWS][TUNE_VALUES][TUNE_VALUES]; // 1: the same
    double l[TUNE_SEEN][TUNE_SEEN], weight[TUNE_SEEN];
};
typedef double (*tune_scorer)(const struct tune *t, const struct tune_trial *r); // what is compared
// Chooses the constants by the trials so far, of `n` workloads together.
void tune_choose(struct tune *const *of, int n, tune_scorer score);
// Chooses the constants and takes what is left over.
void tune_fit(struct tune_fit *f, struct tune *t, tune_scorer score);
// The expected error at a setting, of which the model said `model`, and its standard deviation.
double tune_off(const struct tune_fit *f, const int *at, const struct tune_trial *model, double *sd);

// tune_search.c
// A setting's score by the model and the trials so far, as a log; -INFINITY: it does not fit into memory.
double tune_expected(const struct tune *t, const struct tune_fit *f, const int *at, double *sd);
double tune_score(const struct tune *t, const struct tune_trial *r); // larger is better; 0: it failed
// Runs the command as given, which must succeed.
int tune_run_given(struct tune *t);
// Fills row[].gain, final[] and best. TACHY_OK also when stopped early.
int tune_search(struct tune *t);

// tune_bottleneck.c: --detect-bottlenecks, printed or written as asked.
int tune_bottlenecks(struct tune *t);

// tune_store.c: results by (hardware, model, input class). *out: NULL where there is none.
json_t *tune_class(struct tune *t); // NULL: an error, whose sentence is left
json_t *tune_load(const json_t *class);
int tune_save(const json_t *result);
int tune_all(json_t **out); // the array of all
