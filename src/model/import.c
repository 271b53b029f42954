#include "model/import.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <tachy/model.h>

// tachy_model_import(): reads the file, translates operator by operator, rewrites, writes.

enum { MAX_FILE = 1 << 29 }; // bytes

static const struct {
    int code;
    import_fn *fn;
} operators[] = {
    {TFLITE_ADD, import_binary},
    {TFLITE_AVERAGE_POOL_2D, import_pool},
    {TFLITE_CONCATENATION, import_concat},
    {TFLITE_CONV_2D, import_conv_2d},
    {TFLITE_DEPTHWISE_CONV_2D, import_depthwise},
    {TFLITE_DEPTH_TO_SPACE, import_depth_space},
    {TFLITE_DEQUANTIZE, import_pass},
    {TFLITE_FLOOR, import_unary},
    {TFLITE_FULLY_CONNECTED, import_fully_connected},
    {TFLITE_LOGISTIC, import_unary},
    {TFLITE_MAX_POOL_2D, import_pool},
    {TFLITE_MUL, import_binary},
    {TFLITE_RELU, import_unary},
    {TFLITE_RELU_N1_TO_1, import_unary},
    {TFLITE_RELU6, import_unary},
    {TFLITE_RESHAPE, import_reshape},
    {TFLITE_RESIZE_BILINEAR, import_resize},
    {TFLITE_SOFTMAX, import_softmax},
    {TFLITE_SPACE_TO_DEPTH, import_depth_space},
    {TFLITE_TANH, import_unary},
    {TFLITE_PAD, import_pad},
    {TFLITE_GATHER, import_gather},
    {TFLITE_TRANSPOSE, import_transpose},
    {TFLITE_MEAN, import_mean},
    {TFLITE_SUB, import_binary},
    {TFLITE_DIV, import_binary},
    {TFLITE_SQUEEZE, import_reshape},
    {TFLITE_STRIDED_SLICE, import_strided_slice},
    {TFLITE_EXP, import_unary},
    {TFLITE_SPLIT, import_split},
    {TFLITE_CAST, import_cast},
    {TFLITE_PRELU, import_prelu},
    {TFLITE_MAXIMUM, import_binary},
    {TFLITE_ARG_MAX, import_arg_max},
    {TFLITE_MINIMUM, import_binary},
    {TFLITE_NEG, import_unary},
    {TFLITE_PADV2, import_pad},
    {TFLITE_SLICE, import_slice},
    {TFLITE_TRANSPOSE_CONV, import_transpose_conv},
    {TFLITE_EXPAND_DIMS, import_reshape},
    {TFLITE_LOG, import_unary},
    {TFLITE_SUM, import_reduce},
    {TFLITE_SQRT, import_unary},
    {TFLITE_RSQRT, import_unary},
    {TFLITE_SHAPE, import_shape_op},
    {TFLITE_POW, import_binary},
    {TFLITE_REDUCE_MAX, import_reduce},
    {TFLITE_PACK, import_pack},
    {TFLITE_UNPACK, import_unpack},
    {TFLITE_FLOOR_DIV, import_binary},
    {TFLITE_SQUARE, import_unary},
    {TFLITE_RESIZE_NEAREST_NEIGHBOR, import_resize},
    {TFLITE_LEAKY_RELU, import_leaky_relu},
    {TFLITE_SQUARED_DIFFERENCE, import_binary},
    {TFLITE_ABS, import_unary},
    {TFLITE_GATHER_ND, import_gather_nd},
    {TFLITE_QUANTIZE, import_pass},
    {TFLITE_HARD_SWISH, import_hard_swish},
    {TFLITE_DENSIFY, import_pass},
};

static bool is_custom(const struct tflite_op *op, const char *name)
{
    return op->custom_size == strlen(name) && !memcmp(op->custom, name, op->custom_size);
}

static import_fn *find_custom(const struct tflite_op *op)
{
    static const struct {
        const char *name;
        import_fn *fn;
    } known[] = {
        {"Convolution2DTransposeBias", import_transpose_conv_bias},
        {"Landmarks2TransformMatrix", import_landmarks_matrix},
        {"TransformTensorBilinear", import_transform_bilinear},
        {"TransformLandmarks", import_transform_landmarks},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(known); i++)
        if (is_custom(op, known[i].name))
            return known[i].fn;
    return NULL;
}

