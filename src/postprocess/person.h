#pragma once
#include "postprocess/buf.h"

#include <stdint.h>

// One person of several in a mask: the parts of the mask that hang together are people, one is chosen and followed.

enum tachy_person_rule {
    TACHY_PERSON_LARGEST, // by area
    TACHY_PERSON_CENTER,  // nearest to the middle of the picture
    TACHY_PERSON_NTH,     // so many from the left, when chosen
};

struct tachy_person_choice {
    enum tachy_person_rule rule;
    int nth;      // from 1
    int rotation; // of the picture, degrees clockwise to show it upright, and whether it is mirrored then: left and right
    bool flip;    // are those of the picture as it is shown
};

// The person who is followed in one eye of a stream; {0}: nobody yet. A later run on the same machine can load its bytes.
struct tachy_person {
    int32_t width, height;  // of the mask
    int32_t has;            // somebody is followed
    int32_t x0, y0, x1, y1; // where they were last, mask pixels
    int32_t lost;           // frames since they were seen
    int32_t rival;          // frames in which somebody else fitted the rule much better
};

// Whether bytes that were read can be one.
bool tachy_person_sound(const struct tachy_person *p);
// Sets the mask (w x h bytes, rows without gaps) to 0 if it belongs to others, and everywhere if the chosen one is not
// there. Once chosen, a person is kept as long as their part overlaps with that of the frame before; if it is gone for
// 12 frames, or another one fits the rule much better for 25, the choice is made again (a person by number stays).
// `anew`: the choice is made now. TACHY_ERR_NOMEM.
int tachy_person_keep(struct tachy_person *p, const struct tachy_person_choice *c, struct tachy_buf *scratch, uint8_t *mask, int w,
                      int h, bool anew);
