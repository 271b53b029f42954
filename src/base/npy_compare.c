#include "base/half.h"
#include "base/npy.h"

#include <math.h>
#include <string.h>

#define LOAD(type)                                                                                 \
    {                                                                                              \
        type v;                                                                                    \
        memcpy(&v, (const char *)data + i * sizeof(v), sizeof(v));                                 \
        return (double)v;                                                                          \
    }

static double value_at(const struct tachy_npy *a, const void *data, size_t i)
{
    uint16_t h;
    if (a->kind == 'f' && a->size == 2) {
        memcpy(&h, (const char *)data + i * 2, 2);
        return (double)tachy_half_to_float(h);
    }
    if (a->kind == 'f' && a->size == 4)
        LOAD(float)
    if (a->kind == 'f')
        LOAD(double)
    if (a->kind == 'u' && a->size == 1)
        LOAD(uint8_t)
    if (a->kind == 'u' && a->size == 2)
        LOAD(uint16_t)
    if (a->size == 1)
        LOAD(int8_t)
    if (a->size == 2)
        LOAD(int16_t)
    if (a->size == 4)
        LOAD(int32_t)
    LOAD(int64_t)
}

// Difference of two values; 0 for equal ones (also infinite, or NaN and NaN).
static double difference(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    double d = fabs(a - b);
    return isnan(d) ? INFINITY : d;
}

void tachy_npy_compare(struct tachy_npy_difference *d, const struct tachy_npy *saved, const void *now)
{
    size_t n = saved->bytes / (size_t)saved->size;
    double lo = INFINITY, hi = -INFINITY, sum = 0;
    if (!memcmp(saved->data, now, saved->bytes))
        return;
    d->identical = false;
    for (size_t i = 0; i < n; i++) {
        double a = value_at(saved, saved->data, i);
        double e = difference(a, value_at(saved, now, i));
        sum += e * e;
        d->max = fmax(d->max, e);
        lo = fmin(lo, a);
        hi = fmax(hi, a);
    }
    d->mse = fmax(d->mse, sum / (double)n);
    // Pictures and masks have a range of their own.
    d->range = fmax(d->range, saved->kind == 'u' && saved->size == 1 ? 255 : hi - lo);
}

double tachy_npy_psnr(const struct tachy_npy_difference *d)
{
    if (d->mse <= 0)
        return INFINITY;
    return d->range > 0 ? 10 * log10(d->range * d->range / d->mse) : 0;
}
