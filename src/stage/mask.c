#include "stage/mask.h"

#include <stdlib.h>

struct tachy_masks *tachy_masks_of(const struct tachy_stage *st)
{
    const struct tachy_stage *masks = tachy_stage_before(st, tachy_stage_mask.name); // a detector's may have the same name
    bool found = masks && (masks->ops == &tachy_stage_mask || masks->ops == &tachy_stage_mask_cuda);
    return found ? tachy_stage_priv(masks) : NULL;
}

void tachy_masks_guide(struct tachy_masks *m)
{
    m->guided = true;
    m->st->flags |= TACHY_STAGE_READS;
}

int tachy_mask_open(struct tachy_stage *st, const struct tachy_mask_memory *memory)
{
    struct tachy_masks *m = tachy_stage_priv(st);
    m->st = st;
    m->infer = tachy_infer_of(st);
    m->memory = memory;
    const struct tachy_card *card = m->infer->net[TACHY_INFER_FULL].card;
    return strcmp(card->task, "segment")
               ? tachy_fail(st->task->log, TACHY_ERR_MISMATCH, "model %s: its card says task \"%s\", but %s needs \"segment\"",
                            card->name, card->task, st->task->name)
               : TACHY_OK;
}

int tachy_mask_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    const struct tachy_masks *m = tachy_stage_priv(st);
    const struct tachy_preprocess_params *in = &m->infer->net[TACHY_INFER_FULL].card->in;
    st->flags = tachy_infer_flags(m->infer) | (m->guided ? TACHY_STAGE_READS : 0);
    int w = in->width, h = in->height;
    if (st->task->parts)
        tachy_mask_joined_size(video->width, video->height, &w, &h);
    st->item_bytes = (size_t)st->task->eyes * (size_t)w * (size_t)h * (m->guided ? 2 : 1);
    if (m->coloured)
        st->item_bytes += (size_t)st->task->eyes * (size_t)w * (size_t)h * 3 * sizeof(int16_t);
    return TACHY_OK;
}

// ---- Room ----

static void free_eye(struct tachy_mask_eye *e)
{
    tachy_aligned_free(e->mask);
    tachy_aligned_free(e->guide);
    e->mask = e->guide = NULL;
}

int tachy_mask_room(const struct tachy_masks *m, struct tachy_mask_eye *e, int width, int height)
{
    if (e->mask && e->width == width && e->height == height)
        return TACHY_OK;
    size_t n = (size_t)width * (size_t)height;
    free_eye(e);
    e->mask = tachy_aligned_alloc(n);
    e->guide = m->guided ? tachy_aligned_alloc(n) : NULL;
    e->width = width;
    e->height = height;
    if (e->mask && (e->guide || !m->guided))
        return TACHY_OK;
    free_eye(e); // the next try must not take the half for the whole
    return TACHY_ERR_NOMEM;
}

static void item_close(void *item)
{
    for (int i = 0; i < TACHY_MAX_EYES; i++) {
        free_eye(&((struct tachy_mask_item *)item)->eye[i]);
        tachy_buf_free(&((struct tachy_mask_item *)item)->eye[i].colours);
    }
    tachy_buf_free(&((struct tachy_mask_item *)item)->part);
    tachy_buf_free(&((struct tachy_mask_item *)item)->part_colours);
}

// ---- From tensor to mask ----

struct tachy_mask_spec tachy_mask_spec_of(const struct tachy_infer *in, int size)
{
    const struct tachy_card *c = in->net[size].card;
    if (in->pretends)
        return (struct tachy_mask_spec){.meaning = TACHY_OUT_PROBABILITY};
    return (struct tachy_mask_spec){.meaning = c->meaning, .channel = c->channel, .layout = c->out_layout};
}

struct tachy_placement tachy_mask_at(const struct tachy_infer_net *net, const struct tachy_placement *p, int width, int height)
{
    double fx = (double)width / net->card->in.width, fy = (double)height / net->card->in.height;
    return (struct tachy_placement){p->x * fx, p->y * fy, p->w * fx, p->h * fy};
}

