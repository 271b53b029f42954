#include "cluster/hdbscan.h"

#include <math.h>
#include <stdlib.h>

// The single-linkage tree, condensed to clusters of a minimum size, and the selection of clusters from it.

// A joint of the tree: points are 0..n-1, joints n..2n-2, the last one is the root.
struct joint {
    int32_t left, right, size;
    double lambda; // 1 by distance
};

// A cluster of the condensed tree; number 0 is the root. Parents come before their children.
struct cluster {
    int32_t parent, points;
    double birth, stability, below; // `below`: the stability of what is taken under it
    bool has_children, taken;
};

struct tree {
    int n, least;
    struct joint *joint;
    struct cluster *cluster;
    int32_t nb_clusters;
    int32_t *of;      // the cluster that a point falls out of
    int32_t *stack, *owner; // joints to look at, and whose they are
};

static int by_weight(const void *x, const void *y)
{
    const struct cluster_edge *a = x, *b = y;
    if (a->weight != b->weight)
        return a->weight < b->weight ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

static int32_t size_of(const struct tree *t, int32_t i) { return i < t->n ? 1 : t->joint[i - t->n].size; }

static int32_t top(int32_t *up, int32_t i)
{
    while (up[i] >= 0) {
        if (up[up[i]] >= 0)
            up[i] = up[up[i]];
        i = up[i];
    }
    return i;
}

static void link_up(struct tree *t, const struct cluster_edge *edge, int32_t *up)
{
    for (int i = 0; i < 2 * t->n - 1; i++)
        up[i] = -1;
    for (int i = 0; i < t->n - 1; i++) {
        struct joint *j = &t->joint[i];
        j->left = top(up, edge[i].a);
        j->right = top(up, edge[i].b);
        j->size = size_of(t, j->left) + size_of(t, j->right);
        j->lambda = 1 / fmax(sqrt(edge[i].weight), 1e-12); // equal points: very dense
        up[j->left] = up[j->right] = t->n + i;
    }
}

// All points under `node` fall out of the cluster. Uses the stack from `at` on.
static void fall_out(struct tree *t, int32_t node, int32_t cluster, double lambda, int at)
{
    int bottom = at;
    t->stack[at++] = node;
    while (at > bottom) {
        int32_t i = t->stack[--at];
        if (i < t->n) {
            t->of[i] = cluster;
            t->cluster[cluster].stability += lambda - t->cluster[cluster].birth;
        } else {
            t->stack[at++] = t->joint[i - t->n].left;
            t->stack[at++] = t->joint[i - t->n].right;
        }
    }
}

static int32_t add_cluster(struct tree *t, int32_t parent, int32_t node, double lambda)
{
    struct cluster *c = &t->cluster[t->nb_clusters], *p = &t->cluster[parent];
    *c = (struct cluster){.parent = parent, .points = size_of(t, node), .birth = lambda};
    p->stability += (lambda - p->birth) * c->points;
    p->has_children = true;
    return t->nb_clusters++;
}

static void condense(struct tree *t)
{
    int at = 0;
    t->cluster[0] = (struct cluster){.parent = -1, .points = t->n};
    t->nb_clusters = 1;
    t->owner[at] = 0;
    t->stack[at++] = 2 * t->n - 2;
    while (at) {
        int32_t node = t->stack[--at], cluster = t->owner[at];
        const struct joint *j = &t->joint[node - t->n];
        bool left = size_of(t, j->left) >= t->least, right = size_of(t, j->right) >= t->least, both = left && right;
        const int32_t child[2] = {j->left, j->right};
        for (int k = 0; k < 2; k++)
            if (!(k ? right : left))
                fall_out(t, child[k], cluster, j->lambda, at);
        for (int k = 0; k < 2; k++)
            if (k ? right : left) {
                t->owner[at] = both ? add_cluster(t, cluster, child[k], j->lambda) : cluster;
                t->stack[at++] = child[k];
            }
    }
}

// Children before their parents. The root is never taken.
static void take(struct tree *t, enum tachy_cluster_select select)
{
    for (int32_t i = t->nb_clusters - 1; i > 0; i--) {
        struct cluster *c = &t->cluster[i];
        c->taken = select == TACHY_CLUSTER_LEAF ? !c->has_children : c->below <= c->stability;
        t->cluster[c->parent].below += c->taken ? c->stability : c->below;
    }
}

// The uppermost that is taken on the way to the root; parents come first, so one look at each parent is enough.
static void set_labels(struct tree *t, int32_t *label, int32_t *name)
{
    int32_t next = 0;
    name[0] = -1;
    for (int32_t i = 1; i < t->nb_clusters; i++) {
        int32_t above = name[t->cluster[i].parent];
        name[i] = above >= 0 ? above : t->cluster[i].taken ? next++ : -1;
    }
    for (int i = 0; i < t->n; i++)
        label[i] = name[t->of[i]];
}

int cluster_tree(struct cluster_edge *edge, int n, const struct tachy_cluster_params *p, int32_t *label)
{
    size_t all = (size_t)n;
    struct tree t = {.n = n, .least = TACHY_MAX(p->least, 2)};
    int32_t *scratch = malloc(2 * all * sizeof(*scratch));
    t.joint = malloc(all * sizeof(*t.joint));
    t.cluster = malloc(all * sizeof(*t.cluster));
    t.of = malloc(all * sizeof(*t.of));
    t.stack = malloc(2 * all * sizeof(*t.stack));
    t.owner = malloc(2 * all * sizeof(*t.owner));
    bool there = scratch && t.joint && t.cluster && t.of && t.stack && t.owner;
    if (there) {
        qsort(edge, all - 1, sizeof(*edge), by_weight);
        link_up(&t, edge, scratch);
        condense(&t);
        take(&t, p->select);
        set_labels(&t, label, scratch);
    }
    void *const mem[] = {scratch, t.joint, t.cluster, t.of, t.stack, t.owner};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(mem); i++)
        free(mem[i]);
    return there ? TACHY_OK : TACHY_ERR_NOMEM;
}
