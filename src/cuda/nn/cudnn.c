#include "cuda/nn/cudnn.h"

#include "base/base.h"
#include "cuda/loader.h"

#include <math.h>
#include <stdlib.h>

// A convolution is a graph of operations: the convolution itself, then one operation for each part of the epilogue. The
// heuristics name engines for it, and an execution plan is an engine made ready.

enum { DESCS = 48, IDS = 5 };
enum { ID_X = 1, ID_W, ID_BIAS, ID_ADD, ID_Y, ID_VIRTUAL }; // names of tensors

struct tachy_nn_cudnn {
    const struct tachy_cudnn *fn;
    cudnn_handle handle;
};

struct engine {
    cudnn_desc plan;
    size_t workspace;
};

struct tachy_nn_cudnn_conv {
    const struct tachy_nn_cudnn *d;
    cudnn_desc made[DESCS]; // of the graph, in the order of creation
    int nb_made, status;    // status: of the first call that failed
    int64_t ids;            // virtual tensors
    bool bias, add;
    struct engine *engines;
    int n;
};

int tachy_nn_cudnn_open(struct tachy_nn_cudnn **out, const struct tachy_log *log)
{
    const struct tachy_cudnn *fn;
    *out = NULL;
    if (tachy_cudnn_load(&fn, TACHY_LOG_VERBOSE, log) < 0)
        return TACHY_ERR_UNAVAILABLE;
    struct tachy_nn_cudnn *d = calloc(1, sizeof(*d));
    if (!d)
        return TACHY_ERR_NOMEM;
    d->fn = fn;
    int status = fn->create(&d->handle);
    if (status) {
        tachy_msg(log, TACHY_LOG_VERBOSE, "cuDNN does not start (status %d): convolutions run on other kernels", status);
        free(d);
        return TACHY_ERR_UNAVAILABLE;
    }
    *out = d;
    return TACHY_OK;
}

void tachy_nn_cudnn_close(struct tachy_nn_cudnn **pd)
{
    if (*pd)
        (*pd)->fn->destroy((*pd)->handle);
    free(*pd);
    *pd = NULL;
}

int tachy_nn_cudnn_version(void)
{
    const struct tachy_cudnn *fn;
    int part[3] = {0};
    if (tachy_cudnn_load(&fn, TACHY_LOG_VERBOSE, NULL) < 0)
        return 0;
    for (int i = 0; i < 3; i++)
        if (fn->property(i, &part[i]))
            return 0;
    return part[0] * 10000 + part[1] * 100 + part[2];
}

static int type_of(enum tachy_dtype t) { return t == TACHY_F16 ? CUDNN_F16 : t == TACHY_BF16 ? CUDNN_BF16 : CUDNN_F32; }

// A descriptor that is destroyed with the convolution; NULL after a failure, which the calls below pass on.
static cudnn_desc create(struct tachy_nn_cudnn_conv *v, int type)
{
    cudnn_desc desc = NULL;
    if (!v->status)
        v->status = v->nb_made < DESCS ? v->d->fn->desc_create(type, &desc) : -1;
    if (!v->status)
        v->made[v->nb_made++] = desc;
    return desc;
}

static void set(struct tachy_nn_cudnn_conv *v, cudnn_desc desc, int name, int type, int64_t n, const void *values)
{
    if (!v->status)
        v->status = v->d->fn->desc_set(desc, name, type, n, values);
}

static void set_desc(struct tachy_nn_cudnn_conv *v, cudnn_desc desc, int name, cudnn_desc value)
{
    set(v, desc, name, CUDNN_IS_DESC, 1, &value);
}

static cudnn_desc finish(struct tachy_nn_cudnn_conv *v, cudnn_desc desc)
{
    if (!v->status)
        v->status = v->d->fn->desc_finish(desc);
    return desc;
}

