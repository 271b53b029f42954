// The tables of the CUDA kernel that makes columns of a tensor (preprocess/columns.h), followed as the kernel
// follows them, against the plain C line of the twin: what a machine without a GPU can say about them.
#include "test.h"

#include "preprocess/columns.h"
#include "ref/ref_preprocess.h"

#include <math.h>

static uint64_t rng = 20261122;

static int whole(int lo, int hi)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u; // Knuth's MMIX generator
    return lo + (int)((rng >> 33) % (uint64_t)(hi - lo + 1));
}

struct picture {
    enum tachy_pix format;
    int w, h, bytes, row_bytes[2];
    uint8_t *plane[2]; // as large as its rows, so that a sanitizer sees over-reads
};

static void make(struct picture *p)
{
    p->bytes = tachy_pix_desc(p->format)->bytes;
    for (int s = 0; s < 2; s++) {
        p->row_bytes[s] = p->w * p->bytes;
        size_t all = (size_t)p->row_bytes[s] * (size_t)(s ? (p->h + 1) / 2 : p->h);
        p->plane[s] = malloc(all);
        for (size_t i = 0; i < all; i++)
            p->plane[s][i] = (uint8_t)whole(0, 255);
    }
}

// Bytes of the n-th of a lane's weights: 16 bits, whose high byte counts 256.
static double weight_of(const uint32_t *w, int n, int bytes)
{
    int samples = 4 / bytes, at = n % samples * 8;
    uint32_t high = bytes == 1 ? w[2 * (n / samples)] : w[n / samples];
    uint32_t low = bytes == 1 ? w[2 * (n / samples) + 1] : w[n / samples] >> 16;
    return 256.0 * (high >> at & 255) + (low >> at & 255);
}

static double value_of(const uint8_t *s, int bytes)
{
    return bytes == 1 ? s[0] : ((s[0] | s[1] << 8) >> 6) & 1023;
}

// Sum across of one row in one plane and component.
static double across(const struct picture *p, int plane, int row, int window, int words, const uint32_t *weights, int component)
{
    const uint8_t *s = p->plane[plane] + (ptrdiff_t)row * p->row_bytes[plane] + window;
    const int components = plane + 1, n = 4 * words / (p->bytes * components);
    CHECK(window >= 0 && window % 4 == 0 && window + 4 * words <= p->row_bytes[plane]);
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += weight_of(weights, i, p->bytes) * value_of(s + (i * components + component) * p->bytes, p->bytes);
    return sum;
}

struct lane {
    uint32_t w[32];
};

static struct lane lane_of(const struct tachy_cuda_pre_tables *c, int lanes, int i, int words)
{
    struct lane l;
    for (int q = 0; 4 * q < words; q++)
        memcpy(l.w + 4 * q, (const uint32_t *)(uintptr_t)c->column + 4 * (q * lanes + i), 16);
    return l;
}

// A line of column `x` from its chunks `from` to `to`, in 1/256 of a code value: Y, U, V.
static void follow(const struct picture *p, const struct tachy_cuda_pre_tables *c, int lanes, int x, uint32_t from, uint32_t to,
                   double out[3])
{
    const int rows = c->rows, n = rows + rows / 2, step = (2 * n + 4 + 3) / 4 * 4, half = (c->words + 1) / 2;
    const int luma = p->bytes == 1 ? 2 * c->words : c->words, chroma = p->bytes == 1 ? 2 * half : half;
    struct lane l = lane_of(c, lanes, x / c->cols, 2 + (2 + luma + chroma) * c->cols);
    const uint32_t *mine = l.w + 2 + (2 + luma + chroma) * (x % c->cols);
    out[0] = out[1] = out[2] = 0;
    for (uint32_t k = from; k < to; k++) {
        const uint32_t *one = (const uint32_t *)(uintptr_t)c->chunk + k * (uint32_t)step;
        float weight[8];
        memcpy(weight, one + n, (size_t)n * 4);
        memcpy(weight + 6, one + 2 * n, 8);
        const int kept[2] = {(int)(one[2 * n + 2] & 65535), (int)(one[2 * n + 2] >> 16)};
        for (int j = 0; j < n + 2; j++) { // the last two: rows that the line before has read
            const int s = j < n ? j >= rows : j > n;
            const double w = (double)weight[j < n ? j : 6 + s];
            const int row = j < n ? (int)one[j] : kept[s];
            if (j >= n && k > 0 && w != 0)
                CHECK_INT(row, (int)one[(s ? n : rows) - 1 - step]); // what the kernel still has
            CHECK(row >= 0 && row < (s ? (p->h + 1) / 2 : p->h));
            for (int k2 = 0; k2 <= s; k2++)
                out[s + k2] += w * across(p, s, row, (int)l.w[s], c->words, mine + 2 + (s ? luma : 0), k2);
        }
    }
    float scale[2];
    memcpy(scale, mine, sizeof(scale));
    out[0] *= (double)scale[0];
    out[1] *= (double)scale[1];
    out[2] *= (double)scale[1];
}

