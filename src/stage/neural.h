#pragma once
#include "animate/keypoints.h"
#include "stage/animate.h"
#include "stage/family_net.h"

// A portrait moved by networks of the LivePortrait family: what the forms for the CPU (neural.c) and for devices (neural_cuda.c) share.

// What the networks say of a portrait, once.
struct neural_look {
    struct tachy_keypoints keys;
    float placed[TACHY_KEYPOINTS][3];
    float *features; // on the host
};

// Of the stage `keypoints`; the memory of both forms begins with it.
struct neural {
    struct tachy_family family;
    struct tachy_engine_setup setup;
    struct drive *drive;
    struct neural_look look[ANIMATE_PORTRAITS];
    int64_t features; // floats of a portrait
    struct tachy_stage_dial dial; // 1: networks paint, 0: the mesh
};

// An item's, from the stage `keypoints` on.
struct neural_item {
    bool on; // networks paint it
    const struct neural_look *look; // the portrait that is shown
    struct tachy_keypoints keys;
    bool seen;
    float placed[TACHY_KEYPOINTS][3]; // of the portrait
    // On a device: the portrait's features, and the picture that a batch has made of the item, `side` pixels wide. NULL: none did.
    void *features;
    tachy_frame *made;
    int side;
};

// The motion network's outputs.
enum { NEURAL_PITCH, NEURAL_YAW, NEURAL_ROLL, NEURAL_SHIFT, NEURAL_EXPRESSION, NEURAL_SCALE, NEURAL_POINTS, NEURAL_SAID };

// A network that sees a face, and what it takes and gives.
struct neural_seer {
    struct family_net net;
    int side, out[NEURAL_SAID]; // pixels that it sees; where its outputs are
};
// To be closed also on failure.
int neural_seer_open(struct neural_seer *s, const struct neural *of, enum tachy_role role, const struct tachy_engine_setup *setup,
                     const struct tachy_log *log);
// What it sees of the face. TACHY_ERR_INVAL: the face has no extent.
int neural_view(struct tachy_view *view, const tachy_face_points point, const struct tachy_family_crop *how, int side);
struct tachy_preprocess_params neural_preprocess(const struct neural_seer *s, const struct tachy_log *log);
void neural_read(struct tachy_keypoints *k, const float *const said[NEURAL_SAID]);

// Reads n->setup; then the family, and looks at the portraits with it.
int neural_read_setup(struct neural *n, const tachy_settings *s);
int neural_open(struct neural *n, struct tachy_stage *st, const tachy_settings *s);
void neural_close(struct neural *n);
// What `keypoints` does with an item, but for the network: true if the network is to see `point`.
bool neural_wants(struct tachy_stage *st, const struct tachy_item *item, tachy_face_points point);

// The networks that make a picture.
struct neural_maker {
    struct family_net stitch, warp, make; // an engine of `stitch` and `warp` is NULL if the card names none
    int feature, source, driving; // inputs of the network that warps
    int side; // of the picture
};
// `setup`: of all but `stitch`, which runs on the host by `host`. To be closed also on failure.
int neural_maker_open(struct neural_maker *m, const struct neural *n, const struct tachy_engine_setup *setup,
                      const struct tachy_engine_setup *host, const struct tachy_log *log);
void neural_maker_close(struct neural_maker *m);
// The network that takes features and keypoints.
static inline struct family_net *neural_warps(struct neural_maker *m) { return m->warp.engine ? &m->warp : &m->make; }
// Makes the driven keypoints fit the portrait's shoulders and neck.
int neural_stitch(struct neural_maker *m, const struct neural_look *look, float at[TACHY_KEYPOINTS][3]);

// How a picture of this side is pasted over plane `i` of a portrait's picture; `plane` as that of tachy_face_paste_how().
int neural_paste(struct tachy_face_paste *p, const struct neural *n, const struct animate_portrait *portrait, int side, int i);

static inline struct neural *neural_of(const struct tachy_stage *st) { return tachy_stage_priv(tachy_stage_before(st, "keypoints")); }

// ---- On devices

struct device_group;

// Where tensors lie: `mem` of device `ordinal`.
struct neural_place {
    struct tachy_memory *memory;
    enum tachy_mem mem;
    int ordinal;
    const struct tachy_log *log;
};
// neural_cuda.c: a block for all that a network takes and gives of so many pictures, each at a multiple of DEVICE_ALIGN. What is lent has
// none. The tensors are the first picture's.
int neural_tensors_there(const struct neural_place *at, struct family_net *n, int pictures, struct tachy_block *b);

// neural_batch.c: `worker_open` with a batch, `run` and `worker_close` of the stage `generate` on devices.
struct neural_batch;
int neural_batch_open(struct tachy_stage *st, int most, struct neural_batch **out);
void neural_batch_run(struct neural_batch *b, struct tachy_stage *st, const struct tachy_piece pieces[], int n, int err[]);
void neural_batch_close(struct neural_batch *b);
// The batch, if the executor calls the stage with a batch's object; NULL if it calls it with a worker's.
struct neural_batch *neural_batch_in(void *worker);

// neural_cuda.c: the picture that networks have made of the item, in the memory of the worker that has it: 3 x *side x *side floats.
// or a batch's. NULL: the mesh paints it.
const void *neural_made(const struct device_group *p, const struct tachy_item *item, int *side);
// Call this after the work that reads that picture is queued on the worker's stream. A batch's picture goes back when it has been read.
int neural_read_made(const struct device_group *p, const struct tachy_item *item);
