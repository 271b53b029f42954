#pragma once
#include <stdbool.h>
#include <stdio.h>
#include <tachy/common.h>

// True if `path` exists but lies neither in the folder of the file `file` nor below it, after following symbolic links:
// such a path must not be named by a file from elsewhere. False if it does not exist.
bool tachy_path_outside(const char *path, const char *file);

// True if a name ends in `tail`, ignoring case; `name` may be NULL.
bool tachy_path_ends(const char *name, const char *tail);

// True if an extension without its dot is one of "mp4|mov", ignoring case.
bool tachy_path_extension_in(const char *extension, const char *words);

// Extensions of pictures that are written as well as read (others become PNG), and of all that are read.
#define TACHY_PICTURES_OUT "png|jpg|jpeg|bmp|tif|tiff|webp|ppm"
#define TACHY_PICTURES_IN TACHY_PICTURES_OUT "|pgm|pbm|pnm|heic|heif|avif|jxl|jp2|exr|dpx|tga|qoi|psd"
// "a.JPG": by the name only.
bool tachy_path_is_picture(const char *name);

// "https://...", "rtmp://...": an address, not a file.
bool tachy_path_is_address(const char *name);
// "window", "window:full", "pipewire:NAME", "ndi": shown to a person or by other programs, not a file.
bool tachy_path_is_shown(const char *name);
// True if it is the word, or begins with the word and a colon: "screen", "screen::0".
bool tachy_path_says(const char *name, const char *word);

// "/dev/video0": a device of Video4Linux2, not a file.
bool tachy_path_is_video_device(const char *name);

// A name or address without "file:" in front.
const char *tachy_path_local(const char *url);

// Finds FFmpeg's number pattern in a name, as in "shot_%04d.png"; *end: after it; *digits: the minimum number, 0..20.
// NULL: there is none.
const char *tachy_path_number(const char *name, const char **end, int *digits);

// Outputs that are text, a part for each frame.
enum tachy_text_format { TACHY_TEXT_NONE = 0, TACHY_TEXT_JSON, TACHY_TEXT_CSV };
// By the format's name ("json", "csv") if there is one, else by the file's: .json, .jsonl, .ndjson, .csv. Both may be
// NULL.
enum tachy_text_format tachy_text_format(const char *file, const char *format);

// Opens a regular file to read and gives its size; *out is the caller's, for fclose(). Does not wait, as opening a named
// pipe would. TACHY_ERR_NOT_FOUND, TACHY_ERR_IO, logged; *out is NULL then.
int tachy_open_regular(FILE **out, const char *path, uint64_t *size, const struct tachy_log *log);
