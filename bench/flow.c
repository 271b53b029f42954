// bench/flow WIDTH HEIGHT IN OUT [THREADS]: dense flow of pairs of luma pictures. IN: two raw pictures for each pair; OUT: u and v of
// each pixel in turn as floats. Prints the seconds that the pairs took, on the wall and on the cores; files are not counted.
#include "flow/flow.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct job {
    int width, height, pairs;
    uint8_t *in;
    float *out;
    _Atomic int next;
};

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *work(void *of)
{
    struct job *j = of;
    size_t n = (size_t)j->width * (size_t)j->height;
    float *u = malloc(n * sizeof(float)), *v = malloc(n * sizeof(float));
    tachy_flow *f = NULL;
    if (!u || !v || tachy_flow_open(&f, j->width, j->height, TACHY_FLOW_PICTURE) < 0)
        abort();
    for (int i; (i = atomic_fetch_add(&j->next, 1)) < j->pairs;) {
        const uint8_t *here = j->in + 2 * n * (size_t)i;
        float *out = j->out + 2 * n * (size_t)i;
        tachy_flow_run(f, here, here + n, u, v);
        for (size_t k = 0; k < n; k++) {
            out[2 * k] = u[k];
            out[2 * k + 1] = v[k];
        }
    }
    tachy_flow_close(&f);
    free(u);
    free(v);
    return NULL;
}

static int load(struct job *j, const char *path)
{
    size_t pair = 2 * (size_t)j->width * (size_t)j->height;
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) < 0)
        return -1;
    j->pairs = (int)((size_t)ftell(f) / pair);
    rewind(f);
    j->in = malloc((size_t)j->pairs * pair);
    j->out = calloc((size_t)j->pairs * pair, sizeof(float));
    bool whole = j->in && j->out && fread(j->in, pair, (size_t)j->pairs, f) == (size_t)j->pairs;
    return fclose(f) == 0 && whole ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct job j = {0};
    int threads = argc > 5 ? atoi(argv[5]) : 1;
    if (argc < 5 || (j.width = atoi(argv[1])) < 1 || (j.height = atoi(argv[2])) < 1 || threads < 1 || threads > 64) {
        fprintf(stderr, "usage: flow WIDTH HEIGHT IN OUT [THREADS]\n");
        return 2;
    }
    if (load(&j, argv[3]) < 0) {
        fprintf(stderr, "%s: cannot be read\n", argv[3]);
        return 1;
    }
    pthread_t thread[64];
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, work, &j))
            abort();
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    wall = seconds(CLOCK_MONOTONIC) - wall;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    FILE *f = fopen(argv[4], "wb");
    size_t all = 2 * (size_t)j.width * (size_t)j.height * (size_t)j.pairs;
    if (!f || fwrite(j.out, sizeof(float), all, f) != all || fclose(f)) {
        fprintf(stderr, "%s: cannot be written\n", argv[4]);
        return 1;
    }
    printf("{\"pairs\":%d,\"wall\":%.6f,\"cpu\":%.6f}\n", j.pairs, wall, cpu);
    free(j.in);
    free(j.out);
    return 0;
}
