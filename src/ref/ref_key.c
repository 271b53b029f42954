#include "ref/ref_key.h"

#include <math.h>

void tachy_ref_key_share(float *share, const float *u, const float *v, const struct tachy_key_axis *axis, int n_axes, int n)
{
    for (int i = 0; i < n; i++) {
        float most = 0;
        for (int k = 0; k < n_axes; k++) {
            float x = u[i] * axis[k].xu + v[i] * axis[k].xv, z = u[i] * axis[k].zu + v[i] * axis[k].zv;
            float s = x - fabsf(z);
            most = !k || s > most ? s : most;
        }
        share[i] = most;
    }
}
