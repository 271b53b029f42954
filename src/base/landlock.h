#pragma once
#include "base/base.h"

#include <stdint.h>

// Rules on files by the kernel's Landlock: what a process may open from tachy_landlock_enter() on. One
// thread at a time.
struct tachy_landlock {
    int fd;         // of the rules; -1: none
    uint64_t known; // rights that this kernel can deny
    const struct tachy_log *log;
};

// No rule yet. Logged: TACHY_ERR_UNSUPPORTED: the kernel has no Landlock, or too old a one; TACHY_ERR_STATE: the process has
// other threads, which no rule would hold.
int tachy_landlock_open(struct tachy_landlock *l, const struct tachy_log *log);
// A file may be read, or a folder's files and all below. A path that is not there is left out.
int tachy_landlock_read(struct tachy_landlock *l, const char *path);
// Files and folders below this folder may be made, read, written, renamed and removed.
int tachy_landlock_write(struct tachy_landlock *l, const char *folder);
// A file, device or named pipe that is there may be written.
int tachy_landlock_write_file(struct tachy_landlock *l, const char *path);
// The calling thread, and those that it starts, get nothing else. There is no way back.
int tachy_landlock_enter(struct tachy_landlock *l);
void tachy_landlock_close(struct tachy_landlock *l);
