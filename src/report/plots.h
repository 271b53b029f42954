#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

// A plot is an object that pictures, tables and CSV are all made of: `id`, `title`, `type`, `x` and `y` (names of the axes with
// units), `points` [{series, label, x, y, low, high}] and `marks` [{at, label}], targets on the x axis. Types: "bars": a row each;
// "intervals": a row each, around 0; "xy": points, which lines join; "lines": small ones; "shares": a distribution, x logarithmic; "points": not joined, with their names; "spans": bars
// from `low` to `high` in a row per label; "roofline": points over logarithmic axes, and a roof per point of the series PLOT_ROOF,
// which is where the roof becomes level.
#define PLOT_ROOF "roof"

// Every plot that these results have data for, in the order of a report. NULL: no memory.
json_t *plots_of(const json_t *results);
// Result i is a bench with so many later ones of its suite and input that it is only a point of the history.
bool plots_only_history(const json_t *results, size_t i);
// The picture as an element <svg>; `alone`: a file of its own, with its colours. The same bytes for the same plot.
void plot_svg(FILE *f, const json_t *plot, int alone);
// XML text.
void plot_escape(FILE *f, const char *text);
