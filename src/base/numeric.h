#pragma once
#include <locale.h>

// From enter to leave, text of numbers has a decimal point on this thread, written and read, whatever locale the program
// has set: what programs read, and what FFmpeg parses. Returns what leave takes. May be nested.
locale_t tachy_numeric_enter(void);
void tachy_numeric_leave(locale_t before);
