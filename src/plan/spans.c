#include "plan/spans.h"

#include "base/base.h"

#include <stdlib.h>

// A node of the tree stands for a range of times. It knows what is occupied at any of them, and what is occupied at all
// of them by values recorded in this node rather than below. Occupied memory is a sorted list of runs that neither
// overlap nor touch. A network's values fill the arena from below, so the lists are short.

struct run {
    size_t begin, end;
};

struct runs {
    struct run *r;
    int nb, room;
};

struct span_node {
    struct runs any, all;
};

int plan_spans_open(struct plan_spans *s, int times)
{
    s->leaves = 1;
    while (s->leaves < times)
        s->leaves *= 2;
    s->nodes = calloc(2 * (size_t)s->leaves, sizeof(*s->nodes));
    return s->nodes ? TACHY_OK : TACHY_ERR_NOMEM;
}

void plan_spans_close(struct plan_spans *s)
{
    for (int i = 0; s->nodes && i < 2 * s->leaves; i++) {
        free(s->nodes[i].any.r);
        free(s->nodes[i].all.r);
    }
    free(s->nodes);
    s->nodes = NULL;
}

// Index of the first run that ends after `at`, or their number if there is none.
static int behind(const struct runs *l, size_t at)
{
    int low = 0, high = l->nb;
    while (low < high) {
        int middle = (low + high) / 2;
        if (l->r[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// The lowest place from `at` on that no run meets.
static size_t above(const struct runs *l, size_t at, size_t size)
{
    for (int i = behind(l, at); i < l->nb && l->r[i].begin < at + size; i++)
        at = l->r[i].end;
    return at;
}

// Adds a run and merges it with runs that it overlaps or touches.
static int add(struct runs *l, size_t begin, size_t end)
{
    int from = begin ? behind(l, begin - 1) : 0, to = from; // from..to-1 go
    for (; to < l->nb && l->r[to].begin <= end; to++) {
        begin = TACHY_MIN(begin, l->r[to].begin);
        end = TACHY_MAX(end, l->r[to].end);
    }
    if (from == to && l->nb == l->room) {
        int room = l->room ? 2 * l->room : 4;
        struct run *r = realloc(l->r, sizeof(*r) * (size_t)room);
        if (!r)
            return TACHY_ERR_NOMEM;
        l->r = r;
        l->room = room;
    }
    memmove(l->r + from + 1, l->r + to, sizeof(*l->r) * (size_t)(l->nb - to));
    l->r[from] = (struct run){begin, end};
    l->nb += 1 - (to - from);
    return TACHY_OK;
}

// The query: times first..last, and in a node, the times begin..end-1 that it stands for.
struct range {
    int first, last;
};

static size_t raise(const struct plan_spans *s, int node, int begin, int end, const struct range *r, size_t at,
                    size_t size)
{
    if (r->last < begin || r->first >= end)
        return at;
    if (r->first <= begin && end - 1 <= r->last)
        return above(&s->nodes[node].any, at, size);
    int middle = (begin + end) / 2;
    at = above(&s->nodes[node].all, at, size);
    at = raise(s, 2 * node, begin, middle, r, at, size);
    return raise(s, 2 * node + 1, middle, end, r, at, size);
}

size_t plan_spans_lowest(const struct plan_spans *s, int first, int last, size_t size)
{
    size_t at = 0, before;
    do {
        before = at;
        at = raise(s, 1, 0, s->leaves, &(struct range){first, last}, at, size);
    } while (at != before);
    return at;
}

static int take(struct plan_spans *s, int node, int begin, int end, const struct range *r, const struct run *run)
{
    if (r->last < begin || r->first >= end)
        return TACHY_OK;
    int err = add(&s->nodes[node].any, run->begin, run->end);
    if (err < 0)
        return err;
    if (r->first <= begin && end - 1 <= r->last)
        return add(&s->nodes[node].all, run->begin, run->end);
    int middle = (begin + end) / 2;
    err = take(s, 2 * node, begin, middle, r, run);
    return err < 0 ? err : take(s, 2 * node + 1, middle, end, r, run);
}

int plan_spans_take(struct plan_spans *s, int first, int last, size_t at, size_t size)
{
    if (!size)
        return TACHY_OK;
    return take(s, 1, 0, s->leaves, &(struct range){first, last}, &(struct run){at, at + size});
}
