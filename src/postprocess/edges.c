#include "postprocess/edges_priv.h"

#include "ref/ref_edges.h"

enum { R = TACHY_EDGES_RADIUS, SIDE = 2 * R + 1 };
#define SHARE (1.0f / (SIDE * SIDE))

typedef double wide __attribute__((vector_size(8 * BLOCK)));

// The planes of one solve, with BLOCK extra columns on both sides and R extra rows above and below. They are processed
// in blocks: BLOCK cells of a row starting at a multiple of BLOCK. Cells of a block outside the range may hold
// anything, even NaN, in planes that are not documented to hold 0 there. A window's values are stored at its centre
// cell.
struct solver {
    int w, h;
    ptrdiff_t stride, n;
    float *guide[3], *open;                      // open: 1 for unknown cells, else 0
    float *fit[4];                               // slopes and offset of a window; 0: it leaves the picture
    float *mean[3], *lower[3], *scale[3];        // mean colour; its covariance as L D L', scale = 1 / D
    float *times[4];                             // alpha times colour, and alpha
    float *x, *left, *way, *change;              // of unknown cells; way: 0 for the others
    float *columns, *rows;                       // how many windows hold a cell: the product
    ptrdiff_t *unknown, *windows, *cells;        // where blocks begin
    int nb_unknown, nb_windows, nb_cells;
};

static inline int row_of(const struct solver *s, ptrdiff_t at) { return (int)(at / s->stride) - R; }
static inline int column_of(const struct solver *s, ptrdiff_t at) { return (int)(at % s->stride) - BLOCK; }

// Sums over the window around each cell of a block.
INLINE void sums(vec to[4], float *const from[4], ptrdiff_t stride, ptrdiff_t at)
{
    for (int c = 0; c < 4; c++) {
        const float *row = from[c] + at - R * stride;
        vec sum = {0};
        for (int k = 0; k < SIDE; k++, row += stride)
            sum += ((AT(row - 2) + AT(row - 1)) + (AT(row) + AT(row + 1))) + AT(row + 2);
        to[c] = sum;
    }
    _Static_assert(R == 2, "the sum of a row has 2 R + 1 terms");
}

// Mean and covariance of the colours in each window of a block.
INLINE void measure(const struct solver *s, ptrdiff_t at)
{
    vec v[6] = {{0}}, m[3] = {{0}};
    for (int k = 0; k < SIDE * SIDE; k++)
        for (int c = 0; c < 3; c++)
            m[c] += AT(s->guide[c] + at + (k / SIDE - R) * s->stride + k % SIDE - R);
    for (int c = 0; c < 3; c++)
        m[c] *= SHARE;
    for (int k = 0; k < SIDE * SIDE; k++) {
        ptrdiff_t cell = at + (k / SIDE - R) * s->stride + k % SIDE - R;
        vec a = AT(s->guide[0] + cell) - m[0], b = AT(s->guide[1] + cell) - m[1], c = AT(s->guide[2] + cell) - m[2];
        v[0] += a * a, v[1] += a * b, v[2] += a * c;
        v[3] += b * b, v[4] += b * c, v[5] += c * c;
    }
    const float eps = (float)TACHY_EDGES_EPS * SHARE;
    vec least = (vec){0} + eps; // only rounding makes a pivot smaller
    vec a = v[0] * SHARE + eps, b = v[1] * SHARE, c = v[2] * SHARE, d0 = 1 / a, l0 = b * d0, l1 = c * d0;
    vec e = v[3] * SHARE + eps - l0 * b, f = v[4] * SHARE - l0 * c;
    e = CHOOSE(e > least, e, least);
    vec d1 = 1 / e, l2 = f * d1, g = v[5] * SHARE + eps - l1 * c - l2 * f;
    g = CHOOSE(g > least, g, least);
    for (int k = 0; k < 3; k++)
        AT(s->mean[k] + at) = m[k];
    AT(s->lower[0] + at) = l0, AT(s->lower[1] + at) = l1, AT(s->lower[2] + at) = l2;
    AT(s->scale[0] + at) = d0, AT(s->scale[1] + at) = d1, AT(s->scale[2] + at) = 1 / g;
}

