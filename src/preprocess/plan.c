#include "preprocess/plan.h"

#include <math.h>

// Position of the first chroma sample's centre, in luma pixels from the picture's edge (H.273 chroma_sample_loc_type +
// 1). A luma sample's centre is at 0.5.
static void chroma_site(int loc, double *x, double *y)
{
    bool centre_x = loc == 2 || loc == 4 || loc == 6;
    *x = centre_x ? 1 : 0.5;
    *y = loc == 3 || loc == 4 ? 0.5 : loc >= 5 ? 1.5 : 1;
}

// Frame pixels to samples of a plane that has one every 2^shift pixels.
static struct tachy_axis plane_axis(double origin, double step, int outputs, int extent, int shift,
                                    double site)
{
    double every = 1 << shift;
    return (struct tachy_axis){
        .origin = shift ? (origin - site) / every + 0.5 : origin,
        .step = step / every,
        .outputs = outputs,
        .samples = (extent + (1 << shift) - 1) >> shift,
    };
}

static void set_planes(struct tachy_plan *plan, const struct tachy_pix_desc *d)
{
    bool packed = d->rgb || d->planes == 1, pairs = !packed && d->components[1] == 2;
    bool luma = plan->color.lines == 1;
    plan->planes = packed || luma ? 1 : pairs ? 2 : 3;
    for (int i = 0; i < plan->planes; i++) {
        plan->plane[i].shape = i > 0;
        plan->plane[i].first_line = i;
    }
    for (int s = 0; s < TACHY_PRE_SHAPES; s++)
        plan->shape[s] = (struct tachy_pre_plane){
            .components = d->components[s],
            .used = TACHY_MIN(d->components[s], 3),
            .bytes = d->bytes,
            .bits = d->bits,
            .shift = d->shift,
        };
}

static int build_shape(struct tachy_plan *plan, int s, const struct tachy_pix_desc *d, double x0,
                       double xs, double y0, double ys, const struct tachy_pre_kernels *k)
{
    double site_x, site_y;
    chroma_site(plan->key.color.chroma_loc, &site_x, &site_y);
    int shift_x = s ? d->chroma_shift_x : 0, shift_y = s ? d->chroma_shift_y : 0;
    struct tachy_axis x = plane_axis(x0, xs, plan->length, plan->key.width, shift_x, site_x);
    struct tachy_axis y = plane_axis(y0, ys, plan->lines, plan->key.height, shift_y, site_y);
    plan->axis[s].x = x;
    plan->axis[s].y = y;
    if (!k)
        return TACHY_OK;
    int err = tachy_taps_build(&plan->shape[s].x, &plan->taps_mem[s][0], &x, true, k->lanes);
    if (err < 0)
        return err;
    return tachy_taps_build(&plan->shape[s].y, &plan->taps_mem[s][1], &y, false, 0);
}

// Cells of `size` frame pixels that the positions lo..hi need, no more than one beyond the
// frame on either side (there everything is the edge's value).
static int cells(double lo, double hi, double size, int extent, int *first)
{
    double last = ceil(extent / size);
    double a = TACHY_CLAMP(floor(lo / size - 0.5), -1.0, last);
    double b = TACHY_CLAMP(floor(hi / size - 0.5) + 1, -1.0, last);
    *first = (int)a;
    return (int)(b - a) + 1;
}

