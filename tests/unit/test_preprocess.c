// preprocess against the definition in tachy/preprocess.h, computed in float64 pixel by pixel
// with none of the library's tables: geometry as a mapping of points, colour by H.273's
// equations, tone mapping by the formulas of docs/preprocess.md.
#include "test.h"

#include "base/base.h"
#include "base/cpu.h"

#include <math.h>
#include <tachy/preprocess.h>

static uint64_t rng = 20261121;

static double uniform(double lo, double hi)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u; // Knuth's MMIX generator
    return lo + (hi - lo) * (double)(rng >> 11) / 9007199254740992.0;
}

static int whole(int lo, int hi) { return lo + (int)uniform(0, hi - lo + 1); }

static double at_most(double v, double lo, double hi) { return v < lo ? lo : v > hi ? hi : v; }

// ---- Frames

struct picture {
    tachy_frame f;
    uint8_t *mem[4];
};

static void make(struct picture *p, enum tachy_pix format, int w, int h,
                 int (*value)(int plane, int x, int y))
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    *p = (struct picture){.f = {.format = format, .width = w, .height = h}};
    for (int i = 0; i < d->planes; i++) {
        bool chroma = !d->rgb && (i == 1 || i == 2);
        int pw = chroma ? -(-w >> d->chroma_shift_x) : w, ph = chroma ? -(-h >> d->chroma_shift_y) : h;
        int n = pw * d->components[i];
        p->f.stride[i] = (ptrdiff_t)n * d->bytes;
        uint8_t *mem = p->mem[i] = malloc((size_t)p->f.stride[i] * (size_t)ph);
        p->f.data[i] = mem;
        for (int y = 0; y < ph; y++)
            for (int x = 0; x < n; x++) {
                int v = value(i, x, y);
                uint8_t *s = mem + y * p->f.stride[i] + (ptrdiff_t)x * d->bytes;
                s[0] = (uint8_t)v;
                if (d->bytes == 2) {
                    v = (v & 1023) << d->shift;
                    s[0] = (uint8_t)v;
                    s[1] = (uint8_t)(v >> 8);
                }
            }
    }
}

static void drop(struct picture *p)
{
    for (int i = 0; i < 4; i++)
        free(p->mem[i]);
}

static int noise(int plane, int x, int y) { return whole(0, 1023); }

// Sample of channel c (Y, U, V or R, G, B) in 8-bit code units, edges repeated.
struct channel {
    const tachy_frame *f;
    int c, w, h;         // extents of its plane
    double step_x, step_y, site_x, site_y; // luma pixels per sample; centre of the first one
};

static double sample(const struct channel *ch, int x, int y)
{
    const tachy_frame *f = ch->f;
    x = x < 0 ? 0 : x >= ch->w ? ch->w - 1 : x;
    y = y < 0 ? 0 : y >= ch->h ? ch->h - 1 : y;
    int plane = ch->c, offset = x;
    switch (f->format) {
    case TACHY_PIX_RGB24: plane = 0; offset = 3 * x + ch->c; break;
    case TACHY_PIX_RGBA: plane = 0; offset = 4 * x + ch->c; break;
    case TACHY_PIX_BGRA: plane = 0; offset = 4 * x + 2 - ch->c; break;
    case TACHY_PIX_NV12:
    case TACHY_PIX_P010:
        if (ch->c) {
            plane = 1;
            offset = 2 * x + ch->c - 1;
        }
        break;
    default: break;
    }
    const uint8_t *row = f->data[plane] + y * f->stride[plane];
    switch (f->format) {
    case TACHY_PIX_P010: return ((row[2 * offset] + 256 * row[2 * offset + 1]) >> 6) / 4.0;
    case TACHY_PIX_GRAY10:
    case TACHY_PIX_YUV420P10:
    case TACHY_PIX_YUV422P10:
    case TACHY_PIX_YUV444P10:
    case TACHY_PIX_YUVA444P10: return (row[2 * offset] + 256 * row[2 * offset + 1]) / 4.0;
    default: return row[offset];
    }
}

