#pragma once
#include "cuda/launch.h"
#include "ref/ref_preprocess.h"

#include <stdbool.h>

// From frames' planes to a batch of tensors. Twin: ref/ref_preprocess.c; the tables come from the same
// builder (src/preprocess/plan.c). Frames of one launch share format, colour and the tensor's form; size,
// crop and rotation are each frame's own, through the plan that it names.

enum {
    TACHY_CUDA_PRE_FRAMES = 16, // a launch
    TACHY_CUDA_PRE_PLANS = 8,
    TACHY_CUDA_PRE_WINDOW = 512, // bytes of a row that a warp works on
    TACHY_CUDA_PRE_ROWS = 32,    // lines of a band at most
    TACHY_CUDA_PRE_LANES = 128,  // of a block of the kernel `columns`
};

// Versions of the kernel `columns`, the best first: bytes of a sample; cols, words and rows as in struct
// tachy_cuda_pre_tables; blocks that a multiprocessor can have, which bounds the registers.
#define TACHY_CUDA_PRE_VERSIONS(V)                                                                 \
    V(1, 2, 3, 4, 7)                                                                               \
    V(1, 1, 2, 4, 10)                                                                              \
    V(1, 1, 3, 4, 8)                                                                               \
    V(1, 1, 6, 2, 8)                                                                               \
    V(2, 1, 3, 4, 8)                                                                               \
    V(2, 1, 5, 2, 8)                                                                               \
    V(2, 1, 9, 2, 6)

enum tachy_cuda_pre_kernel {
    TACHY_CUDA_PRE_CHOSEN,  // the last of these that takes the launch
    TACHY_CUDA_PRE_DIRECT,  // each output separately
    TACHY_CUDA_PRE_AREA,    // tiles, through shared memory
    TACHY_CUDA_PRE_COLUMNS, // a column a lane, from registers
};

// The samples that one output takes: `first` of sample `start`, `last` of sample start + count - 1 (0
// where count is 1), the axis's own `mid` of each in between.
struct tachy_cuda_pre_tap {
    int32_t start, count;
    float first, last;
};

struct tachy_cuda_pre_axis {
    cuda_address taps; // struct tachy_cuda_pre_tap each output; 0: the kernel `direct` works them out
    float mid;
    int most; // taps of the output that has most
    // As struct tachy_axis, if there are no taps.
    double origin, step;
    int samples;
};

// Tables of the kernel `columns`, made by preprocess/columns.c: a column is an output of a line.
struct tachy_cuda_pre_tables {
    int cols;  // columns of a lane, next to each other
    int words; // of four bytes that a lane takes of a row of either plane; 0: no tables
    int rows;  // of luma in a chunk; half as many of chroma
    int most;  // chunks of a line
    // Each lane's entry: bytes from a row's begin to its words in either plane; then for each of its columns
    // what either plane's sums are multiplied by for 1/256 of a code value (floats), weights of luma, weights of
    // chroma. First the first 16 bytes of all entries, then the next.
    cuda_address column;
    // Lines in the order in which their rows lie in the planes, each one or several chunks, with `rows` and half
    // as many of row[] and weight[]; rounded up to 16 bytes.
    cuda_address chunk;
    cuda_address begin; // number of each line's first chunk, in that order, and of all
};

struct tachy_cuda_pre_chunk {
    int32_t row[6];
    float weight[6];
    float keep[2]; // weights of the last rows of the chunk before, which are this line's first ones too; or 0
    uint32_t kept; // these rows, for a band that begins here: luma, chroma << 16
    int32_t line;  // of the picture, that is done with this chunk; -1: none
};

struct tachy_cuda_pre_plan {
    struct tachy_cuda_pre_axis x[2], y[2]; // luma or packed; chroma
    int row_bytes[2];  // that a row of the plane has
    int length, lines; // outputs per line, and lines
    int left, top;     // their position in the tensor
    bool transposed;   // a line is a column of the tensor
    // Windows: any `tile` consecutive outputs need at most TACHY_CUDA_PRE_WINDOW bytes of a row, counted from a
    // multiple of 16. 0: they need more, or each output takes two samples at most; each output is then computed
    // separately.
    int tile;
    int ring[2];       // rows that two lines in a row need together
    struct tachy_cuda_pre_tables columns;
};

struct tachy_cuda_pre_frame {
    cuda_address plane[3];
    int64_t stride[3]; // bytes; may be negative
    cuda_address dst;  // first element of its image in the tensor
    int plan;
};

