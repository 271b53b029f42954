#include "postprocess/composite_cuda_priv.h"

#include <stdlib.h>

// The kernels are of src/cuda; here frames become their parameters, and the tables that they share
// with the CPU's version (struct tachy_stretch) lie on the GPU.

int tachy_composite_cuda_open(tachy_composite_cuda **out, const struct tachy_composite_cuda_params *p)
{
    *out = NULL;
    const struct tachy_log *log = p->composite.log;
    int err = tachy_composite_check(&p->composite);
    if (err < 0)
        return err;
    if (p->composite.mode == TACHY_MODE_JSON)
        return tachy_fail(log, TACHY_ERR_INVAL, "composite: mode json makes no picture");
    if (p->composite.mode == TACHY_MODE_MASK && (p->natural || p->composite.grow != 0) &&
        tachy_composite_mask_format(&p->composite) != TACHY_PIX_GRAY8)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "composite: the GPU's version moves the edge of masks, or solves for it, as grey of 8 bits only");
    const struct tachy_cuda_kernels *k = tachy_cuda_kernels();
    if (!k)
        return tachy_fail(log, TACHY_ERR_UNAVAILABLE,
                          "composite: this build has no CUDA kernels; configure it with -Dcuda=enabled");
    struct tachy_composite_cuda *c = calloc(1, sizeof(*c));
    if (!c)
        return TACHY_ERR_NOMEM;
    c->params = p->composite;
    c->params.isa = NULL;
    c->params.blur = p->composite.blur > 0 ? p->composite.blur : 0.02f;
    c->log = log;
    c->memory = p->memory;
    c->mem = TACHY_DEF(p->mem, TACHY_DEVICE);
    c->cu = p->cu;
    c->kernels = k;
    c->natural = p->natural;
    c->curve = tachy_curve_make(p->composite.threshold, p->composite.feather);
    *out = c;
    return TACHY_OK;
}

void tachy_composite_cuda_close(tachy_composite_cuda **pc)
{
    struct tachy_composite_cuda *c = *pc;
    *pc = NULL;
    if (!c)
        return;
    for (int i = 0; i < TABLES; i++)
        tachy_memory_give(c->memory, &c->tables[i].block);
    tachy_memory_give(c->memory, &c->scratch);
    tachy_memory_give(c->memory, &c->luma);
    tachy_memory_give(c->memory, &c->turn);
    tachy_memory_give(c->memory, &c->cells);
    tachy_memory_give(c->memory, &c->front);
    tachy_buf_free(&c->host);
    free(c);
}

int tachy_composite_cuda_need(struct tachy_composite_cuda *c, struct tachy_block *b, size_t size)
{
    struct tachy_gpu_scratch s = {c->memory, c->mem, c->cu, c->stream, c->log};
    return tachy_gpu_scratch_need(&s, b, size);
}

// Tables

static uint32_t entry(int index, int frac) { return (uint32_t)index << 15 | (uint32_t)frac; }

// The stretch's outputs from column `first` on; to their left and right the nearest one's.
static void fill_across(uint32_t *e, int n, const struct tachy_stretch *t, int first)
{
    for (int i = 0; i < n; i++) {
        int k = TACHY_CLAMP(i - first, 0, t->n - 1);
        e[i] = entry(t->index[k], t->frac[k]);
    }
}

// Into c->host; *count: its entries.
static int make_table(struct tachy_composite_cuda *c, const struct key *key, const struct origin *o, int *count)
{
    bool across = key->kind == MASK_ACROSS || key->kind == BLUR_ACROSS;
    int n = *count = across ? TACHY_ALIGN(o->width, COLUMNS) : o->height, frac;
    if (!tachy_buf_need(&c->host, (size_t)n * sizeof(uint32_t)))
        return TACHY_ERR_NOMEM;
    uint32_t *e = c->host.p;
    if (across) {
        struct tachy_stretch t = {0};
        int err = o->eye ? tachy_alpha_across(&t, o->eye) : tachy_blur_across(o->blur, key->chroma, &t);
        if (err == TACHY_OK)
            fill_across(e, n, &t, o->eye ? o->eye->x0 : 0);
        tachy_stretch_free(&t);
        return err;
    }
    for (int y = 0; y < n; y++) {
        int row = o->eye    ? tachy_alpha_down(o->eye, TACHY_CLAMP(y, o->eye->y0, o->eye->y1 - 1), &frac)
                  : TACHY_MIN(tachy_blur_down(o->blur, key->chroma, y, &frac), o->blur->sh - 1);
        e[y] = entry(row, frac);
    }
    return TACHY_OK;
}

