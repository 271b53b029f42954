#include "base/base.h"
#include "base/clock.h"
#include "plan/cuda/parts.h"

#include <stdio.h>
#include <stdlib.h>

// Runs: the steps on a stream, one by one the first time and as a captured graph from then on.

// Offsets of the addresses in each kind's arguments.
enum { ADDRESSES = 13 };
#define AT(member) (offsetof(union cuda_args, member) + 1)
static const uint16_t addresses[CUDA_KINDS][ADDRESSES] = {
    [CUDA_CONV] = {AT(conv.in.data), AT(conv.out.data), AT(conv.weights), AT(conv.bias), AT(conv.scale),
                   AT(conv.epilogue.act.slope), AT(conv.epilogue.add.data), AT(conv.sums), AT(conv.spread.data)},
    [CUDA_GEMM] = {AT(gemm.x), AT(gemm.w), AT(gemm.bias), AT(gemm.add), AT(gemm.y), AT(gemm.workspace)},
    [CUDA_POINTWISE] = {AT(pointwise.out.data), AT(pointwise.in[0].data), AT(pointwise.in[1].data),
                        AT(pointwise.in[2].data), AT(pointwise.in[3].data), AT(pointwise.in[4].data),
                        AT(pointwise.in[5].data)},
    [CUDA_FILL] = {AT(fill.out.data)},
    [CUDA_POOL] = {AT(pool.in.data), AT(pool.out.data)},
    [CUDA_INTERPOLATE] = {AT(interpolate.in.data), AT(interpolate.out.data), AT(interpolate.add_scale),
                          AT(interpolate.epilogue.act.slope), AT(interpolate.epilogue.add.data)},
    [CUDA_REDUCE] = {AT(reduce.in), AT(reduce.out), AT(reduce.workspace)},
    [CUDA_ARG] = {AT(arg.in), AT(arg.out)},
    [CUDA_SOFTMAX] = {AT(softmax.in), AT(softmax.out), AT(softmax.weights)},
    [CUDA_LAYER_NORM] = {AT(layer_norm.in), AT(layer_norm.out), AT(layer_norm.scale), AT(layer_norm.shift), AT(layer_norm.add)},
    [CUDA_TRANSPOSE] = {AT(transpose.in), AT(transpose.out)},
    [CUDA_SQUEEZE] = {AT(squeeze.of[0].data), AT(squeeze.of[1].data), AT(squeeze.w0), AT(squeeze.w1), AT(squeeze.w2),
                      AT(squeeze.bias0), AT(squeeze.bias1), AT(squeeze.bias2), AT(squeeze.scale), AT(squeeze.weights),
                      AT(squeeze.scaled), AT(squeeze.between)},
    [CUDA_GATHER] = {AT(index.table.data), AT(index.index.data), AT(index.list.data), AT(index.also.data)},
    [CUDA_SCATTER] = {AT(index.table.data), AT(index.index.data), AT(index.list.data)},
    [CUDA_TOP] = {AT(top.in), AT(top.out)},
    [CUDA_CUBIC] = {AT(cubic.in.data), AT(cubic.out.data), AT(cubic.rows), AT(cubic.columns)},
    [CUDA_CONV_INT8] = {AT(conv_int8.in.data), AT(conv_int8.out.data), AT(conv_int8.add.data), AT(conv_int8.weights),
                        AT(conv_int8.multiplier), AT(conv_int8.bias)},
    [CUDA_INT8] = {AT(int8.a.data), AT(int8.b.data), AT(int8.out.data), AT(int8.table)},
    [CUDA_ATTENTION] = {AT(attention.q.data), AT(attention.k.data), AT(attention.v.data), AT(attention.out.data)},
    [CUDA_MLP] = {AT(mlp.out.data), AT(mlp.part[0].in.data), AT(mlp.part[1].in.data), AT(mlp.part[2].in.data), AT(mlp.part[3].in.data),
                  AT(mlp.layer[0].weights), AT(mlp.layer[0].bias), AT(mlp.layer[1].weights), AT(mlp.layer[1].bias), AT(mlp.layer[2].weights),
                  AT(mlp.layer[2].bias), AT(mlp.layer[3].weights), AT(mlp.layer[3].bias)},
    [CUDA_GRID_SAMPLE] = {AT(grid_sample.src), AT(grid_sample.dst), AT(grid_sample.grid)},
};

