#pragma once
#include "base/cpu.h"
#include "plan/graph.h"
#include "ref/ref_plan.h"

// The kernels of one instruction set: what src/plan/cpu/*.c cuts the work into. Each is
// written once in vec/ and compiled for every set.

enum { TACHY_TILE_VECTORS = 3, TACHY_TILE_PIXELS = 10 };

// Activations that are not written out for each accumulator of a tile.
static inline bool tachy_act_is_long(enum tachy_act_kind kind)
{
    switch (kind) {
    case TACHY_ACT_NONE:
    case TACHY_ACT_CLIP:
    case TACHY_ACT_HSIGMOID:
    case TACHY_ACT_HSWISH:
    case TACHY_ACT_LEAKY:
    case TACHY_ACT_PRELU:
    case TACHY_ACT_LEVELS: return false;
    default: return true;
    }
}

// Tiles of a convolution, one after the other: `pixels` outputs by up to `vectors` vectors of
// channels, in registers. Each pixel reads `runs` runs of `len` adjacent floats.
struct tachy_tile {
    int tiles; // how many
    const float *const *x; // where each pixel's first run starts
    ptrdiff_t x_run;       // pointers to the next run's
    const float *zeros;    // what a run in the padding reads; one of all pixels is left out
    ptrdiff_t skip;        // floats of each run that are not read
    int runs, len;
    // Long sums are those of their chunks: of `piece` floats of a run (the last may have less), of
    // all of each `group` runs.
    int piece, group;
    // Partial sums of all tiles, [pixels][vectors * width] each: the ones to add to (NULL: none), and where to store
    // them instead of passing them to the epilogue (NULL: they are complete).
    const float *resume;
    float *keep;
    const float *w;    // [runs][len][vectors * width]
    const float *start; // [vectors * width]: what taps are added to
    const float *bias;  // [vectors * width]: what is added to them; NULL: nothing
    // Memory read after these tiles: this many 64-byte lines are prefetched with each. 0: none.
    const float *ahead;
    int ahead_lines;
    int tail;          // valid floats of the last vector, 1..width
    float *y;         // first pixel's output
    ptrdiff_t y_step; // to the next pixel's
    const float *add;  // NULL: none
    ptrdiff_t add_step;
    bool add_last;
    const struct tachy_act *act; // slope: of the tile's first channel
    float *sums;                 // added to; NULL: none
};

// A row tile of a depthwise convolution: `pixels` outputs of one row, all channels; or several
// side by side, all of whose columns are inside of the input.
struct tachy_dw_tile {
    int tiles;
    const float *x;      // tap (first row used, 0) of the first pixel, also if it lies outside
    ptrdiff_t row;       // to the tap below
    ptrdiff_t pixel;     // to the tap at the right
    int rows;            // rows of taps inside of the input, 0..kh
    int first, end;      // columns inside of the input, counted from x in steps of `pixel`
    int pixels;          // outputs, 1..pixels of the kernel
    int kw, stride;      // of the kernel without fixed sizes only
    const float *w;      // [channel blocks][kh][kw][width], from the first row used on
    ptrdiff_t w_block;   // to the next channel block
    const float *bias;   // [channels], filled up to the width
    int channels;
    float *y;
    ptrdiff_t y_step;
    const float *add; // NULL: none
    ptrdiff_t add_step;
    bool add_last;
    const struct tachy_act *act;
    float *sums; // [channels], added to; NULL: none
};

// A depthwise kernel for kw taps per row (any kh) and a stride; kw 0: any, one pixel at a time.
struct tachy_dw_kernel {
    int kw, stride;
    int pixels; // outputs of a tile
    int columns; // that a whole tile reads
    void (*run)(const struct tachy_dw_tile *t);
};

enum { TACHY_DW_KERNELS = 8 };

// One output row of a resize along x: out[i] = epilogue(lerp of row[left[i]] and row[right[i]]).
struct tachy_resize_row {
    const float *row;
    const ptrdiff_t *left, *right; // floats from `row`
    const float *frac;             // weight of the right one; NULL: only the left one
    int pixels, channels;
    float *y;
    ptrdiff_t y_step;
    const float *add; // NULL: none
    ptrdiff_t add_step;
    const float *add_scale; // [channels] or NULL
    bool add_last;
    const struct tachy_act *act;
    float *sums; // [channels], added to; NULL: none
};

