#include "cluster/hdbscan.h"

#include "base/cpu.h"
#include "base/team.h"

#include <math.h>
#include <stdlib.h>

// Core distances, then the minimum spanning tree of mutual reachability by Prim's algorithm. Distances are computed in
// blocks as needed and never stored. All are squared.

enum { LANES = 16, QUERIES = 4 };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

// Distances of a few queries to LANES candidates, whose coordinates lie side by side.
struct block {
    const float *query[QUERIES], *candidate;
    int size;
    float out[QUERIES][LANES];
};

static inline __attribute__((always_inline)) void distances(struct block *b)
{
    lanes sum[QUERIES] = {0};
    const float *c = b->candidate;
    for (int k = 0; k < b->size; k++, c += LANES) {
        lanes v;
        memcpy(&v, c, sizeof(v));
        for (int q = 0; q < QUERIES; q++) {
            lanes d = b->query[q][k] - v;
            sum[q] += d * d;
        }
    }
    memcpy(b->out, sum, sizeof(sum));
}
TACHY_CPU_BEST(distances, struct block *)

// One query and many blocks, two at a time. Sums run as those of distances(): a distance has the same bits in both.
struct sweep {
    const float *query, *candidate;
    int size, blocks;
    float *out; // LANES * blocks
};

static inline __attribute__((always_inline)) void sweep(struct sweep *s)
{
    ptrdiff_t next = (ptrdiff_t)s->size * LANES;
    for (int i = 0; i < s->blocks; i += 2) {
        const float *c = s->candidate + i * next, *e = i + 1 < s->blocks ? c + next : c;
        lanes sum[2] = {0};
        for (int k = 0; k < s->size; k++) {
            lanes v[2];
            memcpy(&v[0], c + (ptrdiff_t)k * LANES, sizeof(v[0]));
            memcpy(&v[1], e + (ptrdiff_t)k * LANES, sizeof(v[1]));
            for (int j = 0; j < 2; j++) {
                lanes d = s->query[k] - v[j];
                sum[j] += d * d;
            }
        }
        memcpy(s->out + i * LANES, &sum[0], sizeof(sum[0]));
        if (i + 1 < s->blocks)
            memcpy(s->out + (i + 1) * LANES, &sum[1], sizeof(sum[1]));
    }
}
TACHY_CPU_BEST(sweep, struct sweep *)

struct cluster_work {
    const float *point;
    int n, size, threads, samples;
    float *best;   // threads * QUERIES * samples: the nearest so far
    float *core;   // of each point
    // The points that are not in the tree yet, and some that are; in the order of their numbers.
    int left;
    float *packed; // blocks of LANES points, coordinate by coordinate
    int32_t *number;
    float *reach;  // to the tree; -1: it is in the tree
    int32_t *from; // the point of the tree that is so near
    float *room;   // distances of a step
    int32_t now;   // the point that came to the tree last
    struct {
        float reach;
        int32_t at; // in `number`; -1: none
        char apart[56];
    } *nearest; // of each piece
};

// Packs the points that are not in the tree.
static void pack(struct cluster_work *w)
{
    int n = 0;
    for (int i = 0; i < w->left; i++)
        if (w->reach[i] >= 0) {
            w->number[n] = w->number[i];
            w->reach[n] = w->reach[i];
            w->from[n++] = w->from[i];
        }
    w->left = n;
    for (int i = 0; i < TACHY_ALIGN(n, LANES); i++) {
        const float *p = w->point + (size_t)w->number[TACHY_MIN(i, n - 1)] * (size_t)w->size;
        float *to = w->packed + (size_t)(i / LANES) * (size_t)w->size * LANES + (size_t)(i % LANES);
        for (int k = 0; k < w->size; k++)
            to[(size_t)k * LANES] = p[k];
    }
}

static void run_all(struct cluster_work *w, struct tachy_team *team, void (*piece)(void *, int, int))
{
    if (team)
        tachy_team_run(team, piece, w);
    else
        piece(w, 0, 0);
}

// ---- Core distances

// Keeps the `samples` least distances, the least first.
static void keep_least(float *best, int samples, const float *d, int n)
{
    float *last = best + samples - 1;
    for (int i = 0; i < n; i++) {
        if (d[i] >= *last)
            continue;
        float *at = last;
        for (; at > best && at[-1] > d[i]; at--)
            *at = at[-1];
        *at = d[i];
    }
}

