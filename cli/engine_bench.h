#pragma once
#include "engine.h"

// `tachy engine bench`: what is measured (engine_bench.c) and how it is shown (engine_bench_text.c).

enum { BENCH_BURST_MS = 30 }; // of one contestant in one round

struct bench_row {
    const char *provider, *precision; // precision NULL: the CPU's
    int batch, threads;
    tachy_engine *engine; // NULL: it does not run
    struct engine_tensors t;
    char version[160], why[1024]; // why it does not run
    double *times;        // ms, a round each; sorted in the end
    double median, least, spread; // of the rounds: ms, and the middle half over the median
    double memory;        // MiB
    double work;          // multiply-adds per run; 0: unknown
    double moved, bandwidth; // bytes of the layers' operands and results, and what a core copies per second there; NAN
    double least_s;       // seconds that one core takes at least, by the layers' work and bytes; NAN
    double error, error_abs; // the largest of an output, L2 over L2 and of one number
    double noise, frames;    // the former on noise, and the largest on frames of --input; on a GPU
};

// One model. Figures that are not known are NAN.
struct bench {
    const struct tachy_engine_params *base;
    char *path;
    int rounds;
    bool reference, cuda;
    const char *model, *input; // as they were given; input NULL: none
    const char *model_dir;     // --model-dir; NULL: the default
    struct bench_row *rows; // in the order in which they take turns
    int nb_rows;
    double peak; // multiply-adds per second of a core; 0: unknown
};

// The values of the command's lists; every combination is measured.
enum { BENCH_LIST = 16 }; // values
struct bench_lists {
    char providers[512], precisions[256];
    const char *provider[BENCH_LIST], *precision[BENCH_LIST]; // precision NULL: the CPU's
    int batch[BENCH_LIST], threads[BENCH_LIST], nb_providers, nb_precisions, nb_batches, nb_threads;
};
int bench_read_lists(const struct cli *c, struct bench_lists *l); // an exit status

int bench_print(const struct cli *c, const struct bench *all, int n);
