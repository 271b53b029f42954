#pragma once
#include "postprocess/buf.h"

#include <stdint.h>

// One person of several in a mask: the parts of the mask that hang together are people, one is chosen and followed.

enum tachy_person_rule {
    TACHY_PERSON_LARGEST, // by area
    TACHY_PERSON_CENTER,  // nearest to the middle of the picture
    TACHY_PERSON_NTH,     // number counted from the left, when chosen
};

struct tachy_person_choice {
    enum tachy_person_rule rule;
    int nth;      // from 1
    int rotation; // degrees clockwise to show the picture upright
    bool flip;    // mirror it after that; left and right are those of the shown picture
};

// The person who is followed in one eye of a stream; {0}: nobody yet. A later run on the same machine can load its bytes.
struct tachy_person {
    int32_t width, height;  // of the mask
    int32_t has;            // somebody is followed
    int32_t x0, y0, x1, y1; // their last position, mask pixels
    int32_t lost;           // frames since they were seen
    int32_t rival;          // frames in which somebody else fitted the rule much better
};

// True if bytes that were read form a valid state.
bool tachy_person_sound(const struct tachy_person *p);
// Sets the mask (w x h bytes, rows without gaps) to 0 where it belongs to others, and everywhere if the chosen person
// is not there. Once chosen, a person is kept as long as their part overlaps with that of the previous frame. If they
// are gone for 12 frames, or another one fits the rule much better for 25, the choice is repeated (a person chosen by
// number stays). `anew`: choose now. TACHY_ERR_NOMEM.
int tachy_person_keep(struct tachy_person *p, const struct tachy_person_choice *c, struct tachy_buf *scratch, uint8_t *mask, int w,
                      int h, bool anew);
