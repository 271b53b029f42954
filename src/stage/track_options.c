#include "base/options.h"
#include "stage/track.h"

// Options of every task that follows something; task-specific ones are in the tasks' own rows.
const struct tachy_option tachy_track_options[] = {
    {"tracking.max_num_faces", "max-faces", 0, TACHY_OPT_INT, "1", .min = 1, .max = TACHY_MAX_FOLLOWED, .group = "Tracking",
     .aliases = "num-faces|max-people|num-poses", .help = "most faces or people to follow"},
    {"tracking.detector", "detector", 0, TACHY_OPT_STRING, "face", .arg = "NAME", .group = "Tracking",
     .help = "model that detects faces or people"},
    {"tracking.detect_every", "detect-every", 0, TACHY_OPT_INT, "15", .min = 1, .max = 100000, .group = "Tracking",
     .help = "frames after which the detector looks for more, while fewer are followed than --max-faces allows"},
    {"processing.face_detection_batch", NULL, 0, TACHY_OPT_INT, "1", .min = 1, .max = 65536, .group = "Tracking",
     .help = "frames that the detector looks at together while nothing is followed, at most 32; frames then wait for those to come"},
    {"tracking.confidence", "tracking-conf", 0, TACHY_OPT_FLOAT, "0.5", .max = 1, .group = "Tracking",
     .help = "score of the points below which a face or person is lost"},
    {"tracking.smoothing", "smoothing", 0, TACHY_OPT_BOOL, "yes", .group = "Tracking",
     .help = "smooth the points with the one-euro filter"},
    {"tracking.min_cutoff", "min-cutoff", 0, TACHY_OPT_FLOAT, "1", .min = 0.001, .max = 1000, .arg = "HZ",
     .group = "Tracking", .help = "cut-off of that filter at rest: lower is smoother"},
    {"tracking.beta", "beta", 0, TACHY_OPT_FLOAT, "30", .max = 10000, .group = "Tracking",
     .help = "how much that cut-off rises with speed: higher lags less"},
    {"tracking.smoothing_window", "smoothing-window", 0, TACHY_OPT_INT, .min = 1, .max = 1000, .arg = "FRAMES", .group = "Tracking",
     .help = "smooth points at rest as a mean of this many frames does, instead of --min-cutoff; 1: no smoothing"},
    {0},
};
