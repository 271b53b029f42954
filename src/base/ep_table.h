#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The function table that libtachy_ep.so exports as tachy_ep_table, beside ONNX Runtime's entry points. If one plan
// covers a session's whole model, a program takes that plan and runs it without ONNX Runtime:
//
// c = table->open(0, NULL); create a session with the provider option context=<table->id(c)>;
// plan = table->take(c); table->close(c);
// table->run(plan, in, out) any number of times and threads; table->release(plan)

enum { TACHY_EP_TABLE_VERSION = 10 };

struct tachy_ep_plan;

// Carries requests from a program to one session, and the session's plan and nodes back to the program. The session
// writes to it only while ONNX Runtime creates the session. One thread at a time may use it.
struct tachy_ep_context;

enum tachy_ep_want {
    // One plan for the whole model or none. Unless one plan covers the model, nothing is compiled, and node() gives -1
    // as the plan of every node.
    TACHY_EP_WHOLE = 1 << 0,
    // The plan keeps the model's graph and a copy of its constants, which reference() and layers() need.
    TACHY_EP_REFERENCE = 1 << 1,
    // graph() returns every plan of the session.
    TACHY_EP_GRAPHS = 1 << 2,
};

// A float32 tensor of fixed shape, dense in ONNX's order.
struct tachy_ep_tensor {
    const char *name; // in the model; the plan owns it
    int rank;
    int64_t shape[8];
};

struct tachy_ep_plan_info {
    int nb_in, nb_out; // in the order in which the nodes use them, which may not be the model's: compare names
    int nodes, steps;
    size_t weights, arena, scratch; // bytes
    size_t shared; // the part of `weights` that other plans of this process use as well right now
    int effort;    // build_effort with which its kernels were chosen; 0: default kernels
    double choice_seconds;         // spent on timing kernels in this process; 0: nothing was timed
    double run_ms, default_run_ms; // time of a run with the chosen and with the default kernels; 0: not timed
    const char *device; // that the plan runs on: "cpu", "cuda"; static
    char on[96];        // on a GPU: its name and what the plan computes in, "NVIDIA H200, fp16"; else ""
    // On a GPU, if it was measured: the error of the outputs against float32, L2 norm of the difference over that of
    // the output, on noise and on a picture; else NAN.
    double noise_error, picture_error;
};

// A node of a model, as it is after ONNX Runtime's first passes.
struct tachy_ep_node {
    const char *op, *name;
    const char *why; // the reason why ONNX Runtime runs it; NULL: a plan runs it
    int plan;        // number of that plan, from 0; -1: none
};

// The error of one step of a plan against double precision. The strings are valid during the call.
struct tachy_ep_layer {
    const char *op, *name;
    int64_t elements; // of its output
    double error;     // L2 norm of the difference, divided by the L2 norm of the float64 output
};

// The least that a layer costs; its bytes are those of its operands and its result, each counted once.
struct tachy_ep_cost {
    int64_t multiply_adds, bytes;
};

// A plan of a session, and the graph from which it was compiled.
struct tachy_ep_graph {
    const char *text;      // one line a node
    const struct tachy_ep_cost *layers; // nb_layers of them: the nodes of the text that compute
    int nb_layers;
    int64_t multiply_adds; // of convolutions and matrix products, before any pass
    int nodes, steps;      // as in tachy_ep_plan_info
    size_t weights, arena, scratch;
};

// A step of a plan. The plan owns the strings.
struct tachy_ep_step {
    const char *op, *name; // of the model's node; name "": none
    size_t bytes;          // of its output
    struct tachy_ep_cost cost; // zeros: not known, or nothing is computed
};

