#include "postprocess/objects.h"

#include "postprocess/chroma.h"
#include "postprocess/edges.h"

#include <math.h>
#include <stdlib.h>

enum { CELLS = 480 };                 // along the longer side, at most
enum { KNOWN = 6, LONGEST = 50 };     // frames after which a cell is known, and that are remembered
enum { TOUCH = 2, AWAY = 4 };         // cells from the mask: that an object has to come to, and to go beyond
enum { SMALLEST = 12, REACHES = 6 };  // cells of an object, and of it beyond AWAY
enum { CALM = 25 };                   // frames without a move of the camera before objects are kept again
enum { STEPS = 128 };                 // that light may differ by, to each side
static const float PERSON = 0.5f, FAINT = 0.1f;        // of a mask
static const float LEAST = 10, MOST = 40, SPREADS = 4; // by how much a cell differs, steps of 255
static const float LIKE_OTHER = 12, SHADOW_CHROMA = 8, SHADOW_LIGHT = 0.4f, SHADOW_SHARE = 0.3f;
static const float LEARN = 0.05f, LEARN_SPREAD = 0.1f, FIRST_SPREAD = 3, FORGET = 0.12f, GONE = 0.35f;

// State of a cell: luma, Cb, Cr in steps of 255.
struct cell {
    float mean[3], other[3]; // other: what was seen there last that differs
    float spread;            // mean difference, the largest of the three
    float seen, other_seen;  // frames
};

// Flags of a cell in this frame.
enum {
    IN_MASK = 1,
    UNLIKE = 2,    // it is known, and differs
    SHADOW = 4,    // of something on what is known
    PART = 8,      // perhaps of an object
    KEPT = 16,     // of an object
    UNCOVERED = 32 // what was learnt here has gone
};

struct tachy_objects {
    int w, h, cell;
    int width, height; // of the region, pixels
    struct cell *known;
    int32_t wait; // frames until objects are kept again, after the camera has moved
    // Buffers of one frame.
    float *now[3], *mask;        // luma, Cb, Cr in steps of 255; 0..1
    float light[3];              // by how much the picture is brighter than what is known
    float *differs;              // from what is known, except light
    uint8_t *is;                 // flags
    uint8_t *near, *far, *around; // 0 or 1: near the mask or the unknown; far from the mask; where nothing is learnt
    uint8_t *soft, *scratch;
    int32_t *at; // cells of the part that was found last
    int n;       // of them
    bool sure;   // enough is known
};

static size_t cells(const tachy_objects *o) { return (size_t)o->w * (size_t)o->h; }

int tachy_objects_open(tachy_objects **out, int width, int height)
{
    *out = NULL;
    if (width < 1 || height < 1 || width > 65535 || height > 65535)
        return TACHY_ERR_INVAL;
    tachy_objects *o = calloc(1, sizeof(*o));
    if (!o)
        return TACHY_ERR_NOMEM;
    o->width = width;
    o->height = height;
    for (o->cell = 1; TACHY_MAX(width, height) > CELLS * o->cell; o->cell *= 2)
        ;
    o->w = (width + o->cell - 1) / o->cell;
    o->h = (height + o->cell - 1) / o->cell;
    uint8_t **bytes[] = {&o->is, &o->near, &o->far, &o->around, &o->soft, &o->scratch};
    float **floats[] = {&o->now[0], &o->now[1], &o->now[2], &o->mask, &o->differs};
    bool all = (o->known = calloc(cells(o), sizeof(*o->known))) != NULL;
    all = (o->at = malloc(cells(o) * sizeof(*o->at))) != NULL && all;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(bytes); i++)
        all = (*bytes[i] = calloc(cells(o), 1)) && all;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(floats); i++)
        all = (*floats[i] = calloc(cells(o), sizeof(float))) && all;
    if (!all)
        tachy_objects_close(&o);
    *out = o;
    return o ? TACHY_OK : TACHY_ERR_NOMEM;
}

void tachy_objects_close(tachy_objects **po)
{
    tachy_objects *o = *po;
    *po = NULL;
    if (!o)
        return;
    void *all[] = {o->known, o->now[0], o->now[1], o->now[2], o->mask, o->differs, o->is, o->near, o->far, o->around,
                   o->soft, o->scratch, o->at};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        free(all[i]);
    free(o);
}

// ---- What is seen ----