static struct channel channel(const tachy_frame *f, int c, int loc)
{
    bool is420 = f->format == TACHY_PIX_YUV420P || f->format == TACHY_PIX_YUV420P10 ||
                 f->format == TACHY_PIX_NV12 || f->format == TACHY_PIX_P010 ||
                 f->format == TACHY_PIX_YUVA420P;
    bool is422 = f->format == TACHY_PIX_YUV422P || f->format == TACHY_PIX_YUV422P10;
    struct channel ch = {f, c, f->width, f->height, 1, 1, 0.5, 0.5};
    if (c && (is420 || is422)) {
        ch.w = (f->width + 1) / 2;
        ch.step_x = 2;
        ch.site_x = loc == 2 || loc == 4 ? 1 : 0.5;
    }
    if (c && is420) {
        ch.h = (f->height + 1) / 2;
        ch.step_y = 2;
        ch.site_y = loc == 3 || loc == 4 ? 0.5 : 1;
    }
    return ch;
}

// ---- Resampling: the frame's rectangle x0..x1, y0..y1 becomes one value

static double across(const struct channel *ch, double x0, double x1, int y)
{
    double a = (fmin(x0, x1) - ch->site_x) / ch->step_x + 0.5;
    double b = (fmax(x0, x1) - ch->site_x) / ch->step_x + 0.5, sum = 0;
    if (b - a <= 1) {
        double c = (a + b) / 2 - 0.5, f = c - floor(c);
        return (1 - f) * sample(ch, (int)floor(c), y) + f * sample(ch, (int)floor(c) + 1, y);
    }
    for (int k = (int)floor(a); k < b; k++)
        sum += fmax(fmin(b, k + 1) - fmax(a, k), 0) * sample(ch, k, y);
    return sum / (b - a);
}

static double resample(const struct channel *ch, double x0, double y0, double x1, double y1)
{
    double a = (fmin(y0, y1) - ch->site_y) / ch->step_y + 0.5;
    double b = (fmax(y0, y1) - ch->site_y) / ch->step_y + 0.5, sum = 0;
    if (b - a <= 1) {
        double c = (a + b) / 2 - 0.5, f = c - floor(c);
        return (1 - f) * across(ch, x0, x1, (int)floor(c)) + f * across(ch, x0, x1, (int)floor(c) + 1);
    }
    for (int k = (int)floor(a); k < b; k++)
        sum += fmax(fmin(b, k + 1) - fmax(a, k), 0) * across(ch, x0, x1, k);
    return sum / (b - a);
}

// ---- Geometry

struct map {
    const struct tachy_preprocess_params *p;
    const tachy_frame *f;
    const struct tachy_view *v;
    double x, y, w, h;              // placed part of the tensor
    double rw, rh;                  // region, as stored
    double cut_x, cut_y, cut_w, cut_h; // visible part of the upright region
};

static struct map mapping(const struct tachy_preprocess_params *p, const tachy_frame *f,
                          const struct tachy_view *v)
{
    struct map m = {p, f, v, 0, 0, p->width, p->height, 0, 0, 0, 0, 0, 0};
    m.rw = v->w ? v->w : f->width - v->x;
    m.rh = v->h ? v->h : f->height - v->y;
    bool turned = v->rotation % 180 != 0;
    double uw = m.cut_w = turned ? m.rh : m.rw, uh = m.cut_h = turned ? m.rw : m.rh;
    if (v->use_affine || p->fit == TACHY_FIT_STRETCH)
        return m;
    if (p->fit == TACHY_FIT_LETTERBOX) {
        double s = fmin(p->width / uw, p->height / uh);
        m.w = at_most(round(uw * s), 1, p->width);
        m.h = at_most(round(uh * s), 1, p->height);
        m.x = floor((p->width - m.w) / 2);
        m.y = floor((p->height - m.h) / 2);
    } else {
        double s = fmax(p->width / uw, p->height / uh);
        m.cut_w = p->width / s;
        m.cut_h = p->height / s;
        m.cut_x = (uw - m.cut_w) / 2;
        m.cut_y = (uh - m.cut_h) / 2;
    }
    return m;
}

