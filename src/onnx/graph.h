#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tachy/common.h>

// A graph in ONNX's terms that is built in memory and written as an ONNX file. One thread at a time.

#define ONNX_MAX_RANK 8
#define ONNX_OPSET 17 // and IR version 8: what ONNX Runtime 1.12 and newer read

enum onnx_dtype {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
};

// Bytes an element has; 0 for types that are not used here.
size_t onnx_dtype_size(int dtype);

struct onnx_shape {
    int rank;
    int64_t dim[ONNX_MAX_RANK];
};

int64_t onnx_elements(const struct onnx_shape *s);
bool onnx_same_shape(const struct onnx_shape *a, const struct onnx_shape *b);

// A value is a constant (`data`), an input of the graph, or the output of one node.
struct onnx_value {
    const char *name; // NULL: numbered when it is written
    int dtype;
    struct onnx_shape shape;
    void *data;  // dense, row-major, in the machine's byte order; owned by the graph
    int maker;   // node that computes it, 0: none
    int users;   // after onnx_prune(): nodes and graph outputs that read it
};

enum onnx_attr_type { ONNX_ATTR_FLOAT = 1, ONNX_ATTR_INT = 2, ONNX_ATTR_STRING = 3, ONNX_ATTR_INTS = 7 };

struct onnx_attr {
    const char *name; // static
    enum onnx_attr_type type;
    float f;
    const char *s; // static
    int n;
    int64_t ints[2 * ONNX_MAX_RANK]; // ints[0] is the value of ONNX_ATTR_INT
};

#define ONNX_MAX_ATTRS 6

struct onnx_node {
    const char *op; // static; NULL: removed
    int n_in, n_out;
    int *in, *out; // values; 0: an optional input that is absent
    int n_attrs;
    struct onnx_attr attrs[ONNX_MAX_ATTRS];
    int origin; // number of the operator that it comes from, for its name
};

// Values and nodes are numbered from 1; 0 stands for "none" and is what a failed call gives.
// After the first failure (`err`) every further call does nothing, so that builders need to
// look only once.
struct onnx_graph {
    int err; // TACHY_OK, TACHY_ERR_NOMEM, TACHY_ERR_LIMIT
    int n_values, n_nodes, n_in, n_out;
    int cap_values, cap_nodes;
    struct onnx_value *values;
    struct onnx_node **nodes; // in an order in which they can run
    int *in, *out;
    const char **out_names;
    bool free_batch; // the first dimension of every input and output, here 1, may be any: "batch" in the file
    void *arena; // small allocations, freed together
    size_t data_bytes, data_limit; // of all constants
    int origin;                    // for the nodes that are added next
};

// `data_limit`: bytes that constants may take in all. NULL: no memory.
struct onnx_graph *onnx_new(size_t data_limit);
void onnx_free(struct onnx_graph **g);

// An input; the name is copied.
int onnx_input(struct onnx_graph *g, const char *name, int dtype, const struct onnx_shape *s);
// Marks a value as the next output under this name (copied).
void onnx_output(struct onnx_graph *g, int value, const char *name);

// A constant with zeroed data, for the caller to fill: g->values[it].data (NULL if it has no elements).
int onnx_const(struct onnx_graph *g, int dtype, const struct onnx_shape *s);
int onnx_ints(struct onnx_graph *g, int n, const int64_t *v); // rank 1, ONNX_INT64
int onnx_int(struct onnx_graph *g, int64_t v);                // rank 0, ONNX_INT64
int onnx_float(struct onnx_graph *g, float v);                // rank 0, ONNX_FLOAT

// Adds a node with one output of the given type and shape; returns the output. Absent inputs
// are 0, but the first must not be.
int onnx_add(struct onnx_graph *g, const char *op, int n_in, const int *in, int dtype,
             const struct onnx_shape *s);
// The node that computes `value`, for its attributes; never NULL: a scratch node if there is none or the graph has
// failed.
struct onnx_node *onnx_maker(struct onnx_graph *g, int value);

void onnx_set_int(struct onnx_node *n, const char *name, int64_t v);
void onnx_set_ints(struct onnx_node *n, const char *name, int count, const int64_t *v);
void onnx_set_float(struct onnx_node *n, const char *name, float v);
void onnx_set_string(struct onnx_node *n, const char *name, const char *v);
// NULL if the node has no such attribute.
struct onnx_attr *onnx_find(struct onnx_node *n, const char *name);

// Shorthands.
int onnx_unary(struct onnx_graph *g, const char *op, int x); // same type and shape
int onnx_reshape(struct onnx_graph *g, int x, const struct onnx_shape *s);
int onnx_transpose(struct onnx_graph *g, int x, const int *perm); // constants: done here

// Removes nodes that no output needs, counts users.
void onnx_prune(struct onnx_graph *g);

// Serialises: *data is to be freed with tachy_free(). The same graph gives the same bytes on
// every machine.
int onnx_write(const struct onnx_graph *g, const char *graph_name, char **data, size_t *size);
