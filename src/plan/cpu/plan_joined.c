#include "base/base.h"
#include "plan/cpu/plan_parts.h"

// Joins a convolution and a depthwise one that is the only reader of its output: some channels of both at a time, some
// rows at a time, so that intermediate values stay in the caches and never reach the arena. Each number is computed as
// by the two separate steps, so it has the same bits. The first of the two steps does nothing; the second holds both.

enum {
    BAND_BYTES = 128 << 10,  // about, of what is between the two
    LEAST_BYTES = 256 << 10, // of all of it: less does not leave the caches anyway
};

// With weights that are constant, and none of its inputs scaled.
static bool is_plain(const struct tachy_node *n)
{
    if (!n || n->op != TACHY_OP_CONV || !n->out->nhwc || !n->in[0]->nhwc || plan_input(n, 4))
        return false;
    return n->in[1]->data && (!plan_input(n, 2) || n->in[2]->data);
}

bool plan_joins(const struct tachy_node *n)
{
    const struct tachy_node *next = n->next;
    if (!is_plain(n) || !is_plain(next) || next->in[0] != n->out || n->attr.row_sums || tachy_value_user(n->out) != next)
        return false;
    struct tachy_conv_shape a = plan_conv_shape(n), b = plan_conv_shape(next);
    const struct tachy_plan_kernels *k = tachy_plan_kernels(tachy_cpu_isa());
    struct tachy_conv first, second;
    if (a.groups != 1 || tachy_narrow_fits(&a, k) || tachy_narrow_fits(&b, k) || tachy_winograd_outputs(&a) ||
        tachy_conv_init(&first, &a, NULL, NULL) < 0 || tachy_conv_init(&second, &b, NULL, NULL) < 0)
        return false;
    return second.v.depthwise && (double)a.n * b.h * b.w * b.cin * sizeof(float) >= LEAST_BYTES;
}

// Channels that go through both before the next ones.
static int part_channels(const struct plan_step *s) { return TACHY_MIN(TACHY_CONV_PART, s->conv.all); }

// Input rows of the second that one output row reads.
static int taps_high(const struct tachy_conv_shape *s) { return (s->kh - 1) * s->dil_h + 1; }

static int band_rows(const struct plan_step *s)
{
    const struct tachy_conv_shape *b = &s->conv.s;
    size_t row = (size_t)b->w * (size_t)part_channels(s) * sizeof(float);
    int fit = (int)TACHY_MIN((size_t)b->h, BAND_BYTES / row);
    return TACHY_MIN(TACHY_MAX(fit, taps_high(b) + b->stride_h), b->h);
}

size_t plan_joined_band(const struct plan_step *s)
{
    if (s->run != plan_run_joined)
        return 0;
    size_t row = (size_t)s->conv.s.w * (size_t)part_channels(s);
    return TACHY_ALIGN((size_t)band_rows(s) * row * sizeof(float), (size_t)64);
}

void plan_join(struct plan_step *first, struct plan_step *second)
{
    int parts = (second->conv.all + TACHY_CONV_PART - 1) / TACHY_CONV_PART;
    first->run = plan_run_nothing;
    first->rows = 1;
    second->run = plan_run_joined;
    second->rows *= parts;
}

void plan_run_nothing(const struct plan_step *s, const struct plan_run *r, int row0, int row1) {}

// Some channels of both, and the rows between them that are there.
struct part {
    struct tachy_conv first, second;
    struct tachy_conv_io made, out; // what the first and the second read and write
    struct tachy_view add[2];
    const void *packed[2];
    float *band;
    void *scratch;
    int rows;     // of the band
    int top, end; // rows that it holds
};

// The part of what is as wide as the output that begins at channel `first`.
static void shift(struct tachy_epilogue *e, struct tachy_view *add, int first)
{
    e->act.slope = e->act.slope ? e->act.slope + first : NULL;
    e->sums = e->sums ? e->sums + first : NULL;
    add->data = e->add ? add->data + first : NULL;
}

static void open_part(struct part *p, const struct plan_step *s, const struct plan_run *r, int first)
{
    const struct plan_step *e = s - 1;
    int count = TACHY_MIN(TACHY_CONV_PART, s->conv.all - first);
    p->first = tachy_conv_part(&e->conv, first, count);
    p->second = tachy_conv_part(&s->conv, first, count);
    p->made = plan_conv_io(e, r, &p->add[0]);
    p->out = plan_conv_io(s, r, &p->add[1]);
    shift(&p->made.epilogue, &p->add[0], first);
    shift(&p->out.epilogue, &p->add[1], first);
    p->out.out.data += first;
    p->packed[0] = e->packed;
    p->packed[1] = s->packed;
    p->band = r->base[BASE_SCRATCH];
    p->scratch = (char *)p->band + plan_joined_band(s);
    p->rows = band_rows(s);
}

// Lets the band hold rows from..end-1: those that it has move to its begin, the others are made.
static void make_rows(struct part *p, int image, int from, int end)
{
    const struct tachy_conv_shape *b = &p->second.s;
    ptrdiff_t row = (ptrdiff_t)b->w * b->cin;
    int kept = TACHY_MAX(p->end - from, 0);
    if (kept > 0 && from > p->top)
        memmove(p->band, p->band + (from - p->top) * row, (size_t)(kept * row) * sizeof(float));
    p->top = from;
    p->made.out = tachy_view_dense(p->band, b->n, b->h, b->w, b->cin);
    p->made.out.data -= from * row; // where row 0 would lie
    p->made.out.image = 0;
    p->out.in = p->made.out;
    if (from + kept < end)
        tachy_conv_run(&p->first, p->packed[0], &p->made, image * b->h + from + kept, image * b->h + end, p->scratch);
    p->end = from + kept < end ? end : from + kept;
}

// Output rows y0..y1-1 of an image.
static void run_rows(struct part *p, int image, int y0, int y1)
{
    const struct tachy_conv_shape *b = &p->second.s;
    const int high = taps_high(b), out_h = p->second.out_h;
    int need = TACHY_CLAMP((y1 - 1) * b->stride_h - b->pad_top + high, 0, b->h);
    p->top = p->end = 0;
    for (int y = y0, next; y < y1; y = next) {
        int from = TACHY_CLAMP(y * b->stride_h - b->pad_top, 0, need);
        make_rows(p, image, from, TACHY_MIN(from + p->rows, need));
        next = p->end >= need ? y1 : TACHY_MIN((p->end + b->pad_top - high) / b->stride_h + 1, y1);
        tachy_conv_run(&p->second, p->packed[1], &p->out, image * out_h + y, image * out_h + next, p->scratch);
    }
}

// Rows are those of the first channels in all images, then those of the next.
void plan_run_joined(const struct plan_step *s, const struct plan_run *r, int row0, int row1)
{
    const int out_h = s->conv.out_h, lines = s->conv.s.n * out_h;
    struct part p;
    for (int row = row0, end; row < row1; row = end) {
        int y = row % out_h;
        end = TACHY_MIN(row1, row - y + out_h);
        if (row == row0 || row % lines == 0)
            open_part(&p, s, r, row / lines * TACHY_CONV_PART);
        run_rows(&p, row % lines / out_h, y, y + end - row);
    }
}
