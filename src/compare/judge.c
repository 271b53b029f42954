#include "compare/judge.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

enum { GHOST_FRAMES = 10, NEVER = 255 };

const char *tachy_matte_metric_name(enum tachy_matte_metric m)
{
    static const char *const names[] = {"iou",          "mad",   "mse",      "gradient",
                                        "connectivity", "dtssd", "ghosting", "false_alpha"};
    return (unsigned)m < TACHY_MATTE_METRICS ? names[m] : "?";
}

void tachy_judge_free(struct tachy_judge *j)
{
    free(j->before);
    free(j->age);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(j->plane); i++)
        free(j->plane[i]);
    *j = (struct tachy_judge){0};
}

// A new size begins a new scene; what was counted stays.
static int begin_scene(struct tachy_judge *j, int width, int height)
{
    struct tachy_judge fresh = {.ghost_sum = j->ghost_sum, .ghost_pixels = j->ghost_pixels};
    size_t n = (size_t)width * (size_t)height;
    tachy_judge_free(j);
    *j = fresh;
    bool all = (j->before = malloc(n * sizeof(float))) && (j->age = malloc(n));
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(j->plane) && all; i++)
        all = (j->plane[i] = malloc(n * sizeof(float))) != NULL;
    if (!all)
        return TACHY_ERR_NOMEM;
    memset(j->age, NEVER, n);
    return TACHY_OK;
}

struct sums {
    int64_t both, either, wrong, ghosts;
    double absolute, squared, change, ghost;
};

// Adds each pixel's contribution, and stores what the next frame needs.
static struct sums add_up(struct tachy_judge *j, const struct tachy_matte *m, const struct tachy_matte *truth)
{
    struct sums s = {0};
    size_t n = (size_t)m->width * (size_t)m->height;
    for (size_t i = 0; i < n; i++) {
        float a = m->alpha[i], t = truth->alpha[i], d = a - t;
        s.both += a >= 0.5f && t >= 0.5f;
        s.either += a >= 0.5f || t >= 0.5f;
        s.wrong += a > 0.1f && t < 0.05f;
        s.absolute += fabsf(d);
        s.squared += (double)d * d;
        double change = j->width ? (double)d - j->before[i] : 0;
        s.change += change * change;
        j->before[i] = d;
        j->age[i] = t > 0.5f ? 0 : j->age[i] == NEVER ? NEVER : j->age[i] + 1;
        if (t < 0.05f && j->age[i] <= GHOST_FRAMES) {
            s.ghosts++;
            s.ghost += a;
        }
    }
    return s;
}

int tachy_judge_frame(struct tachy_judge *j, const struct tachy_matte *m, const struct tachy_matte *truth,
                      double v[TACHY_MATTE_METRICS])
{
    if (m->width != j->width || m->height != j->height) {
        int err = begin_scene(j, m->width, m->height);
        if (err < 0)
            return err;
    }
    double pixels = (double)m->width * m->height;
    struct sums s = add_up(j, m, truth);
    v[TACHY_MATTE_IOU] = s.either ? (double)s.both / (double)s.either : 1;
    v[TACHY_MATTE_MAD] = s.absolute / pixels;
    v[TACHY_MATTE_MSE] = s.squared / pixels;
    v[TACHY_MATTE_GRADIENT] = tachy_matte_gradient(m, truth, j->plane) / 1000;
    v[TACHY_MATTE_CONNECTIVITY] = tachy_matte_connectivity(m, truth, j->plane) / 1000;
    v[TACHY_MATTE_DTSSD] = j->width ? sqrt(s.change / pixels) : NAN;
    v[TACHY_MATTE_GHOSTING] = s.ghosts ? s.ghost / (double)s.ghosts : NAN;
    v[TACHY_MATTE_FALSE_ALPHA] = (double)s.wrong / pixels;
    j->ghost_sum += s.ghost;
    j->ghost_pixels += s.ghosts;
    j->width = m->width;
    j->height = m->height;
    return isnan(v[TACHY_MATTE_CONNECTIVITY]) ? TACHY_ERR_NOMEM : TACHY_OK;
}
