#include "measure/quality.h"

#include "base/cpu.h"
#include "base/ycbcr.h"

#include <math.h>
#include <stdlib.h>

// Measures that look at neighbouring samples. The inner loops are plain sums of absolute differences, compiled for each
// instruction set.

// ---- Blur

struct blur_line {
    const uint8_t *a, *b;     // neighbours
    const uint8_t *far, *near; // four and five samples from them
    int n;
    uint32_t all, left; // out: sums of what changes, and of nine times what a low-pass takes of it
};

static inline __attribute__((always_inline)) void blur_line(struct blur_line *l)
{
    uint32_t all = 0, left = 0;
    for (int i = 0; i < l->n; i++) {
        int d = abs(l->a[i] - l->b[i]), low = abs(l->far[i] - l->near[i]);
        all += (uint32_t)d;
        left += (uint32_t)TACHY_MAX(9 * d - low, 0);
    }
    l->all = all;
    l->left = left;
}
TACHY_CPU_BEST(blur_line, struct blur_line *)

// The difference of two neighbours of a mean of nine samples is that of the samples at its ends by 9.
static double blur_along(const uint8_t *p, int width, int height, ptrdiff_t step)
{
    uint64_t all = 0, left = 0;
    int across = step == 1 ? width : height;
    int from = step == 1 ? 0 : 5, to = step == 1 ? height : height - 4;
    for (int y = from; y < to && across >= 10; y++) {
        const uint8_t *row = p + (ptrdiff_t)y * width + (step == 1 ? 5 : 0);
        struct blur_line l = {row, row - step, row + 4 * step, row - 5 * step, step == 1 ? width - 9 : width, 0, 0};
        blur_line_best(&l);
        all += l.all;
        left += l.left;
    }
    return all ? 1 - (double)left / (9.0 * (double)all) : 1;
}

double tachy_blur_of(const uint8_t *luma, int width, int height)
{
    return TACHY_MAX(blur_along(luma, width, height, 1), blur_along(luma, width, height, width));
}

// ---- Noise and blocking, in strips of the frame's own rows

enum { STRIPS = 24, TILE = 16, ROWS = TILE + 2, LEAST = 34, STEP_MOST = 32 };

// Rows y0 - 1 .. y0 + TILE of a strip as 8 bits.
struct strip {
    const uint8_t *row[ROWS];
    int width;
    uint16_t *residual; // of each column, sums over the strip's rows: at most 16 * 2040
    uint16_t *level;    // the same of the samples
    uint16_t *across;   // differences to the column before
    int16_t *second;    // scratch: second differences of a row, downwards
    uint64_t down[8];   // differences to the row before, by the row's place in the grid
};

// Steps of a row: |a - b|, at most STEP_MOST.
static inline __attribute__((always_inline)) uint16_t step_of(uint8_t a, uint8_t b)
{
    uint8_t d = a > b ? (uint8_t)(a - b) : (uint8_t)(b - a);
    return d < STEP_MOST ? d : STEP_MOST;
}

// Each loop has one output, so that compilers make vectors of it.
static inline __attribute__((always_inline)) void strip_row(struct strip *s, int k)
{
    const uint8_t *a = s->row[k - 1], *b = s->row[k], *c = s->row[k + 1];
    uint16_t *residual = s->residual, *level = s->level, *across = s->across;
    int16_t *second = s->second;
    uint32_t down = 0;
    int n = s->width;
    for (int x = 0; x < n; x++)
        second[x] = (int16_t)(a[x] - 2 * b[x] + c[x]);
    for (int x = 1; x < n - 1; x++)
        residual[x] = (uint16_t)(residual[x] + abs((int16_t)(second[x - 1] - 2 * second[x] + second[x + 1])));
    for (int x = 1; x < n - 1; x++)
        level[x] = (uint16_t)(level[x] + b[x]);
    for (int x = 1; x < n - 1; x++)
        across[x] = (uint16_t)(across[x] + step_of(b[x], b[x - 1]));
    for (int x = 1; x < n - 1; x++)
        down += step_of(b[x], a[x]);
    s->down[(k - 1) & 7] += down;
}

static inline __attribute__((always_inline)) void strip_rows(struct strip *s)
{
    for (int k = 1; k <= TILE; k++)
        strip_row(s, k);
}
TACHY_CPU_BEST(strip_rows, struct strip *)