// A tensor [n][c][h][w]; id ID_VIRTUAL: one in float32 that stays within the kernel.
static cudnn_desc tensor(struct tachy_nn_cudnn_conv *v, int64_t id, int type, const int64_t size[4], const int64_t stride[4])
{
    cudnn_desc t = create(v, CUDNN_DESC_TENSOR);
    bool is_virtual = id == ID_VIRTUAL;
    int64_t align = 16;
    if (is_virtual)
        id += v->ids++, type = CUDNN_F32;
    set(v, t, CUDNN_TENSOR_TYPE, CUDNN_IS_DATA_TYPE, 1, &type);
    set(v, t, CUDNN_TENSOR_DIMENSIONS, CUDNN_IS_INT64, 4, size);
    set(v, t, CUDNN_TENSOR_STRIDES, CUDNN_IS_INT64, 4, stride);
    set(v, t, CUDNN_TENSOR_ID, CUDNN_IS_INT64, 1, &id);
    set(v, t, CUDNN_TENSOR_ALIGNMENT, CUDNN_IS_INT64, 1, &align);
    if (is_virtual)
        set(v, t, CUDNN_TENSOR_VIRTUAL, CUDNN_IS_BOOL, 1, &(bool){true});
    return finish(v, t);
}

static cudnn_desc picture(struct tachy_nn_cudnn_conv *v, int64_t id, int type, const struct tachy_nn_tensor *t, int n, int c, int h, int w)
{
    return tensor(v, id, type, (int64_t[]){n, c, h, w}, (int64_t[]){t->image, 1, t->row, t->pixel});
}

static cudnn_desc forward(struct tachy_nn_cudnn_conv *v, const struct tachy_conv_shape *s, cudnn_desc x, cudnn_desc w, cudnn_desc y)
{
    const int64_t two = 2;
    cudnn_desc conv = create(v, CUDNN_DESC_CONVOLUTION);
    set(v, conv, CUDNN_CONVOLUTION_PRECISION, CUDNN_IS_DATA_TYPE, 1, &(int){CUDNN_F32});
    set(v, conv, CUDNN_CONVOLUTION_MODE, CUDNN_IS_CONVOLUTION_MODE, 1, &(int){CUDNN_CORRELATION});
    set(v, conv, CUDNN_CONVOLUTION_DIMENSIONS, CUDNN_IS_INT64, 1, &two);
    set(v, conv, CUDNN_CONVOLUTION_STRIDES, CUDNN_IS_INT64, two, (int64_t[]){s->stride_h, s->stride_w});
    set(v, conv, CUDNN_CONVOLUTION_DILATIONS, CUDNN_IS_INT64, two, (int64_t[]){s->dil_h, s->dil_w});
    set(v, conv, CUDNN_CONVOLUTION_BEFORE, CUDNN_IS_INT64, two, (int64_t[]){s->pad_top, s->pad_left});
    set(v, conv, CUDNN_CONVOLUTION_AFTER, CUDNN_IS_INT64, two, (int64_t[]){s->pad_bottom, s->pad_right});
    finish(v, conv);
    cudnn_desc op = create(v, CUDNN_DESC_CONVOLUTION_FORWARD);
    set_desc(v, op, CUDNN_FORWARD_CONVOLUTION, conv);
    set_desc(v, op, CUDNN_FORWARD_X, x);
    set_desc(v, op, CUDNN_FORWARD_W, w);
    set_desc(v, op, CUDNN_FORWARD_Y, y);
    set(v, op, CUDNN_FORWARD_ALPHA, CUDNN_IS_FLOAT, 1, &(float){1});
    set(v, op, CUDNN_FORWARD_BETA, CUDNN_IS_FLOAT, 1, &(float){0});
    return finish(v, op);
}

// cuDNN's mode of an activation; -1: it has none.
static int mode_of(enum tachy_act_kind k)
{
    switch (k) {
    case TACHY_ACT_CLIP:
    case TACHY_ACT_LEAKY: return CUDNN_DO_RELU;
    case TACHY_ACT_SWISH: return CUDNN_DO_SWISH;
    case TACHY_ACT_SIGMOID: return CUDNN_DO_SIGMOID;
    case TACHY_ACT_TANH: return CUDNN_DO_TANH;
    case TACHY_ACT_GELU: return CUDNN_DO_GELU;
    case TACHY_ACT_GELU_TANH: return CUDNN_DO_GELU_TANH;
    default: return -1;
    }
}

