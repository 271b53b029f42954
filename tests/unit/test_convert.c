// Between R'G'B' and Y'CbCr: the plain C version compared with libswscale, and properties of every version.
#include "test.h"

#include "base/base.h"
#include "ref/ref_convert.h"
#include "ref/ref_preprocess.h"

#include <libswscale/swscale.h>
#include <math.h>

enum { W = 64, H = 32, BLOCK = 16 };

static const struct {
    int matrix, sws;
} matrices[] = {{1, SWS_CS_ITU709}, {6, SWS_CS_ITU601}, {9, SWS_CS_BT2020}, {7, SWS_CS_SMPTE240M}, {4, SWS_CS_FCC}};

struct pictures {
    uint8_t rgb[H][W][3], luma[H][2 * W], chroma[H / 2][2 * W];
};

static struct tachy_rgb_picture bytes_of(struct pictures *p)
{
    return (struct tachy_rgb_picture){.type = TACHY_RGB_BYTES3, .plane = {p->rgb[0][0]}, .stride = sizeof(p->rgb[0])};
}
static struct tachy_yuv_picture planes_of(struct pictures *p)
{
    return (struct tachy_yuv_picture){p->luma[0], p->chroma[0], sizeof(p->luma[0]), sizeof(p->chroma[0])};
}

// Squares of one colour each, so that it does not matter how chroma is taken in between.
static void fill_squares(struct pictures *p, uint32_t seed)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < 3; c++) {
                uint32_t n = seed + (uint32_t)((y / BLOCK * W / BLOCK + x / BLOCK) * 3 + c);
                n = (n ^ n >> 15) * 0x2c1b3c6du;
                p->rgb[y][x][c] = (uint8_t)((n ^ n >> 12) * 0x297a2d39u >> 24);
            }
}

static int sample(const uint8_t *row, int i, int bits)
{
    return bits == 8 ? row[i] : (row[2 * i] | row[2 * i + 1] << 8) >> 6;
}

static void by_swscale(const struct pictures *from, struct pictures *to, bool to_rgb, int bits, int sws, bool full)
{
    enum AVPixelFormat yuv = bits == 8 ? AV_PIX_FMT_NV12 : AV_PIX_FMT_P010LE, rgb = AV_PIX_FMT_RGB24;
    int flags = SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP;
    struct SwsContext *s = sws_getContext(W, H, to_rgb ? yuv : rgb, W, H, to_rgb ? rgb : yuv, flags, NULL, NULL, NULL);
    const int *k = sws_getCoefficients(sws);
    sws_setColorspaceDetails(s, k, to_rgb ? full : true, k, to_rgb ? true : full, 0, 1 << 16, 1 << 16);
    const uint8_t *rgb_in[] = {from->rgb[0][0]}, *yuv_in[] = {from->luma[0], from->chroma[0]};
    uint8_t *rgb_out[] = {to->rgb[0][0], NULL, NULL, NULL}, *yuv_out[] = {to->luma[0], to->chroma[0], NULL, NULL};
    int rgb_stride[] = {sizeof(from->rgb[0]), 0, 0, 0};
    int yuv_stride[] = {sizeof(from->luma[0]), sizeof(from->chroma[0]), 0, 0};
    sws_scale(s, to_rgb ? yuv_in : rgb_in, to_rgb ? yuv_stride : rgb_stride, 0, H, to_rgb ? rgb_out : yuv_out,
              to_rgb ? rgb_stride : yuv_stride);
    sws_freeContext(s);
}

// The largest difference in the middle of the squares, in units of a byte.
static double far_apart(const struct pictures *a, const struct pictures *b, bool rgb, int bits)
{
    int worst = 0;
    for (int y = BLOCK / 2; y < H; y += BLOCK)
        for (int x = BLOCK / 2; x < W; x += BLOCK)
            for (int c = 0; c < 3; c++) {
                const uint8_t *p = c ? a->chroma[y / 2] : a->luma[y], *q = c ? b->chroma[y / 2] : b->luma[y];
                int i = c ? x + c - 1 : x, v = sample(p, i, bits) - sample(q, i, bits);
                worst = TACHY_MAX(worst, abs(rgb ? a->rgb[y][x][c] - b->rgb[y][x][c] : v));
            }
    return rgb ? worst : worst / (double)(1 << (bits - 8));
}

