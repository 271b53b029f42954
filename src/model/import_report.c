#include "model/import.h"

#include "base/base.h"

#include <jansson.h>
#include <tachy/engine.h>
#include <tachy/model.h>

// Results of an import: the report and the card's skeleton.

static const char *dtype_name(int dtype)
{
    switch (dtype) {
    case ONNX_FLOAT:
        return "float32";
    case ONNX_FLOAT16:
        return "float16";
    case ONNX_UINT8:
        return "uint8";
    case ONNX_INT8:
        return "int8";
    case ONNX_INT32:
        return "int32";
    case ONNX_INT64:
        return "int64";
    default:
        return "bool";
    }
}

static json_t *io_json(const struct onnx_value *v, const char *name)
{
    json_t *shape = json_array();
    for (int i = 0; i < v->shape.rank; i++)
        json_array_append_new(shape, json_integer(v->shape.dim[i]));
    return json_pack("{s:s, s:s, s:o}", "name", name, "dtype", dtype_name(v->dtype), "shape", shape);
}

static void count(json_t *object, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(object, key));
    json_object_set_new(object, key, json_integer(n + 1));
}

static int text_of(json_t *root, size_t flags, char **text)
{
    *text = root ? json_dumps(root, flags) : NULL;
    json_decref(root);
    return *text ? TACHY_OK : TACHY_ERR_NOMEM;
}

int import_report(char **json, const struct tflite_model *m, const struct onnx_graph *g, size_t bytes)
{
    json_t *ops = json_object(), *nodes = json_object(), *in = json_array(), *out = json_array();
    char buf[64];
    for (int i = 0; i < m->n_ops; i++)
        count(ops, import_op_name(&m->ops[i], buf, sizeof(buf)));
    for (int i = 1; i < g->n_nodes; i++)
        if (g->nodes[i]->op)
            count(nodes, g->nodes[i]->op);
    for (int i = 0; i < g->n_in; i++)
        json_array_append_new(in, io_json(&g->values[g->in[i]], g->values[g->in[i]].name));
    for (int i = 0; i < g->n_out; i++)
        json_array_append_new(out, io_json(&g->values[g->out[i]], g->out_names[i]));
    json_t *root = json_pack("{s:o, s:o, s:o, s:o, s:i, s:I}", "operators", ops, "nodes", nodes,
                             "inputs", in, "outputs", out, "opset", ONNX_OPSET, "bytes",
                             (json_int_t)bytes);
    return text_of(root, JSON_INDENT(2), json);
}

// The corresponding type of the library; 0: there is none.
static enum tachy_dtype dtype_of(int dtype)
{
    static const struct {
        int from;
        enum tachy_dtype to;
    } types[] = {{ONNX_FLOAT, TACHY_F32}, {ONNX_FLOAT16, TACHY_F16}, {ONNX_UINT8, TACHY_U8},
                 {ONNX_INT8, TACHY_I8},   {ONNX_INT32, TACHY_I32},   {ONNX_INT64, TACHY_I64}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(types); i++)
        if (types[i].from == dtype)
            return types[i].to;
    return 0;
}

static int list_io(struct tachy_io io[TACHY_MAX_IO], const struct onnx_graph *g, const int *values, int n, const char **names)
{
    for (int i = 0; i < n && i < TACHY_MAX_IO; i++) {
        const struct onnx_value *v = &g->values[values[i]];
        io[i] = (struct tachy_io){names ? names[i] : v->name, {.dtype = dtype_of(v->dtype), .rank = v->shape.rank}};
        for (int k = 0; k < v->shape.rank; k++)
            io[i].spec.shape[k] = v->shape.dim[k];
    }
    return TACHY_MIN(n, TACHY_MAX_IO);
}

int import_card(const struct onnx_graph *g, const char *onnx_path, const char *card_path, const struct tachy_log *log)
{
    struct tachy_io in[TACHY_MAX_IO], out[TACHY_MAX_IO];
    char *text;
    int n = list_io(in, g, g->in, g->n_in, NULL), m = list_io(out, g, g->out, g->n_out, g->out_names);
    int err = tachy_model_skeleton(&text, onnx_path, in, n, out, m, log);
    if (err == TACHY_OK)
        err = tachy_write_file(card_path, text, strlen(text), log);
    tachy_free(text);
    return err;
}
