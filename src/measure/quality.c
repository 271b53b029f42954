#include "measure/quality.h"

#include "measure/light.h"

#include <math.h>
#include <stdlib.h>

// Measures of colours and histograms, and what tells pictures apart.

const char *const tachy_quality_names[TACHY_Q_COUNT] = {
    "blur", "noise", "blocking", "brightness", "contrast", "exposure", "black", "clipped", "grey", "aspect", "megapixels",
    "dark_score", "light_score", "odd_aspect_ratio_score", "low_information_score", "blurry_score", "grayscale_score", "issues",
};

const double tachy_quality_thresholds[TACHY_Q_ISSUES - TACHY_Q_DARK_SCORE] = {0.32, 0.05, 0.35, 0.3, 0.29, 0.5};

enum {
    BINS = 1024,     // of brightness
    NEAR_BLACK = 26, // luma below it is near black: 0.1 of 255
    WHITE = 254,
    GREY = 8,        // of 255: least to most of three channels that are grey
};

// ---- Sums over the small picture

struct sums {
    int n;
    uint32_t bright[BINS];     // by CleanVision's brightness
    uint32_t channel[3][256];
    uint32_t level[256];       // luma
    double luma, luma2, linear;
    int black, clipped, grey, equal;
};

static void add_pixel(struct sums *s, const uint8_t *p)
{
    int r = p[0], g = p[1], b = p[2], y = (54 * r + 183 * g + 19 * b + 128) >> 8;
    int most = TACHY_MAX(r, TACHY_MAX(g, b)), least = TACHY_MIN(r, TACHY_MIN(g, b));
    float bright = sqrtf(0.241f * (float)(r * r) + 0.691f * (float)(g * g) + 0.068f * (float)(b * b)) / 255;
    s->bright[TACHY_MIN((int)(bright * (BINS - 1) + 0.5f), BINS - 1)]++;
    s->channel[0][r]++;
    s->channel[1][g]++;
    s->channel[2][b]++;
    s->level[y]++;
    s->black += y < NEAR_BLACK;
    s->clipped += most >= WHITE;
    s->grey += most - least <= GREY;
    s->equal += most == least;
}

static void add_up(struct sums *s, const struct tachy_quality_view *v)
{
    static const double weight[3] = {0.2126, 0.7152, 0.0722};
    *s = (struct sums){.n = v->small_width * v->small_height};
    for (int i = 0; i < s->n; i++)
        add_pixel(s, v->small + 3 * (size_t)i);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 256; i++)
            s->linear += weight[c] * s->channel[c][i] * tachy_light_of(i);
    for (int i = 0; i < 256; i++) {
        s->luma += (double)s->level[i] * i;
        s->luma2 += (double)s->level[i] * i * i;
    }
}

// Brightness that a share of the pixels is not above.
static double percentile(const struct sums *s, double share)
{
    double at = share * (s->n - 1), seen = 0;
    for (int i = 0; i < BINS; i++) {
        seen += s->bright[i];
        if (seen > at)
            return i / (double)(BINS - 1);
    }
    return 1;
}

// Bits of the histogram of all samples: one channel's for grey formats, else that of three in a row.
static double entropy(const struct sums *s, bool one)
{
    double bits = 0, all = (one ? 1.0 : 3.0) * s->n;
    for (int c = 0; c < (one ? 1 : 3); c++)
        for (int i = 0; i < 256; i++)
            if (s->channel[c][i])
                bits -= s->channel[c][i] / all * log2(s->channel[c][i] / all);
    return bits;
}

// ---- CleanVision's blurriness

// Luma of BT.601 of a pixel that `fold` times `fold` of the small picture make.
static int folded(const struct tachy_quality_view *v, int x, int y)
{
    int sum[3] = {0}, n = v->fold * v->fold;
    for (int j = 0; j < v->fold; j++)
        for (int i = 0; i < v->fold; i++)
            for (int c = 0; c < 3; c++)
                sum[c] += v->small[3 * ((size_t)(y * v->fold + j) * (size_t)v->small_width + (size_t)(x * v->fold + i)) + (size_t)c];
    return (int)((299.0 * sum[0] + 587.0 * sum[1] + 114.0 * sum[2]) / (1000.0 * n) + 0.5);
}

// The spread of the answers to a filter that finds edges (8 in the middle, -1 around; the border stays), and that of the
// histogram's bins.
static void edges_of(const uint8_t *p, int w, int h, double *edges, double *bins)
{
    double sum = 0, sum2 = 0, bin2 = 0, n = (double)w * h;
    uint32_t hist[256] = {0};
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            const uint8_t *at = p + y * w + x;
            bool inner = x && y && x < w - 1 && y < h - 1;
            int v = !inner ? at[0] : 9 * at[0] - (at[-w - 1] + at[-w] + at[-w + 1] + at[-1] + at[0] + at[1] + at[w - 1] + at[w] + at[w + 1]);
            v = TACHY_CLAMP(v, 0, 255);
            sum += v;
            sum2 += (double)v * v;
            hist[at[0]]++;
        }
    for (int i = 0; i < 256; i++)
        bin2 += (double)hist[i] * hist[i];
    *edges = sqrt(TACHY_MAX(sum2 / n - sum / n * sum / n, 0));
    *bins = sqrt(TACHY_MAX(bin2 / 256 - n / 256 * n / 256, 0));
}

