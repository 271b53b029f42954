#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Predicts a setting's result from the costs of its values, without a trial. The formulas are in docs/tune.md, "Prediction".

const struct tune_constants tune_guess = {.sharp = 7, .crowd = 0.01, .cores = 1, .decode_turn = 0.02, .model_turn = 0.02, .place = 1.6},
                            tune_doubt = {.sharp = 0.3, .crowd = 1, .cores = 0.1, .decode_turn = 3, .model_turn = 3, .place = 0.15};

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

static bool of_sink(const struct tune_row *r) { return r->option && !strncmp(r->option->path, "output.", 7); }

// The least that the output's values leave of the steps before it, which only waits for cores make longer.
static struct tune_cost undisturbed(const struct tune *t)
{
    struct tune_cost c = t->base.cost;
    for (int i = 0; i < t->n_rows; i++)
        for (int v = 1; v < t->row[i].n && of_sink(&t->row[i]); v++) {
            const struct tune_cost *o = &t->row[i].cost[v];
            if (!(t->row[i].gain[v] > 0))
                continue;
            c.decode_ms = fmin(c.decode_ms, o->decode_ms);
            c.work_ms = fmin(c.work_ms, o->work_ms);
            c.model_ms = fmin(c.model_ms, o->model_ms);
        }
    return c;
}

static double cores_of(const struct tune *t) { return t->given.cores > 0 ? t->given.cores : 1; }

// The sink's own time in a trial with one worker and one decoder: of a sink that was busy most of the time, what the other resources
// leave of a frame's time. The rest are waits for them.
static double sink_alone(const struct tune *t, const struct tune_cost *c, const struct tune_cost *trial)
{
    static const double LEAST = 0.3, BUSY = 0.5;
    double p = t->k.sharp, frame = trial->fps > 0 ? 1000 / trial->fps : 0;
    if (trial->write_ms < BUSY * frame)
        return trial->write_ms;
    double rest = pow(c->decode_ms, p) + pow(c->work_ms + c->model_ms, p) + pow(trial->cpu_ms * t->k.cores / cores_of(t), p);
    return fmin(trial->write_ms, fmax(LEAST * frame, pow(fmax(pow(frame, p) - rest, 0), 1 / p)));
}

// A number of threads changes the model, and CPU time by no more than all of its threads could take.
// Returns the CPU time added.
static double apply_threads(struct tune_cost *c, const struct tune_cost *v, const struct tune_cost *b, double threads)
{
    double more = fmin(fmax(v->cpu_ms - b->cpu_ms, 0), (threads - 1) * c->model_ms);
    c->cpu_ms += more;
    apply(&c->model_ms, v->model_ms, b->model_ms);
    return more;
}

// Costs of values are taken as independent: each changes a part of a frame's cost by its own factor. Batches are the pipeline's.
// *on_cpu: CPU time in each millisecond of the model.
static struct tune_cost cost_of(const struct tune *t, const int *at, double *on_cpu)
{
    struct tune_cost c = undisturbed(t), own = c;
    const struct tune_cost *b = &t->base.cost;
    double model = fmin(b->model_ms, fmax(0, b->cpu_ms - b->decode_ms - b->work_ms)), threads = 0; // CPU time
    c.write_ms = sink_alone(t, &own, b);
    for (int i = 0; i < t->n_rows; i++) {
        const struct tune_row *r = &t->row[i];
        const struct tune_cost *v = &r->cost[at[i]];
        if (!at[i] || r->part == TUNE_WORKERS || r->part == TUNE_DECODERS)
            continue;
        if (r->part == TUNE_THREADS)
            threads += apply_threads(&c, v, b, tune_number(t, r, at[i]));
        else if (of_sink(r))
            apply(&c.write_ms, sink_alone(t, &own, v), sink_alone(t, &own, b));
        if (r->part == TUNE_OTHER)
            apply(&c.cpu_ms, v->cpu_ms, b->cpu_ms);
        if (r->part == TUNE_OTHER && !of_sink(r)) {
            apply(&c.decode_ms, v->decode_ms, b->decode_ms);
            apply(&c.work_ms, v->work_ms, b->work_ms);
            apply(&c.model_ms, v->model_ms, b->model_ms);
            apply(&c.write_ms, v->write_ms, b->write_ms);
        }
        c.memory_mib += v->memory_mib - b->memory_mib;
        c.vram_mib += v->vram_mib - b->vram_mib;
    }
    *on_cpu = b->model_ms > 0 && c.model_ms > 0 ? (model / b->model_ms * own.model_ms + threads) / c.model_ms : 0;
    return c;
}

// ---- Batches ----

// Frames that a batch gets: what comes while it waits for more and while all runs are busy. A run takes as long for fewer frames, since
// its shape is fixed.
struct batches {
    int most;          // places
    double place_ms;   // of a run, for each place
    double on_cpu;     // CPU time in each ms of it
    double between_ms; // that two runs begin apart, if all workers are busy
};