static import_fn *find_operator(const struct tflite_op *op)
{
    if (op->code == TFLITE_CUSTOM)
        return find_custom(op);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(operators); i++)
        if (operators[i].code == op->code)
            return operators[i].fn;
    return NULL;
}

static int import_ops(struct import *im)
{
    for (int i = 0; i < im->m->n_ops; i++) {
        im->op = &im->m->ops[i];
        im->op_index = im->g->origin = i;
        import_fn *fn = find_operator(im->op);
        if (!fn)
            return import_unsupported(im, "no such operator is known to the importer");
        if (!im->op->n_out)
            return import_damaged(im, "it has no output");
        int err = fn(im);
        if (!err && im->m->bytes.bad)
            err = import_damaged(im, "its options leave the file");
        if (err == TACHY_ERR_LIMIT)
            tachy_msg(im->log, TACHY_LOG_ERR,
                      "%s: its constants need more memory than a file of this size should", im->path);
        if (err)
            return err;
    }
    return TACHY_OK;
}

// A tensor's name as ONNX text: what is not printable ASCII becomes '_'.
static void copy_name(const struct tflite_tensor *t, const char *kind, int i, char *buf, size_t size)
{
    size_t n = 0;
    for (; n < t->name_size && n + 1 < size; n++) {
        char c = t->name[n];
        buf[n] = c > ' ' && c <= '~' && c != '"' && c != '\\' ? c : '_';
    }
    buf[n] = '\0';
    if (!n)
        snprintf(buf, size, "%s_%d", kind, i);
}

enum { NAME_SIZE = 256 };

// The type at the graph's border is the file's own.
static int border_dtype(const struct tflite_tensor *t)
{
    switch (t->type) {
    case TFLITE_FLOAT32:
        return ONNX_FLOAT;
    case TFLITE_FLOAT16:
        return ONNX_FLOAT16;
    case TFLITE_INT32:
        return ONNX_INT32;
    case TFLITE_INT64:
        return ONNX_INT64;
    case TFLITE_UINT8:
        return ONNX_UINT8;
    case TFLITE_INT8:
        return ONNX_INT8;
    case TFLITE_BOOL:
        return ONNX_BOOL;
    default:
        return 0;
    }
}

static int cast(struct onnx_graph *g, int v, int dtype)
{
    if (g->values[v].dtype == dtype)
        return v;
    struct onnx_shape s = g->values[v].shape;
    int y = onnx_add(g, "Cast", 1, &v, dtype, &s);
    onnx_set_int(onnx_maker(g, y), "to", dtype);
    return y;
}

// The scale and zero point of a quantised input or output of the graph.
static int quantise(struct import *im, const struct tflite_tensor *t, const char *op, int v, int to)
{
    struct onnx_graph *g = im->g;
    struct onnx_shape s = g->values[v].shape;
    int dtype = border_dtype(t);
    int zero = onnx_const(g, dtype, &(struct onnx_shape){0});
    if (zero && t->zero_point.n)
        *(uint8_t *)g->values[zero].data = (uint8_t)tflite_i64(im->m, t->zero_point, 0);
    int in[3] = {v, onnx_float(g, tflite_f32(im->m, t->scale, 0)), zero};
    return onnx_add(g, op, 3, in, to, &s);
}

static bool byte_quantised(const struct tflite_tensor *t)
{
    return t->scale.n == 1 && (t->type == TFLITE_UINT8 || t->type == TFLITE_INT8);
}

static int import_inputs(struct import *im)
{
    for (int i = 0; i < im->m->n_in; i++) {
        int t = tflite_graph_in(im->m, i);
        const struct tflite_tensor *x = &im->m->tensors[t];
        struct onnx_shape s = import_shape(x);
        char name[NAME_SIZE];
        int dtype = border_dtype(x), inner = import_dtype(x);
        bool odd = x->scale.n && !byte_quantised(x) && dtype != ONNX_FLOAT;
        if (!dtype || !inner || odd || x->data || !x->elements || im->slots[t].value[0])
            return tachy_fail(im->log, TACHY_ERR_UNSUPPORTED,
                              "%s: input %d has a type or shape that cannot be imported", im->path, i);
        copy_name(x, "input", i, name, sizeof(name));
        int v = onnx_input(im->g, name, dtype, &s);
        if (byte_quantised(x))
            v = quantise(im, x, "DequantizeLinear", v, ONNX_FLOAT);
        im->slots[t].value[IMPORT_NATIVE] = cast(im->g, v, inner);
    }
    return im->g->err;
}

