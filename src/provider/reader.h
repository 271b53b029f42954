#pragma once
#include "plan/graph.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes" // its table has () for (void)
#include <onnxruntime_c_api.h>
#pragma GCC diagnostic pop

// ONNX Runtime's graph becomes the plan's. One reader is used by one thread; the ONNX Runtime graph
// outlives it, since constants stay where they are.
enum { READER_INPUTS = 64, READER_OUTPUTS = 64 };

struct reader {
    const OrtApi *api;
    struct tachy_graph *g;
};

// A node while it is read.
struct reader_node {
    struct reader *r;
    const OrtNode *ort;
    const char *op, *domain, *name;
    int since; // of the operator's definition
    struct tachy_value *in[READER_INPUTS], *out[READER_OUTPUTS]; // NULL: absent or of no type of ours
    int nb_in, nb_out;
};

// Frees a status and says whether there was none.
bool reader_ok(const struct reader *r, OrtStatus *s);

// The graph's value for ONNX Runtime's, made when it is first asked for; NULL: absent, or no tensor
// of fixed shape and a type of ours (or out of memory).
struct tachy_value *reader_value(struct reader *r, const OrtValueInfo *info);

// Adds what the node computes to the graph, whole or not at all. NULL, or why it cannot be: a
// static sentence fragment. The back end's word (tachy_cpu_refuses) counts too.
const char *reader_add(struct reader *r, const OrtNode *node);

// Attributes. ints: how many there are, -1 for none; string: into `to`, false for none.
int64_t reader_int(const struct reader_node *n, const char *name, int64_t otherwise);
float reader_float(const struct reader_node *n, const char *name, float otherwise);
int reader_ints(const struct reader_node *n, const char *name, int64_t *to, int max);
bool reader_string(const struct reader_node *n, const char *name, char *to, size_t size);
// A constant input's numbers: how many, -1 where input `i` is absent or not constant.
int reader_const_ints(const struct reader_node *n, int i, int64_t *to, int max);
int reader_const_floats(const struct reader_node *n, int i, float *to, int max);
static inline struct tachy_value *reader_in(const struct reader_node *n, int i)
{
    return i < n->nb_in ? n->in[i] : NULL;
}

// The operators that are known (read_ops.c, read_shapes.c); returns like reader_add().
const char *reader_convert(struct reader_node *n);
const char *reader_convert_shape(struct reader_node *n, bool *known);
// A node of ours at the end of the graph; false when out of memory.
bool reader_emit(struct reader_node *n, enum tachy_plan_op op, const struct tachy_plan_attr *a,
                 struct tachy_value *const *in, int nb_in, struct tachy_value *out);
// A value between two of our nodes. NULL when out of memory.
struct tachy_value *reader_temp(struct reader_node *n, int rank, const int64_t *shape);
#define READER_NOMEM "no memory"