// Cells of the frame and of the mask.
static void see(tachy_objects *o, const tachy_frame *f, const struct tachy_mask *m)
{
    const struct tachy_refine grid = {.width = o->w, .height = o->h, .cell = o->cell};
    struct tachy_alpha_eye e = {.mask.region = m->region};
    tachy_alpha_clip(&e, f->width, f->height);
    tachy_edges_alpha(&grid, &e, m, o->mask);
    for (int c = 0; c < 3; c++)
        tachy_edges_means(&grid, &e, f, c, o->now[c], NULL);
    bool rgb = tachy_pix_desc(f->format)->rgb;
    for (size_t i = 0; i < cells(o); i++) {
        double v[3] = {(double)o->now[0][i], (double)o->now[1][i], (double)o->now[2][i]};
        struct tachy_ycbcr y = rgb ? tachy_ycbcr(v, tachy_chroma_matrix(f)) : (struct tachy_ycbcr){.y = o->now[0][i]};
        o->now[0][i] = 255 * y.y;
        o->now[1][i] = 255 * (rgb ? y.u : o->now[1][i]);
        o->now[2][i] = 255 * (rgb ? y.v : o->now[2][i]);
    }
}

static bool is_known(const struct cell *k) { return k->seen >= KNOWN; }
static float limit_of(const struct cell *k) { return TACHY_CLAMP(SPREADS * k->spread, LEAST, MOST); }

// The median difference of a channel if there is nobody, so that an exposure which follows the picture does not count.
static float light_of(const tachy_objects *o, int c)
{
    int bin[2 * STEPS + 1] = {0}, n = 0, i = 0;
    for (size_t k = 0; k < cells(o); k++)
        if (is_known(&o->known[k]) && !o->around[k]) {
            float d = roundf(o->now[c][k] - o->known[k].mean[c]);
            bin[(int)TACHY_CLAMP(d, -STEPS, STEPS) + STEPS]++;
            n++;
        }
    for (int sum = bin[0]; 2 * sum < n; sum += bin[++i])
        ;
    return n ? (float)(i - STEPS) : 0;
}

static bool is_shadow(const tachy_objects *o, const struct cell *k, size_t i)
{
    float luma = o->now[0][i] - o->light[0];
    return luma < k->mean[0] && luma > SHADOW_LIGHT * k->mean[0] &&
           fabsf(o->now[1][i] - o->light[1] - k->mean[1]) < SHADOW_CHROMA &&
           fabsf(o->now[2][i] - o->light[2] - k->mean[2]) < SHADOW_CHROMA;
}

// Sets the differences and the flags except PART and later. False: the camera has moved.
static bool tell(tachy_objects *o)
{
    size_t n = cells(o), outside = 0, known = 0, unlike = 0;
    for (size_t i = 0; i < n; i++) {
        o->is[i] = o->mask[i] > PERSON ? IN_MASK : 0;
        o->around[i] = o->mask[i] > FAINT;
        o->near[i] = o->is[i] || !is_known(&o->known[i]);
        o->far[i] = o->is[i];
    }
    tachy_edges_grow(o->around, o->scratch, o->w, o->h, TOUCH);
    tachy_edges_grow(o->near, o->scratch, o->w, o->h, TOUCH);
    tachy_edges_grow(o->far, o->scratch, o->w, o->h, AWAY);
    for (int c = 0; c < 3; c++)
        o->light[c] = light_of(o, c);
    for (size_t i = 0; i < n; i++) {
        const struct cell *k = &o->known[i];
        o->far[i] = !o->far[i];
        o->differs[i] = 0;
        for (int c = 0; c < 3; c++)
            o->differs[i] = TACHY_MAX(o->differs[i], fabsf(o->now[c][i] - o->light[c] - k->mean[c]));
        bool differs = is_known(k) && o->differs[i] >= limit_of(k);
        outside += !o->around[i];
        known += is_known(k) && !o->around[i];
        unlike += differs && !o->around[i];
        if (differs && !o->is[i])
            o->is[i] = UNLIKE | (is_shadow(o, k, i) ? SHADOW : 0);
    }
    o->sure = 2 * known > outside;
    return (float)unlike <= FORGET * (float)known;
}

// ---- Parts ----

// Cells with UNLIKE and without `but`, holes of a cell closed: PART.
static void mark_parts(tachy_objects *o, uint8_t but)
{
    uint8_t *closed = o->soft; // not needed yet
    size_t n = cells(o);
    for (size_t i = 0; i < n; i++)
        closed[i] = (o->is[i] & (UNLIKE | but)) == UNLIKE;
    tachy_edges_grow(closed, o->scratch, o->w, o->h, 1);
    for (size_t i = 0; i < n; i++)
        closed[i] = !closed[i];
    tachy_edges_grow(closed, o->scratch, o->w, o->h, 1);
    for (size_t i = 0; i < n; i++)
        if (!closed[i] && !(o->is[i] & IN_MASK))
            o->is[i] |= PART;
}

