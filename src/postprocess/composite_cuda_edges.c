#include "postprocess/composite_cuda_priv.h"

// Edges that need the whole picture of alpha: it is made at the frame's size, and worked on, before anything is blended by it.

static int steps_of(const struct tachy_composite_cuda *c)
{
    float by = c->params.grow;
    return ((int)((by < 0 ? -by : by) * 256 + 0.5f) + 255) / 256;
}

bool tachy_composite_cuda_shapes(const struct tachy_composite_cuda *c) { return steps_of(c) > 0; }

// Where the pictures of alpha of a batch lie, and those that take turns with them.
struct turns {
    cuda_address at[2][BATCH];
    int64_t stride[2];
    int now; // which of the two is whole
};

// The region of an eye, inside the frame.
static void region_of(struct tachy_cuda_grow_frame *to, const item *it, int eye)
{
    struct tachy_alpha_eye e = {.mask = it->result->mask[eye]};
    if (eye < it->result->eyes)
        tachy_alpha_clip(&e, it->in->width, it->in->height);
    to->x0 = e.x0, to->x1 = e.x1, to->y0 = e.y0, to->y1 = e.y1;
}

// Up to TACHY_CUDA_GROW_STEPS pixels of one eye, from step k->first on.
static int grow_some(struct tachy_composite_cuda *c, const item *it, int n, int eye, struct turns *t,
                     struct tachy_cuda_grow *k)
{
    int from = t->now, to = t->now = !from;
    k->src_stride = t->stride[from], k->dst_stride = t->stride[to];
    for (int i = 0; i < n; i++) {
        k->frame[i].src = t->at[from][i], k->frame[i].dst = t->at[to][i];
        region_of(&k->frame[i], &it[i], eye);
    }
    return tachy_composite_cuda_launched(c, c->kernels->grow(k, c->stream));
}

// Eye by eye, which never mix. The last launch counts, and scales by `strength`.
static int grow(struct tachy_composite_cuda *c, const item *it, int n, int eyes, int strength, struct turns *t)
{
    const int steps = steps_of(c);
    float by = c->params.grow;
    int whole = (int)((by < 0 ? -by : by) * 256 + 0.5f), err = TACHY_OK;
    for (int eye = 0; eye < eyes; eye++)
        for (int at = 0; at < steps && err == TACHY_OK; at += TACHY_CUDA_GROW_STEPS) {
            struct tachy_cuda_grow k = {.count = n, .width = it[0].in->width, .height = it[0].in->height, .first = at,
                                        .steps = TACHY_MIN(steps - at, (int)TACHY_CUDA_GROW_STEPS), .part = 256,
                                        .inward = by < 0, .strength = 255};
            bool last = at + k.steps == steps;
            k.part = last ? whole - (steps - 1) * 256 : 256;
            k.strength = last && eye == eyes - 1 ? strength : 255;
            for (int i = 0; i < n; i++)
                k.frame[i].counted = last && eye == eyes - 1 ? it[i].counted : 0;
            err = grow_some(c, it, n, eye, t, &k);
        }
    return err;
}

int tachy_composite_cuda_shaped(struct tachy_composite_cuda *c, const item *it, int n, int strength,
                                const cuda_address at[], int64_t stride)
{
    size_t row = TACHY_ALIGN((size_t)it[0].in->width, 16u), size = row * (size_t)it[0].in->height;
    int eyes = 1, launches = (steps_of(c) + TACHY_CUDA_GROW_STEPS - 1) / TACHY_CUDA_GROW_STEPS;
    int err = tachy_composite_cuda_need(c, &c->turn, size * (size_t)n);
    if (err < 0)
        return err;
    item bare[BATCH];
    struct turns t = {.stride = {stride, (int64_t)row}};
    for (int i = 0; i < n; i++) {
        eyes = TACHY_MAX(eyes, TACHY_MIN(it[i].result->eyes, TACHY_MAX_EYES));
        t.at[0][i] = at[i], t.at[1][i] = tachy_cu_address(c->turn.data) + (cuda_address)(size * (size_t)i);
        bare[i] = it[i];
        bare[i].counted = 0;
    }
    t.now = eyes * launches % 2; // so that the last of them ends at `at`
    err = tachy_composite_cuda_flat(c, bare, n, 255, t.at[t.now], t.stride[t.now]);
    return err < 0 ? err : grow(c, it, n, eyes, strength, &t);
}
