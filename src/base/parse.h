#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <tachy/common.h>

// Values as people write them. If the whole text is not such a value, each returns false and leaves *out unchanged. The
// decimal point is a point in every locale.

bool tachy_parse_bool(const char *text, bool *out); // yes/no, true/false, on/off, 1/0
bool tachy_parse_int(const char *text, int64_t *out);
bool tachy_parse_float(const char *text, double *out); // finite
// Seconds: "90", "1.5", "1:30", "01:01:30.25", and with a unit "1500ms", "2s", "40us".
bool tachy_parse_time(const char *text, double *out);
// "25", "30000/1001", "23.976" (up to six decimals, exact); > 0.
bool tachy_parse_rate(const char *text, struct tachy_rational *out);
// "256" or "256x144": width and height, each 1..16384.
bool tachy_parse_size(const char *text, int *width, int *height);
// A CSS colour name, "#RGB", "#RRGGBB", "#RRGGBBAA" or with "0x"; "@0.5" after the name or six
// digits sets alpha, as in FFmpeg. 0xRRGGBBAA.
bool tachy_parse_color(const char *text, uint32_t *out);
const char *tachy_color_nearest(const char *name); // that name with a typo; NULL: none is near
