#include "cli.h"

// docs/compare.md documents the figures, the JSON and the picture.

static int run_compare_mattes(struct cli *c)
{
    const tachy_settings *set = c->settings;
    char *json = NULL, *text = NULL;
    if (c->n_args != 2)
        return message_usage("two mattes are compared: tachy compare-mattes A B [--truth T]");
    tachy_control *control = NULL;
    tachy_comparison *r = NULL;
    int err = control_open(&control);
    if (err < 0)
        return message_failed(err);
    err = tachy_compare_mattes(&r, tachy_compare_params(.a = c->args[0], .b = c->args[1],
                                                        .truth = tachy_settings_str(set, "compare.truth"),
                                                        .report = tachy_settings_str(set, "output.file"),
                                                        .overwrite = tachy_settings_bool(set, "output.overwrite"),
                                                        .stop = tachy_control_stop_flag(control), .log = &c->log));
    control_close(&control);
    if (err == TACHY_OK && (err = tachy_comparison_json(&json, r)) == TACHY_OK)
        err = tachy_comparison_text(&text, r);
    err = cli_report(c, err, json, text);
    tachy_comparison_free(&r);
    return err < 0 ? message_failed(err) : STATUS_OK;
}

const struct verb verb_compare_mattes = {
    .name = "compare-mattes",
    .usage = "[options] A B",
    .summary = "measure how good mattes are",
    .details =
        "A, B and the truth are videos, pictures or numbered pictures of alpha, as tachy segment --mode alpha and "
        "--mode mask write them; all have the same number of frames and the same size. A picture with an alpha plane "
        "is judged by it, any other by its luma.\n\n"
        "With --truth both A and B are judged against it, without it A against B. The output is the means over the "
        "frames and the worst frames; --json has the figures of every frame. -o writes a picture of the frame that is "
        "worst by each figure. docs/compare.md has the definitions.",
    .options = TACHY_VERB_COMPARE,
    .examples = EXAMPLES({"tachy compare-mattes old.mkv new.mkv --truth truth.mkv -o worst.png",
                          "is the new matte better, and where is it worse?"},
                         {"tachy compare-mattes mine.mov theirs.mov --json", "how far apart are two programs?"}),
    .run = run_compare_mattes,
};