// The part with cell i becomes `at`, corners count; it is no PART any more.
static void find_part(tachy_objects *o, int32_t i)
{
    o->is[i] &= (uint8_t)~PART;
    o->at[0] = i;
    o->n = 1;
    for (int k = 0; k < o->n; k++) {
        int x = o->at[k] % o->w, y = o->at[k] / o->w;
        for (int v = TACHY_MAX(y - 1, 0); v <= TACHY_MIN(y + 1, o->h - 1); v++)
            for (int u = TACHY_MAX(x - 1, 0); u <= TACHY_MIN(x + 1, o->w - 1); u++) {
                int32_t to = v * o->w + u;
                if (!(o->is[to] & PART))
                    continue;
                o->is[to] &= (uint8_t)~PART;
                o->at[o->n++] = to;
            }
    }
}

// A part with a small share of shadow has none: it is dark there itself.
static void find_shadows(tachy_objects *o)
{
    mark_parts(o, 0);
    for (int32_t i = 0; i < o->w * o->h; i++) {
        int dark = 0;
        if (!(o->is[i] & PART))
            continue;
        find_part(o, i);
        for (int k = 0; k < o->n; k++)
            dark += (o->is[o->at[k]] & SHADOW) != 0;
        for (int k = 0; k < o->n && (float)dark < SHADOW_SHARE * (float)o->n; k++)
            o->is[o->at[k]] &= (uint8_t)~SHADOW;
    }
}

// By how much two cells differ, now or as they are known.
static float step(const tachy_objects *o, int32_t a, int32_t b, bool known)
{
    float sum = 0;
    for (int c = 0; c < 3; c++)
        sum += known ? fabsf(o->known[a].mean[c] - o->known[b].mean[c]) : fabsf(o->now[c][a] - o->now[c][b]);
    return sum;
}

// True if the found part, which is KEPT, has too many of its edges in the learnt background rather than in this frame.
static bool was_there(const tachy_objects *o)
{
    int all = 0, gone = 0;
    for (int k = 0; k < o->n; k++) {
        int x = o->at[k] % o->w, y = o->at[k] / o->w;
        const int beside[4][2] = {{x - 1, y}, {x + 1, y}, {x, y - 1}, {x, y + 1}};
        for (int side = 0; side < 4; side++) {
            int u = beside[side][0], v = beside[side][1];
            int32_t to = v * o->w + u;
            if (u < 0 || v < 0 || u >= o->w || v >= o->h || o->is[to] & (KEPT | IN_MASK) ||
                o->known[to].seen <= 0)
                continue;
            all++;
            gone += step(o, o->at[k], to, true) > step(o, o->at[k], to, false);
        }
    }
    return (float)gone > GONE * (float)all;
}

// Sets KEPT or UNCOVERED of the part that was found, if it is either.
static void judge(tachy_objects *o, int people)
{
    int touches = 0, reaches = 0;
    for (int k = 0; k < o->n; k++) {
        touches += o->near[o->at[k]];
        reaches += o->far[o->at[k]];
    }
    if (o->n < SMALLEST || o->n > people / 2 || !touches || reaches < REACHES)
        return;
    for (int k = 0; k < o->n; k++)
        o->is[o->at[k]] |= KEPT;
    if (was_there(o))
        for (int k = 0; k < o->n; k++)
            o->is[o->at[k]] ^= KEPT | UNCOVERED;
}

// ---- What is learnt ----

static void begin(struct cell *k, const float now[3])
{
    *k = (struct cell){.mean = {now[0], now[1], now[2]}, .spread = FIRST_SPREAD, .seen = 1};
}

static void agree(struct cell *k, const float now[3], float differs)
{
    k->seen = TACHY_MIN(k->seen + 1, LONGEST);
    k->other_seen *= 0.9f;
    k->spread += LEARN_SPREAD * (differs - k->spread);
    for (int c = 0; c < 3; c++)
        k->mean[c] += TACHY_MAX(1 / k->seen, LEARN) * (now[c] - k->mean[c]);
}

// Something else is there: if it stays for as long as the wall was seen, it is the wall.
static void disagree(struct cell *k, const float now[3])
{
    float differs = 0;
    for (int c = 0; c < 3; c++)
        differs = TACHY_MAX(differs, fabsf(now[c] - k->other[c]));
    k->other_seen = k->other_seen > 0 && differs < LIKE_OTHER ? k->other_seen + 1 : 1;
    for (int c = 0; c < 3; c++)
        k->other[c] += (now[c] - k->other[c]) / k->other_seen;
    if (k->other_seen < k->seen)
        return;
    const float other[3] = {k->other[0], k->other[1], k->other[2]}, seen = k->other_seen;
    begin(k, other);
    k->seen = seen;
}

