#include "cluster/hdbscan.h"

#include "base/team.h"
#include "cluster/heap.h"
#include "cluster/space.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

// Finds the nearest neighbours of each point, then builds the minimum spanning tree of mutual reachability by Prim's algorithm.
// A point that joins the tree is compared with its neighbours at once and with all other points later, together with many more:
// at the latest when the next edge may lead to one of those, which are no nearer than the farthest neighbour. So the tree is that
// of the plain algorithm, but a pass through memory serves many points. Distances are squared and never stored.

enum {
    ROWS = TACHY_DOTS_ROWS,
    LANES = TACHY_DOTS_LANES,
    BATCH = 16 * ROWS, // points that share a pass through the others
    FILL = 4 * ROWS,   // so many cost no more than reading the others
    SPARE = 32,        // neighbours of a point beyond those that make its place dense
};

struct near {
    double distance;
    int32_t to;
};

struct cluster_work {
    struct cluster_space space;
    struct tachy_team *team;
    int n, threads, samples, near;
    int left;                  // points that are packed: those that are not in the tree yet, and some that are
    int32_t *number;           // these, in rising order
    float *packed;             // panels of LANES points
    int32_t *list;             // the neighbours of each point, nearest first
    double *core, *reach;      // of each point; the way to the tree
    double *bound;             // no edge to a point outside the list is shorter; infinite: there is none
    int32_t *from;             // the point of the tree that is so near
    struct cluster_heap far, late; // points outside the tree by `reach`; points of it by `bound`, if only their neighbours were measured
    int32_t batch[BATCH];
    int nb_batch;
    float *rows;               // of each thread: BATCH points in panels of ROWS
    struct near *nearest;      // of each thread: of BATCH points
    atomic_int next;           // the first point that no thread has taken
};

static void run_all(struct cluster_work *w, void (*piece)(void *, int, int))
{
    if (w->team)
        tachy_team_run(w->team, piece, w);
    else
        piece(w, 0, 0);
}

static float *panel(const struct cluster_work *w, int i) { return w->packed + (size_t)i * LANES * (size_t)w->space.size; }

static void pack_piece(void *user, int thread, int piece)
{
    struct cluster_work *w = user;
    int panels = (w->left + LANES - 1) / LANES;
    for (int i = (int)((int64_t)piece * panels / w->threads); i < (int)((int64_t)(piece + 1) * panels / w->threads); i++)
        cluster_pack(&w->space, w->number + i * LANES, TACHY_MIN(LANES, w->left - i * LANES), LANES, panel(w, i));
}

static void pack_rows(const struct cluster_work *w, const int32_t *number, int n, float *rows)
{
    for (int i = 0; i < n; i += ROWS)
        cluster_pack(&w->space, number + i, TACHY_MIN(ROWS, n - i), ROWS, rows + (size_t)i * (size_t)w->space.size);
}

// Whether a pair of this row may be near enough; most are not.
static bool any_near(const float *dot, float row, const float *lane)
{
    int any = 0;
    for (int l = 0; l < LANES; l++)
        any |= !(dot[l] <= row + lane[l]);
    return any;
}

// ---- Neighbours

// Keeps the nearest ones as a heap with the farthest of them on top; `n` of them are there.
static void keep_near(struct near *best, int n, int most, struct near v)
{
    int at = 0;
    if (n < most) {
        for (at = n; at && best[(at - 1) / 2].distance < v.distance; at = (at - 1) / 2)
            best[at] = best[(at - 1) / 2];
    } else {
        for (int child; (child = 2 * at + 1) < n; at = child) {
            child += child + 1 < n && best[child].distance < best[child + 1].distance;
            if (best[child].distance <= v.distance)
                break;
            best[at] = best[child];
        }
    }
    best[at] = v;
}

static int by_distance(const void *x, const void *y)
{
    const struct near *a = x, *b = y;
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    return (a->to > b->to) - (a->to < b->to);
}

// Measures from point `i` to those of a panel that may be nearer than its farthest neighbour so far; `nb` neighbours are known.
static void meet(const struct cluster_work *w, int i, int first, const float *dot, const float *lane, float *row, struct near *best, int *nb)
{
    for (int l = 0; l < LANES; l++) {
        if (dot[l] <= *row + lane[l] || first + l == i)
            continue;
        struct near v = {cluster_distance(&w->space, i, first + l), first + l};
        if (*nb == w->near && v.distance >= best->distance)
            continue;
        keep_near(best, *nb, w->near, v);
        *nb += *nb < w->near;
        if (*nb == w->near)
            *row = cluster_threshold(&w->space, i, best->distance);
    }
}

