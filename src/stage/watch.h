#pragma once
#include "postprocess/focus.h"
#include "preprocess/signature.h"

// Where a picture without people has changed since people were last looked for, so that the search is repeated only
// then and there. It compares cells of the luma's signature: a change is seen if it covers most of a cell or is strong.
// No pointers: its bytes can be saved; {0}: nothing is known. In stream order, one thread at a time.
struct tachy_watch {
    struct tachy_signature seen; // of the frame searched last; the caller sets it
    // Cells that have changed since somebody looked at this part of the frame; x1 <= x0: none.
    int x0, y0, x1, y1;
};

// Compares a frame with the one searched last: the share of it that has changed, 0..1.
double tachy_watch_see(struct tachy_watch *w, const struct tachy_signature *now);
// The part of a frame to look at for what has changed, a person's room around it; it counts as looked at then. false:
// nothing has changed, or so much that the part would be hardly smaller than the frame.
bool tachy_watch_part(struct tachy_watch *w, int width, int height, struct tachy_focus_box *part);
// Makes sense of bytes that were read from a file.
void tachy_watch_check(struct tachy_watch *w);
