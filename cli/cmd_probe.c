#include "cli.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

// docs/probe.md documents the keys.

// ", text" where there is some that says something.
static void put(const char *text)
{
    if (*text && strcmp(text, "unknown") && strcmp(text, "und"))
        printf(", %s", text);
}

static void put_clock(double seconds)
{
    long long ms = (long long)(seconds * 1000 + 0.5);
    if (ms >= 3600000)
        printf(", %lld:%02lld:%02lld.%03lld", ms / 3600000, ms / 60000 % 60, ms / 1000 % 60,
               ms % 1000);
    else
        printf(", %lld:%02lld.%03lld", ms / 60000, ms / 1000 % 60, ms % 1000);
}

static void put_bit_rate(const json_t *o)
{
    long long rate = int_of(o, "bit_rate");
    if (rate > 0)
        printf(", %.*f kbit/s", rate < 10000 ? 1 : 0, (double)rate / 1000);
}

// "30000/1001" as "29.97 fps"; VFR is said.
static void put_fps(const json_t *s)
{
    const char *text = text_of(s, "fps");
    const char *slash = strchr(text, '/');
    double num = strtod(text, NULL), den = slash ? strtod(slash + 1, NULL) : 1;
    if (num > 0 && den > 0)
        printf(", %.6g fps", (double)(long long)(num / den * 1000 + 0.5) / 1000);
    if (json_is_true(json_object_get(s, "vfr")))
        fputs(" on average (VFR)", stdout);
}

// One line of what the picture's colours are.
static void print_color(const json_t *s)
{
    static const char *const keys[] = {"matrix", "primaries", "transfer", "range", "chroma"};
    const json_t *c = json_object_get(s, "color");
    const char *gap = "      colour: ";
    bool any = false;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *v = text_of(c, keys[i]);
        if (!*v || !strcmp(v, "unknown") || !strcmp(v, "unspecified"))
            continue;
        printf("%s%s %s", gap, keys[i], v);
        gap = ", ";
        any = true;
    }
    if (!any)
        printf("%snot tagged", gap);
    const char *hdr = text_of(s, "hdr");
    if (*hdr) {
        printf("; HDR %s", hdr);
        if (int_of(s, "max_cll") > 0)
            printf(", at most %lld nits", int_of(s, "max_cll"));
    }
    putchar('\n');
}

// Rotation, stereo and spherical, where there is anything of it.
static void print_geometry(const json_t *s)
{
    long long rotation = int_of(s, "rotation");
    bool flipped = json_is_true(json_object_get(s, "flipped"));
    if (rotation || flipped)
        printf("      shown turned by %lld degrees clockwise%s\n", rotation,
               flipped ? ", mirrored" : "");
    const char *stereo = text_of(s, "stereo");
    if (!strcmp(stereo, "sbs") || !strcmp(stereo, "tb"))
        printf("      stereo: %s (told from: %s)\n",
               stereo[0] == 's' ? "side by side" : "top and bottom", text_of(s, "stereo_from"));
    const json_t *ball = json_object_get(s, "spherical");
    if (ball)
        printf("      spherical: %s, yaw %g, pitch %g, roll %g\n", text_of(ball, "projection"),
               json_real_value(json_object_get(ball, "yaw")),
               json_real_value(json_object_get(ball, "pitch")),
               json_real_value(json_object_get(ball, "roll")));
}

static void print_video(const json_t *s, bool still)
{
    const char *sar = text_of(s, "sar");
    printf(", %lldx%lld", int_of(s, "width"), int_of(s, "height"));
    if (*sar && strcmp(sar, "1:1"))
        printf(" (pixels %s)", sar);
    put(text_of(s, "pix_fmt"));
    bool cover = json_is_true(json_object_get(s, "attached_picture"));
    if (!cover && !still)
        put_fps(s);
    if (int_of(s, "frames") > 0)
        printf(", %lld frames", int_of(s, "frames"));
    fputs(cover ? ", cover picture" : "", stdout);
}

static void print_stream(const json_t *s, bool still)
{
    const char *type = text_of(s, "type"), *title = text_of(s, "title");
    bool video = !strcmp(type, "video");
    printf("  %lld %-10s %s", int_of(s, "index"), type, text_of(s, "codec"));
    if (*text_of(s, "profile"))
        printf(" (%s)", text_of(s, "profile"));
    if (video)
        print_video(s, still);
    if (int_of(s, "sample_rate") > 0)
        printf(", %lld Hz", int_of(s, "sample_rate"));
    put(text_of(s, "layout"));
    put_bit_rate(s);
    put(text_of(s, "language"));
    if (*title)
        printf(", \"%s\"", title);
    putchar('\n');
    if (video) {
        print_color(s);
        print_geometry(s);
    }
}

static void print_file(const json_t *o)
{
    size_t i;
    json_t *s;
    const char *title = text_of(json_object_get(o, "metadata"), "title");
    double seconds = json_number_value(json_object_get(o, "duration_s"));
    printf("%s: %s", text_of(o, "url"), text_of(o, "format"));
    bool still = json_is_true(json_object_get(o, "still"));
    if (still)
        fputs(", a single picture", stdout);
    else if (seconds > 0)
        put_clock(seconds);
    if (!still)
        put_bit_rate(o); // of one picture it is made up
    if (*title)
        printf(", \"%s\"", title);
    putchar('\n');
    json_array_foreach(json_object_get(o, "streams"), i, s) print_stream(s, still);
    size_t chapters = json_array_size(json_object_get(o, "chapters"));
    if (chapters)
        printf("  %zu chapter%s\n", chapters, chapters == 1 ? "" : "s");
}

static int probe_file(struct cli *c, const char *file, json_t *all)
{
    char *text;
    double timeout = tachy_settings_float(c->settings, "input.timeout");
    if (!timeout && tachy_settings_is_set(c->settings, "input.timeout"))
        timeout = -1; // 0 was asked for: no limit
    int err = tachy_probe(&text, tachy_source_params(.url = strcmp(file, "-") ? file : "pipe:0", .timeout = timeout,
                                                     .log = &c->log));
    if (err < 0)
        return err;
    json_t *o = json_loads(text, 0, NULL);
    tachy_free(text);
    if (!o)
        return TACHY_ERR_NOMEM;
    if (tachy_settings_str(c->settings, "run.json"))
        return json_array_append_new(all, o) == 0 ? TACHY_OK : TACHY_ERR_NOMEM;
    print_file(o);
    json_decref(o);
    return TACHY_OK;
}

static int run_probe(struct cli *c)
{
    const char *const *files;
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
    .summary = "say what is in a file",
    .details =
        "Prints the container and every stream: codec, size, frame rate (and whether it is "
        "constant), colour, rotation, stereo and spherical boxes, sound and subtitles. With --json "
        "the same as an object (several files: an array), whose keys docs/probe.md documents.",
    .options = TACHY_VERB_PROBE,
    .examples = EXAMPLES(
        {"tachy probe in.mp4", "for a person"},
        {"tachy probe --json in.mp4 | jq .streams[0].fps", "for a program"}),
    .run = run_probe,
};