// The table's address; creates it if needed. Replaces the least recently used table that no frame of this launch uses.
static int table(struct tachy_composite_cuda *c, struct key key, const struct origin *o, cuda_address *at)
{
    struct table *old = &c->tables[0];
    for (int i = 0; i < TABLES; i++) {
        struct table *t = &c->tables[i];
        if (t->used && !memcmp(&t->key, &key, sizeof(key))) {
            t->used = c->launches;
            *at = tachy_cu_address(t->block.data);
            return TACHY_OK;
        }
        old = t->used < old->used ? t : old;
    }
    int n, err = make_table(c, &key, o, &n);
    size_t size = (size_t)n * sizeof(uint32_t);
    old->used = 0;
    if (err < 0 || (err = tachy_composite_cuda_need(c, &old->block, size)) < 0)
        return err;
    *at = tachy_cu_address(old->block.data);
    err = tachy_cu_check(c->cu, c->cu->copy_to_device_async(*at, c->host.p, size, c->stream), c->log,
                         "copying a table to the GPU");
    old->key = key;
    old->used = err < 0 ? 0 : c->launches;
    return err;
}

// Formats

// Layout of everything but alpha.
static bool layout_of(const struct tachy_pix_desc *d, enum tachy_cuda_chroma *c)
{
    if (!d || d->rgb || (d->planes > 1 && d->chroma_shift_x != d->chroma_shift_y))
        return false;
    *c = d->planes == 1      ? TACHY_CUDA_CHROMA_NONE
         : d->planes == 2    ? TACHY_CUDA_CHROMA_PAIRS
         : d->chroma_shift_x ? TACHY_CUDA_CHROMA_HALF
                             : TACHY_CUDA_CHROMA_FULL;
    return true;
}

static bool chroma_of(const struct tachy_pix_desc *d, enum tachy_cuda_chroma *c) { return layout_of(d, c) && !d->alpha; }

// A colour's samples of a plane as they fill a word.
static uint32_t fill_word(enum tachy_pix f, int plane, const int codes[4])
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f);
    uint32_t w = 0;
    for (int i = 0; i < 4 / d->bytes; i++) {
        int v = codes[tachy_component_at(f, plane, i % d->components[plane])];
        w |= (uint32_t)(v << d->shift) << (8 * d->bytes * i);
    }
    return w;
}

static void fills(const struct tachy_composite_cuda *c, const tachy_frame *in, enum tachy_pix to,
                  struct tachy_cuda_composite *k)
{
    int codes[2][4];
    bool mask = c->params.mode == TACHY_MODE_MASK;
    tachy_composite_fills(&c->params, in, codes);
    for (int p = 0; p < tachy_pix_desc(to)->planes; p++) {
        k->fill[0][p] = fill_word(to, p, codes[0]);
        k->fill[1][p] = fill_word(to, p, codes[mask && p == 0]); // a mask has no colour anywhere
    }
}

// A batch: neighbours that one launch takes.

static bool same_batch(const struct tachy_composite_cuda *c, const item *a, const item *b)
{
    bool same = a->in->format == b->in->format && a->in->width == b->in->width && a->in->height == b->in->height &&
                !memcmp(&a->in->color, &b->in->color, sizeof(a->in->color)) && !a->refine == !b->refine;
    for (int p = 0; p < 4; p++) {
        same = same && a->in->stride[p] == b->in->stride[p] && a->stride[p] == b->stride[p];
        if (same && c->params.mode == TACHY_MODE_REPLACE)
            same = a->background && b->background && a->background->stride[p] == b->background->stride[p];
    }
    return same;
}

bool tachy_composite_cuda_takes(const struct tachy_composite_params *p, enum tachy_pix format)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(format);
    enum tachy_cuda_chroma chroma;
    return d && (p->mode != TACHY_MODE_MASK || chroma_of(tachy_pix_desc(tachy_composite_mask_format(p)), &chroma));
}

