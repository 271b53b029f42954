#pragma once
#include "base/base.h"

#include <tachy/result.h>

// Objects that people hold: parts of the picture beside their mask that differ from the background, as far as earlier
// frames showed it. The camera stands still.
//
// The picture is averaged into cells of a few pixels. A mean and a spread are learnt for each cell while no mask is
// near. A part of cells that differ from it is an object if it
// - is connected, touches the mask or background that was never visible, and reaches away from it;
// - is not a shadow: darker by less than 60 % with nearly the same chroma;
// - has its edges in this frame. If a third of them are those of the learnt background, that has been uncovered there;
// - has at most half of the mask's area.
// Something that stays longer than the background was visible there becomes background. If more than 12 % of the known
// area beside the mask differs, the camera has moved, and all is forgotten. Nothing is kept in the next 25 frames, nor
// while less than half of the background is known.

typedef struct tachy_objects tachy_objects;

// For one stream and eye, whose region of the frame has this size. TACHY_ERR_NOMEM, TACHY_ERR_INVAL.
int tachy_objects_open(tachy_objects **out, int width, int height);
// Raises `mask` (width x height bytes, rows without gaps, of `region`) to 255 at objects, with soft edges; in frame
// order. `f` is on the host, and `region` has this size and lies in the frame. `anew`: a scene begins.
void tachy_objects_keep(tachy_objects *o, const tachy_frame *f, const struct tachy_rect *region, uint8_t *mask, int width,
                        int height, bool anew);
// As those of tachy_smooth (mask.h).
size_t tachy_objects_state_size(const tachy_objects *o);
void tachy_objects_save(const tachy_objects *o, void *data);
int tachy_objects_load(tachy_objects *o, const void *data, size_t size);
void tachy_objects_close(tachy_objects **o);
