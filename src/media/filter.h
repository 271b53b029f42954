#pragma once
#include "media/media.h"

// FFmpeg's filters over pictures in the host's memory, as they are stored (before rotation). Used from one thread.
typedef struct tachy_filter tachy_filter;

// Creates the graph that `text` describes. `option`: the option it came from, for messages ("-vf"). *info: describes
// the input pictures, on success the output pictures. Pictures of another size or format than *info are converted to it
// first. TACHY_ERR_INVAL: FFmpeg cannot create such a graph, or it does not have exactly one input and one output;
// logged.
int tachy_filter_open(tachy_filter **out, const char *text, const char *option, struct tachy_video_info *info,
                      const struct tachy_log *log);
// The caller keeps its reference. `f` may be NULL: no more pictures.
int tachy_filter_send(tachy_filter *t, tachy_frame *f);
// The next picture: *out is the caller's, its pts in the time base of the info that came out, without a duration. TACHY_ERR_AGAIN: send more;
// TACHY_ERR_EOF: there are no more. Call until one of them after each send.
int tachy_filter_receive(tachy_filter *t, tachy_frame **out);
void tachy_filter_close(tachy_filter **t);