static int check_item(const struct tachy_composite_cuda *c, const item *it)
{
    const tachy_frame *f = it->in, *b = it->background;
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    if (!tachy_composite_cuda_takes(&c->params, f->format))
        return tachy_fail(c->log, TACHY_ERR_UNSUPPORTED,
                          "composite: the GPU's version does not take %s", d ? d->name : "an unknown format");
    // A mask is made of no sample of the frame, which may be a head without planes.
    bool reads = c->params.mode != TACHY_MODE_MASK || it->refine || c->natural;
    if ((reads && f->mem != TACHY_DEVICE) || (c->params.mode == TACHY_MODE_REPLACE && b && b->mem != TACHY_DEVICE))
        return tachy_fail(c->log, TACHY_ERR_UNSUPPORTED, "composite: the GPU's version takes frames in its memory");
    if (c->params.mode == TACHY_MODE_REPLACE &&
        (!b || b->format != f->format || b->width != f->width || b->height != f->height))
        return tachy_fail(c->log, TACHY_ERR_INVAL,
                          "composite: the background must have the format and size of the frame");
    return TACHY_OK;
}

static int set_eye(struct tachy_composite_cuda *c, const item *it, int i, struct tachy_cuda_composite_frame *k)
{
    struct tachy_alpha_eye e = {0};
    const tachy_frame *f = it->in;
    if (!tachy_alpha_eye_set(&e, &it->result->mask[i], it->refine ? &it->refine[i] : NULL))
        return TACHY_ERR_INVAL;
    if (!tachy_alpha_clip(&e, f->width, f->height))
        return TACHY_OK;
    const struct tachy_rect *g = &e.mask.region;
    struct tachy_cuda_eye *o = &k->eye[k->eyes];
    *o = (struct tachy_cuda_eye){.mask = tachy_cu_address(e.mask.data),
                                 .stride = e.mask.stride,
                                 .width = e.mask.width,
                                 .height = e.mask.height,
                                 .x0 = e.x0,
                                 .x1 = e.x1 == f->width ? TACHY_ALIGN(f->width, COLUMNS) : e.x1,
                                 .y0 = e.y0,
                                 .y1 = e.y1,
                                 .across_width = g->w};
    if (e.refine)
        o->slope = tachy_cu_address(e.refine->a), o->offset = tachy_cu_address(e.refine->b);
    struct origin from = {.eye = &e, .width = f->width, .height = f->height};
    int err = table(c, (struct key){MASK_ACROSS, 0, e.mask.width, g->x, g->w, f->width}, &from, &o->across);
    if (err == TACHY_OK)
        err = table(c, (struct key){MASK_DOWN, 0, e.mask.height, g->y, g->h, f->height}, &from, &o->down);
    k->eyes += err == TACHY_OK;
    return err;
}

// Sets what every launch of the composite kernel needs; the caller sets its layers.
static int begin(struct tachy_composite_cuda *c, const item *it, int n, enum tachy_pix to,
                 struct tachy_cuda_composite *k)
{
    const tachy_frame *f = it[0].in;
    const struct tachy_pix_desc *d = tachy_pix_desc(to), *from = tachy_pix_desc(f->format);
    struct tachy_composite_cuda_luma luma = {.bytes = from->bytes, .shift = from->shift, .stride = f->stride[0]};
    for (int i = 0; i < n; i++)
        luma.at[i] = tachy_cu_address(it[i].in->data[0]);
    int err = from->rgb && it[0].refine ? tachy_composite_cuda_luma(c, it, n, &luma) : TACHY_OK;
    if (err < 0)
        return err;
    *k = (struct tachy_cuda_composite){.count = n,
                                       .width = f->width,
                                       .height = f->height,
                                       .bytes = d->bytes,
                                       .shift = d->shift,
                                       .luma_bytes = luma.bytes,
                                       .luma_shift = luma.shift,
                                       .strength = 255,
                                       .curve = c->curve,
                                       .refined = it[0].refine != NULL};
    chroma_of(d, &k->chroma);
    c->launches++;
    for (int p = 0; p < 4; p++) {
        k->in_stride[p] = f->stride[p];
        k->out_stride[p] = it[0].stride[p];
    }
    k->in_stride[0] = luma.stride;
    for (int i = 0; i < n; i++) {
        struct tachy_cuda_composite_frame *o = &k->frame[i];
        o->counted = it[i].counted;
        for (int p = 0; p < 4; p++) {
            o->in[p] = tachy_cu_address(it[i].in->data[p]);
            o->out[p] = tachy_cu_address(it[i].data[p]);
        }
        o->in[0] = luma.at[i];
        for (int e = 0; e < TACHY_CLAMP(it[i].result->eyes, 0, TACHY_MAX_EYES); e++) {
            err = set_eye(c, &it[i], e, o);
            if (err < 0)
                return err;
        }
    }
    return TACHY_OK;
}

