#include "preprocess/columns.h"

enum {
    MOST_DOWN = 64,  // rows of a line: fewer chunks than the kernel has room for
    MOST_WORDS = 32, // of a lane's entry
};

static const struct {
    int bytes, cols, words, rows, blocks;
} versions[] = {
#define VERSION(bytes, cols, words, rows, blocks) {bytes, cols, words, rows, blocks},
    TACHY_CUDA_PRE_VERSIONS(VERSION)
#undef VERSION
};

// Bytes of a row that a lane's columns use: first and end.
static void span(const struct tachy_pre_plane *s, int lane, int cols, int *begin, int *end)
{
    const struct tachy_taps *t = &s->x;
    const int pixel = s->components * s->bytes;
    *begin = INT32_MAX;
    *end = 0;
    for (int i = lane * cols; i < TACHY_MIN((lane + 1) * cols, t->outputs); i++) {
        *begin = TACHY_MIN(*begin, t->start[i] * pixel);
        *end = TACHY_MAX(*end, (t->start[i] + t->count[i]) * pixel);
    }
}

// Counted from a multiple of four bytes.
static int words_needed(const struct tachy_plan *plan, int cols)
{
    int most = 0, begin, end;
    for (int s = 0; s < 2; s++)
        for (int i = 0; i * cols < plan->length; i++) {
            span(&plan->shape[s], i, cols, &begin, &end);
            most = TACHY_MAX(most, (end - begin / 4 * 4 + 3) / 4);
        }
    return most;
}

bool tachy_columns_fit(const struct tachy_plan *plan, const int row_bytes[2], struct tachy_cuda_pre_tables *c)
{
    int least = TACHY_MIN(row_bytes[0], row_bytes[1]), bytes = plan->shape[0].bytes;
    *c = (struct tachy_cuda_pre_tables){0};
    if (plan->planes != 2 || plan->lines > 65535)
        return false;
    for (int s = 0; s < 2; s++)
        if (row_bytes[s] % 4 || plan->shape[s].y.max > MOST_DOWN)
            return false;
    const int needed[2] = {words_needed(plan, 1), words_needed(plan, 2)};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(versions); i++) {
        int cols = versions[i].cols, words = versions[i].words;
        if (versions[i].bytes == bytes && words >= needed[cols - 1] && least >= 4 * words) {
            c->cols = cols;
            c->words = words;
            c->rows = versions[i].rows;
            return true;
        }
    }
    return false;
}

// Rows of a line that the line before did not end with.
struct down {
    int start, from, last;
    const float *weight;
};

static struct down down_of(const struct tachy_taps *t, int line, int before)
{
    struct down d = {t->start[line], t->start[line], t->start[line] + t->count[line] - 1,
                     t->weight + (size_t)line * (size_t)t->max};
    if (before >= 0 && t->start[before] + t->count[before] - 1 == d.start)
        d.from++;
    return d;
}

static bool goes_up(const struct tachy_plan *plan)
{
    const struct tachy_taps *a = &plan->shape[0].y, *b = &plan->shape[1].y;
    return a->start[0] > a->start[a->outputs - 1] || b->start[0] > b->start[b->outputs - 1];
}

// Chunks of the i-th line from the plane's top on.
static int line_chunks(const struct tachy_plan *plan, int rows, int i, struct down d[2], int *line)
{
    bool up = goes_up(plan);
    int n = 1;
    *line = up ? plan->lines - 1 - i : i;
    for (int s = 0; s < 2; s++) {
        int each = s ? rows / 2 : rows;
        d[s] = down_of(&plan->shape[s].y, *line, i == 0 ? -1 : up ? *line + 1 : *line - 1);
        n = TACHY_MAX(n, (d[s].last - d[s].from + each) / each);
    }
    return n;
}

static void fill_rows(const struct down *d, int to, int n, int32_t *row, float *weight)
{
    for (int j = 0; j < n; j++) {
        int r = to - n + 1 + j;
        row[j] = TACHY_MIN(TACHY_MAX(r, d->from), d->last); // one that is there
        weight[j] = r < d->from ? 0 : d->weight[r - d->start];
    }
}