static double blurry_score(const struct tachy_quality_view *v)
{
    uint8_t grey[TACHY_QUALITY_BLURRY * TACHY_QUALITY_BLURRY];
    int w = v->small_width / v->fold, h = v->small_height / v->fold;
    double edges, bins;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            grey[y * w + x] = (uint8_t)folded(v, x, y);
    edges_of(grey, w, h, &edges, &bins);
    double std = 1 - exp(-0.01 * bins);
    return TACHY_MIN(1 - exp(-0.01 * edges) + (std > 0.18 ? std : 0), 1);
}

// ---- All

static void set_scores(const struct tachy_quality_view *v, const struct sums *s, double value[TACHY_Q_COUNT])
{
    const tachy_frame *f = v->frame;
    bool one = f->format == TACHY_PIX_GRAY8 || f->format == TACHY_PIX_GRAY10;
    value[TACHY_Q_DARK_SCORE] = percentile(s, 0.99);
    value[TACHY_Q_LIGHT_SCORE] = 1 - percentile(s, 0.05);
    value[TACHY_Q_ASPECT_SCORE] = (double)TACHY_MIN(f->width, f->height) / TACHY_MAX(f->width, f->height);
    value[TACHY_Q_INFORMATION_SCORE] = TACHY_MIN(0.1 * entropy(s, one), 1);
    value[TACHY_Q_BLURRY_SCORE] = blurry_score(v);
    value[TACHY_Q_GRAYSCALE_SCORE] = s->equal < s->n;
    value[TACHY_Q_ISSUES] = 0;
    for (int i = TACHY_Q_DARK_SCORE; i < TACHY_Q_ISSUES; i++)
        value[TACHY_Q_ISSUES] += value[i] < tachy_quality_thresholds[i - TACHY_Q_DARK_SCORE];
}

int tachy_quality_of(const struct tachy_quality_view *v, double value[TACHY_Q_COUNT])
{
    struct sums s;
    add_up(&s, v);
    double n = s.n, mean = s.luma / n;
    value[TACHY_Q_BLUR] = tachy_blur_of(v->luma, v->luma_width, v->luma_height);
    int err = tachy_strips_of(v->frame, &value[TACHY_Q_NOISE], &value[TACHY_Q_BLOCKING]);
    value[TACHY_Q_BRIGHTNESS] = mean / 255;
    value[TACHY_Q_CONTRAST] = sqrt(TACHY_MAX(s.luma2 / n - mean * mean, 0)) / 255;
    value[TACHY_Q_EXPOSURE] = log2(TACHY_MAX(s.linear / n, 0.18 / 4096) / 0.18);
    value[TACHY_Q_BLACK] = s.black / n;
    value[TACHY_Q_CLIPPED] = s.clipped / n;
    value[TACHY_Q_GREY] = s.grey / n;
    value[TACHY_Q_ASPECT] = v->aspect;
    value[TACHY_Q_MEGAPIXELS] = (double)v->frame->width * v->frame->height / 1e6;
    set_scores(v, &s, value);
    return err;
}

// ---- Duplicates

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

// Four lanes, so that a product need not wait for the one before.
static uint64_t digest_row(uint64_t h, const uint8_t *p, size_t n)
{
    uint64_t lane[4] = {h, h + 1, h + 2, h + 3}, v[4] = {0};
    for (; n >= sizeof(v); p += sizeof(v), n -= sizeof(v)) {
        memcpy(v, p, sizeof(v));
        for (int i = 0; i < 4; i++)
            lane[i] = mix(lane[i], v[i]);
    }
    memset(v, 0, sizeof(v));
    memcpy(v, p, n);
    for (int i = 0; i < 4; i++)
        h = mix(h, mix(lane[i], v[i]));
    return h;
}

uint64_t tachy_quality_digest(const tachy_frame *f)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    uint64_t h = mix(mix((uint64_t)f->format, (uint64_t)f->width), (uint64_t)f->height);
    int planes = d->alpha && d->planes == 4 ? 3 : d->planes;
    for (int i = 0; i < planes; i++) {
        int sx = i == 1 || i == 2 ? d->chroma_shift_x : 0, sy = i == 1 || i == 2 ? d->chroma_shift_y : 0;
        size_t n = (size_t)((f->width + (1 << sx) - 1) >> sx) * d->components[i] * d->bytes;
        for (int y = 0; y < (f->height + (1 << sy) - 1) >> sy; y++)
            h = digest_row(h, f->data[i] + y * f->stride[i], n);
    }
    return h;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

uint64_t tachy_quality_hash(const uint8_t luma[32 * 32])
{
    double wave[8][32], rows[8][32], low[64], sorted[64];
    for (int k = 0; k < 8; k++)
        for (int i = 0; i < 32; i++)
            wave[k][i] = cos(3.14159265358979323846 * k * (2 * i + 1) / 64);
    for (int k = 0; k < 8; k++)
        for (int x = 0; x < 32; x++) {
            rows[k][x] = 0;
            for (int y = 0; y < 32; y++)
                rows[k][x] += wave[k][y] * luma[32 * y + x];
        }
    for (int i = 0; i < 64; i++) {
        low[i] = 0;
        for (int x = 0; x < 32; x++)
            low[i] += wave[i & 7][x] * rows[i >> 3][x];
    }
    memcpy(sorted, low, sizeof(low));
    qsort(sorted, 64, sizeof(*sorted), compare);
    uint64_t bits = 0;
    for (int i = 0; i < 64; i++)
        bits |= (uint64_t)(low[i] > (sorted[31] + sorted[32]) / 2) << i;
    return bits;
}