static void compare(const struct picture *p, struct tachy_plan *plan, const struct tachy_cuda_pre_tables *c)
{
    enum { MOST = 512 };
    static float line[3][MOST];
    const int lanes = (plan->length + c->cols - 1) / c->cols, last = 2 * (c->rows + c->rows / 2) + 3;
    const int step = (last + 1 + 3) / 4 * 4;
    const uint32_t *begin = (const uint32_t *)(uintptr_t)c->begin, *chunk = (const uint32_t *)(uintptr_t)c->chunk;
    double worst = 0;
    for (int i = 0; i < plan->lines; i++) {
        const uint32_t from = begin[i], to = begin[i + 1];
        const int y = (int)chunk[(to - 1) * (uint32_t)step + (uint32_t)last];
        CHECK(y >= 0 && y < plan->lines && (int)(to - from) <= c->most);
        for (int s = 0; s < 2; s++) {
            void *scratch = aligned_alloc(64, tachy_pre_scratch(&plan->shape[s]));
            float *const out[3] = {line[s], line[2], NULL};
            tachy_ref_preprocess.line(&plan->shape[s], p->plane[s], p->row_bytes[s], y, scratch, out);
            free(scratch);
        }
        for (int x = 0; x < plan->length; x++) {
            double got[3];
            follow(p, c, lanes, x, from, to, got);
            for (int k = 0; k < 3; k++)
                worst = fmax(worst, fabs(got[k] * 256 - (double)line[k][x]));
        }
    }
    CHECK(worst < 0.01); // code values
}

// Outputs of `across` samples each on average, and the version that they must get.
static void one(enum tachy_pix format, double across, int cols, int words)
{
    struct picture p = {.format = format, .w = 4 * whole(20, 90), .h = whole(20, 90)};
    make(&p);
    struct tachy_preprocess_params params = {.width = (int)((p.w - 9) / across), .height = whole(3, 40)};
    struct tachy_plan_key key = {.format = format, .width = p.w, .height = p.h, .color = {1, 1, 1, 1, (uint8_t)whole(0, 6)}};
    key.view = (struct tachy_view){.x = whole(0, 8), .y = whole(0, 9) / 2.0, .w = params.width * across, .h = p.h - 5,
                                   .rotation = 180 * whole(0, 1), .flip = whole(0, 1)};
    struct tachy_plan plan = {0};
    struct tachy_cuda_pre_tables c;
    CHECK_INT(tachy_plan_build(&plan, &params, &tachy_ref_preprocess, &key), TACHY_OK);
    CHECK(tachy_columns_fit(&plan, p.row_bytes, &c));
    CHECK_INT(c.cols, cols);
    CHECK_INT(c.words, words);
    void *tables = malloc(tachy_columns_bytes(&plan, &c));
    tachy_columns_fill(&plan, p.row_bytes, &c, tables, (cuda_address)(uintptr_t)tables);
    compare(&p, &plan, &c);
    free(tables);
    tachy_plan_free(&plan);
    free(p.plane[0]);
    free(p.plane[1]);
}

TEST(every_version)
{
    for (int i = 0; i < 8; i++) {
        one(TACHY_PIX_NV12, 2.6 + i / 10.0, 2, 3);
        one(TACHY_PIX_NV12, 6.1 + i / 10.0, 1, 3);
        one(TACHY_PIX_NV12, 14.1 + i / 10.0, 1, 6);
        one(TACHY_PIX_P010, 2.1 + i / 10.0, 1, 3);
        one(TACHY_PIX_P010, 5.1 + i / 10.0, 1, 5);
        one(TACHY_PIX_P010, 12.1 + i / 10.0, 1, 9);
    }
}

// Rows that end within a word, and formats of other planes, are for other kernels.
TEST(refused)
{
    struct tachy_preprocess_params params = {.width = 16, .height = 16};
    struct tachy_plan plan = {0};
    struct tachy_cuda_pre_tables c;
    for (int i = 0; i < 2; i++) {
        const int row_bytes[2] = {i ? 100 : 102, i ? 50 : 102};
        struct tachy_plan_key key = {.format = i ? TACHY_PIX_YUV420P : TACHY_PIX_NV12, .width = i ? 100 : 102, .height = 90,
                                     .color = {1, 1, 1, 1, 0}};
        CHECK_INT(tachy_plan_build(&plan, &params, &tachy_ref_preprocess, &key), TACHY_OK);
        CHECK(!tachy_columns_fit(&plan, row_bytes, &c));
        CHECK_INT(c.words, 0);
    }
    tachy_plan_free(&plan);
}

// Cost of the launch with bands of `rows` lines, counted frame by frame.
static int64_t rounds(const struct tachy_cuda_preprocess *l, int rows, int places)
{
    int64_t blocks = 0;
    for (int i = 0; i < l->frames; i++) {
        const struct tachy_cuda_pre_plan *p = &l->plan[l->frame[i].plan];
        for (int line = 0; line < p->lines; line += rows)
            for (int x = 0; x < p->length; x += 128 * p->columns.cols)
                blocks++;
    }
    return (blocks + places - 1) / places * (rows + 2);
}

// No other height of a band costs less, and none that is less high costs the same.
TEST(bands)
{
    static const int blocks[3] = {7, 8, 6}; // on a multiprocessor, of the versions below
    for (int i = 0; i < 300; i++) {
        const int k = i % 3, places = blocks[k] * whole(1, 200);
        struct tachy_cuda_preprocess l = {.frames = whole(1, 16), .plans = whole(1, 8), .bytes = k < 2 ? 1 : 2,
                                          .multiprocessors = (uint16_t)(places / blocks[k])};
        for (int j = 0; j < l.plans; j++)
            l.plan[j] = (struct tachy_cuda_pre_plan){.length = whole(1, 2000), .lines = whole(1, 2000),
                                                     .columns = {.cols = k ? 1 : 2, .words = k == 0 ? 3 : k == 1 ? 6 : 9}};
        for (int j = 0; j < l.frames; j++)
            l.frame[j].plan = whole(0, l.plans - 1);
        const int rows = tachy_columns_band(&l);
        CHECK(rows >= 2 && rows <= 24);
        for (int other = 2; other <= 24; other++)
            CHECK(rounds(&l, rows, places) + (other < rows) <= rounds(&l, other, places));
    }
}

TEST_MAIN(TEST_CASE(every_version), TEST_CASE(refused), TEST_CASE(bands))
