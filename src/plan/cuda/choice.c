#include "base/base.h"
#include "base/clock.h"
#include "base/mix.h"
#include "plan/cuda/parts.h"

#include <stdio.h>
#include <stdlib.h>

// Chooses the kernel for each convolution. Every step starts with the first one that can run it. With an effort the
// whole plan runs repeatedly, every shape with its next kernel in each run, and the medians decide: caches are as in
// normal use, and other load on the GPU affects all kernels. Steps of one shape choose together.

enum { SAMPLES = 31, PRODUCT_SCRATCH = 32 << 20, A_STEP = 20 << 20 }; // A_STEP: bytes that are filled while a step is queued
#define FILLED_IN_NS 8000 // bytes that a GPU fills in a ns, at most: within its L2 cache
#define SHORT_RUN_MS 3.0f // steps of a few us, whose times scatter by 1: more samples
static const int samples_of[] = {0, 3, 7, 15}, seconds_of[] = {5, 15, 60, 600};

struct shape {
    uint64_t key;
    int first; // step
    struct cuda_way ways[CUDA_WAYS];
    int nb_ways;
    int nb[CUDA_WAYS];
    bool may_pair, paired; // with the step after each of its steps
    float pair_ms[2][SAMPLES]; // both steps one by one, and in one kernel
    float best_ms, first_ms; // medians over all of its steps of the way that was picked and of the default; 0: not timed
    float ms[CUDA_WAYS][SAMPLES];
};

struct choice {
    struct cuda_plan *p;
    const struct tachy_log *log;
    struct cuda_workspace *w;
    void *ends;
    size_t ends_bytes;
    const char *known; // text of an earlier choice: a line "KEY KERNEL VARIANT" for each shape. NULL: none, or not this plan's
    struct shape *shapes;
    int nb_shapes;
    int *of; // a step's shape, -1: it has no choice
    cuda_event *events; // one before each step and one after the last
    double queued_ns; // that the host took to queue the last run
};

static uint64_t key_of_int8(const struct tachy_nn_conv_int8 *c)
{
    int64_t parts[] = {c->in.pixel, c->in.row, c->in.image, c->out.pixel, c->out.row, c->out.image, c->add.pixel, c->add.row, c->add.image,
                       c->in_dtype, c->out_dtype, c->end.adds, c->end.act.kind};
    return tachy_mix(tachy_mix(2, &c->shape, sizeof(c->shape)), parts, sizeof(parts));
}

// The properties that steps which choose together share: everything but addresses.
static uint64_t key_of(const struct cuda_step *s)
{
    if (s->kind == CUDA_CONV_INT8)
        return key_of_int8(&s->a.conv_int8);
    const struct tachy_nn_conv *c = &s->a.conv;
    const struct tachy_nn_tensor *add = &c->epilogue.add;
    const bool convs = s->pairs && s[1].kind == CUDA_CONV;
    int64_t parts[] = {c->in.pixel, c->in.row, c->in.image, c->out.pixel, c->out.row, c->out.image, add->pixel, add->row,
                       add->image, add->data != 0, c->epilogue.add_last, c->bias != 0, c->epilogue.act.kind, c->dtype,
                       s->product.m, s->depthwise != 0, s->scaled != 0, c->sums != 0, c->planes, c->before, c->in_planes,
                       convs ? s[1].a.conv.shape.cout : c->spread.pixel, convs ? s[1].a.conv.epilogue.act.kind : 2 * c->spread.row + c->spread_apart};
    return tachy_mix(tachy_mix(1, &c->shape, sizeof(c->shape)), parts, sizeof(parts));
}

static int check(const struct choice *c, int status, const char *what)
{
    return tachy_cu_check(c->p->gpu->device.cu, status, c->log, what);
}