static cuda_address real(cuda_address at, const cuda_address *base)
{
    return at ? base[(at >> 48) - 1] + (at & (((cuda_address)1 << 48) - 1)) : 0;
}

static void patch(enum cuda_kind kind, union cuda_args *a, const cuda_address *base)
{
    for (int i = 0; i < ADDRESSES && addresses[kind][i]; i++) {
        cuda_address *at = (cuda_address *)((char *)a + addresses[kind][i] - 1);
        *at = real(*at, base);
    }
}

// The convolution as a product of cuBLASLt's.
static int run_product(const struct cuda_step *s, int algorithm, const union cuda_args *a, const cuda_address *base,
                       cuda_stream stream)
{
    struct tachy_nn_gemm_io io = a->gemm;
    if (s->kind == CUDA_CONV)
        io = (struct tachy_nn_gemm_io){.x = a->conv.in.data, .w = s->padded ? real(s->padded, base) : a->conv.weights, .bias = real(s->bias, base),
                                       .add = a->conv.epilogue.add.data, .y = a->conv.out.data};
    io.workspace = base[BASE_SCRATCH];
    return tachy_nn_gemm_run(s->gemm, algorithm, &io, stream);
}

// The convolution by one of cuDNN's engines.
static int run_engine(const struct cuda_step *s, int engine, const union cuda_args *a, const cuda_address *base, cuda_stream stream)
{
    const struct tachy_nn_cudnn_io io = {.bias = real(s->bias, base), .workspace = base[BASE_SCRATCH]};
    return tachy_nn_cudnn_conv_run(s->engines, engine, &a->conv, &io, stream);
}

// Runs a step and the one after it together.
static int run_pair(const struct cuda_plan *p, const struct cuda_step *s, const union cuda_args *a, const cuda_address *base,
                    cuda_stream stream)
{
    union cuda_args next = s[1].a;
    patch(CUDA_CONV, &next, base);
    return p->kernels->pair(&(struct tachy_nn_pair){a->conv, next.conv, s->alone}, stream);
}

static int run_conv(const struct cuda_plan *p, const struct cuda_step *s, struct cuda_way way, union cuda_args *a,
                    const cuda_address *base, cuda_stream stream)
{
    const struct tachy_nn_kernels *k = p->kernels;
    const struct tachy_conv_shape *q = &a->conv.shape;
    a->conv.variant = way.variant;
    if (way.kernel != CUDA_CONV_PAIR)
        a->conv.spread.data = 0;
    if (s->scaled && way.kernel != CUDA_CONV_ANY) {
        a->conv.weights = real(s->scaled, base);
        a->conv.weights_image = (int64_t)q->cout * q->kh * q->kw * q->cin;
        a->conv.scale = 0;
    }
    switch (way.kernel) {
    case CUDA_CONV_DEPTHWISE: a->conv.weights = real(s->depthwise, base); return k->conv_depthwise(&a->conv, stream);
    case CUDA_CONV_SMALL: return k->conv_small(&a->conv, stream);
    case CUDA_CONV_TMA: a->conv.weights = s->padded ? real(s->padded, base) : a->conv.weights; return k->conv_tma(&a->conv, stream);
    case CUDA_CONV_GEMM: return run_product(s, way.variant, a, base, stream);
    case CUDA_CONV_CUDNN: return run_engine(s, way.variant, a, base, stream);
    case CUDA_CONV_PAIR:
        if (!s->a.conv.spread.data)
            return run_pair(p, s, a, base, stream);
        a->conv.variant = cuda_spread_variant(p, &a->conv);
        return k->conv_tma(&a->conv, stream);
    default: return k->conv(&a->conv, stream);
    }
}

