#include "cuda/nn/gemm.h"

#include "base/base.h"
#include "cuda/loader.h"

#include <math.h>
#include <stdlib.h>

// cuBLASLt's matrices have adjacent columns, ours adjacent rows: what it is asked for is y^T = w x^T + add^T, with the
// bias along y's columns.
struct tachy_nn_gemm {
    const struct tachy_cublaslt *lt;
    cublaslt_handle handle;
    cublaslt_desc desc;
    cublaslt_layout w, x, add, y;
    float alpha, beta;
    bool bias;
    struct cublaslt_found *found;
    int n;
};

static int type_of(enum tachy_dtype t) { return t == TACHY_F16 ? CUBLAS_F16 : t == TACHY_BF16 ? CUBLAS_BF16 : CUBLAS_F32; }

// CUBLASLT_END_*; -1: it has none for this.
static int epilogue_of(const struct tachy_nn_gemm_shape *s)
{
    int bias = s->bias ? CUBLASLT_END_BIAS : 0;
    switch (s->act) {
    case TACHY_ACT_NONE: return bias ? bias : CUBLASLT_END_NONE;
    case TACHY_ACT_CLIP: return CUBLASLT_END_RELU | bias;
    case TACHY_ACT_GELU_TANH: return CUBLASLT_END_GELU | bias;
    default: return -1;
    }
}

