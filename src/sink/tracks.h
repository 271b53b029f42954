#pragma once
#include "media/side.h"
#include "sink/mux.h"

#include <tachy/sink.h>

// The streams besides the video: copied if the container can hold them, converted if it holds another form of them,
// else dropped with one warning each. Use from one thread.
typedef struct tachy_tracks tachy_tracks;

// Adds the side's streams, chapters and metadata to m->ctx; before tachy_mux_start(), after
// the video stream (index 0) was added. The side is referenced.
int tachy_tracks_open(tachy_tracks **out, struct tachy_mux *m, tachy_side *side,
                      const struct tachy_sink_params *p);

// Writes what is due up to `seconds` of the video (INFINITY: all there is).
int tachy_tracks_write(tachy_tracks *t, double seconds);

// Writes what converters still hold.
int tachy_tracks_finish(tachy_tracks *t);

void tachy_tracks_close(tachy_tracks **t);
