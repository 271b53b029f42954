#include "base/base.h"
#include "report/json_text.h"
#include "report/plots.h"

#include <math.h>
#include <stdlib.h>

// Colours are classes: a page sets them for light and dark, a picture of its own brings them along.

enum { WIDTH = 760, LEFT = 230, RIGHT = 60, ROW = 24, TOP = 12, FOOT = 46, HEIGHT = 320, SERIES = 6 };

static double get(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

void plot_escape(FILE *f, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        case '&': fputs("&amp;", f); break;
        case '"': fputs("&quot;", f); break;
        default:
            if ((unsigned char)*text >= 32)
                fputc(*text, f);
        }
}

struct axis {
    double low, high, step;
    double at, length; // pixels
};

// 1, 2 or 5 times a power of ten, for about five ticks.
static struct axis axis_of(double low, double high, double at, double length)
{
    double span = high > low ? high - low : fmax(fabs(high), 1), power = pow(10, floor(log10(span / 5))), n = span / 5 / power;
    double step = power * (n > 5 ? 10 : n > 2 ? 5 : n > 1 ? 2 : 1);
    return (struct axis){floor(low / step) * step, ceil(fmax(high, low + span) / step) * step, step, at, length};
}

static double place(const struct axis *a, double v) { return a->at + (v - a->low) / (a->high - a->low) * a->length; }

static void text(FILE *f, double x, double y, const char *anchor, const char *words)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    plot_escape(f, words);
    fputs("</text>", f);
}

static void x_axis(FILE *f, const struct axis *a, int top, int bottom, const char *name)
{
    char words[32];
    int n = (int)lround((a->high - a->low) / a->step);
    for (int i = 0; i <= n; i++) {
        double v = a->low + i * a->step, x = place(a, v);
        fprintf(f, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", x, x, top, bottom);
        snprintf(words, sizeof(words), "%.4g", fabs(v) < a->step / 1e6 ? 0 : v);
        text(f, x, bottom + 16, "middle", words);
    }
    text(f, a->at + a->length / 2, bottom + 36, "middle", name);
}

// The series that a point is of, by its first appearance.
static int series_of(const json_t *points, const char *name, int *count)
{
    const char *seen[32];
    int n = 0, found = 0;
    size_t i;
    const json_t *o;
    json_array_foreach(points, i, o) {
        const char *s = report_text(o, "series", "");
        int k = 0;
        while (k < n && strcmp(seen[k], s) != 0)
            k++;
        if (k == n && n < 32)
            seen[n++] = s;
        found = !strcmp(s, name) ? k : found;
    }
    if (count)
        *count = n;
    return found;
}

static void hover(FILE *f, const json_t *o)
{
    const char *series = report_text(o, "series", "");
    char words[400];
    int n = snprintf(words, sizeof(words), "%.100s%s%.100s: %.5g", report_text(o, "label", ""), *series ? ", " : "", series, get(o, "x"));
    if (json_object_get(o, "y"))
        n += snprintf(words + n, sizeof(words) - (size_t)n, "; %.5g", get(o, "y"));
    if (json_object_get(o, "low"))
        snprintf(words + n, sizeof(words) - (size_t)n, " (%.5g to %.5g)", get(o, "low"), get(o, "high"));
    fputs(" tabindex=\"0\" data-v=\"", f);
    plot_escape(f, words);
    fputs("\"", f);
}

static void whisker(FILE *f, const struct axis *a, const json_t *o, double y)
{
    if (json_object_get(o, "low"))
        fprintf(f, "<path class=\"whisker\" d=\"M%.1f %.1fv8m0 -4H%.1fm0 -4v8\"/>", place(a, get(o, "low")), y - 4, place(a, get(o, "high")));
}

static void label_row(FILE *f, const json_t *o, const json_t *before, double y)
{
    char words[40];
    const char *name = report_text(o, "label", "");
    if (before && !strcmp(report_text(before, "label", ""), name))
        return;
    // Long names keep their end, in which they differ; a cut within a character is moved behind it.
    const char *tail = name + (strlen(name) > 34 ? strlen(name) - 32 : 0);
    while (((unsigned char)*tail & 0xc0) == 0x80)
        tail++;
    snprintf(words, sizeof(words), "%s%.34s", tail == name ? "" : "..", tail);
    text(f, LEFT - 8, y + 4, "end", words);
}

static double least_of(const json_t *points, const char *key, const char *other, double start)
{
    size_t i;
    const json_t *o;
    json_array_foreach(points, i, o)
        start = fmin(start, get(o, json_object_get(o, other) ? other : key));
    return start;
}

static double most_of(const json_t *points, const char *key, const char *other, double start)
{
    size_t i;
    const json_t *o;
    json_array_foreach(points, i, o)
        start = fmax(start, fmax(get(o, key), get(o, other)));
    return start;
}

static int compare_rows(const json_t *points, size_t a, size_t b)
{
    return strcmp(report_text(json_array_get(points, a), "label", ""), report_text(json_array_get(points, b), "label", ""));
}

// Rows of one label side by side, in the order of their first appearance.
static json_t *by_label(const json_t *points)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(points); i++) {
        size_t k = 0;
        while (k < i && compare_rows(points, k, i) != 0)
            k++;
        for (size_t m = i; k == i && m < json_array_size(points); m++)
            if (!compare_rows(points, m, i))
                json_array_append(out, json_array_get(points, m));
    }
    return out;
}