static void learn(tachy_objects *o)
{
    for (size_t i = 0; i < cells(o); i++) {
        struct cell *k = &o->known[i];
        const float now[3] = {o->now[0][i], o->now[1][i], o->now[2][i]};
        if (o->around[i] || o->is[i] & KEPT)
            continue;
        if (k->seen <= 0 || o->is[i] & UNCOVERED)
            begin(k, now);
        else if (o->differs[i] < limit_of(k))
            agree(k, now, o->differs[i]);
        else
            disagree(k, now);
    }
}

// ---- The mask ----

// `soft`: 255 in objects; around them, as much as a cell differs. Returns whether there is any.
static bool soften(tachy_objects *o)
{
    bool any = false;
    for (size_t i = 0; i < cells(o); i++)
        any |= o->soft[i] = (o->is[i] & KEPT) != 0;
    tachy_edges_grow(o->soft, o->scratch, o->w, o->h, 1);
    for (size_t i = 0; i < cells(o) && any; i++) {
        const struct cell *k = &o->known[i];
        bool edge = o->soft[i] && is_known(k) && !(o->is[i] & (IN_MASK | SHADOW | UNCOVERED));
        float limit = limit_of(k), share = (o->differs[i] - 0.5f * limit) / (0.5f * limit + 1);
        o->soft[i] = o->is[i] & KEPT ? 255 : edge ? (uint8_t)(255 * TACHY_CLAMP(share, 0, 1)) : 0;
    }
    return any;
}

// The mask's row at height v of the cells, each pixel `step` cells apart, at least as high as the cells interpolated there.
static void raise_row(const tachy_objects *o, float v, float step, uint8_t *mask, int width)
{
    v = TACHY_CLAMP(v, 0, (float)(o->h - 1));
    const uint8_t *up = o->soft + (ptrdiff_t)v * o->w, *down = up + ((int)v < o->h - 1 ? o->w : 0);
    float fy = v - floorf(v);
    for (int x = 0; x < width; x++) {
        float u = TACHY_CLAMP(((float)x + 0.5f) * step - 0.5f, 0, (float)(o->w - 1));
        int i = (int)u, next = TACHY_MIN(i + 1, o->w - 1);
        float fx = u - (float)i;
        float a = (1 - fx) * (float)up[i] + fx * (float)up[next], b = (1 - fx) * (float)down[i] + fx * (float)down[next];
        uint8_t value = (uint8_t)((1 - fy) * a + fy * b + 0.5f);
        mask[x] = TACHY_MAX(mask[x], value);
    }
}

void tachy_objects_keep(tachy_objects *o, const tachy_frame *f, const struct tachy_rect *region, uint8_t *mask, int width,
                        int height, bool anew)
{
    const struct tachy_mask m = {mask, width, height, width, *region};
    int people = 0;
    see(o, f, &m);
    bool still = tell(o);
    o->wait = still || anew ? TACHY_MAX(o->wait - 1, 0) : CALM;
    if (!still || anew) {
        memset(o->known, 0, cells(o) * sizeof(*o->known));
        tell(o);
    }
    for (size_t i = 0; i < cells(o); i++)
        people += o->is[i] & IN_MASK;
    find_shadows(o);
    mark_parts(o, SHADOW);
    for (int32_t i = 0; i < o->w * o->h && o->sure && !o->wait; i++)
        if (o->is[i] & PART) {
            find_part(o, i);
            judge(o, people);
        }
    if (soften(o))
        for (int y = 0; y < height; y++) {
            float pixels = (float)o->cell, down = (float)o->height / (pixels * (float)height);
            raise_row(o, ((float)y + 0.5f) * down - 0.5f, (float)o->width / (pixels * (float)width), mask + (ptrdiff_t)y * width,
                      width);
        }
    learn(o);
}

// ---- State ----

static size_t size_known(const tachy_objects *o) { return cells(o) * sizeof(*o->known); }

size_t tachy_objects_state_size(const tachy_objects *o) { return size_known(o) + sizeof(o->wait); }

void tachy_objects_save(const tachy_objects *o, void *data)
{
    memcpy(data, o->known, size_known(o));
    memcpy((char *)data + size_known(o), &o->wait, sizeof(o->wait));
}

int tachy_objects_load(tachy_objects *o, const void *data, size_t size)
{
    if (size != tachy_objects_state_size(o))
        return TACHY_ERR_FORMAT;
    memcpy(o->known, data, size_known(o));
    memcpy(&o->wait, (const char *)data + size_known(o), sizeof(o->wait));
    bool sound = o->wait >= 0 && o->wait <= CALM;
    for (size_t i = 0; i < cells(o); i++) {
        const float *v = (const float *)&o->known[i];
        for (size_t k = 0; k < sizeof(struct cell) / sizeof(float); k++)
            sound &= fabsf(v[k]) <= 1024;
    }
    return sound ? TACHY_OK : TACHY_ERR_FORMAT;
}