static double filled(const struct tune *t, const struct batches *b, double fps)
{
    return fmin(b->most, fmax(1 + fps * t->patience_ms / 1000, fps * b->between_ms / 1000));
}

// Time of a place in a batch, from the trial with that batch size. If the model was always busy there, its batches were full. A place
// takes at most `place` times as long as a frame alone: the rest of the trial's time is waiting.
static double place_of(const struct tune *t, const int *at, const struct tune_cost *c, int batch)
{
    static const double ALWAYS = 0.95;
    double ms = c->model_ms;
    for (int i = 0; i < t->n_rows; i++)
        if (t->row[i].part == TUNE_BATCH && at[i]) {
            const struct tune_cost *v = &t->row[i].cost[at[i]];
            bool full = v->model_ms * v->fps > ALWAYS * 1000;
            ms *= v->model_ms / t->base.cost.model_ms * (full ? 1 : filled(t, &(struct batches){.most = batch}, v->fps) / batch);
        }
    return fmin(ms, t->k.place * c->model_ms);
}

static struct batches batches_of(const struct tune *t, const int *at, const struct tune_cost *c, double on_cpu, int batch,
                                 int workers, int decoders)
{
    struct batches s = {batch, place_of(t, at, c, batch), on_cpu, 0};
    double crowded = fmax(1, (workers + decoders) / cores_of(t)), run_ms = batch * s.place_ms * (1 + fmin(1, on_cpu) * (crowded - 1));
    s.between_ms = fmax(run_ms / workers, batch * s.place_ms * t->k.model_turn);
    return s;
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

// Milliseconds per frame that each resource needs, raised to a power, if `frames` of a batch's places are filled; returns frames per second.
static double rate_of(const struct tune *t, const struct tune_cost *c, const struct batches *b, double frames, int workers, int threads,
                      int decoders, double *need)
{
    const struct tune_constants *k = &t->k;
    double cores = cores_of(t), crowd = 1 + k->crowd * fmax(0, workers * threads / cores - 1);
    double model = b->most > 1 ? b->place_ms * b->most / frames : c->model_ms, cpu = c->cpu_ms + b->on_cpu * (model - c->model_ms), sum = 0;
    double at_work = b->most > 1 ? fmax(c->work_ms, model) : c->work_ms + model; // in batches the model has threads of its own
    double ms[TUNE_NEEDS] = {c->decode_ms / decoders, at_work / workers, c->write_ms, cpu * k->cores * crowd / cores,
                             c->decode_ms * k->decode_turn, model * k->model_turn};
    for (int i = 0; i < TUNE_NEEDS; i++)
        sum += need[i] = pow(ms[i], k->sharp);
    return sum > 0 ? 1000 / pow(sum, 1 / k->sharp) : 0;
}

void tune_predict(const struct tune *t, const int *at, struct tune_trial *out)
{
    double on_cpu;
    struct tune_cost c = cost_of(t, at, &on_cpu);
    int workers = number_of_part(t, at, TUNE_WORKERS, t->given.workers), threads = number_of_part(t, at, TUNE_THREADS, 1),
        batch = number_of_part(t, at, TUNE_BATCH, 1), decoders = number_of_part(t, at, TUNE_DECODERS, t->given.decoders);
    struct batches b = batches_of(t, at, &c, on_cpu, batch, workers, decoders);
    double low = 1, high = batch, need[TUNE_NEEDS], fps = rate_of(t, &c, &b, high, workers, threads, decoders, need);
    // A full batch fits if so many frames come; else the most that do.
    if (filled(t, &b, fps) < high)
        for (int i = 0; i < 12; i++) {
            double middle = (low + high) / 2;
            fps = rate_of(t, &c, &b, middle, workers, threads, decoders, need);
            if (filled(t, &b, fps) >= middle)
                low = middle;
            else
                high = middle;
        }
    double frame = fps > 0 ? 1000 / fps : 0, through = c.decode_ms + c.work_ms + batch * b.place_ms + c.write_ms;
    c.cpu_ms += batch > 1 ? b.on_cpu * (b.place_ms * batch / high - c.model_ms) : 0;
    *out = (struct tune_trial){.fps = fps, .p99_ms = fmax(through, frame * (3 * workers + 4)),
                               .memory_mib = memory_of(t, c.memory_mib, t->given.memory_mib, t->base.memory_mib, workers),
                               .vram_mib = memory_of(t, c.vram_mib, t->given.vram_mib, t->base.vram_mib, workers), .workers = workers,
                               .decoders = decoders, .cost = c, .joules = joules_of(t, frame, c.cpu_ms)};
    memcpy(out->need, need, sizeof(need));
}