struct tachy_cuda_preprocess {
    struct tachy_cuda_pre_frame frame[TACHY_CUDA_PRE_FRAMES];
    struct tachy_cuda_pre_plan plan[TACHY_CUDA_PRE_PLANS];
    int frames, plans;
    int rows; // lines that one warp makes in turn, 1..TACHY_CUDA_PRE_ROWS; 0: chosen (not for `columns`)
    enum tachy_cuda_pre_kernel kernel; // no later one than this

    int planes;        // that are read: 1 (luma, packed), 2 (second one has pairs), 3
    int components;    // samples a pixel of the first plane: 1, 3, 4
    int bytes, shift;  // a sample: 1, or 2 with 10 bits shifted up by `shift`

    // Tensor: byte steps. Interleaved: `channels` elements per pixel, planar: `channels` planes; channels after the
    // colours are set to 0.
    int64_t row, channel;
    int channels;
    // Colour over lines in 1/256 of an 8-bit code value; `hdr`: first to R'G'B', through `tone`.
    struct tachy_pre_finish decode, finish;
    bool hdr;
    bool overlap;             // the chip (9.0 on) may start a launch before the one in front of it has ended
    uint16_t multiprocessors; // of the chip
    cuda_address tone;        // struct tachy_tone
};
TACHY_CUDA_LAUNCHER(preprocess, tachy_cuda_preprocess)

static inline bool tachy_cuda_pre_aligned(const struct tachy_cuda_preprocess *p, unsigned bytes)
{
    uint64_t all = 0;
    for (int i = 0; i < p->frames; i++)
        for (int k = 0; k < p->planes; k++)
            all |= p->frame[i].plane[k] | (uint64_t)p->frame[i].stride[k];
    return all % bytes == 0;
}

// The kernel that a valid launch goes to.
static inline enum tachy_cuda_pre_kernel tachy_cuda_pre_kernel_of(const struct tachy_cuda_preprocess *p)
{
    bool columns = p->planes == 2 && p->finish.channels == 3 && (!p->hdr || p->bytes == 2) && tachy_cuda_pre_aligned(p, 4);
    bool area = p->channels <= 4 && tachy_cuda_pre_aligned(p, 16);
    for (int i = 0; i < p->plans; i++) {
        area = area && p->plan[i].tile;
        columns = columns && p->plan[i].columns.words && p->plan[i].columns.words == p->plan[0].columns.words &&
                  p->plan[i].columns.cols == p->plan[0].columns.cols;
    }
    for (int i = 0; i < p->frames && columns; i++)
        for (int k = 0; k < 2; k++) {
            const int64_t all = p->frame[i].stride[k] * 65535;
            columns = columns && all == (int32_t)all;
        }
    columns = columns && p->row == (int32_t)p->row && p->channel == (int32_t)p->channel;
    if (columns && (p->kernel == TACHY_CUDA_PRE_CHOSEN || p->kernel == TACHY_CUDA_PRE_COLUMNS))
        return TACHY_CUDA_PRE_COLUMNS;
    return area && p->kernel != TACHY_CUDA_PRE_DIRECT ? TACHY_CUDA_PRE_AREA : TACHY_CUDA_PRE_DIRECT;
}

// Frames that are turned by any angle: from grids of values 0..255, which the launcher above has
// written as float planes, to the tensor. Colour as above, lines in 8-bit code values.
struct tachy_cuda_pre_turn {
    struct {
        cuda_address grid; // first plane; planes lie next to each other
        cuda_address dst;
        int w, h;
        int64_t stride;    // floats
        double u, v, du_x, du_y, dv_x, dv_y; // position in the grid of pixel 0, 0 and its steps
    } frame[TACHY_CUDA_PRE_FRAMES];
    int frames, planes;
    int width, height; // of the tensor
    int64_t row, channel;
    int channels;
    struct tachy_pre_finish decode, finish;
    bool hdr;
    cuda_address tone;
};
TACHY_CUDA_LAUNCHER(preprocess_turn, tachy_cuda_pre_turn)

// The border that a placed picture leaves free in the tensor.
struct tachy_cuda_pre_border {
    struct {
        cuda_address dst;
        int x, y, w, h; // of the picture
    } frame[TACHY_CUDA_PRE_FRAMES];
    int frames;
    int width, height;
    int64_t row, channel;
    int channels, size; // bytes of an element
    bool planar;
    uint32_t value[4];  // element of each channel: low bytes; channels after the third are 0
};
TACHY_CUDA_LAUNCHER(preprocess_border, tachy_cuda_pre_border)