static void core_piece(void *user, int thread, int piece)
{
    struct cluster_work *w = user;
    float *best = w->best + (size_t)thread * QUERIES * (size_t)w->samples;
    int groups = (w->n + QUERIES - 1) / QUERIES;
    for (int g = (int)((int64_t)piece * groups / w->threads); g < (int)((int64_t)(piece + 1) * groups / w->threads); g++) {
        struct block b = {.size = w->size};
        for (int q = 0; q < QUERIES; q++)
            b.query[q] = w->point + (size_t)TACHY_MIN(g * QUERIES + q, w->n - 1) * (size_t)w->size;
        for (int i = 0; i < QUERIES * w->samples; i++)
            best[i] = INFINITY;
        for (int first = 0; first < w->n; first += LANES) {
            b.candidate = w->packed + (size_t)first * (size_t)w->size;
            distances_best(&b);
            for (int q = 0; q < QUERIES; q++)
                keep_least(best + q * w->samples, w->samples, b.out[q], TACHY_MIN(LANES, w->n - first));
        }
        for (int q = 0; q < QUERIES && g * QUERIES + q < w->n; q++)
            w->core[g * QUERIES + q] = best[(q + 1) * w->samples - 1];
    }
}

// ---- The tree

// Computes distances from the point added last to the remaining ones, and which of these is now nearest to the tree.
static void step_piece(void *user, int thread, int piece)
{
    struct cluster_work *w = user;
    int blocks = (w->left + LANES - 1) / LANES, b0 = (int)((int64_t)piece * blocks / w->threads);
    int b1 = (int)((int64_t)(piece + 1) * blocks / w->threads), end = TACHY_MIN(b1 * LANES, w->left);
    struct sweep s = {w->point + (size_t)w->now * (size_t)w->size, w->packed + (size_t)b0 * LANES * (size_t)w->size, w->size, b1 - b0,
                      w->room + (size_t)b0 * LANES};
    float core = w->core[w->now], least = INFINITY;
    int32_t at = -1;
    sweep_best(&s);
    for (int i = b0 * LANES; i < end; i++) {
        if (w->reach[i] < 0)
            continue;
        float reach = TACHY_MAX(w->room[i], core);
        if (reach < w->reach[i]) {
            reach = TACHY_MAX(reach, w->core[w->number[i]]);
            if (reach < w->reach[i]) {
                w->reach[i] = reach;
                w->from[i] = w->now;
            }
        }
        if (at < 0 || w->reach[i] < least) {
            least = w->reach[i];
            at = i;
        }
    }
    w->nearest[piece].reach = least;
    w->nearest[piece].at = at;
}

static void span(struct cluster_work *w, struct tachy_team *team, struct cluster_edge *edge)
{
    int taken = 0;
    for (int i = 0; i < w->n; i++) {
        w->number[i] = i;
        w->reach[i] = INFINITY;
        w->from[i] = 0;
    }
    w->left = w->n;
    pack(w);
    if (w->samples > 1) // else each point is its own nearest, at 0
        run_all(w, team, core_piece);
    w->now = 0;
    w->reach[0] = -1;
    for (int i = 0; i < w->n - 1; i++) {
        if (++taken > w->left / 4 + 64) {
            pack(w);
            taken = 0;
        }
        run_all(w, team, step_piece);
        int best = 0;
        for (int k = 1; k < w->threads; k++)
            if (w->nearest[k].at >= 0 && (w->nearest[best].at < 0 || w->nearest[k].reach < w->nearest[best].reach))
                best = k;
        int32_t at = w->nearest[best].at;
        edge[i] = (struct cluster_edge){w->reach[at], w->from[at], w->number[at], i};
        w->now = w->number[at];
        w->reach[at] = -1;
    }
}

static int cluster_finite(const float *point, int n, int size, const struct tachy_cluster_params *p, int32_t *label)
{
    size_t all = (size_t)TACHY_ALIGN(n, LANES);
    for (int i = 0; i < n; i++)
        label[i] = -1;
    if (n < TACHY_MAX(p->least, 2))
        return TACHY_OK;
    struct cluster_work w = {.point = point, .n = n, .size = size, .threads = TACHY_CLAMP(p->threads, 1, 256),
                             .samples = TACHY_MIN(TACHY_DEF(p->samples, p->least), n)};
    struct tachy_team *team = w.threads > 1 ? tachy_team_open(w.threads) : NULL;
    struct cluster_edge *edge = malloc(all * sizeof(*edge));
    w.threads = team ? w.threads : 1;
    w.packed = tachy_aligned_alloc(all * (size_t)size * sizeof(float));
    w.core = calloc(all, sizeof(float));
    w.reach = malloc(all * sizeof(float));
    w.room = malloc(all * sizeof(float));
    w.number = malloc(all * sizeof(int32_t));
    w.from = malloc(all * sizeof(int32_t));
    w.best = malloc((size_t)w.threads * QUERIES * (size_t)w.samples * sizeof(float));
    w.nearest = calloc((size_t)w.threads, sizeof(*w.nearest));
    bool there = edge && w.packed && w.core && w.reach && w.room && w.number && w.from && w.best && w.nearest;
    if (there)
        span(&w, team, edge);
    int err = there ? cluster_tree(edge, n, p, label) : TACHY_ERR_NOMEM;
    tachy_team_close(team);
    tachy_aligned_free(w.packed);
    void *const mem[] = {edge, w.core, w.reach, w.room, w.number, w.from, w.best, w.nearest};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(mem); i++)
        free(mem[i]);
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
