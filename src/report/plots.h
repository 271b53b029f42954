#pragma once
#include <jansson.h>
#include <stdio.h>

// A plot is an object that pictures, tables and CSV are all made of: `id`, `title`, `type` ("bars": a row each; "xy": points, which
// lines join; "points": not joined; "intervals": a row each, around 0), `x` and `y` (names of the axes with units), `points`
// [{series, label, x, y, low, high}] and `marks` [{at, label}], targets on the x axis.

// Every plot that these results have data for, in the order of a report. NULL: no memory.
json_t *plots_of(const json_t *results);
// The picture as an element <svg>; `alone`: a file of its own, with its colours. The same bytes for the same plot.
void plot_svg(FILE *f, const json_t *plot, int alone);
// XML text.
void plot_escape(FILE *f, const char *text);