static int open_products(struct cuda_plan *p, const struct tachy_log *log)
{
    const int most = p->params.effort ? CUDA_GEMMS : 1;
    for (int i = 0; i < p->nb_steps; i++) {
        struct cuda_step *s = &p->steps[i];
        if (!s->product.m)
            continue;
        s->product.tf32 = p->params.precision == TACHY_PLAN_TF32 && s->product.dtype == TACHY_F32;
        int err = p->params.kernels ? TACHY_ERR_UNAVAILABLE
                                    : tachy_nn_gemm_open(&s->gemm, &s->product, PRODUCT_SCRATCH, most, &s->nb_gemms, log);
        if (err == TACHY_ERR_UNAVAILABLE && (s->kind == CUDA_CONV || p->kernels->product))
            continue; // our own kernels do it as well
        if (err < 0)
            return tachy_fail(log, err, "plan: %s %s: products of two computed matrices need cuBLASLt, which comes with the "
                              "CUDA toolkit or `pip install nvidia-cublas`", s->label.op, s->label.name);
        for (int k = 0; k < s->nb_gemms; k++)
            p->scratch = TACHY_MAX(p->scratch, TACHY_ALIGN(tachy_nn_gemm_workspace(s->gemm, k), 256));
        s->way = (struct cuda_way){CUDA_CONV_GEMM, 0};
    }
    return TACHY_OK;
}

// Allocates a run's memory, filled with numbers that are not 0, huge or NaN in any type.
static int open_workspace(struct choice *c)
{
    struct cuda_plan *p = c->p;
    const struct tachy_cu *cu = p->gpu->device.cu;
    size_t size = 256;
    for (int i = 0; i < p->nb_in + p->nb_out; i++)
        size += TACHY_ALIGN(p->end_bytes[i], 256);
    c->ends_bytes = size = TACHY_MAX(size, (size_t)A_STEP); // hold_back() fills it
    int err = cuda_workspace_new(p, &c->w, c->log);
    if (!err)
        err = tachy_gpu_alloc(p->gpu, size, &c->ends, c->log);
    if (err)
        return err;
    cuda_address at = tachy_cu_address(c->ends), *ends = calloc((size_t)(p->nb_in + p->nb_out) + 1, sizeof(*ends));
    if (!ends)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < p->nb_in + p->nb_out; at += TACHY_ALIGN(p->end_bytes[i], 256), i++)
        ends[i] = at;
    cuda_set_bases(p, c->w, ends);
    free(ends);
    err = check(c, cu->fill(tachy_cu_address(c->ends), 0x2b, size), "a plan's tensors");
    return err ? err : check(c, cu->fill(tachy_cu_address(c->w->memory), 0x2b, TACHY_ALIGN(p->arena, 256)),
                             "a plan's arena");
}

// The stored text if it was chosen with enough effort, which it then has.
static const char *known_of(struct cuda_plan *p)
{
    const char *text = p->params.choice;
    int effort;
    if (!text || !strchr(text, '\n') || sscanf(text, "cuda 1 effort %d", &effort) != 1 || effort < p->params.effort)
        return NULL;
    p->effort = effort;
    return text;
}

static bool find_known(const struct choice *c, uint64_t key, struct cuda_way *way)
{
    for (const char *at = strchr(c->known, '\n'); at && at[1]; at = strchr(at + 1, '\n')) {
        unsigned long long of;
        int kernel;
        if (sscanf(at, "%llx %d %d", &of, &kernel, &way->variant) == 3 && of == key) {
            way->kernel = (enum cuda_conv)kernel;
            return true;
        }
    }
    return false;
}

