#pragma once
#include <tachy/settings.h>

#ifdef __cplusplus
extern "C" {
#endif

// Runs one stage alone on data saved from a run (the setting debug.save_stage, --save-stage): how fast it is with its
// input ready, and whether it still gives the same results. docs/replay.md describes the files.

enum tachy_replay_stage {
    TACHY_REPLAY_PREPROCESS = 0, // frame -> the model's input
    TACHY_REPLAY_ENGINE,         // the model's input -> its outputs
    TACHY_REPLAY_POSTPROCESS,    // the model's outputs -> mask, without temporal steps
    TACHY_REPLAY_COUNT
};
TACHY_API const char *tachy_replay_stage_name(enum tachy_replay_stage s); // "preprocess", ...

struct tachy_replay_params {
    const char *dir;        // required: the folder of --save-stage
    enum tachy_replay_stage stage;
    int64_t loop;           // timed runs, over the items in turn, 1..10^7; 0: 1000
    bool golden;            // compare with the saved results
    double tolerance;       // largest allowed difference of a value; 0: the same bits
    double min_psnr;        // an item with at least this many dB matches in any case; 0: off
    // Overrides for the saved run's settings: values set here other than by default win (another provider, more
    // threads). NULL: none. Need only live until the call returns.
    const tachy_settings *settings;
    const int *stop;        // ends early once it is not zero: TACHY_ERR_INTERRUPTED; may be NULL
    const struct tachy_log *log;
};
#define tachy_replay_params(...) (&(struct tachy_replay_params){__VA_ARGS__})

struct tachy_replay {
    enum tachy_replay_stage stage;
    int64_t items, runs;    // saved frames (each eye counts); timed runs
    double median_ms, p99_ms, max_ms;
    double rate;            // runs per second, consecutive on one thread
    // With `golden`. An item is a stage's result for one eye of one frame.
    bool compared, same;    // same: every item matches
    int64_t identical;      // items with the same bits
    int64_t differ;         // items that do not match
    double max_difference;  // of a value, over all items; infinite where one is NaN
    double min_psnr;        // dB, of the worst item; infinite where all are identical
    int64_t worst_frame;    // frame with max_difference; -1: none
    int worst_eye;
    char saved[256], now[256]; // model and engine of the saved run and of this one, as text
};

// TACHY_OK also if results differ: look at r->same. TACHY_ERR_NOT_FOUND, TACHY_ERR_FORMAT, TACHY_ERR_MISMATCH (a saved
// array does not fit the stage) name the file; also any error of opening a task.
TACHY_API int tachy_replay_sized(size_t p_size, size_t r_size, const struct tachy_replay_params *p,
                                 struct tachy_replay *r);
#define tachy_replay(...) \
    tachy_replay_sized(sizeof(struct tachy_replay_params), sizeof(struct tachy_replay), __VA_ARGS__)

// The documented, stable JSON object (docs/replay.md); and a few lines for people. Free with tachy_free().
TACHY_API int tachy_replay_json_sized(size_t r_size, char **json, const struct tachy_replay *r);
#define tachy_replay_json(...) tachy_replay_json_sized(sizeof(struct tachy_replay), __VA_ARGS__)
TACHY_API int tachy_replay_text_sized(size_t r_size, char **text, const struct tachy_replay *r);
#define tachy_replay_text(...) tachy_replay_text_sized(sizeof(struct tachy_replay), __VA_ARGS__)

#ifdef __cplusplus
}
#endif
