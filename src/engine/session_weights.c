#include "base/path.h"
#include "engine/proto.h"
#include "engine/session.h"

#include <stdlib.h>

// Weights in other files. An ONNX file names them, and ONNX Runtime 1.23 opens whatever is named; they must lie below
// the model's folder.

// Field numbers of onnx.proto.
enum { TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14, LOCATION_EXTERNAL = 1, ENTRY_KEY = 1, ENTRY_VALUE = 2 };

// The messages that a tensor may be in.
enum message { MODEL, TRAINING, GRAPH, FUNCTION, NODE, ATTRIBUTE, SPARSE, TENSOR };

static const struct child {
    enum message in;
    int number;
    enum message kind;
} children[] = {
    {MODEL, 7, GRAPH},       {MODEL, 20, TRAINING},   {MODEL, 25, FUNCTION},   {TRAINING, 1, GRAPH},
    {TRAINING, 2, GRAPH},    {GRAPH, 1, NODE},        {GRAPH, 5, TENSOR},      {GRAPH, 15, SPARSE},
    {FUNCTION, 7, NODE},     {FUNCTION, 11, ATTRIBUTE}, {NODE, 5, ATTRIBUTE},  {ATTRIBUTE, 5, TENSOR},
    {ATTRIBUTE, 6, GRAPH},   {ATTRIBUTE, 10, TENSOR}, {ATTRIBUTE, 11, GRAPH},  {ATTRIBUTE, 22, SPARSE},
    {ATTRIBUTE, 23, SPARSE}, {SPARSE, 1, TENSOR},     {SPARSE, 2, TENSOR},
};

enum { DEEPEST = 100 }; // messages in each other, as protobuf's own reader allows

struct search {
    const char *model; // its path
    const struct tachy_log *log;
};

// ONNX Runtime marks weights in its own memory by a location that begins with "*/"; no file may.
static bool may_name(const struct search *s, const char *location)
{
    const char *slash = strrchr(s->model, '/');
    char *path = tachy_asprintf("%.*s%s", slash ? (int)(slash - s->model + 1) : 0, s->model, location);
    char *real = realpath(s->model, NULL); // a download cache links to its files
    bool may = path && location[0] != '/' && strncmp(location, "*/", 2) != 0 &&
               (!tachy_path_outside(path, s->model) || (real && !tachy_path_outside(path, real)));
    free(real);
    tachy_free(path);
    return may;
}

// ONNX Runtime might read on where this does not, so nothing is passed over.
static int damaged(const struct search *s)
{
    return tachy_fail(s->log, TACHY_ERR_FORMAT, "%s: is no ONNX model, or it is damaged", s->model);
}

static int check_location(const struct search *s, struct proto_span entry)
{
    struct proto_field key, value;
    if (!proto_sound(entry))
        return damaged(s);
    if (!proto_find(entry, ENTRY_KEY, PROTO_BYTES, &key) || key.bytes.end - key.bytes.at != 8 ||
        memcmp(key.bytes.at, "location", 8) != 0 || !proto_find(entry, ENTRY_VALUE, PROTO_BYTES, &value))
        return TACHY_OK;
    char *location = tachy_asprintf("%.*s", (int)(value.bytes.end - value.bytes.at), (const char *)value.bytes.at);
    int err = location ? TACHY_OK : TACHY_ERR_NOMEM;
    if (location && !may_name(s, location))
        err = tachy_fail(s->log, TACHY_ERR_FORMAT,
                         "%s: has weights in %.200s, which does not lie below the model's folder; only files there are read",
                         s->model, location);
    tachy_free(location);
    return err;
}

static int check_tensor(const struct search *s, struct proto_span tensor)
{
    struct proto_field f;
    bool bad = false;
    if (!proto_sound(tensor))
        return damaged(s);
    if (!proto_find(tensor, TENSOR_LOCATION, PROTO_VARINT, &f) || f.value != LOCATION_EXTERNAL)
        return TACHY_OK;
    int err = TACHY_OK;
    while (err == TACHY_OK && proto_next(&tensor, &f, &bad))
        if (f.number == TENSOR_EXTERNAL && f.wire == PROTO_BYTES)
            err = check_location(s, f.bytes);
    return err;
}

static int check_message(const struct search *s, struct proto_span m, enum message kind, int depth)
{
    struct proto_field f;
    bool bad = depth > DEEPEST;
    int err = TACHY_OK;
    while (!bad && err == TACHY_OK && proto_next(&m, &f, &bad))
        for (size_t i = 0; f.wire == PROTO_BYTES && i < TACHY_ARRAY_SIZE(children) && err == TACHY_OK; i++)
            if (children[i].in == kind && children[i].number == f.number)
                err = children[i].kind == TENSOR ? check_tensor(s, f.bytes)
                                                 : check_message(s, f.bytes, children[i].kind, depth + 1);
    return bad ? damaged(s) : err;
}

// A flat buffer of ONNX Runtime's own format, in which weights are no files.
static bool is_ort_format(const char *data, size_t size) { return size >= 8 && !memcmp(data + 4, "ORTM", 4); }

int tachy_session_check_weights(const char *path, const struct tachy_log *log)
{
    struct search s = {path, log};
    char *data;
    size_t size;
    int err = tachy_read_file(path, INT32_MAX, &data, &size, log);
    if (err < 0)
        return err;
    const uint8_t *bytes = (const uint8_t *)data;
    if (!is_ort_format(data, size))
        err = check_message(&s, (struct proto_span){bytes, bytes + size}, MODEL, 0);
    tachy_free(data);
    return err;
}