// Asks cuDNN, if there is the time to choose, for the shapes whose stored choice it is or that have none. Steps of one shape share what
// it has.
static int open_engines(struct choice *c)
{
    struct cuda_plan *p = c->p;
    if (p->params.effort < 2 || p->params.kernels)
        return TACHY_OK;
    int err = TACHY_OK;
    uint64_t *keys = calloc((size_t)p->nb_steps + 1, sizeof(*keys));
    for (int i = 0; keys && i < p->nb_steps && !err; i++) {
        struct cuda_step *s = &p->steps[i];
        struct cuda_way way;
        int like = 0;
        if (!cuda_engines_fit(s))
            continue;
        keys[i] = key_of(s);
        while (keys[like] != keys[i])
            like++;
        if (like < i)
            s->engines = p->steps[like].engines, s->nb_engines = p->steps[like].nb_engines;
        else if (!c->known || (find_known(c, keys[i], &way) && way.kernel == CUDA_CONV_CUDNN))
            err = cuda_engines_open(p, s, PRODUCT_SCRATCH, c->log);
    }
    free(keys);
    return !keys ? TACHY_ERR_NOMEM : err == TACHY_ERR_UNAVAILABLE ? TACHY_OK : err;
}

// Leaves the known one of all ways, or of a known pair the default. False: it is none of them.
static bool keep_known(const struct choice *c, const struct shape *s, struct cuda_way *all, int *n, bool *pair)
{
    struct cuda_way way;
    if (!find_known(c, s->key, &way))
        return false;
    *pair = way.kernel == CUDA_CONV_PAIR;
    for (int i = 0; i < *n && !*pair; i++)
        if (all[i].kernel == way.kernel && all[i].variant == way.variant) {
            all[0] = way;
            *n = 1;
            return true;
        }
    return *pair;
}

// Keeps the kernels that take the step's form; none is left running.
static int find_ways(struct choice *c, struct shape *s, const struct cuda_step *step)
{
    struct cuda_way all[CUDA_WAYS];
    int n = cuda_ways(c->p, step, all);
    bool pair = true;
    if (c->known && !keep_known(c, s, all, &n, &pair)) {
        c->known = NULL;
        return TACHY_OK;
    }
    for (int i = 0; i < n; i++) {
        int status = cuda_launch(c->p, step, all[i], c->w->base, c->w->stream);
        if (!status)
            s->ways[s->nb_ways++] = all[i];
        if (!status && (!c->p->params.effort || c->known))
            break; // the default will do, or it is known
        if (status && status != CUDA_INVALID_VALUE && all[i].kernel != CUDA_CONV_GEMM)
            return check(c, status, step->label.name);
    }
    s->may_pair = step->pairs && pair && !cuda_launch(c->p, step, (struct cuda_way){CUDA_CONV_PAIR, 0}, c->w->base, c->w->stream);
    s->paired = s->may_pair && (c->known || cuda_pair_pays(c->p, step));
    if (c->known && (!s->nb_ways || (pair && !s->paired))) {
        c->known = NULL;
        return TACHY_OK;
    }
    return s->nb_ways ? TACHY_OK
                      : tachy_fail(c->log, TACHY_ERR_UNSUPPORTED, "plan: no kernel runs %s %s on this GPU", step->label.op,
                                   step->label.name);
}

static struct shape *shape_of(struct choice *c, uint64_t key)
{
    for (int i = 0; i < c->nb_shapes; i++)
        if (c->shapes[i].key == key)
            return &c->shapes[i];
    return NULL;
}

// All kernels of each shape, or the known one. If one is not known, or does not run, all are found.
static int find_shapes(struct choice *c)
{
    struct cuda_plan *p = c->p;
    const char *known = c->known;
    free(c->shapes);
    free(c->of);
    c->nb_shapes = 0;
    c->shapes = calloc((size_t)p->nb_steps + 1, sizeof(*c->shapes));
    c->of = malloc(sizeof(*c->of) * (size_t)(p->nb_steps + 1));
    if (!c->shapes || !c->of)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < p->nb_steps; i++) {
        struct cuda_step *step = &p->steps[i];
        c->of[i] = -1;
        if (step->kind != CUDA_CONV && step->kind != CUDA_CONV_INT8)
            continue;
        uint64_t key = key_of(step);
        struct shape *s = shape_of(c, key);
        if (!s) {
            s = &c->shapes[c->nb_shapes++];
            s->key = key;
            s->first = i;
            int err = find_ways(c, s, step);
            if (known && !c->known) {
                p->effort = 0;
                return find_shapes(c);
            }
            if (err < 0)
                return err;
        }
        c->of[i] = (int)(s - c->shapes);
        step->way = s->ways[0];
    }
    return check(c, p->gpu->device.cu->stream_wait(c->w->stream), "the kernels of a plan");
}