int cuda_launch(const struct cuda_plan *p, const struct cuda_step *s, struct cuda_way way, const cuda_address *base,
                cuda_stream stream)
{
    const struct tachy_nn_kernels *k = p->kernels;
    union cuda_args a = s->a;
    if (way.kernel == CUDA_CONV_DONE)
        return CUDA_OK;
    patch(s->kind, &a, base);
    switch (s->kind) {
    case CUDA_CONV: return run_conv(p, s, way, &a, base, stream);
    case CUDA_GEMM:
        return s->gemm ? run_product(s, way.variant, &a, base, stream) : k->product(&s->product, &a.gemm, stream);
    case CUDA_POINTWISE: return k->pointwise(&a.pointwise, stream);
    case CUDA_FILL: return k->fill(&a.fill, stream);
    case CUDA_POOL: return k->pool(&a.pool, stream);
    case CUDA_INTERPOLATE: return k->interpolate(&a.interpolate, stream);
    case CUDA_REDUCE: return k->reduce(&a.reduce, stream);
    case CUDA_ARG: return k->arg(&a.arg, stream);
    case CUDA_SOFTMAX: return k->softmax(&a.softmax, stream);
    case CUDA_LAYER_NORM: return k->layer_norm(&a.layer_norm, stream);
    case CUDA_TRANSPOSE: return k->transpose(&a.transpose, stream);
    case CUDA_SQUEEZE: return k->squeeze(&a.squeeze, stream);
    case CUDA_GATHER: return k->gather(&a.index, stream);
    case CUDA_SCATTER: return k->scatter(&a.index, stream);
    case CUDA_TOP: return k->top(&a.top, stream);
    case CUDA_GRID_SAMPLE: return k->grid_sample(&a.grid_sample, stream);
    case CUDA_CUBIC: return k->cubic(&a.cubic, stream);
    case CUDA_CONV_INT8: a.conv_int8.variant = way.variant; return k->conv_int8(&a.conv_int8, stream);
    case CUDA_INT8: return k->int8(&a.int8, stream);
    case CUDA_ATTENTION: return k->attention(&a.attention, stream);
    case CUDA_MLP: return k->mlp(&a.mlp, stream);
    case CUDA_KINDS: break;
    }
    return CUDA_INVALID_VALUE;
}

// Workspaces. The device's context is current to the caller.

static int nb_ends(const struct cuda_plan *p) { return p->nb_in + p->nb_out; }
static const struct tachy_cu *cu_of(const struct cuda_plan *p) { return p->gpu->device.cu; }

void cuda_set_bases(const struct cuda_plan *p, struct cuda_workspace *w, const cuda_address *ends)
{
    w->base[BASE_ARENA] = tachy_cu_address(w->memory);
    w->base[BASE_WEIGHTS] = cuda_weights_at(p->weights);
    w->base[BASE_SCRATCH] = tachy_cu_address(w->memory) + TACHY_ALIGN(p->arena, 256);
    memcpy(w->base + BASE_INPUTS, ends, sizeof(*ends) * (size_t)nb_ends(p));
}

static size_t memory_bytes(const struct cuda_plan *p)
{
    return TACHY_ALIGN(p->arena, 256) + p->scratch * (size_t)p->nb_lanes + 256;
}

size_t cuda_run_bytes(const struct cuda_plan *p)
{
    size_t size = memory_bytes(p);
    for (int i = 0; i < nb_ends(p); i++)
        size += TACHY_ALIGN(p->end_bytes[i], 256);
    return size;
}

bool cuda_count(struct cuda_plan *p, size_t bytes)
{
    const size_t limit = (size_t)p->params.memory_limit << 20;
    pthread_mutex_lock(&p->lock);
    bool fits = !limit || (p->held <= limit && bytes <= limit - p->held);
    p->held += fits ? bytes : 0;
    pthread_mutex_unlock(&p->lock);
    return fits;
}

int cuda_workspace_new(struct cuda_plan *p, struct cuda_workspace **out, const struct tachy_log *log)
{
    size_t bases = (size_t)(BASE_INPUTS + nb_ends(p));
    struct cuda_workspace *w = calloc(1, sizeof(*w) + sizeof(w->base[0]) * bases);
    *out = NULL;
    if (!w || !cuda_count(p, cuda_run_bytes(p))) {
        free(w);
        return TACHY_ERR_NOMEM;
    }
    pthread_mutex_lock(&p->lock);
    p->nb_workspaces++;
    pthread_mutex_unlock(&p->lock);
    *out = w;
    int err = TACHY_OK;
    for (int i = 0; i < CUDA_GRAPHS && err == TACHY_OK; i++)
        if (!(w->graphs[i].ends = calloc((size_t)nb_ends(p) + 1, sizeof(cuda_address))))
            err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = tachy_gpu_alloc(p->gpu, memory_bytes(p), &w->memory, log);
    if (err == TACHY_OK)
        err = tachy_cu_check(cu_of(p), cu_of(p)->event_create(&w->done, CUDA_EVENT_ORDERS), log, "a plan's event");
    if (err == TACHY_OK)
        err = tachy_cu_check(cu_of(p), cu_of(p)->stream_create(&w->stream, CUDA_STREAM_OWN_ORDER), log, "a plan's stream");
    if (err < 0) {
        cuda_workspace_free(p, w);
        *out = NULL;
    }
    return err;
}

