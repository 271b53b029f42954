#pragma once
#include "base/base.h"

#include <pthread.h>
#include <tachy/frame.h>
#include <tachy/pipeline.h>

// Preparation of a frame before a stream takes it.

struct tachy_convert;

// For one stream. Streams rarely change size or format, so all pushers share one converter.
struct pipeline_intake {
    pthread_mutex_t lock;
    struct tachy_convert *convert; // NULL: none was needed yet
};

void pipeline_intake_init(struct pipeline_intake *in);
void pipeline_intake_close(struct pipeline_intake *in);

// Checks that the frame is sound and brings it to the size and format that the stream was opened with. *out: a
// reference to `f`, or to a converted copy. TACHY_ERR_INVAL: it is not sound; TACHY_ERR_UNSUPPORTED: it cannot be
// converted; TACHY_ERR_NOMEM. Logged; *out is NULL then. Any thread.
int pipeline_fit(tachy_stream *s, tachy_frame *f, tachy_frame **out);
