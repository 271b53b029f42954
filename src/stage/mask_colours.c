#include "preprocess/tone.h"
#include "stage/mask.h"

// The person's own colours from a network, beside its mask, for cards with `output.foreground`.

bool tachy_masks_colour(struct tachy_masks *m)
{
    const char *name = m->infer->net[TACHY_INFER_FULL].card->foreground;
    return m->coloured = *name && !m->infer->pretends;
}

static int room(struct tachy_buf *b, struct tachy_given *g, int width, int height, struct tachy_rect region)
{
    size_t bytes = 3 * sizeof(int16_t) * (size_t)width * (size_t)height;
    g->v = NULL;
    if (!tachy_buf_need(b, bytes))
        return TACHY_ERR_NOMEM;
    *g = (struct tachy_given){b->p, width, height, region};
    return TACHY_OK;
}

// For PQ and HLG the network saw a tone-mapped picture, whose colours are not the frame's.
static bool gives(const struct tachy_masks *m, const struct tachy_infer_output *o, const tachy_frame *f)
{
    return m->coloured && m->infer->net[o->size].foreground >= 0 &&
           !tachy_tone_needed(tachy_color_resolve(f->color, f->format, f->width, f->height));
}

static int take(const struct tachy_masks *m, const struct tachy_infer_output *o, struct tachy_rect region, struct tachy_buf *b,
                struct tachy_given *g)
{
    const struct tachy_infer *in = m->infer;
    const struct tachy_infer_net *net = &in->net[o->size];
    int w, h;
    tachy_given_size(net->card, &o->at, in->rotation, &w, &h);
    int err = room(b, g, w, h, region);
    return err < 0 ? err : tachy_given_from_tensors(net->card, &o->out[net->foreground], &o->picture, &o->at, in->rotation, in->flip,
                                                    b->p);
}

int tachy_mask_colours(const struct tachy_masks *m, const struct tachy_piece *p, const struct tachy_infer_output *o)
{
    struct tachy_mask_eye *e = tachy_mask_eye(m, p->item, p->region);
    e->given.v = NULL;
    return gives(m, o, tachy_item_head(p->item)) ? take(m, o, m->infer->region[p->region], &e->colours, &e->given) : TACHY_OK;
}

int tachy_mask_join_colours(const struct tachy_masks *m, const struct tachy_piece *p, const struct tachy_infer_output *o)
{
    const tachy_frame *f = tachy_item_head(p->item);
    struct tachy_mask_item *own = tachy_stage_item(m->st, p->item);
    struct tachy_mask_eye *e = own->eye;
    struct tachy_given part;
    if (!gives(m, o, f))
        return TACHY_OK;
    int err = take(m, o, *tachy_infer_region(m->infer, p), &own->part_colours, &part);
    if (err == TACHY_OK && !e->given.v) {
        err = room(&e->colours, &e->given, e->width, e->height, (struct tachy_rect){0, 0, f->width, f->height});
        if (err == TACHY_OK) // beyond the parts the picture's colours stay
            memset(e->colours.p, 0, 3 * sizeof(int16_t) * (size_t)e->width * (size_t)e->height);
    }
    if (err == TACHY_OK)
        tachy_given_join(e->colours.p, e->width, e->height, f->width, f->height, &part);
    return err;
}

// ---- Results that later frames take over ----

size_t tachy_mask_colours_size(const struct tachy_mask_eye *e)
{
    size_t n = e->given.v ? (size_t)e->given.width * (size_t)e->given.height : 0;
    return sizeof(struct tachy_given) + 3 * sizeof(int16_t) * n;
}

void tachy_mask_colours_save(const struct tachy_mask_eye *e, char *to)
{
    memcpy(to, &e->given, sizeof(e->given));
    if (e->given.v)
        memcpy(to + sizeof(e->given), e->given.v, tachy_mask_colours_size(e) - sizeof(e->given));
}

int tachy_mask_colours_load(struct tachy_mask_eye *e, const char *from, size_t size, size_t *used)
{
    struct tachy_given head;
    e->given.v = NULL;
    *used = sizeof(head);
    if (size < *used)
        return TACHY_ERR_FORMAT;
    memcpy(&head, from, sizeof(head));
    if (!head.v)
        return TACHY_OK;
    if (head.width < 1 || head.height < 1 || head.width > 65535 || head.height > 65535 || head.region.w < 1 || head.region.h < 1 ||
        (size - *used) / (3 * sizeof(int16_t)) < (size_t)head.width * (size_t)head.height)
        return TACHY_ERR_FORMAT;
    int err = room(&e->colours, &e->given, head.width, head.height, head.region);
    if (err < 0)
        return err;
    *used = tachy_mask_colours_size(e);
    memcpy(e->colours.p, from + sizeof(head), *used - sizeof(head));
    return TACHY_OK;
}

int tachy_mask_colours_copy(struct tachy_mask_eye *to, const struct tachy_mask_eye *from)
{
    const struct tachy_given *g = &from->given;
    to->given.v = NULL;
    int err = g->v ? room(&to->colours, &to->given, g->width, g->height, g->region) : TACHY_OK;
    if (err == TACHY_OK && g->v)
        memcpy(to->colours.p, g->v, tachy_mask_colours_size(from) - sizeof(*g));
    return err;
}
