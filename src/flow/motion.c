#include "flow/motion.h"

#include <math.h>
#include <stdlib.h>

enum { CELL = TACHY_MOTION_CELL, LEAST_CELLS = 4, BINS = 1024, BLOCK = 256, LANES = 8, SIDES = 4 };
#define BIN 0.125f         // pixels of a bin of the histogram
#define STILL 0.5f         // pixels
#define AGAINST 1.0        // pixels that a vector must differ from the camera's by, and
#define AGAINST_SHARE 0.15 // as a share of the camera's own
#define STEADY 0.001       // camera motion, as a share of the diagonal, below which a shot is static
#define PURE 0.7           // share of one kind of motion from which a shot is of that kind

static const double DEGREES = 180 / 3.14159265358979323846;

static int up(int n, int unit) { return (n + unit - 1) / unit; }

void tachy_motion_take(const float *plane, int width, int height, float *to)
{
    int every = tachy_motion_every(width, height);
    for (int y = 0; y < height; y += every)
        for (int x = 0; x < width; x += every)
            *to++ = plane[(ptrdiff_t)y * width + x];
}

size_t tachy_motion_scratch(int width, int height)
{
    int cell = CELL * tachy_motion_every(width, height);
    return (size_t)up(width, cell) * (size_t)up(height, cell) * (sizeof(int) + 1);
}

// ---- All vectors ----

struct sums {
    double length, u, v;
    size_t still;
    uint32_t bin[SIDES][BINS]; // neighbours count in different ones, since one of them that follows the other would wait for it
};

// Lanes are summed apart, so every instruction set adds in one order.
static void add_block(struct sums *s, const float *u, const float *v, size_t n)
{
    float length[LANES] = {0}, su[LANES] = {0}, sv[LANES] = {0};
    int at[BLOCK], still[LANES] = {0};
    for (size_t j = 0; j < n; j += LANES)
        for (int k = 0; k < LANES; k++) {
            float l = sqrtf(u[j + (size_t)k] * u[j + (size_t)k] + v[j + (size_t)k] * v[j + (size_t)k]), in = l / BIN;
            length[k] += l;
            su[k] += u[j + (size_t)k];
            sv[k] += v[j + (size_t)k];
            still[k] += l < STILL;
            at[j + (size_t)k] = (int)(in < (float)(BINS - 1) ? in : (float)(BINS - 1));
        }
    for (size_t j = 0; j < n; j++)
        s->bin[j % SIDES][at[j]]++;
    for (int k = 0; k < LANES; k++) {
        s->length += (double)length[k];
        s->u += (double)su[k];
        s->v += (double)sv[k];
        s->still += (size_t)still[k];
    }
}

// The rest of a plane that fills no block: with zeros to the next whole lane, which are still and have no length.
static void add_rest(struct sums *s, const float *u, const float *v, size_t n)
{
    float last[2][BLOCK] = {{0}};
    size_t whole = TACHY_ALIGN(n, (size_t)LANES), more = whole - n;
    memcpy(last[0], u, n * sizeof(float));
    memcpy(last[1], v, n * sizeof(float));
    add_block(s, last[0], last[1], whole);
    s->still -= more;
    for (size_t j = n; j < whole; j++)
        s->bin[j % SIDES][0]--;
}

