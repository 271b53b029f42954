#include "base/base.h"
#include "plan/cuda/walk.h"

// Pixels that a transposed convolution made as channels move to their places: Transpose, Reshape to a picture, and a Transpose that
// says its channels lie last (pass_deconv.c, pass_shuffle.c). The first one's step writes the picture where it lies, which may be a
// part of a Concat. Of blocks of 2 x 2 pixels the convolution may do so itself (tachy_nn_conv.spread).

enum { LEAST_CHANNELS = 8 }; // fewer may lie in pixels of first convolutions (cuda_stem_pixel())
enum { TO_LAST = 5 };        // nodes from the convolution to the spread's last one

struct spread {
    const struct tachy_node *turn, *join, *last; // that follow each other
    int axis[TACHY_MAX_RANK];                    // of join's picture, that a dimension of the turned value is a piece of
};

static bool only(const struct tachy_value *v, const struct tachy_node *by)
{
    return by && by->in[0] == v && v->uses == 1;
}

// The spread whose first node is `n`.
static bool find(const struct tachy_node *n, struct spread *s)
{
    static const int to_last[] = {0, 3, 1, 2};
    *s = (struct spread){n, n->next, n->next ? n->next->next : NULL, {0}};
    if (n->op != TACHY_OP_TRANSPOSE || !only(n->out, s->join) || !only(s->join->out, s->last) || s->join->op != TACHY_OP_RESHAPE ||
        s->last->op != TACHY_OP_TRANSPOSE || n->out->rank > TACHY_NN_RANK || n->out->rank <= 4 || s->join->out->rank != 4 ||
        s->join->out->nhwc || !s->last->out->nhwc || memcmp(s->last->attr.perm, to_last, sizeof(to_last)) || n->in[0]->data ||
        n->in[0]->dtype != s->last->out->dtype || n->out->dtype != s->last->out->dtype || s->join->out->dtype != s->last->out->dtype || s->last->out->shape[1] < LEAST_CHANNELS)
        return false;
    const int64_t *picture = s->join->out->shape;
    int d = 0;
    for (int a = 0; a < 4; a++) {
        int64_t product = 1;
        for (int first = d; d < n->out->rank && (product < picture[a] || d == first); d++) {
            product *= n->out->shape[d];
            s->axis[d] = a;
        }
        if (product != picture[a])
            return false;
    }
    return d == n->out->rank;
}

// The convolution in front, through a Transpose and a Reshape that do nothing, whose channels become blocks of 2 x 2 pixels of `s`; NULL:
// there is none that can write them.
static const struct tachy_node *conv_of(const struct spread *s)
{
    static const int perm[] = {0, 1, 3, 2, 4, 5}, as_it_lies[] = {0, 2, 3, 1};
    const struct tachy_node *split = s->turn->prev, *last = split ? split->prev : NULL, *n = last ? last->prev : NULL;
    const int64_t *d = s->turn->out->shape;
    bool blocks = s->turn->out->rank == 6 && !memcmp(s->turn->attr.perm, perm, sizeof(perm)) && d[2] == 2 && d[4] == 2 && d[5] % 64 == 0 &&
                  s->axis[1] == 1 && s->axis[2] == 1 && s->axis[3] == 2 && s->axis[4] == 2;
    bool behind = n && split->op == TACHY_OP_RESHAPE && only(split->out, s->turn) && last->op == TACHY_OP_TRANSPOSE && only(last->out, split) &&
                  !memcmp(last->attr.perm, as_it_lies, sizeof(as_it_lies)) && n->op == TACHY_OP_CONV && n->out->nhwc && only(n->out, last);
    bool fits = blocks && behind && tachy_is_half(n->out->dtype) && n->out->shape[1] == 4 * d[5] && n->attr.conv.groups == 1 && n->attr.conv.planes <= 1 &&
                n->in[1]->data && n->in[1]->dtype == TACHY_F32 && !cuda_input(n, 3) && !cuda_input(n, 4);
    return fits ? n : NULL;
}

bool cuda_spreads(const struct tachy_node *n)
{
    struct spread s;
    return find(n, &s) || (n->prev && n->op == TACHY_OP_RESHAPE && find(n->prev, &s));
}

