#pragma once
#include "base/base.h"
#include "base/index.h"
#include "base/thread.h"
#include "curate/expression.h"
#include "postprocess/text.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <tachy/curate.h>
#include <tachy/pipeline.h>
#include <tachy/source.h>
#include <tachy/task.h>

// How a run works. The reader (read.c) decodes each input once and pushes each frame into a stream of every task
// (streams.c), all in one pipeline. A frame on its way is a record. Records pass the levels in order. Level 0 waits for
// the results of the tasks without a condition. Each further level is one task with a condition on the results so far;
// the frame is pushed to that task only if the condition holds. After the last level the writer (write.c) filters and
// writes. Every level has its own thread, so none waits for a later one.

enum { CURATE_TASKS_MAX = 16 };

// One task of the run, with its own settings.
struct curate_task {
    const char *name;
    int index; // as tachy_task_at() counts
    tachy_settings *set;
    struct curate_expression *when; // NULL: every frame
    int level;
    bool mends, hears; // of its table
    bool notes;        // its items' notes are kept, for files about all inputs together (notes.c)
    tachy_task *taker; // that has taken them, until the run ends; NULL: not yet
};

// State of an input.
enum curate_state { CURATE_TODO, CURATE_BEFORE, CURATE_DONE, CURATE_SAME, CURATE_RETRY, CURATE_FAILED, CURATE_OTHER };

struct curate_file {
    char *path;
    int64_t number;  // in the list of all inputs, from 0
    uint64_t digest[2]; // of its bytes
    int64_t size;    // bytes
    int64_t mtime;   // nanoseconds
    enum curate_state state; // the reader's until its end is queued, then the writer's
    bool known;      // the digest is known
    int first;       // index of an input before it with the same bytes, plus one; 0: none
    char why[256];   // of a failure
    bool looked;     // the reader's: look.c has seen frames of it
    int64_t begin, notes_begin; // for the writer: offsets of its part of results.jsonl and notes.bin
    int64_t frames, kept, decoded;
    double share;    // of it that has been written, 0..1
};

struct curate_set;  // streams.c
struct curate_look; // look.c

// A frame on its way, or the end of an input.
struct curate_record {
    struct curate_record *next;
    struct curate_file *file;
    struct curate_set *set;
    struct curate_set *own; // of the tasks that hear; NULL: there are none, or no sound
    tachy_frame *mended; // as a task has mended it; NULL: none has
    tachy_frame *frame; // until the writer is done with it; NULL: the end of the input
    struct tachy_frame head; // all but the pixels
    double time;        // seconds; NaN: not known
    double share;       // of the input up to here, 0..1
    int err;            // of the end: how the input ended; else TACHY_OK, or a task has failed on this frame
    bool retry;         // err is another frame's fault
    bool still;         // the input is a single picture
    bool looked, compared; // what look.c has set: scene and cut, the five below
    bool cut;           // the frame is the first of its scene
    int64_t scene;      // in the input, from 0
    int duplicate;      // of a frame before: 0 no, 1 near, 2 exact
    const char *of_file; // of which frame; NULL: of none. Until look.c is closed
    int64_t of_frame;
    uint64_t hash, digest;
    char picture[64];   // of a kept frame, in the folder of the results; "": none
    bool pushed[CURATE_TASKS_MAX];
    struct tachy_text text[CURATE_TASKS_MAX]; // a JSON object of each task that has seen it
    struct tachy_text note[CURATE_TASKS_MAX]; // stage/note.h
    struct curate_value *value; // in the order of curate.names
};

struct curate_queue {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    struct curate_record *first, **last;
};

struct curate {
    struct tachy_curate_params p;
    const struct tachy_log *log;
    tachy_settings *set;
    struct curate_task task[CURATE_TASKS_MAX];
    int nb_tasks, nb_levels;
    struct curate_names names;
    atomic_bool *valued;            // of each name: some frame had a value
    struct curate_expression *keep; // NULL: every frame
    bool pictures;                  // of kept frames are written
    bool notes;                     // of some task are kept