// Text after a line's numbers is for people.
static int write_text(struct choice *c)
{
    static const char *const names[CUDA_CONVS] = {"any", "depthwise", "small", "tma", "cublaslt", "cudnn", "pair", "done"};
    char *text = tachy_asprintf("cuda 1 effort %d\n", c->p->effort);
    for (int i = 0; i < c->nb_shapes && text; i++) {
        const struct shape *s = &c->shapes[i];
        struct cuda_way way = s->paired ? (struct cuda_way){CUDA_CONV_PAIR, 0} : s->ways[0];
        char *longer = tachy_asprintf("%s%016llx %d %d %s %.4f ms, default %.4f: %s\n", text, (unsigned long long)s->key,
                                      (int)way.kernel, way.variant, names[way.kernel],
                                      (double)s->best_ms, (double)s->first_ms, c->p->steps[s->first].label.name);
        tachy_free(text);
        text = longer;
    }
    c->p->choice = text;
    return text ? TACHY_OK : TACHY_ERR_NOMEM;
}

// Steps that run joined with the one after them: none, all that may, or those that were chosen.
enum pairing { PAIR_NONE, PAIR_ALL, PAIR_CHOSEN };

static bool begins_pair(const struct choice *c, int step, enum pairing pairing)
{
    const struct shape *s = step < 0 || c->of[step] < 0 ? NULL : &c->shapes[c->of[step]];
    return s && pairing != PAIR_NONE && (pairing == PAIR_ALL ? s->may_pair : s->paired);
}

static struct cuda_way way_of(const struct choice *c, int step, int round, enum pairing pairing)
{
    const struct shape *s = c->of[step] < 0 ? NULL : &c->shapes[c->of[step]];
    if (begins_pair(c, step, pairing))
        return (struct cuda_way){CUDA_CONV_PAIR, 0};
    if (begins_pair(c, step - 1, pairing))
        return (struct cuda_way){CUDA_CONV_DONE, 0};
    return s ? s->ways[round % s->nb_ways] : c->p->steps[step].way;
}

static void settle(struct choice *c)
{
    for (int i = 0; i < c->p->nb_steps; i++)
        c->p->steps[i].way = way_of(c, i, 0, PAIR_CHOSEN);
}

