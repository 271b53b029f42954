#include "test.h"

#include "measure/light.h"

#include <math.h>

// A matt sphere as the camera sees it, under a lamp and ambient light; every tenth place is painted black.
static int sphere(struct tachy_lit *place, const double to[3], double ambient)
{
    int n = 0;
    for (double y = -0.95; y < 1; y += 0.1)
        for (double x = -0.95; x < 1; x += 0.1) {
            double z2 = 1 - x * x - y * y;
            if (z2 < 0.02)
                continue;
            const double at[3] = {x, y, sqrt(z2)};
            double c = at[0] * to[0] + at[1] * to[1] + at[2] * to[2];
            double light = n % 10 ? ambient + (c > 0 ? c : 0) : 0;
            place[n++] = (struct tachy_lit){{at[0], at[1], at[2]}, light};
        }
    return n;
}

TEST(lamps_of_spheres)
{
    struct tachy_lit place[400];
    for (int i = 0; i < 24; i++) {
        double off = (15 + 60.0 * (i % 4) / 3) * 3.14159265358979323846 / 180, around = i * 0.7, got[3], soft, last = 0;
        const double to[3] = {sin(off) * cos(around), sin(off) * sin(around), cos(off)};
        for (double ambient = 0; ambient < 1.5; ambient += 0.4) {
            int n = sphere(place, to, ambient);
            CHECK(tachy_light_fit(place, n, got, &soft));
            double c = got[0] * to[0] + got[1] * to[1] + got[2] * to[2];
            CHECK(acos(fmin(c, 1)) * 180 / 3.14159265358979323846 < 6);
            CHECK(soft >= last && soft < 1);
            CHECK(fabs(soft - ambient / (ambient + 0.25)) < 0.25);
            last = soft;
        }
    }
}

TEST(no_lamp)
{
    struct tachy_lit place[400];
    double to[3] = {0, 0, 1}, soft;
    int n = sphere(place, to, 0);
    CHECK(!tachy_light_fit(place, 20, to, &soft));
    for (int i = 0; i < n; i++)
        place[i].light = 0;
    CHECK(!tachy_light_fit(place, n, to, &soft));
}

TEST_MAIN(TEST_CASE(lamps_of_spheres), TEST_CASE(no_lamp))