// The least squares of alpha in one block of windows.
INLINE void fit_block(const struct solver *s, ptrdiff_t at)
{
    vec t[4];
    sums(t, s->times, s->stride, at);
    vec m0 = AT(s->mean[0] + at), m1 = AT(s->mean[1] + at), m2 = AT(s->mean[2] + at), mean = t[3] * SHARE;
    vec l0 = AT(s->lower[0] + at), l1 = AT(s->lower[1] + at), l2 = AT(s->lower[2] + at);
    vec v0 = t[0] * SHARE - mean * m0, v1 = t[1] * SHARE - mean * m1, v2 = t[2] * SHARE - mean * m2;
    v1 -= l0 * v0;
    v2 -= l1 * v0 + l2 * v1;
    vec a2 = v2 * AT(s->scale[2] + at), a1 = v1 * AT(s->scale[1] + at) - l2 * a2;
    vec a0 = v0 * AT(s->scale[0] + at) - l0 * a1 - l1 * a2, none = {0};
    bits inside = AT(s->columns + s->w + column_of(s, at)) != none;
    AT(s->fit[0] + at) = CHOOSE(inside, a0, none);
    AT(s->fit[1] + at) = CHOOSE(inside, a1, none);
    AT(s->fit[2] + at) = CHOOSE(inside, a2, none);
    AT(s->fit[3] + at) = CHOOSE(inside, mean - a0 * m0 - a1 * m1 - a2 * m2, none);
}

INLINE void fit_windows(const struct solver *s, const float *alpha)
{
    for (int k = 0; k < s->nb_cells; k++) {
        ptrdiff_t at = s->cells[k];
        vec a = AT(alpha + at);
        for (int c = 0; c < 3; c++)
            AT(s->times[c] + at) = a * AT(s->guide[c] + at);
        AT(s->times[3] + at) = a;
    }
    for (int k = 0; k < s->nb_windows; k++)
        fit_block(s, s->windows[k]);
}

// to = what the windows' errors change with each unknown cell's alpha; 0 for the others.
INLINE void slopes_of_error(const struct solver *s, float *to, const float *alpha)
{
    fit_windows(s, alpha);
    for (int k = 0; k < s->nb_unknown; k++) {
        ptrdiff_t at = s->unknown[k];
        vec t[4], none = {0}, held = s->rows[row_of(s, at)] * AT(s->columns + column_of(s, at));
        sums(t, s->fit, s->stride, at);
        vec e = held * AT(alpha + at) - t[0] * AT(s->guide[0] + at) - t[1] * AT(s->guide[1] + at) -
                t[2] * AT(s->guide[2] + at) - t[3];
        AT(to + at) = CHOOSE(AT(s->open + at) != none, e, none);
    }
}

// In an order that no instruction set changes.
INLINE double dot(const struct solver *s, const float *a, const float *b)
{
    wide lane = {0};
    double sum = 0;
    for (int k = 0; k < s->nb_unknown; k++)
        lane += __builtin_convertvector(AT(a + s->unknown[k]), wide) * __builtin_convertvector(AT(b + s->unknown[k]), wide);
    for (int i = 0; i < BLOCK; i++)
        sum += lane[i];
    return sum;
}

// to = a + k b.
INLINE void add(const struct solver *s, float *to, const float *a, float k, const float *b)
{
    for (int j = 0; j < s->nb_unknown; j++)
        AT(to + s->unknown[j]) = AT(a + s->unknown[j]) + k * AT(b + s->unknown[j]);
}

INLINE void descend(const struct solver *s)
{
    for (int k = 0; k < s->nb_windows; k++)
        measure(s, s->windows[k]);
    slopes_of_error(s, s->left, s->x);
    add(s, s->left, s->left, -2, s->left);
    add(s, s->way, s->left, 0, s->left);
    double size = dot(s, s->left, s->left);
    for (int k = 0; k < TACHY_EDGES_PASSES && size > 0; k++) {
        slopes_of_error(s, s->change, s->way);
        double curve = dot(s, s->way, s->change), before = size;
        float step = curve > 0 ? (float)(size / curve) : 0;
        add(s, s->x, s->x, step, s->way);
        add(s, s->left, s->left, -step, s->change);
        size = dot(s, s->left, s->left);
        add(s, s->way, s->left, (float)(size / before), s->way);
    }
    for (int k = 0; k < s->nb_unknown; k++) {
        vec x = AT(s->x + s->unknown[k]), none = {0}, all = none + 1;
        x = CHOOSE(x > none, x, none);
        AT(s->x + s->unknown[k]) = CHOOSE(x < all, x, all);
    }
    fit_windows(s, s->x);
}

