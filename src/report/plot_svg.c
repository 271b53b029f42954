#include "base/base.h"
#include "report/json_text.h"
#include "report/plots.h"

#include <math.h>
#include <stdlib.h>

// Colours are classes: a page sets them for light and dark, a picture of its own brings them along.

enum { WIDTH = 760, LEFT = 230, XY_LEFT = 70, SPAN_LEFT = 90, RIGHT = 60, ROW = 24, TOP = 12, FOOT = 46, HEIGHT = 320, SERIES = 8 };

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
    double low, high, step; // log: exponents of ten, and ticks per power of ten
    double at, length;      // pixels
    bool log;
};

// 1, 2 or 5 times a power of ten, for about five ticks.
static struct axis axis_of(double low, double high, double at, double length)
{
    double span = high > low ? high - low : fmax(fabs(high), 1), power = pow(10, floor(log10(span / 5))), n = span / 5 / power;
    double step = power * (n > 5 ? 10 : n > 2 ? 5 : n > 1 ? 2 : 1);
    return (struct axis){floor(low / step) * step, ceil(fmax(high, low + span) / step) * step, step, at, length, false};
}

// Whole powers of ten around both.
static struct axis log_axis_of(double low, double high, double at, double length)
{
    double from = floor(log10(low)), to = ceil(log10(high));
    to = fmax(to, from + 1);
    return (struct axis){from, to, to - from > 3 ? 1 : 3, at, length, true};
}

static double place(const struct axis *a, double v)
{
    return a->at + ((a->log ? v > 0 ? fmax(log10(v), a->low) : a->low : v) - a->low) / (a->high - a->low) * a->length;
}

// The k-th tick's value; false: there is none.
static bool tick(const struct axis *a, int k, double *v)
{
    static const double digits[] = {1, 2, 5};
    double at = a->low + k * a->step;
    if (a->log) {
        int n = (int)a->step;
        *v = pow(10, a->low + k / n) * digits[k % n];
        return *v <= pow(10, a->high) * 1.001;
    }
    *v = fabs(at) < a->step / 1e6 ? 0 : at;
    return at <= a->high + a->step / 2;
}

static void text(FILE *f, double x, double y, const char *anchor, const char *words)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    plot_escape(f, words);
    fputs("</text>", f);
}

