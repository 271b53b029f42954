#include "flow/motion.h"

#include <math.h>
#include <stdlib.h>

enum { CELL = TACHY_MOTION_CELL, LEAST_CELLS = 4, BINS = 1024 };
#define BIN 0.125          // pixels of a bin of the histogram
#define STILL 0.5          // pixels
#define AGAINST 1.0        // pixels that a vector must differ from the camera's by, and
#define AGAINST_SHARE 0.15 // as a share of the camera's own
#define STEADY 0.001       // camera motion, as a share of the diagonal, below which a shot is static
#define PURE 0.7           // share of one kind of motion from which a shot is of that kind

static const double DEGREES = 180 / 3.14159265358979323846;

static int cells(int n) { return (n + CELL - 1) / CELL; }

size_t tachy_motion_scratch(int width, int height)
{
    return (size_t)cells(width) * (size_t)cells(height) * (sizeof(int) + 1);
}

// ---- All vectors ----

static void lengths(struct tachy_motion *m, const float *u, const float *v, size_t n)
{
    static const double share = 0.95;
    size_t bin[BINS] = {0}, still = 0, below = 0;
    double sum = 0, su = 0, sv = 0;
    for (size_t i = 0; i < n; i++) {
        double length = sqrt((double)u[i] * (double)u[i] + (double)v[i] * (double)v[i]);
        sum += length;
        su += (double)u[i];
        sv += (double)v[i];
        still += length < STILL;
        bin[(size_t)TACHY_MIN(length / BIN, BINS - 1)]++;
    }
    m->mean = sum / (double)n;
    m->still = (double)still / (double)n;
    m->direction = atan2(sv, su) * DEGREES;
    m->coherence = sum > 0 ? hypot(su, sv) / sum : 1;
    for (int i = 0; i < BINS; i++) {
        below += bin[i];
        if ((double)below >= share * (double)n) {
            m->p95 = (i + 0.5) * BIN;
            return;
        }
    }
}

static enum tachy_shot shot_of(const struct tachy_camera_motion *c, int width, int height)
{
    double diagonal = hypot(width, height), half = diagonal / 2;
    // Displacement of the picture's border by each kind of motion.
    const double kind[] = {fabs(c->x), fabs(c->y), fabs(c->zoom - 1) * half, fabs(c->roll) / DEGREES * half};
    double sum = kind[0] + kind[1] + kind[2] + kind[3];
    if (sum < STEADY * diagonal)
        return TACHY_SHOT_STATIC;
    for (int i = 0; i < 4; i++)
        if (kind[i] >= PURE * sum)
            return (enum tachy_shot)(TACHY_SHOT_PAN + i);
    return TACHY_SHOT_MIXED;
}

// ---- What moves against the camera ----

struct field {
    const struct tachy_camera_motion *camera;
    const float *u, *v;
    int width, height, columns, rows;
    unsigned char *cell; // 1: moves
    int *todo;           // cells of a thing whose neighbours are to be looked at
};

// The vector minus the camera's; returns true if the rest is independent motion.
static bool against(const struct field *f, int x, int y, double *u, double *v)
{
    double cu, cv;
    ptrdiff_t k = (ptrdiff_t)y * f->width + x;
    tachy_camera_motion_at(f->camera, x, y, &cu, &cv);
    *u = (double)f->u[k] - cu;
    *v = (double)f->v[k] - cv;
    double most = TACHY_MAX(AGAINST * AGAINST, AGAINST_SHARE * AGAINST_SHARE * (cu * cu + cv * cv));
    return *u * *u + *v * *v > most;
}

// Marks the cells of which more than half moves; returns the number of moving pixels.
static size_t mark(const struct field *f)
{
    size_t all = 0;
    for (int j = 0; j < f->rows; j++)
        for (int i = 0; i < f->columns; i++) {
            int x1 = TACHY_MIN((i + 1) * CELL, f->width), y1 = TACHY_MIN((j + 1) * CELL, f->height), n = 0;
            for (int y = j * CELL; y < y1; y++)
                for (int x = i * CELL; x < x1; x++) {
                    double u, v;
                    n += against(f, x, y, &u, &v);
                }
            f->cell[j * f->columns + i] = 2 * n > (x1 - i * CELL) * (y1 - j * CELL);
            all += (size_t)n;
        }
    return all;
}

// Takes the cells that hang together with cell `at` out of the field.
static struct tachy_moving gather(const struct field *f, int at)
{
    struct tachy_moving t = {.x0 = f->width, .y0 = f->height};
    double su = 0, sv = 0;
    int n = 0;
    f->cell[at] = 0;
    f->todo[n++] = at;
    while (n) {
        int k = f->todo[--n], i = k % f->columns, j = k / f->columns;
        double u, v;
        against(f, TACHY_MIN(i * CELL + CELL / 2, f->width - 1), TACHY_MIN(j * CELL + CELL / 2, f->height - 1), &u, &v);
        su += u;
        sv += v;
        t.cells++;
        t.x0 = TACHY_MIN(t.x0, i * CELL);
        t.y0 = TACHY_MIN(t.y0, j * CELL);
        t.x1 = TACHY_MAX(t.x1, TACHY_MIN((i + 1) * CELL, f->width));
        t.y1 = TACHY_MAX(t.y1, TACHY_MIN((j + 1) * CELL, f->height));
        const int side[4][2] = {{i - 1, j}, {i + 1, j}, {i, j - 1}, {i, j + 1}};
        for (int s = 0; s < 4; s++) {
            int x = side[s][0], y = side[s][1], next = y * f->columns + x;
            if (x >= 0 && x < f->columns && y >= 0 && y < f->rows && f->cell[next]) {
                f->cell[next] = 0;
                f->todo[n++] = next;
            }
        }
    }
    t.u = su / t.cells;
    t.v = sv / t.cells;
    return t;
}

// Keeps the largest, in their order.
static void keep(struct tachy_motion *m, const struct tachy_moving *t)
{
    int at = m->nb;
    while (at > 0 && m->thing[at - 1].cells < t->cells)
        at--;
    if (at == TACHY_MOVING_MOST)
        return;
    m->nb = TACHY_MIN(m->nb + 1, TACHY_MOVING_MOST);
    memmove(&m->thing[at + 1], &m->thing[at], (size_t)(m->nb - 1 - at) * sizeof(*t));
    m->thing[at] = *t;
}

void tachy_motion_of(struct tachy_motion *m, const float *u, const float *v, int width, int height, void *scratch)
{
    struct field f = {.camera = &m->camera, .u = u, .v = v, .width = width, .height = height, .columns = cells(width),
                      .rows = cells(height), .todo = scratch};
    int n = f.columns * f.rows;
    size_t pixels = (size_t)width * (size_t)height;
    f.cell = (unsigned char *)(f.todo + n);
    *m = (struct tachy_motion){0};
    lengths(m, u, v, pixels);
    tachy_camera_motion_of(&m->camera, u, v, width, height);
    m->shot = shot_of(&m->camera, width, height);
    m->moving = (double)mark(&f) / (double)pixels;
    for (int i = 0; i < n; i++)
        if (f.cell[i]) {
            struct tachy_moving t = gather(&f, i);
            if (t.cells >= LEAST_CELLS)
                keep(m, &t);
        }
}
