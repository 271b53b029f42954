#include "provider/reader.h"

#include "base/base.h"
#include "base/mix.h"

const char reader_wrong_shape[] = "its shape, as ONNX infers it, is not the one that is computed";

int reader_open(struct reader *r, const OrtApi *api, const struct plan_backend *backend, const struct tachy_log *log)
{
    *r = (struct reader){.api = api, .backend = backend};
    return tachy_graph_open(&r->g, log);
}

void reader_close(struct reader *r)
{
    tachy_graph_close(&r->g);
    tachy_index_free(&r->names);
}

bool reader_ok(const struct reader *r, OrtStatus *s)
{
    if (!s)
        return true;
    r->api->ReleaseStatus(s);
    return false;
}

static enum tachy_dtype type_of(ONNXTensorElementDataType t)
{
    switch (t) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT: return TACHY_F32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16: return TACHY_F16;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL: // 0 or 1
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8: return TACHY_U8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8: return TACHY_I8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32: return TACHY_I32;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64: return TACHY_I64;
    default: return 0;
    }
}

// NULL: not a tensor.
static const OrtTensorTypeAndShapeInfo *tensor_of(const struct reader *r, const OrtValueInfo *info)
{
    const OrtTypeInfo *type = NULL;
    const OrtTensorTypeAndShapeInfo *t = NULL;
    bool ok = reader_ok(r, r->api->GetValueInfoTypeInfo(info, &type)) && type &&
              reader_ok(r, r->api->CastTypeInfoToTensorInfo(type, &t));
    return ok ? t : NULL;
}

static bool shape_of(const struct reader *r, const OrtValueInfo *info, struct tachy_value *v)
{
    const OrtTensorTypeAndShapeInfo *t = tensor_of(r, info);
    ONNXTensorElementDataType e;
    size_t rank;
    if (!t || !reader_ok(r, r->api->GetTensorElementType(t, &e)) ||
        !reader_ok(r, r->api->GetDimensionsCount(t, &rank)) || rank > TACHY_MAX_RANK ||
        !reader_ok(r, r->api->GetDimensions(t, v->shape, rank)))
        return false;
    v->rank = (int)rank;
    v->dtype = type_of(e);
    return v->dtype && tachy_value_elements(v) >= 0; // a dimension that is not known is -1
}

// Data of a constant; false where ONNX Runtime cannot give it.
static bool data_of(const struct reader *r, const OrtValueInfo *info, struct tachy_value *v)
{
    bool constant = false;
    const OrtValue *value = NULL;
    const void *data = NULL;
    size_t bytes = 0;
    if (!reader_ok(r, r->api->ValueInfo_IsConstantInitializer(info, &constant)) || !constant)
        return true;
    if (!reader_ok(r, r->api->ValueInfo_GetInitializerValue(info, &value)) || !value ||
        !reader_ok(r, r->api->GetTensorSizeInBytes(value, &bytes)) ||
        bytes < (size_t)tachy_value_elements(v) * tachy_dtype_size(v->dtype) ||
        !reader_ok(r, r->api->GetTensorData(value, &data)))
        return false;
    v->data = data ? data : ""; // an empty tensor may have none
    return true;
}

static bool has_name(const void *graph, const void *name, int id)
{
    const char *own = ((const struct tachy_graph *)graph)->values[id]->name; // NULL: there was no memory
    return own && !strcmp(own, name);
}

struct tachy_value *reader_value(struct reader *r, const OrtValueInfo *info)
{
    const char *name = NULL;
    struct tachy_value like = {0};
    if (!info || !reader_ok(r, r->api->GetValueInfoName(info, &name)) || !name || !*name)
        return NULL;
    uint64_t hash = tachy_mix(0, name, strlen(name));
    int id = tachy_index_find(&r->names, hash, has_name, r->g, name);
    if (id >= 0)
        return r->g->values[id];
    if (!shape_of(r, info, &like) || !data_of(r, info, &like))
        return NULL;
    struct tachy_value *v = tachy_graph_constant(r->g, name, like.dtype, like.rank, like.shape, like.data);
    return v && tachy_index_add(&r->names, hash, v->id) == TACHY_OK ? v : NULL;
}