void cuda_workspace_free(struct cuda_plan *p, struct cuda_workspace *w)
{
    if (w->used)
        cu_of(p)->event_wait(w->done);
    for (int i = 0; i < CUDA_GRAPHS; i++) {
        if (w->graphs[i].exec)
            cu_of(p)->graph_free(w->graphs[i].exec);
        free(w->graphs[i].ends);
    }
    for (int i = 0; i < CUDA_LANES; i++) {
        if (w->lane[i])
            cu_of(p)->stream_destroy(w->lane[i]);
        if (w->ended[i])
            cu_of(p)->event_destroy(w->ended[i]);
    }
    if (w->stream)
        cu_of(p)->stream_destroy(w->stream);
    if (w->done)
        cu_of(p)->event_destroy(w->done);
    if (w->memory)
        tachy_gpu_free(p->gpu, w->memory);
    if (w->ends)
        tachy_gpu_free(p->gpu, w->ends);
    pthread_mutex_lock(&p->lock);
    p->held -= cuda_run_bytes(p);
    p->nb_workspaces--;
    pthread_cond_broadcast(&p->given);
    pthread_mutex_unlock(&p->lock);
    free(w);
}

// The best of the idle: one of this stream, one that is done, any if there are enough of them or `any` will do. NULL: none.
static struct cuda_workspace *choose_idle(struct cuda_plan *p, cuda_stream stream, bool any)
{
    enum { ENOUGH = 4 };
    struct cuda_workspace **best = NULL;
    int n = 0;
    for (struct cuda_workspace **at = &p->idle; *at; at = &(*at)->next, n++) {
        bool same = !(*at)->used || (*at)->last == stream;
        if (same || (!best && cu_of(p)->event_query((*at)->done) == CUDA_OK))
            best = at;
        if (same)
            break;
    }
    if (!best && n > 0 && (any || n >= ENOUGH))
        best = &p->idle;
    struct cuda_workspace *w = best ? *best : NULL;
    if (w)
        *best = w->next;
    return w;
}

static void keep_words(void *plan, enum tachy_log_level level, const char *msg)
{
    struct cuda_plan *p = plan;
    pthread_mutex_lock(&p->lock);
    snprintf(p->why, sizeof(p->why), "%s", msg);
    pthread_mutex_unlock(&p->lock);
}

// A log that keeps what failed for why().
static struct tachy_log words_of(struct cuda_plan *p) { return (struct tachy_log){keep_words, p, TACHY_LOG_ERR}; }