// The neighbours of `count` points from `first` on.
static void find_near(const struct cluster_work *w, int first, int count, float *rows, struct near *nearest)
{
    float row[BATCH], lane[LANES], dot[ROWS * LANES];
    int nb[BATCH] = {0};
    pack_rows(w, w->number + first, count, rows);
    for (int i = 0; i < count; i++)
        row[i] = cluster_threshold(&w->space, first + i, INFINITY);
    for (int c = 0; c < w->n; c += LANES) {
        for (int l = 0; l < LANES; l++)
            lane[l] = c + l < w->n ? w->space.half[c + l] : INFINITY;
        for (int i = 0; i < count; i++) {
            const float *d = dot + i % ROWS * LANES;
            if (i % ROWS == 0)
                w->space.dots(rows + (size_t)i * (size_t)w->space.size, panel(w, c / LANES), w->space.size, dot);
            if (any_near(d, row[i], lane))
                meet(w, first + i, c, d, lane, &row[i], nearest + (size_t)i * (size_t)w->near, &nb[i]);
        }
    }
}

static void near_piece(void *user, int thread, int piece)
{
    struct cluster_work *w = user;
    struct near *nearest = w->nearest + (size_t)thread * BATCH * (size_t)w->near;
    float *rows = w->rows + (size_t)thread * BATCH * (size_t)w->space.size;
    for (int first; (first = atomic_fetch_add(&w->next, BATCH)) < w->n;) {
        int count = TACHY_MIN(BATCH, w->n - first);
        find_near(w, first, count, rows, nearest);
        for (int i = 0; i < count; i++) {
            struct near *best = nearest + (size_t)i * (size_t)w->near;
            qsort(best, (size_t)w->near, sizeof(*best), by_distance);
            for (int k = 0; k < w->near; k++)
                w->list[(size_t)(first + i) * (size_t)w->near + (size_t)k] = best[k].to;
            double core = w->samples > 1 ? best[w->samples - 2].distance : 0; // the point itself is the first sample
            w->core[first + i] = core;
            w->bound[first + i] = w->near < w->n - 1 ? best[w->near - 1].distance : INFINITY;
        }
    }
}

// ---- The tree

static double reachability(const struct cluster_work *w, int i, int j)
{
    double core = TACHY_MAX(w->core[i], w->core[j]), d = cluster_distance(&w->space, i, j);
    return TACHY_MAX(core, d);
}

// Packs the points that are not in the tree.
static void pack(struct cluster_work *w)
{
    int n = 0;
    for (int i = 0; i < w->left; i++)
        if (w->far.place[w->number[i]] >= 0)
            w->number[n++] = w->number[i];
    w->left = n;
    run_all(w, pack_piece);
}

static float lane_threshold(const struct cluster_work *w, int32_t i)
{
    return w->far.place[i] < 0 || w->core[i] >= w->reach[i] ? INFINITY : cluster_threshold(&w->space, i, w->reach[i]);
}

// Measures from point `i` of the tree to those of a panel that it may be nearer to than the tree is so far.
static void shorten(struct cluster_work *w, int32_t i, const int32_t *to, const float *dot, float *lane)
{
    for (int l = 0; l < LANES; l++) {
        if (dot[l] <= w->space.half[i] + lane[l])
            continue;
        double reach = reachability(w, i, to[l]);
        if (reach < w->reach[to[l]]) {
            w->reach[to[l]] = reach;
            w->from[to[l]] = i;
            lane[l] = lane_threshold(w, to[l]);
        }
    }
}

// From the batch to the points of some panels.
static void shorten_piece(void *user, int thread, int piece)
{
    struct cluster_work *w = user;
    int panels = (w->left + LANES - 1) / LANES;
    float lane[LANES], dot[ROWS * LANES];
    for (int c = (int)((int64_t)piece * panels / w->threads); c < (int)((int64_t)(piece + 1) * panels / w->threads); c++) {
        const int32_t *to = w->number + c * LANES;
        int any = 0;
        for (int l = 0; l < LANES; l++) {
            lane[l] = c * LANES + l < w->left ? lane_threshold(w, to[l]) : INFINITY;
            any |= lane[l] < INFINITY;
        }
        for (int i = 0; i < w->nb_batch && any; i++) {
            const float *d = dot + i % ROWS * LANES;
            if (i % ROWS == 0)
                w->space.dots(w->rows + (size_t)i * (size_t)w->space.size, panel(w, c), w->space.size, dot);
            if (any_near(d, w->space.half[w->batch[i]], lane))
                shorten(w, w->batch[i], to, d, lane);
        }
    }
}

// Measures from all points of the tree that may be as near to another one as the nearest known.
static void catch_up(struct cluster_work *w)
{
    while (w->late.n && w->bound[w->late.item[0]] <= w->reach[w->far.item[0]]) {
        double limit = w->reach[w->far.item[0]];
        for (w->nb_batch = 0; w->late.n && w->nb_batch < BATCH; w->batch[w->nb_batch++] = cluster_heap_pop(&w->late))
            if (w->nb_batch >= FILL && w->bound[w->late.item[0]] > limit)
                break;
        pack_rows(w, w->batch, w->nb_batch, w->rows);
        run_all(w, shorten_piece);
        cluster_heap_order(&w->far);
    }
}