bool cuda_writes_part(const struct tachy_node *n)
{
    struct spread s;
    return n->prev && n->prev->prev && find(n->prev->prev, &s) && s.last == n;
}

void cuda_keep_spreads(struct cuda_build *b)
{
    struct spread s;
    for (const struct tachy_node *n = b->g->first; n; n = n->next)
        if (find(n, &s)) { // it is written when the first one runs
            struct plan_beside *last = &b->beside[s.last->out->id];
            last->front = TACHY_MAX(last->front, conv_of(&s) ? TO_LAST : 2);
        }
}

// 1 if the weights of blocks' upper pixels are zero in the last row of taps, and of the lower ones in the first; columns likewise.
static int apart_of(const struct tachy_node *n)
{
    const float *w = n->in[1]->data;
    const int kh = n->attr.conv.kernel[0], kw = n->attr.conv.kernel[1];
    bool apart = kh > 1 && kw > 1;
    for (int64_t i = 0; i < tachy_value_elements(n->in[1]) && apart; i++) {
        const int64_t side = i / kw / kh / n->in[1]->shape[1] / (n->out->shape[1] / 4), x = i % kw, y = i / kw % kh;
        apart = w[i] == 0 || (y != (side < 2 ? kh - 1 : 0) && x != (side % 2 ? 0 : kw - 1));
    }
    return apart;
}

// The convolution's step and the copy that is now the last one may be one.
static void join_conv(struct cuda_build *b, const struct spread *s, cuda_address from)
{
    const struct tachy_node *n = conv_of(s);
    struct cuda_step *copy = &b->plan->steps[b->plan->nb_steps - 1], *conv = b->plan->nb_steps > 1 ? copy - 1 : NULL;
    const struct plan_lane *x = n ? &b->lanes[n->out->id] : NULL, *y = &b->lanes[s->turn->out->id];
    if (!n || !conv || conv->kind != CUDA_CONV || conv->a.conv.out.data != from || copy->kind != CUDA_POINTWISE || conv->padded ||
        !plan_same_lane(x, y) || (b->plan->nb_steps > 2 && conv[-1].pairs))
        return;
    conv->a.conv.spread = cuda_tensor(b, s->last->out);
    conv->a.conv.spread_apart = apart_of(n);
    conv->pairs = true;
}

void cuda_part_spread(struct cuda_build *b)
{
    struct cuda_step *conv = b->plan->nb_steps > 1 ? &b->plan->steps[b->plan->nb_steps - 2] : NULL;
    if (!conv || conv->kind != CUDA_CONV || !conv->a.conv.spread.data)
        return;
    conv->a.conv.spread = (struct tachy_nn_tensor){0};
    conv->a.conv.spread_apart = 0;
    conv->pairs = false;
}

int cuda_steps_spread(struct cuda_build *b, const struct tachy_node *n)
{
    struct spread s;
    int64_t in[TACHY_MAX_RANK] = {0}, to[TACHY_MAX_RANK] = {0};
    cuda_address from;
    if (!find(n, &s))
        return TACHY_OK; // the Reshape
    const struct plan_ref *r = &b->places.ref[s.last->out->id];
    struct cuda_walk w = {.rank = n->out->rank, .nb = 2};
    cuda_walk_strides(b, n->in[0], in);
    cuda_walk_strides(b, s.last->out, to);
    int64_t step[] = {to[0], to[2], to[3], to[1]}; // images, rows, pixels, channels
    for (int d = w.rank - 1; d >= 0; d--) {
        w.dim[d] = n->out->shape[d];
        w.step[0][d] = step[s.axis[d]];
        w.step[1][d] = in[n->attr.perm[d]];
        step[s.axis[d]] *= w.dim[d];
    }
    if (!cuda_value(b, n->in[0], &from))
        return TACHY_ERR_NOMEM;
    int err = cuda_walk_copy(b, &w, cuda_at(r->base, (size_t)r->offset), n->out->dtype, from, n->in[0]->dtype);
    if (err == TACHY_OK)
        join_conv(b, &s, from);
    return err;
}
