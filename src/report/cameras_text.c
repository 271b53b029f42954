#include "report/json_text.h"

#include <stdlib.h>
#include <tachy/source.h>

// "30000/1001" as 29.97.
static double rate_of(const json_t *rate)
{
    const char *text = json_string_value(rate), *slash = text ? strchr(text, '/') : NULL;
    double den = slash ? strtod(slash + 1, NULL) : 1;
    return text && den > 0 ? strtod(text, NULL) / den : 0;
}

static void print_size(FILE *f, const json_t *s)
{
    const json_t *rates = json_object_get(s, "rates"), *rate;
    size_t i;
    fprintf(f, "%lldx%lld", report_int(s, "width"), report_int(s, "height"));
    if (report_int(s, "to_width"))
        fprintf(f, " to %lldx%lld", report_int(s, "to_width"), report_int(s, "to_height"));
    json_array_foreach(rates, i, rate) fprintf(f, "%s%.4g", i ? ", " : " at ", rate_of(rate));
    fputs(json_array_size(rates) ? " fps\n" : "\n", f);
}

static void print_format(FILE *f, const json_t *o)
{
    const json_t *sizes = json_object_get(o, "sizes"), *s;
    size_t i;
    char name[32];
    snprintf(name, sizeof(name), "%s", report_text(o, "format", ""));
    if (!*name)
        snprintf(name, sizeof(name), "(%s, not read)", report_text(o, "fourcc", "?"));
    if (!json_array_size(sizes))
        fprintf(f, "  %-18ssizes unknown\n", name);
    json_array_foreach(sizes, i, s)
    {
        fprintf(f, "  %-18s", i ? "" : name);
        print_size(f, s);
    }
}

static void print_cameras(FILE *f, json_t *o)
{
    const json_t *all = json_object_get(o, "cameras"), *c, *format;
    size_t i, k;
    if (!json_array_size(all))
        fputs("no camera was found (/dev/video0 to /dev/video63)\n", f);
    json_array_foreach(all, i, c)
    {
        fprintf(f, "%s: %s (%s, %s)\n", report_text(c, "path", "?"), report_text(c, "name", "?"), report_text(c, "driver", "?"),
                report_text(c, "bus", "?"));
        json_array_foreach(json_object_get(c, "formats"), k, format) print_format(f, format);
    }
}

int tachy_cameras_text(char **text, const char *json) { return report_as_text(text, json, print_cameras); }
