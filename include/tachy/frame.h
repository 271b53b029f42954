#pragma once
#include <tachy/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

// One picture with its time, colour description and side data; reference counted. Whoever makes a frame writes its
// pixels before handing it on; after that they are read-only, because a decoder's frames are its reference pictures.
//
// Pixels lie in host memory, pinned host memory or GPU memory (`mem`). Functions that work on the CPU refuse a frame in
// GPU memory and log why; tachy_frame_download() makes a host frame of it.

// Planes are in the order of the name; 10-bit samples are 16-bit little-endian words, in
// the low bits (YUV*P10) or the high bits (P010). Chroma extents are rounded up.
enum tachy_pix {
    TACHY_PIX_NONE = 0,
    TACHY_PIX_GRAY8,     // Y
    TACHY_PIX_GRAY10,    // Y, low bits
    TACHY_PIX_YUV420P,   // Y, U, V
    TACHY_PIX_YUV422P,
    TACHY_PIX_YUV444P,
    TACHY_PIX_YUV420P10,
    TACHY_PIX_YUV422P10,
    TACHY_PIX_YUV444P10,
    TACHY_PIX_NV12,      // Y, UV interleaved
    TACHY_PIX_P010,      // Y, UV interleaved, high bits
    TACHY_PIX_RGB24,     // one plane, R G B
    TACHY_PIX_BGRA,      // one plane, B G R A
    TACHY_PIX_RGBA,      // one plane, R G B A; alpha is straight, not premultiplied
    TACHY_PIX_YUVA420P,  // Y, U, V, A
    TACHY_PIX_YUVA444P,
    TACHY_PIX_YUVA444P10,
    TACHY_PIX_COUNT
};

// The planes and samples of a format. `bits` is 8 or 10.
struct tachy_pix_desc {
    const char *name;       // FFmpeg's name: "yuv420p10le"
    uint8_t planes;         // 1..4
    uint8_t bits;           // significant bits per sample
    uint8_t bytes;          // per sample: 1 or 2
    uint8_t shift;          // sample value = word >> shift (6 for P010)
    uint8_t chroma_shift_x; // log2 of the horizontal chroma step
    uint8_t chroma_shift_y;
    uint8_t components[4];  // samples per pixel position in each plane: 1, 2 (UV), 3, 4
    bool rgb;               // R, G, B samples, not Y, U, V
    bool alpha;
};

// NULL for TACHY_PIX_NONE and unknown values. Static memory.
TACHY_API const struct tachy_pix_desc *tachy_pix_desc(enum tachy_pix f);
// TACHY_PIX_NONE if no format has this FFmpeg name.
TACHY_API enum tachy_pix tachy_pix_by_name(const char *name);

// Code points of ITU-T H.273 (the same numbers as FFmpeg's AVCOL_*), 2 = unspecified.
struct tachy_color {
    uint8_t matrix;     // 1: BT.709, 5/6: BT.601, 9: BT.2020 ncl, 0: RGB, 2: unspecified
    uint8_t primaries;  // 1: BT.709, 9: BT.2020, ...
    uint8_t transfer;   // 1: BT.709, 13: sRGB, 16: PQ, 18: HLG, ...
    uint8_t range;      // 1: limited ("tv"), 2: full ("pc"), 0: unspecified
    uint8_t chroma_loc; // 0: unspecified (as left), 1: left, 2: centre, 3: top left, 4: top
};

// Fills in unspecified fields of `c` as players do: RGB formats are sRGB full range; YUV is limited range, BT.709 from
// 1280 wide or 577 high on, else BT.601; grey is full range. Zeros count as unspecified, and so does `matrix` 0 unless
// the format is RGB; {0} is thus fully unspecified.
TACHY_API struct tachy_color tachy_color_resolve(struct tachy_color c, enum tachy_pix f,
                                                 int width, int height);

typedef struct tachy_frame tachy_frame;