static int rows(FILE *f, const json_t *p, bool around)
{
    json_t *points = by_label(json_object_get(p, "points"));
    size_t i;
    const json_t *o;
    int bottom = TOP + ROW * (int)json_array_size(points);
    struct axis a = axis_of(around ? least_of(points, "x", "low", 0) : 0, most_of(points, "x", "high", 0), LEFT, WIDTH - LEFT - RIGHT);
    x_axis(f, &a, TOP, bottom, report_text(p, "x", ""));
    json_array_foreach(points, i, o) {
        double y = TOP + ROW * (double)i + ROW / 2.0, x = place(&a, get(o, "x"));
        char words[32];
        int k = series_of(points, report_text(o, "series", ""), NULL) % SERIES;
        label_row(f, o, i ? json_array_get(points, i - 1) : NULL, y);
        if (around)
            fprintf(f, "<circle class=\"s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"", k, x, y);
        else
            fprintf(f, "<rect class=\"s%d\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\"", k, LEFT, y - 8, fmax(x - LEFT, 0.5), 16);
        hover(f, o);
        fputs("/>", f);
        whisker(f, &a, o, y);
        snprintf(words, sizeof(words), "%.4g", get(o, "x"));
        text(f, fmax(x, json_object_get(o, "high") ? place(&a, get(o, "high")) : x) + 8, y + 4, "start", words);
    }
    if (around)
        fprintf(f, "<line class=\"zero\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", place(&a, 0), place(&a, 0), TOP, bottom);
    json_decref(points);
    return bottom + FOOT;
}

static void marks(FILE *f, const json_t *p, const struct axis *a, int bottom)
{
    size_t i;
    const json_t *o;
    json_array_foreach(json_object_get(p, "marks"), i, o) {
        double x = place(a, get(o, "at"));
        if (get(o, "at") > a->high)
            continue;
        fprintf(f, "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", x, x, TOP, bottom);
        text(f, place(a, a->high), bottom - 46 + 14 * (double)i, "end", report_text(o, "label", ""));
    }
}

static int scatter(FILE *f, const json_t *p, bool joined)
{
    const json_t *points = json_object_get(p, "points"), *o, *before = NULL;
    int bottom = HEIGHT - FOOT;
    size_t i;
    struct axis x = axis_of(least_of(points, "x", "x", 0), most_of(points, "x", "x", 0), 70, WIDTH - 70 - RIGHT);
    struct axis y = axis_of(0, most_of(points, "y", "y", 0), bottom, TOP + 10 - bottom);
    x_axis(f, &x, TOP, bottom, report_text(p, "x", ""));
    for (int k = 0; k <= (int)lround((y.high - y.low) / y.step); k++) {
        char words[32];
        double v = y.low + k * y.step;
        fprintf(f, "<line class=\"grid\" x1=\"70\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", WIDTH - RIGHT, place(&y, v), place(&y, v));
        snprintf(words, sizeof(words), "%.4g", v);
        text(f, 62, place(&y, v) + 4, "end", words);
    }
    fprintf(f, "<g transform=\"translate(16 %d) rotate(-90)\">", (TOP + bottom) / 2);
    text(f, 0, 0, "middle", report_text(p, "y", ""));
    fputs("</g>", f);
    marks(f, p, &x, bottom);
    json_array_foreach(points, i, o) {
        int k = series_of(points, report_text(o, "series", ""), NULL) % SERIES;
        if (joined && before && !strcmp(report_text(before, "series", ""), report_text(o, "series", "")))
            fprintf(f, "<line class=\"line s%d\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", k, place(&x, get(before, "x")),
                    place(&y, get(before, "y")), place(&x, get(o, "x")), place(&y, get(o, "y")));
        fprintf(f, "<circle class=\"s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"", k, place(&x, get(o, "x")), place(&y, get(o, "y")));
        hover(f, o);
        fputs("/>", f);
        before = o;
    }
    return HEIGHT;
}

static int legend(FILE *f, const json_t *p, int at)
{
    const json_t *points = json_object_get(p, "points"), *o;
    int count, shown = 0, x = 70;
    size_t i;
    series_of(points, "", &count);
    json_array_foreach(points, i, o) {
        const char *name = report_text(o, "series", "");
        if (count < 2 || shown == count || series_of(points, name, NULL) != shown)
            continue;
        int width = 40 + 7 * (int)strlen(name);
        if (x > 70 && x + width > WIDTH) {
            x = 70;
            at += 20;
        }
        fprintf(f, "<rect class=\"s%d\" x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" rx=\"2\"/>", shown % SERIES, x, at);
        text(f, x + 18, at + 10, "start", name);
        x += width;
        shown++;
    }
    return count < 2 ? at : at + 22;
}

static const char colours[] =
    "<style>text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:#333}.grid{stroke:#ddd}.zero{stroke:#555}.mark{stroke:#b00;stroke-dasharray:4 3}"
    ".whisker{stroke:#222;fill:none;stroke-width:1.5}.line{stroke-width:2}.s0{fill:#3b6fd4;stroke:#3b6fd4}.s1{fill:#d9822b;stroke:#d9822b}"
    ".s2{fill:#3a9d5d;stroke:#3a9d5d}.s3{fill:#8e5bc2;stroke:#8e5bc2}.s4{fill:#b8476b;stroke:#b8476b}.s5{fill:#5c7080;stroke:#5c7080}"
    "</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>";

void plot_svg(FILE *f, const json_t *p, int alone)
{
    char *body = NULL;
    size_t size;
    const char *type = report_text(p, "type", "");
    FILE *b = open_memstream(&body, &size);
    if (!b)
        return;
    bool xy = !strcmp(type, "xy");
    int height = xy || !strcmp(type, "points") ? scatter(b, p, xy) : rows(b, p, !strcmp(type, "intervals"));
    height = legend(b, p, height);
    fclose(b);
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\"%s role=\"img\" aria-label=\"", WIDTH, height,
            alone ? " width=\"760\"" : "");
    plot_escape(f, report_text(p, "title", ""));
    fprintf(f, "\">%s%s</svg>\n", alone ? colours : "", body);
    free(body);
}
