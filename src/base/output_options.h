#pragma once
#include "base/path.h"

#include <tachy/settings.h>

// An output as the setting output.file names it: a name, with options for this output only in brackets before it, as in
// "[f=flv:crf=28]rtmp://host/live". A backslash escapes the character after it. Text that begins with a bracket but
// holds no known key is a name.

// The name only; a part of `text`.
const char *tachy_output_name(const char *text);

// The value of an option: "f", or a name of output.*, such as "crf". False: it is not given, or does not fit.
bool tachy_output_option(const char *text, const char *key, char *value, size_t size);

// TACHY_ERR_INVAL, logged: a key that is not known, or a value that is empty or too long.
int tachy_output_check_options(const char *text, const struct tachy_log *log);

enum { TACHY_OUTPUT_VALUE = 512 }; // bytes of a value, at most

// The kinds of content that the outputs take: bits 1 << enum tachy_text_format; TACHY_TEXT_NONE stands for pictures. If the
// settings name no output, output.format decides.
unsigned tachy_output_kinds(const tachy_settings *s);