bool reader_free_dimension(const struct reader *r, const OrtGraph *graph, const char **input, const char **dimension)
{
    const OrtValueInfo *in[READER_INPUTS];
    const char *names[TACHY_MAX_RANK];
    int64_t shape[TACHY_MAX_RANK];
    size_t nb, rank;
    if (!reader_ok(r, r->api->Graph_GetNumInputs(graph, &nb)) || nb > READER_INPUTS ||
        !reader_ok(r, r->api->Graph_GetInputs(graph, in, nb)))
        return false;
    for (size_t i = 0; i < nb; i++) {
        const OrtTensorTypeAndShapeInfo *t = tensor_of(r, in[i]);
        if (!t || !reader_ok(r, r->api->GetDimensionsCount(t, &rank)) || rank > TACHY_MAX_RANK ||
            !reader_ok(r, r->api->GetDimensions(t, shape, rank)) ||
            !reader_ok(r, r->api->GetSymbolicDimensions(t, names, rank)) ||
            !reader_ok(r, r->api->GetValueInfoName(in[i], input)))
            continue;
        for (size_t d = 0; d < rank; d++)
            if (shape[d] < 0) {
                *dimension = names[d];
                return true;
            }
    }
    return false;
}

static const OrtOpAttr *attribute(const struct reader_node *n, const char *name, OrtOpAttrType type)
{
    const OrtOpAttr *a = NULL;
    OrtOpAttrType t;
    if (!reader_ok(n->r, n->r->api->Node_GetAttributeByName(n->ort, name, &a)) || !a ||
        !reader_ok(n->r, n->r->api->OpAttr_GetType(a, &t)) || t != type)
        return NULL;
    return a;
}

static bool read_attr(const struct reader_node *n, const char *name, OrtOpAttrType type, void *to,
                      size_t size, size_t *got)
{
    const OrtOpAttr *a = attribute(n, name, type);
    return a && reader_ok(n->r, n->r->api->ReadOpAttr(a, type, to, size, got));
}

int64_t reader_int(const struct reader_node *n, const char *name, int64_t otherwise)
{
    int64_t v;
    size_t got;
    return read_attr(n, name, ORT_OP_ATTR_INT, &v, sizeof(v), &got) ? v : otherwise;
}

float reader_float(const struct reader_node *n, const char *name, float otherwise)
{
    float v;
    size_t got;
    return read_attr(n, name, ORT_OP_ATTR_FLOAT, &v, sizeof(v), &got) ? v : otherwise;
}

int reader_ints(const struct reader_node *n, const char *name, int64_t *to, int max)
{
    size_t got = 0;
    if (!read_attr(n, name, ORT_OP_ATTR_INTS, to, sizeof(*to) * (size_t)max, &got))
        return -1;
    return (int)(got / sizeof(*to));
}

int reader_floats(const struct reader_node *n, const char *name, float *to, int max)
{
    size_t got = 0;
    if (!read_attr(n, name, ORT_OP_ATTR_FLOATS, to, sizeof(*to) * (size_t)max, &got))
        return -1;
    return (int)(got / sizeof(*to));
}

bool reader_string(const struct reader_node *n, const char *name, char *to, size_t size)
{
    size_t got = 0;
    memset(to, 0, size);
    if (!read_attr(n, name, ORT_OP_ATTR_STRING, to, size - 1, &got))
        return false;
    to[TACHY_MIN(got, size - 1)] = 0;
    return true;
}

int reader_const_ints(const struct reader_node *n, int i, int64_t *to, int max)
{
    const struct tachy_value *v = reader_in(n, i);
    int64_t count = v && v->data ? tachy_value_elements(v) : -1;
    if (count < 0 || count > max || (v->dtype != TACHY_I64 && v->dtype != TACHY_I32))
        return -1;
    for (int64_t k = 0; k < count; k++)
        to[k] = v->dtype == TACHY_I64 ? ((const int64_t *)v->data)[k] : ((const int32_t *)v->data)[k];
    return (int)count;
}

