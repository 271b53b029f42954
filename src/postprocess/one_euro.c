#include "postprocess/one_euro.h"

#include "base/base.h"

#include <math.h>

// Share of the way that a first-order low-pass goes to a new value; `a`: 2 pi times its cut-off and the seconds.
static double share(double a) { return a / (1 + a); }

struct tachy_one_euro_turn tachy_one_euro_turn(const struct tachy_one_euro *f, double seconds, double unit)
{
    const double angle = 2 * 3.14159265358979323846 * seconds;
    return (struct tachy_one_euro_turn){angle, 1 / (seconds * unit), share(angle * TACHY_DEF(f->speed_cutoff, 1))};
}

double tachy_one_euro_step(const struct tachy_one_euro *f, const struct tachy_one_euro_turn *t, struct tachy_one_euro_state *s,
                           double v)
{
    if (!s->begun) {
        *s = (struct tachy_one_euro_state){.value = v, .begun = true};
        return v;
    }
    if (!(t->angle > 0) || !isfinite(v))
        return s->value;
    double way = v - s->value;
    s->speed += t->speed_share * (way * t->per_unit - s->speed);
    s->value += share(t->angle * (f->min_cutoff + f->beta * fabs(s->speed))) * way;
    return s->value;
}
