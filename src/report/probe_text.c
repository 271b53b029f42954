#include "report/json_text.h"

#include <stdlib.h>
#include <tachy/source.h>

// ", text" if it says something.
static void put(FILE *f, const char *text)
{
    if (*text && strcmp(text, "unknown") && strcmp(text, "und"))
        fprintf(f, ", %s", text);
}

static void put_clock(FILE *f, double seconds)
{
    long long ms = (long long)(seconds * 1000 + 0.5);
    if (ms >= 3600000)
        fprintf(f, ", %lld:%02lld:%02lld.%03lld", ms / 3600000, ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
    else
        fprintf(f, ", %lld:%02lld.%03lld", ms / 60000, ms / 1000 % 60, ms % 1000);
}

static void put_bit_rate(FILE *f, const json_t *o)
{
    long long rate = report_int(o, "bit_rate");
    if (rate > 0)
        fprintf(f, ", %.*f kbit/s", rate < 10000 ? 1 : 0, (double)rate / 1000);
}

// "30000/1001" as "29.97 fps", and whether it varies.
static void put_fps(FILE *f, const json_t *s)
{
    const char *text = report_text(s, "fps", "");
    const char *slash = strchr(text, '/');
    double num = strtod(text, NULL), den = slash ? strtod(slash + 1, NULL) : 1;
    if (num > 0 && den > 0)
        fprintf(f, ", %.6g fps", (double)(long long)(num / den * 1000 + 0.5) / 1000);
    if (json_is_true(json_object_get(s, "vfr")))
        fputs(" on average (VFR)", f);
}

// The colours, in one line.
static void print_color(FILE *f, const json_t *s)
{
    static const char *const keys[] = {"matrix", "primaries", "transfer", "range", "chroma"};
    const json_t *c = json_object_get(s, "color");
    const char *gap = "      colour: ";
    bool any = false;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *v = report_text(c, keys[i], "");
        if (!*v || !strcmp(v, "unknown") || !strcmp(v, "unspecified"))
            continue;
        fprintf(f, "%s%s %s", gap, keys[i], v);
        gap = ", ";
        any = true;
    }
    if (!any)
        fprintf(f, "%snot tagged", gap);
    const char *hdr = report_text(s, "hdr", "");
    if (*hdr) {
        fprintf(f, "; HDR %s", hdr);
        if (report_int(s, "max_cll") > 0)
            fprintf(f, ", at most %lld nits", report_int(s, "max_cll"));
    }
    fputc('\n', f);
}

// Rotation, stereo and spherical projection, if there are any.
static void print_geometry(FILE *f, const json_t *s)
{
    long long rotation = report_int(s, "rotation");
    bool flipped = json_is_true(json_object_get(s, "flipped"));
    if (rotation || flipped)
        fprintf(f, "      shown turned by %lld degrees clockwise%s\n", rotation, flipped ? ", mirrored" : "");
    const char *stereo = report_text(s, "stereo", "");
    if (!strcmp(stereo, "sbs") || !strcmp(stereo, "tb"))
        fprintf(f, "      stereo: %s (told from: %s)\n",
                stereo[0] == 's' ? "side by side" : "top and bottom", report_text(s, "stereo_from", ""));
    const json_t *ball = json_object_get(s, "spherical");
    if (ball)
        fprintf(f, "      spherical: %s, yaw %g, pitch %g, roll %g\n", report_text(ball, "projection", ""),
                json_real_value(json_object_get(ball, "yaw")),
                json_real_value(json_object_get(ball, "pitch")),
                json_real_value(json_object_get(ball, "roll")));
}

static void print_video(FILE *f, const json_t *s, bool still)
{
    const char *sar = report_text(s, "sar", "");
    fprintf(f, ", %lldx%lld", report_int(s, "width"), report_int(s, "height"));
    if (*sar && strcmp(sar, "1:1"))
        fprintf(f, " (pixels %s)", sar);
    put(f, report_text(s, "pix_fmt", ""));
    bool cover = json_is_true(json_object_get(s, "attached_picture"));
    if (!cover && !still)
        put_fps(f, s);
    if (report_int(s, "frames") > 0)
        fprintf(f, ", %lld frames", report_int(s, "frames"));
    fputs(cover ? ", cover picture" : "", f);
}

static void print_stream(FILE *f, const json_t *s, bool still)
{
    const char *type = report_text(s, "type", ""), *title = report_text(s, "title", "");
    bool video = !strcmp(type, "video");
    fprintf(f, "  %lld %-10s %s", report_int(s, "index"), type, report_text(s, "codec", ""));
    if (*report_text(s, "profile", ""))
        fprintf(f, " (%s)", report_text(s, "profile", ""));
    if (video)
        print_video(f, s, still);
    if (report_int(s, "sample_rate") > 0)
        fprintf(f, ", %lld Hz", report_int(s, "sample_rate"));
    put(f, report_text(s, "layout", ""));
    put_bit_rate(f, s);
    put(f, report_text(s, "language", ""));
    if (*title)
        fprintf(f, ", \"%s\"", title);
    fputc('\n', f);
    if (video) {
        print_color(f, s);
        print_geometry(f, s);
    }
}

static void print_file(FILE *f, json_t *o)
{
    size_t i;
    json_t *s;
    const char *title = report_text(json_object_get(o, "metadata"), "title", "");
    double seconds = json_number_value(json_object_get(o, "duration_s"));
    fprintf(f, "%s: %s", report_text(o, "url", ""), report_text(o, "format", ""));
    bool still = json_is_true(json_object_get(o, "still"));
    if (still)
        fputs(", a single picture", f);
    else if (seconds > 0)
        put_clock(f, seconds);
    if (!still)
        put_bit_rate(f, o); // of one picture it is made up
    if (*title)
        fprintf(f, ", \"%s\"", title);
    fputc('\n', f);
    json_array_foreach(json_object_get(o, "streams"), i, s) print_stream(f, s, still);
    size_t chapters = json_array_size(json_object_get(o, "chapters"));
    if (chapters)
        fprintf(f, "  %zu chapter%s\n", chapters, chapters == 1 ? "" : "s");
}

int tachy_probe_text(char **text, const char *json) { return report_as_text(text, json, print_file); }
