#include "postprocess/composite_priv.h"

#include <inttypes.h>
#include <math.h>

// The part of the alpha picture that one eye's region covers.
static struct tachy_bits part(const struct tachy_bits *all, int x0, int y0, int x1, int y1)
{
    return (struct tachy_bits){all->p + y0 * all->stride + x0, all->stride, x1 - x0, y1 - y0};
}

static double share(const struct tachy_composite *c, const struct tachy_bits *b)
{
    int64_t n = 0;
    for (int y = 0; y < b->h; y++)
        n += c->k->count(b->p + y * b->stride, b->w);
    return b->w && b->h ? (double)n / ((double)b->w * b->h) : 0;
}

static int add_mask(struct tachy_composite *c, const struct tachy_bits *b)
{
    struct tachy_text *t = &c->text;
    tachy_text_add(t, "\"segmentation\":{\"size\":[%d,%d],\"counts\":\"", b->h, b->w);
    int err = tachy_rle(t, b, NULL, &c->runs);
    tachy_text_add(t, "\"},\"polygons\":");
    return err < 0 ? err : tachy_polygons(t, b, &c->points);
}

// Each eye in its own region, coordinates relative to it.
static int add_eyes(struct tachy_composite *c, const struct tachy_result *r, const struct tachy_bits *all)
{
    struct tachy_text *t = &c->text;
    tachy_text_add(t, "\"eyes\":[");
    for (int i = 0; i < TACHY_MIN(r->eyes, TACHY_MAX_EYES); i++) {
        struct tachy_alpha_eye e = {.mask = r->mask[i]};
        tachy_alpha_clip(&e, all->w, all->h);
        struct tachy_bits b = part(all, e.x0, e.y0, e.x1, e.y1);
        tachy_text_add(t, "%s{\"region\":[%d,%d,%d,%d],\"coverage\":%.6f,", i ? "," : "", e.x0,
                       e.y0, b.w, b.h, share(c, &b));
        int err = add_mask(c, &b);
        if (err < 0)
            return err;
        tachy_text_char(t, '}');
    }
    tachy_text_char(t, ']');
    return TACHY_OK;
}

int tachy_composite_json(tachy_composite *c, const tachy_frame *in, struct tachy_result *r,
                         const struct tachy_refine *refine, double time_s, const char **line)
{
    ptrdiff_t stride;
    *line = NULL;
    if (!tachy_pix_desc(in->format))
        return tachy_fail(c->params.log, TACHY_ERR_UNSUPPORTED, "composite: unknown pixel format");
    int err = tachy_composite_alpha(c, in, r, refine, &stride);
    return err < 0 ? err : tachy_composite_json_of(c, in, r, c->full.p, stride, time_s, line);
}

int tachy_composite_json_of(tachy_composite *c, const tachy_frame *in, struct tachy_result *r, uint8_t *alpha,
                            ptrdiff_t stride, double time_s, const char **line)
{
    struct tachy_text *t = &c->text;
    struct tachy_bits all = {alpha, stride, in->width, in->height};
    *line = NULL;
    double coverage = share(c, &all);
    r->coverage = (float)coverage;
    t->len = 0;
    t->failed = false;
    tachy_text_add(t, "{\"frame\":%" PRId64 ",\"pts\":%" PRId64 ",\"time\":", in->id, in->pts);
    if (isfinite(time_s))
        tachy_text_add(t, "%.6f", time_s);
    else
        tachy_text_add(t, "null");
    tachy_text_add(t, ",\"width\":%d,\"height\":%d,\"coverage\":%.6f,", in->width, in->height,
                   coverage);
    int err = r->eyes > 1 ? add_eyes(c, r, &all) : add_mask(c, &all);
    if (err < 0)
        return err;
    tachy_values_json(t, r->values, r->nb_values);
    tachy_text_char(t, '}');
    if (t->failed)
        return TACHY_ERR_NOMEM;
    *line = t->p;
    return TACHY_OK;
}
