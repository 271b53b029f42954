#include "plan/cpu/conv.h"

#include "base/base.h"

// Convolution by register tiles. The outputs of some rows are numbered as one line where
// memory allows and cut into blocks; a block's table says for each output where each of its
// runs of taps starts in the input (or at zeros, in the padding), and all panels of output
// channels then go over it.

struct block {
    const struct tachy_conv *c;
    const struct tachy_conv_io *io;
    const float *packed, *weights; // all; of the group
    const float **table;           // [runs][size]
    int n, y, x, size;             // image, first output, number of outputs
    int group;
    int runs, len;
    int chunk_runs; // runs of taps per chunk; 1 if the chunk is a piece of a run
    float *sums; // of the block's outputs while their taps come in parts
    bool line; // 1x1, stride 1, no padding, rows of the input adjacent
    bool late; // the activation goes over the whole block after its tiles
};

// Row ky of taps of output row y, NULL outside of the input.
static const float *tap_row(const struct block *b, int y, int ky)
{
    const struct tachy_conv_shape *s = &b->c->s;
    int iy = y * s->stride_h - s->pad_top + ky * s->dil_h;
    return iy < 0 || iy >= s->h ? NULL : tachy_view_at(&b->io->in, b->n, iy, 0) +
                                             b->group * (s->cin / s->groups);
}

// `count` outputs whose first run starts at index `ix` of `row` (NULL: all padding), `stride`
// apart; those outside of 0..w-1 read zeros.
static void table_run(const struct block *b, const float *row, int ix, int count, const float **at)
{
    const int stride = b->c->s.stride_w, w = b->c->s.w;
    const ptrdiff_t pixel = b->io->in.pixel, step = stride * pixel;
    int i = 0;
    for (; i < count && (!row || ix + i * stride < 0); i++)
        at[i] = b->packed;
    if (i == count)
        return;
    const float *p = row + (ix + i * stride) * pixel;
    int end = count;
    if (ix + (count - 1) * stride >= w)
        end = ix + i * stride >= w ? i : i + (w - 1 - ix - i * stride) / stride + 1;
    for (; i < end; i++, p += step)
        at[i] = p;
    for (; i < count; i++)
        at[i] = b->packed;
}

// Outputs x..x+count-1 of row y, whose places in the table start at `at`: every tap on its own.
static void table_taps(const struct block *b, int y, int x, int count, const float **at)
{
    const struct tachy_conv_shape *s = &b->c->s;
    for (int ky = 0; ky < s->kh; ky++) {
        const float *row = tap_row(b, y, ky);
        for (int kx = 0; kx < s->kw; kx++, at += b->size)
            table_run(b, row, x * s->stride_w - s->pad_left + kx * s->dil_w, count, at);
    }
}

// As above, if a row's taps are adjacent in memory and all inside: one run per row.
static void table_rows(const struct block *b, int y, int x, int count, const float **at)
{
    const struct tachy_conv_shape *s = &b->c->s;
    ptrdiff_t step = s->stride_w * b->io->in.pixel;
    ptrdiff_t start = (x * s->stride_w - s->pad_left) * b->io->in.pixel;
    for (int ky = 0; ky < s->kh; ky++, at += b->size) {
        const float *row = tap_row(b, y, ky);
        for (int i = 0; i < count; i++)
            at[i] = row ? row + start + i * step : b->packed;
    }
}

static void fill_table(struct block *b, bool adjacent)
{
    const struct tachy_conv_shape *s = &b->c->s;
    int cin = s->cin / s->groups;
    b->runs = adjacent ? s->kh : s->kh * s->kw;
    b->len = adjacent ? s->kw * cin : cin;
    b->chunk_runs = TACHY_MAX(b->c->chunk / TACHY_MAX(b->len, 1), 1);
    if (b->line) { // 1x1 on pixels that are all the same distance apart
        const float *p = tachy_view_at(&b->io->in, b->n, b->y, b->x) + b->group * cin;
        for (int i = 0; i < b->size; i++, p += b->io->in.pixel)
            b->table[i] = p;
        return;
    }
    for (int i = 0, y = b->y, x = b->x; i < b->size; y++, x = 0) {
        int count = TACHY_MIN(b->size - i, b->c->out_w - x);
        if (adjacent)
            table_rows(b, y, x, count, b->table + i);
        else
            table_taps(b, y, x, count, b->table + i);
        i += count;
    }
}

// Taps that are added up in one go: `len` floats from `skip` on of `runs` runs from `run` on.
struct part {
    int run, runs, skip, len;
};

static bool is_last(const struct block *b, const struct part *p)
{
    return p->run + p->runs == b->runs && p->skip + p->len == b->len;
}

