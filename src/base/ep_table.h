#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What libtachy_ep.so exports under the name tachy_ep_table beside ONNX Runtime's entry points: the
// plan of a session that one plan covers whole, to be run without ONNX Runtime in between.
//
//   c = table->open(0, NULL); create a session with the provider option context=<table->id(c)>;
//   plan = table->take(c); table->close(c);
//   table->run(plan, in, out) any number of times and threads; table->release(plan)

enum { TACHY_EP_TABLE_VERSION = 6 };

struct tachy_ep_plan;

// What a program asks of one session, and what it learns of it: the session's plan and who runs which node. The session
// writes to it while ONNX Runtime creates it, and never later. Used by one thread at a time.
struct tachy_ep_context;

enum tachy_ep_want {
    // One plan for the model or none: unless one covers it, nothing is compiled, and node() has no plan for the nodes
    // that one could run.
    TACHY_EP_WHOLE = 1 << 0,
    // The plan keeps what reference() and layers() need: the model's graph and a copy of its constants.
    TACHY_EP_REFERENCE = 1 << 1,
    // graph() has every plan of the session.
    TACHY_EP_GRAPHS = 1 << 2,
};

// A float32 tensor of fixed shape, dense in ONNX's order.
struct tachy_ep_tensor {
    const char *name; // as the model calls it; the plan's memory
    int rank;
    int64_t shape[8];
};

struct tachy_ep_plan_info {
    int nb_in, nb_out; // in the order in which the nodes use them; names say which is which
    int nodes, steps;
    size_t weights, arena, scratch; // bytes
    size_t shared; // of the weights, what other plans of the process use as well at the moment
    int effort;    // that its kernels were chosen with, 0: defaults
    double choice_seconds;         // that timing them took in this process; 0: nothing was timed
    double run_ms, default_run_ms; // of a run as chosen and with the defaults, where that was timed
    const char *device; // what the plan runs on: "cpu", "cuda"; static
};

// A node of a model, as it is after ONNX Runtime's first passes.
struct tachy_ep_node {
    const char *op, *name;
    const char *why; // it is left to ONNX Runtime; NULL: a plan runs it
    int plan;        // number of that plan, from 0; -1: none
};

// How far one step of a plan is from double precision; texts are valid during the call.
struct tachy_ep_layer {
    const char *op, *name;
    int64_t elements; // of its output
    double error;     // L2 norm of the difference over L2 norm of the float64 output
};

// A plan of a session, and the graph that it is made from.
struct tachy_ep_graph {
    const char *text;      // one line a node
    int64_t multiply_adds; // of convolutions and matrix products, before any pass
    int nodes, steps;      // as in tachy_ep_plan_info
    size_t weights, arena, scratch;
};

// A step of a plan; strings are the plan's.
struct tachy_ep_step {
    const char *op, *name; // of the node it comes from; name "": none
    size_t bytes;          // of its output
};

struct tachy_ep_table {
    uint32_t version; // first in every version; others are not to be used
    // `want`: of enum tachy_ep_want. `after`: of TACHY_EP_GRAPHS: the pass after which graphs are printed; copied; NULL:
    // the last; "none": before the first. NULL: no memory. Thread-safe.
    struct tachy_ep_context *(*open)(unsigned want, const char *after);
    const char *(*id)(const struct tachy_ep_context *c); // valid until close()
    // After the session, or instead of it, before the library is unloaded; NULL is allowed. Thread-safe.
    void (*close)(struct tachy_ep_context *c);
    // The session's plan, where it covers the whole model; NULL otherwise, and when it was taken. The caller's, also
    // after the session and the context are closed; release() it before the library is unloaded.
    struct tachy_ep_plan *(*take)(struct tachy_ep_context *c);
    // The session's nodes in an order in which they can run: who runs each. node(): false if there is none of this
    // number; the strings are the context's. A node's nested graphs are not listed.
    int (*nodes)(const struct tachy_ep_context *c);
    bool (*node)(const struct tachy_ep_context *c, int i, struct tachy_ep_node *n);
    // A plan of the session, by the number of tachy_ep_node.plan. false: there is none; the text is the context's.
    bool (*graph)(const struct tachy_ep_context *c, int i, struct tachy_ep_graph *g);
    void (*info)(const struct tachy_ep_plan *p, struct tachy_ep_plan_info *info);
    // Shape of an input or output by its number.
    void (*input)(const struct tachy_ep_plan *p, int i, struct tachy_ep_tensor *t);
    void (*output)(const struct tachy_ep_plan *p, int i, struct tachy_ep_tensor *t);
    // Tensors in host memory, on whatever device; returns when the result is there. TACHY_OK, TACHY_ERR_NOMEM, or
    // TACHY_ERR_EXTERNAL: the device failed. Thread-safe.
    int (*run)(struct tachy_ep_plan *p, const float *const in[], float *const out[]);
    void (*release)(struct tachy_ep_plan *p); // NULL is allowed
    // Version and the kernels' instruction set, "0.1.0 avx2". Plans of equal texts and weights give
    // equal bits. Static.
    const char *(*about)(void);
    // What the model gives in double precision, slowly: outputs dense in ONNX's order. TACHY_ERR_INVAL:
    // TACHY_EP_REFERENCE was not asked for; TACHY_ERR_UNSUPPORTED, TACHY_ERR_NOMEM. Thread-safe.
    int (*reference)(const struct tachy_ep_plan *p, const void *const in[], double *const out[]);
    // Calls `each` for every step that computes, with its error when its own inputs are exact. Codes as
    // reference(). Thread-safe.
    int (*layers)(const struct tachy_ep_plan *p, const void *const in[],
                  void (*each)(void *user, const struct tachy_ep_layer *layer), void *user);
    // As run(); end[i] becomes the time at which step i ended, ns of CLOCK_MONOTONIC, for info.steps.
    int (*run_timed)(struct tachy_ep_plan *p, const float *const in[], float *const out[], uint64_t *end);
    void (*step)(const struct tachy_ep_plan *p, int i, struct tachy_ep_step *step);
    const char *(*pass)(int i); // name of the i-th pass; NULL past the last. Static.
    // Multiply-adds a second of one core, in registers only: measured, about 10 ms.
    double (*peak)(void);
    // As run() with tensors in the device's memory, queued on its stream (a CUstream of the primary context; NULL:
    // the default stream) and not waited for. TACHY_ERR_UNSUPPORTED: the plan's device has no memory of its own.
    // Thread-safe.
    int (*queue)(struct tachy_ep_plan *p, const void *const in[], void *const out[], void *stream);
};