// y = x + b, or y = act(x) if there is no b.
static cudnn_desc pointwise(struct tachy_nn_cudnn_conv *v, const struct tachy_nn_act *act, cudnn_desc x, cudnn_desc b, cudnn_desc y)
{
    int mode = b ? CUDNN_DO_ADD : mode_of(act->kind);
    cudnn_desc how = create(v, CUDNN_DESC_POINTWISE);
    set(v, how, CUDNN_POINTWISE_MODE, CUDNN_IS_POINTWISE_MODE, 1, &mode);
    set(v, how, CUDNN_POINTWISE_PRECISION, CUDNN_IS_DATA_TYPE, 1, &(int){CUDNN_F32});
    if (!b && act->kind == TACHY_ACT_CLIP) {
        set(v, how, CUDNN_POINTWISE_RELU_LOWER, CUDNN_IS_DOUBLE, 1, &(double){act->a});
        if (!isinf(act->b))
            set(v, how, CUDNN_POINTWISE_RELU_UPPER, CUDNN_IS_DOUBLE, 1, &(double){act->b});
    }
    if (!b && act->kind == TACHY_ACT_LEAKY)
        set(v, how, CUDNN_POINTWISE_RELU_SLOPE, CUDNN_IS_DOUBLE, 1, &(double){act->a});
    if (!b && act->kind == TACHY_ACT_SWISH)
        set(v, how, CUDNN_POINTWISE_SWISH_BETA, CUDNN_IS_DOUBLE, 1, &(double){act->a});
    finish(v, how);
    cudnn_desc op = create(v, CUDNN_DESC_POINTWISE_OPERATION);
    set_desc(v, op, CUDNN_OPERATION_POINTWISE, how);
    set_desc(v, op, CUDNN_OPERATION_X, x);
    if (b)
        set_desc(v, op, CUDNN_OPERATION_B, b);
    set_desc(v, op, CUDNN_OPERATION_Y, y);
    return finish(v, op);
}

// The graph of the convolution and its epilogue.
static cudnn_desc graph(struct tachy_nn_cudnn_conv *v, const struct tachy_nn_conv *a)
{
    const struct tachy_conv_shape *s = &a->shape;
    const struct tachy_nn_epilogue *e = &a->epilogue;
    const int h = tachy_conv_out_h(s), w = tachy_conv_out_w(s), type = type_of(a->dtype);
    const struct tachy_nn_tensor dense = tachy_nn_dense(0, h, w, s->cout), taps = tachy_nn_dense(0, s->kh, s->kw, s->cin),
                                 one = tachy_nn_dense(0, 1, 1, s->cout);
    cudnn_desc ops[5], after[4] = {NULL}, y = picture(v, ID_Y, type, &a->out, s->n, s->cout, h, w), from;
    int n = 0, nb = 0;
    if (v->add && !e->add_last)
        after[n++] = picture(v, ID_ADD, type, &e->add, s->n, s->cout, h, w);
    if (v->bias)
        after[n++] = picture(v, ID_BIAS, type, &one, 1, s->cout, 1, 1);
    if (e->act.kind != TACHY_ACT_NONE)
        after[n++] = NULL;
    if (v->add && e->add_last)
        after[n++] = picture(v, ID_ADD, type, &e->add, s->n, s->cout, h, w);
    from = n ? picture(v, ID_VIRTUAL, type, &dense, s->n, s->cout, h, w) : y;
    ops[nb++] = forward(v, s, picture(v, ID_X, type, &a->in, s->n, s->cin, s->h, s->w),
                        picture(v, ID_W, type, &taps, s->cout, s->cin, s->kh, s->kw), from);
    for (int i = 0; i < n; i++) {
        cudnn_desc to = i + 1 < n ? picture(v, ID_VIRTUAL, type, &dense, s->n, s->cout, h, w) : y;
        ops[nb++] = pointwise(v, &e->act, from, after[i], to);
        from = to;
    }
    cudnn_desc g = create(v, CUDNN_DESC_OPERATION_GRAPH);
    set(v, g, CUDNN_GRAPH_HANDLE, CUDNN_IS_HANDLE, 1, &v->d->handle);
    set(v, g, CUDNN_GRAPH_OPERATIONS, CUDNN_IS_DESC, nb, ops);
    return finish(v, g);
}

