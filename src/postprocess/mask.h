#pragma once
#include "base/base.h"

#include <tachy/model.h>
#include <tachy/preprocess.h>
#include <tachy/result.h>
#include <tachy/tensor.h>

// From a model's output tensor to a soft mask, and what is done to masks at their own size.

// How to read the output of a segmentation network; from the model card.
struct tachy_mask_spec {
    enum tachy_output_meaning meaning;
    int channel;              // of the person, for several channels
    enum tachy_layout layout; // of a rank 3 or 4 output
};

// Extents of the tensor's picture (upright, including the letterbox). TACHY_ERR_MISMATCH if the shape does not fit the
// spec.
int tachy_mask_extent(const struct tachy_mask_spec *spec, const struct tachy_tensor *t, int *width,
                      int *height);

// Size of the mask that tachy_mask_from_tensor() writes: the part of the tensor that holds
// picture, turned back to the stored orientation.
void tachy_mask_size(int tensor_width, int tensor_height, const struct tachy_placement *pl,
                     int rotation, int *width, int *height);

// Probability of a person, 0..255 (rounded), cropped to the placement, and turned back by `rotation` (and `flip`) to
// the orientation of the stored frame. NaN counts as 0. `pl` is in pixels of the tensor (already scaled if the output
// is smaller than the input); NULL: all of it.
int tachy_mask_from_tensor(const struct tachy_mask_spec *spec, const struct tachy_tensor *t,
                           const struct tachy_placement *pl, int rotation, bool flip, uint8_t *dst,
                           ptrdiff_t stride);

// Masks of parts of a frame in one mask of all of it.
enum {
    TACHY_MASK_JOINED = 960, // most pixels of a joined mask along an axis
};
// The extents of a joined mask: the frame's, divided by a whole number.
void tachy_mask_joined_size(int frame_width, int frame_height, int *width, int *height);
// Puts a part's mask into that of the whole frame (width * height bytes, tachy_mask_joined_size()) at the part's region,
// which lies inside the frame. It replaces what is there, and fades into it at those edges of the region that are not the frame's.
void tachy_mask_join(uint8_t *whole, int width, int height, int frame_width, int frame_height, const struct tachy_mask *part);

// Luma of a frame's region at mask size, area-averaged, as stored (0..255, 10-bit scaled down; RGB: BT.709 weights):
// the guide for smoothing and refining. If a mask pixel is more than 1022 frame pixels wide, only the region's middle
// counts. TACHY_ERR_INVAL: the region is empty or leaves the frame; TACHY_ERR_UNSUPPORTED: a GPU frame.
int tachy_luma_guide(const tachy_frame *f, const struct tachy_rect *region, uint8_t *dst,
                     ptrdiff_t stride, int width, int height);
// The part of a region that counts, for a guide of this width.
struct tachy_rect tachy_guide_region(struct tachy_rect region, int width);

// Temporal smoothing of one stream's and one eye's masks, in frame order: a mask follows what moves in the guide, and
// the network slowly (smooth.c). strength 0: masks stay as they are.
typedef struct tachy_smooth tachy_smooth;
int tachy_smooth_open(tachy_smooth **out, int width, int height, float strength); // 0..1
// Smooths `mask` in place. `discontinuity`: forget the past. `guide`: as above, same size.
void tachy_smooth_apply(tachy_smooth *s, uint8_t *mask, ptrdiff_t stride, const uint8_t *guide,
                        ptrdiff_t guide_stride, bool discontinuity);
// The state as bytes, for a run that is resumed later on the same machine. save: `data` holds tachy_smooth_state_size()
// bytes. load: TACHY_ERR_FORMAT if the bytes are not such a state.
size_t tachy_smooth_state_size(const tachy_smooth *s);
void tachy_smooth_save(const tachy_smooth *s, void *data);
int tachy_smooth_load(tachy_smooth *s, const void *data, size_t size);
// A frame and one after it, as tachy_smooth_apply() left it: rows without gaps, of the object's size. `id` tells frames apart.
struct tachy_smooth_seen {
    const uint8_t *mask, *guide;
    int64_t id;
};
// Smooths `mask`, which is seen[0].mask, once more from the n - 1 frames after it: as tachy_smooth_apply(), backwards
// in time. The object must be opened only for this; its state is a memory of motion between frames, which need not be
// saved. TACHY_ERR_NOMEM.
int tachy_smooth_back(tachy_smooth *s, uint8_t *mask, const struct tachy_smooth_seen seen[], int n);
void tachy_smooth_close(tachy_smooth **s);

// Alpha as a linear function of the picture's colours, which composite evaluates on the frame's own rows. The planes belong
// to the caller: width * height floats each.
struct tachy_refine {
    // cell 0, edge-aware upsampling guided by luma (refine.c): at mask size, mask = a * luma + b, both 0..255. cell >
    // 0, solved in cells of that many pixels (edges.h): a holds three planes of slopes, followed by b, the offsets,
    // 0..1.
    float *a, *b;
    int width, height, cell;
};
// `scratch`: tachy_refine_scratch(width, height) bytes, aligned for float. The guide is
// tachy_luma_guide()'s.
size_t tachy_refine_scratch(int width, int height);
void tachy_refine_fit(struct tachy_refine *r, const uint8_t *mask, ptrdiff_t stride,
                      const uint8_t *guide, ptrdiff_t guide_stride, void *scratch);