int tachy_composite_cuda_launched(struct tachy_composite_cuda *c, int status)
{
    return tachy_cu_check(c->cu, status, c->log, "starting the composite's kernel");
}

static int run_mask(struct tachy_composite_cuda *c, const item *it, int n)
{
    struct tachy_cuda_composite k;
    cuda_address at[BATCH];
    for (int i = 0; i < n; i++)
        at[i] = tachy_cu_address(it[i].data[0]);
    if (tachy_composite_cuda_shapes(c))
        return tachy_composite_cuda_alpha(c, it, n, 255, at, it[0].stride[0]);
    enum tachy_pix to = tachy_composite_mask_format(&c->params);
    int err = begin(c, it, n, to, &k);
    if (err < 0)
        return err;
    fills(c, it[0].in, to, &k);
    return tachy_composite_cuda_launched(c, c->kernels->composite(&k, c->stream));
}

int tachy_composite_cuda_flat(struct tachy_composite_cuda *c, const item *it, int n, int strength,
                              const cuda_address at[], int64_t stride)
{
    struct tachy_cuda_composite k;
    int err = begin(c, it, n, TACHY_PIX_GRAY8, &k);
    if (err < 0)
        return err;
    k.fill[0][0] = 0xffffffff;
    k.strength = strength;
    k.out_stride[0] = stride;
    for (int i = 0; i < n; i++)
        k.frame[i].out[0] = at[i];
    return tachy_composite_cuda_launched(c, c->kernels->composite(&k, c->stream));
}

int tachy_composite_cuda_alpha(struct tachy_composite_cuda *c, const item *it, int n, int strength,
                               const cuda_address at[], int64_t stride)
{
    return (tachy_composite_cuda_shapes(c) ? tachy_composite_cuda_shaped : tachy_composite_cuda_flat)(c, it, n, strength, at,
                                                                                                    stride);
}

// Blur

struct tachy_composite_cuda_blur tachy_composite_cuda_blur_of(const struct tachy_composite_cuda *c,
                                                              const tachy_frame *f)
{
    struct tachy_composite_cuda_blur s = {.alpha = TACHY_ALIGN((size_t)f->width, 16u) * (size_t)f->height};
    tachy_blur_measure(&s.b, f, c->params.blur);
    s.stride = TACHY_ALIGN(s.b.sw + 1, 8);
    size_t cells = (size_t)s.b.sw * (size_t)s.b.sh;
    s.alpha = TACHY_ALIGN(s.alpha, 64u);
    s.cells = TACHY_ALIGN(cells * 16, 64u);
    s.plane = TACHY_ALIGN((size_t)s.stride * (size_t)s.b.sh * (size_t)s.b.comps * 2, 64u);
    s.all = s.alpha + 2 * s.cells + s.plane;
    return s;
}

int tachy_composite_cuda_blur_tables(struct tachy_composite_cuda *c, const struct tachy_composite_cuda_blur *s,
                                     struct tachy_cuda_composite *k)
{
    const struct tachy_blur *b = &s->b;
    struct origin o = {.blur = b, .width = b->w, .height = b->h};
    int err = TACHY_OK;
    for (int i = 0; i < 2 && err == TACHY_OK; i++) {
        int x = i ? b->d->chroma_shift_x : 0, y = i ? b->d->chroma_shift_y : 0;
        err = table(c, (struct key){BLUR_ACROSS, i, b->sw, b->log2, x, b->w}, &o, &k->blur_across[i]);
        if (err == TACHY_OK)
            err = table(c, (struct key){BLUR_DOWN, i, b->sh, b->log2, y, b->h}, &o, &k->blur_down[i]);
    }
    k->other = TACHY_CUDA_LAYER_BLURRED;
    k->blur_stride = s->stride;
    k->blur_h = b->sh;
    return err;
}

