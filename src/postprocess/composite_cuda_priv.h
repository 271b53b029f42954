#pragma once
#include "cuda/mem.h"
#include "postprocess/composite_cuda.h"
#include "postprocess/composite_priv.h"

// Shared by the files of the composite on a GPU.

enum { BATCH = TACHY_CUDA_COMPOSITE_FRAMES, TABLES = 96, COLUMNS = TACHY_CUDA_COMPOSITE_COLUMNS };

typedef struct tachy_composite_cuda_item item;

// Axis of a table, and the picture that it is for.
enum { MASK_ACROSS, MASK_DOWN, BLUR_ACROSS, BLUR_DOWN };
struct key {
    int kind, chroma; // of the above
    int src, from, size, frame;
};

struct table {
    struct key key;
    struct tachy_block block;
    uint64_t used; // the launch that used it last
};

struct tachy_composite_cuda {
    struct tachy_composite_params params;
    const struct tachy_log *log;
    struct tachy_memory *memory;
    enum tachy_mem mem;     // in it, of tables and scratch
    const struct tachy_cu *cu;
    const struct tachy_cuda_kernels *kernels;
    struct tachy_curve curve;
    struct table tables[TABLES];
    uint64_t launches;
    struct tachy_buf host;      // a table on its way
    struct tachy_block scratch; // alpha and blur of a batch
    struct tachy_block luma;    // the same, of R'G'B' that is refined
    struct tachy_block turn;    // the same, of alpha whose edge is moved
    struct tachy_block front;   // the same, of frames with people's own colours
    struct tachy_block cells;   // the same, of edges that are solved for
    bool natural;
    cuda_stream stream;         // of this call
};

// The source of tables: an eye's mask or the cells of a blur.
struct origin {
    const struct tachy_alpha_eye *eye;
    const struct tachy_blur *blur;
    int width, height; // of the frame
};

// tachy_gpu_scratch_need().
int tachy_composite_cuda_need(struct tachy_composite_cuda *c, struct tachy_block *b, size_t size);
// The code for a launcher's status.
int tachy_composite_cuda_launched(struct tachy_composite_cuda *c, int status);

// Alpha as bytes, one picture an address; counts are added to. `strength`: 0..255, that it is scaled by.
int tachy_composite_cuda_alpha(struct tachy_composite_cuda *c, const item *it, int n, int strength,
                               const cuda_address at[], int64_t stride);
// Composites only masks and refinements, in one launch.
int tachy_composite_cuda_flat(struct tachy_composite_cuda *c, const item *it, int n, int strength,
                              const cuda_address at[], int64_t stride);
// composite_cuda_edges.c: the same of frames whose alpha takes more than that.
bool tachy_composite_cuda_shapes(const struct tachy_composite_cuda *c);
int tachy_composite_cuda_shaped(struct tachy_composite_cuda *c, const item *it, int n, int strength,
                                const cuda_address at[], int64_t stride);

struct tachy_composite_cuda_blur {
    struct tachy_blur b;
    size_t alpha, cells, plane, all; // bytes per frame
    int stride;                      // words
};
struct tachy_composite_cuda_blur tachy_composite_cuda_blur_of(const struct tachy_composite_cuda *c,
                                                              const tachy_frame *f);
// Sets what a blurred layer needs of *k.
int tachy_composite_cuda_blur_tables(struct tachy_composite_cuda *c, const struct tachy_composite_cuda_blur *s,
                                     struct tachy_cuda_composite *k);

struct tachy_cuda_range tachy_composite_cuda_range(const struct tachy_pix_desc *d, bool full, bool chroma);

// composite_cuda_any.c: formats that the composite's own kernels do not take, in all modes but mask; and in mode alpha.
int tachy_composite_cuda_any(struct tachy_composite_cuda *c, const item *it, int n);
int tachy_composite_cuda_any_alpha(struct tachy_composite_cuda *c, const item *it, int n);
// Finds a component: returns its plane, and sets its place among the samples of a position there.
int tachy_composite_cuda_place(enum tachy_pix f, int component, int *sample);
// composite_cuda_front.c: frames with people's own colours, if the parameters ask for them.
struct tachy_composite_cuda_front {
    tachy_frame frame[BATCH]; // that are shown
    cuda_address scratch[BATCH];
};
bool tachy_composite_cuda_fronts(const struct tachy_composite_cuda *c);
// Sets *s, with addresses of what is to be made; else the items' own frames. TACHY_ERR_NOMEM.
int tachy_composite_cuda_front_place(struct tachy_composite_cuda *c, const item *it, int n, struct tachy_composite_cuda_front *s);
// True if the frame itself is shown where alpha is 255, so that blend needs only the other pixels.
bool tachy_composite_cuda_front_sparse(const struct tachy_composite_cuda *c);
// Makes them, with the frames' alpha. `sparse`: as said before.
int tachy_composite_cuda_front(struct tachy_composite_cuda *c, const item *it, int n, const struct tachy_composite_cuda_front *s,
                               const cuda_address alpha[], int64_t stride, bool sparse);
// The luma that refinement looks at, of frames of R'G'B'.
struct tachy_composite_cuda_luma {
    cuda_address at[BATCH];
    int64_t stride;
    int bytes, shift;
};
int tachy_composite_cuda_luma(struct tachy_composite_cuda *c, const item *it, int n,
                              struct tachy_composite_cuda_luma *out);