TEST(as_libswscale)
{
    static struct pictures a, b, back;
    for (int i = 0; i < 5 * 2 * 2; i++) {
        int bits = i & 1 ? 10 : 8;
        bool full = i & 2;
        struct tachy_yuv_codes k;
        CHECK(tachy_yuv_codes_of(&k, bits, matrices[i / 4].matrix, full, 1));
        fill_squares(&a, (uint32_t)i * 77 + 1);
        b = a;
        struct tachy_rgb_picture rgb = bytes_of(&a);
        struct tachy_yuv_picture yuv = planes_of(&a);
        tachy_ref_rgb_to_yuv(&k, &rgb, &yuv, W, H);
        by_swscale(&b, &b, false, bits, matrices[i / 4].sws, full);
        double apart = far_apart(&a, &b, false, bits);
        if (apart > 1) // libswscale rounds its 8-bit steps down
            printf("matrix %d, %d bits, full %d: %g from libswscale\n", matrices[i / 4].matrix, bits, full, apart);
        CHECK(apart <= 1);
        back = a;
        rgb = bytes_of(&back);
        yuv = planes_of(&back);
        tachy_ref_yuv_to_rgb(&k, &yuv, &rgb, W, H);
        b = a;
        by_swscale(&a, &b, true, bits, matrices[i / 4].sws, full);
        apart = far_apart(&back, &b, true, bits);
        if (apart > 2)
            printf("matrix %d, %d bits, full %d: %g apart in RGB\n", matrices[i / 4].matrix, bits, full, apart);
        CHECK(apart <= 2);
        apart = far_apart(&back, &a, true, bits); // there and back: chroma of 8 bits and limited range is the coarsest
        CHECK(apart <= (bits == 8 ? 2 : 1));
    }
}

// Colour without a matrix (constant luminance, RGB) is refused.
TEST(matrices_without_weights)
{
    struct tachy_yuv_codes k;
    CHECK(!tachy_yuv_codes_of(&k, 8, 0, false, 1));
    CHECK(!tachy_yuv_codes_of(&k, 8, 10, false, 1));
}

// Greys have no colour, black and white are the ends of the range, there and back without a loss.
TEST(greys_are_exact)
{
    static struct pictures p, was;
    for (int i = 0; i < 5 * 2 * 2; i++) {
        int bits = i & 1 ? 10 : 8, unit = 1 << (bits - 8);
        bool full = i & 2;
        struct tachy_yuv_codes k;
        tachy_yuv_codes_of(&k, bits, matrices[i / 4].matrix, full, 1);
        for (int at = 0; at < H * W; at++)
            memset(p.rgb[at / W][at % W], at % W % 2 ? at % 256 & ~1 : at % 256, 3);
        was = p;
        struct tachy_rgb_picture rgb = bytes_of(&p);
        struct tachy_yuv_picture yuv = planes_of(&p);
        tachy_ref_rgb_to_yuv(&k, &rgb, &yuv, W, H);
        CHECK_INT(sample(p.luma[0], 0, bits), full ? 0 : 16 * unit);
        for (int y = 0; y < H / 2; y++)
            for (int x = 0; x < W; x++)
                CHECK_INT(sample(p.chroma[y], x, bits), 128 * unit);
        tachy_ref_yuv_to_rgb(&k, &yuv, &rgb, W, H);
        int worst = 0;
        for (int at = 0; at < H * W * 3; at++)
            worst = TACHY_MAX(worst, abs((&p.rgb[0][0][0])[at] - (&was.rgb[0][0][0])[at]));
        CHECK(worst <= (bits == 8 && !full)); // 220 luma codes for 256 greys
    }
}

// A ramp of colour is the same ramp at the places where chroma lies, and at the pixels again.
static void ramp(int loc, bool down, int bits)
{
    static struct pictures p;
    struct tachy_yuv_codes k;
    double unit = 1 << (bits - 8);
    tachy_yuv_codes_of(&k, bits, 1, true, loc);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            p.rgb[y][x][0] = (uint8_t)(20 + 3 * (down ? y : x));
            p.rgb[y][x][1] = p.rgb[y][x][2] = 90;
        }
    struct tachy_rgb_picture rgb = bytes_of(&p);
    struct tachy_yuv_picture yuv = planes_of(&p);
    tachy_ref_rgb_to_yuv(&k, &rgb, &yuv, W, H);
    bool top = loc == 3 || loc == 4, centre = loc == 2 || loc == 4;
    double most = ((1 << bits) - 1) / 255.0, off = down ? !top * 0.5 : centre * 0.5;
    for (int i = 2; i < (down ? H : W) / 2 - 2; i++) {
        // (R - Y) / (2 (1 - Kr)) where G = B
        double red = 20 + 3 * (2 * i + off), want = 128 * unit + (red - 90) * most / 2;
        double got = sample(p.chroma[down ? i : 5], down ? 11 : 2 * i + 1, bits);
        if (fabs(got - want) > 0.51)
            printf("loc %d, %s: chroma %d is %g, not %g\n", loc, down ? "down" : "across", i, got, want);
        CHECK(fabs(got - want) <= 0.51);
    }
    tachy_ref_yuv_to_rgb(&k, &yuv, &rgb, W, H);
    for (int y = 4; y < H - 4; y++)
        for (int x = 4; x < W - 4; x++) {
            CHECK(abs(p.rgb[y][x][0] - (20 + 3 * (down ? y : x))) <= (bits == 8 ? 2 : 1));
            CHECK(abs(p.rgb[y][x][1] - 90) <= 1);
        }
}