struct tachy_ep_table {
    uint32_t version; // the first field in every version; do not use a table of another version
    // Opens a context. `want`: bits of enum tachy_ep_want. `after`, with TACHY_EP_GRAPHS: the pass after which graphs are
    // printed; copied; NULL: the last pass; "none": before the first. Returns NULL without memory. Thread-safe.
    struct tachy_ep_context *(*open)(unsigned want, const char *after);
    const char *(*id)(const struct tachy_ep_context *c); // valid until close()
    // Call it after the session is closed, or when none was created, and before the library is unloaded. NULL is
    // allowed. Thread-safe.
    void (*close)(struct tachy_ep_context *c);
    // The session's plan if it covers the whole model. NULL: it does not, or the plan was taken before. The caller owns
    // it, also after session and context are closed, and releases it before the library is unloaded.
    struct tachy_ep_plan *(*take)(struct tachy_ep_context *c);
    // The code with which the compilation of a plan failed, so that no session was created; TACHY_OK: none did.
    int (*failed)(const struct tachy_ep_context *c);
    // The session's nodes, in an order in which they can run. node() returns false if no node has this number; the
    // context owns the strings. Nodes of nested graphs are not listed.
    int (*nodes)(const struct tachy_ep_context *c);
    bool (*node)(const struct tachy_ep_context *c, int i, struct tachy_ep_node *n);
    // A plan of the session, by its number in tachy_ep_node.plan. False: no plan has it. The context owns the text.
    bool (*graph)(const struct tachy_ep_context *c, int i, struct tachy_ep_graph *g);
    void (*info)(const struct tachy_ep_plan *p, struct tachy_ep_plan_info *info);
    // The name and shape of an input or output, by its number.
    void (*input)(const struct tachy_ep_plan *p, int i, struct tachy_ep_tensor *t);
    void (*output)(const struct tachy_ep_plan *p, int i, struct tachy_ep_tensor *t);
    // Runs the plan on tensors in host memory, whatever its device is, and waits for the result. TACHY_OK,
    // TACHY_ERR_NOMEM, or TACHY_ERR_EXTERNAL: the device failed. Thread-safe.
    int (*run)(struct tachy_ep_plan *p, const float *const in[], float *const out[]);
    void (*release)(struct tachy_ep_plan *p); // NULL is allowed
    // The version and the kernels' instruction set: "0.1.0 avx2". Two libraries with the same text give the same bits
    // for plans with the same graph and weights. Static.
    const char *(*about)(void);
    // Runs the model in double precision, slowly. Outputs are dense, in ONNX's order. TACHY_ERR_INVAL: the context was
    // opened without TACHY_EP_REFERENCE; TACHY_ERR_UNSUPPORTED, TACHY_ERR_NOMEM. Thread-safe.
    int (*reference)(const struct tachy_ep_plan *p, const void *const in[], double *const out[]);
    // Calls `each` with the error of every step that computes, given exact inputs for that step. Returns the codes of
    // reference(). Thread-safe.
    int (*layers)(const struct tachy_ep_plan *p, const void *const in[],
                  void (*each)(void *user, const struct tachy_ep_layer *layer), void *user);
    // As run(). Sets end[i] to the time at which step i ended, in ns of CLOCK_MONOTONIC; `end` holds info.steps values.
    int (*run_timed)(struct tachy_ep_plan *p, const float *const in[], float *const out[], uint64_t *end);
    void (*step)(const struct tachy_ep_plan *p, int i, struct tachy_ep_step *step);
    const char *(*pass)(int i); // name of the i-th pass; NULL after the last. Static.
    // Measures how many multiply-adds per second one core does in registers. Takes about 10 ms.
    double (*peak)(void);
    // Measures how many bytes per second one core reads and writes when it copies from one half of `bytes` of memory to the
    // other again and again. Takes about 10 ms, at least four times through the memory. 0: no memory.
    double (*bandwidth)(size_t bytes);
    // As run(), with tensors in the device's memory. Queues the run on `stream` (a CUstream of the primary context; NULL:
    // the default stream) and does not wait. TACHY_ERR_UNSUPPORTED: the plan's device has no memory of its own.
    // Thread-safe.
    int (*queue)(struct tachy_ep_plan *p, const void *const in[], void *const out[], void *stream);
    // Measures `runs` runs one after the other, with tensors in the device's memory: their mean, in ms. `in` as for run().
    // TACHY_ERR_UNSUPPORTED: the plan's device has no memory of its own; else as run().
    int (*time)(struct tachy_ep_plan *p, const void *const in[], int runs, double *ms);
    // Where the plan's last failed run failed, with the driver's or library's words; "": unknown. Thread-safe.
    void (*why)(struct tachy_ep_plan *p, char *text, size_t size);
};
