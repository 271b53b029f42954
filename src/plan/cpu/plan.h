#pragma once
#include "plan/backend.h"

// A graph compiled for this processor: an ordered list of steps over one arena.
//
//   tachy_plan_passes() -> tachy_cpu_plan_open() -> tachy_cpu_plan_run() any number of times
//
// A plan is constant once it is open: any number of threads may run it at the same time, each run
// takes a workspace (arena and scratch) of the plan's and gives it back. The bits of the result do
// not depend on which.
// tachy_plan_cpu (plan/backend.h) is the same for who knows no back end by name.
struct tachy_cpu_plan;

// Checks whether the plan can run this node, whose shapes are verified (tachy_graph_verify()): NULL, or why not, a
// static string that follows "is not built: ".
const char *tachy_cpu_refuses(const struct tachy_node *n);

// Compiles `g`, whose layouts are set (tachy_plan_layout()). Everything that the plan needs is
// copied: `g` and its constants may go afterwards. `params` NULL: as {0}. TACHY_ERR_UNSUPPORTED names
// the node, TACHY_ERR_NOMEM.
int tachy_cpu_plan_open(struct tachy_cpu_plan **out, const struct tachy_graph *g,
                        const struct tachy_plan_params *params);
void tachy_cpu_plan_close(struct tachy_cpu_plan **p);
void tachy_cpu_plan_info(const struct tachy_cpu_plan *p, struct tachy_plan_info *info);

// The kernel for each shape, one per line, for tachy_plan_params. The plan's memory.
const char *tachy_cpu_plan_choice(const struct tachy_cpu_plan *p);

// A key for the choice of a graph on this machine: the graph before its passes, processor, instruction
// sets and version of this library. `key` as tachy_store_key() has it. TACHY_ERR_NOMEM.
int tachy_cpu_plan_key(const struct tachy_graph *g, char *key);

// Runs once. `in` and `out` are dense in ONNX's order, in the order of the
// graph's inputs and outputs, aligned to a float, and do not overlap; what is of another type than
// float32 in the graph lies there in that type, aligned to it. TACHY_ERR_NOMEM: no memory
// for a workspace; nothing else can fail.
int tachy_cpu_plan_run(struct tachy_cpu_plan *p, const float *const in[], float *const out[]);
// As tachy_cpu_plan_run(), with `helpers` and `end` as in struct plan_backend.
int tachy_cpu_plan_run_by(struct tachy_cpu_plan *p, const float *const in[], float *const out[],
                          const struct tachy_plan_helpers *helpers, uint64_t *end);

// Describes step `i`.
void tachy_cpu_plan_step(const struct tachy_cpu_plan *p, int i, struct tachy_plan_step *step);