int tachy_mask_place(const struct tachy_masks *m, const struct tachy_piece *p, int size, const struct tachy_tensor *out,
                     const struct tachy_placement *at, struct tachy_placement *pl)
{
    const struct tachy_infer *in = m->infer;
    const struct tachy_infer_net *net = &in->net[size];
    const struct tachy_mask_spec spec = tachy_mask_spec_of(in, size);
    const tachy_task *t = m->st->task;
    struct tachy_mask_eye *e = tachy_mask_eye(m, p->item, p->region);
    int tw, th, mw, mh;
    int err = tachy_mask_extent(&spec, out, &tw, &th);
    if (err < 0)
        return tachy_fail(t->log, err, "model %s: its output is not the mask that the card describes", net->card->name);
    *pl = tachy_mask_at(net, at, tw, th);
    tachy_mask_size(tw, th, pl, in->rotation, &mw, &mh);
    err = m->memory->room(m, e, mw, mh);
    p->item->result.eyes = t->eyes;
    p->item->result.mask[p->region] = (struct tachy_mask){
        .data = e->mask, .width = mw, .height = mh, .stride = mw, .region = in->region[p->region]};
    return err;
}

// Checks the first mask: a value that the card's meaning does not allow shows that the card is wrong. Networks with
// interpolated outputs slightly exceed the range.
static void check_values(struct tachy_masks *m, const struct tachy_card *c, const struct tachy_mask_spec *spec,
                         const struct tachy_tensor *out)
{
    bool any = spec->meaning == TACHY_OUT_LOGIT || spec->meaning == TACHY_OUT_SOFTMAX;
    if (any || out->dtype != TACHY_F32 || atomic_exchange(&m->checked, true))
        return;
    const float *v = out->data;
    float low = 0, high = 0;
    for (int64_t i = 0, n = tachy_tensor_elements(out); i < n; i++) {
        low = TACHY_MIN(low, v[i]);
        high = TACHY_MAX(high, v[i]);
    }
    if (low < -0.2f || high > 1.2f)
        tachy_msg(m->st->task->log, TACHY_LOG_WARN, "model %s: its output has values from %g to %g, but its card's meaning is from "
                  "0 to 1; of any number %s makes a mask", c->name, (double)low, (double)high,
                  spec->meaning == TACHY_OUT_PROBABILITIES ? "softmax" : "logit");
}

// An empty mask of the whole frame, without colours.
static int empty_mask(const struct tachy_masks *m, struct tachy_item *item, int w, int h)
{
    struct tachy_mask_eye *e = tachy_mask_eye(m, item, 0);
    const tachy_frame *f = tachy_item_head(item);
    int err = m->memory->room(m, e, w, h);
    if (err == TACHY_OK)
        memset(e->mask, 0, (size_t)w * (size_t)h);
    e->given.v = NULL;
    item->result.eyes = 1;
    item->result.mask[0] = (struct tachy_mask){e->mask, w, h, w, {0, 0, f->width, f->height}};
    return err;
}

static int make_guide(const struct tachy_masks *m, struct tachy_item *item, int region)
{
    const struct tachy_mask_eye *e = tachy_mask_eye(m, item, region);
    return e->guide ? tachy_luma_guide(item->in, &item->result.mask[region].region, e->guide, e->width, e->width, e->height)
                    : TACHY_OK;
}

// Nobody is in the frame: the mask has the size that one of the whole frame would have.
static int no_mask(const struct tachy_masks *m, struct tachy_item *item)
{
    const struct tachy_preprocess_params *in = &m->infer->net[TACHY_INFER_FULL].card->in;
    int err = empty_mask(m, item, in->width, in->height);
    return err < 0 ? err : make_guide(m, item, 0);
}

