#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Predicts a setting's result from the costs of its values, without a trial. The formulas are in docs/tune.md, "Prediction".

const struct tune_constants tune_guess = {.sharp = 7, .crowd = 0.05, .cores = 1, .gpu_ms = 0.05, .model_turn = 0.02, .place = 1.8, .late = 2},
                            tune_doubt = {.sharp = 0.3, .crowd = 1, .cores = 0.1, .gpu_ms = 0.3, .model_turn = 3, .place = 0.15, .late = 0.5};

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

int tune_row_of(const struct tune *t, enum tune_part part)
{
    for (int i = 0; i < t->n_rows; i++)
        if (t->row[i].part == part)
            return i;
    return -1;
}

// The numbers that shape the pipeline; where no row has them, `given`.
static int number_of_part(const struct tune *t, const int *at, enum tune_part part, int given)
{
    int i = tune_row_of(t, part);
    if (i >= 0)
        given = (int)tune_number(t, &t->row[i], at[i]);
    return given > 0 ? given : 1;
}

bool tune_gpu_decodes(const struct tune *t) { return t->base.cost.decode_ms >= t->base.cost.cpu_ms; }

// A part of the cost with a value beside that part without: a factor; where there was none of it, the difference.
static void apply(double *cost, double with, double without)
{
    if (without > 1e-4)
        *cost *= with / without;
    else
        *cost += with - without;
}

static bool of_sink(const struct tune_row *r) { return r->option && !strncmp(r->option->path, "output.", 7); }

// The cost that all predictions hang on. The command as given takes the same CPU time per frame, so the mean of the two is less noisy.
static struct tune_cost base_of(const struct tune *t)
{
    struct tune_cost c = t->base.cost;
    if (c.batch <= 1 && t->given.cost.cpu_ms > 0)
        c.cpu_ms = (c.cpu_ms + t->given.cost.cpu_ms / t->k.cores) / 2;
    return c;
}

