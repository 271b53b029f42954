#pragma once
#include "postprocess/alpha.h"
#include "postprocess/given.h"
#include "stage/infer.h"

// The stage "postprocess" of a network whose output is a mask: it makes masks of tensors. Stages after it find the masks
// of an item here, at their own size; tachy_result has them for everybody.

extern const struct tachy_stage_ops tachy_stage_mask, tachy_stage_mask_cuda;

struct tachy_mask_there;
struct tachy_masks;

// An eye's mask: of its region, or joined from the item's parts. Memory is the item's and stays from frame to frame.
struct tachy_mask_eye {
    uint8_t *mask, *guide;   // width * height each; guide: luma of the picture, NULL if nobody needs it
    int width, height;
    struct tachy_given given; // in the item's memory `colours`; v NULL: this frame has none
    struct tachy_buf colours;
    struct tachy_mask_there *there; // mask_cuda.h: its copy on a device; NULL: it is only on the host
};

struct tachy_mask_item {
    struct tachy_mask_eye eye[TACHY_MAX_EYES];
    struct tachy_buf part, part_colours; // of the part that is joined next
};

// Functions for masks whose memory a device can reach; NULL: nothing is to be done.
struct tachy_mask_memory {
    int (*room)(const struct tachy_masks *m, struct tachy_mask_eye *e, int width, int height);
    int (*sync)(struct tachy_mask_eye *e);     // mask and guide are on the host when it returns
    void (*touched)(struct tachy_mask_eye *e); // the host has written them
};

// The stage's memory.
struct tachy_masks {
    struct tachy_stage *st;
    struct tachy_infer *infer;
    const struct tachy_mask_memory *memory;
    bool guided; // masks come with a guide
    bool coloured; // and with the colours that the network gives, on the host, if it gives any
    atomic_bool checked; // that a mask's values are what the card says
};

// The masks that a stage before this one makes, NULL: there is none. In open() and later.
struct tachy_masks *tachy_masks_of(const struct tachy_stage *st);
// In open() of a stage that needs guides.
void tachy_masks_guide(struct tachy_masks *m);
// In open() of a stage on the host that shows the colours which the network gives. False: its card names none.
bool tachy_masks_colour(struct tachy_masks *m);

static inline struct tachy_mask_eye *tachy_mask_eye(const struct tachy_masks *m, const struct tachy_item *item, int region)
{
    return &((struct tachy_mask_item *)tachy_stage_item(m->st, item))->eye[region];
}

// In run() of a stage with `ahead`, on the host: of the pieces, those in a row whose masks have the size of the first one's.
static inline int tachy_masks_seen(const struct tachy_masks *m, const struct tachy_piece pieces[], int n, int eye)
{
    const struct tachy_mask_eye *first = tachy_mask_eye(m, pieces[0].item, eye), *e = first;
    int same = 0;
    while (e->width == first->width && e->height == first->height && ++same < n)
        e = tachy_mask_eye(m, pieces[same].item, eye);
    return same;
}

// ---- What both forms of the stage have; see struct tachy_stage_ops

int tachy_mask_open(struct tachy_stage *st, const struct tachy_mask_memory *memory);
int tachy_mask_start(struct tachy_stage *st, struct tachy_video_info *video);
int tachy_mask_copy(struct tachy_stage *st, struct tachy_item *to, const struct tachy_item *from, int region);
int tachy_mask_copy_save(struct tachy_stage *st, const struct tachy_item *from, void **data, size_t *size);
int tachy_mask_copy_load(struct tachy_stage *st, struct tachy_item *to, const void *data, size_t size);

struct tachy_mask_spec tachy_mask_spec_of(const struct tachy_infer *in, int size);
// Maps the picture's place in the model's input to its place in a mask of width x height.
struct tachy_placement tachy_mask_at(const struct tachy_infer_net *net, const struct tachy_placement *p, int width, int height);
// Reserves the region's mask from the network's output `out`, in the result, and sets *pl to the picture's position in
// that output.
int tachy_mask_place(const struct tachy_masks *m, const struct tachy_piece *p, int size, const struct tachy_tensor *out,
                     const struct tachy_placement *at, struct tachy_placement *pl);
// Room on the host: all of it or nothing.
int tachy_mask_room(const struct tachy_masks *m, struct tachy_mask_eye *e, int width, int height);

// ---- mask_colours.c: the colours that a network gives

// Takes a network's colours of a region, or of a part after its mask has been joined. None, if the card names none.
int tachy_mask_colours(const struct tachy_masks *m, const struct tachy_piece *p, const struct tachy_infer_output *o);
int tachy_mask_join_colours(const struct tachy_masks *m, const struct tachy_piece *p, const struct tachy_infer_output *o);
// For copy, copy_save and copy_load. TACHY_ERR_FORMAT: the bytes are none.
int tachy_mask_colours_copy(struct tachy_mask_eye *to, const struct tachy_mask_eye *from);
size_t tachy_mask_colours_size(const struct tachy_mask_eye *e);
void tachy_mask_colours_save(const struct tachy_mask_eye *e, char *to);
int tachy_mask_colours_load(struct tachy_mask_eye *e, const char *from, size_t size, size_t *used);