// Point of the tensor to point of the frame.
static void to_frame(const struct map *m, double tx, double ty, double *x, double *y)
{
    const double *a = m->v->affine;
    if (m->v->use_affine) {
        *x = a[0] * tx + a[1] * ty + a[2];
        *y = a[3] * tx + a[4] * ty + a[5];
        return;
    }
    int turns = m->v->rotation / 90;
    double uw = turns % 2 ? m->rh : m->rw, uh = turns % 2 ? m->rw : m->rh;
    double px = m->cut_x + (tx - m->x) / m->w * m->cut_w, py = m->cut_y + (ty - m->y) / m->h * m->cut_h;
    if (m->v->flip)
        px = uw - px;
    for (int i = 0; i < turns; i++) { // undo a clockwise quarter turn
        double before = px;
        px = py;
        py = uw - before;
        double swap = uw;
        uw = uh;
        uh = swap;
    }
    *x = m->v->x + px;
    *y = m->v->y + py;
}

static double cell(const struct channel *ch, int cx, int cy, double sx, double sy)
{
    return resample(ch, cx * sx, cy * sy, (cx + 1) * sx, (cy + 1) * sy);
}

static double tensor_sample(const struct map *m, const struct channel *ch, int dx, int dy)
{
    double x0, y0, x1, y1;
    const double *a = m->v->affine;
    bool oblique = m->v->use_affine && !(a[1] == 0 && a[3] == 0) && !(a[0] == 0 && a[4] == 0);
    if (!oblique) {
        to_frame(m, dx, dy, &x0, &y0);
        to_frame(m, dx + 1, dy + 1, &x1, &y1);
        return resample(ch, x0, y0, x1, y1);
    }
    double sx = fmax(1, hypot(a[0], a[1])), sy = fmax(1, hypot(a[3], a[4]));
    to_frame(m, dx + 0.5, dy + 0.5, &x0, &y0);
    double u = x0 / sx - 0.5, v = y0 / sy - 0.5;
    int cx = (int)floor(u), cy = (int)floor(v);
    double fu = u - cx, fv = v - cy;
    return (1 - fv) * ((1 - fu) * cell(ch, cx, cy, sx, sy) + fu * cell(ch, cx + 1, cy, sx, sy)) +
           fv * ((1 - fu) * cell(ch, cx, cy + 1, sx, sy) + fu * cell(ch, cx + 1, cy + 1, sx, sy));
}

// ---- Colour

static void matrix_weights(int matrix, double *kr, double *kb)
{
    *kr = matrix == 1 ? 0.2126 : matrix == 9 ? 0.2627 : 0.299;
    *kb = matrix == 1 ? 0.0722 : matrix == 9 ? 0.0593 : 0.114;
}

// in[]: 8-bit code units. rgb[3] receives luma.
static void to_rgb(const struct tachy_pix_desc *d, struct tachy_color c, const double in[3], double rgb[4])
{
    double top = d->bits == 10 ? 1023 / 4.0 : 255;
    bool limited = c.range == 1;
    double v[3];
    for (int i = 0; i < 3; i++)
        v[i] = limited ? (in[i] - 16) / 219 : in[i] / top;
    if (d->rgb) {
        memcpy(rgb, v, sizeof(v));
        rgb[3] = 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2];
    } else if (d->planes == 1) {
        rgb[0] = rgb[1] = rgb[2] = rgb[3] = v[0];
    } else {
        double cb = (in[1] - 128) / (limited ? 224 : top), cr = (in[2] - 128) / (limited ? 224 : top);
        double kr, kb;
        matrix_weights(c.matrix, &kr, &kb);
        rgb[0] = v[0] + 2 * (1 - kr) * cr;
        rgb[2] = v[0] + 2 * (1 - kb) * cb;
        rgb[1] = (v[0] - kr * rgb[0] - kb * rgb[2]) / (1 - kr - kb);
        rgb[3] = v[0];
    }
    for (int i = 0; i < 4; i++)
        rgb[i] = at_most(rgb[i], 0, 1);
}