static void lengths(struct tachy_motion *m, const float *u, const float *v, size_t n)
{
    static const double share = 0.95;
    struct sums s = {0};
    size_t i = 0, below = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        add_block(&s, u + i, v + i, BLOCK);
    add_rest(&s, u + i, v + i, n - i);
    m->mean = s.length / (double)n;
    m->still = (double)s.still / (double)n;
    m->direction = atan2(s.v, s.u) * DEGREES;
    m->coherence = s.length > 0 ? TACHY_MIN(hypot(s.u, s.v) / s.length, 1) : 1;
    for (int k = 0; k < BINS; k++) {
        for (int j = 0; j < SIDES; j++)
            below += s.bin[j][k];
        if ((double)below >= share * (double)n) {
            m->p95 = (k + 0.5) * (double)BIN;
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
    const float *u, *v;  // wide x high, of one pixel of `every` along each axis
    int width, height, every, wide, high, columns, rows;
    unsigned char *cell; // 1: moves
    int *todo;           // cells of a thing whose neighbours are to be looked at
};

// The camera's motion over a cell, to first order: of its first pixel, and what it changes by to the next one that is taken.
struct over_cell {
    float u, v, u_x, u_y, v_x, v_y;
    float most; // squared length, from which a difference from it is independent motion
};

static struct over_cell over_cell(const double h[9], int x, int y, int every)
{
    double w = 1 / (h[6] * x + h[7] * y + h[8]), tx = (h[0] * x + h[1] * y + h[2]) * w, ty = (h[3] * x + h[4] * y + h[5]) * w;
    double u = tx - x, v = ty - y;
    return (struct over_cell){
        (float)u, (float)v, (float)(every * ((h[0] - tx * h[6]) * w - 1)), (float)(every * (h[1] - tx * h[7]) * w),
        (float)(every * (h[3] - ty * h[6]) * w), (float)(every * ((h[4] - ty * h[7]) * w - 1)),
        (float)TACHY_MAX(AGAINST * AGAINST, AGAINST_SHARE * AGAINST_SHARE * (u * u + v * v))};
}

// How many of the cell's vectors move, of w x h from (i, j) on.
static inline int moving_of(const struct field *f, int i, int j, int w, int h)
{
    const struct over_cell c = over_cell(f->camera->h, i * CELL * f->every, j * CELL * f->every, f->every);
    int n = 0;
    for (int y = 0; y < h; y++) {
        const ptrdiff_t at = (ptrdiff_t)(j * CELL + y) * f->wide + i * CELL;
        for (int x = 0; x < w; x++) {
            float u = f->u[at + x] - (c.u + (float)x * c.u_x + (float)y * c.u_y), v = f->v[at + x] - (c.v + (float)x * c.v_x + (float)y * c.v_y);
            n += u * u + v * v > c.most;
        }
    }
    return n;
}

// Marks the cells of which more than half moves; returns the number of moving vectors.
static size_t mark(const struct field *f)
{
    size_t all = 0;
    for (int j = 0; j < f->rows; j++)
        for (int i = 0; i < f->columns; i++) {
            int w = TACHY_MIN((int)CELL, f->wide - i * CELL), h = TACHY_MIN((int)CELL, f->high - j * CELL);
            bool whole = w == CELL && h == CELL; // constants make one instruction of a row
            int n = whole ? moving_of(f, i, j, CELL, CELL) : moving_of(f, i, j, w, h);
            f->cell[j * f->columns + i] = 2 * n > w * h;
            all += (size_t)n;
        }
    return all;
}

// Takes the cells that hang together with cell `at` out of the field.
static struct tachy_moving gather(const struct field *f, int at)
{
    struct tachy_moving t = {.x0 = f->width, .y0 = f->height};
    double su = 0, sv = 0;
    int n = 0, side = CELL * f->every;
    f->cell[at] = 0;
    f->todo[n++] = at;
    while (n) {
        int k = f->todo[--n], i = k % f->columns, j = k / f->columns;
        int x = TACHY_MIN(i * CELL + CELL / 2, f->wide - 1), y = TACHY_MIN(j * CELL + CELL / 2, f->high - 1);
        double u, v;
        tachy_camera_motion_at(f->camera, x * f->every, y * f->every, &u, &v);
        su += (double)f->u[y * f->wide + x] - u;
        sv += (double)f->v[y * f->wide + x] - v;
        t.cells++;
        t.x0 = TACHY_MIN(t.x0, i * side);
        t.y0 = TACHY_MIN(t.y0, j * side);
        t.x1 = TACHY_MAX(t.x1, TACHY_MIN((i + 1) * side, f->width));
        t.y1 = TACHY_MAX(t.y1, TACHY_MIN((j + 1) * side, f->height));
        const int next_to[4][2] = {{i - 1, j}, {i + 1, j}, {i, j - 1}, {i, j + 1}};
        for (int s = 0; s < 4; s++) {
            int column = next_to[s][0], row = next_to[s][1], next = row * f->columns + column;
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
    int every = tachy_motion_every(width, height), cell = CELL * every;
    struct field f = {.camera = &m->camera, .u = u, .v = v, .width = width, .height = height, .every = every, .wide = up(width, every),
                      .high = up(height, every), .columns = up(width, cell), .rows = up(height, cell), .todo = scratch};
    int n = f.columns * f.rows;
    size_t vectors = tachy_motion_vectors(width, height);
    f.cell = (unsigned char *)(f.todo + n);
    *m = (struct tachy_motion){0};
    lengths(m, u, v, vectors);
    tachy_camera_motion_of(&m->camera, u, v, width, height, every);
    m->shot = shot_of(&m->camera, width, height);
    m->moving = (double)mark(&f) / (double)vectors;
    for (int i = 0; i < n; i++)
        if (f.cell[i]) {
            struct tachy_moving t = gather(&f, i);
            if (t.cells >= LEAST_CELLS)
                keep(m, &t);
        }
}