// A line's k-th chunk from its end.
static void fill_chunk(uint32_t *to, int rows, const struct down d[2], int k, bool begin, int line)
{
    struct tachy_cuda_pre_chunk c = {0};
    fill_rows(&d[0], d[0].last - k * rows, rows, c.row, c.weight);
    fill_rows(&d[1], d[1].last - k * (rows / 2), rows / 2, c.row + rows, c.weight + rows);
    for (int s = 0; s < 2; s++)
        c.keep[s] = begin && d[s].from > d[s].start ? d[s].weight[0] : 0;
    c.kept = (uint32_t)d[0].start | (uint32_t)d[1].start << 16;
    c.line = k ? -1 : line;
    const int n = rows + rows / 2;
    memcpy(to, c.row, (size_t)n * 4);
    memcpy(to + n, c.weight, (size_t)n * 4);
    memcpy(to + 2 * n, c.keep, 8);
    to[2 * n + 2] = c.kept;
    to[2 * n + 3] = (uint32_t)c.line;
}

// Integer weights of an output's samples, the first of which is number `before` of its words: 16 bits each, high and
// low bytes separate. Returns the factor that scales a sum to 1/256 of a code value.
static float fill_weights(uint32_t *to, const struct tachy_taps *t, int i, int bytes, int before)
{
    const float *w = t->weight + (size_t)i * (size_t)t->max;
    float top = 0;
    for (int k = 0; k < t->count[i]; k++)
        top = TACHY_MAX(top, w[k]);
    const float unit = 65280 / top; // 255 * 256
    uint32_t sum = 0;
    for (int k = 0; k < t->count[i]; k++) {
        uint32_t q = (uint32_t)(w[k] * unit + 0.5f);
        int samples = 4 / bytes, word = (before + k) / samples, at = (before + k) % samples * 8;
        sum += q;
        if (bytes == 1) {
            to[2 * word] |= (q >> 8) << at;
            to[2 * word + 1] |= (q & 255) << at;
        } else {
            to[word] |= (q >> 8) << at | (q & 255) << (at + 16);
        }
    }
    return (bytes == 1 ? 1.0f / 256 : 1.0f / 1024) / (float)sum;
}

static void fill_lane(const struct tachy_plan *plan, const int row_bytes[2], const struct tachy_cuda_pre_tables *c, int lane,
                      uint32_t *to)
{
    const int bytes = plan->shape[0].bytes;
    int window[2], end;
    for (int s = 0; s < 2; s++) {
        span(&plan->shape[s], lane, c->cols, &window[s], &end);
        window[s] = TACHY_MIN(window[s] / 4 * 4, row_bytes[s] - 4 * c->words);
    }
    memcpy(to, window, sizeof(window));
    to += 2;
    for (int o = 0; o < c->cols; o++) {
        uint32_t *scale = to;
        to += 2;
        for (int s = 0; s < 2; s++) {
            const struct tachy_taps *t = &plan->shape[s].x;
            int words = s ? (c->words + 1) / 2 : c->words, pixel = plan->shape[s].components * bytes;
            int i = TACHY_MIN(lane * c->cols + o, t->outputs - 1);
            float f = fill_weights(to, t, i, bytes, (t->start[i] * pixel - window[s]) / pixel);
            memcpy(scale + s, &f, 4);
            to += bytes == 1 ? 2 * words : words;
        }
    }
}

static int lanes_of(const struct tachy_plan *plan, const struct tachy_cuda_pre_tables *c)
{
    return (plan->length + c->cols - 1) / c->cols;
}

static int lane_quads(const struct tachy_plan *plan, const struct tachy_cuda_pre_tables *c)
{
    int weights = (c->words + (c->words + 1) / 2) * (plan->shape[0].bytes == 1 ? 2 : 1);
    return (2 + (2 + weights) * c->cols + 3) / 4;
}

static int chunk_words(int rows) { return TACHY_ALIGN(3 * rows + 4, 4); }