static int join_part(struct tachy_masks *m, const struct tachy_piece *p)
{
    const struct tachy_infer *in = m->infer;
    const tachy_frame *f = tachy_item_head(p->item);
    struct tachy_mask_item *own = tachy_stage_item(m->st, p->item);
    struct tachy_mask part = {.region = *tachy_infer_region(in, p)};
    struct tachy_infer_output o;
    int tw, th;
    tachy_infer_output(in, p, &o);
    const struct tachy_tensor *out = &o.out[in->net[o.size].output];
    const struct tachy_mask_spec spec = tachy_mask_spec_of(in, o.size);
    check_values(m, in->net[o.size].card, &spec, out);
    int err = tachy_mask_extent(&spec, out, &tw, &th);
    if (err < 0)
        return err;
    const struct tachy_placement pl = tachy_mask_at(&in->net[o.size], &o.at, tw, th);
    tachy_mask_size(tw, th, &pl, in->rotation, &part.width, &part.height);
    part.stride = part.width;
    err = tachy_buf_need(&own->part, (size_t)part.width * (size_t)part.height) ? TACHY_OK : TACHY_ERR_NOMEM;
    part.data = own->part.p;
    if (err == TACHY_OK && p->region == 0) {
        int w, h;
        tachy_mask_joined_size(f->width, f->height, &w, &h);
        err = empty_mask(m, p->item, w, h);
    }
    if (err == TACHY_OK)
        err = tachy_mask_from_tensor(&spec, out, &pl, in->rotation, in->flip, own->part.p, part.stride);
    struct tachy_mask_eye *e = own->eye;
    if (err == TACHY_OK)
        tachy_mask_join(e->mask, e->width, e->height, f->width, f->height, &part);
    if (err == TACHY_OK && p->region == p->item->nb_parts - 1)
        err = make_guide(m, p->item, 0);
    return err < 0 ? err : tachy_mask_join_colours(m, p, &o);
}

static int make_mask(struct tachy_masks *m, const struct tachy_piece *p)
{
    const struct tachy_infer *in = m->infer;
    struct tachy_mask_eye *e = tachy_mask_eye(m, p->item, p->region);
    struct tachy_infer_output o;
    struct tachy_placement pl;
    tachy_infer_output(in, p, &o);
    const struct tachy_tensor *out = &o.out[in->net[o.size].output];
    const struct tachy_mask_spec spec = tachy_mask_spec_of(in, o.size);
    check_values(m, in->net[o.size].card, &spec, out);
    int err = tachy_mask_place(m, p, o.size, out, &o.at, &pl);
    if (err == TACHY_OK)
        err = tachy_mask_from_tensor(&spec, out, &pl, in->rotation, in->flip, e->mask, e->width);
    if (err == TACHY_OK)
        err = make_guide(m, p->item, p->region);
    return err < 0 ? err : tachy_mask_colours(m, p, &o);
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct tachy_masks *m = tachy_stage_priv(st);
    for (int i = 0; i < n; i++)
        err[i] = pieces[i].item->nobody     ? no_mask(m, pieces[i].item)
                 : pieces[i].item->nb_parts ? join_part(m, &pieces[i])
                                            : make_mask(m, &pieces[i]);
}

// ---- Results that later frames take over: masks and guides ----

// Room in an item for a mask like `like`, which nobody copies to any more.
static int room_for(const struct tachy_masks *m, struct tachy_item *item, int region, const struct tachy_mask *like)
{
    struct tachy_mask_eye *e = tachy_mask_eye(m, item, region);
    int err = m->memory->room(m, e, like->width, like->height);
    if (err == TACHY_OK && m->memory->sync)
        err = m->memory->sync(e);
    item->result.mask[region] = *like;
    item->result.mask[region].data = e->mask;
    return err;
}

static void touched(const struct tachy_masks *m, struct tachy_mask_eye *e)
{
    if (m->memory->touched)
        m->memory->touched(e);
}

int tachy_mask_copy(struct tachy_stage *st, struct tachy_item *to, const struct tachy_item *from, int region)
{
    const struct tachy_masks *m = tachy_stage_priv(st);
    struct tachy_mask_eye *f = tachy_mask_eye(m, from, region), *t = tachy_mask_eye(m, to, region);
    int err = !f->mask ? TACHY_ERR_STATE : m->memory->sync ? m->memory->sync(f) : TACHY_OK;
    if (err == TACHY_OK)
        err = room_for(m, to, region, &from->result.mask[region]);
    if (err < 0)
        return err;
    size_t n = (size_t)f->width * (size_t)f->height;
    memcpy(t->mask, f->mask, n);
    touched(m, t);
    if (f->guide)
        memcpy(t->guide, f->guide, n);
    to->result.eyes = st->task->eyes;
    return tachy_mask_colours_copy(t, f);
}

