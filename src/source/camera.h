#pragma once
#include "base/base.h"

// Cameras by Video4Linux2: what they give, and which of it is taken.

enum { CAMERA_FORMATS = 16, CAMERA_SIZES = 48, CAMERA_RATES = 16, CAMERA_NUMBERS = 64 };

struct camera_size {
    int width, height;
    int to_width, to_height, step_width, step_height; // up to this size in steps; 0: this size only
    int nb_rates;
    struct tachy_rational rates[CAMERA_RATES]; // frames per second; of a range only the highest
};

struct camera_format {
    const char *name;     // FFmpeg's, of a pixel format or a codec; NULL: not known, never taken. Static
    bool compressed;
    char description[32]; // the driver's
    char fourcc[5];
    int nb_sizes;         // 0: the driver does not say
    struct camera_size sizes[CAMERA_SIZES];
};

struct camera {
    char path[32], name[33], driver[17], bus[33];
    int nb_formats;
    struct camera_format formats[CAMERA_FORMATS];
};

// Reads what `path` gives. TACHY_ERR_NOT_FOUND: there is no such device; TACHY_ERR_UNSUPPORTED: it captures no pictures;
// TACHY_ERR_IO: it may not be opened, errno says why. Nothing is logged.
int camera_read(struct camera *c, const char *path);

// A requested camera mode; after camera_choose() the one chosen.
struct camera_mode {
    int width, height;          // 0: the largest up to 1280x720, else the smallest
    struct tachy_rational rate; // 0: the highest
    const char *format;         // FFmpeg's name; NULL: what gives the highest rate, raw before compressed
    double exposure;            // milliseconds; negative: automatic; 0: unchanged
};

// TACHY_ERR_UNSUPPORTED: it gives none that is as asked.
int camera_choose(const struct camera *c, struct camera_mode *mode, const struct tachy_log *log);

// Sets the camera's exposure, which stays after the device is closed. TACHY_ERR_UNSUPPORTED, logged: it has no such control, or
// not this time.
int camera_expose(const char *path, double exposure, const struct tachy_log *log);