// The least that the output's values leave of the steps before it, which only waits for cores make longer.
static struct tune_cost undisturbed(const struct tune *t)
{
    struct tune_cost c = base_of(t);
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
static void apply_threads(struct tune_cost *c, const struct tune_cost *v, const struct tune_cost *b, double threads)
{
    c->cpu_ms += fmin(fmax(v->cpu_ms - b->cpu_ms, 0), (threads - 1) * c->model_ms);
    apply(&c->model_ms, v->model_ms, b->model_ms);
}

// Costs of values are taken as independent: each changes a part of a frame's cost by its own factor. Batches are the pipeline's.
// *on_cpu: CPU time in each millisecond of the model.
static struct tune_cost cost_of(const struct tune *t, const int *at, double *on_cpu)
{
    const struct tune_cost base = base_of(t), *b = &base;
    struct tune_cost c = undisturbed(t), own = c;
    double model = fmin(b->model_ms, fmax(0, b->cpu_ms - b->decode_ms - b->work_ms)); // CPU time
    c.write_ms = sink_alone(t, &own, b);
    for (int i = 0; i < t->n_rows; i++) {
        const struct tune_row *r = &t->row[i];
        const struct tune_cost *v = &r->cost[at[i]];
        if (!at[i] || r->part == TUNE_WORKERS || r->part == TUNE_DECODERS)
            continue;
        if (r->part == TUNE_THREADS)
            apply_threads(&c, v, b, tune_number(t, r, at[i]));
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
    *on_cpu = b->model_ms > 0 && c.model_ms > 0 ? model / b->model_ms * own.model_ms / c.model_ms : 0;
    return c;
}

// ---- Threads on cores, frames in batches ----

// The numbers that shape the pipeline, and a frame's cost in it.
struct shape {
    int workers, batch, decoders;
    struct tune_cost cost;
    double place_ms; // of a run of the model, for each place of the batch; a run takes as long for fewer frames, since its shape is fixed
    double on_cpu;   // CPU time in each ms of the model
    double gpu_ms;   // GPU time per frame without decoding; 0: the CPU decodes
};

struct flow {
    double frames; // that a run gets
    double speed;  // at which a thread advances: 1 if there are cores for all that can run
};

// A place takes longer if other runs come between: their data push each other out of the caches.
static double place_among(const struct tune *t, const struct shape *s, double speed) { return s->place_ms * (1 + t->k.crowd * (1 / speed - 1)); }

// Frames that a batch gets: what comes while its first one waits, or while all workers are busy with other runs. A thread that waits for a
// core is late.
static double filled(const struct tune *t, const struct shape *s, double fps, double speed)
{
    double late = speed < 1 ? t->k.late : 0, run = s->batch * place_among(t, s, speed);
    double between = fmax(run / (s->workers * speed), run * t->k.model_turn);
    return fmin(s->batch, fmax(1 + fps * (t->patience_ms + late) / 1000, fps * between / 1000));
}

static double model_of(const struct tune *t, const struct shape *s, const struct flow *f)
{
    return s->batch > 1 ? place_among(t, s, f->speed) * s->batch / f->frames : s->cost.model_ms;
}

static double cpu_of(const struct tune *t, const struct shape *s, const struct flow *f)
{
    return s->cost.cpu_ms + s->on_cpu * (model_of(t, s, f) - s->cost.model_ms);
}

// CPU time that the pipeline takes in each ms if its threads advance at `speed`: some step's threads never wait then.
static double cores_taken(const struct tune *t, const struct shape *s, struct flow *f)
{
    double place = place_among(t, s, f->speed), at_work = s->batch > 1 ? fmax(s->cost.work_ms, place) : s->cost.work_ms + s->cost.model_ms;
    double ms = fmax(fmax(s->cost.decode_ms / s->decoders, at_work / s->workers), s->cost.write_ms) / f->speed;
    f->frames = s->batch > 1 && ms > 0 ? filled(t, s, 1000 / ms, f->speed) : 1;
    return ms > 0 ? cpu_of(t, s, f) / ms : 0;
}

// Runs of the model that are hardly filled take cores as full ones do. Each thread's share of the cores says how many frames come.
static struct flow flow_of(const struct tune *t, const struct shape *s)
{
    struct flow f = {.speed = 1};
    double low = 0, high = 1, cores = cores_of(t) / t->k.cores;
    if (cores_taken(t, s, &f) <= cores)
        return f;
    for (int i = 0; i < 16; i++) {
        f.speed = (low + high) / 2;
        *(cores_taken(t, s, &f) > cores ? &high : &low) = f.speed;
    }
    return f;
}

// Frames in a run of the trial with that batch size; if it does not say, its batches were full if the model was always busy.
static double batch_of(const struct tune *t, const struct tune_cost *v, double places)
{
    static const double ALWAYS = 0.95;
    bool full = v->model_ms * v->fps > ALWAYS * 1000;
    double some = full ? places : fmin(places, 1 + v->fps * (t->patience_ms + t->k.late) / 1000);
    return v->batch > 0 ? v->batch : some;
}

// Time of a place in a batch, from the trial with that batch size. A place takes at most `place` times as long as a frame alone: the rest of
// the trial's time is waiting.
static double place_of(const struct tune *t, const int *at, const struct tune_cost *c)
{
    double ms = c->model_ms, others = c->model_ms / undisturbed(t).model_ms; // the other rows' part
    for (int i = 0; i < t->n_rows; i++)
        if (t->row[i].part == TUNE_BATCH && at[i]) {
            const struct tune_cost *v = &t->row[i].cost[at[i]];
            double places = tune_number(t, &t->row[i], at[i]);
            ms = others * v->model_ms * batch_of(t, v, places) / places;
        }
    return fmin(ms, t->k.place * c->model_ms);
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

// GPU time per frame without decoding, ms. A value that slows the command as given multiplies it by the same factor.
static double gpu_ms_of(const struct tune *t, const int *at)
{
    static const double SLOWER = 0.97;
    double ms = tune_gpu_decodes(t) ? t->k.gpu_ms : 0;
    for (int i = 0; i < t->n_rows; i++) {
        double fps = t->row[i].given_fps[at[i]];
        if (fps > 0 && fps < SLOWER * t->given.fps)
            ms *= t->given.fps / fps;
    }
    return ms;
}

// Milliseconds per frame that each resource needs, raised to a power; returns frames per second.
static double rate_of(const struct tune *t, const struct shape *s, const struct flow *f, double *need)
{
    const struct tune_constants *k = &t->k;
    const struct tune_cost *c = &s->cost;
    double cores = cores_of(t), model = model_of(t, s, f), sum = 0;
    // In batches the model has threads of its own, which limit only if batches are full.
    double at_work = s->batch == 1 ? c->work_ms + model : f->frames < s->batch ? c->work_ms : fmax(c->work_ms, model);
    double ms[TUNE_NEEDS] = {c->decode_ms / s->decoders, at_work / s->workers, c->write_ms, cpu_of(t, s, f) * k->cores / cores,
                             s->gpu_ms, model * fmax(0, 1 - s->on_cpu) * k->model_turn};
    for (int i = 0; i < TUNE_NEEDS; i++)
        sum += need[i] = pow(ms[i], k->sharp);
    return sum > 0 ? 1000 / pow(sum, 1 / k->sharp) : 0;
}

void tune_predict(const struct tune *t, const int *at, struct tune_trial *out)
{
    struct shape s = {.workers = number_of_part(t, at, TUNE_WORKERS, t->given.workers), .batch = number_of_part(t, at, TUNE_BATCH, 1), .decoders = number_of_part(t, at, TUNE_DECODERS, t->given.decoders)};
    struct tune_cost *c = &s.cost;
    double need[TUNE_NEEDS];
    *c = cost_of(t, at, &s.on_cpu);
    s.place_ms = place_of(t, at, c);
    s.gpu_ms = gpu_ms_of(t, at);
    if (t->given.decode_engines > 0 && t->given.decode_engines < s.decoders)
        s.decoders = t->given.decode_engines; // at once
    struct flow f = flow_of(t, &s);
    double fps = rate_of(t, &s, &f, need), frame = fps > 0 ? 1000 / fps : 0;
    double through = c->decode_ms + c->work_ms + s.batch * s.place_ms + c->write_ms, memory = c->memory_mib, vram = c->vram_mib;
    c->cpu_ms = cpu_of(t, &s, &f);
    *out = (struct tune_trial){.fps = fps, .p99_ms = fmax(through, frame * (3 * s.workers + 4)),
                               .memory_mib = memory_of(t, memory, t->given.memory_mib, t->base.memory_mib, s.workers),
                               .vram_mib = memory_of(t, vram, t->given.vram_mib, t->base.vram_mib, s.workers), .workers = s.workers,
                               .decoders = s.decoders, .cost = *c, .joules = joules_of(t, frame, c->cpu_ms)};
    memcpy(out->need, need, sizeof(need));
}
