#pragma once
#include "base/base.h"

#include <tachy/result.h>

// Regions that a network shall look at more closely: a steady view around each person, framed as a camera operator
// would. Runs no network: when a look is due, the caller finds the people in the frame and passes their positions. In
// stream order; one thread at a time.

enum { TACHY_FOCUS_MOST = 3 }; // people with a region of their own

// Frame pixels as stored; x1 and y1 are the far edges.
struct tachy_focus_box {
    double x0, y0, x1, y1;
};

// State of one stream, without pointers: its bytes can be saved. tachy_focus_begin() sets it up.
struct tachy_focus {
    int width, height; // of the frame
    int nb;
    struct tachy_focused {
        struct tachy_focus_box person; // when last looked at
        struct tachy_focus_box view;   // the region of this frame
        struct tachy_focus_box goal;   // target of the view, which moves towards it frame by frame
        bool seen;                     // in this look
    } one[TACHY_FOCUS_MOST];
    bool crowd; // there are more than these
    int wait;   // frames to the next look
    int pause;  // frames from the last look to the next
    double drift; // in this look: the largest movement since the last one, of a person's extents
    bool fresh;   // in this look: somebody is new
    bool early;   // the next look is, see tachy_focus_hurry()
    int patience; // least frames between a look and an early one
    int looks;  // since the beginning or the last cut
};
void tachy_focus_begin(struct tachy_focus *f, int width, int height);
// True if bytes read from a file form a valid state: finite numbers, and boxes within the frame.
bool tachy_focus_sound(const struct tachy_focus *f);
// A cut: nothing is known any more.
void tachy_focus_cut(struct tachy_focus *f);

// Call once per frame, first: true if the caller shall look at it.
bool tachy_focus_due(struct tachy_focus *f);
// Before tachy_focus_due(), for a frame whose picture has changed at a view's edge: the next look is now, unless the last one
// was a moment ago. Early looks that find nobody moved, for instance while the camera pans, become rarer.
void tachy_focus_hurry(struct tachy_focus *f);
// A look: for each of f->one its person, unless that is lost; then new people, of whom those that are known already are
// ignored; then the end, after which what was lost is gone.
void tachy_focus_saw(struct tachy_focus *f, int i, const struct tachy_focus_box *person);
bool tachy_focus_knows(const struct tachy_focus *f, const struct tachy_focus_box *person);
void tachy_focus_found(struct tachy_focus *f, const struct tachy_focus_box *person);
void tachy_focus_looked(struct tachy_focus *f);

// Call once per frame, last: moves the views, and stores in `part` the parts of the frame for the network, the whole
// frame first if it is one of them. Returns their number; 0: only the whole frame.
int tachy_focus_parts(struct tachy_focus *f, struct tachy_rect part[TACHY_FOCUS_MOST + 1]);
// The last look found nobody.
static inline bool tachy_focus_nobody(const struct tachy_focus *f) { return f->looks && !f->nb; }

// ---- A search ----

// Tile `i` of a level: 1 is the whole frame; the tiles of level n overlap and have about 1/n of its height. False: the
// level has fewer tiles.
bool tachy_focus_tile(const struct tachy_focus *f, int level, int i, struct tachy_focus_box *tile);
int tachy_focus_tiles(const struct tachy_focus *f, int level); // how many it has

// People who may be there, best first. {0} is an empty one.
enum { TACHY_FOCUS_CANDIDATES = 6 };
struct tachy_focus_search {
    struct tachy_focus_candidate {
        struct tachy_focus_box box;
        double merit; // more is better
    } c[TACHY_FOCUS_CANDIDATES];
    int nb;
};
// Keeps the best; at most two of one person, so that there is room for others.
void tachy_focus_consider(struct tachy_focus_search *s, const struct tachy_focus_candidate *c);

// ---- Boxes ----

// The box grown by `share` of its extents to each side, within the frame.
struct tachy_focus_box tachy_focus_pad(const struct tachy_focus *f, const struct tachy_focus_box *b, double share);
// The box around the largest thing in a mask of width x height bytes and all that are a tenth of its size, in pixels of
// the mask; specks do not count. *sharp: the share of these pixels that are surely a person, 0..1. false: there is
// none.
bool tachy_focus_mask_box(const uint8_t *mask, int width, int height, struct tachy_focus_box *box, double *sharp);
