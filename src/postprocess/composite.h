#pragma once
#include "base/base.h"
#include "postprocess/bounds.h"
#include "postprocess/given.h"
#include "postprocess/mask.h"

#include <tachy/frame.h>
#include <tachy/result.h>

// From a decoded frame and its mask to the output picture, in the decoder's own pixel format. The mask is scaled to
// frame size row by row on the fly; a pixel whose alpha means "unchanged" keeps the decoded value exactly. At
// intermediate alpha the decoded value contains some of the background. With `foreground` the person's own colour is
// estimated there, or given by the network, and composited instead.

enum tachy_mode {
    TACHY_MODE_MASK,    // grey: alpha as luma (full 0..255 in GRAY8; the stream's range in YUV)
    TACHY_MODE_CUTOUT,  // person on `color`
    TACHY_MODE_BLUR,    // person on the blurred picture
    TACHY_MODE_REPLACE, // person on `background`
    TACHY_MODE_OVERLAY, // person tinted with `color` (its alpha is the strength)
    TACHY_MODE_ALPHA,   // the picture with an alpha plane
    TACHY_MODE_JSON,    // no picture: the result's json line
    TACHY_MODE_SIDE_BY_SIDE, // before left, cutout on `color` right
};

// The hue that despill removes. KEY: the keyer's first colour, if the bounds have one.
enum tachy_spill { TACHY_SPILL_OFF, TACHY_SPILL_GREEN, TACHY_SPILL_BLUE, TACHY_SPILL_KEY };

struct tachy_composite_params {
    enum tachy_mode mode;
    uint32_t color;              // 0xRRGGBBAA, sRGB
    float threshold;             // alpha is 0.5 at this probability; 0..1
    float feather;               // width of the ramp in probability; 0: a hard edge
    float blur;                  // radius as a share of the frame's height, 0: 0.02
    float grow;                  // pixels that the edge moves outward, -64..64; below 0: inward
    // Modes cutout, blur, replace, side by side and alpha:
    bool foreground;             // soft edges show the person's own colours, estimated if none are given
    enum tachy_spill despill;    // the light of a screen on people is taken out of their colours
    enum tachy_pix alpha_format; // mode alpha: YUVA420P, YUVA444P10 or RGBA
    enum tachy_pix mask_format;  // mode mask: GRAY8, or a YUV format; NONE: GRAY8
    const char *isa;             // as in tachy_preprocess_params
    const struct tachy_log *log;
};

// Sets format, size and colour of composited frames in *out, from *in.
int tachy_composite_output(const struct tachy_composite_params *p,
                           const struct tachy_video_info *in, struct tachy_video_info *out);

// Keeps line buffers and tables: use one object per thread.
typedef struct tachy_composite tachy_composite;
int tachy_composite_open(tachy_composite **out, const struct tachy_composite_params *p);

// Sets the limits on alpha for later runs, which `b` must outlive; NULL: only the masks.
void tachy_composite_bound(tachy_composite *c, const struct tachy_bounds *b);

// Sets the colours given by a network, for each of `n` eyes, for later runs; 0: none. Soft edges show them if the
// parameters ask for people's own colours. `g` must outlive the runs.
void tachy_composite_give(tachy_composite *c, const struct tachy_given *g, int n);

// Writes every pixel of `out` (writable, of the format and size that output() said for this
// frame). `refine`: an array of r->eyes coefficient planes, or NULL for plain bilinear
// upsampling. `background`: format and size of `in`; mode replace only. Eyes never mix:
// each mask is sampled within its own region only.
// Sets r->coverage.
int tachy_composite_run(tachy_composite *c, const tachy_frame *in, struct tachy_result *r,
                        const struct tachy_refine *refine, const tachy_frame *background,
                        tachy_frame *out);

// Composites into planes of the caller's, of the format and size that output() gave; strides in
// bytes, may be negative.
int tachy_composite_planes(tachy_composite *c, const tachy_frame *in, struct tachy_result *r,
                           const struct tachy_refine *refine, const tachy_frame *background,
                           uint8_t *const data[4], const ptrdiff_t stride[4]);

// Mode json: one line {"frame":..,"pts":..,"time":..,"width":..,"height":..,"coverage":..,
// "segmentation":{"size":[h,w],"counts":"COCO RLE"},"polygons":[[x,y,...],...]} (docs/
// segment.md); with two eyes "eyes":[{...},{...}]. Valid until the next call or close.
int tachy_composite_json(tachy_composite *c, const tachy_frame *in, struct tachy_result *r,
                         const struct tachy_refine *refine, double time_s, const char **line);

// Writes the line from a picture of alpha, 0..255 at the frame's size; seven bytes after its last row must be readable,
// with any content. Overwrites its low bits. Of `in` everything but the pixels is read.
int tachy_composite_json_of(tachy_composite *c, const tachy_frame *in, struct tachy_result *r, uint8_t *alpha,
                            ptrdiff_t stride, double time_s, const char **line);

void tachy_composite_close(tachy_composite **c);
