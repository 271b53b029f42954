#include "sync/sync.h"

#include <math.h>

// Where the vectors of lips and of a sound are nearest, as the authors of SyncNet compute it.

float tachy_lips_distance(const float *lips, const float *sound, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double d = (double)lips[i] - (sound ? (double)sound[i] : 0) + 1e-6; // PyTorch's pairwise_distance adds that
        sum += d * d;
    }
    return (float)sqrt(sum);
}

struct tachy_sync_peak tachy_lips_peak(const double *sum, int lags, int64_t rows)
{
    int at = 0, n = 2 * lags + 1;
    for (int i = 0; i < n; i++)
        if (sum[i] < sum[at])
            at = i;
    return (struct tachy_sync_peak){
        .offset_ms = (at - lags) * 1000. / TACHY_LIPS_RATE,
        .fit = sum[at] / (double)rows,
        .confidence = (tachy_sync_median(sum, n) - sum[at]) / (double)rows,
    };
}
