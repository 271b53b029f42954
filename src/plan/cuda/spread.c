#include "base/base.h"
#include "plan/cuda/walk.h"

// Pixels that a transposed convolution made as channels move to their places: Transpose, Reshape to a picture, and a Transpose that
// says its channels lie last (pass_deconv.c, pass_shuffle.c). The first one's step writes the picture where it lies, which may be a
// part of a Concat.

enum { LEAST_CHANNELS = 8 }; // fewer may lie in pixels of first convolutions (cuda_stem_pixel())

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
        if (find(n, &s)) { // it is written when the first one runs, or what runs beside that
            struct plan_beside *last = &b->beside[s.last->out->id];
            last->front = TACHY_MAX(last->front, 2 + b->beside[n->out->id].front);
        }
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
    return cuda_value(b, n->in[0], &from) ? cuda_walk_copy(b, &w, cuda_at(r->base, (size_t)r->offset), n->out->dtype, from, n->in[0]->dtype)
                                          : TACHY_ERR_NOMEM;
}
