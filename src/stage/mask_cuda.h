#pragma once
#include "stage/device.h"
#include "stage/mask.h"

// Masks of items on devices.

// An eye's mask on the device. `host` of the piece is the eye's own `mask`.
struct tachy_mask_there {
    struct task_device *device; // that the piece is of
    struct mask_piece *piece;
    bool guided;               // a guide comes with the mask
    cuda_address mask, guide; // guide: 0 if nobody needs it
    cuda_stream by;   // that makes them: mask and guide are on the device, and the mask, unless `unfetched`, on the
                      // host
    struct device_flight *flight; // when `part` of a worker's flight is done, whose stream `by` is; NULL: when the
    uint64_t part;                     // piece's event is
    cuda_address counted;   // uint32_t: pixels that its composites counted, which grow; of eye 0
    uint32_t *counted_host; // pinned: the same, of the last composite that is done
    bool pending;     // that composite has not been waited for yet
    bool unfetched;   // nobody has copied the mask to the host yet
    bool from_host;   // the engine's output was there
    bool stale;       // the host's mask is the true one
    bool guide_stale; // the same of the guide
};

// Notes that the work on `stream` up to this part of a flight makes the mask.
void mask_there_flies(struct tachy_mask_eye *e, cuda_stream stream, struct device_flight *f, uint64_t part);
// Lists the planes to copy to the host: the eye's mask if it is missing there, and its count (eye 0's). Returns how many,
// 0 or 1; they count as copied.
int mask_there_to_fetch(struct tachy_mask_eye *e, bool with_count, struct tachy_gpu_plane *p);
// Sets *from, the count with which the next composite on `stream` begins. The context is current.
int mask_there_count_from(struct tachy_mask_eye *e, cuda_stream stream, const struct tachy_log *log, uint32_t *from);
// A composite failed, which may or may not have been counted: the next one starts afresh.
void mask_there_miscounts(struct tachy_mask_eye *e);
// Makes the eye's mask and guide available on the device to later work on `stream`. The device's context is current to
// the thread.
int mask_there_ready(struct tachy_mask_eye *e, cuda_stream stream, const struct tachy_log *log);

// Memory for masks of items: pairs of device and pinned memory, many of one size in a block, since as many
// items as a stream's window has may wait and each block costs the driver a tenth of a millisecond.
// Pieces may be taken and put by any thread.
struct mask_pieces;
int mask_pieces_open(struct mask_pieces **out, struct tachy_memory *m, struct tachy_gpu *g);
// Every piece must have been put back.
void mask_pieces_close(struct mask_pieces **m);

// Moves the eye's memory to another device; does nothing if it is there already. `keep`: with its contents, which are
// then read from the host's mask and guide after waiting for them; else they are about to be overwritten.
int mask_there_move(struct tachy_mask_eye *e, struct task_device *to, bool keep);

// `room` of struct tachy_mask_memory: memory for mask and guide that a device can write, and its counterpart there.
int mask_there_room(const struct tachy_masks *m, struct tachy_mask_eye *e, int width, int height);
void mask_there_free(struct tachy_mask_eye *e);
// The eye's mask is on the host when it returns; nothing if it was not made on a device.
int mask_there_sync(struct tachy_mask_eye *e);
// Waits for its guide.
int mask_there_sync_guide(struct tachy_mask_eye *e);
// The host's mask and guide were written: the device's are made of them when they are needed.
void mask_there_touched(struct tachy_mask_eye *e);