// The readable part of a frame. Fields other than `id` are set by the maker.
struct tachy_frame {
    enum tachy_pix format;
    int width, height;         // pixels, 1..65535
    const uint8_t *data[4];    // NULL past the last plane; TACHY_DEVICE: GPU addresses
    ptrdiff_t stride[4];       // bytes; may be negative (picture stored bottom up)
    int64_t id;                // 0, 1, 2, ... in the order of the stream; results carry it
    int64_t pts;               // in the time base of the stream (tachy_video_info)
    int64_t duration;          // same unit; 0: unknown
    struct tachy_color color;  // as tagged; see tachy_color_resolve()
    bool key;                  // a keyframe of its stream
    int discontinuity;         // 1: stream state (smoothing, recurrence) restarts here
    enum tachy_mem mem;    // of the pixels
    int device;                // CUDA ordinal if mem is TACHY_DEVICE
    void *stream;              // TACHY_DEVICE: the pixels are written in the order of this CUDA stream (a CUstream;
                               // NULL: the default one). Work may be queued on it at once, and the frame released when
                               // it is queued. Work on another stream must first wait for an event of this one, and
                               // must have ended before the frame is released.
};

// Takes a reference; never fails. `f` may be NULL, which is returned. Thread-safe, as is unref.
TACHY_API tachy_frame *tachy_frame_ref(tachy_frame *f);
TACHY_API void tachy_frame_unref(tachy_frame **f);

struct tachy_frame_params {
    enum tachy_pix format; // required
    int width, height;     // required
    struct tachy_color color;
    int64_t pts, duration;
    // To wrap the caller's memory, set data[0]. It must stay valid and unchanged until `release` is called (from any
    // thread; may be NULL if the memory outlives every frame). data[0] == NULL: memory is allocated (64-byte aligned
    // rows, not cleared).
    uint8_t *data[4];
    ptrdiff_t stride[4];
    void (*release)(void *user);
    void *user;
    // For wrapped memory, as in struct tachy_frame. Memory that the library allocates is host memory.
    enum tachy_mem mem;
    int device;
    void *stream;
};

// On failure (TACHY_ERR_INVAL, TACHY_ERR_NOMEM) `release` is not called.
TACHY_API int tachy_frame_new_sized(size_t p_size, tachy_frame **out, const struct tachy_frame_params *p);
#define tachy_frame_new(...) tachy_frame_new_sized(sizeof(struct tachy_frame_params), __VA_ARGS__)

// A writable plane of a frame that tachy_frame_new() made without wrapping and that is not shared yet; NULL if the
// frame has another reference or another maker.
TACHY_API uint8_t *tachy_frame_writable(tachy_frame *f, int plane);

// Copies a GPU frame to host memory, with its id, times, colour, key and discontinuity; blocks until the pixels are
// written. For a frame that the CPU can read, returns another reference to it. *out is the caller's, NULL on failure:
// TACHY_ERR_NOMEM, TACHY_ERR_UNAVAILABLE (no driver), TACHY_ERR_EXTERNAL (the GPU failed). Thread-safe.
TACHY_API int tachy_frame_download(tachy_frame **out, tachy_frame *f, const struct tachy_log *log);

// How the two eyes lie in one picture.
enum tachy_stereo {
    TACHY_STEREO_AUTO = 0, // from side data, file name or aspect
    TACHY_STEREO_MONO,
    TACHY_STEREO_SBS, // left eye left, right eye right
    TACHY_STEREO_TB,  // left eye above, right eye below
};

// Properties of a video stream that are known before its first frame. Sources fill them in, tasks map them from input
// to output, sinks start with them.
struct tachy_video_info {
    enum tachy_pix format;           // of the first frame
    int width, height;               // of the first frame, as stored (before rotation)
    struct tachy_rational time_base; // seconds per tick; both > 0
    struct tachy_rational fps;       // average rate; 0/0: unknown
    struct tachy_rational sar;       // sample aspect ratio; 0/1: unknown
    bool vfr;                        // frame intervals differ
    bool still;                      // a single picture
    int64_t frames;                  // estimate; 0: unknown
    double duration;                 // seconds; 0: unknown
    struct tachy_color color;
    int rotation;                    // degrees clockwise to show it upright: 0, 90, 180, 270
    bool flipped;                    // the display matrix mirrors as well
    enum tachy_stereo stereo;        // never TACHY_STEREO_AUTO
    bool transparent;                // alpha matters (mode alpha): a sink that cannot store it refuses; otherwise such
                                     // a sink drops alpha with a warning
    const char *codec;               // FFmpeg's decoder or codec name; static or the owner's
    enum tachy_mem mem;          // of the first frame's pixels
    int device;                      // CUDA ordinal if mem is TACHY_DEVICE
};

#ifdef __cplusplus
}
#endif