TACHY_CPU_BEST(descend, const struct solver *)

// Averages the fits of the windows around each unknown cell; known cells keep their alpha.
static void store(const struct solver *s, float *to, const float *alpha)
{
    size_t n = (size_t)s->w * (size_t)s->h;
    memset(to, 0, 3 * n * sizeof(float));
    memcpy(to + 3 * n, alpha, n * sizeof(float));
    for (int k = 0; k < s->nb_unknown; k++) {
        ptrdiff_t at = s->unknown[k];
        int x = column_of(s, at), y = row_of(s, at);
        vec t[4];
        float *cell = to + (size_t)y * (size_t)s->w + x;
        sums(t, s->fit, s->stride, at);
        for (int i = 0; i < BLOCK && x + i < s->w; i++) {
            if (s->open[at + i] == 0)
                continue;
            float count = s->rows[y] * s->columns[x + i];
            cell[3 * n + (size_t)i] = s->x[at + i];
            for (size_t c = 0; count > 0 && c < 4; c++)
                cell[c * n + (size_t)i] = t[c][i] / count;
        }
    }
}

// Blocks of rows y0..y1 - 1 that hold a marked cell.
static int blocks_of(ptrdiff_t *to, const struct solver *s, const uint8_t *marks, int y0, int y1)
{
    int n = 0;
    for (int y = y0; y < y1; y++)
        for (int x = 0; x < s->w; x += BLOCK)
            if (memchr(marks + (ptrdiff_t)y * s->w + x, 1, (size_t)TACHY_MIN(BLOCK, s->w - x)))
                to[n++] = (y + R) * s->stride + BLOCK + x;
    return n;
}

void tachy_edges_grow(uint8_t *marks, uint8_t *scratch, int w, int h, int by)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            scratch[(ptrdiff_t)y * w + x] = 0;
    for (int y = 0; y < h; y++)
        for (int k = -by; k <= by; k++) {
            const uint8_t *from = marks + (ptrdiff_t)y * w + TACHY_MAX(k, 0);
            uint8_t *to = scratch + (ptrdiff_t)y * w + TACHY_MAX(-k, 0);
            for (int x = 0; x < w - TACHY_MAX(k, -k); x++)
                to[x] |= from[x];
        }
    for (int y = 0; y < h; y++) {
        uint8_t *to = marks + (ptrdiff_t)y * w;
        memset(to, 0, (size_t)w);
        for (int k = TACHY_MAX(y - by, 0); k <= TACHY_MIN(y + by, h - 1); k++)
            for (int x = 0; x < w; x++)
                to[x] |= scratch[(ptrdiff_t)k * w + x];
    }
}

// Number of windows that hold a cell of row or column i of n.
static float windows_at(int i, int n)
{
    int count = TACHY_MIN(i + R, n - 1 - R) - TACHY_MAX(i - R, R) + 1;
    return (float)TACHY_MAX(count, 0);
}

