#include "model/tflite.h"

#include "base/base.h"

// Sparse constants. A tensor of rank r with b blocked dimensions is stored as a tree of r + b
// levels in the order of `traversal_order`; a level is dense (all of `dense_size` children) or
// compressed (segments and indices, as in CSR). Levels r.. are the insides of blocks along the
// dimensions that `block_map` names. The leaves are the stored values, in order.

enum { MAX_LEVELS = 2 * TFLITE_MAX_RANK };

struct level {
    bool sparse;
    int64_t size; // dense: children of each node
    int dimension; // of the tensor, 0..rank-1
    int64_t step;  // what one child adds to the position along that dimension
    struct tflite_vector segments, indices;
    int segment_bytes, index_bytes;
};

struct walk {
    const struct tflite_model *m;
    const struct tflite_tensor *t;
    struct level levels[MAX_LEVELS];
    int n_levels;
    size_t element;
    int64_t leaf, leaves; // values read so far and stored in all
    int64_t stride[TFLITE_MAX_RANK];
    uint8_t *dense;
};

static uint64_t get(const struct tflite_model *m, struct tflite_vector v, int64_t i, int bytes)
{
    const uint8_t *p = m->bytes.data + v.at + (size_t)i * (size_t)bytes;
    uint64_t u = 0;
    for (int k = bytes - 1; k >= 0; k--)
        u = u << 8 | p[k];
    return u;
}

static bool read_indices(const struct tflite_table *t, int type_field, struct tflite_vector *v,
                         int *bytes)
{
    int type = tflite_field_i8(t, type_field, 0);
    *bytes = type == 1 ? 4 : type == 2 ? 2 : type == 3 ? 1 : 0;
    if (!*bytes)
        return false;
    struct tflite_table inner = tflite_field_table(t, type_field + 1);
    *v = tflite_field_vector(&inner, 0, (size_t)*bytes);
    return !t->b->bad;
}

static bool read_level(const struct tflite_table *t, struct level *l)
{
    l->sparse = tflite_field_i8(t, 0, 0) != 0;
    l->size = tflite_field_i32(t, 1, 0);
    if (!l->sparse)
        return !t->b->bad && l->size > 0;
    return read_indices(t, 2, &l->segments, &l->segment_bytes) &&
           read_indices(t, 4, &l->indices, &l->index_bytes);
}

// Visits the children of node `node` of level `k`; `at` is the position in the dense tensor.
static bool visit(struct walk *w, int k, int64_t node, int64_t at)
{
    if (k == w->n_levels) {
        if (w->leaf >= w->leaves || at < 0 || at >= w->t->elements)
            return false;
        memcpy(w->dense + (size_t)at * w->element, w->t->data + (size_t)w->leaf * w->element,
               w->element);
        w->leaf++;
        return true;
    }
    const struct level *l = &w->levels[k];
    int64_t step = l->step * w->stride[l->dimension];
    if (!l->sparse) {
        for (int64_t i = 0; i < l->size; i++)
            if (!visit(w, k + 1, node * l->size + i, at + i * step))
                return false;
        return true;
    }
    if (node + 1 >= (int64_t)l->segments.n)
        return false;
    int64_t from = (int64_t)get(w->m, l->segments, node, l->segment_bytes);
    int64_t to = (int64_t)get(w->m, l->segments, node + 1, l->segment_bytes);
    if (from > to || to > (int64_t)l->indices.n)
        return false;
    for (int64_t i = from; i < to; i++) {
        int64_t index = (int64_t)get(w->m, l->indices, i, l->index_bytes);
        if (index * l->step >= w->t->shape[l->dimension] ||
            !visit(w, k + 1, i, at + index * step))
            return false;
    }
    return true;
}

// The dimension that each level runs along and its step; false if they are not a permutation of the dimensions and
// their blocks.
static bool place_levels(struct walk *w, struct tflite_vector order, struct tflite_vector blocks)
{
    const struct tflite_tensor *t = w->t;
    int64_t block[TFLITE_MAX_RANK];
    bool seen[MAX_LEVELS] = {false};
    for (int d = 0; d < t->rank; d++)
        block[d] = 1;
    for (int k = 0; k < w->n_levels; k++) {
        int64_t o = (int64_t)get(w->m, order, k, 4);
        if (o >= w->n_levels || seen[o])
            return false;
        seen[o] = true;
        struct level *l = &w->levels[k];
        l->step = 1;
        l->dimension = (int)o;
        if (o >= t->rank) {
            int64_t d = (int64_t)get(w->m, blocks, o - t->rank, 4);
            if (d >= t->rank || l->sparse || block[d] != 1)
                return false;
            l->dimension = (int)d;
            block[d] = l->size;
        }
    }
    for (int k = 0; k < w->n_levels; k++) {
        struct level *l = &w->levels[k];
        bool inside = (int64_t)get(w->m, order, k, 4) >= t->rank;
        if (!inside)
            l->step = block[l->dimension];
        if (!l->sparse && l->size * l->step > t->shape[l->dimension])
            return false;
    }
    return true;
}

bool tflite_densify(const struct tflite_model *m, const struct tflite_tensor *t, uint8_t *dense)
{
    struct walk w = {.m = m, .t = t, .dense = dense, .element = tflite_type_size(t->type)};
    struct tflite_vector order = tflite_field_vector(&t->sparsity, 0, 4);
    struct tflite_vector blocks = tflite_field_vector(&t->sparsity, 1, 4);
    struct tflite_vector levels = tflite_field_vector(&t->sparsity, 2, 4);
    if (!t->data || !w.element || !t->sparsity.at || t->sparsity.b->bad)
        return false;
    if (!t->rank || levels.n > MAX_LEVELS || order.n != levels.n ||
        levels.n != (uint32_t)t->rank + blocks.n)
        return false;
    w.n_levels = (int)levels.n;
    w.leaves = (int64_t)(t->size / w.element);
    for (int k = 0; k < w.n_levels; k++) {
        struct tflite_table table = tflite_vector_table(t->sparsity.b, levels, (uint32_t)k);
        if (table.b->bad || !read_level(&table, &w.levels[k]))
            return false;
    }
    if (!place_levels(&w, order, blocks))
        return false;
    int64_t stride = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        w.stride[d] = stride;
        stride *= t->shape[d];
    }
    return visit(&w, 0, 0, 0) && w.leaf == w.leaves;
}
