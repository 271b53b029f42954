#pragma once
#include "cli.h"

// The parts of `tachy bench`; docs/bench.md has the method and the JSON.

enum { BENCH_CASES = 48, BENCH_WORDS = 16, BENCH_WORD = 300 };

// Another program: a loop over a clip in Python.
struct bench_peer {
    const char *name;
    const char *packages; // that pip has, beside OpenCV
    const char *imports;  // a line
    const char *source;   // defines work(picture); `model` names the network's file
};

struct bench_case {
    const char *suite;
    char name[64];
    int width, height;       // of the generated clip; 0: the user's file
    bool stereo;
    char word[BENCH_WORDS][BENCH_WORD]; // of the command, after the task
    int n_words;
    int64_t frames;          // of a run; 0: not warmed up yet
    const struct bench_peer *peer; // NULL: this command
};

struct bench_run {
    struct cli *c;
    const char *file;        // the user's; NULL: clips are generated
    struct bench_case list[BENCH_CASES];
    int n;
    int rounds;
    double seconds;          // of a run
    char folder[64];         // what runs write; removed in the end
    FILE *log;               // standard error of a run
    json_t *result;          // of the kind bench; as it grows
    double spent;            // seconds, of the runs that were made
    int made, left;          // runs
};

// bench_cases.c: what the options ask for. An exit status.
int bench_cases(struct bench_run *b);
// bench_clip.c: the generated clip of this size, made once and kept in the cache; *path is the caller's, free() it.
int bench_clip(const struct bench_case *k, bool quick, const struct tachy_log *log, const int *stop, char **path);
// bench_trial.c: one run of a case over this many frames (0: those of a first look). *out: the part that is kept; a
// failed run gives an object with `error`. Negative: an error of ours.
int bench_trial(struct bench_run *b, const struct bench_case *k, int64_t frames, json_t **out);
bool bench_stopped(const struct bench_run *b);
