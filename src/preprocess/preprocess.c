#include "preprocess/plan.h"

#include "media/frame_mem.h"
#include "preprocess/tone.h"

#include <math.h>
#include <stdlib.h>

enum {
    PLANS = 4,  // kept: two eyes of a stereo picture, and a change of format now and then
    STRIP = 16, // lines of a turned picture that are written together
    BILINEAR_MAX = 4096, // cells a side that float coordinates of the vector versions resolve
};

struct tachy_preprocess {
    struct tachy_preprocess_params params; // dtype set; isa and log's text are not kept
    const struct tachy_pre_kernels *kernels;
    uint64_t uses;
    struct tachy_plan plan[PLANS];
    struct tachy_tone *tone;
    struct tachy_growing scratch, strip;
    float *line[3], *rgb[3];
    struct tachy_growing lines;
};

static const struct tachy_pre_kernels *const kernels[] = {
#if defined(__x86_64__)
    [TACHY_ISA_AVX2] = &tachy_preprocess_avx2,
    [TACHY_ISA_AVX512] = &tachy_preprocess_avx512,
#elif defined(__aarch64__)
    [TACHY_ISA_NEON] = &tachy_preprocess_neon,
#endif
    [TACHY_ISA_C] = &tachy_ref_preprocess,
};

static int choose(const struct tachy_pre_kernels **out, const struct tachy_preprocess_params *p)
{
    int isa = p->isa ? tachy_isa_by_name(p->isa) : (int)tachy_cpu_isa();
    if (isa < 0)
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "preprocess: the instruction set \"%s\" is unknown; use c, avx2, avx512 or "
                          "neon", p->isa);
    if ((size_t)isa >= TACHY_ARRAY_SIZE(kernels) || !kernels[isa] ||
        !tachy_cpu_has((enum tachy_isa)isa))
        return tachy_fail(p->log, TACHY_ERR_UNAVAILABLE,
                          "preprocess: this processor or build has no %s; leave the instruction set "
                          "unset to use the best one", tachy_isa_name((enum tachy_isa)isa));
    *out = kernels[isa];
    return TACHY_OK;
}

int tachy_pre_check_params(const struct tachy_preprocess_params *p, bool gpu)
{
    bool size = p->width >= 1 && p->width <= 16384 && p->height >= 1 && p->height <= 16384;
    if (!size)
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "preprocess: a tensor of %d x %d is not possible; each side is 1 to 16384",
                          p->width, p->height);
    if (p->dtype && p->dtype != TACHY_F32 && p->dtype != TACHY_F16 && p->dtype != TACHY_U8 &&
        !(gpu && p->dtype == TACHY_I8))
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "preprocess: %s tensors cannot be written; use float32, float16 or uint8%s",
                          tachy_dtype_name(p->dtype), gpu ? " or int8" : "");
    if ((unsigned)p->layout > TACHY_NCHW || (unsigned)p->channels > TACHY_LUMA ||
        (unsigned)p->fit > TACHY_FIT_CROP)
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "preprocess: layout %d, channels %d or fit %d is not known", (int)p->layout,
                          (int)p->channels, (int)p->fit);
    bool finite = isfinite(p->scale) && isfinite(p->pad);
    for (int i = 0; i < 3; i++)
        finite = finite && isfinite(p->mean[i]) && isfinite(p->std[i]);
    if (!finite)
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "preprocess: scale, mean, std and pad must be finite numbers");
    return TACHY_OK;
}

int tachy_preprocess_open_sized(size_t p_size, tachy_preprocess **out, const struct tachy_preprocess_params *p)
{
    struct tachy_preprocess_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), out && p))
        return TACHY_ERR_INVAL;
    const struct tachy_pre_kernels *k = NULL;
    int err = tachy_pre_check_params(p, false);
    if (err < 0 || (err = choose(&k, p)) < 0)
        return err;
    tachy_preprocess *pre = calloc(1, sizeof(*pre));
    if (!pre)
        return tachy_fail(p->log, TACHY_ERR_NOMEM, "preprocess: out of memory");
    pre->params = *p;
    pre->params.isa = NULL; // the caller's memory
    pre->params.dtype = TACHY_DEF(p->dtype, TACHY_F32);
    pre->kernels = k;
    *out = pre;
    return TACHY_OK;
}

