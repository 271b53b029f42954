#include "search/vectors.h"

#include "base/cpu.h"
#include "base/npy.h"
#include "base/path.h"
#include "base/team.h"
#include "search/dot_half.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

// ---- Comparing

enum { BLOCK = 64 }; // rows that stay in the cache while all queries go over them

// A search, shared by all threads.
struct search {
    const struct tachy_rows *r;
    const float *queries;
    tachy_dot_half *dot;
    int n, k, threads;
    struct tachy_hit *heap; // of each thread, of each query: k, the worst one first
    int *counts;            // of each thread, of each query
};

static bool worse(const struct tachy_hit *a, const struct tachy_hit *b)
{
    return a->score < b->score || (a->score == b->score && a->row > b->row);
}

// Moves the first element of a heap to its place.
static void sink(struct tachy_hit *h, int n)
{
    for (int i = 0, child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && worse(&h[child + 1], &h[child]))
            child++;
        if (!worse(&h[child], &h[i]))
            break;
        struct tachy_hit t = h[i];
        h[i] = h[child];
        h[child] = t;
    }
}

static void add(struct tachy_hit *h, int *n, int k, struct tachy_hit hit)
{
    if (*n == k) {
        if (!worse(&h[0], &hit))
            return;
        h[0] = hit;
        sink(h, k);
        return;
    }
    int i = (*n)++;
    for (; i && worse(&hit, &h[(i - 1) / 2]); i = (i - 1) / 2)
        h[i] = h[(i - 1) / 2];
    h[i] = hit;
}

static void search_part(void *user, int thread, int piece)
{
    const struct search *s = user;
    const struct tachy_rows *r = s->r;
    int64_t begin = r->rows * piece / s->threads, end = r->rows * (piece + 1) / s->threads;
    for (int64_t at = begin; at < end; at += BLOCK)
        for (int q = 0; q < s->n; q++) {
            struct tachy_hit *heap = s->heap + ((size_t)piece * (size_t)s->n + (size_t)q) * (size_t)s->k;
            int *count = &s->counts[piece * s->n + q];
            for (int64_t i = at; i < TACHY_MIN(at + BLOCK, end); i++) {
                float score = s->dot(r->v + i * r->size, s->queries + (size_t)q * (size_t)r->size, r->size);
                if (*count < s->k || score >= heap[0].score)
                    add(heap, count, s->k, (struct tachy_hit){i, score});
            }
        }
}

static int by_score(const void *a, const void *b) { return worse(a, b) ? 1 : worse(b, a) ? -1 : 0; }

// The threads' hits of a query become one list.
static void join(const struct search *s, int q, struct tachy_hit *hits, int *count)
{
    int n = 0;
    for (int t = 0; t < s->threads; t++)
        for (int i = 0; i < s->counts[t * s->n + q]; i++)
            add(hits, &n, s->k, s->heap[((size_t)t * (size_t)s->n + (size_t)q) * (size_t)s->k + (size_t)i]);
    qsort(hits, (size_t)n, sizeof(*hits), by_score);
    *count = n;
}

int tachy_rows_search(const struct tachy_rows *r, const float *queries, int n, int k, int threads, struct tachy_hit *hits, int *counts)
{
    enum { ROWS_OF_A_THREAD = 4096 }; // fewer are done before a thread has begun
    threads = (int)TACHY_MIN(TACHY_DEF(threads, tachy_cpu_count()), r->rows / ROWS_OF_A_THREAD + 1);
    struct search s = {r, queries, tachy_dot_half_for(NULL), n, k, threads, NULL, NULL};
    s.heap = calloc((size_t)threads * (size_t)n * (size_t)k, sizeof(*s.heap));
    s.counts = calloc((size_t)threads * (size_t)n, sizeof(*s.counts));
    bool ready = s.heap && s.counts;
    if (ready)
        tachy_team_once(threads, search_part, &s);
    for (int q = 0; q < n && ready; q++)
        join(&s, q, hits + (size_t)q * (size_t)k, &counts[q]);
    free(s.heap);
    free(s.counts);
    return ready ? TACHY_OK : TACHY_ERR_NOMEM;
}

// ---- Files

int tachy_vectors_open(struct tachy_vectors *v, const char *path, const struct tachy_log *log)
{
    struct tachy_npy a;
    uint64_t size;
    FILE *f;
    memset(v, 0, sizeof(*v));
    int err = tachy_open_regular(&f, path, &size, log);
    if (err < 0)
        return err;
    // Private: reading the header writes into it.
    void *map = size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(f), 0) : MAP_FAILED;
    int code = size ? errno : 0;
    fclose(f);
    if (map == MAP_FAILED)
        return code ? tachy_fail(log, TACHY_ERR_IO, "%s: cannot be mapped: %s", path, strerror(code))
                    : tachy_fail(log, TACHY_ERR_FORMAT, "%s: is empty", path);
    v->map = map;
    v->bytes = size;
    err = tachy_npy_parse(&a, map, size, path, log);
    if (err == TACHY_OK && (a.kind != 'f' || a.size != 2 || a.rank != 2 || a.shape[1] < 1 || a.shape[1] > 65536))
        err = tachy_fail(log, TACHY_ERR_FORMAT, "%s: must hold a row of float16 for each vector; numpy's x.astype(\"float16\") makes it", path);
    if (err < 0) {
        tachy_vectors_close(v);
        return err;
    }
    v->rows = (struct tachy_rows){a.data, a.shape[0], (int)a.shape[1]};
    return TACHY_OK;
}

void tachy_vectors_close(struct tachy_vectors *v)
{
    if (v->map)
        munmap(v->map, v->bytes);
    memset(v, 0, sizeof(*v));
}
