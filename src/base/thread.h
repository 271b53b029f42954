#pragma once
#ifdef __linux__
#include <sys/prctl.h>
#endif

// Names the calling thread for ps, top and debuggers; at most 15 characters are kept.
static inline void tachy_thread_name(const char *name)
{
#ifdef __linux__
    prctl(PR_SET_NAME, name);
#endif
}
