#pragma once
#include "base/base.h"

#include <tachy/preprocess.h>
#include <tachy/result.h>

// The regions of one frame with all that they point to. Memory is kept from frame to frame, so nothing is
// allocated once a list has held its largest frame. One thread at a time.
struct tachy_regions {
    struct tachy_region *v;
    int nb, room;
    struct region_block *blocks, *current; // what regions point to
};

// Forgets the regions and keeps the memory. {0} is an empty list.
void tachy_regions_clear(struct tachy_regions *list);
void tachy_regions_free(struct tachy_regions *list);
// A region of no class, no track and score 1 at the end; NULL: out of memory. Invalid after the next add.
struct tachy_region *tachy_regions_add(struct tachy_regions *list);
// `size` bytes for something that a region points to, aligned to 16, until clear; NULL: out of memory.
void *tachy_regions_alloc(struct tachy_regions *list, size_t size);
// Adds copies of a frame's regions with all that they point to. TACHY_ERR_NOMEM: none is added.
int tachy_regions_copy(struct tachy_regions *to, const struct tachy_region *from, int nb);
// Lists that tachy_regions_copy() filled as bytes, which another process of the same build takes; *data is for free().
// TACHY_ERR_NOMEM.
int tachy_regions_save(const struct tachy_regions list[], int n, void **data, size_t *size);
// In place of what the lists have. TACHY_ERR_FORMAT, TACHY_ERR_NOMEM: they are empty.
int tachy_regions_load(struct tachy_regions list[], int n, const void *data, size_t size);

// Derives a rotated crop from a region, to pass from a detector to a landmark network.
struct tachy_crop {
    int from, to;    // points whose direction says what is upright; equal: the region's own angle
    double angle;    // of that direction in an upright region, degrees clockwise: 0 for eyes, left to right
    double scale_x, scale_y; // of the extents; 0: 1
    double shift_x, shift_y; // of the centre, along the region's axes, in its extents before scaling
    bool square;     // both extents become the longer one before scaling
    bool around;     // first the region becomes the square around point `from` whose side goes through point `to`
};
// Changes centre, extents and angle. Points that do not exist leave the angle.
void tachy_region_crop(struct tachy_region *r, const struct tachy_crop *crop);
// The region becomes the upright box around its points that are finite. False: they have no extent, and it stays.
bool tachy_region_around(struct tachy_region *r);
// The view that brings a region into a tensor of this size, upright and filling it.
void tachy_region_view(const struct tachy_region *r, int width, int height, struct tachy_view *view);
// Corners in frame pixels, clockwise from the upper left of the upright region.
void tachy_region_corners(const struct tachy_region *r, double x[4], double y[4]);
// Intersection over union of the upright boxes around two regions, 0..1.
double tachy_region_overlap(const struct tachy_region *a, const struct tachy_region *b);

// A result that was found in a tensor, moved onto the frame. `map`: tachy_preprocess_map().
void tachy_region_to_frame(struct tachy_region *r, const double map[6]);
void tachy_points_to_frame(struct tachy_point *p, int n, const double map[6]);