// True if cuDNN compiles the configuration's engine when it is opened.
static bool compiles(const struct tachy_cudnn *fn, cudnn_desc config)
{
    int notes[CUDNN_NOTES] = {0};
    int64_t n = 0;
    bool found = false;
    cudnn_desc engine = NULL;
    if (!fn->desc_create(CUDNN_DESC_ENGINE, &engine) && !fn->desc_get(config, CUDNN_CONFIG_ENGINE, CUDNN_IS_DESC, 1, &n, &engine) &&
        !fn->desc_get(engine, CUDNN_ENGINE_NOTES, CUDNN_IS_NOTE, CUDNN_NOTES, &n, notes))
        for (int i = 0; i < n && i < CUDNN_NOTES; i++)
            found = found || notes[i] == CUDNN_NOTE_COMPILES;
    if (engine)
        fn->desc_destroy(engine);
    return found;
}

// Makes the configuration's engine ready. False: it does not run this.
static bool make_ready(const struct tachy_nn_cudnn *d, cudnn_desc config, size_t most, struct engine *e)
{
    const struct tachy_cudnn *fn = d->fn;
    int64_t size = 0, n = 0;
    if (fn->desc_create(CUDNN_DESC_EXECUTION_PLAN, &e->plan))
        return false;
    if (!fn->desc_set(e->plan, CUDNN_PLAN_HANDLE, CUDNN_IS_HANDLE, 1, &d->handle) &&
        !fn->desc_set(e->plan, CUDNN_PLAN_CONFIG, CUDNN_IS_DESC, 1, &config) && !fn->desc_finish(e->plan) &&
        !fn->desc_get(e->plan, CUDNN_PLAN_WORKSPACE, CUDNN_IS_INT64, 1, &n, &size) && size >= 0 && (size_t)size <= most) {
        e->workspace = (size_t)size;
        return true;
    }
    fn->desc_destroy(e->plan);
    return false;
}

static void find(struct tachy_nn_cudnn_conv *v, cudnn_desc graph_of, size_t workspace, int most, cudnn_desc *configs)
{
    const struct tachy_cudnn *fn = v->d->fn;
    int64_t n = 0, got = 0;
    cudnn_desc heuristic = create(v, CUDNN_DESC_ENGINE_HEURISTIC);
    set_desc(v, heuristic, CUDNN_HEURISTIC_GRAPH, graph_of);
    set(v, heuristic, CUDNN_HEURISTIC_MODE, CUDNN_IS_HEURISTIC, 1, &(int){CUDNN_HEURISTIC});
    finish(v, heuristic);
    while (!v->status && n < most && !(v->status = fn->desc_create(CUDNN_DESC_ENGINE_CONFIG, &configs[n])))
        n++;
    if (!v->status)
        v->status = fn->desc_get(heuristic, CUDNN_HEURISTIC_RESULTS, CUDNN_IS_DESC, n, &got, configs);
    for (int64_t i = 0; i < got && i < n && !v->status; i++)
        if (!compiles(fn, configs[i]) && make_ready(v->d, configs[i], workspace, &v->engines[v->n]))
            v->n++;
    for (int64_t i = 0; i < n; i++)
        fn->desc_destroy(configs[i]);
}

