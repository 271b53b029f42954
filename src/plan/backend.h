#pragma once
#include "plan/pass.h"

// A back end executes graphs by a processor's or a GPU's kernels. It turns a graph, after its passes,
// into a plan: an ordered list of steps over one arena. The front end (src/provider) asks the back end of
// the session's device and knows none by name.
//
//   graph -> tachy_plan_run_passes(g, backend->passes(params), NULL) -> open() -> run() or queue(), any number of times
//
// A plan is constant once it is open: any number of threads may run it at the same time.

// The precision of computation. Inputs and outputs of a plan keep the graph's own types.
enum tachy_plan_precision { // a CPU has fp32, and int8 by plain loops, which check the pass
    TACHY_PLAN_FP32 = 0,
    TACHY_PLAN_TF32,  // fp32, but matrix products may round what they multiply to 10 bits of mantissa
    TACHY_PLAN_FP16,  // values between nodes are float16, sums float32
    TACHY_PLAN_BF16,  // or bfloat16
    TACHY_PLAN_MIXED, // fp16, but nodes that make the error too large are fp32: all of them if it must be (pass_half.c)
    TACHY_PLAN_INT8,  // layers between quantised numbers in whole numbers of 8 bits, all else as fp16 (pass_int8.c)
    TACHY_PLAN_PRECISIONS
};
// Their names, by number; ends with NULL.
extern const char *const tachy_plan_precisions[];

struct tachy_nn_kernels;
struct tachy_plan_params { // {0} is valid
    // Time limit for timing kernels against each other: 0 none, 1 half a second, 2 three seconds, 3 thirty seconds at
    // most; on a GPU 5, 15, 60 and 600.
    int effort;
    int parts; // plans that share this time; 0: 1
    // The result of choice() for the same graph on such a machine. It is taken if it fits and its effort is at
    // least `effort`, else made again. NULL: none.
    const char *choice;
    bool trial; // nobody will run the plan: no weights are packed, no device is touched
    // CPU:
    int threads; // inside of one run, the caller's among them; 0: 1. See run()
    int direct;  // 1: no convolution by Winograd's tiles, which gives other bits; `choice` must be of such a plan
    int apart;   // 1: each convolution is a separate step; the same bits
    // enum tachy_guard (base/guard.h): every value, input and output of a run, and each step's scratch, lies next to
    // inaccessible pages, so that a kernel that reads or writes out of bounds faults; unwritten memory is NaN. For
    // tests: the same bits, slower; no kernels are timed.
    int guard;
    // CUDA:
    int gpu; // ordinal as the driver counts
    enum tachy_plan_precision precision;
    bool deterministic; // no kernel is chosen by time: the same in every process
    // MiB of GPU memory that the plan may hold: its weights, including shared ones, and runs with their tensors; 0:
    // any. Runs wait for each other's memory rather than hold more. Memory for timing kernels or precisions is not
    // counted.
    int memory_limit;
    // For tests: (cuda/nn/kernels.h) run in place of the library's own, and without cuBLASLt. NULL: the library's.
    const struct tachy_nn_kernels *kernels;
};

// Figures of a plan, in bytes unless said otherwise.
struct tachy_plan_info {
    int steps;      // that run; a node that became an address needs none
    int nodes;      // of the graph
    size_t weights; // packed, once for all runs
    size_t shared;  // of these, what other plans of the process use as well at the moment
    size_t arena;   // of a run: what is alive at the same time, coloured
    size_t scratch; // of a run: what a step needs while it runs
    size_t values;  // what the arena would be if nothing shared its place
    int effort;     // that the kernels were chosen with, 0: defaults
    double choice_seconds;         // that timing them took here; 0: nothing was timed
    double run_ms, default_run_ms; // of a run as chosen and with the defaults, if that was timed
    bool on_gpu;
    int gpu;                       // its ordinal, of a plan there
    enum tachy_plan_precision precision; // taken: not TACHY_PLAN_MIXED if all of the nodes are alike
    int single;                    // of a mixed plan: nodes that are fp32, as the graph was read
    double noise_error, picture_error; // of a plan that was asked to be mixed, against fp32 (mixed.c); else NAN
};

