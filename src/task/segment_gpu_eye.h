#pragma once
#include "base/memory.h"
#include "cuda/gpu.h"
#include "cuda/loader.h"
#include "task/segment_devices.h"
#include "task/segment_gpu.h"

// What the device has of an eye's mask. `host` of the piece is the eye's own `mask`.
struct segment_gpu_eye {
    struct segment_device *device; // that the piece is of
    struct segment_gpu_piece *piece;
    bool guided;               // a guide comes with the mask
    cuda_address mask, guide; // guide: 0 where nobody needs it
    cuda_stream by;   // that makes them: mask and guide are on the device and, but for `unfetched`, the mask on the host
    struct segment_gpu_flight *flight; // when `part` of a worker's flight is done, whose stream `by` is; NULL: when the
    uint64_t part;                     // piece's event is
    cuda_address counted;   // uint32_t: pixels that its composites counted, which grow; of eye 0
    uint32_t *counted_host; // pinned: the same, of the last composite that is done
    bool pending;     // and that has not been waited for
    bool unfetched;   // nobody has copied the mask to the host yet
    bool from_host;   // the engine's output was there
    bool stale;       // the host's mask is the true one
    bool guide_stale; // the same of the guide
};

// What is queued on `stream` so far makes the mask. The context is current.
int segment_gpu_eye_written(struct segment_eye *e, cuda_stream stream, const struct tachy_log *log);
// The same by the part of a flight, which is on `stream`.
void segment_gpu_eye_flies(struct segment_eye *e, cuda_stream stream, struct segment_gpu_flight *f, uint64_t part);
// What is to be copied to the host of the eye's mask, where it is missing there, and of its count (eye 0's): how many
// planes, 0 or 1. They count as copied.
int segment_gpu_eye_to_fetch(struct segment_eye *e, bool with_count, struct tachy_gpu_plane *p);
// What a composite that is queued on `stream` next begins to count from. The context is current.
int segment_gpu_eye_count_from(struct segment_eye *e, cuda_stream stream, const struct tachy_log *log, uint32_t *from);
// A composite failed, which may have been counted or not: the next one begins anew.
void segment_gpu_eye_miscounts(struct segment_eye *e);
// What is queued on `stream` from here on finds the eye's mask and guide on the device. The device's context
// is current to the thread.
int segment_gpu_eye_there(struct segment_eye *e, cuda_stream stream, const struct tachy_log *log);

// Memory for masks of items: pairs of device and pinned memory, many of one size in a block, since as many
// items as a stream's window has may wait and each block costs the driver a tenth of a millisecond.
// Pieces may be taken and put by any thread.
struct segment_gpu_masks;
int segment_gpu_masks_open(struct segment_gpu_masks **out, struct tachy_memory *m, struct tachy_gpu *g);
// Every piece must have been put back.
void segment_gpu_masks_close(struct segment_gpu_masks **m);

// The eye's memory becomes that of another device; nothing where it is there already. `keep`: with what is
// in it, which the host's mask and guide then say, once the host has waited for them; else they are about
// to be written.
int segment_gpu_eye_move(struct segment_eye *e, struct segment_device *to, bool keep);