// Takes the planes out of the memory, in which nothing is set.
static int lay_out(struct solver *s, struct tachy_edges *e)
{
    float **const planes[] = {&s->guide[0], &s->guide[1], &s->guide[2], &s->open, &s->fit[0], &s->fit[1], &s->fit[2], &s->fit[3],
        &s->mean[0], &s->mean[1], &s->mean[2], &s->lower[0], &s->lower[1], &s->lower[2], &s->scale[0], &s->scale[1],
        &s->scale[2], &s->times[0], &s->times[1], &s->times[2], &s->times[3], &s->x, &s->left, &s->way, &s->change};
    size_t n = (size_t)s->n, columns = TACHY_ALIGN((size_t)s->w, (size_t)BLOCK), blocks = n / BLOCK;
    size_t floats = TACHY_ARRAY_SIZE(planes) * n + (size_t)s->w + columns + BLOCK + (size_t)s->h;
    if (!tachy_buf_need(&e->solver, floats * sizeof(float)) || !tachy_buf_need(&e->blocks, 3 * blocks * sizeof(ptrdiff_t)) ||
        !tachy_buf_need(&e->marks, 2 * (size_t)s->w * (size_t)s->h))
        return TACHY_ERR_NOMEM;
    float *next = e->solver.p;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(planes); i++, next += n)
        *planes[i] = next;
    s->columns = next;
    s->rows = next + s->w + columns + BLOCK;
    s->unknown = e->blocks.p;
    s->windows = s->unknown + blocks;
    s->cells = s->windows + blocks;
    return TACHY_OK;
}

// Windows of the columns and rows next to the picture's border are left out: 0.
static void clear_border(const struct solver *s)
{
    for (int c = 0; c < 4; c++)
        for (int y = -R; y < s->h + R; y++) {
            float *row = s->fit[c] + (y + R) * s->stride + BLOCK;
            if (y < R || y >= s->h - R)
                memset(row - BLOCK, 0, (size_t)s->stride * sizeof(float));
            memset(row - R, 0, R * sizeof(float));
            memset(row + s->w, 0, R * sizeof(float));
        }
}

static void take_in(const struct solver *s, const float *guide, const float *alpha, const uint8_t *unknown)
{
    size_t n = (size_t)s->w * (size_t)s->h, row = (size_t)s->w * sizeof(float);
    memset(s->way, 0, (size_t)s->n * sizeof(float));
    memset(s->open, 0, (size_t)s->n * sizeof(float));
    clear_border(s);
    for (int y = 0; y < s->h; y++) {
        ptrdiff_t to = (y + R) * s->stride + BLOCK, from = (ptrdiff_t)y * s->w;
        for (size_t c = 0; c < 3; c++)
            memcpy(s->guide[c] + to, guide + c * n + from, row);
        memcpy(s->x + to, alpha + from, row);
        for (int x = 0; x < s->w; x++)
            s->open[to + x] = unknown[from + x];
    }
}

// `columns`: how many windows hold a column, and after these whether it is the middle of one.
static void count_windows(const struct solver *s)
{
    for (int x = 0; x < s->w; x++) {
        s->columns[x] = windows_at(x, s->w);
        s->columns[s->w + x] = x >= R && x < s->w - R;
    }
    for (int x = 2 * s->w; x < s->w + (int)TACHY_ALIGN(s->w, BLOCK) + BLOCK; x++)
        s->columns[x] = 0;
    for (int y = 0; y < s->h; y++)
        s->rows[y] = windows_at(y, s->h);
}

int tachy_edges_solve(struct tachy_edges *e, float *fit, const float *guide, const float *alpha, const uint8_t *unknown,
                      int w, int h)
{
    struct solver s = {.w = w, .h = h, .stride = (ptrdiff_t)TACHY_ALIGN(w, BLOCK) + 2 * BLOCK};
    s.n = s.stride * (h + 2 * R);
    if (lay_out(&s, e) < 0)
        return TACHY_ERR_NOMEM;
    take_in(&s, guide, alpha, unknown);
    count_windows(&s);
    uint8_t *marks = e->marks.p;
    size_t n = (size_t)w * (size_t)h;
    memcpy(marks, unknown, n);
    s.nb_unknown = blocks_of(s.unknown, &s, marks, 0, h);
    tachy_edges_grow(marks, marks + n, w, h, R);
    s.nb_windows = blocks_of(s.windows, &s, marks, R, h - R);
    tachy_edges_grow(marks, marks + n, w, h, R);
    s.nb_cells = blocks_of(s.cells, &s, marks, 0, h);
    descend_best(&s);
    store(&s, fit, alpha);
    return TACHY_OK;
}

void tachy_edges_free(struct tachy_edges *s)
{
    struct tachy_buf *const all[] = {&s->planes, &s->solver, &s->marks, &s->blocks};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        tachy_buf_free(all[i]);
}
