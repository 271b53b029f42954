#pragma once
#include "base/ep_table.h"
#include "plan/backend.h"
#include "provider/reader.h"

#include <stdatomic.h>

// Inside of src/provider: the execution provider's parts.

struct provider {
    const OrtApi *api;
    const OrtEpApi *ep_api;
};

// Options of a session.
struct provider_options {
    struct tachy_ep_context *context; // one owner's share; NULL: nobody asks
    const struct plan_backend *backend;
    struct tachy_plan_params plan;
    int device; // number of `backend`
    bool on_gpu; // tensors come and go in a GPU's memory
    bool shares; // a run on the CPU uses the session's own threads, not a plan's
    int deterministic; // 1: plans of a GPU choose no kernel by time
    int claim_qdq; // 1: also layers that ONNX Runtime has int8 arithmetic for
    char store[1024]; // folder of the engine store; "": the user's; "0": none
};

struct provider_tensor {
    char *name;
    int rank;
    int64_t shape[TACHY_MAX_RANK];
};

// A compiled subgraph: the plan and which of the fused node's inputs are its inputs.
struct provider_plan {
    atomic_int owners;
    struct tachy_plan *plan;
    struct tachy_graph *reference; // the graph as read; kept on request
    int nb_in, nb_out;
    int index[READER_INPUTS]; // of the kernel's inputs
    struct provider_tensor in[READER_INPUTS], out[READER_OUTPUTS];
    bool on_gpu, shares; // as in provider_options
    bool whole_numbers; // go in or out: such a plan is not for the function table
};

// Reads, runs the passes and compiles what `graph` holds, with inputs and outputs in the order
// given. options->plan.trial: nobody runs it. Negative, logged: it cannot be one plan.
int provider_plan_open(struct provider_plan **out, const struct provider *p,
                       const struct provider_options *options, const OrtGraph *graph,
                       const OrtValueInfo *const *in, size_t nb_in, const OrtValueInfo *const *out_values,
                       size_t nb_out, const struct tachy_log *log);
// Gives one owner's share up; *p becomes NULL.
void provider_plan_close(struct provider_plan **p);
struct provider_plan *provider_plan_ref(struct provider_plan *p);
// Reads the session's options; `name`: the one that the provider was registered under. An unknown option or a value out
// of range is an error that lists the valid ones. `on_gpu`: the session's device is a GPU. The context must be closed
// with provider_context_close(), also after a failure.
OrtStatus *provider_read_options(struct provider_options *o, const struct provider *p, const char *name,
                                 const OrtSessionOptions *options, bool on_gpu);

// A session's side of its context (context.c). find(), record() and add_graph() are for one that is there; the others
// take NULL: nobody asks.
// find(): the one with this id, with one more owner; NULL: there is none. Thread-safe, as is close().
struct tachy_ep_context *provider_context_find(const char *id);
void provider_context_close(struct tachy_ep_context **c); // gives one owner's share up; *c becomes NULL
bool provider_wants(const struct tachy_ep_context *c, enum tachy_ep_want want);
// Keeps the plan for take(); NULL: the model is more than one plan.
void provider_keep(struct tachy_ep_context *c, struct provider_plan *p);
void provider_set_failed(struct tachy_ep_context *c, int err); // a plan that was claimed; for failed()
// Records which provider runs which node. Takes ownership of `nodes` and its strings, except `why`.
void provider_record(struct tachy_ep_context *c, struct tachy_ep_node *nodes, int nb);
// A plan's graph as text with its layers, which are taken over on success, and the figures of the plan that was made from
// the last one.
void provider_graph_free(struct tachy_ep_graph *g); // its text and layers
int provider_add_graph(struct tachy_ep_context *c, const struct tachy_ep_graph *g);
void provider_set_figures(struct tachy_ep_context *c, const struct tachy_plan_info *i);
const char *provider_after(const struct tachy_ep_context *c); // of the function table's open()

// For the function table (table_f64.c).
int provider_reference(const struct tachy_ep_plan *p, const void *const in[], double *const out[]);
int provider_layers(const struct tachy_ep_plan *p, const void *const in[],
                    void (*each)(void *user, const struct tachy_ep_layer *layer), void *user);
OrtStatus *provider_plan_run(const struct provider *p, struct provider_plan *plan, OrtKernelContext *k);

// Hands ONNX Runtime the sets of nodes that plans will run (claim.c). `whole`: one set, all nodes.
OrtStatus *provider_claim(const struct provider *p, const struct provider_options *o, const OrtGraph *graph,
                          OrtEpGraphSupportInfo *to, bool *whole, const struct tachy_log *log);

// Nodes of a graph, free()d by the caller; NULL on failure.
const OrtNode **provider_nodes(const struct provider *p, const OrtGraph *graph, size_t *nb);

// For the function table (context.c).
struct tachy_ep_context *provider_context_open(unsigned want, const char *after);
const char *provider_context_id(const struct tachy_ep_context *c);
void provider_context_release(struct tachy_ep_context *c);
struct tachy_ep_plan *provider_take(struct tachy_ep_context *c);
int provider_failed(const struct tachy_ep_context *c);
int provider_nodes_of(const struct tachy_ep_context *c);
bool provider_node(const struct tachy_ep_context *c, int i, struct tachy_ep_node *n);
bool provider_graph(const struct tachy_ep_context *c, int i, struct tachy_ep_graph *g);
