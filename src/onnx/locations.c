#include "onnx/file.h"

#include "base/base.h"
#include "onnx/fields.h"
#include "onnx/wire.h"

// Finds the files outside the model's own that hold its weights.

// The messages that a tensor may be in.
enum message { MODEL, TRAINING, GRAPH, FUNCTION, NODE, ATTRIBUTE, SPARSE, TENSOR };

static const struct child {
    enum message in;
    int number;
    enum message kind;
} children[] = {
    {MODEL, MODEL_GRAPH, GRAPH},
    {MODEL, MODEL_TRAINING, TRAINING},
    {MODEL, MODEL_FUNCTION, FUNCTION},
    {TRAINING, TRAINING_INITIALIZATION, GRAPH},
    {TRAINING, TRAINING_ALGORITHM, GRAPH},
    {GRAPH, GRAPH_NODE, NODE},
    {GRAPH, GRAPH_INITIALIZER, TENSOR},
    {GRAPH, GRAPH_SPARSE, SPARSE},
    {FUNCTION, FUNCTION_NODE, NODE},
    {FUNCTION, FUNCTION_ATTRIBUTE, ATTRIBUTE},
    {NODE, NODE_ATTRIBUTE, ATTRIBUTE},
    {ATTRIBUTE, ATTRIBUTE_TENSOR, TENSOR},
    {ATTRIBUTE, ATTRIBUTE_GRAPH, GRAPH},
    {ATTRIBUTE, ATTRIBUTE_TENSORS, TENSOR},
    {ATTRIBUTE, ATTRIBUTE_GRAPHS, GRAPH},
    {ATTRIBUTE, ATTRIBUTE_SPARSE, SPARSE},
    {ATTRIBUTE, ATTRIBUTE_SPARSES, SPARSE},
    {SPARSE, SPARSE_VALUES, TENSOR},
    {SPARSE, SPARSE_INDICES, TENSOR},
};

enum { DEEPEST = 100 }; // messages in each other, as protobuf's own reader allows

struct search {
    int (*each)(void *user, const char *location);
    void *user;
};

// ONNX Runtime might read on where this does not, so damage is never passed over.
static int look_at_entry(const struct search *s, struct wire_span entry)
{
    struct wire_field key, value;
    if (!wire_sound(entry))
        return TACHY_ERR_FORMAT;
    if (!wire_find(entry, ENTRY_KEY, WIRE_BYTES, &key) || !wire_is(key.bytes, "location") ||
        !wire_find(entry, ENTRY_VALUE, WIRE_BYTES, &value))
        return TACHY_OK;
    char *location = tachy_asprintf("%.*s", (int)wire_size(value.bytes), (const char *)value.bytes.at);
    int err = location ? s->each(s->user, location) : TACHY_ERR_NOMEM;
    tachy_free(location);
    return err;
}

static int look_at_tensor(const struct search *s, struct wire_span tensor)
{
    struct wire_field f;
    bool bad = false;
    if (!wire_sound(tensor))
        return TACHY_ERR_FORMAT;
    if (!wire_find(tensor, TENSOR_LOCATION, WIRE_VARINT, &f) || f.value != LOCATION_EXTERNAL)
        return TACHY_OK;
    int err = TACHY_OK;
    while (err == TACHY_OK && wire_next(&tensor, &f, &bad))
        if (f.number == TENSOR_EXTERNAL && f.type == WIRE_BYTES)
            err = look_at_entry(s, f.bytes);
    return err;
}

static int look_at(const struct search *s, struct wire_span m, enum message kind, int depth)
{
    struct wire_field f;
    bool bad = depth > DEEPEST;
    int err = TACHY_OK;
    while (!bad && err == TACHY_OK && wire_next(&m, &f, &bad))
        for (size_t i = 0; f.type == WIRE_BYTES && i < TACHY_ARRAY_SIZE(children) && err == TACHY_OK; i++)
            if (children[i].in == kind && children[i].number == f.number)
                err = children[i].kind == TENSOR ? look_at_tensor(s, f.bytes)
                                                 : look_at(s, f.bytes, children[i].kind, depth + 1);
    return bad ? TACHY_ERR_FORMAT : err;
}

int onnx_each_location(const void *data, size_t size, int (*each)(void *user, const char *location), void *user)
{
    const uint8_t *bytes = data;
    return look_at(&(struct search){each, user}, (struct wire_span){bytes, bytes + size}, MODEL, 0);
}
