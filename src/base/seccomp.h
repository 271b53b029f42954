#pragma once
#include "base/base.h"

// Denies the calling thread, and those that it starts, the system calls that a job on local files does
// not need: sockets, programs and processes, other processes' memory, and what Landlock does not cover.
// They fail with EPERM from then on. There is no way back. TACHY_ERR_UNSUPPORTED, logged.
int tachy_seccomp_enter(const struct tachy_log *log);
