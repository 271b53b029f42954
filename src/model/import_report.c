#include "model/import.h"

#include "base/base.h"

#include <jansson.h>
#include <tachy/model.h>

// What an import says about itself: the report and the card's skeleton.

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

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// "selfie_segmentation" of "/x/Selfie segmentation.onnx": a card's name is plain and lower case.
static char *stem(const char *path)
{
    char *s = tachy_asprintf("%s", base_name(path));
    char *dot = s ? strrchr(s, '.') : NULL;
    if (dot && dot != s)
        *dot = '\0';
    for (char *p = s; p && *p; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        bool plain = letter || (*p >= '0' && *p <= '9') || (p > s && strchr("._-", *p));
        *p = !plain ? '_' : letter ? (char)(*p | 32) : *p;
    }
    if (s && *s == '_')
        *s = 'm';
    return s;
}

// What a first output may mean, from its channels and the node that makes it. The reader of the
// card has to say whether that is right.
static const char *guess_meaning(const struct onnx_graph *g)
{
    const struct onnx_value *v = &g->values[g->out[0]];
    const struct onnx_node *n = g->nodes[v->maker];
    while (n->op && (!strcmp(n->op, "Reshape") || !strcmp(n->op, "Transpose") ||
                     !strcmp(n->op, "DepthToSpace")))
        n = g->nodes[g->values[n->in[0]].maker];
    bool sigmoid = n->op && !strcmp(n->op, "Sigmoid"), softmax = n->op && !strcmp(n->op, "Softmax");
    if (v->shape.rank == 4 && v->shape.dim[3] > 1)
        return softmax ? "probabilities" : "softmax";
    return sigmoid ? "probability" : "logit";
}

static json_t *output_json(const struct onnx_graph *g)
{
    const struct onnx_value *v = &g->values[g->out[0]];
    json_t *o = json_pack("{s:s, s:s, s:s}", "name", g->out_names[0], "meaning", guess_meaning(g),
                          "layout", "nhwc");
    if (v->shape.rank == 4 && v->shape.dim[3] > 1)
        json_object_set_new(o, "channel", json_integer(1));
    return o;
}

static json_t *input_json(const struct onnx_graph *g)
{
    const struct onnx_value *v = &g->values[g->in[0]];
    bool picture = v->shape.rank == 4;
    int64_t channels = picture ? v->shape.dim[3] : 0;
    bool bytes = v->dtype == ONNX_UINT8;
    return json_pack("{s:s, s:I, s:I, s:s, s:s, s:s, s:s, s:f}", "name", v->name, "width",
                     (json_int_t)(picture ? v->shape.dim[2] : 1), "height",
                     (json_int_t)(picture ? v->shape.dim[1] : 1), "layout", "nhwc", "channels",
                     channels == 1 ? "luma" : "rgb", "dtype", dtype_name(v->dtype), "fit", "stretch",
                     "scale", bytes ? 1.0 : 1.0 / 255.0);
}

int import_card(const struct onnx_graph *g, const char *tflite_path,
                const char *onnx_path, const char *card_path, const struct tachy_log *log)
{
    char *name = stem(onnx_path), *network = stem(tflite_path), *text = NULL, sha256[65];
    int err = name && network ? tachy_sha256_file(onnx_path, sha256, log) : TACHY_ERR_NOMEM;
    if (!err) {
        json_t *card = json_pack(
            "{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "version", 1, "name", name,
            "title", network, "task", "segment", "network", network, "license", "", "file",
            base_name(onnx_path), "sha256", sha256, "notes",
            "a skeleton written by the import: state title, license, the input's scale, mean and "
            "std, and what the output means",
            "input", input_json(g), "output", output_json(g));
        err = text_of(card, JSON_INDENT(2) | JSON_REAL_PRECISION(9), &text);
    }
    if (!err)
        err = tachy_write_file(card_path, text, strlen(text), log);
    tachy_free(text);
    tachy_free(name);
    tachy_free(network);
    return err;
}
