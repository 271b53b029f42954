#include "base/base.h"
#include "base/numeric.h"

#include <jansson.h>
#include <stdlib.h>
#include <tachy/source.h>

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static long long int_of(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

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
        fprintf(f, ", %lld:%02lld:%02lld.%03lld", ms / 3600000, ms / 60000 % 60, ms / 1000 % 60,
               ms % 1000);
    else
        fprintf(f, ", %lld:%02lld.%03lld", ms / 60000, ms / 1000 % 60, ms % 1000);
}

static void put_bit_rate(FILE *f, const json_t *o)
{
    long long rate = int_of(o, "bit_rate");
    if (rate > 0)
        fprintf(f, ", %.*f kbit/s", rate < 10000 ? 1 : 0, (double)rate / 1000);
}

// "30000/1001" as "29.97 fps", and whether it varies.
static void put_fps(FILE *f, const json_t *s)
{
    const char *text = text_of(s, "fps");
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
        const char *v = text_of(c, keys[i]);
        if (!*v || !strcmp(v, "unknown") || !strcmp(v, "unspecified"))
            continue;
        fprintf(f, "%s%s %s", gap, keys[i], v);
        gap = ", ";
        any = true;
    }
    if (!any)
        fprintf(f, "%snot tagged", gap);
    const char *hdr = text_of(s, "hdr");
    if (*hdr) {
        fprintf(f, "; HDR %s", hdr);
        if (int_of(s, "max_cll") > 0)
            fprintf(f, ", at most %lld nits", int_of(s, "max_cll"));
    }
    fputc('\n', f);
}

// Rotation, stereo and spherical projection, if there are any.
static void print_geometry(FILE *f, const json_t *s)
{
    long long rotation = int_of(s, "rotation");
    bool flipped = json_is_true(json_object_get(s, "flipped"));
    if (rotation || flipped)
        fprintf(f, "      shown turned by %lld degrees clockwise%s\n", rotation,
               flipped ? ", mirrored" : "");
    const char *stereo = text_of(s, "stereo");
    if (!strcmp(stereo, "sbs") || !strcmp(stereo, "tb"))
        fprintf(f, "      stereo: %s (told from: %s)\n",
               stereo[0] == 's' ? "side by side" : "top and bottom", text_of(s, "stereo_from"));
    const json_t *ball = json_object_get(s, "spherical");
    if (ball)
        fprintf(f, "      spherical: %s, yaw %g, pitch %g, roll %g\n", text_of(ball, "projection"),
               json_real_value(json_object_get(ball, "yaw")),
               json_real_value(json_object_get(ball, "pitch")),
               json_real_value(json_object_get(ball, "roll")));
}

static void print_video(FILE *f, const json_t *s, bool still)
{
    const char *sar = text_of(s, "sar");
    fprintf(f, ", %lldx%lld", int_of(s, "width"), int_of(s, "height"));
    if (*sar && strcmp(sar, "1:1"))
        fprintf(f, " (pixels %s)", sar);
    put(f, text_of(s, "pix_fmt"));
    bool cover = json_is_true(json_object_get(s, "attached_picture"));
    if (!cover && !still)
        put_fps(f, s);
    if (int_of(s, "frames") > 0)
        fprintf(f, ", %lld frames", int_of(s, "frames"));
    fputs(cover ? ", cover picture" : "", f);
}

static void print_stream(FILE *f, const json_t *s, bool still)
{
    const char *type = text_of(s, "type"), *title = text_of(s, "title");
    bool video = !strcmp(type, "video");
    fprintf(f, "  %lld %-10s %s", int_of(s, "index"), type, text_of(s, "codec"));
    if (*text_of(s, "profile"))
        fprintf(f, " (%s)", text_of(s, "profile"));
    if (video)
        print_video(f, s, still);
    if (int_of(s, "sample_rate") > 0)
        fprintf(f, ", %lld Hz", int_of(s, "sample_rate"));
    put(f, text_of(s, "layout"));
    put_bit_rate(f, s);
    put(f, text_of(s, "language"));
    if (*title)
        fprintf(f, ", \"%s\"", title);
    fputc('\n', f);
    if (video) {
        print_color(f, s);
        print_geometry(f, s);
    }
}

static void print_file(FILE *f, const json_t *o)
{
    size_t i;
    json_t *s;
    const char *title = text_of(json_object_get(o, "metadata"), "title");
    double seconds = json_number_value(json_object_get(o, "duration_s"));
    fprintf(f, "%s: %s", text_of(o, "url"), text_of(o, "format"));
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

int tachy_probe_text(char **text, const char *json)
{
    size_t size;
    TACHY_CLEAR(text);
    if (!text || !json)
        return TACHY_ERR_INVAL;
    json_t *o = json_loads(json, 0, NULL);
    if (!json_is_object(o)) {
        json_decref(o);
        return TACHY_ERR_FORMAT;
    }
    FILE *f = open_memstream(text, &size);
    locale_t before = tachy_numeric_enter();
    if (f)
        print_file(f, o);
    tachy_numeric_leave(before);
    json_decref(o);
    return f && fclose(f) == 0 ? TACHY_OK : TACHY_ERR_NOMEM;
}
