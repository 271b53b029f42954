#include "flow/motion.h"

#include <math.h>
#include <stdlib.h>

enum { CELL = TACHY_MOTION_CELL, EVERY = TACHY_MOTION_EVERY, LEAST_CELLS = 4, BINS = 1024, BLOCK = 256 };
#define BIN 0.125f         // pixels of a bin of the histogram
#define STILL 0.5f         // pixels
#define AGAINST 1.0        // pixels that a vector must differ from the camera's by, and
#define AGAINST_SHARE 0.15 // as a share of the camera's own
#define STEADY 0.001       // camera motion, as a share of the diagonal, below which a shot is static
#define PURE 0.7           // share of one kind of motion from which a shot is of that kind

static const double DEGREES = 180 / 3.14159265358979323846;

static int taken(int n) { return (n + EVERY - 1) / EVERY; }

void tachy_motion_take(const float *plane, int width, int height, float *to)
{
    for (int y = 0; y < height; y += EVERY)
        for (int x = 0; x < width; x += EVERY)
            *to++ = plane[(ptrdiff_t)y * width + x];
}

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
    for (size_t i = 0; i < n; i += BLOCK) {
        float length[BLOCK];
        int at[BLOCK];
        size_t k = TACHY_MIN(n - i, (size_t)BLOCK);
        for (size_t j = 0; j < k; j++) {
            length[j] = sqrtf(u[i + j] * u[i + j] + v[i + j] * v[i + j]);
            at[j] = (int)TACHY_MIN(length[j] / BIN, (float)(BINS - 1));
        }
        for (size_t j = 0; j < k; j++) {
            sum += (double)length[j];
            su += (double)u[i + j];
            sv += (double)v[i + j];
            still += length[j] < STILL;
            bin[at[j]]++;
        }
    }
    m->mean = sum / (double)n;
    m->still = (double)still / (double)n;
    m->direction = atan2(sv, su) * DEGREES;
    m->coherence = sum > 0 ? hypot(su, sv) / sum : 1;
    for (int i = 0; i < BINS; i++) {
        below += bin[i];
        if ((double)below >= share * (double)n) {
            m->p95 = (i + 0.5) * (double)BIN;
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
    const float *u, *v;  // of even rows and columns: wide x high
    int width, height, wide, high, columns, rows;
    unsigned char *cell; // 1: moves
    int *todo;           // cells of a thing whose neighbours are to be looked at
};

// The camera's motion over a cell, to first order: of its first pixel, and what it changes by to the next one that is taken.
struct over_cell {
    float u, v, u_x, u_y, v_x, v_y;
    float most; // squared length, from which a difference from it is independent motion
};

static struct over_cell over_cell(const double h[9], int x, int y)
{
    double w = 1 / (h[6] * x + h[7] * y + h[8]), tx = (h[0] * x + h[1] * y + h[2]) * w, ty = (h[3] * x + h[4] * y + h[5]) * w;
    double u = tx - x, v = ty - y;
    return (struct over_cell){
        (float)u, (float)v, (float)(EVERY * ((h[0] - tx * h[6]) * w - 1)), (float)(EVERY * (h[1] - tx * h[7]) * w),
        (float)(EVERY * (h[3] - ty * h[6]) * w), (float)(EVERY * ((h[4] - ty * h[7]) * w - 1)),
        (float)TACHY_MAX(AGAINST * AGAINST, AGAINST_SHARE * AGAINST_SHARE * (u * u + v * v))};
}

// How many of the cell's vectors move; *of: how many it has.
static int moving_of(const struct field *f, int i, int j, int *of)
{
    enum { SIDE = CELL / EVERY };
    int w = TACHY_MIN((int)SIDE, f->wide - i * SIDE), h = TACHY_MIN((int)SIDE, f->high - j * SIDE), n = 0;
    const struct over_cell c = over_cell(f->camera->h, i * CELL, j * CELL);
    for (int y = 0; y < h; y++) {
        const ptrdiff_t at = (ptrdiff_t)(j * SIDE + y) * f->wide + i * SIDE;
        for (int x = 0; x < w; x++) {
            float u = f->u[at + x] - (c.u + (float)x * c.u_x + (float)y * c.u_y), v = f->v[at + x] - (c.v + (float)x * c.v_x + (float)y * c.v_y);
            n += u * u + v * v > c.most;
        }
    }
    *of = w * h;
    return n;
}

// Marks the cells of which more than half moves; returns the number of moving vectors.
static size_t mark(const struct field *f)
{
    size_t all = 0;
    for (int j = 0; j < f->rows; j++)
        for (int i = 0; i < f->columns; i++) {
            int of, n = moving_of(f, i, j, &of);
            f->cell[j * f->columns + i] = 2 * n > of;
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
        int x = TACHY_MIN((i * CELL + CELL / 2) / EVERY, f->wide - 1), y = TACHY_MIN((j * CELL + CELL / 2) / EVERY, f->high - 1);
        double u, v;
        tachy_camera_motion_at(f->camera, x * EVERY, y * EVERY, &u, &v);
        su += (double)f->u[y * f->wide + x] - u;
        sv += (double)f->v[y * f->wide + x] - v;
        t.cells++;
        t.x0 = TACHY_MIN(t.x0, i * CELL);
        t.y0 = TACHY_MIN(t.y0, j * CELL);
        t.x1 = TACHY_MAX(t.x1, TACHY_MIN((i + 1) * CELL, f->width));
        t.y1 = TACHY_MAX(t.y1, TACHY_MIN((j + 1) * CELL, f->height));
        const int side[4][2] = {{i - 1, j}, {i + 1, j}, {i, j - 1}, {i, j + 1}};
        for (int s = 0; s < 4; s++) {
            int column = side[s][0], row = side[s][1], next = row * f->columns + column;
            if (column >= 0 && column < f->columns && row >= 0 && row < f->rows && f->cell[next]) {
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
    struct field f = {.camera = &m->camera, .u = u, .v = v, .width = width, .height = height, .wide = taken(width), .high = taken(height),
                      .columns = cells(width), .rows = cells(height), .todo = scratch};
    int n = f.columns * f.rows;
    size_t vectors = tachy_motion_vectors(width, height);
    f.cell = (unsigned char *)(f.todo + n);
    *m = (struct tachy_motion){0};
    lengths(m, u, v, vectors);
    tachy_camera_motion_of(&m->camera, u, v, width, height, EVERY);
    m->shot = shot_of(&m->camera, width, height);
    m->moving = (double)mark(&f) / (double)vectors;
    for (int i = 0; i < n; i++)
        if (f.cell[i]) {
            struct tachy_moving t = gather(&f, i);
            if (t.cells >= LEAST_CELLS)
                keep(m, &t);
        }
}