    struct curate_file *file;
    int nb_files;
    struct tachy_index seen; // the reader's: files by digest
    int shard, shards;       // of shards 0 to shards - 1 only this one; 0 shards: all
    int64_t listed; // before --sample and --shard left some out

    tachy_pipeline *pipeline;
    struct tachy_prof *reads, *writes; // figures of the reader's and the writer's threads, in the pipeline's rows
    struct curate_queue queue[CURATE_TASKS_MAX + 2]; // in front of each level, and of the writer
    pthread_mutex_t room_lock;
    pthread_cond_t room_cond;
    int room;          // records with a frame that may still be made
    int nb_room;
    struct curate_streams *streams;
    struct curate_look *look; // the reader's; NULL: nothing asks for it
    atomic_bool stop;  // the writer cannot go on
    int read_err;      // of the reader, after it was joined

    struct curate_ledger *ledger;
    struct tachy_curate_summary sum;
    uint64_t began;    // tachy_now_ns()
};

// tasks.c: reads curate.tasks, each with its section, conditions and the filter.
int curate_tasks_open(struct curate *c);
void curate_tasks_close(struct curate *c);

// inputs.c: c->file, from input.files; --sample is applied.
int curate_inputs_list(struct curate *c);
void curate_inputs_free(struct curate *c);
// import_tar.c: unpacks the pictures and videos of a tar file beside the results, and adds each.
int curate_import_tar(struct curate *c, const char *tar, int (*add)(struct curate *c, const char *path));
// Reads the whole file and sets its digest.
int curate_digest(struct curate_file *f, const int *stop, const struct tachy_log *log);

// curate.c: the figures of all stages so far. Returns the number of rows.
int curate_steps(const struct curate *c, struct tachy_step_stats steps[TACHY_MAX_STEPS]);
// Adds what a thread has done since `start` (ticks) to its figures, in the row of this name.
void curate_count(const struct curate *c, struct tachy_prof *prof, const char *row, int64_t frame, uint64_t start);

// values.c: what the names of the expressions stand for.
void curate_values_of_frame(const struct curate *c, struct curate_record *r);
// Takes the values from a task's result; values already set stay.
void curate_values_of_result(const struct curate *c, struct curate_record *r, int task, const struct tachy_result *result);
// Warns of names that no frame had a value of: most likely they are misspelt.
void curate_values_check(const struct curate *c);

// look.c: scenes, and duplicates among the frames of all inputs. Nothing happens unless an expression or setting asks for them.
// For the reader's thread. Open: after the folder of results, which has the frames of earlier runs.
int curate_look_open(struct curate *c);
void curate_look_close(struct curate *c);
void curate_look_begin(struct curate *c, struct curate_file *f);
void curate_look_failed(struct curate *c, const struct curate_file *f);
int curate_look(struct curate *c, struct curate_record *r); // sets what the record has of it
// Counts into the summary, of all frames with results, and writes duplicates.jsonl.
int curate_look_count(struct curate *c);

// streams.c: a stream of each task for frames of one format, opened when the first such frame comes. The sets that were
// used last are kept. Tasks that hear have a set for each input. One thread takes, any gives back.
int curate_streams_open(struct curate *c);
void curate_streams_close(struct curate *c);
int curate_streams_take(struct curate *c, const struct tachy_video_info *info, struct curate_set **out);
// *out NULL: no task hears, or the input has no sound that can be read.
int curate_streams_own(struct curate *c, const struct tachy_video_info *info, const char *path, struct curate_set **out);
void curate_set_ref(struct curate *c, struct curate_set *set);
void curate_set_unref(struct curate *c, struct curate_set *set);
// NULL: the set has none of this task.
tachy_stream *curate_set_stream(struct curate_set *set, int task);
// Pushes a frame of the input. One thread for each task.
int curate_set_push(struct curate_set *set, int task, const struct curate_file *file, tachy_frame *frame);
// The task's note of the item with this result; NULL: it makes none.
const struct tachy_text *curate_set_note(const struct curate_set *set, int task, const struct tachy_result *result);
// No frame follows for now in the tasks that see every frame, or none at all. The reader's.
void curate_set_flush(const struct curate *c, struct curate_set *set);
void curate_set_end(const struct curate *c, struct curate_set *set);
// A task has failed on a frame: nothing more goes through this set.
void curate_set_break(struct curate_set *set, int err);
bool curate_set_broken(const struct curate_set *set);

