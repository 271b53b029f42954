#include "base/base.h"
#include "plan/cuda/parts.h"

#include <math.h>
#include <stdlib.h>

// Building blocks for steps of every kind, and the table of operators with the file that builds each.

struct cuda_step *cuda_step(struct cuda_build *b, enum cuda_kind kind)
{
    struct cuda_plan *p = b->plan;
    if (p->nb_steps == p->max_steps) {
        int max = TACHY_MAX(64, 2 * p->max_steps);
        struct cuda_step *s = realloc(p->steps, sizeof(*s) * (size_t)max);
        if (!s)
            return NULL;
        p->steps = s;
        p->max_steps = max;
    }
    struct cuda_step *s = &p->steps[p->nb_steps++];
    memset(s, 0, sizeof(*s));
    s->kind = kind;
    return s;
}

void cuda_needs_scratch(struct cuda_build *b, size_t bytes)
{
    b->plan->scratch = TACHY_MAX(b->plan->scratch, TACHY_ALIGN(bytes, 256));
}

ptrdiff_t cuda_blob(struct cuda_build *b, size_t bytes)
{
    size_t size = TACHY_ALIGN(bytes, 256), at = b->nb_blob;
    if (b->trial) {
        b->nb_blob = at + size;
        return (ptrdiff_t)at;
    }
    if (at + size > b->max_blob) {
        size_t max = (at + size) * 3 / 2;
        uint8_t *blob = realloc(b->blob, max);
        if (!blob)
            return TACHY_ERR_NOMEM;
        memset(blob + b->max_blob, 0, max - b->max_blob);
        b->blob = blob;
        b->max_blob = max;
    }
    b->nb_blob = at + size;
    return (ptrdiff_t)at;
}

// As many zeros as all constants have bytes, of which the system has none to give before they are written.
static int reserve(struct cuda_build *b)
{
    size_t size = 1 << 20;
    for (int i = 0; i < b->g->nb_values; i++)
        if (b->g->values[i]->data && b->g->values[i]->uses)
            size += (size_t)tachy_value_elements(b->g->values[i]) * tachy_dtype_size(b->g->values[i]->dtype);
    b->blob = calloc(1, size);
    b->max_blob = size;
    return b->blob ? TACHY_OK : TACHY_ERR_NOMEM;
}

cuda_address cuda_floats(struct cuda_build *b, enum tachy_dtype t, const float *from, int64_t n)
{
    ptrdiff_t at = cuda_blob(b, (size_t)n * tachy_dtype_size(t));
    for (int64_t i = 0; at >= 0 && !b->trial && i < n; i++)
        cuda_store(b->blob + at, t, i, from[i]);
    return at < 0 ? 0 : cuda_at(BASE_WEIGHTS, (size_t)at);
}

bool cuda_value(struct cuda_build *b, const struct tachy_value *v, cuda_address *at)
{
    const struct plan_ref *r = &b->places.ref[v->id];
    if (!v->data) {
        *at = cuda_at(r->base, (size_t)r->offset);
        return true;
    }
    size_t bytes = (size_t)tachy_value_elements(v) * tachy_dtype_size(v->dtype);
    ptrdiff_t to = cuda_blob(b, bytes);
    if (to < 0)
        return false;
    if (!b->trial)
        memcpy(b->blob + to, v->data, bytes);
    *at = cuda_at(BASE_WEIGHTS, (size_t)to);
    return true;
}

struct tachy_nn_tensor cuda_tensor(const struct cuda_build *b, const struct tachy_value *v)
{
    const struct plan_ref *r = &b->places.ref[v->id];
    return (struct tachy_nn_tensor){cuda_at(r->base, (size_t)r->offset), r->v.pixel, r->v.row, r->v.image};
}

bool cuda_picture(struct cuda_build *b, const struct tachy_value *v, enum tachy_dtype t, struct tachy_nn_tensor *to)
{
    int64_t c = v->shape[1], hw = v->shape[2] * v->shape[3];
    if (!v->data) {
        *to = cuda_tensor(b, v);
        return v->dtype == t;
    }
    ptrdiff_t at = v->dtype == TACHY_F32 ? cuda_blob(b, (size_t)tachy_value_elements(v) * tachy_dtype_size(t)) : -1;
    for (int64_t i = 0; at >= 0 && !b->trial && i < tachy_value_elements(v); i++)
        cuda_store(b->blob + at, t, (i / (c * hw) * hw + i % hw) * c + i / hw % c, ((const float *)v->data)[i]);
    *to = tachy_nn_dense(cuda_at(BASE_WEIGHTS, (size_t)TACHY_MAX(at, 0)), (int)v->shape[2], (int)v->shape[3], (int)c);
    return at >= 0;
}

