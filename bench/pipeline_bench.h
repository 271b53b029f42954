#pragma once
#include <jansson.h>
#include <stdint.h>
#include <tachy/run.h>

// The rows of build/bench/pipeline. A new row is a file pipeline_<row>.c with one function here and
// one line in pipeline.c.

// Each prints its table and returns what goes into the JSON file under its name; NULL: it failed,
// and has said why. `quick`: a tenth of the work, to see that it runs. Every object has "holds", a
// boolean: whether the figure that must hold does.
json_t *bench_deadline(bool quick);
json_t *bench_overhead(bool quick);
json_t *bench_overlap(bool quick);
json_t *bench_soak(bool quick);

// A task that does nothing; a row sets the steps that take time. One worker per thread.
struct bench_task {
    int64_t model_sleep_us;
};
tachy_task *bench_task_new(struct bench_task conf);
void bench_task_free(tachy_task *t);

// Prints the library's errors.
extern const struct tachy_log bench_log;

// Sorts and returns the middle.
double bench_median(double *v, int n);
