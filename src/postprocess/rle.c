#include "postprocess/composite_priv.h"

#include <stdlib.h>

// COCO's run-length encoding: lengths of runs of 0 and 1 in turn, column by column, starting
// with 0; each from the third on minus the one two before; five bits a character, least
// significant first, 0x20 says that more follow, plus 48. (Format: pycocotools, maskApi.)

static void put(struct tachy_text *t, int64_t v)
{
    bool more = true;
    while (more) {
        int c = (int)(v & 31);
        v >>= 5; // arithmetic: the sign stays
        more = c & 16 ? v != -1 : v != 0;
        char ch = (char)((more ? c | 32 : c) + 48);
        if (ch == '\\')
            tachy_text_char(t, '\\');
        tachy_text_char(t, ch);
    }
}

struct writer {
    struct tachy_text *t;
    int64_t end;     // pixels covered by the runs so far
    int64_t last[2]; // the two runs before
    int runs;
};

// The value changes at pixel `at` of the column-major order, or the picture ends there.
static void change(struct writer *w, int64_t at)
{
    int64_t run = at - w->end;
    put(w->t, w->runs > 2 ? run - w->last[0] : run);
    w->last[0] = w->last[1];
    w->last[1] = run;
    w->end = at;
    w->runs++;
}

// Rows where each of eight columns changes, found a row at a time for all eight.
static void column_changes(const struct tachy_bits *b, int x, int32_t *list, int count[8])
{
    uint64_t before = 0;
    size_t n = (size_t)TACHY_MIN(8, b->w - x);
    memset(count, 0, 8 * sizeof(count[0]));
    for (int y = 0; y < b->h; y++) {
        uint64_t v = 0;
        if (n == 8)
            memcpy(&v, b->p + y * b->stride + x, 8);
        else
            memcpy(&v, b->p + y * b->stride + x, n);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = __builtin_bswap64(v);
#endif
        v &= 0x8080808080808080u;
        for (uint64_t d = v ^ before; d; d &= d - 1) {
            int c = __builtin_ctzll(d) >> 3;
            list[(ptrdiff_t)c * (b->h + 1) + count[c]++] = y;
        }
        before = v;
    }
}

int tachy_rle(struct tachy_text *t, const struct tachy_bits *b, const struct tachy_rect *within, struct tachy_buf *runs)
{
    const struct tachy_rect all = within ? *within : (struct tachy_rect){0, 0, b->w, b->h};
    if (!tachy_buf_need(runs, 8 * (size_t)(b->h + 1) * sizeof(int32_t)))
        return TACHY_ERR_NOMEM;
    struct writer w = {.t = t};
    int32_t *list = runs->p;
    bool value = false; // of the last pixel before
    for (int x = 0; x < b->w; x += 8) {
        int count[8];
        column_changes(b, x, list, count);
        for (int c = 0; c < TACHY_MIN(8, b->w - x); c++) {
            const int32_t *l = list + (ptrdiff_t)c * (b->h + 1);
            int64_t start = (int64_t)(all.x + x + c) * all.h + all.y;
            bool first = count[c] && l[0] == 0; // changes are counted from 0 at each column's top
            if (first != value)
                change(&w, start);
            for (int i = first; i < count[c]; i++)
                change(&w, start + l[i]);
            value = count[c] & 1;
            if (value && b->h < all.h) { // below the part nothing is set
                change(&w, start + b->h);
                value = false;
            }
        }
    }
    change(&w, (int64_t)all.w * all.h);
    return t->failed ? TACHY_ERR_NOMEM : TACHY_OK;
}
