#include "postprocess/despeckle.h"

#include <stdlib.h>

enum kind { SPECK, HOLE, KINDS };
enum { THERE = 16, WHOLE = 239, REACH = 2, LARGE = 50, QUARTER = 4, MOST = 31 };
enum { UNSEEN, SMALL, PART_OF_LARGE }; // state of a pixel while parts are found

struct tachy_despeckle {
    int w, h, frames;
    bool started;
    uint8_t *past[KINDS]; // frames for which a pixel has lasted, this one included, up to `frames`; 0: it is in no such part
    // Buffers of one frame.
    uint8_t *next, *wide, *future, *seen; // next: the mask to be
    int32_t *at; // pixels of the part that was found last
    int n;       // of them
};

static size_t pixels(const tachy_despeckle *d) { return (size_t)d->w * (size_t)d->h; }

int tachy_despeckle_open(tachy_despeckle **out, int width, int height, int frames)
{
    *out = NULL;
    if (width < 1 || height < 1 || width > 65535 || height > 65535 || frames < 2 || frames > MOST)
        return TACHY_ERR_INVAL;
    tachy_despeckle *d = calloc(1, sizeof(*d));
    if (!d)
        return TACHY_ERR_NOMEM;
    d->w = width;
    d->h = height;
    d->frames = frames;
    uint8_t **planes[] = {&d->past[SPECK], &d->past[HOLE], &d->next, &d->wide, &d->future, &d->seen};
    bool all = (d->at = malloc(pixels(d) * sizeof(*d->at))) != NULL;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(planes); i++)
        all = (*planes[i] = calloc(1, pixels(d))) && all;
    if (!all)
        tachy_despeckle_close(&d);
    *out = d;
    return d ? TACHY_OK : TACHY_ERR_NOMEM;
}

void tachy_despeckle_close(tachy_despeckle **pd)
{
    tachy_despeckle *d = *pd;
    *pd = NULL;
    if (!d)
        return;
    void *all[] = {d->past[SPECK], d->past[HOLE], d->next, d->wide, d->future, d->seen, d->at};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        free(all[i]);
    free(d);
}

// ---- How long pixels last ----

static inline bool is_in(enum kind k, uint8_t v) { return k == SPECK ? v >= THERE : v <= WHOLE; }

static void start(const tachy_despeckle *d, enum kind k, const uint8_t *mask, int frames, uint8_t *to)
{
    for (size_t i = 0; i < pixels(d); i++)
        to[i] = is_in(k, mask[i]) ? (uint8_t)frames : 0;
}

// The largest of a row's pixels and of those up to REACH from each.
static void widen_row(const uint8_t *restrict from, int w, uint8_t *restrict to)
{
    memcpy(to, from, (size_t)w);
    for (int by = 1; by <= REACH; by++)
        for (int x = 0; x < w - by; x++) {
            to[x] = TACHY_MAX(to[x], from[x + by]);
            to[x + by] = TACHY_MAX(to[x + by], from[x]);
        }
}

// A frame further than `from`, which may be `to`.
static void step(const tachy_despeckle *d, enum kind k, const uint8_t *mask, const uint8_t *from, uint8_t *to)
{
    const uint8_t most = (uint8_t)d->frames;
    for (int y = 0; y < d->h; y++)
        widen_row(from + (ptrdiff_t)y * d->w, d->w, d->wide + (ptrdiff_t)y * d->w);
    for (int y = 0; y < d->h; y++) {
        uint8_t *row = to + (ptrdiff_t)y * d->w;
        memcpy(row, d->wide + (ptrdiff_t)y * d->w, (size_t)d->w);
        for (int dy = -REACH; dy <= REACH; dy++) {
            const uint8_t *other = d->wide + (ptrdiff_t)TACHY_CLAMP(y + dy, 0, d->h - 1) * d->w;
            for (int x = 0; x < d->w; x++)
                row[x] = TACHY_MAX(row[x], other[x]);
        }
        for (int x = 0; x < d->w; x++) {
            uint8_t longer = (uint8_t)(row[x] < most ? row[x] + 1 : most);
            row[x] = is_in(k, mask[(ptrdiff_t)y * d->w + x]) ? longer : 0;
        }
    }
}

// `future` becomes how long pixels will last, this frame included.
static void look_ahead(const tachy_despeckle *d, enum kind k, const uint8_t *mask, const uint8_t *const later[], int n)
{
    const uint8_t *last = n ? later[n - 1] : mask;
    start(d, k, last, n < d->frames - 1 ? d->frames : 1, d->future);
    for (int i = n - 2; i >= 0; i--)
        step(d, k, later[i], d->future, d->future);
    if (n)
        step(d, k, mask, d->future, d->future);
}

// ---- Parts ----