bool tachy_nn_cudnn_takes(const struct tachy_nn_conv *a)
{
    const struct tachy_conv_shape *s = &a->shape;
    const struct tachy_nn_tensor *t[] = {&a->in, &a->out, &a->epilogue.add};
    bool fits = (a->dtype == TACHY_F16 || a->dtype == TACHY_BF16) && s->groups == 1 && a->planes <= 1 && s->cin % 8 == 0 && s->cout % 8 == 0 &&
                (a->epilogue.act.kind == TACHY_ACT_NONE || mode_of(a->epilogue.act.kind) >= 0);
    fits = fits && (!a->epilogue.add.data || a->epilogue.add.image || s->n == 1);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(t); i++)
        fits = fits && t[i]->pixel % 8 == 0 && t[i]->row % 8 == 0 && t[i]->image % 8 == 0;
    return fits;
}

int tachy_nn_cudnn_conv_open(struct tachy_nn_cudnn_conv **out, struct tachy_nn_cudnn *d, const struct tachy_nn_conv *a,
                             size_t workspace, int most, int *n, const struct tachy_log *log)
{
    struct tachy_nn_cudnn_conv *v = calloc(1, sizeof(*v));
    cudnn_desc *configs = calloc((size_t)most, sizeof(*configs));
    *n = 0, *out = NULL;
    if (v)
        v->engines = calloc((size_t)most, sizeof(*v->engines));
    if (!v || !configs || !v->engines) {
        tachy_nn_cudnn_conv_close(&v);
        free(configs);
        return TACHY_ERR_NOMEM;
    }
    v->d = d, v->bias = a->bias, v->add = a->epilogue.add.data;
    find(v, graph(v, a), workspace, most, configs);
    free(configs);
    *n = v->n;
    *out = v;
    if (v->n)
        return TACHY_OK;
    tachy_msg(log, TACHY_LOG_VERBOSE, "cuDNN: no engine for a convolution of %dx%d taps, %d to %d channels (status %d)", a->shape.kh,
              a->shape.kw, a->shape.cin, a->shape.cout, v->status);
    tachy_nn_cudnn_conv_close(out);
    return TACHY_ERR_UNAVAILABLE;
}

void tachy_nn_cudnn_conv_close(struct tachy_nn_cudnn_conv **pv)
{
    struct tachy_nn_cudnn_conv *v = *pv;
    *pv = NULL;
    if (!v)
        return;
    for (int i = 0; i < v->n; i++)
        v->d->fn->desc_destroy(v->engines[i].plan);
    while (v->nb_made)
        v->d->fn->desc_destroy(v->made[--v->nb_made]);
    free(v->engines);
    free(v);
}

size_t tachy_nn_cudnn_conv_workspace(const struct tachy_nn_cudnn_conv *v, int i) { return v->engines[i].workspace; }

int tachy_nn_cudnn_conv_run(const struct tachy_nn_cudnn_conv *v, int i, const struct tachy_nn_conv *a,
                            const struct tachy_nn_cudnn_io *io, cuda_stream stream)
{
    const struct tachy_cudnn *fn = v->d->fn;
    int64_t ids[IDS] = {ID_X, ID_W, ID_Y};
    cuda_address at[IDS] = {a->in.data, a->weights, a->out.data};
    int64_t n = 3;
    cudnn_desc pack = NULL;
    if (v->bias)
        ids[n] = ID_BIAS, at[n++] = io->bias;
    if (v->add)
        ids[n] = ID_ADD, at[n++] = a->epilogue.add.data;
    int status = fn->set_stream(v->d->handle, stream);
    if (!status)
        status = fn->desc_create(CUDNN_DESC_VARIANT_PACK, &pack);
    if (!status)
        status = fn->desc_set(pack, CUDNN_PACK_IDS, CUDNN_IS_INT64, n, ids);
    if (!status)
        status = fn->desc_set(pack, CUDNN_PACK_POINTERS, CUDNN_IS_POINTER, n, at);
    if (!status)
        status = fn->desc_set(pack, CUDNN_PACK_WORKSPACE, CUDNN_IS_POINTER, 1, &io->workspace);
    if (!status)
        status = fn->desc_finish(pack);
    if (!status)
        status = fn->run(v->d->handle, v->engines[i].plan, pack);
    if (pack)
        fn->desc_destroy(pack);
    return status;
}
