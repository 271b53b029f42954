#include "ref/ref_convert.h"

#include "base/base.h"
#include "base/ycbcr.h"
#include "ref/ref_preprocess.h"

#include <math.h>

// v rounded, times 2^shift.
static int32_t fixed(double v, int shift) { return (int32_t)lrint(ldexp(v, shift)); }

static void to_yuv_codes(struct tachy_yuv_codes *k, double kr, double kb, double luma, double chroma, int black)
{
    int deep = k->bits - 8, neutral = 128 << deep;
    k->luma_shift = 15 - deep; // weights are signed 16-bit numbers
    k->chroma_shift = 20 - deep;
    k->luma[0] = fixed(kr * luma / 255, k->luma_shift);
    k->luma[2] = fixed(kb * luma / 255, k->luma_shift);
    k->luma[1] = fixed(luma / 255, k->luma_shift) - k->luma[0] - k->luma[2]; // white is exact
    k->luma_add = (black << k->luma_shift) + (1 << (k->luma_shift - 1));
    double cb = chroma / (255 * 16) / (2 * (1 - kb)), cr = chroma / (255 * 16) / (2 * (1 - kr));
    k->cb[0] = fixed(-kr * cb, k->chroma_shift);
    k->cb[2] = fixed((1 - kb) * cb, k->chroma_shift);
    k->cb[1] = -k->cb[0] - k->cb[2]; // grey has no colour
    k->cr[0] = fixed((1 - kr) * cr, k->chroma_shift);
    k->cr[2] = fixed(-kb * cr, k->chroma_shift);
    k->cr[1] = -k->cr[0] - k->cr[2];
    k->chroma_add[0] = k->chroma_add[1] = (neutral << k->chroma_shift) + (1 << (k->chroma_shift - 1));
}

// A whole number of fours: the kernel adds a quarter with each quarter of a pair of chroma.
static int32_t quarters(int32_t v) { return v / 4 * 4; }

static void to_rgb_codes(struct tachy_yuv_codes *k, double kr, double kb, double luma, double chroma, int black)
{
    double kg = 1 - kr - kb, c = 255 / chroma / 16;
    int shift = TACHY_YUV_TO_RGB_SHIFT, neutral = 16 * (128 << (k->bits - 8));
    k->y = fixed(255 / luma, shift);
    k->r_cr = fixed(2 * (1 - kr) * c, shift);
    k->g_cb = fixed(-2 * kb * (1 - kb) / kg * c, shift);
    k->g_cr = fixed(-2 * kr * (1 - kr) / kg * c, shift);
    k->b_cb = fixed(2 * (1 - kb) * c, shift);
    k->r_add = quarters(-black * k->y - neutral * k->r_cr);
    k->g_add = quarters(-black * k->y - neutral * (k->g_cb + k->g_cr));
    k->b_add = quarters(-black * k->y - neutral * k->b_cb);
}

bool tachy_yuv_codes_of(struct tachy_yuv_codes *k, int bits, int matrix, bool full, int chroma_loc)
{
    double kr, kb;
    if (!tachy_luma_weights(matrix, &kr, &kb))
        return false;
    *k = (struct tachy_yuv_codes){
        .bits = bits, .centre = chroma_loc == 2 || chroma_loc == 4, .top = chroma_loc == 3 || chroma_loc == 4};
    struct tachy_ycbcr_codes c = tachy_ycbcr_codes_of(bits, full);
    to_yuv_codes(k, kr, kb, c.luma, c.chroma, c.black);
    to_rgb_codes(k, kr, kb, c.luma, c.chroma, c.black);
    return true;
}

