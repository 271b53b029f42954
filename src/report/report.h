#pragma once
#include <jansson.h>
#include <stdio.h>

// A report is an object of the kind "report": `results` [{name, facts [[what, value]], targets [{figure, value, target, pass}],
// verdict}] and `plots` (plots.h). Each format prints that.
void report_html(FILE *f, const json_t *report);
// The columns of a plot's table that its points have, as bits in the order of report_columns.
extern const char *const report_columns[]; // label, series, x, y, low, high; ends with NULL
unsigned report_has(const json_t *plot);
// A point's value in a column as text.
const char *report_cell(const json_t *point, int column, char *buf, size_t size);
// The heading of a column.
const char *report_heading(const json_t *plot, int column);
