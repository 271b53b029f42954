#include "plan/f64.h"

#include "base/base.h"
#include "plan/f64_ops.h"

#include <math.h>
#include <stdlib.h>

struct tachy_f64 {
    int nb;
    double **x; // by a value's id
};

static f64_op_fn *const of[TACHY_OP_COUNT] = {
    [TACHY_OP_CONV] = f64_conv,           [TACHY_OP_DECONV] = f64_deconv,
    [TACHY_OP_MATMUL] = f64_matmul,       [TACHY_OP_UNARY] = f64_unary,
    [TACHY_OP_BINARY] = f64_binary,       [TACHY_OP_CONCAT] = f64_concat,
    [TACHY_OP_SLICE] = f64_slice,         [TACHY_OP_PAD] = f64_pad,
    [TACHY_OP_TRANSPOSE] = f64_transpose, [TACHY_OP_RESHAPE] = f64_reshape,
    [TACHY_OP_EXPAND] = f64_expand,       [TACHY_OP_RESIZE] = f64_resize,
    [TACHY_OP_POOL] = f64_pool,           [TACHY_OP_REDUCE] = f64_reduce,
    [TACHY_OP_SOFTMAX] = f64_softmax,     [TACHY_OP_SELECT] = f64_select,
    [TACHY_OP_GATHER] = f64_gather,       [TACHY_OP_GATHER_EACH] = f64_gather_each,
    [TACHY_OP_GATHER_ND] = f64_gather_nd, [TACHY_OP_SCATTER_EACH] = f64_scatter_each,
    [TACHY_OP_SCATTER_ND] = f64_scatter_nd, [TACHY_OP_TOP] = f64_top,
    [TACHY_OP_ARG] = f64_arg,
    [TACHY_OP_LAYER_NORM] = f64_layer_norm, [TACHY_OP_GROUP_NORM] = f64_group_norm,
    [TACHY_OP_GRID_SAMPLE] = f64_grid,
};

// Numbers of a type as doubles; whole numbers beyond 2^53 are rounded. False: the type is not known.
static bool widen(enum tachy_dtype t, const void *from, int64_t n, double *to)
{
    for (int64_t i = 0; i < n; i++)
        switch (t) {
        case TACHY_F32: to[i] = ((const float *)from)[i]; break;
        case TACHY_U8: to[i] = ((const uint8_t *)from)[i]; break;
        case TACHY_I8: to[i] = ((const int8_t *)from)[i]; break;
        case TACHY_I32: to[i] = ((const int32_t *)from)[i]; break;
        case TACHY_I64: to[i] = (double)((const int64_t *)from)[i]; break;
        default: return false;
        }
    return true;
}

static double *room(struct tachy_f64 *f, const struct tachy_value *v)
{
    size_t n = (size_t)TACHY_MAX(tachy_value_elements(v), 1);
    f->x[v->id] = calloc(n, sizeof(double));
    return f->x[v->id];
}

static int fill(struct tachy_f64 *f, const struct tachy_graph *g, const struct tachy_value *v,
                const void *data)
{
    if (f->x[v->id])
        return TACHY_OK;
    if (!room(f, v))
        return TACHY_ERR_NOMEM;
    return widen(v->dtype, data, tachy_value_elements(v), f->x[v->id])
               ? TACHY_OK
               : tachy_fail(g->log, TACHY_ERR_UNSUPPORTED, "plan: %s values in float64 are not built",
                            tachy_dtype_name(v->dtype));
}

static int run(struct tachy_f64 *f, const struct tachy_graph *g, const struct tachy_node *n)
{
    if (!of[n->op])
        return tachy_fail(g->log, TACHY_ERR_UNSUPPORTED, "plan: %s in float64 is not built",
                          tachy_plan_op_name(n->op));
    const double **in = calloc((size_t)TACHY_MAX(n->nb_in, 1), sizeof(*in));
    int err = in ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int i = 0; i < n->nb_in && err == TACHY_OK; i++) {
        if (n->in[i] && n->in[i]->data)
            err = fill(f, g, n->in[i], n->in[i]->data);
        if (err == TACHY_OK && n->in[i])
            in[i] = f->x[n->in[i]->id];
    }
    if (err == TACHY_OK && !room(f, n->out))
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK && tachy_value_elements(n->out))
        of[n->op](&(struct f64_node){n, in, f->x[n->out->id]});
    free(in);
    return err;
}

static void round_all(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)(float)x[i];
}

int tachy_f64_open(struct tachy_f64 **out, const struct tachy_graph *g, const void *const in[], bool rounded)
{
    struct tachy_f64 *f = *out = calloc(1, sizeof(*f));
    if (!f)
        return TACHY_ERR_NOMEM;
    f->nb = g->nb_values;
    f->x = calloc((size_t)TACHY_MAX(f->nb, 1), sizeof(*f->x));
    int err = f->x ? TACHY_OK : TACHY_ERR_NOMEM;
    for (int i = 0; i < g->nb_in && err == TACHY_OK; i++)
        err = fill(f, g, g->in[i], in[i]);
    for (const struct tachy_node *n = g->first; n && err == TACHY_OK; n = n->next) {
        err = run(f, g, n);
        if (err == TACHY_OK && rounded)
            round_all(f->x[n->out->id], tachy_value_elements(n->out));
    }
    for (int i = 0; i < g->nb_out && err == TACHY_OK; i++)
        if (g->out[i]->data)
            err = fill(f, g, g->out[i], g->out[i]->data);
    if (err < 0)
        tachy_f64_close(out);
    return err;
}

const double *tachy_f64_value(const struct tachy_f64 *f, const struct tachy_value *v)
{
    return v->id < f->nb ? f->x[v->id] : NULL;
}

void tachy_f64_close(struct tachy_f64 **pf)
{
    struct tachy_f64 *f = *pf;
    *pf = NULL;
    if (!f)
        return;
    for (int i = 0; f->x && i < f->nb; i++)
        free(f->x[i]);
    free(f->x);
    free(f);
}

double tachy_f64_error(const float *got, const double *want, int64_t n)
{
    double norm = 0, error = 0;
    for (int64_t i = 0; i < n; i++) {
        double g = (double)got[i], w = want[i];
        if (isnan(g) && isnan(w))
            continue;
        if (isnan(g) || isnan(w))
            return INFINITY;
        if (isinf(w) ? g == w : isinf(g) && (double)(float)w == g) // out of single precision's range
            continue;
        norm += w * w;
        error += (g - w) * (g - w);
    }
    return error > 0 ? sqrt(error / norm) : 0;
}