// Keeps the GPU busy until the host has queued a run, which takes about as long as the last one: a step's time would have the host's in
// it. Small fills would not: they take the host longer than the GPU.
static int hold_back(struct choice *c)
{
    const size_t arena = TACHY_ALIGN(c->p->arena, 256), size = TACHY_MAX(arena, c->ends_bytes);
    const cuda_address at = tachy_cu_address(arena == size ? c->w->memory : c->ends);
    const double least = (double)A_STEP * c->p->nb_steps;
    size_t left = (size_t)TACHY_CLAMP(c->queued_ns * FILLED_IN_NS, least, 4 * least); // a host that waits for the GPU is no slow one
    int status = CUDA_OK;
    for (; left && !status; left -= TACHY_MIN(left, size))
        status = c->p->gpu->device.cu->fill_async(at, 0x2b, TACHY_MIN(left, size), c->w->stream);
    return status;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static float median(const float *ms, int n)
{
    float sorted[SAMPLES];
    memcpy(sorted, ms, sizeof(*ms) * (size_t)n);
    qsort(sorted, (size_t)n, sizeof(*sorted), by_value);
    return n ? sorted[n / 2] : 1e30f;
}

// A run with way `round` of each shape; *ms is that of the whole.
static int run_round(struct choice *c, int round, enum pairing pairing, float *ms)
{
    struct cuda_plan *p = c->p;
    const struct tachy_cu *cu = p->gpu->device.cu;
    int status = hold_back(c);
    const uint64_t start = tachy_now_ns();
    for (int i = 0; i < p->nb_steps && !status; i++) {
        status = cu->event_record(c->events[i], c->w->stream);
        if (!status)
            status = cuda_launch(p, &p->steps[i], way_of(c, i, round, pairing), c->w->base, c->w->stream);
    }
    if (!status)
        status = cu->event_record(c->events[p->nb_steps], c->w->stream);
    c->queued_ns = (double)(tachy_now_ns() - start);
    if (!status)
        status = cu->stream_wait(c->w->stream);
    if (!status && ms)
        status = cu->event_elapsed(ms, c->events[0], c->events[p->nb_steps]);
    return status;
}

static int note_round(struct choice *c, int round)
{
    struct cuda_plan *p = c->p;
    int status = CUDA_OK;
    for (int i = 0; i < p->nb_steps && !status; i++) {
        struct shape *s = c->of[i] < 0 ? NULL : &c->shapes[c->of[i]];
        float ms = 0;
        if (!s)
            continue;
        int way = round % s->nb_ways, at = round / s->nb_ways % SAMPLES;
        status = p->gpu->device.cu->event_elapsed(&ms, c->events[i], c->events[i + 1]);
        s->ms[way][at] = (s->nb[way] > at ? s->ms[way][at] : 0) + ms; // all steps of the shape together
        if (s->first == i)
            s->ms[way][at] = ms;
        s->nb[way] = TACHY_MAX(s->nb[way], at + 1);
    }
    return status;
}

// Pairs against the best of their two steps, in turn.
static int time_pairs(struct choice *c, int samples)
{
    struct cuda_plan *p = c->p;
    bool any = false;
    int status = CUDA_OK;
    for (int i = 0; i < c->nb_shapes; i++)
        any = any || c->shapes[i].may_pair;
    for (int r = 0; any && r < 2 * samples && !status; r++) {
        int one = r % 2;
        status = run_round(c, 0, one ? PAIR_ALL : PAIR_NONE, NULL);
        for (int i = 0; i + 1 < p->nb_steps && !status; i++) {
            float ms = 0;
            if (!begins_pair(c, i, PAIR_ALL))
                continue;
            status = p->gpu->device.cu->event_elapsed(&ms, c->events[i], c->events[i + 2]);
            c->shapes[c->of[i]].pair_ms[one][r / 2] += ms;
        }
    }
    for (int i = 0; i < c->nb_shapes && any; i++) {
        struct shape *s = &c->shapes[i];
        float apart = median(s->pair_ms[0], samples), together = median(s->pair_ms[1], samples);
        s->paired = s->may_pair && together < apart;
        if (s->paired)
            s->first_ms = apart, s->best_ms = together;
    }
    return status;
}

static void pick(struct shape *s)
{
    int best = 0;
    for (int k = 1; k < s->nb_ways; k++)
        if (median(s->ms[k], s->nb[k]) < median(s->ms[best], s->nb[best]))
            best = k;
    struct cuda_way way = s->ways[best];
    s->first_ms = median(s->ms[0], s->nb[0]);
    s->best_ms = median(s->ms[best], s->nb[best]);
    s->ways[best] = s->ways[0];
    s->ways[0] = way;
}

static int time_all(struct choice *c)
{
    struct cuda_plan *p = c->p;
    const struct tachy_cu *cu = p->gpu->device.cu;
    const int effort = TACHY_MIN(p->params.effort, 3);
    uint64_t start = tachy_now_ns(), budget = (uint64_t)seconds_of[effort] * 1000000000u / (uint64_t)TACHY_MAX(p->params.parts, 1);
    int rounds = 0, samples = samples_of[effort], status = CUDA_OK;
    float defaults[5] = {0}, chosen[5] = {0};
    c->events = calloc((size_t)p->nb_steps + 1, sizeof(cuda_event));
    for (int i = 0; c->events && i <= p->nb_steps && !status; i++)
        status = cu->event_create(&c->events[i], CUDA_EVENT_TIMED);
    for (int i = -1; c->events && i < 5 && !status; i++) // the first warms up
        status = run_round(c, 0, PAIR_CHOSEN, &defaults[TACHY_MAX(i, 0)]);
    if (median(defaults, 5) < SHORT_RUN_MS)
        samples = TACHY_MIN(3 * samples, (int)SAMPLES);
    for (int i = 0; i < c->nb_shapes; i++)
        rounds = TACHY_MAX(rounds, c->shapes[i].nb_ways * samples);
    for (int r = 0; c->events && r < rounds && !status && tachy_now_ns() - start < budget; r++) {
        status = run_round(c, r, PAIR_NONE, NULL);
        if (!status)
            status = note_round(c, r);
    }
    for (int i = 0; i < c->nb_shapes; i++)
        pick(&c->shapes[i]);
    if (c->events && !status)
        status = time_pairs(c, samples);
    for (int i = 0; c->events && i < 5 && !status; i++)
        status = run_round(c, 0, PAIR_CHOSEN, &chosen[i]);
    p->default_run_ms = (double)median(defaults, 5);
    p->run_ms = (double)median(chosen, 5);
    p->choice_seconds = (double)(tachy_now_ns() - start) / 1e9;
    p->effort = effort;
    return c->events ? check(c, status, "timing the kernels of a plan") : TACHY_ERR_NOMEM;
}

static void choice_close(struct choice *c)
{
    struct cuda_plan *p = c->p;
    for (int i = 0; c->events && i <= p->nb_steps; i++)
        if (c->events[i])
            p->gpu->device.cu->event_destroy(c->events[i]);
    if (c->ends)
        tachy_gpu_free(p->gpu, c->ends);
    if (c->w) // runs need less
        cuda_workspace_free(p, c->w);
    free(c->events);
    free(c->shapes);
    free(c->of);
}

// Memory for the algorithms that were chosen, and `own` bytes for the other steps: others that were tried want more.
static void keep_scratch(struct cuda_plan *p, size_t own)
{
    p->scratch = own;
    for (int i = 0; i < p->nb_steps; i++) {
        const struct cuda_step *s = &p->steps[i];
        size_t bytes = 0;
        if (s->way.kernel == CUDA_CONV_GEMM && s->gemm)
            bytes = tachy_nn_gemm_workspace(s->gemm, s->way.variant);
        else if (s->way.kernel == CUDA_CONV_CUDNN)
            bytes = tachy_nn_cudnn_conv_workspace(s->engines, s->way.variant);
        p->scratch = TACHY_MAX(p->scratch, TACHY_ALIGN(bytes, 256));
    }
}

int cuda_choose(struct cuda_plan *p, const struct tachy_log *log)
{
    struct choice c = {.p = p, .log = log, .known = known_of(p)};
    const size_t own = p->scratch;
    int err = tachy_device_enter(&p->gpu->device, log);
    if (err < 0)
        return err;
    err = open_products(p, log);
    if (!err)
        err = open_engines(&c);
    if (!err)
        err = open_workspace(&c);
    if (!err)
        err = find_shapes(&c);
    if (!err && !c.known && p->params.effort)
        err = time_all(&c);
    if (!err) {
        settle(&c);
        cuda_engines_keep(p);
        err = write_text(&c);
    }
    choice_close(&c);
    if (!err)
        keep_scratch(p, own);
    tachy_device_leave(&p->gpu->device);
    return err;
}