// Sets parts whose weights for one panel stay in the L1 cache while all tiles use them: some runs, or pieces of a run;
// always whole chunks.
static void set_part(const struct block *b, struct part *p)
{
    const int taps = tachy_conv_part_taps(b->c, b->size), chunk = b->c->chunk;
    p->runs = b->runs, p->len = b->len;
    if (b->runs == 0 || taps >= b->c->taps)
        return; // all of them
    if (taps >= b->len || chunk >= b->len) {
        int groups = TACHY_MAX(taps / (b->len * b->chunk_runs), 1);
        p->runs = TACHY_MIN(groups * b->chunk_runs, b->runs - p->run);
    } else {
        p->runs = 1;
        p->len = TACHY_MIN(TACHY_MAX(taps / chunk, 1) * chunk, b->len - p->skip);
    }
}

static struct part first_part(const struct block *b)
{
    struct part p = {0};
    set_part(b, &p);
    return p;
}

// False after the last.
static bool next_part(const struct block *b, struct part *p)
{
    if (is_last(b, p))
        return false;
    p->skip += p->len;
    if (p->skip == b->len) {
        p->run += p->runs;
        p->skip = 0;
    }
    set_part(b, p);
    return true;
}

static struct tachy_tile panel_tile(const struct block *b, int k, int channels, int vectors)
{
    const struct tachy_conv *c = b->c;
    const struct tachy_epilogue *e = &b->io->epilogue;
    int first = b->group * (c->s.cout / c->s.groups) + k, width = c->k->width;
    const float *w = b->weights + (ptrdiff_t)k * (c->taps + 1);
    static const float no_bias[TACHY_TILE_VECTORS * 16];
    bool first_bias = tachy_conv_bias_first(c->taps);
    return (struct tachy_tile){
        .x_run = b->size,
        .zeros = b->packed,
        .start = first_bias ? w : no_bias,
        .bias = first_bias ? NULL : w,
        .w = w + vectors * width,
        .tail = channels - (vectors - 1) * width,
        .y_step = b->io->out.pixel,
        .add_step = e->add ? e->add->pixel : 0,
        .add_last = e->add_last,
        .sums = e->sums ? e->sums + ((ptrdiff_t)b->n * c->out_h + b->y) * c->all + first : NULL,
    };
}

// Computes all outputs of the block for one panel and one part of their taps: tiles of equal size or one less, so that
// none is small. `sums`: of this panel.
static void run_panel(const struct block *b, const struct part *part, int k, float *sums)
{
    const struct tachy_conv *c = b->c;
    const struct tachy_epilogue *e = &b->io->epilogue;
    int cout = c->s.cout / c->s.groups, width = c->k->width, first = b->group * cout + k;
    int channels = TACHY_MIN(cout - k, c->v.vectors * width);
    int vectors = (channels + width - 1) / width;
    struct tachy_tile t = panel_tile(b, k, channels, vectors);
    struct tachy_act act = e->act;
    act.slope = act.slope ? act.slope + first : NULL;
    act.kind = b->late ? TACHY_ACT_NONE : act.kind;
    t.act = &act;
    t.runs = part->runs, t.len = part->len, t.skip = part->skip;
    t.piece = TACHY_MIN(c->chunk, part->len), t.group = b->chunk_runs;
    t.w += ((ptrdiff_t)part->run * b->len + part->skip) * vectors * width;
    bool start = part->run == 0 && part->skip == 0, end = is_last(b, part);
    float *y = tachy_view_at(&b->io->out, b->n, b->y, b->x) + first;
    const float *add = e->add ? tachy_view_at(e->add, b->n, b->y, b->x) + first : NULL;
    int most = TACHY_MIN(tachy_conv_tile_pixels(c->k, vectors), b->size);
    int tiles = (b->size + most - 1) / most, small = b->size / tiles, big = b->size % tiles;
    ptrdiff_t floats = (ptrdiff_t)part->runs * part->len * vectors * width;
    t.ahead = t.w + floats;
    t.ahead_lines = c->far ? (int)((floats / 16 + tiles - 1) / tiles) : 0;
    for (int i = 0, p = 0; i < 2; i++) { // `big` tiles of one pixel more first
        int pixels = small + !i;
        t.tiles = i ? tiles - big : big;
        t.x = b->table + (ptrdiff_t)part->run * b->size + p;
        t.y = y + p * t.y_step;
        t.add = add ? add + p * t.add_step : NULL;
        t.resume = start ? NULL : sums + (ptrdiff_t)p * vectors * width;
        t.keep = end ? NULL : sums + (ptrdiff_t)p * vectors * width;
        t.ahead += i ? (ptrdiff_t)big * t.ahead_lines * 16 : 0;
        if (t.tiles > 0)
            c->k->tile[vectors - 1][pixels - 1](&t);
        p += t.tiles * pixels;
    }
}

