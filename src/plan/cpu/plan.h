#pragma once
#include "plan/graph.h"

// A graph compiled for this processor: an ordered list of steps over one arena.
//
//   tachy_plan_passes() -> tachy_cpu_plan_open() -> tachy_cpu_plan_run() any number of times
//
// A plan is constant once it is open: any number of threads may run it at the same time, each run
// takes a workspace (arena and scratch) of the plan's and gives it back. The bits of the result do
// not depend on which.
struct tachy_cpu_plan;

// Figures of a plan, in bytes unless said otherwise.
struct tachy_cpu_plan_info {
    int steps;      // that run; a node that became an address needs none
    int nodes;      // of the graph
    size_t weights; // packed, once for all runs
    size_t arena;   // of a run: what is alive at the same time, coloured
    size_t scratch; // of a run: what a step needs while it runs
    size_t values;  // what the arena would be if nothing shared its place
};

struct tachy_cpu_plan_params {
    int threads; // inside of one run, the caller's among them; 0: 1
};

// Whether the plan can run this node, whose shapes hold (tachy_graph_verify()): NULL, or why not,
// a static string that follows "is not built: ".
const char *tachy_cpu_refuses(const struct tachy_node *n);

// Compiles `g`, whose layouts are set (tachy_plan_layout()). Everything that the plan needs is
// copied: `g` and its constants may go afterwards. NULL `params`: all as 0 says. TACHY_ERR_UNSUPPORTED names the node,
// TACHY_ERR_NOMEM.
int tachy_cpu_plan_open(struct tachy_cpu_plan **out, const struct tachy_graph *g,
                        const struct tachy_cpu_plan_params *params);
void tachy_cpu_plan_close(struct tachy_cpu_plan **p);
void tachy_cpu_plan_info(const struct tachy_cpu_plan *p, struct tachy_cpu_plan_info *info);

// Runs once on the calling thread. `in` and `out` are dense in ONNX's order, in the order of the
// graph's inputs and outputs, aligned to a float, and do not overlap. TACHY_ERR_NOMEM: no memory
// for a workspace; nothing else can fail.
int tachy_cpu_plan_run(struct tachy_cpu_plan *p, const float *const in[], float *const out[]);