int reader_const_floats(const struct reader_node *n, int i, float *to, int max)
{
    const struct tachy_value *v = reader_in(n, i);
    int64_t count = v && v->data ? tachy_value_elements(v) : -1;
    if (count < 0 || count > max || v->dtype != TACHY_F32)
        return -1;
    memcpy(to, v->data, sizeof(*to) * (size_t)count);
    return (int)count;
}

bool reader_emit(struct reader_node *n, enum tachy_plan_op op, const struct tachy_plan_attr *a,
                 struct tachy_value *const *in, int nb_in, struct tachy_value *out)
{
    return out && tachy_graph_node(n->r->g, NULL, op, n->name, a, in, nb_in, out);
}

struct tachy_value *reader_temp(struct reader_node *n, int rank, const int64_t *shape)
{
    return tachy_graph_value(n->r->g, NULL, TACHY_F32, rank, shape);
}

struct tachy_value *reader_make(struct reader_node *n, enum tachy_plan_op op, const struct tachy_plan_attr *a,
                                struct tachy_value *const *in, int nb_in, int rank, const int64_t *shape)
{
    struct tachy_value *y = reader_temp(n, rank, shape);
    return y && reader_emit(n, op, a, in, nb_in, y) ? y : NULL;
}

struct tachy_value *reader_reshaped(struct reader_node *n, struct tachy_value *x, int rank, const int64_t *shape)
{
    if (!x || (x->rank == rank && !memcmp(x->shape, shape, sizeof(*shape) * (size_t)rank)))
        return x;
    if (x->data)
        return tachy_graph_constant(n->r->g, x->name, x->dtype, rank, shape, x->data);
    struct tachy_value *y = tachy_graph_value(n->r->g, NULL, x->dtype, rank, shape);
    return y && reader_emit(n, TACHY_OP_RESHAPE, NULL, &x, 1, y) ? y : NULL;
}

// A constant's numbers with their dimensions in another order. NULL: no memory.
static struct tachy_value *turned_constant(struct reader_node *n, const struct tachy_value *x, const int *perm,
                                           const int64_t *shape)
{
    int64_t count = tachy_value_elements(x), step[TACHY_MAX_RANK], at[TACHY_MAX_RANK] = {0}, from = 0;
    float *to = tachy_graph_alloc(n->r->g, sizeof(*to) * (size_t)TACHY_MAX(count, 1));
    for (int d = x->rank - 1; d >= 0; d--)
        step[d] = d == x->rank - 1 ? 1 : step[d + 1] * x->shape[d + 1];
    for (int64_t i = 0; to && i < count; i++) {
        to[i] = ((const float *)x->data)[from];
        for (int d = x->rank - 1; d >= 0; d--) {
            from += step[perm[d]];
            if (++at[d] < shape[d])
                break;
            from -= at[d] * step[perm[d]];
            at[d] = 0;
        }
    }
    return to ? tachy_graph_constant(n->r->g, x->name, TACHY_F32, x->rank, shape, to) : NULL;
}

struct tachy_value *reader_turned(struct reader_node *n, struct tachy_value *x, const int *perm)
{
    struct tachy_plan_attr a = {0};
    int64_t shape[TACHY_MAX_RANK];
    for (int d = 0; x && d < x->rank; d++) {
        a.perm[d] = perm[d];
        shape[d] = x->shape[perm[d]];
    }
    if (!x || x->data)
        return x ? turned_constant(n, x, perm, shape) : NULL;
    return reader_make(n, TACHY_OP_TRANSPOSE, &a, &x, 1, x->rank, shape);
}

struct tachy_value *reader_number(struct reader_node *n, float v)
{
    float *to = tachy_graph_alloc(n->r->g, sizeof(*to));
    if (!to)
        return NULL;
    *to = v;
    return tachy_graph_constant(n->r->g, NULL, TACHY_F32, 0, NULL, to);
}

