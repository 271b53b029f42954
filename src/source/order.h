#pragma once
#include "source/source_ops.h"

// Threads that read a source with out-of-order frames, and a window that restores their order: used by
// tachy_source_read() for files with several decoders.
typedef struct source_order source_order;

// Starts `threads` threads; at most `window` frames wait. The source must be spread already.
int source_order_open(source_order **out, tachy_source *s, int threads, int64_t window);
// See source_ops.read.
int source_order_read(source_order *o, tachy_frame **out);
// Ends the threads; frames that wait are dropped. The source's own state is quiet then.
void source_order_close(source_order **o);