bool cuda_act(struct cuda_build *b, const struct tachy_node *n, const struct tachy_value *slope, struct tachy_nn_act *to)
{
    struct tachy_act act = plan_act(&n->attr.act);
    *to = (struct tachy_nn_act){act.kind, act.a, act.b, 0};
    if (n->attr.act.act != TACHY_PLAN_PRELU)
        return true;
    if (tachy_value_elements(slope) == 1) {
        to->kind = TACHY_ACT_LEAKY;
        to->a = (float)tachy_constant_at(slope, 0);
        return true;
    }
    to->slope = cuda_floats(b, TACHY_F32, slope->data, tachy_value_elements(slope));
    return to->slope;
}

static cuda_steps_fn *const steps_of[TACHY_OP_COUNT] = {
    [TACHY_OP_CONV] = cuda_steps_conv,         [TACHY_OP_MATMUL] = cuda_steps_matmul,
    [TACHY_OP_UNARY] = cuda_steps_elements,    [TACHY_OP_BINARY] = cuda_steps_elements,
    [TACHY_OP_SELECT] = cuda_steps_elements,   [TACHY_OP_CONCAT] = cuda_steps_concat,
    [TACHY_OP_SLICE] = cuda_steps_copy,        [TACHY_OP_PAD] = cuda_steps_pad,
    [TACHY_OP_TRANSPOSE] = cuda_steps_copy,    [TACHY_OP_RESHAPE] = cuda_steps_copy,
    [TACHY_OP_EXPAND] = cuda_steps_copy,       [TACHY_OP_RESIZE] = cuda_steps_resize,
    [TACHY_OP_POOL] = cuda_steps_pool,         [TACHY_OP_REDUCE] = cuda_steps_reduce,
    [TACHY_OP_SOFTMAX] = cuda_steps_softmax,   [TACHY_OP_ARG] = cuda_steps_arg,
    [TACHY_OP_LAYER_NORM] = cuda_steps_layer_norm, [TACHY_OP_GATHER] = cuda_steps_gather,
    [TACHY_OP_GATHER_EACH] = cuda_steps_gather, [TACHY_OP_GATHER_ND] = cuda_steps_gather,
    [TACHY_OP_SCATTER_EACH] = cuda_steps_scatter, [TACHY_OP_SCATTER_ND] = cuda_steps_scatter,
    [TACHY_OP_TOP] = cuda_steps_top,           [TACHY_OP_GRID_SAMPLE] = cuda_steps_grid,
    [TACHY_OP_CONV_INT8] = cuda_steps_conv_int8, [TACHY_OP_BINARY_INT8] = cuda_steps_int8,
    [TACHY_OP_TABLE] = cuda_steps_int8,
};

static int label(struct cuda_plan *p, int from, enum tachy_plan_op op, const char *name, const struct tachy_value *out)
{
    for (int i = from; i < p->nb_steps; i++) {
        char *copy = tachy_asprintf("%s", name ? name : "");
        if (!copy)
            return TACHY_ERR_NOMEM;
        p->steps[i].label = (struct tachy_plan_step){.op = tachy_plan_op_name(op), .name = copy,
                                                      .bytes = (size_t)tachy_value_elements(out) * tachy_dtype_size(out->dtype)};
    }
    return TACHY_OK;
}

