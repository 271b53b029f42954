#pragma once
#include "task/segment.h"

// The ordered part of segment on a GPU: what depends on the frames before. One a stream, used by one thread
// at a time, which need not be the same. It has a stream of its own on the device, behind which an item's
// composite is put; nothing waits on the host.
struct segment_gpu_order;

int segment_gpu_order_open(struct segment_gpu_order **out, tachy_task *t);
void segment_gpu_order_close(struct segment_gpu_order **o);

// Smooths the eye's mask on the device, from where it is copied to the host.
int segment_gpu_order_smooth(struct segment_gpu_order *o, struct tachy_item *item, int eye);
// Whether a picture of a video behind people can be brought to the stream's format and size on the device.
bool segment_gpu_order_fits(const struct segment *s, const tachy_frame *f);
// The host's picture on the device that the item will be composited on, fitted there where it has another format or size
// than the stream; the caller gets a reference. One that comes again is copied once.
int segment_gpu_order_background(struct segment_gpu_order *o, const struct tachy_item *item, tachy_frame *host,
                                 tachy_frame **out);

// The eye's smoothing as bytes: tachy_smooth_save() of masks of the size that _size says, which is 0 where
// there is none yet.
void segment_gpu_order_size(const struct segment_gpu_order *o, int eye, int *width, int *height, size_t *bytes);
int segment_gpu_order_save(struct segment_gpu_order *o, int eye, void *data);
int segment_gpu_order_load(struct segment_gpu_order *o, int eye, int width, int height, const void *data, size_t size);
