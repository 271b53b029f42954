#pragma once
#include "base/base.h"

// Clusters of points by density, without their number: HDBSCAN (Campello, Moulavi and Sander 2013) with Euclidean distances.
// Labels are those of scikit-learn's HDBSCAN with the same parameters, up to their order. Equal distances, which mutual
// reachability is full of, are taken in the order in which Prim's algorithm meets them, from point 0.

enum tachy_cluster_select {
    TACHY_CLUSTER_EOM = 0, // the most stable clusters of the tree
    TACHY_CLUSTER_LEAF,    // the smallest ones
};

struct tachy_cluster_params {
    int least;   // points of a cluster; 2 and more
    int samples; // neighbours that make a place dense, the point itself counted; 0: as `least`
    enum tachy_cluster_select select;
    int threads; // 0: 1
};

// label[i]: 0, 1, ... or -1: in no cluster. `point`: n rows of `size` floats. Takes about n * (4 * (size + samples) + 210) bytes and
// n * n to 1.6 n * n products of rows; any number of threads and every processor gives the same labels. TACHY_ERR_NOMEM.
int tachy_cluster(const float *point, int n, int size, const struct tachy_cluster_params *p, int32_t *label);

// ---- Of tree.c

// An edge of the minimum spanning tree, by squared mutual reachability; `at`: its place in the order of Prim's algorithm.
struct cluster_edge {
    double weight;
    int32_t a, b, at;
};
// Sorts the n - 1 edges and cuts the tree that they are.
int cluster_tree(struct cluster_edge *edge, int n, const struct tachy_cluster_params *p, int32_t *label);
