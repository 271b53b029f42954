#pragma once
#include "base/base.h"

#include <tachy/result.h>

// What people hold: parts of the picture beside their mask that differ from the wall behind them, as far as earlier frames
// showed that wall. The camera stands still.
//
// The picture is averaged into cells of a few pixels. Of each cell a mean and a spread are learnt while no mask is near. A
// part of cells that differ from it is an object if it
//   - hangs together, touches the mask or what nobody has seen uncovered, and reaches away from it;
//   - is no shadow: darker by less than 60 % with nearly the same chroma;
//   - has its edges in this frame. If a third of them are those of what was learnt, the wall has been uncovered there;
//   - has at most half of the mask's area.
// What lies somewhere for longer than the wall was seen there becomes the wall. If more than 12 % of what is known beside
// the mask differs, the camera has moved, and all is forgotten. Nothing is kept in the next 25 frames, nor while less than
// half of the wall is known.

typedef struct tachy_objects tachy_objects;

// Of one stream and eye, whose region of the frame has this size. TACHY_ERR_NOMEM, TACHY_ERR_INVAL.
int tachy_objects_open(tachy_objects **out, int width, int height);
// Raises `mask` (width x height bytes, rows without gaps, of `region`) to 255 where objects are, softly at their edges; in
// frame order. `f` is on the host, and `region` has the size of the object and lies in the frame. `anew`: a scene begins.
void tachy_objects_keep(tachy_objects *o, const tachy_frame *f, const struct tachy_rect *region, uint8_t *mask, int width,
                        int height, bool anew);
// As those of tachy_smooth (mask.h).
size_t tachy_objects_state_size(const tachy_objects *o);
void tachy_objects_save(const tachy_objects *o, void *data);
int tachy_objects_load(tachy_objects *o, const void *data, size_t size);
void tachy_objects_close(tachy_objects **o);