static void x_axis(FILE *f, const struct axis *a, int top, int bottom, const char *name)
{
    char words[32];
    double v;
    for (int i = 0; tick(a, i, &v); i++) {
        double x = place(a, v);
        fprintf(f, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", x, x, top, bottom);
        snprintf(words, sizeof(words), "%.6g", v);
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

// Names stand at the top on the left of their lines, or at the bottom on the right if points are there.
static void marks(FILE *f, const json_t *p, const struct axis *a, int bottom)
{
    const json_t *points = json_object_get(p, "points"), *first = json_array_get(json_object_get(p, "marks"), 0);
    double most = most_of(points, "y", "y", 0);
    bool left = true;
    size_t i;
    const json_t *o;
    json_array_foreach(points, i, o)
        left = left && !(get(o, "x") < get(first, "at") && get(o, "y") > 0.75 * most);
    json_array_foreach(json_object_get(p, "marks"), i, o) {
        double x = place(a, get(o, "at"));
        if (x > a->at + a->length)
            continue;
        fprintf(f, "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", x, x, TOP, bottom);
        bool before = left || x > a->at + 0.7 * a->length;
        text(f, x + (before ? -5 : 5), (left ? TOP + 14 : bottom - 40) + 15 * (double)i, before ? "end" : "start", report_text(o, "label", ""));
    }
}

static void y_axis(FILE *f, const struct axis *a, int bottom, const char *name)
{
    char words[32];
    double v;
    for (int i = 0; tick(a, i, &v); i++) {
        fprintf(f, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", XY_LEFT, WIDTH - RIGHT, place(a, v), place(a, v));
        snprintf(words, sizeof(words), "%.6g", v);
        text(f, XY_LEFT - 8, place(a, v) + 4, "end", words);
    }
    fprintf(f, "<g transform=\"translate(16 %d) rotate(-90)\">", (TOP + bottom) / 2);
    text(f, 0, 0, "middle", name);
    fputs("</g>", f);
}

static bool is_roof(const json_t *o) { return !strcmp(report_text(o, "series", ""), PLOT_ROOF); }

// A roof rises to its point and is level from there.
static void roof(FILE *f, const struct axis *x, const struct axis *y, const json_t *o, int above)
{
    double ridge = get(o, "x"), most = get(o, "y"), left = fmax(pow(10, x->low), ridge * pow(10, y->low) / most);
    fprintf(f, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1fH%.1f\"", place(x, left), place(y, most * left / ridge), place(x, ridge),
            place(y, most), place(x, pow(10, x->high)));
    hover(f, o);
    fputs("/>", f);
    // Its name stands along the slope, from the axis on.
    double angle = atan2(y->length / (y->high - y->low), x->length / (x->high - x->low)) * 180 / M_PI;
    char words[32];
    snprintf(words, sizeof(words), "%.4g", most);
    if (above)
        text(f, x->at + x->length, place(y, most) - 6, "end", words);
    fprintf(f, "<g transform=\"translate(%.1f %.1f) rotate(%.1f)\">", place(x, left), place(y, most * left / ridge), angle);
    text(f, 14, above ? -6 : 14, "start", report_text(o, "label", ""));
    fputs("</g>", f);
}

static double least_above_0(const json_t *points, const char *key)
{
    double least = INFINITY;
    size_t i;
    const json_t *o;
    json_array_foreach(points, i, o)
        least = get(o, key) > 0 ? fmin(least, get(o, key)) : least;
    return isfinite(least) ? least : 1;
}

// The names of points beside them, as far as they do not hide each other.
static void names(FILE *f, const json_t *points, const struct axis *x, const struct axis *y)
{
    enum { MOST = 16, GLYPH = 7 };
    struct {
        double left, right, at;
    } taken[MOST];
    size_t i;
    const json_t *o;
    int n = 0;
    json_array_foreach(points, i, o) {
        double at = place(x, get(o, "x")), row = place(y, get(o, "y")), width = GLYPH * (double)strlen(report_text(o, "label", ""));
        bool left = at + 10 + width > WIDTH;
        double from = left ? at - 10 - width : at + 10;
        bool free = n < MOST && from > XY_LEFT;
        for (int k = 0; k < n && free; k++)
            free = fabs(taken[k].at - row) > 14 || from > taken[k].right || from + width < taken[k].left;
        if (!free)
            continue;
        taken[n].left = from;
        taken[n].right = from + width;
        taken[n++].at = row;
        text(f, left ? at - 10 : at + 10, row + 4, left ? "end" : "start", report_text(o, "label", ""));
    }
}

// Points over two axes: "xy" joins those of one series, "lines" has small ones, "shares" has logarithmic values from 0 to 1 of
// all, "roofline" has roofs over them.
static int scatter(FILE *f, const json_t *p, const char *type)
{
    const json_t *points = json_object_get(p, "points"), *o, *before = NULL;
    bool lines = !strcmp(type, "lines"), shares = !strcmp(type, "shares"), joined = lines || shares || !strcmp(type, "xy");
    bool log = !strcmp(type, "roofline");
    int bottom = HEIGHT - FOOT, above = 1;
    size_t i;
    double x0 = least_of(points, "x", "x", 0), x1 = most_of(points, "x", "x", 0), y1 = most_of(points, "y", "y", 0);
    const int width = WIDTH - XY_LEFT - RIGHT, height = TOP + 10 - bottom;
    struct axis x = log || shares ? log_axis_of(least_above_0(points, "x"), x1, XY_LEFT, width) : axis_of(x0, x1, XY_LEFT, width);
    struct axis y = log ? log_axis_of(least_above_0(points, "y"), y1, bottom, height) : axis_of(0, y1, bottom, height);
    x_axis(f, &x, TOP, bottom, report_text(p, "x", ""));
    y_axis(f, &y, bottom, report_text(p, "y", ""));
    json_array_foreach(points, i, o) {
        int k = series_of(points, report_text(o, "series", ""), NULL) % SERIES;
        if (log && is_roof(o)) {
            roof(f, &x, &y, o, above);
            above = !above;
            continue;
        }
        if (joined && before && !strcmp(report_text(before, "series", ""), report_text(o, "series", "")))
            fprintf(f, "<line class=\"line s%d\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", k, place(&x, get(before, "x")),
                    place(&y, get(before, "y")), place(&x, get(o, "x")), place(&y, get(o, "y")));
        fprintf(f, "<circle class=\"s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"", k, place(&x, get(o, "x")), place(&y, get(o, "y")),
                lines ? "1.5" : "4.5");
        hover(f, o);
        fputs("/>", f);
        before = o;
    }
    marks(f, p, &x, bottom);
    if (!strcmp(type, "points"))
        names(f, points, &x, &y);
    return HEIGHT;
}

// A row per label; each point is a bar from `low` to `high`, with its number in `y` if there is room.
static int spans(FILE *f, const json_t *p)
{
    const json_t *all = json_object_get(p, "points"), *o;
    json_t *points = by_label(all);
    int row = -1, n = 0;
    size_t i;
    json_array_foreach(points, i, o)
        n += !i || compare_rows(points, i - 1, i) != 0;
    int bottom = TOP + ROW * n;
    struct axis a = axis_of(0, most_of(points, "high", "high", 0), SPAN_LEFT, WIDTH - SPAN_LEFT - RIGHT);
    x_axis(f, &a, TOP, bottom, "ms");
    json_array_foreach(points, i, o) {
        char words[32];
        bool first = !i || compare_rows(points, i - 1, i) != 0;
        row += first;
        double y = TOP + ROW * (double)row, from = place(&a, get(o, "low")), to = place(&a, get(o, "high"));
        if (first)
            text(f, SPAN_LEFT - 8, y + ROW / 2.0 + 4, "end", report_text(o, "label", ""));
        fprintf(f, "<rect class=\"span s%d\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\"",
                series_of(all, report_text(o, "series", ""), NULL) % SERIES, from, y + 3, fmax(to - from, 0.4), ROW - 6);
        hover(f, o);
        fputs("/>", f);
        snprintf(words, sizeof(words), "%.0f", get(o, "y"));
        if (to - from > 8 * (double)strlen(words) + 4) {
            fputs("<g class=\"inside\">", f);
            text(f, (from + to) / 2, y + ROW / 2.0 + 4, "middle", words);
            fputs("</g>", f);
        }
    }
    json_decref(points);
    return bottom + FOOT;
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
        if (is_roof(o)) { // has its name beside it
            shown++;
            continue;
        }
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
    "<style>text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:#333;paint-order:stroke;stroke:#fff;stroke-width:3px}.grid{stroke:#ddd}.zero{stroke:#555}.mark{stroke:#b00;stroke-dasharray:4 3}"
    ".whisker{stroke:#222;fill:none;stroke-width:1.5}.line{stroke-width:2}.s0{fill:#3b6fd4;stroke:#3b6fd4}.s1{fill:#d9822b;stroke:#d9822b}"
    ".s2{fill:#3a9d5d;stroke:#3a9d5d}.s3{fill:#8e5bc2;stroke:#8e5bc2}.s4{fill:#b8476b;stroke:#b8476b}.s5{fill:#5c7080;stroke:#5c7080}"
    ".s6{fill:#2a9d9d;stroke:#2a9d9d}.s7{fill:#a0892b;stroke:#a0892b}.roof{stroke:#555;stroke-width:1.5;fill:none}"
    ".span{stroke:#fff;stroke-width:.6}.inside text{fill:#fff;stroke:none}"
    "</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>";

void plot_svg(FILE *f, const json_t *p, int alone)
{
    char *body = NULL;
    size_t size;
    const char *type = report_text(p, "type", "");
    FILE *b = open_memstream(&body, &size);
    if (!b)
        return;
    bool bars = !strcmp(type, "bars"), intervals = !strcmp(type, "intervals");
    int height = bars || intervals ? rows(b, p, intervals) : !strcmp(type, "spans") ? spans(b, p) : scatter(b, p, type);
    height = legend(b, p, height);
    fclose(b);
    fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\"%s role=\"img\" aria-label=\"", WIDTH, height,
            alone ? " width=\"760\"" : "");
    plot_escape(f, report_text(p, "title", ""));
    fprintf(f, "\">%s%s</svg>\n", alone ? colours : "", body);
    free(body);
}