struct tachy_value *reader_combine(struct reader_node *n, enum tachy_plan_binary how, struct tachy_value *a,
                                   struct tachy_value *b, struct tachy_value *out)
{
    struct tachy_plan_attr attr = {.binary = how};
    if (!a || !b)
        return NULL;
    int rank = TACHY_MAX(a->rank, b->rank);
    int64_t shape[TACHY_MAX_RANK];
    for (int i = 1; i <= rank; i++) {
        int64_t p = i <= a->rank ? a->shape[a->rank - i] : 1, q = i <= b->rank ? b->shape[b->rank - i] : 1;
        if (p != q && p != 1 && q != 1)
            return NULL;
        shape[rank - i] = p == 1 ? q : p;
    }
    if (!out)
        out = tachy_graph_value(n->r->g, NULL, a->dtype, rank, shape);
    return out && reader_emit(n, TACHY_OP_BINARY, &attr, (struct tachy_value *[]){a, b}, 2, out) ? out : NULL;
}

struct tachy_value *reader_apply(struct reader_node *n, enum tachy_plan_act act, float a, float b,
                                 struct tachy_value *x, struct tachy_value *out)
{
    struct tachy_plan_attr attr = {.act = {act, a, b}};
    if (x && !out)
        out = tachy_graph_value(n->r->g, NULL, x->dtype, x->rank, x->shape);
    return x && out && reader_emit(n, TACHY_OP_UNARY, &attr, &x, 1, out) ? out : NULL;
}

// Operands of a node. More than fit: the node is not read.
static bool operands(struct reader_node *n)
{
    const OrtApi *api = n->r->api;
    const OrtValueInfo *in[READER_INPUTS] = {0}, *out[READER_OUTPUTS] = {0};
    size_t nb_in, nb_out;
    if (!reader_ok(n->r, api->Node_GetNumInputs(n->ort, &nb_in)) || nb_in > READER_INPUTS ||
        !reader_ok(n->r, api->Node_GetNumOutputs(n->ort, &nb_out)) || nb_out > READER_OUTPUTS ||
        !nb_out || !reader_ok(n->r, api->Node_GetInputs(n->ort, in, nb_in)) ||
        !reader_ok(n->r, api->Node_GetOutputs(n->ort, out, nb_out)))
        return false;
    n->nb_in = (int)nb_in;
    n->nb_out = (int)nb_out;
    for (int i = 0; i < n->nb_in; i++) {
        const char *name = NULL;
        n->in[i] = reader_value(n->r, in[i]);
        if (!n->in[i] && in[i] && reader_ok(n->r, api->GetValueInfoName(in[i], &name)) && name && *name)
            return false; // there, but nothing of ours
    }
    for (int i = 0; i < n->nb_out; i++)
        n->out[i] = reader_value(n->r, out[i]);
    return n->out[0];
}

// Removes the nodes added after `last`.
static void undo(struct tachy_graph *g, const struct tachy_node *last)
{
    while (g->last && g->last != last)
        tachy_graph_remove(g, g->last);
}

const char *reader_add(struct reader *r, const OrtNode *node)
{
    struct reader_node n = {.r = r, .ort = node};
    if (!reader_ok(r, r->api->Node_GetOperatorType(node, &n.op)) ||
        !reader_ok(r, r->api->Node_GetDomain(node, &n.domain)) ||
        !reader_ok(r, r->api->Node_GetName(node, &n.name)) ||
        !reader_ok(r, r->api->Node_GetSinceVersion(node, &n.since)))
        return "a node that ONNX Runtime does not describe";
    if (n.domain && *n.domain && strcmp(n.domain, "ai.onnx") && strcmp(n.domain, "com.microsoft"))
        return "an operator of another domain";
    if (!operands(&n))
        return "values of unknown shape or type";
    struct tachy_node *last = r->g->last;
    const char *why = reader_convert(&n);
    for (struct tachy_node *m = last ? last->next : r->g->first; m && !why; m = m->next) {
        why = tachy_node_wrong(m);
        why = why ? why : r->backend->refuses(m);
    }
    if (why)
        undo(r->g, last);
    return why;
}
