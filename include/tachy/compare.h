#pragma once
#include <tachy/common.h>

#ifdef __cplusplus
extern "C" {
#endif

// Measures the quality of alpha mattes: two mattes of the same frames, each against the truth, or one against the
// other. docs/compare.md has the definitions, the JSON and the picture.

enum tachy_matte_metric {
    TACHY_MATTE_IOU = 0,      // intersection over union of alpha >= 0.5; 1 if both are empty
    TACHY_MATTE_MAD,          // mean absolute difference of alpha
    TACHY_MATTE_MSE,          // mean squared difference
    TACHY_MATTE_GRADIENT,     // Rhemann 2009, in thousands per frame
    TACHY_MATTE_CONNECTIVITY, // Rhemann 2009, in thousands per frame
    TACHY_MATTE_DTSSD,        // Erofeev 2015, root of the mean over the pixels
    TACHY_MATTE_GHOSTING,     // mean alpha where truth is < 0.05 and was > 0.5 within the last 10 frames
    TACHY_MATTE_FALSE_ALPHA,  // share of the pixels with alpha > 0.1 where truth is < 0.05
    TACHY_MATTE_METRICS
};
// "iou", "mad", ...; "?" for other values. Static string.
TACHY_API const char *tachy_matte_metric_name(enum tachy_matte_metric m);

struct tachy_compare_params {
    const char *a, *b;     // required: videos, pictures or numbered pictures. Alpha is the
                           // alpha plane, else luma or grey in its range; more than 10 bits are rounded to 10
    const char *truth;     // the same; NULL: b serves as the truth, and only a is measured
    const char *report;    // file for a picture of the worst frame by each metric; NULL: none
    bool overwrite;        // replace that file; false: TACHY_ERR_EXISTS if it exists
    const int *stop;       // ends early with TACHY_ERR_INTERRUPTED once it is not zero; may be NULL
    const struct tachy_log *log; // NULL: silent
};
#define tachy_compare_params(...) (&(struct tachy_compare_params){__VA_ARGS__})

// The metrics of every frame. Read-only once created; any thread may read it.
typedef struct tachy_comparison tachy_comparison;

// Reads all files frame by frame and measures each frame. *out is the caller's; free it with
// tachy_comparison_free(). TACHY_ERR_MISMATCH: the files differ in number of frames or in a frame's
// size; else the errors of tachy_source_open(), of reading, and of tachy_sink_open() for the picture.
TACHY_API int tachy_compare_mattes_sized(size_t p_size, tachy_comparison **out, const struct tachy_compare_params *p);
#define tachy_compare_mattes(...) tachy_compare_mattes_sized(sizeof(struct tachy_compare_params), __VA_ARGS__)

// The documented, stable JSON object with every frame's metrics; and a table for people. Free with tachy_free().
TACHY_API int tachy_comparison_json(char **json, const tachy_comparison *c);
TACHY_API int tachy_comparison_text(char **text, const tachy_comparison *c);

TACHY_API void tachy_comparison_free(tachy_comparison **c);

#ifdef __cplusplus
}
#endif
