#include "base/clock.h"
#include "base/cpu.h"
#include "base/half.h"
#include "base/mix.h"
#include "base/team.h"
#include "search/dot_half.h"
#include "search/vectors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

// search [ROWS [SIZE [QUERIES]]]: time of a search through random unit vectors in memory, alternating with a plain read
// of the same memory by as many threads, and recall@10 against the same vectors in float32, as JSON for bench/search.

enum { K = 10, ROUNDS = 9 };

struct store {
    struct tachy_rows rows;
    int64_t nb;
    int size, threads;
    uint64_t seed, sums[256];
};

// About normal, from 128 bits.
static float draw(uint64_t *seed)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(*seed >> 40) * 0x1p-24f - 0.5f;
    }
    return sum;
}

static void draw_row(float *v, int n, uint64_t seed)
{
    double sum = 0;
    seed = tachy_mix(1, &seed, sizeof(seed));
    for (int i = 0; i < n; i++) {
        v[i] = draw(&seed);
        sum += (double)v[i] * (double)v[i];
    }
    for (int i = 0; i < n; i++)
        v[i] = (float)((double)v[i] / sqrt(sum));
}

static void fill(void *user, int thread, int piece)
{
    struct store *s = user;
    float *v = malloc((size_t)s->size * sizeof(*v));
    for (int64_t row = s->nb * piece / s->threads; row < s->nb * (piece + 1) / s->threads; row++) {
        draw_row(v, s->size, (uint64_t)row);
        uint16_t *to = (uint16_t *)(uintptr_t)s->rows.v + row * s->size;
        for (int i = 0; i < s->size; i++)
            to[i] = tachy_float_to_half(v[i]);
    }
    free(v);
}

// Every byte once, eight sums so that no addition waits for another.
static void read_all(void *user, int thread, int piece)
{
    struct store *s = user;
    size_t bytes = (size_t)s->nb * (size_t)s->size * 2 / (size_t)s->threads, words = bytes / 8;
    const uint64_t *p = (const uint64_t *)(const void *)((const char *)s->rows.v + bytes / 64 * 64 * (size_t)piece);
    uint64_t sum[8] = {0};
    for (size_t i = 0; i + 8 <= words; i += 8)
        for (int k = 0; k < 8; k++)
            sum[k] += p[i + (size_t)k];
    for (int k = 0; k < 8; k++)
        s->sums[piece] += sum[k];
}

static int by_time(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

// Counts how many of each query's K best by exact vectors are among the hits.
static int recalled(const struct store *s, const float *queries, int n, const struct tachy_hit *hits)
{
    float *v = malloc((size_t)s->size * sizeof(*v));
    struct tachy_hit *best = calloc((size_t)n * K, sizeof(*best));
    int found = 0;
    for (int i = 0; i < n * K; i++)
        best[i] = (struct tachy_hit){-1, -2};
    for (int64_t row = 0; row < s->nb; row++) {
        draw_row(v, s->size, (uint64_t)row);
        for (int q = 0; q < n; q++) {
            struct tachy_hit *b = best + q * K;
            float dot = 0;
            int at = 0;
            for (int i = 0; i < s->size; i++)
                dot += v[i] * queries[q * s->size + i];
            for (int i = 1; i < K; i++)
                at = b[i].score < b[at].score ? i : at;
            if (dot > b[at].score)
                b[at] = (struct tachy_hit){row, dot};
        }
    }
    for (int i = 0; i < n * K; i++)
        for (int k = i / K * K; k < i / K * K + K; k++)
            found += best[i].row == hits[k].row;
    free(v);
    free(best);
    return found;
}

int main(int argc, char **argv)
{
    struct store s = {.nb = argc > 1 ? atoll(argv[1]) : 1000000, .size = argc > 2 ? atoi(argv[2]) : 512, .threads = tachy_cpu_count()};
    int queries = argc > 3 ? TACHY_MAX(atoi(argv[3]), 1) : 20;
    size_t bytes = (size_t)s.nb * (size_t)s.size * 2;
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct tachy_team *team = s.threads > 1 ? tachy_team_open(s.threads) : NULL;
    float *q = calloc((size_t)s.size * (size_t)queries, sizeof(*q));
    struct tachy_hit *hits = calloc((size_t)queries * K, sizeof(*hits));
    int *counts = calloc((size_t)queries, sizeof(*counts));
    double searched[ROUNDS], read[ROUNDS];
    if (mem == MAP_FAILED || !q || !hits || !counts || s.threads > 256)
        return 1;
    madvise(mem, bytes, MADV_HUGEPAGE);
    s.rows = (struct tachy_rows){mem, s.nb, s.size};
    if (team)
        tachy_team_run(team, fill, &s);
    else
        fill(&s, 0, 0);
    draw_row(q, s.size, UINT64_MAX);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t t = tachy_now_ns();
        if (team)
            tachy_team_run(team, read_all, &s);
        else
            read_all(&s, 0, 0);
        read[i] = (double)(tachy_now_ns() - t) / 1e6;
        t = tachy_now_ns();
        if (tachy_rows_search(&s.rows, q, 1, K, s.threads, hits, counts) < 0)
            return 1;
        searched[i] = (double)(tachy_now_ns() - t) / 1e6;
    }
    qsort(searched, ROUNDS, sizeof(double), by_time);
    qsort(read, ROUNDS, sizeof(double), by_time);
    for (int i = 0; i < queries; i++)
        draw_row(q + i * s.size, s.size, UINT64_MAX - 1 - (uint64_t)i);
    if (tachy_rows_search(&s.rows, q, queries, K, s.threads, hits, counts) < 0)
        return 1;
    printf("{\"rows\":%lld,\"size\":%d,\"threads\":%d,\"isa\":\"%s\",\"search_ms\":%.2f,\"search_min_ms\":%.2f,\"search_max_ms\":%.2f,"
           "\"read_ms\":%.2f,\"read_gb_s\":%.2f,\"queries\":%d,\"recall\":%.5f,\"sum\":%llu}\n", (long long)s.nb, s.size, s.threads,
           tachy_isa_name(tachy_cpu_isa()), searched[ROUNDS / 2], searched[0], searched[ROUNDS - 1], read[ROUNDS / 2],
           (double)bytes / read[ROUNDS / 2] / 1e6, queries, (double)recalled(&s, q, queries, hits) / (K * queries),
           (unsigned long long)s.sums[0]);
    tachy_team_close(team);
    munmap(mem, bytes);
    free(q);
    free(hits);
    free(counts);
    return 0;
}