static double pq_eotf(double e)
{
    double n = pow(e, 1 / 78.84375);
    return 10000 * pow(fmax(n - 0.8359375, 0) / (18.8515625 - 18.6875 * n), 1 / 0.1593017578125);
}

static double hlg_inverse_oetf(double e)
{
    return e <= 0.5 ? e * e / 3 : (exp((e - 0.55991073) / 0.17883277) + 0.28466892) / 12;
}

static void tone_map(struct tachy_color c, double rgb[4])
{
    static const double to709[3][3] = {{1.660491, -0.587641, -0.072850},
                                       {-0.124550, 1.132900, -0.008349},
                                       {-0.018151, -0.100579, 1.118730}};
    double l[3], knee = 0.6, peak = 1000 / 203.0;
    for (int i = 0; i < 3; i++)
        l[i] = c.transfer == 16 ? pq_eotf(rgb[i]) / 203 : hlg_inverse_oetf(rgb[i]);
    if (c.transfer == 18) {
        double y = c.primaries == 9 ? 0.2627 * l[0] + 0.6780 * l[1] + 0.0593 * l[2]
                                    : 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2];
        for (int i = 0; i < 3; i++)
            l[i] *= 1000 / 203.0 * pow(y, 0.2);
    }
    double m = fmax(l[0], fmax(l[1], l[2])), k = (peak - knee) / (1 - knee);
    double x = (m - knee) / (peak - knee);
    double gain = m <= knee ? 1 : fmin(1, knee + (1 - knee) * k * x / (1 + (k - 1) * x)) / m;
    for (int i = 0; i < 3; i++) {
        double v = c.primaries == 9 ? to709[i][0] * l[0] + to709[i][1] * l[1] + to709[i][2] * l[2] : l[i];
        v = at_most(v * gain, 0, 1);
        rgb[i] = v <= 0.0031308 ? 12.92 * v : 1.055 * pow(v, 1 / 2.4) - 0.055;
    }
    rgb[3] = 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
}

// Value of tensor channel tc at (dx, dy), 0..255 before normalisation.
static double reference(const struct map *m, struct tachy_color c, int dx, int dy, int tc)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(m->f->format);
    if (dx < m->x || dx >= m->x + m->w || dy < m->y || dy >= m->y + m->h)
        return m->p->pad;
    double in[3], rgb[4];
    for (int i = 0; i < 3; i++) {
        struct channel ch = channel(m->f, d->planes == 1 && !d->rgb ? 0 : i, c.chroma_loc);
        in[i] = tensor_sample(m, &ch, dx, dy);
    }
    to_rgb(d, c, in, rgb);
    if (c.transfer == 16 || c.transfer == 18)
        tone_map(c, rgb);
    return 255 * rgb[m->p->channels == TACHY_LUMA ? 3 : m->p->channels == TACHY_BGR ? 2 - tc : tc];
}

// ---- Comparison

static const char *const versions[] = {"c", "avx2", "avx512", "neon"};