// Alpha, then cells, then the composite of both; the scratch of a frame lies in this order too.
static int run_blur(struct tachy_composite_cuda *c, const item *it, int n)
{
    const tachy_frame *f = it[0].in;
    struct tachy_composite_cuda_blur s = tachy_composite_cuda_blur_of(c, f);
    int err = tachy_composite_cuda_need(c, &c->scratch, s.all * (size_t)n);
    if (err < 0)
        return err;
    cuda_address alpha[BATCH];
    for (int i = 0; i < n; i++)
        alpha[i] = tachy_cu_address(c->scratch.data) + (cuda_address)i * s.all;
    int64_t stride = (int64_t)TACHY_ALIGN((size_t)f->width, 16u);
    if ((err = tachy_composite_cuda_alpha(c, it, n, 255, alpha, stride)) < 0)
        return err;
    struct tachy_cuda_composite k;
    if ((err = begin(c, it, n, f->format, &k)) < 0 || (err = tachy_composite_cuda_blur_tables(c, &s, &k)) < 0)
        return err;
    k.own = 1;
    struct tachy_cuda_blur b = {.alpha_stride = stride, .count = n, .width = f->width, .height = f->height,
                                .bytes = k.bytes, .shift = k.shift, .bits = s.b.d->bits, .chroma = k.chroma,
                                .log2 = s.b.log2, .radius = s.b.radius, .sw = s.b.sw, .sh = s.b.sh,
                                .stride = s.stride};
    memcpy(b.in_stride, k.in_stride, sizeof(b.in_stride));
    for (int i = 0; i < n; i++) {
        struct tachy_cuda_blur_frame *o = &b.frame[i];
        memcpy(o->in, k.frame[i].in, sizeof(o->in));
        o->alpha = alpha[i];
        o->cells = alpha[i] + s.alpha;
        o->spare = o->cells + s.cells;
        k.frame[i].blurred = o->plane = o->spare + s.cells;
        k.frame[i].counted = 0; // with alpha already
    }
    if ((err = tachy_composite_cuda_launched(c, c->kernels->blur(&b, c->stream))) < 0)
        return err;
    return tachy_composite_cuda_launched(c, c->kernels->composite(&k, c->stream));
}

// Mode alpha

struct tachy_cuda_range tachy_composite_cuda_range(const struct tachy_pix_desc *d, bool full, bool chroma)
{
    struct tachy_range r = tachy_alpha_range(d, full, chroma);
    return (struct tachy_cuda_range){r.scale, r.offset, r.max};
}

static void alpha_params(const struct tachy_composite_cuda *c, const tachy_frame *f, struct tachy_cuda_alpha_out *k)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format), *t = tachy_pix_desc(c->params.alpha_format);
    struct tachy_color color = tachy_color_resolve(f->color, f->format, f->width, f->height);
    struct tachy_yuv_to_rgb m = tachy_yuv_to_rgb(color.matrix);
    bool full = color.range == 2;
    k->to = t->rgb ? TACHY_CUDA_RGBA : t->bytes == 2 ? TACHY_CUDA_YUVA444P10 : TACHY_CUDA_YUVA420P;
    k->bytes = d->bytes;
    k->shift = d->shift;
    layout_of(d, &k->chroma);
    k->chroma_loc = color.chroma_loc;
    for (int i = 0; i < 2; i++) {
        k->in[i] = tachy_composite_cuda_range(d, full, i);
        k->out[i] = tachy_composite_cuda_range(t, full, i);
    }
    k->rv = m.rv, k->gu = m.gu, k->gv = m.gv, k->bu = m.bu;
}

