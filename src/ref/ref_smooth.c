#include "ref/ref_smooth.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

// ---- Edges ----

static double between(double a, double b, double share) { return a + (b - a) * share; }

struct plane {
    int width, height;
};

// Mean of f(x, y) over the window around a pixel, edges repeated. which: 0 guide, 1 mask, 2 guide^2, 3 guide * mask, 4
// mask^2.
static double mean(struct plane p, const uint8_t *guide, const double *mask, int which, int x, int y)
{
    double sum = 0;
    for (int j = -TACHY_SNAP_RADIUS; j <= TACHY_SNAP_RADIUS; j++)
        for (int i = -TACHY_SNAP_RADIUS; i <= TACHY_SNAP_RADIUS; i++) {
            ptrdiff_t at = (ptrdiff_t)TACHY_CLAMP(y + j, 0, p.height - 1) * p.width + TACHY_CLAMP(x + i, 0, p.width - 1);
            double g = guide ? guide[at] : 0, m = mask[at];
            sum += (const double[]){g, m, g * g, g * m, m * m}[which];
        }
    return sum / ((2 * TACHY_SNAP_RADIUS + 1) * (2 * TACHY_SNAP_RADIUS + 1));
}

static double without_foot(double p)
{
    const double foot = 255 * (double)TACHY_SNAP_FOOT, knee = 255 * (double)TACHY_SNAP_KNEE;
    if (p > 127.5)
        return 255 - without_foot(255 - p);
    return p >= knee ? p : fmax((p - foot) * knee / (knee - foot), 0);
}

void tachy_ref_snap(double *mask, double *edge, const uint8_t *guide, int width, int height)
{
    struct plane p = {width, height};
    size_t n = (size_t)width * (size_t)height;
    double *slope = malloc(3 * n * sizeof(double)), *offset = slope + n, *spread = offset + n;
    if (!slope)
        abort(); // only in checks
    for (int y = 0, i = 0; y < height; y++)
        for (int x = 0; x < width; x++, i++) {
            double m[5];
            for (int k = 0; k < 5; k++)
                m[k] = mean(p, guide, mask, k, x, y);
            slope[i] = (m[3] - m[0] * m[1]) / (fmax(m[2] - m[0] * m[0], 0) + (double)TACHY_SNAP_REGULAR);
            offset[i] = m[1] - slope[i] * m[0];
            spread[i] = fmax(m[4] - m[1] * m[1], 0);
        }
    for (int y = 0, i = 0; y < height; y++)
        for (int x = 0; x < width; x++, i++) {
            double fit = mean(p, NULL, slope, 1, x, y) * guide[i] + mean(p, NULL, offset, 1, x, y);
            double more = mean(p, NULL, spread, 1, x, y) - (double)TACHY_SNAP_FAINT;
            edge[i] = TACHY_CLAMP(more / (double)(TACHY_SNAP_CLEAR - TACHY_SNAP_FAINT), 0, 1);
            mask[i] = between(mask[i], without_foot(TACHY_CLAMP(fit, 0, 255)), edge[i]);
        }
    free(slope);
}

// ---- One frame ----

// The four pixels around a place and how far it is between them; beyond the picture its edge.
struct spot {
    size_t at[4];
    double right, down;
};

static struct spot spot_of(const struct tachy_ref_smooth *s, int x, int y, bool moved)
{
    size_t w = (size_t)s->width, i = (size_t)y * w + (size_t)x;
    double fx = TACHY_CLAMP(x + (moved ? (double)s->u[i] : 0), 0, s->width - 1);
    double fy = TACHY_CLAMP(y + (moved ? (double)s->v[i] : 0), 0, s->height - 1);
    size_t left = (size_t)fx, top = (size_t)fy, right = TACHY_MIN(left + 1, w - 1);
    size_t low = TACHY_MIN(top + 1, (size_t)s->height - 1);
    return (struct spot){{top * w + left, top * w + right, low * w + left, low * w + right}, fx - (double)left, fy - (double)top};
}

static double plane_at(const double *p, struct spot s)
{
    return between(between(p[s.at[0]], p[s.at[1]], s.right), between(p[s.at[2]], p[s.at[3]], s.right), s.down);
}

static double guide_at(const uint8_t *p, struct spot s)
{
    return between(between(p[s.at[0]], p[s.at[1]], s.right), between(p[s.at[2]], p[s.at[3]], s.right), s.down);
}

static double difference(const struct tachy_ref_smooth *s, int x, int y, bool moved)
{
    return fabs(guide_at(s->before, spot_of(s, x, y, moved)) - s->now[(ptrdiff_t)y * s->width + x]);
}

static bool is_cut(const struct tachy_ref_smooth *s)
{
    double sum = 0;
    for (int y = 0; y < s->height; y++)
        for (int x = 0; x < s->width; x++)
            sum += fmin(difference(s, x, y, false), difference(s, x, y, true));
    return sum > (double)TACHY_SMOOTH_CUT * s->width * s->height;
}

static double change(const struct tachy_ref_smooth *s, int x, int y, bool moved)
{
    double sum = 0;
    for (int j = -1; j <= 1; j++)
        for (int i = -1; i <= 1; i++)
            sum += difference(s, TACHY_CLAMP(x + i, 0, s->width - 1), TACHY_CLAMP(y + j, 0, s->height - 1), moved);
    return sum / 9;
}

static void pixel(const struct tachy_ref_smooth *s, int x, int y, double *out, double *motion)
{
    ptrdiff_t i = (ptrdiff_t)y * s->width + x;
    double stay = change(s, x, y, false), d = change(s, x, y, true);
    bool moved = stay > d + (double)TACHY_SMOOTH_NOISE;
    struct spot from = spot_of(s, x, y, moved);
    double before = plane_at(s->out, from), target = s->mask[i];
    double m = ((moved ? d : stay) - (double)TACHY_SMOOTH_FOUND) / (double)(TACHY_SMOOTH_LOST - TACHY_SMOOTH_FOUND);
    m = fmax(TACHY_CLAMP(m, 0, 1), (double)TACHY_SMOOTH_HOLD * plane_at(s->motion, from));
    if (target < s->out[i])
        target *= 1 - m * (1 - s->edge[i]) * (1 - target / 255);
    double w = (double)(target < before ? s->rates.fall : s->rates.rise)[moved];
    *out = before + (w + (1 - w) * m) * (target - before);
    *motion = m;
}

bool tachy_ref_smooth(const struct tachy_ref_smooth *s)
{
    size_t n = (size_t)s->width * (size_t)s->height;
    double *out = malloc(2 * n * sizeof(double)), *motion = out + n;
    bool cut = is_cut(s);
    if (!out)
        return false;
    for (int y = 0; y < s->height; y++)
        for (int x = 0; x < s->width; x++) {
            ptrdiff_t i = (ptrdiff_t)y * s->width + x;
            if (cut)
                out[i] = s->mask[i], motion[i] = 0;
            else
                pixel(s, x, y, out + i, motion + i);
        }
    memcpy(s->out, out, n * sizeof(double));
    memcpy(s->motion, motion, n * sizeof(double));
    free(out);
    return true;
}