static int open_desc(struct tachy_nn_gemm *g, const struct tachy_nn_gemm_shape *s, int epilogue)
{
    const struct tachy_cublaslt *lt = g->lt;
    bool tf32 = s->dtype == TACHY_F32 && s->tf32;
    int op_w = s->w_by_rows ? CUBLAS_NOT_TRANSPOSED : CUBLAS_TRANSPOSED, type = type_of(s->dtype);
    int op_x = s->x_by_columns ? CUBLAS_TRANSPOSED : CUBLAS_NOT_TRANSPOSED;
    int status = lt->desc_create(&g->desc, tf32 ? CUBLAS_COMPUTE_TF32 : CUBLAS_COMPUTE_F32, CUBLAS_F32);
    if (!status)
        status = lt->desc_set(g->desc, CUBLASLT_DESC_OP_A, &op_w, sizeof(op_w));
    if (!status)
        status = lt->desc_set(g->desc, CUBLASLT_DESC_OP_B, &op_x, sizeof(op_x));
    if (!status)
        status = lt->desc_set(g->desc, CUBLASLT_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
    if (!status && s->bias)
        status = lt->desc_set(g->desc, CUBLASLT_DESC_BIAS_TYPE, &type, sizeof(type));
    return status;
}

// `rows` adjacent elements, `columns` of them.
static int open_layout(const struct tachy_cublaslt *lt, cublaslt_layout *out, const struct tachy_nn_gemm_shape *s, int64_t rows,
                       int64_t columns, int64_t leading, int64_t next)
{
    int status = lt->layout_create(out, type_of(s->dtype), (uint64_t)rows, (uint64_t)columns, leading);
    if (!status && s->batch > 1)
        status = lt->layout_set(*out, CUBLASLT_LAYOUT_BATCH, &s->batch, sizeof(s->batch));
    if (!status && s->batch > 1)
        status = lt->layout_set(*out, CUBLASLT_LAYOUT_NEXT, &next, sizeof(next));
    return status;
}

static int open_layouts(struct tachy_nn_gemm *g, const struct tachy_nn_gemm_shape *s)
{
    int64_t m = s->m, n = s->n, k = s->k;
    int status = s->w_by_rows ? open_layout(g->lt, &g->w, s, n, k, s->w_row, s->w_next)
                              : open_layout(g->lt, &g->w, s, k, n, s->w_row, s->w_next);
    if (!status)
        status = s->x_by_columns ? open_layout(g->lt, &g->x, s, m, k, s->x_row, s->x_next)
                                 : open_layout(g->lt, &g->x, s, k, m, s->x_row, s->x_next);
    if (!status)
        status = open_layout(g->lt, &g->y, s, n, m, s->y_row, s->y_next);
    if (!status)
        status = s->add ? open_layout(g->lt, &g->add, s, n, m, s->add_row, s->add_next)
                        : open_layout(g->lt, &g->add, s, n, m, s->y_row, s->y_next);
    return status;
}

// If it is not told cuBLASLt takes every matrix to lie at a multiple of 256 bytes.
static int find(struct tachy_nn_gemm *g, const struct tachy_nn_gemm_shape *s, size_t workspace, int most)
{
    cublaslt_pref pref = NULL;
    int status = g->lt->pref_create(&pref), n = 0;
    uint32_t align = (uint32_t)s->align;
    for (int i = 0; i < 4 && align && !status; i++)
        status = g->lt->pref_set(pref, CUBLASLT_PREF_ALIGN_A + i, &align, sizeof(align));
    if (!status)
        status = g->lt->pref_set(pref, CUBLASLT_PREF_WORKSPACE, &workspace, sizeof(workspace));
    if (!status)
        status = g->lt->find(g->handle, g->desc, g->w, g->x, g->add, g->y, pref, most, g->found, &n);
    for (int i = 0; !status && i < n; i++)
        if (g->found[i].state == CUBLAS_OK && g->found[i].workspace <= workspace)
            g->found[g->n++] = g->found[i];
    if (pref)
        g->lt->pref_destroy(pref);
    return status;
}

// All but the algorithms.
static int open_shape(struct tachy_nn_gemm **out, const struct tachy_nn_gemm_shape *s, int most, const struct tachy_log *log)
{
    const struct tachy_cublaslt *lt;
    int epilogue = epilogue_of(s);
    *out = NULL;
    if (tachy_cublaslt_load(&lt, TACHY_LOG_VERBOSE, log) < 0)
        return TACHY_ERR_UNAVAILABLE;
    if (epilogue < 0 || (s->dtype != TACHY_F32 && s->dtype != TACHY_F16 && s->dtype != TACHY_BF16) || s->batch < 1) {
        tachy_msg(log, TACHY_LOG_VERBOSE, "cuBLASLt: it has no product with this activation or type");
        return TACHY_ERR_UNAVAILABLE;
    }
    struct tachy_nn_gemm *g = calloc(1, sizeof(*g));
    struct cublaslt_found *found = calloc((size_t)most, sizeof(*found));
    if (!g || !found) {
        free(g), free(found);
        return TACHY_ERR_NOMEM;
    }
    *g = (struct tachy_nn_gemm){.lt = lt, .found = found, .alpha = s->alpha != 0 ? s->alpha : 1, .beta = s->add, .bias = s->bias};
    int status = lt->create(&g->handle);
    if (!status)
        status = open_desc(g, s, epilogue);
    if (!status)
        status = open_layouts(g, s);
    if (status) {
        tachy_msg(log, TACHY_LOG_VERBOSE, "cuBLASLt: it does not take a product of %lld x %lld x %lld (status %d)", (long long)s->m,
                  (long long)s->n, (long long)s->k, status);
        tachy_nn_gemm_close(&g);
        return TACHY_ERR_UNAVAILABLE;
    }
    *out = g;
    return TACHY_OK;
}

int tachy_nn_gemm_open(struct tachy_nn_gemm **out, const struct tachy_nn_gemm_shape *shape, size_t workspace, int most,
                       int *n, const struct tachy_log *log)
{
    *n = 0;
    int err = open_shape(out, shape, TACHY_MAX(most, 1), log);
    if (err < 0)
        return err;
    int status = find(*out, shape, workspace, TACHY_MAX(most, 1));
    *n = (*out)->n;
    if (!status && *n)
        return TACHY_OK;
    tachy_msg(log, TACHY_LOG_VERBOSE, "cuBLASLt: it has no algorithm for a product of %lld x %lld x %lld (status %d)",
              (long long)shape->m, (long long)shape->n, (long long)shape->k, status);
    tachy_nn_gemm_close(out);
    return TACHY_ERR_UNAVAILABLE;
}

void tachy_nn_gemm_close(struct tachy_nn_gemm **pg)
{
    struct tachy_nn_gemm *g = *pg;
    *pg = NULL;
    if (!g)
        return;
    cublaslt_layout layouts[] = {g->w, g->x, g->add, g->y};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(layouts); i++)
        if (layouts[i])
            g->lt->layout_destroy(layouts[i]);
    if (g->desc)
        g->lt->desc_destroy(g->desc);
    if (g->handle)
        g->lt->destroy(g->handle);
    free(g->found);
    free(g);
}

size_t tachy_nn_gemm_workspace(const struct tachy_nn_gemm *g, int i) { return g->found[i].workspace; }

int tachy_nn_gemm_run(const struct tachy_nn_gemm *g, int i, const struct tachy_nn_gemm_io *io, cuda_stream stream)
{
    int status = g->bias ? g->lt->desc_set(g->desc, CUBLASLT_DESC_BIAS, &io->bias, sizeof(io->bias)) : 0;
    if (status)
        return status;
    return g->lt->run(g->handle, g->desc, &g->alpha, io->w, g->w, io->x, g->x, &g->beta, g->beta != 0 ? io->add : io->y, g->add,
                      io->y, g->y, &g->found[i].algo, io->workspace, g->found[i].workspace, stream);
}

size_t tachy_nn_gemm_version(void)
{
    const struct tachy_cublaslt *lt;
    int part[3] = {0};
    if (tachy_cublaslt_load(&lt, TACHY_LOG_VERBOSE, NULL) < 0)
        return 0;
    for (int i = 0; i < 3; i++)
        if (lt->property(i, &part[i]))
            return 0;
    return (size_t)part[0] * 10000 + (size_t)part[1] * 100 + (size_t)part[2];
}
