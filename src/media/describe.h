#pragma once
#include "base/npy.h"

#include <jansson.h>
#include <tachy/frame.h>
#include <tachy/source.h>

// Frames and streams as data that files keep: JSON objects and NumPy's arrays.

json_t *tachy_video_to_json(const struct tachy_video_info *v);
// Reads the members that stages use. False: the object does not describe a video.
bool tachy_video_from_json(struct tachy_video_info *v, const json_t *o);
json_t *tachy_color_to_json(struct tachy_color c);
struct tachy_color tachy_color_from_json(const json_t *o);

// A frame's plane i as an array of its rows without padding; `data` is left NULL.
struct tachy_npy tachy_plane_array(const tachy_frame *f, int plane);
