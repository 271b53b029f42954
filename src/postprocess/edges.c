#include "postprocess/edges.h"

#include "ref/ref_edges.h"

enum { R = TACHY_EDGES_RADIUS, SIDE = 2 * R + 1, PART = 64, LANES = 8 };
#define SHARE (1.0f / (SIDE * SIDE))
#define INLINE static inline __attribute__((always_inline)) // into the function of each instruction set

// Neighbouring cells of a row, PART at most.
struct span {
    int x, y, n;
};

struct spans {
    struct span *at;
    int n;
};

// The planes of one solve. Of a window: at the cell in its middle.
struct solver {
    int w, h;
    size_t n;
    const float *guide;
    float *fit;                        // slopes and offset of a window
    float *mean[3], *lower[3], *scale[3]; // of a window: mean colour; its covariance as L D L', scale = 1 / D
    float *times[4];                   // alpha and alpha times colour, of the cells that windows read
    float *x, *left, *way, *change;    // of cells
    const float *columns, *rows;       // how many windows hold a cell: the product
    struct spans unknown, windows, cells;
};

// Sums over the window around each cell of a span: columns, then rows.
INLINE void sums(float to[4][PART], float *const from[4], const struct solver *s, const struct span *at)
{
    for (int c = 0; c < 4; c++) {
        float column[PART + 2 * R] = {0};
        for (int dy = -R; dy <= R; dy++) {
            int y = at->y + dy, x0 = TACHY_MAX(at->x - R, 0), x1 = TACHY_MIN(at->x + at->n + R, s->w);
            if (y < 0 || y >= s->h)
                continue;
            const float *row = from[c] + (ptrdiff_t)y * s->w + x0;
            float *sum = column + (x0 - (at->x - R));
            for (int i = 0; i < x1 - x0; i++)
                sum[i] += row[i];
        }
        for (int i = 0; i < at->n; i++)
            to[c][i] = column[i] + column[i + 1] + column[i + 2] + column[i + 3] + column[i + 4];
    }
    _Static_assert(SIDE == 5, "the sum of a row has SIDE terms");
}

// Mean and covariance of the colours in each window of a span.
INLINE void measure(const struct solver *s, const struct span *at)
{
    size_t mid = (size_t)at->y * (size_t)s->w + (size_t)at->x;
    float v[6][PART] = {{0}};
    for (size_t c = 0; c < 3; c++) {
        float sum[PART] = {0};
        for (int k = 0; k < SIDE * SIDE; k++) {
            const float *g = s->guide + c * s->n + mid + (k / SIDE - R) * s->w + k % SIDE - R;
            for (int i = 0; i < at->n; i++)
                sum[i] += g[i];
        }
        for (int i = 0; i < at->n; i++)
            s->mean[c][mid + (size_t)i] = sum[i] * SHARE;
    }
    const float *m0 = s->mean[0] + mid, *m1 = s->mean[1] + mid, *m2 = s->mean[2] + mid;
    for (int k = 0; k < SIDE * SIDE; k++) {
        const float *g = s->guide + mid + (k / SIDE - R) * s->w + k % SIDE - R;
        for (int i = 0; i < at->n; i++) {
            float a = g[i] - m0[i], b = g[s->n + (size_t)i] - m1[i], c = g[2 * s->n + (size_t)i] - m2[i];
            v[0][i] += a * a, v[1][i] += a * b, v[2][i] += a * c;
            v[3][i] += b * b, v[4][i] += b * c, v[5][i] += c * c;
        }
    }
    const float eps = (float)TACHY_EDGES_EPS * SHARE;
    float *l0 = s->lower[0] + mid, *l1 = s->lower[1] + mid, *l2 = s->lower[2] + mid;
    float *d0 = s->scale[0] + mid, *d1 = s->scale[1] + mid, *d2 = s->scale[2] + mid;
    for (int i = 0; i < at->n; i++) {
        float a = v[0][i] * SHARE + eps, b = v[1][i] * SHARE, c = v[2][i] * SHARE;
        d0[i] = 1 / a;
        l0[i] = b * d0[i];
        l1[i] = c * d0[i];
        float e = v[3][i] * SHARE + eps - l0[i] * b, f = v[4][i] * SHARE - l0[i] * c;
        d1[i] = 1 / TACHY_MAX(e, eps); // rounding alone makes it smaller
        l2[i] = f * d1[i];
        float g = v[5][i] * SHARE + eps - l1[i] * c - l2[i] * f;
        d2[i] = 1 / TACHY_MAX(g, eps);
    }
}