// One output channel of a row, the lanes of a vector being pixels. Reads and writes up to 4 vectors
// past the last pixel.
struct tachy_narrow_row {
    const float *const *row; // [rows]: each row's first tap of the first pixel, first channel
    int rows, kw, step;      // taps, and pixels from a tap to the next
    int channels;
    ptrdiff_t line; // floats to the next channel
    const float *w; // [rows][kw][channels]
    int chunk;      // taps of a row that are summed up on their own; channels and less: of each kw
    float start, bias; // what taps are added to, and what is added to them
    float *y; // [pixels]
    int pixels;
};

// Outputs of a Winograd tile of m x m from its (m + 2) x (m + 2) points.
struct tachy_winograd_tile {
    const float *x; // the first point's channels, readable up to whole vectors
    ptrdiff_t step; // to the next point's
    const float *bias;
    int channels;
    float *const *y;         // [m * m]: where each output goes
    const float *const *add; // [m * m]; NULL: none
    bool add_last;
    const struct tachy_act *act;
};

// Pixels of a row: y = act(a op b + c). A step of 0 repeats: `step` from pixel to pixel,
// `channel` (0 or 1) from channel to channel.
struct tachy_binary_row {
    enum tachy_binary_kind kind;
    const struct tachy_act *act;
    struct {
        const float *p; // c: NULL: none
        ptrdiff_t step;
        int channel;
    } a, b, c;
    float *y;
    ptrdiff_t y_step;
    int pixels, channels;
};

struct tachy_plan_kernels {
    enum tachy_isa isa;
    int width; // floats in a vector
    // [vectors - 1][pixels - 1]; NULL: too many for the registers
    void (*const (*tile)[TACHY_TILE_PIXELS])(const struct tachy_tile *t);
    const struct tachy_dw_kernel *depthwise; // TACHY_DW_KERNELS of them, the last takes any
    // y[i] = act(x[i]), not PRELU; x may be y
    void (*unary)(float *y, const float *x, int n, const struct tachy_act *act);
    void (*binary)(const struct tachy_binary_row *r);
    // y = a + (b - a) * t
    void (*lerp)(float *y, const float *a, const float *b, float t, int n);
    void (*resize)(const struct tachy_resize_row *r);
    // A window of rows x columns pixels at x: sum times `scale`, or with scale 0 the maximum, NaN if one is.
    void (*pool)(float *y, const float *x, ptrdiff_t row, ptrdiff_t pixel, int rows, int columns,
                 int channels, float scale);
    // y[i] = (sum over k < count of x[k * step + i]) * scale
    void (*sum)(float *y, const float *x, int count, ptrdiff_t step, int n, float scale);
    void (*softmax)(float *y, const float *x, int n, bool log);
    void (*layer_norm)(float *y, const float *x, const float *scale, const float *shift,
                       float epsilon, int n);
    // y[c * y_step + r] = x[r * x_step + c]
    void (*transpose)(float *y, ptrdiff_t y_step, const float *x, ptrdiff_t x_step, int rows,
                      int columns);
    void (*narrow)(const struct tachy_narrow_row *r);
    // Tiles of 2x2 outputs, of 4x4: a tile's pixels [(m + 2)^2] to its points, `step` apart, written up
    // to whole vectors; and back.
    void (*const *winograd_in)(const float *const *x, int channels, float *to, ptrdiff_t step);
    void (*const *winograd_out)(const struct tachy_winograd_tile *t);
    // y[i] = f(x[i]), of the activations that nothing ends in.
    void (*function)(const struct tachy_plan_act_of *f, const float *restrict x, float *restrict y, int n);
    // Numbers of a type as float32, and back: y[at + i] = x[i * step], towards zero and cut to the type.
    void (*enter)(enum tachy_dtype type, const void *x, float *restrict y, int64_t n);
    void (*leave)(enum tachy_dtype type, const float *restrict x, ptrdiff_t step, void *y, int64_t at, int64_t n);
    // The sum of x[0..n-1], in an order that is the same for every set.
    double (*total)(const float *x, int64_t n);
    // The largest of x[0..n-1], n >= 1, or the smallest; NaN if one of them is.
    float (*most)(const float *x, int64_t n, bool least);
    // Only multiply-adds, rounds * 24 of one vector each: measures the processor's peak.
    float (*peak)(int rounds);
};

// NULL if the set does not run here or is not built in.
const struct tachy_plan_kernels *tachy_plan_kernels(enum tachy_isa isa);