// Largest distance to the reference in code values, over all of a float32 tensor.
static double distance(const struct tachy_preprocess_params *params, const tachy_frame *f,
                       const struct tachy_view *v, const char *isa, double *reference_cache)
{
    struct tachy_preprocess_params p = *params;
    p.isa = isa;
    int n = p.channels == TACHY_LUMA ? 1 : 3;
    bool planar = p.layout == TACHY_NCHW;
    struct tachy_tensor t = {.dtype = TACHY_F32, .rank = 4, .shape = {1, planar ? n : p.height,
        planar ? p.height : p.width, planar ? p.width : n}};
    tachy_preprocess *pre = NULL;
    CHECK_INT(tachy_tensor_alloc(&t), TACHY_OK);
    memset(t.data, 0xff, tachy_tensor_bytes(&t));
    CHECK_INT(tachy_preprocess_open(&pre, &p), TACHY_OK);
    CHECK_STR(tachy_preprocess_isa(pre), isa);
    CHECK_INT(tachy_preprocess_run(pre, f, v, &t, NULL), TACHY_OK);
    struct map m = mapping(params, f, v);
    struct tachy_color c = tachy_color_resolve(f->color, f->format, f->width, f->height);
    double worst = 0;
    for (int y = 0; y < p.height; y++)
        for (int x = 0; x < p.width; x++)
            for (int k = 0; k < n; k++) {
                size_t pixel = (size_t)y * (size_t)p.width + (size_t)x;
                double *want = &reference_cache[pixel * 3 + (size_t)k];
                if (isnan(*want))
                    *want = reference(&m, c, x, y, k);
                float got = ((float *)t.data)[planar ? (size_t)k * (size_t)(p.width * p.height) + pixel
                                                     : pixel * (size_t)n + (size_t)k];
                double std = p.std[k] ? p.std[k] : 1, scale = p.scale ? p.scale : 1;
                double off = fabs((got * std + p.mean[k]) / scale - *want);
                if (!(off <= worst))
                    worst = off;
            }
    tachy_preprocess_close(&pre);
    tachy_tensor_free(&t);
    return worst;
}

static bool runs_here(const char *isa) { return tachy_cpu_has((enum tachy_isa)tachy_isa_by_name(isa)); }

// Worst distance over `rounds` random cases of each format, for the twin and for the others.
static void random_cases(int rounds, bool hdr, bool oblique, double worst[2])
{
    static const int matrices[] = {1, 5, 6, 9, 2};
    worst[0] = worst[1] = 0;
    for (int i = 0; i < rounds * (TACHY_PIX_COUNT - 1); i++) {
        struct picture pic;
        make(&pic, (enum tachy_pix)(1 + i % (TACHY_PIX_COUNT - 1)), whole(1, 60), whole(1, 60), noise);
        tachy_frame *f = &pic.f;
        f->color = (struct tachy_color){(uint8_t)matrices[whole(0, 4)], (uint8_t)(whole(0, 1) ? 9 : 1),
            (uint8_t)(hdr ? 16 + 2 * whole(0, 1) : 1), (uint8_t)whole(0, 2), (uint8_t)whole(0, 4)};
        struct tachy_preprocess_params p = {.width = whole(1, 24), .height = whole(1, 24),
            .layout = (enum tachy_layout)whole(0, 1), .channels = (enum tachy_channels)whole(0, 2),
            .fit = (enum tachy_fit)whole(0, 2), .scale = 1 / 127.5f, .mean = {1, 0.5f, -3},
            .std = {2, 0, 0.5f}, .pad = 77};
        struct tachy_view v = {.rotation = 90 * whole(0, 3), .flip = whole(0, 1)};
        if (whole(0, 2)) {
            v.x = uniform(-0.3, 0.6) * f->width;
            v.y = uniform(-0.3, 0.6) * f->height;
            v.w = uniform(0.1, 0.8) * f->width;
            v.h = uniform(0.1, 0.8) * f->height;
        }
        if (oblique) {
            double angle = i % 3 ? uniform(-3, 3) : whole(0, 1) * acos(0), s = uniform(0.2, 4);
            double cs = i % 3 ? cos(angle) : angle == 0, sn = i % 3 ? sin(angle) : angle != 0;
            v = (struct tachy_view){.use_affine = true, .affine = {s * cs, -s * sn,
                uniform(-10, 60), s * sn * 1.2, s * cs, uniform(-10, 60)}};
        }
        double cache[24 * 24 * 3];
        for (size_t k = 0; k < TACHY_ARRAY_SIZE(cache); k++)
            cache[k] = NAN;
        for (size_t k = 0; k < TACHY_ARRAY_SIZE(versions); k++)
            if (runs_here(versions[k])) {
                double off = distance(&p, f, &v, versions[k], cache);
                if (!(off <= worst[k > 0]))
                    worst[k > 0] = off;
            }
        drop(&pic);
    }
    printf("largest distance in code values: c %.5f, vector versions %.5f\n", worst[0], worst[1]);
}

