#include "preprocess/plan.h"

#include <math.h>

// Positions beyond this are a mistake of the caller (frames end at 65535).
static const double FAR = 1e7;

static bool sane(const double *v, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabs(v[i]) <= FAR)) // also NaN
            return false;
    return true;
}

static int affine_geometry(struct tachy_geometry *g, const struct tachy_preprocess_params *p,
                           const double *a)
{
    if (!sane(a, 6))
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "preprocess: the affine map holds a value that is not finite or beyond 1e7");
    g->pw = p->width;
    g->ph = p->height;
    memcpy(g->affine, a, sizeof(g->affine));
    g->transposed = a[0] == 0 && a[4] == 0 && (a[1] != 0 || a[3] != 0);
    g->separable = g->transposed || (a[1] == 0 && a[3] == 0);
    g->x.origin = a[2];
    g->y.origin = a[5];
    g->x.step = g->transposed ? a[1] : a[0];
    g->y.step = g->transposed ? a[3] : a[4];
    return TACHY_OK;
}

// Part of the tensor that the upright region (w * h frame pixels) is placed in; the region is
// cut to what is visible.
static void place(struct tachy_geometry *g, const struct tachy_preprocess_params *p, double *x,
                  double *y, double *w, double *h)
{
    double sx = p->width / *w, sy = p->height / *h;
    g->px = g->py = 0;
    g->pw = p->width;
    g->ph = p->height;
    *x = *y = 0;
    if (p->fit == TACHY_FIT_LETTERBOX) { // borders lie on whole pixels
        double s = fmin(sx, sy);
        g->pw = (int)TACHY_CLAMP(floor(*w * s + 0.5), 1.0, (double)p->width);
        g->ph = (int)TACHY_CLAMP(floor(*h * s + 0.5), 1.0, (double)p->height);
        g->px = (p->width - g->pw) / 2;
        g->py = (p->height - g->ph) / 2;
    } else if (p->fit == TACHY_FIT_CROP) {
        double s = fmax(sx, sy), cw = p->width / s, ch = p->height / s;
        *x = (*w - cw) / 2;
        *y = (*h - ch) / 2;
        *w = cw;
        *h = ch;
    }
}

int tachy_geometry_build(struct tachy_geometry *g, const struct tachy_preprocess_params *p,
                         int frame_width, int frame_height, const struct tachy_view *view)
{
    *g = (struct tachy_geometry){0};
    if (view->use_affine)
        return affine_geometry(g, p, view->affine);

    double w = view->w ? view->w : frame_width - view->x, h = view->h ? view->h : frame_height - view->y;
    const double rect[4] = {view->x, view->y, w, h};
    if (!sane(rect, 4) || !(w > 0) || !(h > 0))
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "preprocess: the view at %g, %g of %g x %g pixels is empty or not finite",
                          view->x, view->y, w, h);
    if (view->rotation != 0 && view->rotation != 90 && view->rotation != 180 && view->rotation != 270)
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "preprocess: a rotation by %d degrees is not possible; use 0, 90, 180, 270 "
                          "or an affine map", view->rotation);

    g->separable = true;
    g->transposed = view->rotation == 90 || view->rotation == 270;
    double full_u = g->transposed ? h : w, full_v = g->transposed ? w : h; // upright extents
    double u, v, cut_u = full_u, cut_v = full_v;
    place(g, p, &u, &v, &cut_u, &cut_v);
    double du = cut_u / g->pw, dv = cut_v / g->ph;
    if (view->flip) {
        u = full_u - u;
        du = -du;
    }
    // Upright position (u, v) in the frame: (u, v), (v, h - u), (w - u, h - v), (w - v, u).
    bool back_u = view->rotation == 90 || view->rotation == 180;
    bool back_v = view->rotation == 180 || view->rotation == 270;
    double ou = back_u ? full_u - u : u, ov = back_v ? full_v - v : v;
    du = back_u ? -du : du;
    dv = back_v ? -dv : dv;
    g->x.origin = view->x + (g->transposed ? ov : ou);
    g->x.step = g->transposed ? dv : du;
    g->y.origin = view->y + (g->transposed ? ou : ov);
    g->y.step = g->transposed ? du : dv;
    return TACHY_OK;
}

int tachy_preprocess_map_sized(size_t p_size, const struct tachy_preprocess_params *p, int frame_width,
                               int frame_height, const struct tachy_view *view, double map[6])
{
    struct tachy_preprocess_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    static const struct tachy_view whole;
    struct tachy_geometry g;
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && map))
        return TACHY_ERR_INVAL;
    int err = tachy_geometry_build(&g, p, frame_width, frame_height, view ? view : &whole);
    if (err < 0)
        return err;
    if (!g.separable) {
        memcpy(map, g.affine, sizeof(g.affine));
        return TACHY_OK;
    }
    const double sx = g.x.step, sy = g.y.step;
    if (g.transposed)
        memcpy(map, (double[6]){0, sx, g.x.origin - g.py * sx, sy, 0, g.y.origin - g.px * sy}, 6 * sizeof(*map));
    else
        memcpy(map, (double[6]){sx, 0, g.x.origin - g.px * sx, 0, sy, g.y.origin - g.py * sy}, 6 * sizeof(*map));
    return TACHY_OK;
}
