#include "cli.h"

#include <string.h>

// docs/probe.md documents the keys.

static int probe_file(struct cli *c, const char *file, json_t *all)
{
    char *text, *lines = NULL;
    double timeout = tachy_settings_float(c->settings, "input.timeout");
    if (!timeout && tachy_settings_is_set(c->settings, "input.timeout"))
        timeout = -1; // 0 was asked for: no limit
    int err = tachy_probe(&text, tachy_source_params(.url = strcmp(file, "-") ? file : "pipe:0", .timeout = timeout,
                                                     .log = &c->log));
    if (err < 0)
        return err;
    if (tachy_settings_str(c->settings, "run.json"))
        err = json_array_append_new(all, json_loads(text, 0, NULL)) == 0 ? TACHY_OK : TACHY_ERR_NOMEM;
    else if ((err = tachy_probe_text(&lines, text)) == TACHY_OK)
        fputs(lines, stdout);
    tachy_free(lines);
    tachy_free(text);
    return err;
}

static int list_cameras(struct cli *c)
{
    char *json, *text = NULL;
    int err = tachy_cameras(&json, &c->log);
    if (err == TACHY_OK)
        err = tachy_cameras_text(&text, json);
    err = cli_report(c, err, json, text);
    return err < 0 ? message_failed(err) : STATUS_OK;
}

static int run_probe(struct cli *c)
{
    const char *const *files;
    if (tachy_settings_bool(c->settings, "input.list_cameras"))
        return c->n_args ? message_usage("tachy probe --cameras takes no file") : list_cameras(c);
    int err = cli_take_inputs(c);
    if (err < 0)
        return message_failed(err);
    size_t n = tachy_settings_list(c->settings, "input.files", &files);
    if (!n)
        return message_usage("no input is given: tachy probe FILE");
    const char *json = tachy_settings_str(c->settings, "run.json");
    err = cli_check_sandbox(c);
    if (err == TACHY_OK && tachy_settings_bool(c->settings, "run.sandbox"))
        err = tachy_sandbox(tachy_sandbox_params(.inputs = files, .nb_inputs = n, .outputs = &json,
                                                 .nb_outputs = json != NULL, .settings = c->settings, .log = &c->log));
    if (err < 0)
        return err == TACHY_ERR_INVAL ? (message_failed(err), STATUS_USAGE) : message_failed(err);
    json_t *all = json_array();
    for (size_t i = 0; i < n && err == TACHY_OK; i++)
        err = probe_file(c, files[i], all);
    if (err == TACHY_OK && json)
        err = cli_write_json(c, json_incref(json_array_size(all) == 1 ? json_array_get(all, 0) : all));
    json_decref(all);
    return err < 0 ? message_failed(err) : STATUS_OK;
}

const struct verb verb_probe = {
    .name = "probe",
    .usage = "[options] FILE...",
    .summary = "show what is in a file",
    .details =
        "Prints the container and every stream: codec, size, frame rate (and whether it is constant), colour, "
        "rotation, stereo and spherical boxes, sound and subtitles. With --json it prints an object (an array for "
        "several files), whose keys docs/probe.md explains. --cameras lists the cameras and what they offer.",
    .options = TACHY_VERB_PROBE,
    .examples = EXAMPLES(
        {"tachy probe in.mp4", "for a person"},
        {"tachy probe --json in.mp4 | jq .streams[0].fps", "for a program"},
        {"tachy probe --cameras", "then: tachy segment --live -i /dev/video0 -o http://127.0.0.1:8090/"}),
    .run = run_probe,
};
