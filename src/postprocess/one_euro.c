#include "postprocess/one_euro.h"

#include "base/base.h"

#include <math.h>

// Share of the way that a first-order low-pass goes to a new value.
static double share(double cutoff, double seconds)
{
    return 1 - 1 / (1 + 2 * 3.14159265358979323846 * cutoff * seconds);
}

double tachy_one_euro_step(const struct tachy_one_euro *f, struct tachy_one_euro_state *s, double v, double seconds,
                           double unit)
{
    if (!s->begun) {
        *s = (struct tachy_one_euro_state){.value = v, .begun = true};
        return v;
    }
    if (!(seconds > 0) || !isfinite(v))
        return s->value;
    double speed = (v - s->value) / (seconds * unit);
    s->speed += share(TACHY_DEF(f->speed_cutoff, 1), seconds) * (speed - s->speed);
    s->value += share(f->min_cutoff + f->beta * fabs(s->speed), seconds) * (v - s->value);
    return s->value;
}
