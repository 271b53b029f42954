#pragma once
// Clips that a test makes with ffmpeg, in a separate folder.
#include "test.h"

#include <stdarg.h>

static char dir[64]; // of this run's clips; the test makes and removes it

// In that folder; valid for eight further calls.
static const char *path(const char *name)
{
    static char buffers[8][128];
    static int turn;
    char *p = buffers[turn++ % 8];
    snprintf(p, sizeof(buffers[0]), "%s/%s", dir, name);
    return p;
}

// Runs a command; what fails is printed.
static bool shell(const char *fmt, ...)
{
    char command[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof(command), fmt, ap);
    va_end(ap);
    int status = system(command);
    if (status)
        fprintf(stderr, "status %d: %s\n", status, command);
    return status == 0;
}
