#include "model/import.h"

#include "base/base.h"

#include <stdio.h>

// Shared by all operators' translations: forms, constants, failures.

const char *import_op_name(const struct tflite_op *op, char *buf, size_t size)
{
    const char *name = tflite_code_name(op->code);
    if (op->code != TFLITE_CUSTOM && name)
        return name;
    if (op->code != TFLITE_CUSTOM) {
        snprintf(buf, size, "builtin %d", op->code);
        return buf;
    }
    size_t n = 0; // a custom name may hold anything: keep what is printable
    for (; n < op->custom_size && n + 1 < size; n++) {
        char c = op->custom[n];
        buf[n] = c > ' ' && c <= '~' && c != '"' && c != '\\' ? c : '?';
    }
    buf[n] = '\0';
    return buf;
}

int import_unsupported(const struct import *im, const char *what)
{
    char buf[64];
    return tachy_fail(im->log, TACHY_ERR_UNSUPPORTED,
                      "%s: operator %d (%s) cannot be imported: %s", im->path, im->op_index,
                      import_op_name(im->op, buf, sizeof(buf)), what);
}

int import_damaged(const struct import *im, const char *what)
{
    char buf[64];
    return tachy_fail(im->log, TACHY_ERR_FORMAT, "%s: operator %d (%s) is damaged: %s", im->path,
                      im->op_index, import_op_name(im->op, buf, sizeof(buf)), what);
}

const struct tflite_tensor *import_tensor(const struct import *im, int i)
{
    int t = i < im->op->n_in ? tflite_in(im->m, im->op, i) : -1;
    return t < 0 ? NULL : &im->m->tensors[t];
}

const struct tflite_tensor *import_result(const struct import *im, int i)
{
    return i < im->op->n_out ? &im->m->tensors[tflite_out(im->m, im->op, i)] : NULL;
}

struct onnx_shape import_shape(const struct tflite_tensor *t)
{
    struct onnx_shape s = {.rank = t->rank};
    memcpy(s.dim, t->shape, (size_t)t->rank * sizeof(s.dim[0]));
    return s;
}

int import_dtype(const struct tflite_tensor *t)
{
    switch (t->type) {
    case TFLITE_FLOAT32:
    case TFLITE_FLOAT16:
        return ONNX_FLOAT;
    case TFLITE_INT32:
    case TFLITE_INT64:
        return t->scale.n ? ONNX_FLOAT : ONNX_INT64;
    case TFLITE_UINT8:
        return t->scale.n ? ONNX_FLOAT : ONNX_UINT8;
    case TFLITE_INT8:
        return t->scale.n ? ONNX_FLOAT : ONNX_INT8;
    case TFLITE_BOOL:
        return ONNX_BOOL;
    default:
        return 0;
    }
}

// Constants.

static int64_t load_int(const uint8_t *p, int type)
{
    uint64_t u = 0;
    size_t n = tflite_type_size(type);
    for (size_t k = n; k-- > 0;)
        u = u << 8 | p[k];
    switch (type) {
    case TFLITE_INT8:
        return (int8_t)u;
    case TFLITE_INT32:
        return (int32_t)(uint32_t)u;
    default:
        return (int64_t)u;
    }
}