// Before each region's mask and guide; width 0: nothing is kept of it.
struct saved_eye {
    int32_t width, height, guide;
    struct tachy_rect region;
};

int tachy_mask_copy_save(struct tachy_stage *st, const struct tachy_item *from, void **data, size_t *size)
{
    const struct tachy_masks *m = tachy_stage_priv(st);
    *size = 0;
    for (int i = 0; i < st->task->eyes; i++) {
        const struct tachy_mask_eye *e = tachy_mask_eye(m, from, i);
        size_t n = e->mask ? (size_t)e->width * (size_t)e->height : 0;
        *size += sizeof(struct saved_eye) + (e->guide ? 2 * n : n) + tachy_mask_colours_size(e);
    }
    char *to = *data = calloc(1, *size);
    if (!to)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < st->task->eyes; i++) {
        const struct tachy_mask_eye *e = tachy_mask_eye(m, from, i);
        struct saved_eye head = {0};
        if (e->mask)
            head = (struct saved_eye){e->width, e->height, e->guide != NULL, from->result.mask[i].region};
        size_t n = (size_t)head.width * (size_t)head.height;
        memcpy(to, &head, sizeof(head));
        to += sizeof(head);
        if (n)
            memcpy(to, e->mask, n);
        to += n;
        if (head.guide)
            memcpy(to, e->guide, n);
        to += head.guide ? n : 0;
        tachy_mask_colours_save(e, to);
        to += tachy_mask_colours_size(e);
    }
    return TACHY_OK;
}

static int load_mask(const struct tachy_masks *m, struct tachy_item *to, int region, const char **from, size_t *left)
{
    struct saved_eye head;
    if (*left < sizeof(head))
        return TACHY_ERR_FORMAT;
    memcpy(&head, *from, sizeof(head));
    *from += sizeof(head);
    *left -= sizeof(head);
    if (!head.width)
        return TACHY_OK;
    if (head.width < 0 || head.height <= 0 || !head.guide == m->guided)
        return TACHY_ERR_FORMAT;
    size_t n = (size_t)head.width * (size_t)head.height, all = head.guide ? 2 * n : n;
    struct tachy_mask as = {
        .width = head.width, .height = head.height, .stride = head.width, .region = head.region};
    int err = *left < all ? TACHY_ERR_FORMAT : room_for(m, to, region, &as);
    if (err < 0)
        return err;
    struct tachy_mask_eye *e = tachy_mask_eye(m, to, region);
    memcpy(e->mask, *from, n);
    touched(m, e);
    if (head.guide)
        memcpy(e->guide, *from + n, n);
    *from += all;
    *left -= all;
    return TACHY_OK;
}

static int load_eye(const struct tachy_masks *m, struct tachy_item *to, int region, const char **from, size_t *left)
{
    size_t used = 0;
    int err = load_mask(m, to, region, from, left);
    if (err == TACHY_OK)
        err = tachy_mask_colours_load(tachy_mask_eye(m, to, region), *from, *left, &used);
    *from += used;
    *left -= TACHY_MIN(used, *left);
    return err;
}

int tachy_mask_copy_load(struct tachy_stage *st, struct tachy_item *to, const void *data, size_t size)
{
    const char *from = data;
    int err = TACHY_OK;
    for (int i = 0; i < st->task->eyes && err == TACHY_OK; i++)
        err = load_eye(tachy_stage_priv(st), to, i, &from, &size);
    return err == TACHY_OK && size ? TACHY_ERR_FORMAT : err;
}

static int open(struct tachy_stage *st, const tachy_settings *set)
{
    static const struct tachy_mask_memory host = {.room = tachy_mask_room};
    return tachy_mask_open(st, &host);
}

const struct tachy_stage_ops tachy_stage_mask = {
    .name = "postprocess",
    .flags = TACHY_STAGE_REGIONS,
    .priv_size = sizeof(struct tachy_masks),
    .item_size = sizeof(struct tachy_mask_item),
    .open = open,
    .start = tachy_mask_start,
    .run = run,
    .item_close = item_close,
    .copy = tachy_mask_copy,
    .copy_save = tachy_mask_copy_save,
    .copy_load = tachy_mask_copy_load,
};
