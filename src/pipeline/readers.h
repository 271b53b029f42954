#pragma once
#include "pipeline/control.h"
#include "pipeline/live_stream.h"
#include "pipeline/pace.h"
#include "pipeline/resume.h"
#include "source/source_ops.h"

// The threads between a source and its stream: they read (which includes decoding) and push. There is one, or one per
// decoder if the file has several parallel decoders; frames are then pushed by position, and the stream orders the
// results.

enum { READERS_MAX = 64 };

struct run_readers;

struct run_reader {
    struct run_readers *all;
    struct tachy_prof *prof; // written by this thread only
    pthread_t thread;
    bool started;
};

struct run_readers {
    tachy_source *source;
    tachy_stream *stream;
    struct tachy_profile *profile; // NULL: off
    const struct tachy_log *log;
    struct live_stream *live; // what is pushed in order goes through it
    bool paced;               // frames are read no sooner than their time
    struct tachy_pace pace;   // of the one thread that there is then
    struct tachy_resume *resume; // NULL: none; with it there is one decoder
    bool shared;           // other sources are read at the same time: one decoder unless asked
    tachy_control *control;         // NULL: none
    struct control_run *controlled; // the run in it
    const int *stop_asked; // reading ends once it is non-zero; may be NULL
    struct run_reader one[READERS_MAX];
    struct tachy_prof *profs[READERS_MAX]; // the same as in one[], for tachy_prof_read()
    int nb;                                // threads = decoders
    bool tunes;                            // more may be opened than are asked for; they rest until run_readers_set()
    _Atomic int active;                    // that work; the others rest
    bool made, ending;                     // the lock is there; one has ended, so none rests any more
    pthread_mutex_t lock;                  // guards `ending`
    pthread_cond_t woken;
    atomic_bool stop;                      // no more frames are read
    _Atomic int running, err;              // err: of the first that ended by something but EOF
    _Atomic int64_t decoded;               // frames read
    _Atomic int begun;                     // threads that have read one, or have ended
    _Atomic uint64_t push_ticks;           // threads were held back for so long, in all
    _Atomic uint64_t end_ns;               // when the last of them ended; 0: not yet
};

// Decides the number of decoders: as many as the source was opened with; if that is 0, one per core if the task
// releases its pictures before they are in order, else 1.
int run_readers_open(struct run_readers *r, tachy_source *source, tachy_stream *stream,
                     struct tachy_profile *profile, const struct tachy_log *log);
// After it: whether more decoders than there are could be had with the same output, one a core at
// most.
bool run_readers_could_be_more(const struct run_readers *r);
// Whether they could be had without max_frames.
bool run_readers_are_cut_short(const struct run_readers *r);
// From now on `n` threads read, 1..nb. Frames and their order stay the same: the others leave what they have begun to them.
// Any thread.
void run_readers_set(struct run_readers *r, int n);
// The last thread that ends ends the stream.
int run_readers_start(struct run_readers *r);
// Waits for the threads. TACHY_ERR_EOF: everything was read; TACHY_OK: they were stopped, or the
// pipeline failed; else why reading ended. Again: the same.
int run_readers_join(struct run_readers *r);
// True if they were stopped before the source ended.
bool run_readers_stopped(const struct run_readers *r);
void run_readers_close(struct run_readers *r);