void tachy_yuv_codes_between(struct tachy_yuv_codes *k, const struct tachy_yuv_side *from,
                             const struct tachy_yuv_side *to, int bits)
{
    struct tachy_ycbcr_change c = tachy_ycbcr_change_of(from->matrix, to->matrix);
    *k = (struct tachy_yuv_codes){.bits = bits, .centre = 1, .luma_shift = 22 - bits, .chroma_shift = 28 - bits};
    struct tachy_ycbcr_codes a = tachy_ycbcr_codes_of(8, from->full), b = tachy_ycbcr_codes_of(bits, to->full);
    double per_luma = 1 / a.luma, per_chroma = 1 / a.chroma;
    k->luma[0] = fixed(b.luma * per_luma, k->luma_shift);
    int32_t off = a.black * k->luma[0];
    for (int i = 0; i < 2; i++) {
        k->luma[i + 1] = fixed(b.luma * per_chroma * c.y[i], k->luma_shift);
        k->cb[i + 1] = fixed(b.chroma * per_chroma / 16 * c.cb[i], k->chroma_shift);
        k->cr[i + 1] = fixed(b.chroma * per_chroma / 16 * c.cr[i], k->chroma_shift);
        off += 128 * k->luma[i + 1];
    }
    int32_t middle = (1 << (bits - 1) << k->chroma_shift) + (1 << (k->chroma_shift - 1));
    k->luma_add = (b.black << k->luma_shift) + (1 << (k->luma_shift - 1)) - off;
    k->chroma_add[0] = middle - 16 * 128 * (k->cb[1] + k->cb[2]);
    k->chroma_add[1] = middle - 16 * 128 * (k->cr[1] + k->cr[2]);
}

static bool is_bytes(const struct tachy_rgb_picture *p) { return p->type <= TACHY_RGB_BYTES4; }

// Address of component c (R, G, B) of a pixel.
static uint8_t *component(const struct tachy_rgb_picture *p, int c, int x, int y)
{
    static const int bytes[] = {[TACHY_RGB_F16] = 2, [TACHY_RGB_F32] = 4};
    if (is_bytes(p))
        return p->plane[0] + y * p->stride + x * (p->type == TACHY_RGB_BYTES3 ? 3 : 4) + (p->blue_first ? 2 - c : c);
    return p->plane[c] + y * p->stride + (int64_t)x * bytes[p->type];
}

// A byte, or a float as a whole number.
static int code_at(const struct tachy_rgb_picture *p, int c, int x, int y)
{
    const uint8_t *at = component(p, c, x, y);
    float v;
    uint16_t half;
    if (is_bytes(p))
        return *at;
    if (p->type == TACHY_RGB_F32) {
        memcpy(&v, at, sizeof(v));
    } else {
        memcpy(&half, at, sizeof(half));
        v = tachy_ref_float(half);
    }
    v = v > 0 ? v : 0; // false for NaN; fmaxf() would return a signalling NaN
    return (int)lrintf((v < 1 ? v : 1) * TACHY_RGB_WHITE);
}

static void put_sample(const struct tachy_yuv_codes *k, uint8_t *row, int i, int v)
{
    v = TACHY_CLAMP(v, 0, (1 << k->bits) - 1);
    row[k->bits == 8 ? i : 2 * i] = (uint8_t)(k->bits == 8 ? v : v << 6);
    if (k->bits == 10)
        row[2 * i + 1] = (uint8_t)(v >> 2);
}

static int sample(const struct tachy_yuv_codes *k, const uint8_t *row, int i)
{
    return k->bits == 8 ? row[i] : (row[2 * i] | row[2 * i + 1] << 8) >> 6;
}

// Component c around the chroma sample at (x, y) of its plane: 16 times the mean.
static int around(const struct tachy_yuv_codes *k, const struct tachy_rgb_picture *p, int c, int x, int y, int width,
                  int height)
{
    static const int weight[2][3] = {{1, 2, 1}, {0, 2, 2}}; // of the places -1, 0, 1
    int sum = 0;
    for (int j = 0; j < 3; j++)
        for (int i = 0; i < 3; i++)
            sum += weight[k->centre][i] * weight[!k->top][j] *
                   code_at(p, c, TACHY_CLAMP(2 * x + i - 1, 0, width - 1), TACHY_CLAMP(2 * y + j - 1, 0, height - 1));
    return is_bytes(p) ? sum : (sum + 8) >> 4;
}

