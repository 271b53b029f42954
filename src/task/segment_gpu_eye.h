#pragma once
#include "base/memory.h"
#include "cuda/gpu.h"
#include "cuda/loader.h"
#include "task/segment_cards.h"
#include "task/segment_gpu.h"

// What the card has of an eye's mask. `host` of the piece is the eye's own `mask`.
struct segment_gpu_eye {
    struct segment_card *card; // that the piece is of
    struct segment_gpu_piece *piece;
    bool guided;               // a guide comes with the mask
    cuda_address mask, guide; // guide: 0 where nobody needs it
    cuda_event done;  // of the piece: mask and guide are on the card and, but for `unfetched`, the mask on the host
    cuda_stream by;   // that it was recorded on
    struct segment_gpu_flight *flight; // the same of a worker's, which has made the mask on `by`: its `part`, in the
    uint64_t part;                     // place of `done`; NULL: it is `done`
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
// Queues the copy of eye 0's count to the host, and that of the eye's mask where it is missing there.
int segment_gpu_eye_fetch(struct segment_eye *e, bool with_count, cuda_stream stream, const struct tachy_log *log);
// What is queued on `stream` from here on finds the eye's mask and guide on the card. The device's context
// is current to the thread.
int segment_gpu_eye_there(struct segment_eye *e, cuda_stream stream, const struct tachy_log *log);

// Memory for masks of items: pairs of device and pinned memory, many of one size in a block, since as many
// items as a stream's window has may wait and each block costs the driver a tenth of a millisecond.
// Pieces may be taken and put by any thread.
struct segment_gpu_masks;
int segment_gpu_masks_open(struct segment_gpu_masks **out, struct tachy_memory *m, struct tachy_gpu *g);
// Every piece must have been put back.
void segment_gpu_masks_close(struct segment_gpu_masks **m);

// The eye's memory becomes that of another card; nothing where it is there already. `keep`: with what is
// in it, which the host's mask and guide then say, once the host has waited for them; else they are about
// to be written.
int segment_gpu_eye_move(struct segment_eye *e, struct segment_card *to, bool keep);
// The same for n eyes of one size whose masks are about to be written and whose memory nothing uses any more: side by
// side in their order, as far as there is room. On failure some of them have none, and their mask is NULL.
int segment_gpu_eyes_together(struct segment_eye *const eyes[], int n, struct segment_card *to);
// Queues the copies of segment_gpu_eye_fetch() with the counts for the first eyes of n items, those that lie side by
// side at once.
int segment_gpu_eyes_fetch(struct segment_eye *const eyes[], int n, cuda_stream stream, const struct tachy_log *log);