// A node's steps; those that a squeeze, attention or a perceptron stands for have none.
static int steps_of_node(struct cuda_build *b, const struct tachy_node *n)
{
    enum cuda_scaled_role role = CUDA_SCALED_CONV;
    struct cuda_scaled *s = cuda_scaled_of(b, n, &role);
    struct cuda_attention attention;
    struct cuda_mlp mlp;
    if (cuda_attends(n, &attention))
        return n == attention.end ? cuda_steps_attention(b, &attention) : TACHY_OK;
    if (cuda_is_mlp(n, &mlp))
        return n == mlp.last ? cuda_steps_mlp(b, &mlp) : TACHY_OK;
    if (s && s->mean && n == cuda_squeeze_ends(s))
        return cuda_steps_squeeze(b, s);
    if (s && role != CUDA_SCALED_CONV && role != CUDA_SCALED_DEPTHWISE)
        return TACHY_OK;
    int err = s && role == CUDA_SCALED_CONV && !s->mean ? cuda_steps_scale(b, s) : TACHY_OK;
    if (err == TACHY_OK)
        err = steps_of[n->op] ? steps_of[n->op](b, n) : TACHY_ERR_UNSUPPORTED;
    if (err == TACHY_OK && cuda_pairs(n)) {
        struct cuda_step *step = &b->plan->steps[b->plan->nb_steps - 1];
        step->pairs = true;
        step->alone = n->out->uses == 1;
    }
    if (err == TACHY_OK && s && role == CUDA_SCALED_DEPTHWISE)
        cuda_sum_depthwise(b, s, &b->plan->steps[b->plan->nb_steps - 1]);
    return err;
}

static int add_steps(struct cuda_build *b)
{
    const struct tachy_graph *g = b->g;
    struct cuda_plan *p = b->plan;
    int err = TACHY_OK, from = 0;
    for (const struct tachy_node *n = g->first; n && err == TACHY_OK; n = n->next) {
        from = p->nb_steps;
        p->nodes++;
        err = steps_of_node(b, n);
        if (err == TACHY_ERR_UNSUPPORTED)
            return tachy_fail(g->log, err, "plan: %s %s is not built on a GPU in this form", tachy_plan_op_name(n->op),
                              n->name ? n->name : "");
        for (int i = from; i < p->nb_steps; i++) {
            p->steps[i].lane = b->lanes[n->out->id];
            p->nb_lanes = TACHY_MAX(p->nb_lanes, p->steps[i].lane.lane + 1);
        }
        if (err == TACHY_OK)
            err = label(p, from, n->op, n->name, n->out);
    }
    for (int i = 0; i < g->nb_out && err == TACHY_OK; i++) {
        from = p->nb_steps;
        if (b->places.ref[g->out[i]->id].base != BASE_INPUTS + g->nb_in + i)
            err = cuda_copy_output(b, g->out[i], i);
        if (err == TACHY_OK)
            err = label(p, from, TACHY_OP_TRANSPOSE, "output", g->out[i]);
    }
    return err;
}

static int set_ends(struct cuda_plan *p, const struct tachy_graph *g)
{
    p->nb_in = g->nb_in;
    p->nb_out = g->nb_out;
    p->end_bytes = calloc((size_t)(g->nb_in + g->nb_out) + 1, sizeof(*p->end_bytes));
    for (int i = 0; p->end_bytes && i < g->nb_in + g->nb_out; i++) {
        const struct tachy_value *v = i < g->nb_in ? g->in[i] : g->out[i - g->nb_in];
        p->end_bytes[i] = (size_t)tachy_value_elements(v) * tachy_dtype_size(v->dtype);
    }
    return p->end_bytes ? TACHY_OK : TACHY_ERR_NOMEM;
}

// Sets up the GPU and reads its properties.
static int set_device(struct cuda_build *b)
{
    struct cuda_plan *p = b->plan;
    const struct tachy_log *log = b->g->log;
    int err = tachy_gpu_open(&p->gpu, p->params.gpu, NULL, log);
    if (err == TACHY_OK && !p->params.kernels)
        err = tachy_cuda_need(&p->gpu->device, log);
    if (err == TACHY_OK)
        err = cuda_count(p, b->nb_blob) ? cuda_weights_share(&p->weights, p->gpu, b->blob, b->nb_blob, log) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = cuda_choose(p, log);
    size_t needed = b->nb_blob + cuda_run_bytes(p), limit = (size_t)p->params.memory_limit << 20;
    if (err == TACHY_ERR_NOMEM && limit && needed > limit)
        tachy_msg(log, TACHY_LOG_ERR, "plan: %.1f MiB of weights and %.1f MiB of a run are more than memory_limit=%d allows: "
                  "raise it, or take a smaller batch", (double)b->nb_blob / (1 << 20), (double)cuda_run_bytes(p) / (1 << 20),
                  p->params.memory_limit);
    else if (err == TACHY_ERR_NOMEM)
        tachy_msg(log, TACHY_LOG_ERR, "plan: GPU %d has no memory left for %zu MiB of weights and %zu MiB of a run: close what "
                  "else uses it, or take a smaller batch", p->params.gpu, b->nb_blob >> 20, (p->arena + p->scratch) >> 20);
    return err;
}

