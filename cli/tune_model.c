#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Predicts a setting's result from the costs of its values, without a trial. The formulas are in docs/tune.md, "Prediction".

const struct tune_constants tune_guess = {.sharp = 8, .crowd = 0.04, .cores = 1, .decode_turn = 0.02, .model_turn = 0.02},
                            tune_doubt = {.sharp = 0.4, .crowd = 1, .cores = 0.15, .decode_turn = 3, .model_turn = 3};

enum tune_part tune_part_of(const char *path)
{
    static const char *const paths[TUNE_PARTS] = {[TUNE_WORKERS] = "model.num_workers", [TUNE_THREADS] = "model.threads",
                                                  [TUNE_BATCH] = "model.batch_size", [TUNE_DECODERS] = "pipeline.stages.decode.decoders"};
    for (int i = 0; i < TUNE_PARTS; i++)
        if (paths[i] && !strcmp(path, paths[i]))
            return (enum tune_part)i;
    return TUNE_OTHER;
}

double tune_number(const struct tune *t, const struct tune_row *r, int v)
{
    double own[TUNE_PARTS] = {[TUNE_WORKERS] = t->given.workers, [TUNE_DECODERS] = t->given.decoders, [TUNE_THREADS] = 1, [TUNE_BATCH] = 1};
    return r->number[v] > 0 ? r->number[v] : own[r->part];
}

// The numbers that shape the pipeline; where no row has them, `given`.
static int number_of_part(const struct tune *t, const int *at, enum tune_part part, int given)
{
    for (int i = 0; i < t->n_rows; i++)
        if (t->row[i].part == part)
            given = (int)tune_number(t, &t->row[i], at[i]);
    return given > 0 ? given : 1;
}

// A part of the cost with a value beside that part without: a factor; where there was none of it, the difference.
static void apply(double *cost, double with, double without)
{
    if (without > 1e-4)
        *cost *= with / without;
    else
        *cost += with - without;
}

// Costs of values are taken as independent: each changes a part of a frame's cost by its own factor.
static struct tune_cost cost_of(const struct tune *t, const int *at)
{
    struct tune_cost c = t->base.cost;
    for (int i = 0; i < t->n_rows; i++) {
        const struct tune_row *r = &t->row[i];
        const struct tune_cost *v = &r->cost[at[i]], *b = &t->base.cost;
        if (!at[i] || r->part == TUNE_WORKERS || r->part == TUNE_DECODERS)
            continue;
        apply(&c.decode_ms, v->decode_ms, b->decode_ms);
        apply(&c.work_ms, v->work_ms, b->work_ms);
        apply(&c.model_ms, v->model_ms, b->model_ms);
        apply(&c.write_ms, v->write_ms, b->write_ms);
        apply(&c.cpu_ms, v->cpu_ms, b->cpu_ms);
        c.memory_mib += v->memory_mib - b->memory_mib;
        c.vram_mib += v->vram_mib - b->vram_mib;
    }
    return c;
}

// Each worker takes as much memory as the command's own do: `given` and `base` are the peaks of those trials, `one` that of one worker.
static double memory_of(const struct tune *t, double one, double given, double base, int workers)
{
    int more = t->given.workers - t->base.workers;
    double each = more > 0 ? fmax(0, given - base) / more : 0;
    return one + each * (workers - t->base.workers);
}

// The machine takes some power whatever it does, and some for each core that works; the command as given and the one that costs are
// measured beside tell how much.
static double joules_of(const struct tune *t, double frame_ms, double cpu_ms)
{
    const struct tune_trial *g = &t->given, *b = &t->base;
    if (!(g->joules > 0) || !(b->joules > 0))
        return 0;
    double at[2] = {1000 / g->fps, 1000 / b->fps}, cpu[2] = {g->cost.cpu_ms, b->cost.cpu_ms}, det = at[0] * cpu[1] - at[1] * cpu[0];
    double idle = (g->joules * cpu[1] - b->joules * cpu[0]) / det, work = (at[0] * b->joules - at[1] * g->joules) / det; // J per ms
    if (!isfinite(idle + work) || idle < 0 || work < 0) // they differ too little
        return g->joules * frame_ms / at[0];
    return idle * frame_ms + work * cpu_ms;
}

void tune_predict(const struct tune *t, const int *at, struct tune_trial *out)
{
    const struct tune_constants *k = &t->k;
    struct tune_cost c = cost_of(t, at);
    int workers = number_of_part(t, at, TUNE_WORKERS, t->given.workers), threads = number_of_part(t, at, TUNE_THREADS, 1),
        batch = number_of_part(t, at, TUNE_BATCH, 1), decoders = number_of_part(t, at, TUNE_DECODERS, t->given.decoders);
    double cores = t->given.cores > 0 ? t->given.cores : 1;
    double crowd = 1 + k->crowd * fmax(0, workers * threads / cores - 1);
    // Milliseconds per frame that each resource needs; in batches the model has threads of its own.
    double need[TUNE_NEEDS] = {c.decode_ms / decoders, (batch > 1 ? fmax(c.work_ms, c.model_ms) : c.work_ms + c.model_ms) / workers, c.write_ms,
                     c.cpu_ms * k->cores * crowd / cores, c.decode_ms * k->decode_turn, c.model_ms * k->model_turn};
    double sum = 0;
    for (int i = 0; i < TUNE_NEEDS; i++)
        sum += need[i] = pow(need[i], k->sharp);
    double frame = pow(sum, 1 / k->sharp), through = c.decode_ms + c.work_ms + batch * c.model_ms + c.write_ms;
    *out = (struct tune_trial){.fps = frame > 0 ? 1000 / frame : 0, .p99_ms = fmax(through, frame * (3 * workers + 4)),
                               .memory_mib = memory_of(t, c.memory_mib, t->given.memory_mib, t->base.memory_mib, workers),
                               .vram_mib = memory_of(t, c.vram_mib, t->given.vram_mib, t->base.vram_mib, workers), .workers = workers, .decoders = decoders, .cost = c,
                               .joules = joules_of(t, frame, c.cpu_ms * crowd)};
    memcpy(out->need, need, sizeof(need));
}
