#include "postprocess/composite_cuda_priv.h"

#include "postprocess/edges.h"

// Edges that need the whole picture of alpha: it is made at the frame's size, and worked on, before anything is blended by it.

static int steps_of(const struct tachy_composite_cuda *c)
{
    float by = c->params.grow;
    return ((int)((by < 0 ? -by : by) * 256 + 0.5f) + 255) / 256;
}

bool tachy_composite_cuda_shapes(const struct tachy_composite_cuda *c) { return steps_of(c) > 0 || c->natural; }

// Memory of a batch's pictures of alpha, and of those that alternate with them.
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

// ---- Alpha that is solved for ----

// An eye of the launch; its scratch is the caller's to place. TACHY_ERR_INVAL: a mask without data.
static int set_eye(struct tachy_cuda_edges_eye *to, const item *it, int eye)
{
    const struct tachy_mask *m = &it->result->mask[eye];
    struct tachy_alpha_eye e = {0};
    if (!tachy_alpha_eye_set(&e, m, NULL))
        return TACHY_ERR_INVAL;
    tachy_alpha_clip(&e, it->in->width, it->in->height);
    *to = (struct tachy_cuda_edges_eye){.mask = tachy_cu_address(m->data), .stride = m->stride, .mask_w = m->width,
                                        .mask_h = m->height, .x = m->region.x, .y = m->region.y, .w = m->region.w,
                                        .h = m->region.h, .x0 = e.x0, .x1 = e.x1, .y0 = e.y0, .y1 = e.y1};
    tachy_edges_size(it->in, &m->region, &to->width, &to->height);
    return TACHY_OK;
}

// Gives each eye its part of the scratch.
static int place_eyes(struct tachy_composite_cuda *c, struct tachy_cuda_edges *k)
{
    int64_t all = 0;
    for (int i = 0; i < k->count; i++)
        for (int eye = 0; eye < k->frame[i].eyes; eye++) {
            k->frame[i].eye[eye].scratch = (cuda_address)all;
            all += tachy_cuda_edges_scratch(k->frame[i].eye[eye].width, k->frame[i].eye[eye].height);
        }
    int err = tachy_composite_cuda_need(c, &c->cells, (size_t)all);
    for (int i = 0; i < k->count && err == TACHY_OK; i++)
        for (int eye = 0; eye < k->frame[i].eyes; eye++)
            k->frame[i].eye[eye].scratch += tachy_cu_address(c->cells.data);
    return err;
}

static void set_components(struct tachy_cuda_edges *k, const item *it)
{
    const tachy_frame *f = it[0].in;
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    for (int comp = 0; comp < (d->rgb || d->planes > 1 ? 3 : 1); comp++) {
        int first, plane = tachy_composite_cuda_place(f->format, comp, &first);
        k->in_stride[comp] = f->stride[plane];
        k->step[comp] = d->components[plane];
        for (int i = 0; i < k->count; i++)
            k->frame[i].in[comp] = tachy_cu_address(it[i].in->data[plane]) + (cuda_address)(first * d->bytes);
    }
}

static int natural(struct tachy_composite_cuda *c, const item *it, int n, int strength, const cuda_address at[], int64_t stride)
{
    const tachy_frame *f = it[0].in;
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    struct tachy_cuda_edges k = {.alpha_stride = stride, .bytes = d->bytes, .shift = d->shift, .bits = d->bits,
                                 .narrow = d->rgb ? 0 : d->chroma_shift_x, .low = d->rgb ? 0 : d->chroma_shift_y, .count = n,
                                 .width = f->width, .height = f->height, .cell = tachy_edges_cell(f), .strength = strength,
                                 .curve = c->curve};
    int err = TACHY_OK;
    for (int i = 0; i < n && err == TACHY_OK; i++) {
        struct tachy_cuda_edges_frame *o = &k.frame[i];
        o->alpha = at[i];
        o->counted = it[i].counted;
        o->eyes = TACHY_CLAMP(it[i].result->eyes, 0, TACHY_MAX_EYES);
        for (int eye = 0; eye < o->eyes && err == TACHY_OK; eye++)
            err = set_eye(&o->eye[eye], &it[i], eye);
    }
    if (err == TACHY_OK)
        err = place_eyes(c, &k);
    if (err < 0)
        return err;
    set_components(&k, it);
    return tachy_composite_cuda_launched(c, c->kernels->edges(&k, c->stream));
}

int tachy_composite_cuda_shaped(struct tachy_composite_cuda *c, const item *it, int n, int strength,
                                const cuda_address at[], int64_t stride)
{
    int (*flat)(struct tachy_composite_cuda *, const item *, int, int, const cuda_address *, int64_t) =
        c->natural ? natural : tachy_composite_cuda_flat;
    if (!steps_of(c))
        return flat(c, it, n, strength, at, stride);
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
    err = flat(c, bare, n, 255, t.at[t.now], t.stride[t.now]);
    return err < 0 ? err : grow(c, it, n, eyes, strength, &t);
}