TEST(chroma_lies_where_it_says)
{
    for (int loc = 0; loc < 5; loc++)
        for (int i = 0; i < 4; i++)
            ramp(loc, i & 1, i & 2 ? 10 : 8);
}

// Planes of floats of n / 255 are what the bytes are.
TEST(floats_are_as_bytes)
{
    static struct pictures p, of_floats;
    static float planes[3][H][W];
    static uint16_t halves[3][H][W];
    for (int bits = 8; bits <= 10; bits += 2) {
        struct tachy_yuv_codes k;
        tachy_yuv_codes_of(&k, bits, 9, false, 2);
        for (int at = 0; at < H * W * 3; at++)
            (&p.rgb[0][0][0])[at] = (uint8_t)((unsigned)at * 2654435761u >> 13);
        for (int at = 0; at < H * W * 3; at++)
            planes[at % 3][at / 3 / W][at / 3 % W] = (float)(&p.rgb[0][0][0])[at] / 255;
        struct tachy_rgb_picture rgb = bytes_of(&p);
        void *p32[] = {planes[0], planes[1], planes[2]}, *p16[] = {halves[0], halves[1], halves[2]};
        struct tachy_rgb_picture floats = {TACHY_RGB_F32, false, {p32[0], p32[1], p32[2]}, sizeof(planes[0][0])};
        struct tachy_yuv_picture yuv = planes_of(&p), yuv2 = planes_of(&of_floats);
        tachy_ref_rgb_to_yuv(&k, &rgb, &yuv, W - 1, H - 1);
        tachy_ref_rgb_to_yuv(&k, &floats, &yuv2, W - 1, H - 1);
        CHECK(!memcmp(p.luma, of_floats.luma, sizeof(p.luma)));
        CHECK(!memcmp(p.chroma, of_floats.chroma, sizeof(p.chroma)));
        tachy_ref_yuv_to_rgb(&k, &yuv, &rgb, W, H);
        tachy_ref_yuv_to_rgb(&k, &yuv, &floats, W, H);
        floats = (struct tachy_rgb_picture){TACHY_RGB_F16, false, {p16[0], p16[1], p16[2]}, sizeof(halves[0][0])};
        tachy_ref_yuv_to_rgb(&k, &yuv, &floats, W, H);
        for (int at = 0; at < H * W * 3; at++) {
            float v = planes[at % 3][at / 3 / W][at / 3 % W];
            CHECK(fabsf(v * 255 - (float)(&p.rgb[0][0][0])[at]) <= 0.51f);
            CHECK(halves[at % 3][at / 3 / W][at / 3 % W] == tachy_ref_half(v));
        }
    }
}

// NaN of both kinds becomes 0; values outside 0..1 are clamped.
TEST(floats_outside)
{
    static const uint16_t halves[] = {0x7e00, 0x7c01, 0xfe00, 0xfc00, 0xbc00, 0x7c00, 0x4000}; // NaN, -inf, -1, inf, 2
    for (int i = 0; i < (int)TACHY_ARRAY_SIZE(halves); i++) {
        uint16_t plane[3] = {halves[i], halves[i], halves[i]};
        float single[3] = {tachy_ref_float(halves[i]), tachy_ref_float(halves[i]), tachy_ref_float(halves[i])};
        void *p16 = plane, *p32 = single;
        uint8_t luma[2], chroma[2];
        struct tachy_yuv_codes k;
        tachy_yuv_codes_of(&k, 8, 1, false, 1);
        struct tachy_yuv_picture yuv = {luma, chroma, 1, 2};
        tachy_ref_rgb_to_yuv(&k, &(struct tachy_rgb_picture){TACHY_RGB_F16, false, {p16, p16, p16}, 2}, &yuv, 1, 1);
        CHECK_INT(luma[0], i < 5 ? 16 : 235);
        tachy_ref_rgb_to_yuv(&k, &(struct tachy_rgb_picture){TACHY_RGB_F32, false, {p32, p32, p32}, 4}, &yuv, 1, 1);
        CHECK_INT(luma[0], i < 5 ? 16 : 235);
        CHECK_INT(chroma[0], 128);
    }
}

TEST_MAIN(TEST_CASE(as_libswscale), TEST_CASE(matrices_without_weights), TEST_CASE(greys_are_exact),
          TEST_CASE(chroma_lies_where_it_says), TEST_CASE(floats_are_as_bytes), TEST_CASE(floats_outside))
