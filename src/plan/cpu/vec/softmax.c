#include "plan/cpu/vec/vec_act.h"
#include "plan/cpu/vec/vec_names.h"

// Operators that need all channels of a pixel: softmax and layer normalisation.

// The last, partial vector is filled with what changes nothing.
VARRAY_FUNCTION
static VF load_filled(const float *x, int i, int n, float fill)
{
    if (n - i >= VW)
        return vload(x + i);
    float v[VW];
    for (int k = 0; k < VW; k++)
        v[k] = i + k < n ? x[i + k] : fill;
    return vload(v);
}

VARRAY_FUNCTION
static float largest(const float *x, int n)
{
    VF v = vset1(-INFINITY);
    int i = 0;
    for (; i + VW <= n; i += VW)
        v = vmax(v, vload(x + i));
    if (i < n)
        v = vmax(v, load_filled(x, i, n, -INFINITY));
    float all[VW], most = -INFINITY;
    vstore(all, v);
    for (int k = 0; k < VW; k++)
        most = all[k] > most || all[k] != all[k] ? all[k] : most;
    return most;
}

static void add_to_all(float *y, const float *x, float v, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] + v;
}

void ISA_NAME(tachy_softmax_pixel)(float *y, const float *x, int n, bool log)
{
    float most = largest(x, n);
    VF top = vset1(most), total = vset1(0);
    int i = 0;
    for (; i + VW <= n; i += VW) {
        VF e = vexp(vsub(vload(x + i), top));
        total = vadd(total, e);
        if (!log)
            vstore(y + i, e);
    }
    if (i < n) {
        VF e = vexp(vsub(load_filled(x, i, n, -INFINITY), top));
        total = vadd(total, e);
        if (!log)
            vstore_n(y + i, e, n - i);
    }
    float sum = vsum(total);
    if (log) {
        add_to_all(y, x, -(most + logf(sum)), n);
        return;
    }
    const VF share = vset1(1 / sum);
    for (i = 0; i + VW <= n; i += VW)
        vstore(y + i, vmul(vload(y + i), share));
    if (i < n)
        vstore_n(y + i, vmul(vload_n(y + i, n - i), share), n - i);
}

void ISA_NAME(tachy_layer_norm_pixel)(float *y, const float *x, const float *scale,
                                      const float *shift, float epsilon, int n)
{
    VF s = vset1(0), q = s;
    for (int i = 0; i < n; i += VW)
        s = vadd(s, load_filled(x, i, n, 0));
    float mean = vsum(s) / (float)n;
    for (int i = 0; i < n; i += VW) {
        VF d = vsub(load_filled(x, i, n, mean), vset1(mean));
        q = vfma(d, d, q);
    }
    VF m = vset1(mean), k = vset1(1 / sqrtf(vsum(q) / (float)n + epsilon));
    for (int i = 0; i < n; i += VW) {
        int part = n - i < VW ? n - i : VW;
        VF v = vmul(vmul(vsub(vload_upto(x + i, part), m), k), vload_upto(scale + i, part));
        vstore_upto(y + i, shift ? vadd(v, vload_upto(shift + i, part)) : v, part);
    }
}
