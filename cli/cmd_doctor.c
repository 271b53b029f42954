#include "cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/doctor.h>
#include <unistd.h>

// On a terminal, long lists go on below their first word.
static void print_lines(const char *text)
{
    enum { LABEL = 14 };
    int width = isatty(STDOUT_FILENO) ? terminal_width(stdout) : INT_MAX;
    char line[4096];
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)n, text);
        if (n > (size_t)width && strstr(line, ", "))
            text_wrap(stdout, line + LABEL, printf("%.*s", LABEL, line), LABEL, width);
        else
            fwrite(text, 1, n, stdout);
        putchar('\n');
    }
}

static int get_report(const struct tachy_log *log, char **text, json_t **report)
{
    *text = NULL;
    *report = NULL;
    int err = tachy_doctor(text, log);
    if (err < 0)
        return err;
    *report = json_loads(*text, 0, NULL);
    if (*report)
        return TACHY_OK;
    tachy_free(*text);
    *text = NULL;
    return TACHY_ERR_NOMEM;
}

static int run_doctor(struct cli *c)
{
    if (c->n_args)
        return message_usage("%.40s: tachy doctor takes no names; write tachy doctor", c->args[0]);
    char *text, *lines = NULL;
    json_t *r;
    const char *json = tachy_settings_str(c->settings, "run.json");
    int err = get_report(&c->log, &text, &r);
    if (err < 0)
        return message_failed(err);
    json_object_set_new(json_object_get(r, "machine"), "memory_bytes_per_s", json_real(tachy_doctor_bandwidth()));
    char *all = json_dumps(r, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    int status = json_array_size(json_object_get(r, "missing")) ? STATUS_FAILED : STATUS_OK;
    if (!all)
        err = TACHY_ERR_NOMEM;
    else if (json)
        err = write_text(json, all);
    else if ((err = tachy_doctor_text(&lines, all)) == TACHY_OK)
        print_lines(lines);
    json_decref(r);
    tachy_free(lines);
    tachy_free(text);
    free(all);
    return err < 0 ? message_failed(err) : status;
}

int print_version(void)
{
    char *text;
    json_t *r, *v;
    const char *key;
    printf("tachy %s\n", tachy_version());
    if (get_report(NULL, &text, &r) < 0)
        return STATUS_OK;
    json_object_foreach(json_object_get(r, "ffmpeg"), key, v) if (json_is_string(v))
        printf("%s %s\n", key, json_string_value(v));
    const json_t *ort = json_object_get(r, "onnxruntime");
    printf("ONNX Runtime %s\n", json_is_object(ort) ? text_of(ort, "version") : "not found");
    json_decref(r);
    tachy_free(text);
    return STATUS_OK;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .usage = "[options]",
    .summary = "show what this machine offers, and what is missing",
    .details =
        "Prints CPU features, caches, memory bandwidth, clocks and temperature, GPU, driver, PCIe and power limit if "
        "any, FFmpeg, ONNX Runtime and its providers, and the installed models. For everything that is missing, or "
        "that makes runs slower than necessary, it names the command that fixes it. Exit status 0: nothing required "
        "is missing; 1: something is.",
    .options = TACHY_VERB_DOCTOR,
    .examples = EXAMPLES({"tachy doctor --json", "the same for programs"}),
    .run = run_doctor,
};