// read.c: pushes the frames of the files that are CURATE_TODO, and queues an end for each. A thread's function.
void *curate_read(void *curate);
// A level's work. A thread's function.
struct curate_level {
    struct curate *c;
    int level;
};
void *curate_level_run(void *level);
void curate_queue_put(struct curate_queue *q, struct curate_record *r);
struct curate_record *curate_queue_take(struct curate_queue *q, uint64_t until); // NULL: nothing came until then (ns)
struct curate_record *curate_record_new(struct curate *c, struct curate_file *f);
void curate_record_free(struct curate *c, struct curate_record *r);
bool curate_stopped(const struct curate *c);

// write.c: all inputs, and those that need no work, for the progress. Before the reader starts.
struct curate_load {
    int64_t bytes, ended_bytes;
    int ended;
};
struct curate_load curate_load(const struct curate *c);
// Takes the records after the last level until the reader ends.
int curate_write(struct curate *c, const struct curate_load *load);

// picture.c: writes the frame's picture, if pictures are wanted, and names it in the record.
int curate_picture(struct curate *c, struct curate_record *r);

// notes.c: files about all inputs together (tachy_option.at_end). The notes of all items lie in notes.bin, and each run that gets
// through its inputs writes these files from all of them.
// Before the first frame: refuses files that are there and are not an earlier run's of this folder.
int curate_notes_check(struct curate *c);
int curate_notes_finish(struct curate *c);
// Adds the labels that the tasks found, such as a person's name, to the regions of the next line of results.jsonl. Call it after
// curate_notes_finish(), with zeros in at[] before the first line.
void curate_notes_label(const struct curate *c, json_t *frame, size_t at[CURATE_TASKS_MAX]);
// For messages: all rows of options that are written so, "faces.people, quality.report".
void curate_notes_rows(char *text, size_t size);

// ledger.c: the folder of results. files.jsonl lists finished inputs; its last line gives the valid lengths of
// results.jsonl and notes.bin.
int curate_ledger_open(struct curate *c);
void curate_ledger_close(struct curate *c);
bool curate_ledger_has(const struct curate *c, struct curate_file *f); // done, by its digest
bool curate_ledger_knows(const struct curate *c, struct curate_file *f); // by name, size and time: sets the digest
const char *curate_dir(const struct curate *c); // by the settings, also before it is opened
const char *curate_ledger_dir(const struct curate *c);
int64_t curate_ledger_at(const struct curate *c); // bytes of results.jsonl
int curate_ledger_add(struct curate *c, const struct tachy_text *line);
int64_t curate_ledger_notes_at(const struct curate *c); // bytes of notes.bin
int curate_ledger_note(struct curate *c, int task, const struct tachy_text *note);
// Calls `each` for all notes; `file`: line of the input in files.jsonl, from 0. *nb_files: lines. After the last input.
int curate_ledger_notes(const struct curate *c, int (*each)(void *user, int file, const char *input, int task, const void *note, size_t size),
                        void *user, int *nb_files);
int curate_ledger_end(struct curate *c, const struct curate_file *f); // its lines are whole
int curate_ledger_drop(struct curate *c, const struct curate_file *f); // its lines go
void curate_ledger_count(const struct curate *c, int64_t *frames, int64_t *kept); // of all inputs that are done
int curate_ledger_failed(struct curate *c); // writes failed.jsonl, or removes it