TEST(all_formats_match_the_definition)
{
    double worst[2];
    random_cases(20, false, false, worst);
    CHECK(worst[0] < 0.002);
    CHECK(worst[1] < 0.12);
}

TEST(affine_maps_match_the_definition)
{
    double worst[2];
    random_cases(10, false, true, worst);
    CHECK(worst[0] < 0.002);
    CHECK(worst[1] < 0.12);
}

TEST(hdr_matches_the_definition)
{
    double worst[2];
    random_cases(10, true, false, worst);
    CHECK(worst[0] < 0.2);
    CHECK(worst[1] < 1);
}

// ---- Aliasing

static int checkerboard(int plane, int x, int y) { return plane ? 128 : (x + y) & 1 ? 255 : 0; }

static int waves(int plane, int x, int y)
{
    return plane ? 128 : (int)lround(127.5 + 127.5 * cos(2.83 * x) * cos(2.71 * y));
}

static int slanted(int plane, int x, int y)
{
    return plane ? 128 : (int)lround(127.5 + 127.5 * cos(2.83 * x + 2.71 * y));
}

static double amplitude(int (*pattern)(int, int, int), const char *isa, const struct tachy_view *v)
{
    struct picture pic;
    make(&pic, TACHY_PIX_YUV420P, 3840, 2160, pattern);
    pic.f.color.range = 2;
    struct tachy_preprocess_params p = {.width = 256, .height = 256, .isa = isa};
    struct tachy_tensor t = {.dtype = TACHY_F32, .rank = 3, .shape = {256, 256, 3}};
    tachy_preprocess *pre = NULL;
    CHECK_INT(tachy_tensor_alloc(&t), TACHY_OK);
    CHECK_INT(tachy_preprocess_open(&pre, &p), TACHY_OK);
    CHECK_INT(tachy_preprocess_run(pre, &pic.f, v, &t, NULL), TACHY_OK);
    float lo = 1e9f, hi = -1e9f;
    for (int i = 0; i < 256 * 256 * 3; i++) {
        lo = fminf(lo, ((float *)t.data)[i]);
        hi = fmaxf(hi, ((float *)t.data)[i]);
    }
    tachy_preprocess_close(&pre);
    tachy_tensor_free(&t);
    drop(&pic);
    return (hi - lo) / 2;
}

TEST(fine_detail_does_not_alias)
{
    const struct tachy_view straight = {0};
    const struct tachy_view turned = {.use_affine = true, .affine = {4.5, -3, 1400, 3, 4.5, 100}};
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(versions); k++) {
        if (!runs_here(versions[k]))
            continue;
        CHECK(amplitude(checkerboard, versions[k], &straight) < 2);
        CHECK(amplitude(waves, versions[k], &straight) < 2);
        CHECK(amplitude(slanted, versions[k], &straight) < 2);
        CHECK(amplitude(checkerboard, versions[k], &turned) < 2);
    }
}

// ---- Types, placement, plans, errors

static int ramp(int plane, int x, int y) { return plane ? 128 : 16 + (3 * x + 5 * y) % 220; }

TEST(uint8_is_the_rounded_float)
{
    struct picture pic;
    make(&pic, TACHY_PIX_NV12, 50, 40, ramp);
    float f[20 * 16 * 3];
    uint8_t u[20 * 16 * 3];
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(versions); k++) {
        if (!runs_here(versions[k]))
            continue;
        for (int u8 = 0; u8 < 2; u8++) {
            struct tachy_preprocess_params p = {.width = 20, .height = 16, .isa = versions[k],
                .dtype = u8 ? TACHY_U8 : TACHY_F32, .mean = {-40, 30, 0}};
            struct tachy_tensor t = {.data = u8 ? (void *)u : (void *)f, .dtype = p.dtype, .rank = 3,
                                     .shape = {16, 20, 3}};
            tachy_preprocess *pre = NULL;
            CHECK_INT(tachy_preprocess_open(&pre, &p), TACHY_OK);
            CHECK_INT(tachy_preprocess_run(pre, &pic.f, NULL, &t, NULL), TACHY_OK);
            tachy_preprocess_close(&pre);
        }
        int wrong = 0;
        for (size_t i = 0; i < TACHY_ARRAY_SIZE(f); i++)
            wrong += u[i] != (uint8_t)lrint(at_most(f[i], 0, 255));
        CHECK_INT(wrong, 0);
    }
    drop(&pic);
}

