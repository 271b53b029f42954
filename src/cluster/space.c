#include "cluster/space.h"

#include "base/cpu.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

// The margin, with u = 2^-24, for scaled points of squared lengths A and B: the product of n elements is off by at most
// n u (A + B) / 2 to first order, and each scaled coordinate by u of itself, which changes the squared distance by at most
// 4 u (A + B). So the squared distance is at least (1 - c) (A + B) - 2 dot if c is a little more than (n + 4) u.
static const double UNIT = 0x1p-24;
enum { LONGEST = 1 << 19 }; // from here on the margin would not hold, and every pair is measured

// The next lower number in 32 bits, with room for the rounding of a sum of two and for products that underflow.
static float lower(double v)
{
    v -= fabs(v) * 4 * UNIT + 1e-30;
    return (float)TACHY_MAX(v, -(double)FLT_MAX);
}

static float scaled(const struct cluster_space *s, int i, int k)
{
    return (float)(((double)s->point[(size_t)i * (size_t)s->size + (size_t)k] - s->mean[k]) * s->scale);
}

static void set_scale(struct cluster_space *s)
{
    double most = 0;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->size; k++)
            s->mean[k] += (double)s->point[(size_t)i * (size_t)s->size + (size_t)k];
    for (int k = 0; k < s->size; k++)
        s->mean[k] /= s->n;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->size; k++)
            most = fmax(most, fabs((double)s->point[(size_t)i * (size_t)s->size + (size_t)k] - s->mean[k]));
    int exponent = 0;
    frexp(most, &exponent);
    s->scale = ldexp(1, -exponent);
}

int cluster_space_open(struct cluster_space *s, const float *point, int n, int size)
{
    *s = (struct cluster_space){.point = point, .n = n, .size = size, .dots = tachy_dots_for(NULL)};
    s->mean = calloc((size_t)size + 1, sizeof(*s->mean));
    s->half = malloc(((size_t)n + 1) * sizeof(*s->half));
    if (!s->mean || !s->half)
        return TACHY_ERR_NOMEM;
    set_scale(s);
    double margin = (size + 16) * UNIT * 1.0625;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < size; k++)
            sum += (double)scaled(s, i, k) * (double)scaled(s, i, k);
        s->half[i] = size < LONGEST ? lower((1 - margin) * sum / 2) : -FLT_MAX;
    }
    return TACHY_OK;
}

void cluster_space_close(struct cluster_space *s)
{
    free(s->mean);
    free(s->half);
}

void cluster_pack(const struct cluster_space *s, const int32_t *number, int count, int lanes, float *to)
{
    for (int l = 0; l < lanes; l++)
        for (int k = 0, i = number[TACHY_MIN(l, count - 1)]; k < s->size; k++)
            to[(size_t)k * (size_t)lanes + (size_t)l] = scaled(s, i, k);
}

float cluster_threshold(const struct cluster_space *s, int i, double limit)
{
    return lower((double)s->half[i] - limit * s->scale * s->scale / 2);
}

// ---- Measuring

enum { WIDE = 8 };
typedef float floats __attribute__((vector_size(WIDE * sizeof(float))));
typedef double doubles __attribute__((vector_size(WIDE * sizeof(double))));

struct pair {
    const float *a, *b;
    int size;
    double sum;
};

static inline __attribute__((always_inline)) void measure(struct pair *p)
{
    doubles sum[2] = {0};
    double last = 0;
    int k = 0;
    for (; k + 2 * WIDE <= p->size; k += 2 * WIDE)
        for (int h = 0; h < 2; h++) {
            floats a, b;
            memcpy(&a, p->a + k + h * WIDE, sizeof(a));
            memcpy(&b, p->b + k + h * WIDE, sizeof(b));
            doubles d = __builtin_convertvector(a, doubles) - __builtin_convertvector(b, doubles);
            sum[h] += d * d;
        }
    for (; k < p->size; k++)
        last += ((double)p->a[k] - (double)p->b[k]) * ((double)p->a[k] - (double)p->b[k]);
    sum[0] += sum[1];
    for (int i = 0; i < WIDE; i++)
        last += sum[0][i];
    p->sum = last;
}
TACHY_CPU_BEST(measure, struct pair *)

double cluster_distance(const struct cluster_space *s, int i, int j)
{
    struct pair p = {s->point + (size_t)i * (size_t)s->size, s->point + (size_t)j * (size_t)s->size, s->size, 0};
    measure_best(&p);
    return p.sum;
}