void tachy_preprocess_close(tachy_preprocess **p)
{
    tachy_preprocess *pre = p ? *p : NULL;
    if (!pre)
        return;
    for (int i = 0; i < PLANS; i++)
        tachy_plan_free(&pre->plan[i]);
    tachy_growing_free(&pre->scratch);
    tachy_growing_free(&pre->strip);
    tachy_growing_free(&pre->lines);
    tachy_tone_close(&pre->tone);
    free(pre);
    *p = NULL;
}

const char *tachy_preprocess_isa(const tachy_preprocess *p) { return p ? p->kernels->name : NULL; }

// ---- The tensor: byte steps from pixel to pixel, row to row, channel to channel

struct target {
    uint8_t *data;
    ptrdiff_t row, channel; // bytes
    int channels;           // planes where channel != 0, else 1 plane
    size_t pixel;           // bytes of a pixel in one plane
};

static int check_tensor(const tachy_preprocess *pre, const struct tachy_tensor *t, struct target *o)
{
    const struct tachy_preprocess_params *p = &pre->params;
    int first = t->rank - 3, n = p->channels == TACHY_LUMA ? 1 : 3;
    bool planar = p->layout == TACHY_NCHW;
    int64_t want[3] = {planar ? n : p->height, planar ? p->height : p->width, planar ? p->width : n};
    bool ok = t->data && t->mem != TACHY_DEVICE && t->dtype == p->dtype &&
              (first == 0 || (first == 1 && t->shape[0] == 1)) &&
              !memcmp(want, t->shape + first, sizeof(want));
    if (!ok)
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "preprocess: the output tensor must be in host memory, %s, of %lld x %lld x "
                          "%lld elements", tachy_dtype_name(p->dtype), (long long)want[0],
                          (long long)want[1], (long long)want[2]);
    int64_t stride[3] = {want[1] * want[2], want[2], 1};
    bool dense = !t->stride[first] && !t->stride[first + 1] && !t->stride[first + 2];
    if (!dense)
        memcpy(stride, t->stride + first, sizeof(stride));
    if (stride[2] != 1 || (!planar && stride[1] != n))
        return tachy_fail(p->log, TACHY_ERR_INVAL,
                          "preprocess: the output tensor's pixels must lie side by side; only rows and "
                          "channel planes may have strides");
    ptrdiff_t size = (ptrdiff_t)tachy_dtype_size(t->dtype);
    *o = (struct target){
        .data = t->data,
        .row = (ptrdiff_t)stride[planar ? 1 : 0] * size,
        .channel = planar ? (ptrdiff_t)stride[0] * size : 0,
        .channels = planar ? n : 1,
        .pixel = (size_t)(planar ? 1 : n) * (size_t)size,
    };
    return TACHY_OK;
}

static uint8_t *target_at(const struct target *o, int plane, int x, int y)
{
    return o->data + plane * o->channel + y * o->row + x * (ptrdiff_t)o->pixel;
}

static void fill(const struct target *o, int plane, const uint8_t *pixel, int x, int y, int w, int h)
{
    for (int j = y; j < y + h; j++) {
        uint8_t *d = target_at(o, plane, x, j);
        for (int i = 0; i < w; i++)
            memcpy(d + (size_t)i * o->pixel, pixel, o->pixel);
    }
}

// Fills the area that the placed picture leaves free.
static void fill_borders(const tachy_preprocess *pre, const struct target *o,
                         const struct tachy_geometry *g)
{
    const struct tachy_preprocess_params *p = &pre->params;
    if (g->pw == p->width && g->ph == p->height)
        return;
    uint8_t pixel[3][12];
    tachy_pre_pad(p, p->layout == TACHY_NCHW, pixel);
    for (int c = 0; c < o->channels; c++) {
        fill(o, c, pixel[c], 0, 0, p->width, g->py);
        fill(o, c, pixel[c], 0, g->py, g->px, g->ph);
        fill(o, c, pixel[c], g->px + g->pw, g->py, p->width - g->px - g->pw, g->ph);
        fill(o, c, pixel[c], 0, g->py + g->ph, p->width, p->height - g->py - g->ph);
    }
}

// ---- Lines

// `pixel` is a constant where this is called, so that copies are single moves.
static inline __attribute__((always_inline)) void
turn_plane(const struct target *o, int plane, const uint8_t *strip, size_t line_bytes, int x, int y,
           int lines, int length, size_t pixel)
{
    for (int i = 0; i < length; i++) {
        uint8_t *d = target_at(o, plane, x, y + i);
        const uint8_t *s = strip + (size_t)i * pixel;
        for (int l = 0; l < lines; l++, s += line_bytes, d += pixel)
            memcpy(d, s, pixel);
    }
}