int cuda_open(struct tachy_plan **out, const struct tachy_graph *g, const struct tachy_plan_params *params)
{
    struct cuda_plan *p = calloc(1, sizeof(*p));
    *out = NULL;
    if (!p)
        return TACHY_ERR_NOMEM;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->launching, NULL);
    pthread_cond_init(&p->given, NULL);
    p->base.backend = &tachy_plan_cuda;
    p->nb_lanes = 1;
    p->lanes = true;
    p->params = params ? *params : (struct tachy_plan_params){0};
    p->error[0] = p->error[1] = NAN;
    if (p->params.deterministic)
        p->params.effort = 0;
    p->kernels = p->params.kernels ? p->params.kernels : tachy_nn_kernels();
    struct cuda_build b = {.plan = p, .g = g, .trial = p->params.trial};
    int err = cuda_find_lanes(&b);
    if (err == TACHY_OK)
        err = cuda_find_scaled(&b);
    if (err == TACHY_OK)
        err = cuda_find_seen(&b);
    if (err == TACHY_OK)
        cuda_keep_attention(&b), cuda_keep_mlps(&b), cuda_keep_spreads(&b), cuda_keep_moved(&b), cuda_keep_chains(&b);
    const struct plan_place_rules rules = {.own_types = true, .pixel = cuda_pixel, .joins = cuda_joins, .writes_part = cuda_writes_part, .through = b.through, .beside = b.beside, .lanes = b.lanes};
    if (err == TACHY_OK)
        err = plan_place(&b.places, g, &rules);
    if (err == TACHY_OK) {
        p->arena = b.places.arena;
        p->values = b.places.values;
        err = cuda_place_scaled(&b);
        cuda_keep_lanes(&b);
        if (err == TACHY_OK && !b.trial)
            err = reserve(&b);
        if (err == TACHY_OK)
            err = add_steps(&b);
        if (err == TACHY_OK && !b.trial)
            cuda_put_all(&b);
    }
    plan_place_free(&b.places);
    p->weight_bytes = b.nb_blob;
    if (err == TACHY_OK)
        err = set_ends(p, g);
    if (err == TACHY_OK && !b.trial)
        err = set_device(&b);
    free(b.blob);
    free(b.puts);
    free(b.scaled);
    free(b.lanes);
    free(b.beside);
    free(b.through);
    p->params.choice = NULL; // the caller's
    *out = &p->base;
    if (err < 0)
        tachy_plan_close(out);
    return err;
}

static int open_plan(struct tachy_plan **out, const struct tachy_graph *g, const struct tachy_plan_params *params)
{
    bool mixed = params && params->precision == TACHY_PLAN_MIXED;
    return mixed ? cuda_open_mixed(out, g, params) : cuda_open(out, g, params);
}