// Data that is read repeatedly shall stay in the caches: the block's input over all panels, or, if that is too large,
// each part of it.
static void run_panels(struct block *b)
{
    const struct tachy_conv *c = b->c;
    int cout = c->s.cout / c->s.groups, step = c->v.vectors * c->k->width;
    bool outside = tachy_conv_parts_outside(c);
    for (int k = 0; !outside && k < cout; k += step) {
        struct part p = first_part(b);
        do
            run_panel(b, &p, k, b->sums);
        while (next_part(b, &p));
    }
    struct part p = first_part(b);
    do {
        for (int k = 0; outside && k < cout; k += step)
            run_panel(b, &p, k, b->sums + (ptrdiff_t)k * b->size);
    } while (outside && next_part(b, &p));
}

// True if all taps of outputs x..x+count-1 (of any rows if more than one is touched) lie inside the input's columns.
static bool inside(const struct tachy_conv *c, int x, int count)
{
    const struct tachy_conv_shape *s = &c->s;
    int last = x + count - 1;
    if (last >= c->out_w)
        x = 0, last = c->out_w - 1;
    return x * s->stride_w >= s->pad_left &&
           last * s->stride_w - s->pad_left + (s->kw - 1) * s->dil_w < s->w;
}

static void run_block(struct block *b, const float *packed)
{
    const struct tachy_conv *c = b->c;
    bool rows = c->s.kw > 1 && c->s.groups == 1 && c->s.dil_w == 1 && c->chunk >= c->s.kw * c->s.cin;
    bool adjacent = rows && b->io->in.pixel == c->s.cin && inside(c, b->x, b->size);
    b->packed = packed;
    for (b->group = 0; b->group < c->s.groups; b->group++) {
        b->weights = packed + TACHY_ALIGN(c->zeros, 16) + (size_t)b->group * c->group_floats +
                     (ptrdiff_t)c->first * (c->taps + 1);
        fill_table(b, adjacent);
        run_panels(b);
    }
    if (b->late)
        tachy_conv_finish_late(c, b->io, tachy_view_at(&b->io->out, b->n, b->y, b->x), b->size);
}

// `count` outputs from (y, x) on, which form one line in memory. If the taps of a row may be read as one run, the
// outputs that touch the padding at the sides form separate blocks.
static void run_line(struct block *b, const float *packed, int y, int x, int count)
{
    const struct tachy_conv *c = b->c;
    int most = tachy_conv_block(c);
    int blocks = (count + most - 1) / most;
    for (int i = 0, p = 0; i < blocks; i++) {
        b->size = count / blocks + (i < count % blocks);
        b->y = y + (x + p) / c->out_w;
        b->x = (x + p) % c->out_w;
        p += b->size;
        run_block(b, packed);
    }
}

// One output row in up to three parts: left padding, inside, right padding.
static void run_row(struct block *b, const float *packed, int y)
{
    const struct tachy_conv *c = b->c;
    int x = 0, end = c->out_w;
    while (x < end && !inside(c, x, 1))
        x++;
    while (end > x && !inside(c, end - 1, 1))
        end--;
    if (x > 0)
        run_line(b, packed, y, 0, x);
    if (end > x)
        run_line(b, packed, y, x, end - x);
    if (c->out_w > end)
        run_line(b, packed, y, end, c->out_w - end);
}

static bool is_pointwise(const struct tachy_conv_shape *s)
{
    return s->kh == 1 && s->kw == 1 && s->stride_h == 1 && s->stride_w == 1 && s->pad_top == 0 &&
           s->pad_left == 0 && s->pad_bottom <= 0 && s->pad_right == 0;
}

static bool one_line(const struct tachy_view *v) { return v->row == v->w * v->pixel; }

void tachy_conv_run_tiles(const struct tachy_conv *c, const float *packed,
                          const struct tachy_conv_io *io, int row0, int row1, void *scratch)
{
    const struct tachy_epilogue *e = &io->epilogue;
    struct block b = {.c = c, .io = io, .table = scratch, .n = row0 / c->out_h};
    b.sums = (float *)((char *)scratch + tachy_conv_table_size(c));
    b.line = is_pointwise(&c->s) && one_line(&io->in);
    b.late = tachy_conv_finishes_late(e);
    int y = row0 - b.n * c->out_h, rows = row1 - row0;
    // A first layer: few channels, so runs of a whole row of taps are worth it.
    bool few = c->s.kw > 1 && c->s.cin <= 8 && c->out_w >= 24;
    if (!e->sums && !few && one_line(&io->out) && (!e->add || one_line(e->add))) {
        run_line(&b, packed, y, 0, rows * c->out_w);
        return;
    }
    for (int r = 0; r < rows; r++) {
        if (e->sums)
            memset(e->sums + (ptrdiff_t)(row0 + r) * c->all, 0,
                   (size_t)c->s.cout * sizeof(float));
        if (few)
            run_row(&b, packed, y + r);
        else
            run_line(&b, packed, y + r, 0, c->out_w);
    }
}