INLINE void fit_windows(const struct solver *s, const float *alpha)
{
    for (const struct span *at = s->cells.at; at < s->cells.at + s->cells.n; at++) {
        size_t first = (size_t)at->y * (size_t)s->w + (size_t)at->x;
        memcpy(s->times[3] + first, alpha + first, (size_t)at->n * sizeof(float));
        for (size_t c = 0; c < 3; c++) {
            const float *g = s->guide + c * s->n + first, *a = alpha + first;
            float *to = s->times[c] + first;
            for (int i = 0; i < at->n; i++)
                to[i] = a[i] * g[i];
        }
    }
    for (const struct span *at = s->windows.at; at < s->windows.at + s->windows.n; at++) {
        size_t mid = (size_t)at->y * (size_t)s->w + (size_t)at->x;
        float t[4][PART];
        sums(t, s->times, s, at);
        const float *m0 = s->mean[0] + mid, *m1 = s->mean[1] + mid, *m2 = s->mean[2] + mid;
        const float *l0 = s->lower[0] + mid, *l1 = s->lower[1] + mid, *l2 = s->lower[2] + mid;
        const float *d0 = s->scale[0] + mid, *d1 = s->scale[1] + mid, *d2 = s->scale[2] + mid;
        float *f0 = s->fit + mid, *f1 = f0 + s->n, *f2 = f1 + s->n, *f3 = f2 + s->n;
        for (int i = 0; i < at->n; i++) {
            float mean = t[3][i] * SHARE;
            float v0 = t[0][i] * SHARE - mean * m0[i], v1 = t[1][i] * SHARE - mean * m1[i], v2 = t[2][i] * SHARE - mean * m2[i];
            v1 -= l0[i] * v0;
            v2 -= l1[i] * v0 + l2[i] * v1;
            float a2 = v2 * d2[i], a1 = v1 * d1[i] - l2[i] * a2, a0 = v0 * d0[i] - l0[i] * a1 - l1[i] * a2;
            f0[i] = a0, f1[i] = a1, f2[i] = a2;
            f3[i] = mean - a0 * m0[i] - a1 * m1[i] - a2 * m2[i];
        }
    }
}

// to = what the windows' errors change with each unknown cell's alpha.
INLINE void slopes_of_error(const struct solver *s, float *to, const float *alpha)
{
    float *const fit[4] = {s->fit, s->fit + s->n, s->fit + 2 * s->n, s->fit + 3 * s->n};
    fit_windows(s, alpha);
    for (const struct span *at = s->unknown.at; at < s->unknown.at + s->unknown.n; at++) {
        size_t first = (size_t)at->y * (size_t)s->w + (size_t)at->x;
        const float *g0 = s->guide + first, *g1 = g0 + s->n, *g2 = g1 + s->n, *a = alpha + first, *c = s->columns + at->x;
        float t[4][PART], rows = s->rows[at->y], *e = to + first;
        sums(t, fit, s, at);
        for (int i = 0; i < at->n; i++)
            e[i] = rows * c[i] * a[i] - t[0][i] * g0[i] - t[1][i] * g1[i] - t[2][i] * g2[i] - t[3][i];
    }
}

// Over the unknown cells, in an order that no instruction set changes.
INLINE double dot(const struct solver *s, const float *a, const float *b)
{
    double lane[LANES] = {0}, sum = 0;
    for (const struct span *at = s->unknown.at; at < s->unknown.at + s->unknown.n; at++) {
        size_t first = (size_t)at->y * (size_t)s->w + (size_t)at->x;
        for (int i = 0; i < at->n; i++)
            lane[i % LANES] += (double)a[first + (size_t)i] * (double)b[first + (size_t)i];
    }
    for (int i = 0; i < LANES; i++)
        sum += lane[i];
    return sum;
}

// to = a + k b over the unknown cells.
INLINE void add(const struct solver *s, float *to, const float *a, float k, const float *b)
{
    for (const struct span *at = s->unknown.at; at < s->unknown.at + s->unknown.n; at++) {
        size_t first = (size_t)at->y * (size_t)s->w + (size_t)at->x;
        for (size_t i = first; i < first + (size_t)at->n; i++)
            to[i] = a[i] + k * b[i];
    }
}

INLINE void descend(const struct solver *s)
{
    for (const struct span *at = s->windows.at; at < s->windows.at + s->windows.n; at++)
        measure(s, at);
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
    for (const struct span *at = s->unknown.at; at < s->unknown.at + s->unknown.n; at++)
        for (int i = 0; i < at->n; i++) {
            float *x = s->x + (size_t)at->y * (size_t)s->w + at->x + i;
            *x = TACHY_CLAMP(*x, 0, 1);
        }
    fit_windows(s, s->x);
}

static void descend_any(const struct solver *s) { descend(s); }
#if defined(__x86_64__)
TACHY_TARGET_AVX2 static void descend_avx2(const struct solver *s) { descend(s); }
TACHY_TARGET_AVX512 static void descend_avx512(const struct solver *s) { descend(s); }
#endif

