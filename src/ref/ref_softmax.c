#include "ref/ref_plan.h"

#include <math.h>

void tachy_ref_softmax(const struct tachy_view *in, const struct tachy_view *out, bool log_of,
                       int row0, int row1)
{
    for (int r = row0; r < row1; r++)
        for (int x = 0; x < in->w; x++) {
            const float *p = tachy_view_at(in, r / in->h, r % in->h, x);
            float *y = tachy_view_at(out, r / in->h, r % in->h, x);
            double most = -INFINITY, sum = 0;
            for (int k = 0; k < in->c; k++)
                most = (double)p[k] > most ? (double)p[k] : most;
            for (int k = 0; k < in->c; k++)
                sum += exp((double)p[k] - most);
            for (int k = 0; k < in->c; k++) {
                double v = (double)p[k] - most;
                y[k] = (float)(log_of ? v - log(sum) : exp(v) / sum);
            }
        }
}

void tachy_ref_softmax_sum(const struct tachy_view *in, const float *weights, int n, const struct tachy_view *out)
{
    for (int r = 0; r < out->n * out->h; r++)
        for (int x = 0; x < out->w; x++)
            for (int c = 0; c < out->c; c++) {
                const float *p = tachy_view_at(in, r / in->h, r % in->h, x) + c * n;
                double most = -INFINITY, sum = 0, weighted = 0;
                for (int k = 0; k < n; k++)
                    most = (double)p[k] > most ? (double)p[k] : most;
                for (int k = 0; k < n; k++) {
                    const double e = exp((double)p[k] - most);
                    sum += e;
                    weighted += (double)weights[k] * e;
                }
                tachy_view_at(out, r / out->h, r % out->h, x)[c] = (float)(weighted / sum);
            }
}

void tachy_ref_layer_norm(const struct tachy_view *in, const struct tachy_view *out,
                          const float *scale, const float *shift, float epsilon, int row0,
                          int row1)
{
    for (int r = row0; r < row1; r++)
        for (int x = 0; x < in->w; x++) {
            const float *p = tachy_view_at(in, r / in->h, r % in->h, x);
            float *y = tachy_view_at(out, r / in->h, r % in->h, x);
            double mean = 0, var = 0;
            for (int k = 0; k < in->c; k++)
                mean += (double)p[k] / in->c;
            for (int k = 0; k < in->c; k++)
                var += ((double)p[k] - mean) * ((double)p[k] - mean) / in->c;
            for (int k = 0; k < in->c; k++)
                y[k] = (float)(((double)p[k] - mean) / sqrt(var + (double)epsilon) *
                                   (double)scale[k] +
                               (shift ? (double)shift[k] : 0));
        }
}