// If there is no memory for another workspace, a run waits for one in use.
static int take(struct cuda_plan *p, cuda_stream stream, bool any, struct cuda_workspace **w)
{
    pthread_mutex_lock(&p->lock);
    *w = choose_idle(p, stream, any);
    pthread_mutex_unlock(&p->lock);
    const struct tachy_log words = words_of(p);
    int err = *w ? TACHY_OK : cuda_workspace_new(p, w, &words);
    if (err != TACHY_ERR_NOMEM)
        return err;
    pthread_mutex_lock(&p->lock);
    while (!p->idle && p->nb_workspaces)
        pthread_cond_wait(&p->given, &p->lock);
    *w = choose_idle(p, stream, true);
    pthread_mutex_unlock(&p->lock);
    return *w ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void give(struct cuda_plan *p, struct cuda_workspace *w)
{
    pthread_mutex_lock(&p->lock);
    w->next = p->idle;
    p->idle = w;
    pthread_cond_signal(&p->given);
    pthread_mutex_unlock(&p->lock);
}

// The run is at a call now. Returns `status`, that of the call before.
static int at_call(struct cuda_workspace *w, int status, const char *doing)
{
    if (status == CUDA_OK)
        w->doing = doing, w->step = NULL;
    return status;
}

static int launch_step(const struct cuda_plan *p, struct cuda_workspace *w, int i, cuda_stream stream)
{
    w->doing = "launching a step";
    w->step = &p->steps[i];
    return cuda_launch(p, w->step, w->step->way, w->base, stream);
}

static int launch_all(struct cuda_plan *p, struct cuda_workspace *w, cuda_stream stream)
{
    int status = CUDA_OK;
    pthread_mutex_lock(&p->launching);
    for (int i = 0; i < p->nb_steps && status == CUDA_OK; i++)
        status = launch_step(p, w, i, stream);
    pthread_mutex_unlock(&p->launching);
    return status;
}

// The library whose status a step's is; NULL: the driver's.
static const char *library_of(const struct cuda_step *s)
{
    bool conv = s && s->kind == CUDA_CONV;
    if (s && s->gemm && (s->kind == CUDA_GEMM || (conv && s->way.kernel == CUDA_CONV_GEMM)))
        return "cuBLASLt";
    return conv && s->way.kernel == CUDA_CONV_CUDNN ? "cuDNN" : NULL;
}

// The code for the status of a run's last call, whose words are kept for why().
static int finished(struct cuda_plan *p, const struct cuda_workspace *w, int status)
{
    const struct cuda_step *s = w->step;
    char text[160], spoilt[160] = "";
    if (status == CUDA_OK)
        return TACHY_OK;
    if (library_of(s))
        snprintf(text, sizeof(text), "%s's status %d", library_of(s), status);
    else
        tachy_cu_text(cu_of(p), status, text, sizeof(text));
    if (w->spoilt)
        tachy_cu_text(cu_of(p), w->spoilt, spoilt, sizeof(spoilt));
    const struct tachy_log words = words_of(p);
    tachy_msg(&words, TACHY_LOG_ERR, "%s%s%.40s%s%.60s: %s%s%s", w->doing, s ? " " : "", s ? s->label.op : "",
              s && *s->label.name ? " " : "", s ? s->label.name : "", text,
              w->spoilt ? "; its capture as a graph failed before: " : "", spoilt);
    return status == CUDA_OUT_OF_MEMORY && !library_of(s) ? TACHY_ERR_NOMEM : TACHY_ERR_EXTERNAL;
}

void cuda_why(struct tachy_plan *plan, char *text, size_t size)
{
    struct cuda_plan *p = (struct cuda_plan *)plan;
    pthread_mutex_lock(&p->lock);
    snprintf(text, size, "%s", p->why);
    pthread_mutex_unlock(&p->lock);
}

static int open_lanes(const struct cuda_plan *p, struct cuda_workspace *w)
{
    int status = CUDA_OK;
    for (int i = 0; i < p->nb_lanes && !status; i++) {
        if (i && !w->lane[i])
            status = cu_of(p)->stream_create(&w->lane[i], CUDA_STREAM_OWN_ORDER);
        if (!status && !w->ended[i])
            status = cu_of(p)->event_create(&w->ended[i], CUDA_EVENT_ORDERS);
    }
    return status;
}

// The run's stream waits for all lanes that were used.
static int join(const struct cuda_plan *p, struct cuda_workspace *w, bool *used)
{
    int status = CUDA_OK;
    for (int i = 1; i < p->nb_lanes && !status; i++) {
        if (used[i])
            status = cu_of(p)->event_record(w->ended[i], w->lane[i]);
        if (used[i] && !status)
            status = cu_of(p)->stream_wait_event(w->stream, w->ended[i], 0);
        used[i] = false;
    }
    return status;
}

// As launch_all() on the workspace's stream, with the lanes of a region in parallel; each has its own scratch.
static int launch_lanes(struct cuda_plan *p, struct cuda_workspace *w)
{
    const cuda_address scratch = w->base[BASE_SCRATCH];
    bool used[CUDA_LANES] = {false};
    int region = 0, status = CUDA_OK;
    pthread_mutex_lock(&p->launching);
    for (int i = 0; i < p->nb_steps && status == CUDA_OK; i++) {
        struct plan_lane at = p->steps[i].lane;
        if (at.region != region)
            status = join(p, w, used);
        if (at.region != region && at.region && !status)
            status = cu_of(p)->event_record(w->ended[0], w->stream);
        region = at.region;
        if (at.lane && !used[at.lane] && !status)
            status = cu_of(p)->stream_wait_event(w->lane[at.lane], w->ended[0], 0);
        used[at.lane] = at.lane > 0;
        w->base[BASE_SCRATCH] = scratch + p->scratch * (size_t)at.lane;
        if (!status)
            status = launch_step(p, w, i, at.lane ? w->lane[at.lane] : w->stream);
    }
    int joined = join(p, w, used);
    w->base[BASE_SCRATCH] = scratch;
    pthread_mutex_unlock(&p->launching);
    return status ? status : joined;
}

// Captures the steps as a graph. The stream is as before when this returns: the end of a capture takes its failure away.
static int capture(struct cuda_plan *p, struct cuda_workspace *w, struct cuda_graph *g)
{
    const struct tachy_cu *cu = cu_of(p);
    cuda_capture captured = NULL;
    bool lanes = p->lanes && p->nb_lanes > 1;
    int status = lanes ? open_lanes(p, w) : CUDA_OK;
    if (!status)
        status = cu->capture_begin(w->stream, CUDA_CAPTURE_THREAD);
    if (status)
        return status;
    int launched = lanes ? launch_lanes(p, w) : launch_all(p, w, w->stream);
    status = cu->capture_end(w->stream, &captured);
    status = launched ? launched : status;
    if (!status)
        status = cu->graph_make(&g->exec, captured, 0);
    if (captured)
        cu->capture_free(captured);
    if (status)
        g->exec = NULL;
    return status;
}

static struct cuda_graph *graph_of(const struct cuda_plan *p, struct cuda_workspace *w, const cuda_address *ends)
{
    size_t size = sizeof(*ends) * (size_t)nb_ends(p);
    for (int i = 0; i < CUDA_GRAPHS; i++)
        if (w->graphs[i].runs && !memcmp(w->graphs[i].ends, ends, size))
            return &w->graphs[i];
    struct cuda_graph *g = &w->graphs[w->turn++ % CUDA_GRAPHS];
    if (g->exec) {
        if (w->used)
            cu_of(p)->event_wait(w->done); // it may still run
        cu_of(p)->graph_free(g->exec);
    }
    memcpy(g->ends, ends, size);
    g->exec = NULL;
    g->runs = g->spoilt = 0;
    return g;
}

// Queues the plan's steps. The second run of the same tensors is captured first. Other threads' use of the GPU can
// spoil a capture, for example opening a decoder: the steps are then queued one by one, and a later run is captured.
static int queue_steps(struct cuda_plan *p, struct cuda_workspace *w, const cuda_address *ends, cuda_stream stream)
{
    enum { CAPTURES = 8 };
    const struct tachy_cu *cu = cu_of(p);
    struct cuda_graph *g = graph_of(p, w, ends);
    bool captures = cu->capture_begin && cu->capture_end && cu->capture_free && cu->graph_make && cu->graph_free &&
                    cu->graph_launch;
    at_call(w, CUDA_OK, "waiting for the run before");
    int status = w->used && w->last != stream ? cu->stream_wait_event(stream, w->done, 0) : CUDA_OK;
    cuda_set_bases(p, w, ends);
    w->spoilt = !status && g->runs == 1 && captures ? capture(p, w, g) : CUDA_OK;
    if (!at_call(w, status, "launching a captured run"))
        status = g->exec ? cu->graph_launch(g->exec, stream) : launch_all(p, w, stream);
    g->runs = status ? 0 : w->spoilt && ++g->spoilt < CAPTURES ? 1 : TACHY_MIN(g->runs + 1, 2);
    if (!at_call(w, status, "marking a run's end"))
        status = cu->event_record(w->done, stream);
    w->last = stream;
    w->used = true;
    return status;
}

int cuda_queue(struct tachy_plan *plan, const void *const in[], void *const out[], void *stream)
{
    struct cuda_plan *p = (struct cuda_plan *)plan;
    cuda_address ends[128];
    struct cuda_workspace *w;
    if (nb_ends(p) > (int)TACHY_ARRAY_SIZE(ends))
        return TACHY_ERR_UNSUPPORTED;
    for (int i = 0; i < nb_ends(p); i++)
        ends[i] = tachy_cu_address(i < p->nb_in ? in[i] : out[i - p->nb_in]);
    const struct tachy_log words = words_of(p);
    int err = tachy_device_enter(&p->gpu->device, &words);
    if (err < 0)
        return err;
    err = take(p, stream, false, &w);
    if (err == TACHY_OK) {
        err = finished(p, w, queue_steps(p, w, ends, stream));
        give(p, w);
    }
    tachy_device_leave(&p->gpu->device);
    return err;
}

// Tensors in host memory.

static int make_ends(struct cuda_plan *p, struct cuda_workspace *w, cuda_address *ends)
{
    size_t size = 0;
    for (int i = 0; i < nb_ends(p); i++)
        size += TACHY_ALIGN(p->end_bytes[i], 256);
    const struct tachy_log words = words_of(p);
    int err = w->ends ? TACHY_OK : tachy_gpu_alloc(p->gpu, size + 256, &w->ends, &words);
    cuda_address at = tachy_cu_address(w->ends);
    for (int i = 0; i < nb_ends(p); at += TACHY_ALIGN(p->end_bytes[i], 256), i++)
        ends[i] = at;
    return err;
}

static int run_timed(struct cuda_plan *p, struct cuda_workspace *w, const cuda_address *ends, uint64_t *end)
{
    int status = CUDA_OK;
    cuda_set_bases(p, w, ends);
    pthread_mutex_lock(&p->launching);
    for (int i = 0; i < p->nb_steps && !status; i++) {
        status = launch_step(p, w, i, w->stream);
        if (!status)
            status = cu_of(p)->stream_wait(w->stream);
        end[i] = tachy_now_ns();
    }
    pthread_mutex_unlock(&p->launching);
    return status;
}

static int run_host(struct cuda_plan *p, struct cuda_workspace *w, const cuda_address *ends, const void *const in[],
                    void *const out[], uint64_t *end)
{
    const struct tachy_cu *cu = cu_of(p);
    at_call(w, CUDA_OK, "waiting for the run before");
    int status = w->used && w->last != w->stream ? cu->stream_wait_event(w->stream, w->done, 0) : CUDA_OK;
    w->spoilt = CUDA_OK;
    at_call(w, status, "copying inputs");
    for (int i = 0; i < p->nb_in && !status; i++)
        status = cu->copy_to_device_async(ends[i], in[i], p->end_bytes[i], w->stream);
    if (!status)
        status = end ? run_timed(p, w, ends, end) : queue_steps(p, w, ends, w->stream);
    at_call(w, status, "copying outputs");
    for (int i = 0; i < p->nb_out && !status; i++)
        status = cu->copy_to_host_async(out[i], ends[p->nb_in + i], p->end_bytes[p->nb_in + i], w->stream);
    at_call(w, status, "waiting for a run");
    int waited = cu->stream_wait(w->stream); // also after a failure: the caller's memory may be in use
    return status ? status : waited;
}

int cuda_run(struct tachy_plan *plan, const void *const in[], void *const out[], const struct tachy_plan_helpers *helpers,
             uint64_t *end)
{
    struct cuda_plan *p = (struct cuda_plan *)plan;
    cuda_address *ends = malloc(sizeof(*ends) * (size_t)TACHY_MAX(nb_ends(p), 1));
    const struct tachy_log words = words_of(p);
    struct cuda_workspace *w;
    int err = ends ? tachy_device_enter(&p->gpu->device, &words) : TACHY_ERR_NOMEM;
    if (err < 0) {
        free(ends);
        return err;
    }
    err = take(p, NULL, true, &w); // runs of several threads go side by side, so each has a workspace
    if (err == TACHY_OK) {
        err = make_ends(p, w, ends);
        if (err == TACHY_OK)
            err = finished(p, w, run_host(p, w, ends, in, out, end));
        give(p, w);
    }
    tachy_device_leave(&p->gpu->device);
    free(ends);
    return err;
}