static void (*best(void))(const struct solver *)
{
#if defined(__x86_64__)
    if (tachy_cpu_isa() == TACHY_ISA_AVX512)
        return descend_avx512;
    if (tachy_cpu_isa() == TACHY_ISA_AVX2)
        return descend_avx2;
#endif
    return descend_any;
}

// The cells of what windows found: means over the windows around each; known cells keep their alpha.
static void store(const struct solver *s, float *to)
{
    float *const fit[4] = {s->fit, s->fit + s->n, s->fit + 2 * s->n, s->fit + 3 * s->n};
    memset(to, 0, 3 * s->n * sizeof(float));
    memcpy(to + 3 * s->n, s->x, s->n * sizeof(float));
    for (const struct span *at = s->unknown.at; at < s->unknown.at + s->unknown.n; at++) {
        float t[4][PART];
        sums(t, fit, s, at);
        for (int i = 0; i < at->n; i++) {
            float count = s->rows[at->y] * s->columns[at->x + i];
            for (size_t c = 0; count > 0 && c < 4; c++)
                to[c * s->n + (size_t)at->y * (size_t)s->w + (size_t)(at->x + i)] = t[c][i] / count;
        }
    }
}

// Cells of value 1 among columns x0..x1 - 1 and rows y0..y1 - 1, as spans.
static struct spans spans_of(struct span *to, const uint8_t *marks, int w, int x0, int y0, int x1, int y1)
{
    struct spans s = {.at = to};
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1;) {
            const uint8_t *row = marks + (ptrdiff_t)y * w, *next = memchr(row + x, 1, (size_t)(x1 - x));
            if (!next)
                break;
            int n = 0;
            for (x = (int)(next - row); x + n < x1 && n < PART && row[x + n]; n++)
                ;
            to[s.n++] = (struct span){x, y, n};
            x += n;
        }
    return s;
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

// How many windows hold a cell of row or column i of n.
static float windows_at(int i, int n)
{
    int count = TACHY_MIN(i + R, n - 1 - R) - TACHY_MAX(i - R, R) + 1;
    return (float)TACHY_MAX(count, 0);
}

int tachy_edges_solve(struct tachy_edges *e, float *fit, const float *guide, const float *alpha, const uint8_t *unknown,
                      int w, int h)
{
    enum { PLANES = 21 };
    size_t n = (size_t)w * (size_t)h, most = (size_t)h * ((size_t)w / 2 + (size_t)w / PART + 2);
    if (!tachy_buf_need(&e->solver, (PLANES * n + (size_t)w + (size_t)h) * sizeof(float)) ||
        !tachy_buf_need(&e->marks, 2 * n) || !tachy_buf_need(&e->spans, 3 * most * sizeof(struct span)))
        return TACHY_ERR_NOMEM;
    struct solver s = {.w = w, .h = h, .n = n, .guide = guide, .fit = e->solver.p};
    float *next = s.fit + 4 * n, **const planes[] = {&s.mean[0], &s.mean[1], &s.mean[2], &s.lower[0], &s.lower[1],
        &s.lower[2], &s.scale[0], &s.scale[1], &s.scale[2], &s.times[0], &s.times[1], &s.times[2], &s.times[3], &s.x,
        &s.left, &s.way, &s.change};
    _Static_assert(TACHY_ARRAY_SIZE(planes) + 4 == PLANES, "every plane has room");
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(planes); i++, next += n)
        *planes[i] = next;
    for (int i = 0; i < w + h; i++)
        next[i] = i < w ? windows_at(i, w) : windows_at(i - w, h);
    s.columns = next;
    s.rows = next + w;
    memset(s.fit, 0, 4 * n * sizeof(float)); // windows that leave the picture
    memset(s.way, 0, n * sizeof(float));     // known cells do not move
    memcpy(s.x, alpha, n * sizeof(float));
    uint8_t *marks = e->marks.p;
    memcpy(marks, unknown, n);
    s.unknown = spans_of(e->spans.p, marks, w, 0, 0, w, h);
    tachy_edges_grow(marks, marks + n, w, h, R);
    s.windows = spans_of(s.unknown.at + most, marks, w, R, R, w - R, h - R);
    tachy_edges_grow(marks, marks + n, w, h, R);
    s.cells = spans_of(s.windows.at + most, marks, w, 0, 0, w, h);
    best()(&s);
    store(&s, fit);
    return TACHY_OK;
}

void tachy_edges_free(struct tachy_edges *s)
{
    struct tachy_buf *const all[] = {&s->planes, &s->solver, &s->marks, &s->spans};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        tachy_buf_free(all[i]);
}
