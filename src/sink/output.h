#pragma once
#include "base/base.h"

struct AVIOContext; // of libavformat/avio.h

// One output file, written under a temporary name (a hidden .NAME.tachy-PID-N.part in the same folder) and renamed when
// complete. Standard output, devices and FIFOs are written directly. Use from one thread.
struct tachy_output {
    const struct tachy_log *log;
    char *name;     // as given, for messages; "standard output"
    char *path;     // final name, symbolic links resolved; NULL: written directly
    char *part;     // what is being written; NULL once renamed or removed
    int fd;         // -1: not open
    bool seekable;
    bool overwrite;
    bool sync;      // finish() waits until the disk has it
    bool resumable; // of a run that goes on when it is started again: failures say so
    int64_t bytes;  // size so far
    int64_t pos;
    const int *stop; // the caller's: once non-zero, a pipe that takes nothing for 2 s has failed (ETIMEDOUT). NULL: it may wait
    bool may_wait;   // the descriptor is a pipe's of our own, which never blocks: poll() waits for its reader
    uint64_t write_ns; // in write()
    int error;      // errno of the first write that failed, sticky
};

// NULL for standard output ("-", "pipe:", "pipe:1"), else the file name in `url` ("file:" is
// taken off).
const char *tachy_output_file(const char *url);

// Checks that `url` may be written: TACHY_ERR_EXISTS (the message names -y), TACHY_ERR_NOT_FOUND (no such folder),
// TACHY_ERR_IO (not writable), TACHY_ERR_INVAL, TACHY_ERR_UNSUPPORTED.
int tachy_output_check(const char *url, bool overwrite, const struct tachy_log *log);

int tachy_output_open(struct tachy_output *o, const char *url, bool overwrite,
                      const struct tachy_log *log);

// As above, but writes in the folder `dir` (on the same file system; NULL: beside the name) until the file is renamed.
int tachy_output_open_in(struct tachy_output *o, const char *url, const char *dir, bool overwrite,
                         const struct tachy_log *log);

// Appends; 0 or a negative errno, which is kept in o->error.
int tachy_output_write(struct tachy_output *o, const void *data, size_t size);

// Logs the sentence for o->error, removes what was written and returns our code: this is the
// declared rule for a full disk. TACHY_OK where nothing failed.
int tachy_output_fail(struct tachy_output *o);

// Closes (which may report late errors) and renames. Without `overwrite`, leaves a file alone that has appeared
// meanwhile: TACHY_ERR_EXISTS.
int tachy_output_finish(struct tachy_output *o);

// Closes; removes what was not finished. A zeroed struct is fine.
void tachy_output_close(struct tachy_output *o);

// An AVIOContext that writes to `o`; free with tachy_output_avio_free().
int tachy_output_avio(struct tachy_output *o, struct AVIOContext **pb);
void tachy_output_avio_free(struct AVIOContext **pb);
