#include "compare/judge.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

// Connectivity error: C. Rhemann et al., "A Perceptually Motivated Online Benchmark for Image Matting", CVPR 2009,
// section 3. The source region is the largest 4-connected region where both mattes are opaque. A pixel's level is the
// highest threshold at which it is 4-connected to that region; phi = 1 - d for d = alpha - level >= 0.15, else 1. The
// error is the sum of |phi - phi of the truth|.
//
// Levels are exact: the pixels around the region are visited from the highest level down, with a list for each of
// 65536 steps of alpha, which keep apart all values that 16 bits have.

#define OPAQUE 0.99f // what an encoder leaves of 1
#define THETA 0.15f
enum { STEPS = 65536 };

// The four neighbours of pixel i, -1 past an edge.
static void beside(int32_t i, const struct tachy_matte *m, int32_t out[4])
{
    int32_t x = i % m->width, y = i / m->width;
    out[0] = x > 0 ? i - 1 : -1;
    out[1] = x < m->width - 1 ? i + 1 : -1;
    out[2] = y > 0 ? i - m->width : -1;
    out[3] = y < m->height - 1 ? i + m->width : -1;
}

static bool opaque(const struct tachy_matte *a, const struct tachy_matte *b, int32_t i)
{
    return a->alpha[i] >= OPAQUE && b->alpha[i] >= OPAQUE;
}

// Gives the region of pixel `first` a label; returns its size. `stack` has room for all pixels.
static int64_t fill(const struct tachy_matte *a, const struct tachy_matte *b, int32_t first, int32_t label,
                    int32_t *labels, int32_t *stack)
{
    int64_t size = 0;
    int32_t nb = 0, near[4];
    stack[nb++] = first;
    labels[first] = label;
    while (nb) {
        beside(stack[--nb], a, near);
        size++;
        for (int k = 0; k < 4; k++)
            if (near[k] >= 0 && !labels[near[k]] && opaque(a, b, near[k])) {
                labels[near[k]] = label;
                stack[nb++] = near[k];
            }
    }
    return size;
}

// The label of the source region, of the first one among several of one size; -1: there is none.
static int32_t source_region(const struct tachy_matte *a, const struct tachy_matte *b, int32_t *labels, int32_t *stack)
{
    int32_t n = a->width * a->height, count = 0, best = -1;
    int64_t most = 0;
    memset(labels, 0, (size_t)n * sizeof(*labels));
    for (int32_t i = 0; i < n; i++) {
        if (labels[i] || !opaque(a, b, i))
            continue;
        int64_t size = fill(a, b, i, ++count, labels, stack);
        if (size > most) {
            most = size;
            best = count;
        }
    }
    return best;
}

// Pixels that were reached and whose neighbours were not looked at yet: a list for each step.
struct reached {
    int32_t *first; // STEPS
    int32_t *next;
    float *level; // below 0: not reached
};

static void reach(struct reached *r, int32_t i, float level)
{
    int32_t step = (int32_t)lrintf(level * (STEPS - 1));
    r->level[i] = level;
    r->next[i] = r->first[step];
    r->first[step] = i;
}

static void find_levels(struct reached *r, const struct tachy_matte *m, const int32_t *labels, int32_t source)
{
    int32_t n = m->width * m->height, near[4];
    memset(r->first, 0xff, STEPS * sizeof(*r->first)); // -1
    for (int32_t i = 0; i < n; i++) {
        r->level[i] = -1;
        if (labels[i] == source)
            reach(r, i, m->alpha[i]);
    }
    for (int32_t step = STEPS - 1; step > 0; step--)
        while (r->first[step] >= 0) {
            int32_t i = r->first[step];
            r->first[step] = r->next[i];
            beside(i, m, near);
            for (int k = 0; k < 4; k++)
                if (near[k] >= 0 && r->level[near[k]] < 0)
                    reach(r, near[k], TACHY_MIN(r->level[i], m->alpha[near[k]]));
        }
}

static float phi(float alpha, float level)
{
    float d = alpha - TACHY_MAX(level, 0.f); // at threshold 0 all is connected
    return d >= THETA ? 1 - d : 1;
}

double tachy_matte_connectivity(const struct tachy_matte *m, const struct tachy_matte *truth, void *const plane[4])
{
    int32_t *labels = plane[0], n = m->width * m->height;
    float *phis = plane[3];
    struct reached r = {.first = malloc(STEPS * sizeof(*r.first)), .next = plane[1], .level = plane[2]};
    if (!r.first)
        return NAN;
    int32_t source = source_region(m, truth, labels, r.next);
    find_levels(&r, m, labels, source);
    for (int32_t i = 0; i < n; i++)
        phis[i] = phi(m->alpha[i], r.level[i]);
    find_levels(&r, truth, labels, source);
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += fabsf(phis[i] - phi(truth->alpha[i], r.level[i]));
    free(r.first);
    return sum;
}