// Adds the pixel to the part that is being found. False: it belongs to a large one.
static bool reach(tachy_despeckle *d, enum kind k, const uint8_t *mask, int32_t i)
{
    if (d->seen[i] == PART_OF_LARGE)
        return false;
    if (d->seen[i] == UNSEEN && is_in(k, mask[i])) {
        d->seen[i] = SMALL;
        d->at[d->n++] = i;
    }
    return true;
}

// The part with pixel i becomes `at`. False: it is large.
static bool find_part(tachy_despeckle *d, enum kind k, const uint8_t *mask, int32_t i)
{
    const int most = TACHY_MAX((int)(pixels(d) / LARGE), 1);
    d->n = 0;
    bool small = reach(d, k, mask, i);
    for (int at = 0; at < d->n && small; at++) {
        int32_t p = d->at[at];
        int x = p % d->w, y = p / d->w;
        small = (!x || reach(d, k, mask, p - 1)) && (x == d->w - 1 || reach(d, k, mask, p + 1)) &&
                (!y || reach(d, k, mask, p - d->w)) && (y == d->h - 1 || reach(d, k, mask, p + d->w)) && d->n <= most;
    }
    for (int at = 0; at < d->n && !small; at++)
        d->seen[d->at[at]] = PART_OF_LARGE;
    return small;
}

// True if the found part lasts; `future` NULL: as far as is known by now.
static bool lasts(const tachy_despeckle *d, enum kind k, const uint8_t *future)
{
    int many = 0;
    for (int at = 0; at < d->n; at++) {
        int32_t p = d->at[at];
        many += d->past[k][p] + (future ? future[p] - 1 : 0) >= d->frames;
    }
    return many * QUARTER >= d->n;
}

static bool at_border(const tachy_despeckle *d)
{
    bool found = false;
    for (int at = 0; at < d->n && !found; at++) {
        int x = d->at[at] % d->w, y = d->at[at] / d->w;
        found = !x || !y || x == d->w - 1 || y == d->h - 1;
    }
    return found;
}

// What is known beyond a frame: the masks after it, and whether none can be waited for.
struct sight {
    const uint8_t *const *later;
    int n;
    bool live;
};

// Removes parts that do not last. The future is computed only when needed.
static void take_out(tachy_despeckle *d, enum kind k, uint8_t *mask, const struct sight *s)
{
    bool seen = false;
    memset(d->seen, UNSEEN, pixels(d));
    for (int32_t i = 0; i < d->w * d->h; i++) {
        if (!is_in(k, mask[i]) || d->past[k][i] >= d->frames || d->seen[i] != UNSEEN)
            continue;
        if (!find_part(d, k, mask, i) || lasts(d, k, NULL) || (s->live && k == SPECK && at_border(d)))
            continue;
        if (!s->live && !seen)
            look_ahead(d, k, mask, s->later, s->n);
        seen = true;
        for (int at = 0; at < d->n && (s->live || !lasts(d, k, d->future)); at++)
            d->next[d->at[at]] = k == SPECK ? 0 : 255;
    }
}

static void apply(tachy_despeckle *d, uint8_t *mask, const struct sight *s, bool anew)
{
    memcpy(d->next, mask, pixels(d));
    for (int k = 0; k < KINDS; k++) {
        if (anew || !d->started)
            start(d, k, mask, d->frames, d->past[k]);
        else
            step(d, k, mask, d->past[k], d->past[k]);
        take_out(d, k, mask, s);
    }
    d->started = true;
    memcpy(mask, d->next, pixels(d));
}

void tachy_despeckle_apply(tachy_despeckle *d, uint8_t *mask, const uint8_t *const later[], int n, bool anew)
{
    apply(d, mask, &(struct sight){later, TACHY_MIN(n, d->frames - 1), false}, anew);
}

void tachy_despeckle_live(tachy_despeckle *d, uint8_t *mask, bool anew) { apply(d, mask, &(struct sight){.live = true}, anew); }

// ---- State ----

size_t tachy_despeckle_state_size(const tachy_despeckle *d) { return 1 + KINDS * pixels(d); }

void tachy_despeckle_save(const tachy_despeckle *d, void *data)
{
    uint8_t *to = data;
    *to++ = d->started;
    for (int k = 0; k < KINDS; k++)
        memcpy(to + (size_t)k * pixels(d), d->past[k], pixels(d));
}

int tachy_despeckle_load(tachy_despeckle *d, const void *data, size_t size)
{
    const uint8_t *from = data;
    if (size != tachy_despeckle_state_size(d) || *from > 1)
        return TACHY_ERR_FORMAT;
    for (size_t i = 1; i < size; i++)
        if (from[i] > d->frames)
            return TACHY_ERR_FORMAT;
    d->started = *from++;
    for (int k = 0; k < KINDS; k++)
        memcpy(d->past[k], from + (size_t)k * pixels(d), pixels(d));
    return TACHY_OK;
}
