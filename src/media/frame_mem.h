#pragma once
#include <tachy/frame.h>

// Memory of a frame's pixels; without FFmpeg's types.

// Checks a frame from a caller, whose fields are public, before anything reads it: format, size, mem, and planes that
// hold enough rows of enough samples. Else TACHY_ERR_INVAL with a sentence that begins with `who`.
int tachy_frame_check(const tachy_frame *f, const struct tachy_log *log, const char *who);

// Checks that the CPU can read this frame's pixels: TACHY_OK, else TACHY_ERR_UNSUPPORTED with a sentence that begins
// with `who` ("the output").
int tachy_frame_need_host(const tachy_frame *f, const struct tachy_log *log, const char *who);
