#pragma once
#include "base/base.h"

#include <jansson.h>

// The job folder of a resumable run: OUTPUT.tachy/ beside the output. It holds the complete parts, job.json (input,
// settings and progress) and the state at the last cut. Only one process uses it at a time. Everything that job.json
// lists is synced: each file is written under a temporary name, synced and renamed, job.json last. Use from one thread.
struct tachy_record {
    const struct tachy_log *log;
    char *dir;      // "out.mp4.tachy"
    char *output;   // "out.mp4", symbolic links resolved
    int lock;       // of DIR/lock; -1: not held
    json_t *record; // job.json; an empty object where nothing was begun
    bool begun;     // there was a record
};

// Name of the folder for an output; NULL: standard output, or no memory. Free with free().
char *tachy_record_dir(const char *url);

// Creates the folder if needed, locks it and reads the record. TACHY_ERR_AGAIN: another process uses it.
// TACHY_ERR_FORMAT: job.json is damaged.
int tachy_record_open(struct tachy_record **out, const char *url, const struct tachy_log *log);

// "DIR/part-000003" for ("part", 3). NULL: no memory. Free with free().
char *tachy_record_name(const struct tachy_record *j, const char *kind, int64_t number);

int tachy_record_write(struct tachy_record *j, const char *path, const void *data, size_t size);
int tachy_record_save(struct tachy_record *j); // writes the record

// The output is about to get its name: records which file `fd` that is; -1: outputs of several files
// have theirs.
int tachy_record_publish(struct tachy_record *j, int fd);
// True if that happened, but the process ended before it removed the folder.
bool tachy_record_published(const struct tachy_record *j);

// The work is done, or has to start over: removes the folder, which stays open and locked.
void tachy_record_remove(struct tachy_record *j);
// Leaves what is recorded; a folder without a record is removed. *j may be NULL.
void tachy_record_close(struct tachy_record **j);