TEST(letterbox_reports_its_placement)
{
    struct picture pic;
    make(&pic, TACHY_PIX_YUV420P, 64, 36, ramp);
    struct tachy_preprocess_params p = {.width = 32, .height = 32, .fit = TACHY_FIT_LETTERBOX, .pad = 9};
    float data[32 * 32 * 3];
    struct tachy_tensor t = {.data = data, .dtype = TACHY_F32, .rank = 3, .shape = {32, 32, 3}};
    struct tachy_placement pl;
    tachy_preprocess *pre = NULL;
    CHECK_INT(tachy_preprocess_open(&pre, &p), TACHY_OK);
    CHECK_INT(tachy_preprocess_run(pre, &pic.f, NULL, &t, &pl), TACHY_OK);
    CHECK(pl.x == 0 && pl.y == 7 && pl.w == 32 && pl.h == 18);
    CHECK(data[0] == 9 && data[6 * 96 + 95] == 9 && data[25 * 96] == 9 && data[7 * 96] != 9);
    struct tachy_view v = {.rotation = 90};
    CHECK_INT(tachy_preprocess_run(pre, &pic.f, &v, &t, &pl), TACHY_OK);
    CHECK(pl.x == 7 && pl.y == 0 && pl.w == 18 && pl.h == 32);
    tachy_preprocess_close(&pre);
    drop(&pic);
}

// More views and sizes in turn than plans are kept: each gives what a fresh object gives.
TEST(plans_do_not_mix)
{
    struct picture pic[2];
    make(&pic[0], TACHY_PIX_YUV420P, 40, 30, ramp);
    make(&pic[1], TACHY_PIX_RGB24, 33, 21, noise);
    struct tachy_preprocess_params p = {.width = 16, .height = 12};
    float a[16 * 12 * 3], b[16 * 12 * 3];
    struct tachy_tensor ta = {.data = a, .dtype = TACHY_F32, .rank = 3, .shape = {12, 16, 3}}, tb = ta;
    tb.data = b;
    tachy_preprocess *kept = NULL, *fresh = NULL;
    CHECK_INT(tachy_preprocess_open(&kept, &p), TACHY_OK);
    for (int i = 0; i < 60; i++) {
        struct tachy_view v = {.x = whole(0, 3), .rotation = 90 * whole(0, 1)};
        const tachy_frame *f = &pic[whole(0, 1)].f;
        CHECK_INT(tachy_preprocess_open(&fresh, &p), TACHY_OK);
        CHECK_INT(tachy_preprocess_run(kept, f, &v, &ta, NULL), TACHY_OK);
        CHECK_INT(tachy_preprocess_run(fresh, f, &v, &tb, NULL), TACHY_OK);
        CHECK(!memcmp(a, b, sizeof(a)));
        tachy_preprocess_close(&fresh);
    }
    tachy_preprocess_close(&kept);
    drop(&pic[0]);
    drop(&pic[1]);
}

static int messages;
static void count_message(void *user, enum tachy_log_level level, const char *msg) { messages++; }

static int run_with(const struct tachy_preprocess_params *p, const tachy_frame *f,
                    const struct tachy_view *v, const struct tachy_tensor *t)
{
    tachy_preprocess *pre = NULL;
    struct tachy_tensor out = *t;
    int err = tachy_preprocess_open(&pre, p);
    if (err == TACHY_OK)
        err = tachy_preprocess_run(pre, f, v, &out, NULL);
    else
        CHECK(pre == NULL);
    tachy_preprocess_close(&pre);
    return err;
}