// One step of a plan.
struct tachy_plan_step {
    const char *op, *name; // of the node it comes from, "" if it has none; the plan's memory
    size_t bytes;          // of its output
    struct tachy_layer_cost cost; // zeros: the back end does not tell, or nothing is computed
};

// Threads of the caller's that may help with a run.
struct tachy_plan_helpers {
    // Calls piece(arg, i) once for each i < n, on the calling thread and any others, and returns when all have ended.
    void (*share)(void *user, void (*piece)(void *arg, size_t i), void *arg, size_t n);
    void *user;
};

struct plan_backend;
struct tachy_plan { // the first member of each back end's own
    const struct plan_backend *backend;
};

struct plan_backend {
    const char *name; // "cpu", "cuda"
    // Checks whether a plan can run this node, whose shapes are verified (tachy_graph_verify()): NULL, or why not, a
    // static string that follows "is not built: ". Called before any pass.
    const char *(*refuses)(const struct tachy_node *n);
    // The passes over a graph before open(), in this order; ends with a row of NULLs.
    const struct tachy_plan_pass *(*passes)(const struct tachy_plan_params *p);
    // A key for the choice of a graph on this machine, from the graph before its passes; `key` as
    // tachy_store_key() has it. TACHY_ERR_NOMEM.
    int (*key)(const struct tachy_graph *g, const struct tachy_plan_params *p, char *key);
    // Describes the processor that the plan runs on, for people.
    void (*about)(const struct tachy_plan_params *p, char *text, size_t size);
    // Compiles a graph. Everything that the plan needs is copied: `g` and its constants may go
    // afterwards. TACHY_ERR_UNSUPPORTED names the node; TACHY_ERR_UNAVAILABLE: no such device;
    // TACHY_ERR_NOMEM.
    int (*open)(struct tachy_plan **out, const struct tachy_graph *g, const struct tachy_plan_params *p);
    void (*close)(struct tachy_plan *p);
    void (*info)(const struct tachy_plan *p, struct tachy_plan_info *info);
    // The kernel for each shape, one per line, for tachy_plan_params. The plan's memory.
    const char *(*choice)(const struct tachy_plan *p);
    void (*step)(const struct tachy_plan *p, int i, struct tachy_plan_step *step);
    // Runs once and waits for the result. On a CPU, `helpers` do steps in params.threads pieces at most; NULL: the plan has
    // threads of its own for that. The bits are the same. `in` and `out` lie in host memory, dense in ONNX's order, in
    // the order of the graph's inputs and outputs, aligned to their type, and do not overlap. end[i]
    // becomes the time at which step i ended (tachy_now_ns()), for info.steps steps; NULL: not wanted.
    // TACHY_ERR_NOMEM: no memory for a workspace; TACHY_ERR_EXTERNAL: the device failed.
    int (*run)(struct tachy_plan *p, const void *const in[], void *const out[], const struct tachy_plan_helpers *helpers,
               uint64_t *end);
    // As run(), with tensors on the device: queues on `stream` (a CUstream of the device's primary context; NULL: its
    // default stream) and does not wait. NULL: a back end without its own memory.
    int (*queue)(struct tachy_plan *p, const void *const in[], void *const out[], void *stream);
    // The last failure of run() or queue() in the words of the driver or the library, "" if none has failed. NULL: runs of
    // this back end fail only for lack of memory.
    void (*why)(struct tachy_plan *p, char *text, size_t size);
    // The mean of `runs` runs one after the other on inputs of the host, which are copied before, in ms. NULL as queue.
    int (*time)(struct tachy_plan *p, const void *const in[], int runs, double *ms);
};

extern const struct plan_backend tachy_plan_cpu, tachy_plan_cuda;

static inline void tachy_plan_close(struct tachy_plan **p) // *p becomes NULL, and may be it
{
    if (*p)
        (*p)->backend->close(*p);
    *p = NULL;
}
