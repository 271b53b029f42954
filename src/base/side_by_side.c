#include "base/side_by_side.h"

#include <tachy/common.h>

static const double gain_least = 1.02;

int tachy_side_by_side(int *best, double *most, int limit, const int *tries, tachy_copies_rate measure, void *user)
{
    *most = 0;
    if (*best > 0)
        return measure(user, *best, most);
    for (int n = tries ? *tries : 1; n && n <= limit; n = tries ? *++tries : 2 * n) {
        double rate = 0;
        int err = measure(user, n, &rate);
        if (err < 0 || rate <= *most * gain_least)
            return err;
        *most = rate;
        *best = n;
    }
    return TACHY_OK;
}