static int run_alpha(struct tachy_composite_cuda *c, const item *it, int n)
{
    const tachy_frame *f = it[0].in;
    struct tachy_cuda_alpha_out k = {.count = n, .width = f->width, .height = f->height};
    alpha_params(c, f, &k);
    size_t stride = TACHY_ALIGN((size_t)f->width, 16u);
    bool own_plane = k.to == TACHY_CUDA_YUVA420P; // its plane 3 is the unmodified alpha
    int err = own_plane ? TACHY_OK : tachy_composite_cuda_need(c, &c->scratch, stride * (size_t)f->height * (size_t)n);
    struct tachy_composite_cuda_front front;
    if (err < 0 || (err = tachy_composite_cuda_front_place(c, it, n, &front)) < 0)
        return err;
    cuda_address alpha[BATCH];
    for (int i = 0; i < n; i++) {
        alpha[i] = own_plane ? tachy_cu_address(it[i].data[3])
                             : tachy_cu_address(c->scratch.data) + (cuda_address)i * stride * (cuda_address)f->height;
        k.frame[i].alpha = alpha[i];
        for (int p = 0; p < 4; p++) {
            k.frame[i].out[p] = tachy_cu_address(it[i].data[p]);
            if (p < 3)
                k.frame[i].in[p] = tachy_cu_address(front.frame[i].data[p]);
        }
    }
    for (int p = 0; p < 4; p++) {
        k.out_stride[p] = it[0].stride[p];
        if (p < 3)
            k.in_stride[p] = front.frame[0].stride[p];
    }
    k.alpha_stride = own_plane ? it[0].stride[3] : (int64_t)stride;
    if ((err = tachy_composite_cuda_alpha(c, it, n, 255, alpha, k.alpha_stride)) < 0 ||
        (err = tachy_composite_cuda_front(c, it, n, &front, alpha, k.alpha_stride, false)) < 0)
        return err;
    return tachy_composite_cuda_launched(c, c->kernels->alpha_out(&k, c->stream));
}

// The modes that blend the frame with a colour or a picture.
static int run_blend(struct tachy_composite_cuda *c, const item *it, int n)
{
    struct tachy_cuda_composite k;
    const tachy_frame *f = it[0].in;
    int err = begin(c, it, n, f->format, &k);
    if (err < 0)
        return err;
    fills(c, f, f->format, &k);
    k.own = 1;
    k.over = c->params.mode == TACHY_MODE_OVERLAY;
    k.strength = k.over ? (int)(c->params.color & 255) : 255;
    k.beside = c->params.mode == TACHY_MODE_SIDE_BY_SIDE;
    if (c->params.mode == TACHY_MODE_REPLACE) {
        k.other = TACHY_CUDA_LAYER_PICTURE;
        for (int p = 0; p < 4; p++) {
            k.other_stride[p] = it[0].background->stride[p];
            for (int i = 0; i < n; i++)
                k.frame[i].other[p] = tachy_cu_address(it[i].background->data[p]);
        }
    }
    return tachy_composite_cuda_launched(c, c->kernels->composite(&k, c->stream));
}

int tachy_composite_cuda_run(tachy_composite_cuda *c, const struct tachy_composite_cuda_item items[], int n,
                             cuda_stream stream)
{
    bool shapes = tachy_composite_cuda_shapes(c) || tachy_composite_cuda_fronts(c);
    c->stream = stream;
    for (int i = 0, last; i < n; i = last) {
        int err = check_item(c, &items[i]);
        if (err < 0)
            return err;
        for (last = i + 1; last < n && last - i < BATCH && same_batch(c, &items[i], &items[last]);)
            last++;
        enum tachy_cuda_chroma chroma;
        const struct tachy_pix_desc *d = tachy_pix_desc(items[i].in->format);
        switch (c->params.mode) {
        case TACHY_MODE_MASK:
            err = run_mask(c, &items[i], last - i);
            break;
        case TACHY_MODE_BLUR:
            err = (chroma_of(d, &chroma) && !shapes ? run_blur : tachy_composite_cuda_any)(c, &items[i], last - i);
            break;
        case TACHY_MODE_ALPHA:
            err = (layout_of(d, &chroma) ? run_alpha : tachy_composite_cuda_any_alpha)(c, &items[i], last - i);
            break;
        default:
            err = (chroma_of(d, &chroma) && !shapes ? run_blend : tachy_composite_cuda_any)(c, &items[i], last - i);
            break;
        }
        if (err < 0)
            return err;
    }
    return TACHY_OK;
}