TEST(errors_are_one_sentence_each)
{
    const struct tachy_log log = {.fn = count_message};
    struct picture pic;
    make(&pic, TACHY_PIX_YUV420P, 16, 16, ramp);
    float data[8 * 8 * 3];
    struct tachy_tensor t = {.data = data, .dtype = TACHY_F32, .rank = 3, .shape = {8, 8, 3}}, bad;
    struct tachy_preprocess_params good = {.width = 8, .height = 8, .log = &log}, p;
    struct tachy_view v = {0};
    CHECK_INT(run_with(&good, &pic.f, &v, &t), TACHY_OK);
    CHECK_INT(messages, 0);
    int expected = 0;
#define REFUSED(err, params, view, tensor)                                                         \
    do {                                                                                           \
        CHECK_INT(run_with(params, &pic.f, view, tensor), err);                                    \
        CHECK_INT(messages, ++expected);                                                           \
    } while (0)
    p = good, p.width = 0;
    REFUSED(TACHY_ERR_INVAL, &p, &v, &t);
    p = good, p.dtype = TACHY_I64;
    REFUSED(TACHY_ERR_INVAL, &p, &v, &t);
    p = good, p.layout = (enum tachy_layout)7;
    REFUSED(TACHY_ERR_INVAL, &p, &v, &t);
    p = good, p.std[2] = NAN;
    REFUSED(TACHY_ERR_INVAL, &p, &v, &t);
    p = good, p.isa = "mmx";
    REFUSED(TACHY_ERR_INVAL, &p, &v, &t);
    p = good, p.isa = runs_here("neon") ? "avx2" : "neon";
    REFUSED(TACHY_ERR_UNAVAILABLE, &p, &v, &t);
    bad = t, bad.rank = 2;
    REFUSED(TACHY_ERR_INVAL, &good, &v, &bad);
    bad = t, bad.shape[1] = 9;
    REFUSED(TACHY_ERR_INVAL, &good, &v, &bad);
    bad = t, bad.dtype = TACHY_F16;
    REFUSED(TACHY_ERR_INVAL, &good, &v, &bad);
    bad = t, bad.stride[0] = 24, bad.stride[1] = 4, bad.stride[2] = 1;
    REFUSED(TACHY_ERR_INVAL, &good, &v, &bad);
    v = (struct tachy_view){.x = NAN};
    REFUSED(TACHY_ERR_INVAL, &good, &v, &t);
    v = (struct tachy_view){.w = -3, .h = 3};
    REFUSED(TACHY_ERR_INVAL, &good, &v, &t);
    v = (struct tachy_view){.x = 16};
    REFUSED(TACHY_ERR_INVAL, &good, &v, &t);
    v = (struct tachy_view){.rotation = 45};
    REFUSED(TACHY_ERR_INVAL, &good, &v, &t);
    v = (struct tachy_view){.use_affine = true, .affine = {1, 0, INFINITY, 0, 1, 0}};
    REFUSED(TACHY_ERR_INVAL, &good, &v, &t);
    v = (struct tachy_view){0};
    pic.f.color.matrix = 10; // BT.2020 with constant luminance
    REFUSED(TACHY_ERR_UNSUPPORTED, &good, &v, &t);
    pic.f.color.matrix = 0;
    pic.f.stride[1] /= 2;
    REFUSED(TACHY_ERR_INVAL, &good, &v, &t);
    pic.f.stride[1] *= 2;
    pic.f.data[1] = NULL;
    REFUSED(TACHY_ERR_INVAL, &good, &v, &t);
    drop(&pic);
}

TEST_MAIN(TEST_CASE(all_formats_match_the_definition), TEST_CASE(affine_maps_match_the_definition),
          TEST_CASE(hdr_matches_the_definition), TEST_CASE(fine_detail_does_not_alias),
          TEST_CASE(uint8_is_the_rounded_float), TEST_CASE(letterbox_reports_its_placement),
          TEST_CASE(plans_do_not_mix), TEST_CASE(errors_are_one_sentence_each))