// Row y as 8 bits: the plane's own, or `room` filled with them.
static const uint8_t *row_of(const tachy_frame *f, int y, uint8_t *room)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    const uint8_t *p = f->data[0] + y * f->stride[0];
    if (!d->rgb && d->bytes == 1)
        return p;
    int step = d->components[0];
    for (int x = 0; x < f->width; x++)
        room[x] = d->rgb ? (uint8_t)((54 * p[x * step + (f->format == TACHY_PIX_BGRA ? 2 : 0)] + 183 * p[x * step + 1] +
                                      19 * p[x * step + (f->format == TACHY_PIX_BGRA ? 0 : 2)]) >> 8)
                         : (uint8_t)((p[2 * x] | p[2 * x + 1] << 8) >> d->shift >> 2);
    return room;
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Standard deviation of the noise of tiles that are neither black nor white, as their tenth part with the least has it.
// The mean of |residual| of white noise is 6 sigma sqrt(2 / pi).
static double noise_of(float *tile, int n)
{
    static const double QUIET = 1.04; // what is taken off by looking at quiet tiles, of white noise
    if (!n)
        return 0;
    qsort(tile, (size_t)n, sizeof(*tile), compare);
    return QUIET * sqrt(3.14159265358979323846 / 2) / 6 * (double)tile[n / 5];
}

static double grid_seen(double on, double off) { return on > off ? (on - off) / (on + off) : 0; }

// Means of differences at the lines of the grid, and between them.
static double blocking_of(const uint64_t along[8], const uint64_t columns[8], const uint64_t down[8])
{
    double most = 0;
    for (int axis = 0; axis < 2; axis++) {
        double on, off = 0, seen = 0;
        on = axis ? (double)down[0] : columns[0] ? (double)along[0] / (double)columns[0] : 0;
        for (int i = 1; i < 8; i++) {
            off += axis ? (double)down[i] / 7 : (double)along[i];
            seen += (double)columns[i];
        }
        most = TACHY_MAX(most, grid_seen(on, axis || seen == 0 ? off : off / seen));
    }
    return most;
}

static int take_tiles(const struct strip *s, float *tile, double low, double high)
{
    int n = 0;
    for (int x = 1; x + TILE <= s->width - 1; x += TILE) {
        uint32_t residual = 0, level = 0;
        for (int i = 0; i < TILE; i++) {
            residual += s->residual[x + i];
            level += s->level[x + i];
        }
        double mean = level / (double)(TILE * TILE);
        if (mean > low && mean < high)
            tile[n++] = (float)residual / (TILE * TILE);
    }
    return n;
}

// Memory of the strips of one frame.
struct strips_room {
    uint8_t *rows;
    uint16_t *sums;
    int16_t *second;
    float *tile;
};

static void run_strips(const tachy_frame *f, const struct strips_room *room, double *noise, double *blocking)
{
    struct tachy_color c = tachy_color_resolve(f->color, f->format, f->width, f->height);
    struct tachy_ycbcr_codes codes = tachy_ycbcr_codes_of(8, c.range == 2);
    int w = f->width, all = (f->height - 1) / TILE - 1, n = TACHY_MIN(all, STRIPS), tiles = 0;
    uint64_t along[8] = {0}, columns[8] = {0}, down[8] = {0};
    struct strip s = {.width = w, .residual = room->sums, .level = room->sums + w, .across = room->sums + 2 * w, .second = room->second};
    for (int i = 0; i < n; i++) {
        int y0 = TILE * (1 + (int)((int64_t)i * all / n));
        memset(room->sums, 0, 3 * (size_t)w * sizeof(*room->sums));
        for (int k = 0; k < ROWS; k++)
            s.row[k] = row_of(f, y0 - 1 + k, room->rows + (size_t)k * (size_t)w);
        strip_rows_best(&s);
        for (int x = 1; x < w - 1; x++) {
            along[x & 7] += s.across[x];
            columns[x & 7]++;
        }
        tiles += take_tiles(&s, room->tile + tiles, codes.black + 0.03 * codes.luma, codes.black + 0.97 * codes.luma);
    }
    for (int i = 0; i < 8; i++)
        down[i] = s.down[i];
    *noise = noise_of(room->tile, tiles) * 255 / codes.luma;
    *blocking = blocking_of(along, columns, down);
}

int tachy_strips_of(const tachy_frame *f, double *noise, double *blocking)
{
    size_t w = (size_t)f->width;
    *noise = *blocking = 0;
    if (f->width < LEAST || f->height < LEAST)
        return TACHY_OK;
    struct strips_room room = {malloc(w * ROWS), malloc(3 * w * sizeof(uint16_t)), malloc(w * sizeof(int16_t)),
                                malloc(STRIPS * (w / TILE + 1) * sizeof(float))};
    bool there = room.rows && room.sums && room.second && room.tile;
    if (there)
        run_strips(f, &room, noise, blocking);
    free(room.rows);
    free(room.sums);
    free(room.second);
    free(room.tile);
    return there ? TACHY_OK : TACHY_ERR_NOMEM;
}
