#pragma once
#include "media/media.h"

// FFmpeg's filters over pictures in the host's memory, as they are stored (before rotation). Used from one thread.
typedef struct tachy_filter tachy_filter;

// Makes the graph that `text` describes. `option`: what it was given with, for messages ("-vf"). *info: of the pictures that
// go in; on success of those that come out. Pictures of another size or format than *info are converted to it first.
// TACHY_ERR_INVAL: FFmpeg cannot make such a graph, or it has not one input and one output; logged.
int tachy_filter_open(tachy_filter **out, const char *text, const char *option, struct tachy_video_info *info,
                      const struct tachy_log *log);
// The caller keeps its reference. `f` may be NULL: no more pictures.
int tachy_filter_send(tachy_filter *t, tachy_frame *f);
// The next picture: *out is the caller's, its pts in the time base of the info that came out, without a duration. TACHY_ERR_AGAIN: send more;
// TACHY_ERR_EOF: there are no more. Call until one of them after each send.
int tachy_filter_receive(tachy_filter *t, tachy_frame **out);
void tachy_filter_close(tachy_filter **t);
