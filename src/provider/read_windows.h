#pragma once
#include "provider/reader.h"

// For src/provider/read_*.c: operators over pixels, with one, two or three dimensions.
enum { WINDOW_AXES = 3 }; // depth, height, width; with fewer dimensions only the last ones count, and the others are 1

struct window {
    int dims, kernel[WINDOW_AXES], stride[WINDOW_AXES], dilation[WINDOW_AXES];
    int pad[2 * WINDOW_AXES]; // before the first, then after the last
};

// Nodes of three dimensions as such of pictures (read_volumes.c). `flat` has what holds for height and width, `w` and
// `scale` what holds for the depth. The node's first input and its output have five dimensions, and the weights of a
// convolution. NULL: done, else why not, as reader_add() says.
const char *reader_volume_conv(struct reader_node *n, const struct tachy_plan_attr *flat, const struct window *w, bool transposed);
const char *reader_volume_pool(struct reader_node *n, const struct tachy_plan_attr *flat, const struct window *w);
const char *reader_volume_resize(struct reader_node *n, const struct tachy_plan_attr *flat, float scale);