// Rows of the strip become columns of the tensor: line l of the strip is column x + l.
static void turn_strip(const struct target *o, const uint8_t *strip, size_t line_bytes, int x, int y,
                       int lines, int length)
{
    for (int c = 0; c < o->channels; c++, strip += STRIP * line_bytes)
        switch (o->pixel) {
        case 1: turn_plane(o, c, strip, line_bytes, x, y, lines, length, 1); break;
        case 2: turn_plane(o, c, strip, line_bytes, x, y, lines, length, 2); break;
        case 3: turn_plane(o, c, strip, line_bytes, x, y, lines, length, 3); break;
        case 4: turn_plane(o, c, strip, line_bytes, x, y, lines, length, 4); break;
        case 6: turn_plane(o, c, strip, line_bytes, x, y, lines, length, 6); break;
        default: turn_plane(o, c, strip, line_bytes, x, y, lines, length, 12); break;
        }
}

static void sample_line(tachy_preprocess *pre, const struct tachy_plan *plan, const tachy_frame *f,
                        int line, float *const out[3])
{
    for (int i = 0; i < plan->planes; i++)
        plan->plane[i].line(&plan->shape[plan->plane[i].shape], f->data[i], f->stride[i], line,
                            pre->scratch.p, out + plan->plane[i].first_line);
}

static void fill_grid(tachy_preprocess *pre, const struct tachy_plan *plan, const tachy_frame *f)
{
    for (int line = 0; line < plan->grid.h; line++) {
        float *out[3] = {0};
        for (int c = 0; c < plan->grid.planes; c++)
            out[c] = (float *)plan->grid_mem.p + (plan->grid.plane[c] - plan->grid.plane[0]) +
                     line * plan->grid.stride;
        sample_line(pre, plan, f, line, out);
    }
}

static void grid_line(tachy_preprocess *pre, const struct tachy_plan *plan, int line)
{
    const double *a = plan->geo.affine, y = line + 0.5;
    struct tachy_pre_step s = {
        .u = (a[0] * 0.5 + a[1] * y + a[2]) / plan->cell_x - 0.5 - plan->cell_x0,
        .v = (a[3] * 0.5 + a[4] * y + a[5]) / plan->cell_y - 0.5 - plan->cell_y0,
        .du = a[0] / plan->cell_x,
        .dv = a[3] / plan->cell_y,
    };
    bool fine = TACHY_MAX(plan->grid.w, plan->grid.h) <= BILINEAR_MAX;
    const struct tachy_pre_kernels *k = fine ? pre->kernels : &tachy_ref_preprocess;
    k->bilinear(&plan->grid, &s, plan->geo.pw, pre->line);
}

// Colour and store of the sampled line into dst[].
static void finish_line(tachy_preprocess *pre, const struct tachy_plan *plan, int n,
                        void *const dst[3])
{
    const float *const in[3] = {pre->line[0], pre->line[1], pre->line[2]};
    if (!plan->color.hdr) {
        pre->kernels->finish(&plan->color.finish, in, n, dst);
        return;
    }
    void *const rgb[3] = {pre->rgb[0], pre->rgb[1], pre->rgb[2]};
    pre->kernels->finish(&plan->color.decode, in, n, rgb);
    pre->kernels->tone(pre->tone, pre->rgb[0], pre->rgb[1], pre->rgb[2], n);
    pre->kernels->finish(&plan->color.finish,
                         (const float *const[3]){pre->rgb[0], pre->rgb[1], pre->rgb[2]}, n, dst);
}

static void run_lines(tachy_preprocess *pre, const struct tachy_plan *plan, const tachy_frame *f,
                      const struct target *o)
{
    const struct tachy_geometry *g = &plan->geo;
    bool turned = g->separable && g->transposed;
    int length = turned ? g->ph : g->pw, lines = turned ? g->pw : g->ph;
    size_t line_bytes = (size_t)length * o->pixel;
    if (!g->separable)
        fill_grid(pre, plan, f);
    for (int line = 0; line < lines; line++) {
        void *dst[3] = {0};
        for (int c = 0; c < o->channels; c++)
            dst[c] = turned ? (uint8_t *)pre->strip.p +
                                  ((size_t)c * STRIP + (size_t)(line % STRIP)) * line_bytes
                            : target_at(o, c, g->px, g->py + line);
        if (g->separable)
            sample_line(pre, plan, f, line, pre->line);
        else
            grid_line(pre, plan, line);
        finish_line(pre, plan, length, dst);
        if (turned && (line % STRIP == STRIP - 1 || line == lines - 1)) {
            int first = line / STRIP * STRIP;
            turn_strip(o, pre->strip.p, line_bytes, g->px + first, g->py, line - first + 1, length);
        }
    }
}

