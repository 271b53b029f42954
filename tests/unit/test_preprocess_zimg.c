// Colour of preprocess against zimg: every matrix and range, 8 and 10 bit, without scaling.
#include "test.h"

#if HAVE_ZIMG
#include "base/base.h"

#include <math.h>
#include <tachy/preprocess.h>
#include <zimg.h>

enum { W = 64, H = 48, ROW = W * 4 }; // rows of zimg are aligned to 64 bytes

struct planes {
    _Alignas(64) uint8_t in[3][H][ROW];
    _Alignas(64) float out[3][H][W];
};

static uint64_t rng = 7;

// All legal codes of every plane, and beyond.
static void fill(struct planes *p, int bits)
{
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                rng = rng * 6364136223846793005u + 1442695040888963407u;
                unsigned v = (unsigned)(rng >> 40) & ((1u << bits) - 1);
                if (bits == 8)
                    p->in[c][y][x] = (uint8_t)v;
                else
                    memcpy(&p->in[c][y][2 * x], &(uint16_t){(uint16_t)v}, 2);
            }
}

static bool zimg_rgb(struct planes *p, int bits, int matrix, bool full)
{
    zimg_image_format src, dst;
    zimg_image_format_default(&src, ZIMG_API_VERSION);
    src.width = W;
    src.height = H;
    dst = src;
    src.pixel_type = bits == 8 ? ZIMG_PIXEL_BYTE : ZIMG_PIXEL_WORD;
    src.color_family = ZIMG_COLOR_YUV;
    src.matrix_coefficients = (zimg_matrix_coefficients_e)matrix;
    src.depth = (unsigned)bits;
    src.pixel_range = full ? ZIMG_RANGE_FULL : ZIMG_RANGE_LIMITED;
    dst.pixel_type = ZIMG_PIXEL_FLOAT;
    dst.color_family = ZIMG_COLOR_RGB;
    dst.matrix_coefficients = ZIMG_MATRIX_RGB;
    dst.pixel_range = ZIMG_RANGE_FULL;
    zimg_filter_graph *g = zimg_filter_graph_build(&src, &dst, NULL);
    size_t size = 0;
    if (!g || zimg_filter_graph_get_tmp_size(g, &size))
        return false;
    void *tmp = aligned_alloc(64, TACHY_ALIGN(size + 64, (size_t)64));
    zimg_image_buffer_const in = {.version = ZIMG_API_VERSION};
    zimg_image_buffer out = {.version = ZIMG_API_VERSION};
    for (int c = 0; c < 3; c++) {
        in.plane[c].data = p->in[c];
        in.plane[c].stride = ROW;
        out.plane[c].data = p->out[c];
        out.plane[c].stride = ROW;
        in.plane[c].mask = out.plane[c].mask = ZIMG_BUFFER_MAX;
    }
    bool ok = !zimg_filter_graph_process(g, &in, &out, tmp, NULL, NULL, NULL, NULL);
    free(tmp);
    zimg_filter_graph_free(g);
    return ok;
}

static double distance(struct planes *p, int bits, int matrix, bool full)
{
    static float rgb[3][H][W];
    tachy_frame f = {.format = bits == 8 ? TACHY_PIX_YUV444P : TACHY_PIX_YUV444P10, .width = W, .height = H,
                     .data = {p->in[0][0], p->in[1][0], p->in[2][0]}, .stride = {ROW, ROW, ROW},
                     .color = {.matrix = (uint8_t)matrix, .range = full ? 2 : 1, .primaries = 1, .transfer = 1}};
    struct tachy_preprocess_params params = {.width = W, .height = H, .layout = TACHY_NCHW};
    struct tachy_tensor t = {.data = rgb, .dtype = TACHY_F32, .rank = 3, .shape = {3, H, W}};
    tachy_preprocess *pre = NULL;
    CHECK_INT(tachy_preprocess_open(&pre, &params), TACHY_OK);
    CHECK_INT(tachy_preprocess_run(pre, &f, NULL, &t, NULL), TACHY_OK);
    tachy_preprocess_close(&pre);
    double worst = 0;
    for (int i = 0; i < 3 * H * W; i++) {
        float want = (&p->out[0][0][0])[i];
        want = 255 * TACHY_CLAMP(want, 0.0f, 1.0f);
        double off = fabs((double)want - (&rgb[0][0][0])[i]);
        worst = off > worst ? off : worst;
    }
    return worst;
}

TEST(matrices_and_ranges_match_zimg)
{
    static const int matrices[] = {1, 4, 5, 6, 7, 9};
    static struct planes p;
    double worst = 0;
    for (size_t m = 0; m < TACHY_ARRAY_SIZE(matrices); m++)
        for (int full = 0; full < 2; full++)
            for (int bits = 8; bits <= 10; bits += 2) {
                fill(&p, bits);
                CHECK(zimg_rgb(&p, bits, matrices[m], full));
                double off = distance(&p, bits, matrices[m], full);
                CHECK(off < 0.05);
                worst = off > worst ? off : worst;
            }
    printf("largest distance to zimg: %.4f code values\n", worst);
}

TEST_MAIN(TEST_CASE(matrices_and_ranges_match_zimg))

#else
int main(void) { SKIP("zimg's header and library (libzimg-dev) are not installed"); }
#endif