static float load_float(const uint8_t *p, int type)
{
    uint32_t u = (uint32_t)load_int(p, TFLITE_UINT8) | (uint32_t)p[1] << 8;
    if (type == TFLITE_FLOAT16)
        return tflite_half((uint16_t)u);
    u |= (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

// real = scale * (stored - zero point), per tensor or along one axis.
static void widen_quantised(const struct import *im, const struct tflite_tensor *t,
                            const uint8_t *src, float *dst)
{
    int64_t inner = 1, channels = t->scale.n;
    for (int i = t->axis + 1; channels > 1 && i < t->rank; i++)
        inner *= t->shape[i];
    size_t size = tflite_type_size(t->type);
    for (int64_t i = 0; i < t->elements; i++) {
        uint32_t c = (uint32_t)(channels > 1 ? i / inner % channels : 0);
        uint32_t z = t->zero_point.n > 1 ? c : 0;
        int64_t zero = t->zero_point.n ? tflite_i64(im->m, t->zero_point, z) : 0;
        double v = (double)load_int(src + (size_t)i * size, t->type) - (double)zero;
        dst[i] = (float)(v * (double)tflite_f32(im->m, t->scale, c));
    }
}

static void widen(const struct import *im, const struct tflite_tensor *t, const uint8_t *src,
                  int dtype, void *dst)
{
    size_t size = tflite_type_size(t->type);
    if (dtype == ONNX_FLOAT && t->scale.n && t->type != TFLITE_FLOAT32 && t->type != TFLITE_FLOAT16) {
        widen_quantised(im, t, src, dst);
        return;
    }
    for (int64_t i = 0; i < t->elements; i++) {
        const uint8_t *p = src + (size_t)i * size;
        if (dtype == ONNX_FLOAT)
            ((float *)dst)[i] = load_float(p, t->type);
        else if (dtype == ONNX_INT64)
            ((int64_t *)dst)[i] = load_int(p, t->type);
        else
            ((uint8_t *)dst)[i] = dtype == ONNX_BOOL ? *p != 0 : *p;
    }
}

static int load_sparse(struct import *im, const struct tflite_tensor *t, int dtype, int value)
{
    struct onnx_shape bytes = {1, {t->elements * (int64_t)tflite_type_size(t->type)}};
    int dense = onnx_const(im->g, ONNX_UINT8, &bytes); // counted against the limit
    if (!dense)
        return 0;
    if (!tflite_densify(im->m, t, im->g->values[dense].data)) {
        im->g->err = TACHY_ERR_FORMAT;
        return 0;
    }
    widen(im, t, im->g->values[dense].data, dtype, im->g->values[value].data);
    return value;
}

static int load_const(struct import *im, const struct tflite_tensor *t)
{
    struct onnx_shape s = import_shape(t);
    int dtype = import_dtype(t);
    if (!dtype || !t->data) {
        im->g->err = im->g->err ? im->g->err : TACHY_ERR_FORMAT;
        return 0;
    }
    int v = onnx_const(im->g, dtype, &s);
    if (!v)
        return 0;
    if (t->sparsity.at)
        return load_sparse(im, t, dtype, v);
    widen(im, t, t->data, dtype, im->g->values[v].data);
    return v;
}

// Forms.

static const int to_planar[4] = {0, 3, 1, 2}, to_native[4] = {0, 2, 3, 1};

int import_axis(enum import_form form, int axis)
{
    return form == IMPORT_PLANAR ? to_native[axis] : axis;
}

struct onnx_shape import_order(enum import_form form, const struct onnx_shape *native)
{
    struct onnx_shape s = *native;
    for (int i = 0; form == IMPORT_PLANAR && i < 4; i++)
        s.dim[i] = native->dim[to_planar[i]];
    return s;
}

int import_to_planar(struct import *im, int v) { return onnx_transpose(im->g, v, to_planar); }
int import_to_native(struct import *im, int v) { return onnx_transpose(im->g, v, to_native); }

static int get(struct import *im, int tensor, enum import_form form)
{
    struct import_slot *s = &im->slots[tensor];
    const struct tflite_tensor *t = &im->m->tensors[tensor];
    if (im->g->err)
        return 0;
    if (!s->value[0] && !s->value[1] && t->data)
        s->value[IMPORT_NATIVE] = load_const(im, t);
    if (s->value[form])
        return s->value[form];
    int other = s->value[!form];
    if (!other || t->rank != 4) {
        im->g->err = im->g->err ? im->g->err : TACHY_ERR_FORMAT; // read before it is computed
        return 0;
    }
    s->value[form] = form == IMPORT_PLANAR ? import_to_planar(im, other) : import_to_native(im, other);
    return s->value[form];
}

int import_get(struct import *im, int i, enum import_form form)
{
    int t = i < im->op->n_in ? tflite_in(im->m, im->op, i) : -1;
    if (t >= 0)
        return get(im, t, form);
    im->g->err = im->g->err ? im->g->err : TACHY_ERR_FORMAT;
    return 0;
}

enum import_form import_form(const struct import *im, int i)
{
    int t = i < im->op->n_in ? tflite_in(im->m, im->op, i) : -1;
    if (t < 0 || im->m->tensors[t].rank != 4)
        return IMPORT_NATIVE;
    return im->slots[t].value[IMPORT_PLANAR] ? IMPORT_PLANAR : IMPORT_NATIVE;
}

bool import_is_const(const struct import *im, int i)
{
    int t = i < im->op->n_in ? tflite_in(im->m, im->op, i) : -1;
    if (t < 0)
        return false;
    const struct import_slot *s = &im->slots[t];
    int v = s->value[0] ? s->value[0] : s->value[1];
    return v ? im->g->values[v].data != NULL : im->m->tensors[t].data != NULL;
}

int import_set(struct import *im, int i, enum import_form form, int value)
{
    const struct tflite_tensor *t = import_result(im, i);
    if (im->g->err)
        return im->g->err == TACHY_ERR_FORMAT
                   ? import_damaged(im, "an input is missing or is read before it is computed")
                   : im->g->err;
    if (!t || t->data)
        return import_damaged(im, "its output is missing or a constant");
    struct onnx_shape native = import_shape(t);
    struct onnx_shape want = import_order(form, &native);
    if (!onnx_same_shape(&want, &im->g->values[value].shape))
        return import_damaged(im, "its inputs and options do not give the shape of its output");
    if (im->g->values[value].dtype != import_dtype(t))
        return import_unsupported(im, "its type of output is not supported");
    struct import_slot *s = &im->slots[tflite_out(im->m, im->op, i)];
    if (s->value[0] || s->value[1])
        return import_damaged(im, "its output is computed twice");
    s->value[form] = value;
    return TACHY_OK;
}

static int clip(struct onnx_graph *g, int x, float lo, float hi)
{
    struct onnx_shape s = g->values[x].shape;
    int low = onnx_float(g, lo), high = onnx_float(g, hi);
    return onnx_add(g, "Clip", 3, (int[]){x, low, high}, g->values[x].dtype, &s);
}

int import_set_act(struct import *im, int i, enum import_form form, int value, int act)
{
    switch (act) {
    case 0:
        break;
    case 1:
        value = onnx_unary(im->g, "Relu", value);
        break;
    case 2:
        value = clip(im->g, value, -1, 1);
        break;
    case 3:
        value = clip(im->g, value, 0, 6);
        break;
    default:
        return import_unsupported(im, "its fused activation is not supported");
    }
    return import_set(im, i, form, value);
}

int import_alias(struct import *im, int i)
{
    if (!import_is_const(im, i))
        return import_set(im, 0, import_form(im, i), import_get(im, i, import_form(im, i)));
    return import_set(im, 0, IMPORT_NATIVE, import_get(im, i, IMPORT_NATIVE));
}

int import_ints(struct import *im, int i, int64_t *v, int max)
{
    const struct tflite_tensor *t = import_tensor(im, i);
    if (!t || !import_is_const(im, i) || t->rank > 2 || t->elements > max ||
        import_dtype(t) != ONNX_INT64)
        return -1;
    int c = import_get(im, i, IMPORT_NATIVE);
    if (!c)
        return -1;
    memcpy(v, im->g->values[c].data, (size_t)t->elements * sizeof(*v));
    return (int)t->elements;
}