static int import_outputs(struct import *im)
{
    for (int i = 0; i < im->m->n_out; i++) {
        int t = tflite_graph_out(im->m, i);
        const struct tflite_tensor *x = &im->m->tensors[t];
        const struct import_slot *slot = &im->slots[t];
        char name[NAME_SIZE];
        int dtype = border_dtype(x), v = slot->value[IMPORT_NATIVE];
        if (!v && slot->value[IMPORT_PLANAR])
            v = import_to_native(im, slot->value[IMPORT_PLANAR]);
        if (!v || !dtype)
            return tachy_fail(im->log, im->g->err ? im->g->err : TACHY_ERR_FORMAT,
                              "%s: output %d is not computed by any operator", im->path, i);
        if (byte_quantised(x))
            v = quantise(im, x, "QuantizeLinear", v, dtype);
        v = cast(im->g, v, dtype);
        // An output has its own name, so its value must be no input, constant or other output.
        bool taken = !im->g->values[v].maker;
        for (int k = 0; k < im->g->n_out; k++)
            taken |= im->g->out[k] == v;
        if (taken)
            v = onnx_unary(im->g, "Identity", v);
        copy_name(x, "output", i, name, sizeof(name));
        onnx_output(im->g, v, name);
    }
    return im->g->err;
}

// ONNX wants every name once; TFLite does not promise that.
static int check_names(const struct import *im)
{
    const struct onnx_graph *g = im->g;
    int n = g->n_in + g->n_out;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            const char *a = i < g->n_in ? g->values[g->in[i]].name : g->out_names[i - g->n_in];
            const char *b = k < g->n_in ? g->values[g->in[k]].name : g->out_names[k - g->n_in];
            if (!strcmp(a, b))
                return tachy_fail(im->log, TACHY_ERR_UNSUPPORTED,
                                  "%s: two of its inputs and outputs have the name \"%s\"",
                                  im->path, a);
        }
    return TACHY_OK;
}

int import_graph(struct onnx_graph **out, const struct tflite_model *m, const char *path,
                 const struct tachy_log *log)
{
    *out = NULL;
    // Weights grow by two (fp16) to eight (int8, in two orders), sparse ones by more.
    size_t limit = TACHY_MIN(m->bytes.size * 64 + (1u << 26), (size_t)1 << 30);
    struct import im = {.m = m, .log = log, .path = path, .g = onnx_new(limit),
                        .slots = calloc((size_t)m->n_tensors + 1, sizeof(struct import_slot))};
    int err = im.g && im.slots ? TACHY_OK : TACHY_ERR_NOMEM;
    if (!err && m->n_in + m->n_out > 1024)
        err = tachy_fail(log, TACHY_ERR_LIMIT, "%s: has more than 1024 inputs and outputs", path);
    if (!err)
        err = import_inputs(&im);
    if (!err)
        err = import_ops(&im);
    if (!err)
        err = import_outputs(&im);
    if (!err)
        err = check_names(&im);
    if (!err) {
        import_rewrite(im.g);
        if (!im.g->err)
            import_free_batch(im.g);
        err = im.g->err;
    }
    free(im.slots);
    if (err)
        onnx_free(&im.g);
    *out = im.g;
    return err;
}

int tachy_model_import(const char *tflite_path, const char *onnx_path, const char *card_out,
                       char **report, const struct tachy_log *log)
{
    char *file = NULL, *bytes = NULL;
    size_t size = 0, n = 0;
    struct tflite_model *m = NULL;
    struct onnx_graph *g = NULL;
    TACHY_CLEAR(report);
    if (!TACHY_CHECK(log, tflite_path && onnx_path))
        return TACHY_ERR_INVAL;
    int err = tachy_read_file(tflite_path, MAX_FILE, &file, &size, log);
    if (!err)
        err = tflite_open(&m, file, size, tflite_path, log);
    if (!err)
        err = import_graph(&g, m, tflite_path, log);
    if (!err)
        err = onnx_write(g, "tachyscope", &bytes, &n);
    if (!err)
        err = tachy_write_file(onnx_path, bytes, n, log);
    if (!err && card_out)
        err = import_card(g, onnx_path, card_out, log);
    if (!err && report)
        err = import_report(report, m, g, n);
    if (err == TACHY_ERR_NOMEM)
        tachy_msg(log, TACHY_LOG_ERR, "%s: there is not enough memory to import it", tflite_path);
    onnx_free(&g);
    tflite_close(&m);
    tachy_free(bytes);
    tachy_free(file);
    return err;
}