static void close_plan(struct tachy_plan *plan)
{
    struct cuda_plan *p = (struct cuda_plan *)plan;
    bool inside = p->gpu && tachy_device_enter(&p->gpu->device, NULL) == TACHY_OK;
    while (p->idle) {
        struct cuda_workspace *w = p->idle;
        p->idle = w->next;
        cuda_workspace_free(p, w);
    }
    for (int i = 0; i < p->nb_steps; i++) {
        tachy_nn_gemm_close(&p->steps[i].gemm);
        tachy_free((void *)(uintptr_t)p->steps[i].label.name);
    }
    cuda_engines_close(p);
    if (inside)
        tachy_device_leave(&p->gpu->device);
    cuda_weights_unref(&p->weights);
    tachy_gpu_unref(&p->gpu);
    free(p->steps);
    free(p->end_bytes);
    tachy_free(p->choice);
    pthread_mutex_destroy(&p->launching);
    pthread_cond_destroy(&p->given);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static void info(const struct tachy_plan *plan, struct tachy_plan_info *to)
{
    const struct cuda_plan *p = (const struct cuda_plan *)plan;
    *to = (struct tachy_plan_info){
        .steps = p->nb_steps,
        .nodes = p->nodes,
        .weights = p->weight_bytes,
        .shared = p->weights && cuda_weights_shared(p->weights) ? p->weight_bytes : 0,
        .arena = p->arena,
        .scratch = p->scratch * (size_t)p->nb_lanes,
        .values = p->values,
        .effort = p->effort,
        .choice_seconds = p->choice_seconds,
        .run_ms = p->run_ms,
        .default_run_ms = p->default_run_ms,
        .on_gpu = true,
        .gpu = p->params.gpu,
        .precision = p->params.precision,
        .single = p->single,
        .noise_error = p->error[0],
        .picture_error = p->error[1],
    };
}

static void step(const struct tachy_plan *plan, int i, struct tachy_plan_step *to)
{
    *to = ((const struct cuda_plan *)plan)->steps[i].label;
}

static const char *choice(const struct tachy_plan *plan) { return ((const struct cuda_plan *)plan)->choice; }

// Rows are not summed on the way: that pass is left out.
static const struct tachy_plan_pass *passes(const struct tachy_plan_params *p)
{
#define PASSES(...)                                                                                               \
    {"levels", tachy_plan_levels}, {"bytes", cuda_bytes}, {"turned", tachy_plan_turned}, {"common", tachy_plan_common}, {"pixels", cuda_pixels}, {"patches", cuda_patches}, {"focus", tachy_plan_focus}, \
        {"heads", tachy_plan_heads}, {"expectation", tachy_plan_expectation}, {"pools", tachy_plan_pools}, {"shuffle", tachy_plan_shuffle}, \
        {"moves", tachy_plan_moves}, {"spectra", cuda_spectra}, {"activations", tachy_plan_activations}, {"gelu", tachy_plan_gelu},           \
        {"prelu", tachy_plan_prelu}, {"groups", cuda_groups}, {"blend", tachy_plan_blend}, {"affine", tachy_plan_affine},                      \
        {"pad", tachy_plan_pad},                                                                                   \
        {"resize", tachy_plan_resize}, {"mean", tachy_plan_mean}, {"fuse", tachy_plan_fuse}, {"borders", cuda_borders},                       \
        {"factors", tachy_plan_factors}, __VA_ARGS__ {"sums", cuda_sums}, {"doubled", cuda_doubled}, {"deconv", tachy_plan_deconv}, {"blocks", tachy_plan_shuffle}, {"scale", tachy_plan_scale_whole},            \
        {"dead", tachy_plan_dead}, {"few", cuda_few}, {"volumes", cuda_volumes}, {"layout", tachy_plan_layout}, {"planes", cuda_planes}
#define ROWS {"rows", cuda_rows}, // attention of 16 bits reads rows in any order
    static const struct tachy_plan_pass single[] = {PASSES(), {NULL, NULL}};
    static const struct tachy_plan_pass mixed[] = {PASSES(ROWS), {NULL, NULL}};
    static const struct tachy_plan_pass half[] = {PASSES(ROWS), {"half", tachy_plan_half}, {NULL, NULL}};
    static const struct tachy_plan_pass bfloat[] = {PASSES(ROWS), {"half", tachy_plan_bfloat}, {NULL, NULL}};
    static const struct tachy_plan_pass int8[] = {{"int8", tachy_plan_int8}, PASSES(), {"half", tachy_plan_half}, {NULL, NULL}};
#undef ROWS
#undef PASSES
    switch (p ? p->precision : TACHY_PLAN_FP32) {
    case TACHY_PLAN_FP16: return half;
    case TACHY_PLAN_BF16: return bfloat;
    case TACHY_PLAN_MIXED: return mixed;
    case TACHY_PLAN_INT8: return int8;
    default: return single;
    }
}

const struct plan_backend tachy_plan_cuda = {
    .name = "cuda",
    .refuses = cuda_refuses,
    .passes = passes,
    .key = cuda_key,
    .about = cuda_about,
    .open = open_plan,
    .close = close_plan,
    .info = info,
    .choice = choice,
    .step = step,
    .run = cuda_run,
    .queue = cuda_queue,
    .why = cuda_why,
    .time = cuda_time,
};
