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

// Of a session.
struct provider_options {
    const struct plan_backend *backend;
    struct tachy_plan_params plan;
    int device; // number of `backend`
    bool on_gpu; // tensors come and go in a GPU's memory
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
    struct tachy_graph *reference; // as it was read, where it was asked for
    int nb_in, nb_out;
    int index[READER_INPUTS]; // of the kernel's inputs
    struct provider_tensor in[READER_INPUTS], out[READER_OUTPUTS];
    bool on_gpu; // as in provider_options
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
// Keeps the plan for the function table's take() where this thread has asked for it; NULL: the
// model is more than one plan.
void provider_keep(struct provider_plan *p);
// Reads the session's options; `name`: that the provider was registered under. What does not exist
// or lies out of range is an error that says what there is. `on_gpu`: the session's device is a GPU.
OrtStatus *provider_read_options(struct provider_options *o, const struct provider *p, const char *name,
                                 const OrtSessionOptions *options, bool on_gpu);

// Whether this thread has asked for a plan, and so wants to know who runs which node. record()
// takes over `nodes` and its strings but `why`, also where nobody has asked.
bool provider_wanted(void);
bool provider_whole_only(void); // it wants one plan for the model or none
void provider_record(struct tachy_ep_node *nodes, int nb);
// Of the function table (table_f64.c).
int provider_reference(const struct tachy_ep_plan *p, const void *const in[], double *const out[]);
int provider_layers(const struct tachy_ep_plan *p, const void *const in[],
                    void (*each)(void *user, const struct tachy_ep_layer *layer), void *user);
// Of the function table (table_graphs.c): whether the plans that this thread compiles from now on leave
// their graphs' text; forgets those before. end: no more do. show_graph() and show_plan() are called for
// each plan, one after the other, before the passes and when it is there.
void provider_want_graphs(bool want, const char *after);
void provider_end_graphs(void);
int provider_show_graph(const struct tachy_graph *g, const struct provider_options *o);
void provider_show_plan(const struct tachy_plan_info *i);
bool provider_graph(int i, struct tachy_ep_graph *g);
const char *provider_pass(int i);
double provider_peak(void);
// Whether the session that this thread creates keeps its plan's graph for the function table.
bool provider_keeps_reference(void);
OrtStatus *provider_plan_run(const struct provider *p, struct provider_plan *plan, OrtKernelContext *k);

// Hands ONNX Runtime the sets of nodes that plans will run (claim.c). `whole`: one set, all nodes.
OrtStatus *provider_claim(const struct provider *p, const struct provider_options *o, const OrtGraph *graph,
                          OrtEpGraphSupportInfo *to, bool *whole, const struct tachy_log *log);

// Nodes of a graph, free()d by the caller; NULL on failure.
const OrtNode **provider_nodes(const struct provider *p, const OrtGraph *graph, size_t *nb);
