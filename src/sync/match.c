#include "sync/sync.h"

#include <math.h>
#include <stdlib.h>

// Where a mouth and a sound fit best.

enum { FAST = 7, SLOW = 201 }; // values, of the mouth
static const double longest_gap = 0.25; // seconds without a frame of the mouth

int tachy_sync_mouth(const struct tachy_mouth *m, int nb, int first, int n, float *to, bool *seen)
{
    int known = 0;
    for (int i = 0, k = 0; i < n; i++) {
        double t = (first + i + 0.5) / TACHY_SYNC_RATE;
        while (k + 1 < nb && m[k + 1].time <= t)
            k++;
        double after = k + 1 < nb ? m[k + 1].time - m[k].time : 0;
        bool between = nb && t >= m[k].time && after > 0;
        double share = between ? (t - m[k].time) / after : 0;
        to[i] = !nb ? 0 : between ? (float)((double)m[k].open + share * ((double)m[k + 1].open - (double)m[k].open)) : m[k].open;
        known += nb && (between ? after : fabs(t - m[k].time)) <= longest_gap;
    }
    int err = tachy_sync_band(to, n, FAST, SLOW);
    double moves = 0;
    for (int i = 0; i < n && err == TACHY_OK; i++)
        moves += (double)to[i] * (double)to[i];
    *seen = 2 * known >= n && moves > 1e-6 * n; // a thousandth of the distance of the eyes
    return err;
}

// Of n values each.
static double correlation(const float *a, const float *b, int n)
{
    double sa = 0, sb = 0, aa = 0, bb = 0, ab = 0;
    for (int i = 0; i < n; i++) {
        sa += (double)a[i];
        sb += (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
        ab += (double)a[i] * (double)b[i];
    }
    double va = aa - sa * sa / n, vb = bb - sb * sb / n;
    return va > 1e-9 * n && vb > 1e-9 * n ? (ab - sa * sb / n) / sqrt(va * vb) : 0;
}

void tachy_sync_curve(const struct tachy_heard *h, const float *mouth, int first, int n, double curve[TACHY_SYNC_CURVE])
{
    for (int i = 0; i < TACHY_SYNC_CURVE; i++) {
        int at = first + i - TACHY_SYNC_LAGS; // of the sound, beside mouth[0]
        int from = TACHY_MAX(-at, 0), end = TACHY_MIN(n, h->n - at);
        curve[i] = 0;
        for (int k = 0; k < TACHY_SYNC_VOICES && end - from >= TACHY_MAX(n / 2, TACHY_SYNC_RATE); k++)
            curve[i] += correlation(mouth + from, h->signal[k] + at + from, end - from) / TACHY_SYNC_VOICES;
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tachy_sync_median(const double *v, int n)
{
    double sorted[TACHY_SYNC_CURVE];
    memcpy(sorted, v, (size_t)n * sizeof(*v));
    qsort(sorted, (size_t)n, sizeof(*sorted), compare);
    return sorted[n / 2];
}

struct tachy_sync_peak tachy_sync_peak(const double curve[TACHY_SYNC_CURVE], double seconds)
{
    double shift = 0;
    int at = TACHY_SYNC_LAGS;
    for (int i = 0; i < TACHY_SYNC_CURVE; i++)
        if (curve[i] > curve[at])
            at = i;
    if (at > 0 && at + 1 < TACHY_SYNC_CURVE) { // the top of the parabola through three values
        double bend = curve[at - 1] - 2 * curve[at] + curve[at + 1];
        shift = bend < 0 ? (curve[at - 1] - curve[at + 1]) / (2 * bend) : 0;
    }
    return (struct tachy_sync_peak){
        .offset_ms = (at - TACHY_SYNC_LAGS + TACHY_CLAMP(shift, -0.5, 0.5)) * 1000 / TACHY_SYNC_RATE,
        .fit = curve[at],
        .confidence = (curve[at] - tachy_sync_median(curve, TACHY_SYNC_CURVE)) * sqrt(seconds),
    };
}