static size_t all_chunks(const struct tachy_plan *plan, int rows)
{
    size_t n = 0;
    struct down d[2];
    for (int i = 0, line; i < plan->lines; i++)
        n += (size_t)line_chunks(plan, rows, i, d, &line);
    return n;
}

size_t tachy_columns_bytes(const struct tachy_plan *plan, const struct tachy_cuda_pre_tables *c)
{
    size_t lanes = (size_t)lanes_of(plan, c) * (size_t)lane_quads(plan, c) * 16;
    return lanes + all_chunks(plan, c->rows) * (size_t)chunk_words(c->rows) * 4 + ((size_t)plan->lines + 1) * 4;
}

static void fill_lanes(const struct tachy_plan *plan, const int row_bytes[2], const struct tachy_cuda_pre_tables *c,
                       uint32_t *to)
{
    const size_t quads = (size_t)lane_quads(plan, c), lanes = (size_t)lanes_of(plan, c);
    for (size_t i = 0; i < lanes; i++) {
        uint32_t one[MOST_WORDS] = {0};
        fill_lane(plan, row_bytes, c, (int)i, one);
        for (size_t q = 0; q < quads; q++)
            memcpy(to + 4 * (q * lanes + i), one + 4 * q, 16);
    }
}

// Returns the largest number of chunks of a line.
static int fill_lines(const struct tachy_plan *plan, int rows, uint32_t *to, uint32_t *begin)
{
    int most = 0;
    uint32_t chunks = 0;
    struct down d[2];
    for (int i = 0, line; i < plan->lines; i++) {
        int n = line_chunks(plan, rows, i, d, &line);
        most = TACHY_MAX(most, n);
        begin[i] = chunks;
        for (int k = n - 1; k >= 0; k--, chunks++, to += chunk_words(rows))
            fill_chunk(to, rows, d, k, k == n - 1, line);
    }
    begin[plan->lines] = chunks;
    return most;
}

void tachy_columns_fill(const struct tachy_plan *plan, const int row_bytes[2], struct tachy_cuda_pre_tables *c,
                        void *tables, cuda_address at)
{
    const size_t lanes = (size_t)lanes_of(plan, c) * (size_t)lane_quads(plan, c) * 4;
    const size_t chunks = all_chunks(plan, c->rows) * (size_t)chunk_words(c->rows);
    uint32_t *to = tables;
    c->column = at;
    c->chunk = c->column + (cuda_address)(lanes * 4);
    c->begin = c->chunk + (cuda_address)(chunks * 4);
    fill_lanes(plan, row_bytes, c, to);
    c->most = fill_lines(plan, c->rows, to + lanes, to + lanes + chunks);
}

static int parts(int n, int each) { return (n + each - 1) / each; }

// Blocks that the chip has place for.
static int places_of(const struct tachy_cuda_preprocess *l)
{
    const struct tachy_cuda_pre_tables *c = &l->plan[0].columns;
    int blocks = 1;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(versions); i++)
        if (versions[i].bytes == l->bytes && versions[i].cols == c->cols && versions[i].words == c->words)
            blocks = versions[i].blocks;
    return TACHY_MAX(l->multiprocessors, 1) * blocks;
}

int tachy_columns_band(const struct tachy_cuda_preprocess *l)
{
    const int places = places_of(l);
    int tiles[TACHY_CUDA_PRE_PLANS] = {0}; // across, of all frames of a plan
    for (int i = 0; i < l->frames; i++) {
        const struct tachy_cuda_pre_plan *p = &l->plan[l->frame[i].plan];
        tiles[l->frame[i].plan] += parts(p->length, TACHY_CUDA_PRE_LANES * p->columns.cols);
    }
    int best = 0, cost = 0;
    for (int rows = 2; rows <= 24; rows++) {
        int blocks = 0;
        for (int i = 0; i < l->plans; i++)
            blocks += tiles[i] * parts(l->plan[i].lines, rows);
        const int c = parts(blocks, places) * (rows + 2);
        if (!best || c < cost) {
            best = rows;
            cost = c;
        }
    }
    return best;
}
