#include "stage/watch.h"

#include <stdlib.h>

enum { CHANGE = 2 * TACHY_SIGNATURE_ONE / 255 }; // of a cell: noise and compression stay below it
static const double LEAST = 1 / 3.0; // extent of a part, of the frame's smaller one
static const double MOST = 0.8;      // the same; a larger part is the whole frame
static const double ROOM = 1.5;      // extent of a part, of that of the change: not all of a person moves

double tachy_watch_see(struct tachy_watch *w, const struct tachy_signature *now)
{
    int n = 0, all = now->columns * now->rows;
    bool same = w->seen.columns == now->columns && w->seen.rows == now->rows;
    for (int i = 0; i < all; i++) {
        if (same && abs(now->cell[i] - w->seen.cell[i]) < CHANGE)
            continue;
        int x = i % now->columns, y = i / now->columns;
        bool first = w->x1 <= w->x0;
        w->x0 = first ? x : TACHY_MIN(w->x0, x);
        w->y0 = first ? y : TACHY_MIN(w->y0, y);
        w->x1 = first ? x + 1 : TACHY_MAX(w->x1, x + 1);
        w->y1 = first ? y + 1 : TACHY_MAX(w->y1, y + 1);
        n++;
    }
    return (double)n / all;
}

// From `middle` half an extent to each side, moved so that it is within 0..end.
static void span(double middle, double extent, int end, double *from, double *to)
{
    *from = TACHY_CLAMP(middle - extent / 2, 0, TACHY_MAX(end - extent, 0));
    *to = TACHY_MIN(*from + extent, end);
}

bool tachy_watch_part(struct tachy_watch *w, int width, int height, struct tachy_focus_box *part)
{
    double sx = (double)width / TACHY_MAX(w->seen.columns, 1), sy = (double)height / TACHY_MAX(w->seen.rows, 1);
    double dx = (w->x1 - w->x0) * sx, dy = (w->y1 - w->y0) * sy, least = TACHY_MIN(width, height);
    double extent = TACHY_MAX(ROOM * TACHY_MAX(dx, dy), LEAST * least);
    bool any = w->x1 > w->x0 && extent < MOST * least;
    span((w->x0 + w->x1) * sx / 2, extent, width, &part->x0, &part->x1);
    span((w->y0 + w->y1) * sy / 2, extent, height, &part->y0, &part->y1);
    w->x0 = w->x1 = 0;
    return any;
}

void tachy_watch_check(struct tachy_watch *w)
{
    w->seen.columns = TACHY_CLAMP(w->seen.columns, 0, TACHY_SIGNATURE_COLUMNS);
    w->seen.rows = TACHY_CLAMP(w->seen.rows, 0, TACHY_SIGNATURE_ROWS);
    w->x0 = TACHY_CLAMP(w->x0, 0, w->seen.columns);
    w->x1 = TACHY_CLAMP(w->x1, 0, w->seen.columns);
    w->y0 = TACHY_CLAMP(w->y0, 0, w->seen.rows);
    w->y1 = TACHY_CLAMP(w->y1, 0, w->seen.rows);
}