// Point `i` comes to the tree.
static void add_point(struct cluster_work *w, int32_t i)
{
    const int32_t *list = w->list + (size_t)i * (size_t)w->near;
    for (int k = 0; k < w->near; k++) {
        int32_t to = list[k];
        if (w->far.place[to] < 0 || TACHY_MAX(w->core[i], w->core[to]) >= w->reach[to])
            continue;
        double reach = reachability(w, i, to);
        if (reach < w->reach[to]) {
            w->reach[to] = reach;
            w->from[to] = i;
            cluster_heap_rise(&w->far, w->far.place[to], to);
        }
    }
    w->bound[i] = TACHY_MAX(w->bound[i], w->core[i]);
    if (w->bound[i] < INFINITY)
        cluster_heap_push(&w->late, i);
}

static void span(struct cluster_work *w, struct cluster_edge *edge)
{
    for (int i = 0; i < w->n; i++) {
        w->number[i] = i;
        w->reach[i] = INFINITY;
        w->late.place[i] = -1;
        cluster_heap_put(&w->far, i, i);
    }
    w->far.n = w->left = w->n;
    run_all(w, pack_piece);
    run_all(w, near_piece);
    add_point(w, cluster_heap_pop(&w->far));
    for (int i = 0; i < w->n - 1; i++) {
        if (w->far.n < w->left - w->left / 4 - LANES)
            pack(w);
        catch_up(w);
        int32_t at = cluster_heap_pop(&w->far);
        edge[i] = (struct cluster_edge){w->reach[at], w->from[at], at, i};
        if (w->reach[at] > 0) // else it equals w->from[at], and has nothing to add
            add_point(w, at);
    }
}

static int cluster_finite(const float *point, int n, int size, const struct tachy_cluster_params *p, int32_t *label)
{
    for (int i = 0; i < n; i++)
        label[i] = -1;
    if (n < TACHY_MAX(p->least, 2))
        return TACHY_OK;
    size_t all = (size_t)n, threads = (size_t)TACHY_CLAMP(p->threads, 1, 256);
    struct cluster_work w = {.n = n, .threads = (int)threads, .samples = TACHY_MIN(TACHY_DEF(p->samples, p->least), n)};
    w.near = TACHY_MIN(w.samples + SPARE, n - 1);
    int err = cluster_space_open(&w.space, point, n, size);
    struct cluster_edge *edge = malloc(all * sizeof(*edge));
    w.packed = tachy_aligned_alloc(TACHY_ALIGN(all, LANES) * (size_t)size * sizeof(float));
    w.rows = malloc(threads * BATCH * (size_t)size * sizeof(float));
    w.nearest = malloc(threads * BATCH * (size_t)w.near * sizeof(*w.nearest));
    w.list = malloc(all * (size_t)w.near * sizeof(int32_t));
    double *keys = malloc(3 * all * sizeof(*keys));
    int32_t *numbers = malloc(6 * all * sizeof(*numbers));
    if (err == TACHY_OK && edge && w.packed && w.rows && w.nearest && w.list && keys && numbers) {
        w.core = keys;
        w.reach = keys + all;
        w.bound = keys + 2 * all;
        w.number = numbers;
        w.from = numbers + all;
        w.far = (struct cluster_heap){w.reach, numbers + 2 * all, numbers + 3 * all, 0};
        w.late = (struct cluster_heap){w.bound, numbers + 4 * all, numbers + 5 * all, 0};
        w.team = threads > 1 ? tachy_team_open(w.threads) : NULL;
        w.threads = w.team ? w.threads : 1;
        span(&w, edge);
    } else {
        err = TACHY_ERR_NOMEM;
    }
    tachy_team_close(w.team);
    tachy_aligned_free(w.packed);
    cluster_space_close(&w.space);
    void *const mem[] = {w.rows, w.nearest, w.list, keys, numbers};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(mem); i++)
        free(mem[i]);
    err = err == TACHY_OK ? cluster_tree(edge, n, p, label) : err;
    free(edge);
    return err;
}

static bool is_finite(const float *p, int size)
{
    bool finite = true;
    for (int k = 0; k < size; k++)
        finite &= isfinite(p[k]);
    return finite;
}

// Points with an infinity or NaN are left out, and the others clustered as if those were not there.
int tachy_cluster(const float *point, int n, int size, const struct tachy_cluster_params *p, int32_t *label)
{
    int m = 0;
    for (int i = 0; i < n; i++)
        m += is_finite(point + (size_t)i * (size_t)size, size);
    if (m == n)
        return cluster_finite(point, n, size, p, label);
    float *kept = malloc(((size_t)m * (size_t)size + 1) * sizeof(*kept));
    int32_t *of = malloc(((size_t)m + 1) * sizeof(*of));
    for (int i = m = 0; kept && i < n; i++)
        if (is_finite(point + (size_t)i * (size_t)size, size))
            memcpy(kept + (size_t)m++ * (size_t)size, point + (size_t)i * (size_t)size, (size_t)size * sizeof(*kept));
    int err = kept && of ? cluster_finite(kept, m, size, p, of) : TACHY_ERR_NOMEM;
    for (int i = n - 1; i >= 0 && err == TACHY_OK; i--)
        label[i] = is_finite(point + (size_t)i * (size_t)size, size) ? of[--m] : -1;
    free(kept);
    free(of);
    return err;
}
