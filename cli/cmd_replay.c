#include "cli.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// docs/replay.md documents the files and the JSON.

static enum tachy_replay_stage stage_of(const char *name)
{
    for (int i = 0; i < TACHY_REPLAY_COUNT; i++)
        if (!strcmp(tachy_replay_stage_name((enum tachy_replay_stage)i), name))
            return (enum tachy_replay_stage)i;
    return TACHY_REPLAY_ENGINE; // the option table admits no other name
}

static int run_replay(struct cli *c)
{
    const tachy_settings *set = c->settings;
    char *json = NULL, *text = NULL;
    if (c->n_args != 1)
        return message_usage("one folder is replayed: tachy replay DIR (tachy segment --save-stage "
                             "DIR makes it)");
    struct tachy_replay r;
    struct stat st;
    if (stat(c->args[0], &st) == 0 && !S_ISDIR(st.st_mode))
        return message_usage("%s is no folder of saved stages; tachy segment --save-stage DIR makes one", c->args[0]);
    tachy_control *control = NULL; // of this command alone: the shell's is for runs
    int err = control_open(&control);
    if (err < 0)
        return message_failed(err);
    err = tachy_replay(
        tachy_replay_params(.dir = c->args[0], .settings = set,
                            .stage = stage_of(tachy_settings_str(set, "replay.stage")),
                            .loop = tachy_settings_int(set, "replay.loop"),
                            .golden = tachy_settings_bool(set, "replay.golden"),
                            .tolerance = tachy_settings_float(set, "replay.tolerance"),
                            .min_psnr = tachy_settings_float(set, "replay.min_psnr"), .log = &c->log,
                            .stop = tachy_control_stop_flag(control)),
        &r);
    control_close(&control);
    if (err == TACHY_OK && (err = tachy_replay_json(&json, &r)) == TACHY_OK)
        err = tachy_replay_text(&text, &r);
    err = cli_report(c, err, json, text);
    if (err < 0)
        return message_failed(err);
    return r.compared && !r.same ? STATUS_FAILED : STATUS_OK;
}

const struct verb verb_replay = {
    .name = "replay",
    .usage = "[options] DIR",
    .summary = "run one saved stage alone, time it and compare its output",
    .details =
        "DIR is what tachy segment --save-stage DIR N saved: for the first N frames, what preprocess, model and "
        "postprocess read and wrote, as NumPy's .npy files with an index. replay runs one of these stages on its "
        "saved input, on one thread, and prints median, p99 and rate.\n\n"
        "With --golden it compares the output with what was saved: bit for bit, or within --tolerance or --min-psnr. "
        "The exit status is 1 if it differs.\n\n"
        "The settings of the saved run apply; those of the model can be changed, to compare another provider or "
        "number of threads on the same input.",
    .options = TACHY_VERB_REPLAY,
    .examples = EXAMPLES(
        {"tachy segment --save-stage stages 16 -f null in.mp4 -", "keep the first 16 frames"},
        {"tachy replay stages --stage engine --loop 1000", "the model alone"},
        {"tachy replay stages --stage preprocess --golden", "does it still give the same?"},
        {"tachy replay stages --golden --engine-threads 2 --tolerance 1e-4",
         "another engine on the same input"}),
    .run = run_replay,
};
