#pragma once
#include <tachy/frame.h>
#include <tachy/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// One fused pass from a frame's planes to a model's input tensor: crop or affine, area-correct scaling, colour matrix,
// normalisation, layout and type. It makes no RGB copy of the frame. Every format of enum tachy_pix can be an input;
// alpha is ignored.
//
// Definition (the tests' reference computes it in float64; docs/preprocess.md has details and measured errors): an
// output pixel covers a rectangle of the frame. Every plane is resampled along each axis: with a box filter of the
// rectangle's extent if it is wider than one sample of the plane, else linearly at its centre. Chroma siting of the
// stream is honoured and edges are repeated. Then R'G'B' = matrix (ITU-T H.273 eq. 38..43) on [0, 1], clipped; PQ and
// HLG are mapped to SDR with BT.709 primaries; and out[c] = (255 * rgb[c] * scale - mean[c]) / std[c], where c counts
// the tensor's channels. tachy_color_resolve() fills in unspecified colour tags.
//
// Errors: C version below 0.01 code values (1/255 of the range), vector versions below 0.12 (HDR: 1).
//
// Thread-safety: use one preprocess object from one thread (it keeps tables and line buffers); separate objects are
// independent.
typedef struct tachy_preprocess tachy_preprocess;

enum tachy_layout { TACHY_NHWC = 0, TACHY_NCHW = 1 };
// TACHY_LUMA, one channel: Y' of YUV frames; for RGB frames and tone-mapped HDR, the weighted sum of R'G'B' with
// BT.709's weights.
enum tachy_channels { TACHY_RGB = 0, TACHY_BGR = 1, TACHY_LUMA = 2 };
enum tachy_fit {
    TACHY_FIT_STRETCH = 0,   // the region fills the tensor, aspect ratio not kept
    TACHY_FIT_LETTERBOX = 1, // aspect ratio kept, centred, `pad` around it; borders on whole pixels
    TACHY_FIT_CROP = 2,      // aspect ratio kept, centre cropped to fill
};

struct tachy_preprocess_params {
    int width, height;            // of the tensor; required, 1..16384
    enum tachy_dtype dtype;       // TACHY_F32 (also 0), TACHY_F16, TACHY_U8
    enum tachy_layout layout;
    enum tachy_channels channels;
    enum tachy_fit fit;
    // out = (v * scale - mean[c]) / std[c] with v = 0..255. 0 for scale or std: 1.
    // TACHY_U8 rounds to nearest and saturates.
    float scale, mean[3], std[3];
    float pad;                    // letterbox colour, 0..255 before normalisation
    const char *isa;              // "c", "avx2", "avx512", "neon"; NULL: best for this CPU
    const struct tachy_log *log;  // NULL: silent; must outlive the object
};
#define tachy_preprocess_params(...) (&(struct tachy_preprocess_params){__VA_ARGS__})

// Returns TACHY_OK and sets *out, or sets *out to NULL and returns TACHY_ERR_INVAL, TACHY_ERR_UNAVAILABLE (this
// processor or build lacks the requested instruction set) or TACHY_ERR_NOMEM.
TACHY_API int tachy_preprocess_open_sized(size_t p_size, tachy_preprocess **out,
                                          const struct tachy_preprocess_params *p);
#define tachy_preprocess_open(...) tachy_preprocess_open_sized(sizeof(struct tachy_preprocess_params), __VA_ARGS__)

// Part of a frame and its rotation. {0}: the whole frame.
struct tachy_view {
    double x, y, w, h;   // frame pixels as stored; w or h 0: to the edge. May leave the frame:
                         // edges repeat
    int rotation;        // degrees clockwise to turn the region upright: 0, 90, 180, 270
    bool flip;           // mirror left-right after turning
    bool use_affine;     // true: `affine` maps tensor pixel centres to frame pixel positions
                         // and replaces everything above and the fit
    double affine[6];    // [sx] = [a0 a1 a2] [dx + 0.5]   (x, y: pixel edges at integers)
                         // [sy]   [a3 a4 a5] [dy + 0.5], a2 and a5: offsets
};

// Maps pixels of a tensor to a frame of this size: [fx] = [map0 map1 map2] [tx ty 1] and [fy] = [map3 map4 map5] [tx ty
// 1], pixel edges at integers in both. Of `p` only the extents and the fit are read; `view` NULL: the whole frame.
// TACHY_ERR_INVAL as tachy_preprocess_run(), logged to p->log. Thread-safe.
TACHY_API int tachy_preprocess_map_sized(size_t p_size, const struct tachy_preprocess_params *p, int frame_width,
                                         int frame_height, const struct tachy_view *view, double map[6]);
#define tachy_preprocess_map(...) tachy_preprocess_map_sized(sizeof(struct tachy_preprocess_params), __VA_ARGS__)

// For postprocess: the part of the tensor that holds the picture after a run (all of it except with letterbox).
struct tachy_placement {
    double x, y, w, h; // tensor pixels
};

// Writes one image into `out` (rank 3 HWC/CHW or rank 4 with N = 1; dtype and extents as opened; host memory; dense, or
// with strides between rows and between channel planes). `view` and `placement` may be NULL; without a view the whole
// frame is used. Tables for the last four combinations of format, size, colour and view are kept; nothing is allocated
// while these repeat. TACHY_ERR_INVAL (tensor, view or frame, named in the log), TACHY_ERR_UNSUPPORTED (non-linear
// colour matrix), TACHY_ERR_NOMEM; on an error `out` is unchanged.
TACHY_API int tachy_preprocess_run(tachy_preprocess *p, const tachy_frame *f,
                                   const struct tachy_view *view, struct tachy_tensor *out,
                                   struct tachy_placement *placement);

// The instruction set in use, "avx2", ... Static string.
TACHY_API const char *tachy_preprocess_isa(const tachy_preprocess *p);
TACHY_API void tachy_preprocess_close(tachy_preprocess **p);

#ifdef __cplusplus
}
#endif
