#include "cli.h"

#include <string.h>
#include <sys/stat.h>

// Options of live runs and of frame skipping (docs/live.md).

static bool on_command_line(const tachy_settings *set, const char *path)
{
    const char *origin = tachy_settings_origin(set, path);
    return origin && !strcmp(origin, "command line");
}

struct tachy_live_params live_options(const tachy_settings *set)
{
    // --frame-skip=THRESHOLD says both that and from where; in a file these are two keys.
    static const char enabled[] = "performance.frame_skip_enabled",
                      threshold[] = "performance.frame_skip_threshold";
    bool asked = on_command_line(set, threshold) && !on_command_line(set, enabled);
    return (struct tachy_live_params){
        .mode = tachy_settings_bool(set, "performance.live") ? TACHY_RUN_LIVE : TACHY_RUN_ALL,
        .max_latency_ms = tachy_settings_float(set, "performance.max_latency_ms"),
        .frame_skip = tachy_settings_bool(set, enabled) || asked,
        .frame_skip_threshold = tachy_settings_float(set, threshold),
        .realtime = tachy_settings_bool(set, "input.realtime"),
        .target_fps = tachy_settings_float(set, "performance.target_fps"),
        .no_degrade = !tachy_settings_bool(set, "performance.adapt"),
    };
}

void live_options_say(const struct cli *c, const char *input)
{
    const tachy_settings *set = c->settings;
    bool live = tachy_settings_bool(set, "performance.live");
    bool paced = tachy_settings_bool(set, "input.realtime");
    struct stat st;
    if (!live && on_command_line(set, "performance.max_latency_ms"))
        message_note(&c->log, "--max-latency has no effect without --live: every frame is worked "
                              "on, however long it takes");
    if (live && !paced && stat(input, &st) == 0 && S_ISREG(st.st_mode))
        message_note(&c->log, "%s is read as fast as it decodes, and frames that nobody has time "
                              "for are shed; add -re to read it at its own rate", input);
}
