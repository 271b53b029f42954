#pragma once
#include "base/index.h"
#include "plan/backend.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes" // its table has () for (void)
#include <onnxruntime_c_api.h>
#pragma GCC diagnostic pop

// Converts ONNX Runtime's graph to a plan's graph. One thread uses a reader; the ONNX Runtime graph must outlive it,
// because constants are not copied.
enum { READER_INPUTS = 64, READER_OUTPUTS = 64 };

struct reader {
    const OrtApi *api;
    const struct plan_backend *backend; // that is to run what is read
    struct tachy_graph *g;
    struct tachy_index names; // of the graph's values
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

// With an empty graph. TACHY_ERR_NOMEM.
int reader_open(struct reader *r, const OrtApi *api, const struct plan_backend *backend, const struct tachy_log *log);
void reader_close(struct reader *r); // and the graph

// Frees a status and says whether there was none.
bool reader_ok(const struct reader *r, OrtStatus *s);

// The graph's value for ONNX Runtime's, made when it is first asked for; NULL: absent, or no tensor
// of fixed shape and a type of ours (or out of memory).
struct tachy_value *reader_value(struct reader *r, const OrtValueInfo *info);

// The first of the graph's inputs that has a free dimension: its name and the dimension's, "" if that has none. False: all
// are fixed.
bool reader_free_dimension(const struct reader *r, const OrtGraph *graph, const char **input, const char **dimension);

// Adds what the node computes to the graph, whole or not at all. NULL, or why it cannot be: a
// static sentence fragment. The back end's word counts too.
const char *reader_add(struct reader *r, const OrtNode *node);

// Attributes. ints, floats: how many there are, -1 for none; string: into `to`, false for none.
int64_t reader_int(const struct reader_node *n, const char *name, int64_t otherwise);
float reader_float(const struct reader_node *n, const char *name, float otherwise);
int reader_ints(const struct reader_node *n, const char *name, int64_t *to, int max);
int reader_floats(const struct reader_node *n, const char *name, float *to, int max);
bool reader_string(const struct reader_node *n, const char *name, char *to, size_t size);
// A constant input's numbers: how many, -1 where input `i` is absent or not constant.
int reader_const_ints(const struct reader_node *n, int i, int64_t *to, int max);
int reader_const_floats(const struct reader_node *n, int i, float *to, int max);
static inline struct tachy_value *reader_in(const struct reader_node *n, int i)
{
    return i < n->nb_in ? n->in[i] : NULL;
}

// The axis that an attribute names, counted from the end if negative; false if there is no such axis.
bool reader_axis(int64_t v, int rank, int *axis);
// Numbers that an operator takes as an attribute or, later, as input `i`; as reader_ints().
int reader_numbers(const struct reader_node *n, const char *name, int i, int64_t *to, int max);

// An operator's reader: adds nodes, or returns why it cannot; like reader_add().
struct reader_op {
    const char *name;
    const char *(*read)(struct reader_node *n);
};
// Tables that end with NULL (read_elements.c, read_shapes.c, read_indices.c, read_forms.c).
extern const struct reader_op reader_elements[], reader_shapes[], reader_indices[], reader_forms[];
const char *reader_conv(struct reader_node *n), *reader_deconv(struct reader_node *n),
    *reader_fused_conv(struct reader_node *n), *reader_global_average(struct reader_node *n),
    *reader_global_max(struct reader_node *n), *reader_max_pool(struct reader_node *n),
    *reader_average_pool(struct reader_node *n); // read_windows.c
const char *reader_resize(struct reader_node *n), *reader_grid_sample(struct reader_node *n); // read_resize.c
const char *reader_quantize(struct reader_node *n), *reader_dequantize(struct reader_node *n); // read_quant.c
const char *reader_convert(struct reader_node *n); // finds and calls it (read_ops.c)

// A node of ours at the end of the graph; false when out of memory.
bool reader_emit(struct reader_node *n, enum tachy_plan_op op, const struct tachy_plan_attr *a,
                 struct tachy_value *const *in, int nb_in, struct tachy_value *out);
// A float32 value between two of our nodes. NULL when out of memory.
struct tachy_value *reader_temp(struct reader_node *n, int rank, const int64_t *shape);
// As above, for a new float32 value, which is returned.
struct tachy_value *reader_make(struct reader_node *n, enum tachy_plan_op op, const struct tachy_plan_attr *a,
                                struct tachy_value *const *in, int nb_in, int rank, const int64_t *shape);
// `x` with another shape, and with its dimensions in another order; itself if it has them. Constants stay constants,
// the latter float32. NULL for a NULL `x` and when out of memory.
struct tachy_value *reader_reshaped(struct reader_node *n, struct tachy_value *x, int rank, const int64_t *shape);
struct tachy_value *reader_turned(struct reader_node *n, struct tachy_value *x, const int *perm);
// A float32 constant of one number.
struct tachy_value *reader_number(struct reader_node *n, float v);
// `a how b` and act(x), into `out`, or into a new value if NULL. NULL operands are allowed: the result is then NULL, as
// it is if the shapes cannot be broadcast or memory runs out.
struct tachy_value *reader_combine(struct reader_node *n, enum tachy_plan_binary how, struct tachy_value *a,
                                   struct tachy_value *b, struct tachy_value *out);
struct tachy_value *reader_apply(struct reader_node *n, enum tachy_plan_act act, float a, float b,
                                 struct tachy_value *x, struct tachy_value *out);
#define READER_NOMEM "no memory"
#define READER_ATTRIBUTE "an attribute or a form of the operator that is not built"
// The shape of a node's output is not what will come. So it is with what is computed from it.
extern const char reader_wrong_shape[];
