#pragma once
#include <tachy/common.h>

#ifdef __cplusplus
extern "C" {
#endif

// The limit of a run, in words, with evidence and a remedy. It is inferred from who waited for whom: the part that
// never waits is the one that all others wait for. docs/profile.md gives the rules.
enum tachy_limit {
    TACHY_LIMIT_NONE = 0,    // too short to tell
    TACHY_LIMIT_DECODE,      // decoding is not fast enough
    TACHY_LIMIT_STAGE,       // a stage of the task other than a model
    TACHY_LIMIT_TRANSFER,    // copies between host and device
    TACHY_LIMIT_ENGINE,      // a model's runs
    TACHY_LIMIT_ENCODE,      // the sink does not take frames fast enough
    TACHY_LIMIT_DISK,        // reading the input, or writing the output
    TACHY_LIMIT_MEMORY,      // the bound on frames in flight, or the system is short of memory
    TACHY_LIMIT_THERMAL,     // the processor lowers its clock because of heat
    TACHY_LIMIT_ONE_CORE,    // one thread carries every frame while other cores are idle
    TACHY_LIMIT_BATCH,       // the model runs with batches that are not full
    TACHY_LIMIT_SOURCE_RATE, // frames arrive no faster: a camera, a paced source
    TACHY_LIMIT_COUNT
};
// "none", "decode", "stage", ..., "one-core-busy", "batch-too-small", "source-rate". Static string.
TACHY_API const char *tachy_limit_name(enum tachy_limit l);

#define TACHY_EVIDENCE_MAX 6

// Plain data: copying the struct copies everything.
struct tachy_verdict {
    enum tachy_limit limit;
    int step;              // the step in question, an index in tachy_summary.steps
    char name[32];         // of the limit; for TACHY_LIMIT_STAGE the step's: "preprocess", ...
    char words[160];       // "Bottleneck: decoding. The workers waited for frames 62 % of the time."
    char remedy[240];      // what to do; empty if there is nothing to do
    char without[48];      // "if decoding cost nothing": what expected_gain supposes; empty without a remedy
    double expected_gain;  // end-to-end speed-up if this limit vanished, up to the next one:
                           // >= 1; 0: not known
    int n_evidence;        // 0..TACHY_EVIDENCE_MAX
    char evidence[TACHY_EVIDENCE_MAX][160]; // one figure each
};

// The documented, stable JSON object (docs/profile.md). Free with tachy_free().
TACHY_API int tachy_verdict_json(char **json, const struct tachy_verdict *v);
// The verdict as lines of text; `evidence` false: without evidence. Free with tachy_free().
TACHY_API int tachy_verdict_text(char **text, const struct tachy_verdict *v, bool evidence);

#ifdef __cplusplus
}
#endif
