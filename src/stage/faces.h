#pragma once
#include "cluster/hdbscan.h"
#include "postprocess/regions.h"
#include "stage/net.h"
#include "stage/stage_ops.h"

// Face vectors (faces.c; on devices faces_cuda.c), and the data kept about all of them and evaluated at the end.

enum {
    FACES_CROP = 112, // side of a face's upright picture, R G B
    FACES_CROP_BYTES = FACES_CROP * FACES_CROP * 3,
    FACES_TOGETHER = 32, // faces that a form looks at in one go, at most
};
enum { FACES_SIZE, FACES_BLUR, FACES_ANGLE, FACES_KEPT }; // values of a region whose face was looked at

// The memory of a form's stage begins with it.
struct faces {
    double least_size, most_blur, most_angle;
    int side;   // of the pictures that the network takes
    bool keeps; // pictures of those that have a vector stay with the item
};

struct faces_item {
    struct tachy_regions list;
    const uint8_t **crop; // of each region; NULL: none was kept. The list's memory
};

// A face of a frame in hand.
struct faces_face {
    const tachy_frame *in;        // where the form reads it
    struct faces_item *item;      // the frame's
    struct tachy_region *region;
    struct tachy_named *value;    // the region's
    struct tachy_view crop, look; // of FACES_CROP pixels, and what the network sees
    const uint8_t *rgb;           // FACES_CROP_BYTES
    bool wanted;                  // may still be given a vector; after judging: is
};

// How a form looks at n <= together faces, which may be several frames'; the first member of the form's own data on a worker.
struct faces_runner {
    // Sets face[].rgb, until the next call.
    int (*crop)(struct faces_runner *r, struct faces_face face[], int n);
    // After it: sets embedding and nb_embedding of the regions of those that are wanted, in their lists' memory.
    int (*embed)(struct faces_runner *r, struct faces_face face[], int n);
    int together;
};

extern const struct tachy_option faces_options[];
// Reads the settings into struct faces, but `side`; returns which network it is.
struct tachy_net_params faces_open(struct tachy_stage *st, const tachy_settings *s);
// For n pieces whose frames are at in[]; NULL: that one is left out, with its err[].
void faces_look(struct tachy_stage *st, struct faces_runner *r, struct tachy_item *const items[], const tachy_frame *const in[], int n,
                int err[]);
void faces_item_close(void *item);

struct faces_params {
    struct tachy_cluster_params cluster;
    double same;        // cosine from which a face is a known person's, 0..1
    double join;        // of two clusters from which they are one person, 0..1; 1: none are
    const char *people; // folder; NULL: nothing is written there
    enum { FACES_LINKS, FACES_COPIES, FACES_LIST } put;
    const char *names;  // file; NULL: none
    const struct tachy_log *log;
};

struct faces_store;

struct faces_store *faces_store_open(void); // NULL: out of memory
void faces_store_close(struct faces_store *s);
// A face of the frame `id` of `input`; `sharp`: which of a track's faces stands for it. `crop`: R G B, FACES_CROP on a side; NULL:
// a sharper one of its track came before. `learnt`: the file of names has it already. Thread-safe. TACHY_ERR_NOMEM;
// TACHY_ERR_MISMATCH: the embedding has another size than those before.
int faces_store_add(struct faces_store *s, const char *input, int64_t id, const struct tachy_region *r, double sharp,
                    const uint8_t *crop, bool learnt);
// Clusters the faces and writes the files that `p` names.
int faces_store_write(struct faces_store *s, const struct faces_params *p);
// After that: the name of each face's person, or "", in the order of adding. The store's memory.
int faces_store_labels(struct faces_store *s, const char ***label, size_t *nb);