static int build_grid(struct tachy_plan *plan, bool memory)
{
    const double *a = plan->geo.affine, w = plan->geo.pw, h = plan->geo.ph;
    plan->cell_x = fmax(1, hypot(a[0], a[1]));
    plan->cell_y = fmax(1, hypot(a[3], a[4]));
    double x_lo = a[2] + fmin(a[0] * w, 0) + fmin(a[1] * h, 0);
    double x_hi = a[2] + fmax(a[0] * w, 0) + fmax(a[1] * h, 0);
    double y_lo = a[5] + fmin(a[3] * w, 0) + fmin(a[4] * h, 0);
    double y_hi = a[5] + fmax(a[3] * w, 0) + fmax(a[4] * h, 0);
    struct tachy_pre_grid *g = &plan->grid;
    g->w = plan->length = cells(x_lo, x_hi, plan->cell_x, plan->key.width, &plan->cell_x0);
    g->h = plan->lines = cells(y_lo, y_hi, plan->cell_y, plan->key.height, &plan->cell_y0);
    g->planes = plan->color.lines;
    g->stride = TACHY_ALIGN(g->w, TACHY_LINE_ROUND);
    if (!memory)
        return TACHY_OK;
    size_t one = (size_t)g->stride * (size_t)g->h, before = plan->grid_mem.size;
    // The kernel reads a column more, which does not count but must be a number.
    int err = tachy_growing_need(&plan->grid_mem, (one * (size_t)g->planes + 1) * sizeof(float));
    if (err == TACHY_OK && plan->grid_mem.size != before)
        memset(plan->grid_mem.p, 0, plan->grid_mem.size);
    for (int c = 0; c < g->planes && err == TACHY_OK; c++)
        g->plane[c] = (float *)plan->grid_mem.p + (size_t)c * one;
    return err;
}

static int build_tables(struct tachy_plan *plan, const struct tachy_pre_kernels *k)
{
    const struct tachy_geometry *g = &plan->geo;
    const struct tachy_pix_desc *d = tachy_pix_desc(plan->key.format);
    double x0 = g->x.origin, xs = g->x.step, y0 = g->y.origin, ys = g->y.step;
    plan->length = g->transposed ? g->ph : g->pw;
    plan->lines = g->transposed ? g->pw : g->ph;
    if (!k && g->separable)
        k = &tachy_ref_preprocess;
    if (!g->separable) {
        int err = build_grid(plan, k);
        if (err < 0)
            return err;
        x0 = plan->cell_x0 * plan->cell_x;
        xs = plan->cell_x;
        y0 = plan->cell_y0 * plan->cell_y;
        ys = plan->cell_y;
    }
    set_planes(plan, d);
    for (int s = 0; s <= plan->plane[plan->planes - 1].shape; s++) {
        int err = build_shape(plan, s, d, x0, xs, y0, ys, k);
        if (err < 0)
            return err;
    }
    for (int i = 0; i < plan->planes && k; i++) {
        const struct tachy_pre_plane *s = &plan->shape[plan->plane[i].shape];
        bool fits = !k->taps_max || TACHY_MAX(s->x.max, s->y.max) <= k->taps_max;
        plan->plane[i].line = fits ? k->line : tachy_ref_preprocess.line;
    }
    return TACHY_OK;
}

int tachy_plan_build(struct tachy_plan *plan, const struct tachy_preprocess_params *p,
                     const struct tachy_pre_kernels *k, const struct tachy_plan_key *key)
{
    plan->valid = false;
    plan->key = *key;
    int err = tachy_geometry_build(&plan->geo, p, key->width, key->height, &key->view);
    if (err < 0)
        return err;
    err = tachy_pre_color_build(&plan->color, p, key->format, key->color);
    if (err < 0)
        return err;
    err = build_tables(plan, k);
    if (err < 0)
        return tachy_fail(p->log, err, "preprocess: no memory for the tables of a %d x %d frame",
                          key->width, key->height);
    plan->valid = true;
    return TACHY_OK;
}

void tachy_plan_free(struct tachy_plan *plan)
{
    for (int s = 0; s < TACHY_PRE_SHAPES; s++)
        for (int i = 0; i < 2; i++)
            tachy_growing_free(&plan->taps_mem[s][i]);
    tachy_growing_free(&plan->grid_mem);
    plan->valid = false;
}

static bool same_view(const struct tachy_view *a, const struct tachy_view *b)
{
    if (a->use_affine || b->use_affine)
        return a->use_affine == b->use_affine && !memcmp(a->affine, b->affine, sizeof(a->affine));
    return a->x == b->x && a->y == b->y && a->w == b->w && a->h == b->h &&
           a->rotation == b->rotation && a->flip == b->flip;
}

bool tachy_plan_key_same(const struct tachy_plan_key *a, const struct tachy_plan_key *b)
{
    return a->format == b->format && a->width == b->width && a->height == b->height &&
           !memcmp(&a->color, &b->color, sizeof(a->color)) && same_view(&a->view, &b->view);
}
