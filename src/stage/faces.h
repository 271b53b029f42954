#pragma once
#include "cluster/hdbscan.h"
#include "postprocess/regions.h"
#include "stage/stage_ops.h"

// What the stage faces keeps of all faces, and what it makes of them after the last item.

enum { FACES_CROP = 112 }; // side of a kept picture of a face

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
// A face of the frame `id` of `input`; `sharp`: which of a track's faces stands for it. `crop`: R G B, FACES_CROP on a side.
// Thread-safe. TACHY_ERR_NOMEM; TACHY_ERR_MISMATCH: the embedding has another size than those before.
int faces_store_add(struct faces_store *s, const char *input, int64_t id, const struct tachy_region *r, double sharp,
                    const uint8_t *crop);
// Clusters the faces and writes the files that `p` names.
int faces_store_write(struct faces_store *s, const struct faces_params *p);
