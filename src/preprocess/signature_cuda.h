#pragma once
#include "preprocess/signature.h"

// tachy_signature_make() for frames in a GPU's memory: the same cells, made there.
struct tachy_signature_gpu; // of one stream of frames, on any GPUs; used by one thread at a time

// *g is made at the first call (it may be NULL) and kept for the next. Returns when the cells are here, which is
// after what was queued on the frame's stream. Negative, logged: TACHY_ERR_INVAL as above (not logged),
// TACHY_ERR_UNAVAILABLE (this build has no kernels, there is no driver), TACHY_ERR_NOMEM, TACHY_ERR_EXTERNAL.
int tachy_signature_make_gpu(struct tachy_signature_gpu **g, struct tachy_signature *s, const tachy_frame *f,
                             const struct tachy_rect *region, const struct tachy_log *log);
void tachy_signature_gpu_close(struct tachy_signature_gpu **g); // *g may be NULL
