#pragma once
#include "cuda/gpu.h"
#include "media/frame_pool.h"

// Work queued on a GPU stream that may not have finished: parts, numbered from 1, each with the frames that are kept
// for it. Parts finish in order. One thread adds to it; every thread may wait for a part. Nobody waits in the driver:
// its events that wake a sleeper take a driver thread 50 us each.
struct device_flight;

// `g` is referenced. The GPU's context is current to the thread.
int device_flight_open(struct device_flight **out, struct tachy_gpu *g, cuda_stream stream,
                            const struct tachy_log *log);
// After the stream has passed everything. *f may be NULL.
void device_flight_close(struct device_flight **f);

// Takes a reference to the frame, which goes back when what is queued up to the next mark is done.
int device_flight_keep(struct device_flight *f, tachy_frame *frame);
// Frames since the last mark.
int device_flight_kept(const struct device_flight *f);
// Makes the work queued since the last mark one part, *number, which somebody will wait for; NULL: nobody will. Frames of
// parts that are done go back. If very many parts are not done, it waits for the oldest.
// TACHY_ERR_EXTERNAL, logged: the device failed, now or earlier.
int device_flight_mark(struct device_flight *f, uint64_t *number);
// Returns the frames of finished parts, if they are more than a few. Called by the thread that adds.
void device_flight_tidy(struct device_flight *f);
// Makes later work on `stream`, of the same device, wait for the part. Any thread that knows of the mark.
int device_flight_follow(struct device_flight *f, uint64_t number, cuda_stream stream);
// Waits until a part is done, in naps of up to half a millisecond. Any thread. Errors as above.
int device_flight_wait(struct device_flight *f, uint64_t number);

// Waits for a single event, which may be of a kind that does not wake a sleeper; failures are logged.
int device_event_wait(struct tachy_gpu *g, cuda_event e, const struct tachy_log *log);
