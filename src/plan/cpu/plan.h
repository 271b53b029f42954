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
    size_t shared;  // of these, what other plans of the process use as well at the moment
    size_t arena;   // of a run: what is alive at the same time, coloured
    size_t scratch; // of a run: what a step needs while it runs
    size_t values;  // what the arena would be if nothing shared its place
    int effort;     // that the kernels were chosen with, 0: defaults
    double choice_seconds;         // that timing them took here; 0: nothing was timed
    double run_ms, default_run_ms; // of a run as chosen and with the defaults, where that was timed
};

struct tachy_cpu_plan_params { // {0} is valid
    int threads; // inside of one run, the caller's among them; 0: 1
    // What may be spent on timing kernels against each other: 0 nothing, 1 half a second, 2 three
    // seconds, 3 thirty seconds at most. Which kernels run changes no bit of a result.
    int effort;
    int parts; // plans that share this time; 0: 1
    // What tachy_cpu_plan_choice() gave for the same graph on such a machine. Taken where it fits and
    // its effort is at least `effort`, else made again. NULL: none.
    const char *choice;
    bool trial; // nobody will run the plan: no weights are packed
    int direct; // 1: no convolution by Winograd's tiles, which gives other bits; `choice` must be of such a plan
    int apart;  // 1: each convolution is a step of its own; the same bits
    // enum tachy_guard (base/guard.h): every value, input and output of a run has memory of its own beside
    // pages that nobody may touch, and a step's scratch too, so that a kernel which reads or writes beside
    // them faults; what was not written is NaN. For tests: the same bits, slower; no kernels are timed.
    int guard;
};

// Whether the plan can run this node, whose shapes hold (tachy_graph_verify()): NULL, or why not,
// a static string that follows "is not built: ".
const char *tachy_cpu_refuses(const struct tachy_node *n);

// Compiles `g`, whose layouts are set (tachy_plan_layout()). Everything that the plan needs is
// copied: `g` and its constants may go afterwards. `params` NULL: as {0}. TACHY_ERR_UNSUPPORTED names
// the node, TACHY_ERR_NOMEM.
int tachy_cpu_plan_open(struct tachy_cpu_plan **out, const struct tachy_graph *g,
                        const struct tachy_cpu_plan_params *params);
void tachy_cpu_plan_close(struct tachy_cpu_plan **p);
void tachy_cpu_plan_info(const struct tachy_cpu_plan *p, struct tachy_cpu_plan_info *info);

// Which kernel runs each shape, one a line, for tachy_cpu_plan_params. The plan's memory.
const char *tachy_cpu_plan_choice(const struct tachy_cpu_plan *p);

// A key for the choice of a graph on this machine: the graph before its passes, processor, instruction
// sets and version of this library. `key` as tachy_store_key() has it. TACHY_ERR_NOMEM.
int tachy_cpu_plan_key(const struct tachy_graph *g, char *key);

// Runs once on the calling thread. `in` and `out` are dense in ONNX's order, in the order of the
// graph's inputs and outputs, aligned to a float, and do not overlap; what is of another type than
// float32 in the graph lies there in that type, aligned to it. TACHY_ERR_NOMEM: no memory
// for a workspace; nothing else can fail.
int tachy_cpu_plan_run(struct tachy_cpu_plan *p, const float *const in[], float *const out[]);
// The same; end[i] becomes the time at which step i ended (tachy_now_ns()), for info.steps steps.
int tachy_cpu_plan_run_timed(struct tachy_cpu_plan *p, const float *const in[], float *const out[],
                             uint64_t *end);

// What a step computes.
struct tachy_cpu_plan_step {
    const char *op, *name; // of the node it comes from, "" where it has none; the plan's memory
    size_t bytes;          // of its output
};
void tachy_cpu_plan_step(const struct tachy_cpu_plan *p, int i, struct tachy_cpu_plan_step *step);