// ---- Plans

// Room for the lines of `plan`; grows only.
static int reserve(tachy_preprocess *pre, const struct tachy_plan *plan)
{
    const struct tachy_geometry *g = &plan->geo;
    size_t pixels = (size_t)TACHY_MAX(TACHY_MAX(g->pw, g->ph), plan->length);
    size_t padded = TACHY_ALIGN(pixels, (size_t)TACHY_LINE_ROUND), scratch = 0;
    for (int i = 0; i < plan->planes; i++) {
        size_t need = tachy_pre_scratch(&plan->shape[plan->plane[i].shape]);
        scratch = TACHY_MAX(scratch, need);
    }
    size_t before = pre->lines.size;
    if (tachy_growing_need(&pre->scratch, scratch) < 0 ||
        tachy_growing_need(&pre->lines, 6 * padded * sizeof(float)) < 0 ||
        (g->transposed && tachy_growing_need(&pre->strip, STRIP * pixels * 3 * sizeof(float)) < 0))
        return TACHY_ERR_NOMEM;
    if (before != pre->lines.size)
        memset(pre->lines.p, 0, pre->lines.size);
    size_t apart = pre->lines.size / sizeof(float) / 6;
    for (int i = 0; i < 3; i++) {
        pre->line[i] = (float *)pre->lines.p + (size_t)i * apart;
        pre->rgb[i] = (float *)pre->lines.p + (size_t)(i + 3) * apart;
    }
    return TACHY_OK;
}

static int prepare(tachy_preprocess *pre, struct tachy_plan *plan, const struct tachy_plan_key *key)
{
    int err = TACHY_OK;
    if (!plan->valid || !tachy_plan_key_same(&plan->key, key))
        err = tachy_plan_build(plan, &pre->params, pre->kernels, key);
    if (err < 0)
        return err;
    err = reserve(pre, plan);
    if (err == TACHY_OK && plan->color.hdr && !tachy_tone_fits(pre->tone, key->color)) {
        tachy_tone_close(&pre->tone);
        err = tachy_tone_open(&pre->tone, key->color);
    }
    return err < 0 ? tachy_fail(pre->params.log, err, "preprocess: out of memory") : TACHY_OK;
}

// The plan for `key`: a kept one, else one built in place of the one unused for longest.
static int get_plan(tachy_preprocess *pre, const struct tachy_plan_key *key, struct tachy_plan **out)
{
    struct tachy_plan *plan = &pre->plan[0];
    for (int i = 0; i < PLANS; i++) {
        struct tachy_plan *p = &pre->plan[i];
        if (p->valid && tachy_plan_key_same(&p->key, key)) {
            plan = p;
            break;
        }
        if (!p->valid ? plan->valid : plan->valid && p->last_use < plan->last_use)
            plan = p;
    }
    int err = prepare(pre, plan, key);
    plan->last_use = ++pre->uses;
    *out = plan;
    return err;
}

int tachy_preprocess_run(tachy_preprocess *p, const tachy_frame *f, const struct tachy_view *view,
                         struct tachy_tensor *out, struct tachy_placement *placement)
{
    struct target o = {0};
    if (placement)
        *placement = (struct tachy_placement){0};
    if (!TACHY_CHECK(TACHY_LOG_OF(p, params.log), p && f && out))
        return TACHY_ERR_INVAL;
    int err = tachy_frame_check(f, p->params.log, "preprocess");
    if (err == TACHY_OK)
        err = tachy_frame_need_host(f, p->params.log, "preprocess");
    if (err < 0 || (err = check_tensor(p, out, &o)) < 0)
        return err;
    struct tachy_plan_key key = {
        .format = f->format,
        .width = f->width,
        .height = f->height,
        .color = tachy_color_resolve(f->color, f->format, f->width, f->height),
    };
    if (view)
        key.view = *view;
    struct tachy_plan *plan;
    err = get_plan(p, &key, &plan);
    if (err < 0)
        return err;
    fill_borders(p, &o, &plan->geo);
    run_lines(p, plan, f, &o);
    if (placement)
        *placement = (struct tachy_placement){plan->geo.px, plan->geo.py, plan->geo.pw, plan->geo.ph};
    return TACHY_OK;
}