void tachy_ref_rgb_to_yuv(const struct tachy_yuv_codes *k, const struct tachy_rgb_picture *rgb,
                          const struct tachy_yuv_picture *yuv, int width, int height)
{
    int finer = is_bytes(rgb) ? 0 : 6; // bits that the numbers of floats have below a byte's
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            int v = k->luma_add * (1 << finer);
            for (int c = 0; c < 3; c++)
                v += k->luma[c] * code_at(rgb, c, x, y);
            put_sample(k, yuv->luma + y * yuv->luma_stride, x, v >> (k->luma_shift + finer));
        }
    finer = is_bytes(rgb) ? 0 : 2;
    for (int y = 0; y < (height + 1) / 2; y++)
        for (int x = 0; x < (width + 1) / 2; x++) {
            int cb = k->chroma_add[0] * (1 << finer), cr = k->chroma_add[1] * (1 << finer);
            for (int c = 0; c < 3; c++) {
                int mean = around(k, rgb, c, x, y, width, height);
                cb += k->cb[c] * mean;
                cr += k->cr[c] * mean;
            }
            uint8_t *row = yuv->chroma + y * yuv->chroma_stride;
            put_sample(k, row, 2 * x, cb >> (k->chroma_shift + finer));
            put_sample(k, row, 2 * x + 1, cr >> (k->chroma_shift + finer));
        }
}

// 16 times the chroma component c at pixel (x, y).
static int chroma_at(const struct tachy_yuv_codes *k, const struct tachy_yuv_picture *p, int c, int x, int y, int width,
                     int height)
{
    int across = x & 1 ? (k->centre ? 1 : 2) : k->centre, down = y & 1 ? (k->top ? 2 : 1) : !k->top; // of the far one
    int columns[2] = {x / 2, TACHY_CLAMP(x / 2 + (x & 1 ? 1 : -1), 0, (width - 1) / 2)};
    int rows[2] = {y / 2, TACHY_CLAMP(y / 2 + (y & 1 ? 1 : -1), 0, (height - 1) / 2)}, sum = 0;
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < 2; i++)
            sum += (i ? across : 4 - across) * (j ? down : 4 - down) *
                   sample(k, p->chroma + rows[j] * p->chroma_stride, 2 * columns[i] + c);
    return sum;
}

static void put_component(const struct tachy_rgb_picture *p, int c, int x, int y, int v)
{
    uint8_t *to = component(p, c, x, y);
    if (is_bytes(p)) {
        *to = (uint8_t)TACHY_CLAMP((v + (1 << 19)) >> TACHY_YUV_TO_RGB_SHIFT, 0, 255);
        return;
    }
    int code = TACHY_CLAMP((v + (1 << 13)) >> (TACHY_YUV_TO_RGB_SHIFT - 6), 0, TACHY_RGB_WHITE);
    float f = (float)code * (1.0f / TACHY_RGB_WHITE);
    uint16_t half = tachy_ref_half(f);
    if (p->type == TACHY_RGB_F16)
        memcpy(to, &half, sizeof(half));
    else
        memcpy(to, &f, sizeof(f));
}

void tachy_ref_yuv_to_rgb(const struct tachy_yuv_codes *k, const struct tachy_yuv_picture *yuv,
                          const struct tachy_rgb_picture *rgb, int width, int height)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            int luma = k->y * sample(k, yuv->luma + y * yuv->luma_stride, x);
            int cb = chroma_at(k, yuv, 0, x, y, width, height), cr = chroma_at(k, yuv, 1, x, y, width, height);
            put_component(rgb, 0, x, y, luma + k->r_cr * cr + k->r_add);
            put_component(rgb, 1, x, y, luma + k->g_cb * cb + k->g_cr * cr + k->g_add);
            put_component(rgb, 2, x, y, luma + k->b_cb * cb + k->b_add);
            if (rgb->type == TACHY_RGB_BYTES4)
                rgb->plane[0][y * rgb->stride + 4 * x + 3] = 255;
        }
}
