// cluster_tool FILE.npy LEAST SAMPLES eom|leaf THREADS: the cluster of each row of a matrix of 32-bit floats, one per line.
#include "base/npy.h"
#include "cluster/hdbscan.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct tachy_npy a;
    if (argc != 6 || tachy_npy_read(&a, argv[1], NULL) < 0 || a.kind != 'f' || a.size != 4 || a.rank != 2)
        return 2;
    struct tachy_cluster_params p = {.least = atoi(argv[2]), .samples = atoi(argv[3]), .threads = atoi(argv[5]),
                                     .select = argv[4][0] == 'l' ? TACHY_CLUSTER_LEAF : TACHY_CLUSTER_EOM};
    int32_t *label = malloc(((size_t)a.shape[0] + 1) * sizeof(*label));
    int err = label ? tachy_cluster(a.data, (int)a.shape[0], (int)a.shape[1], &p, label) : TACHY_ERR_NOMEM;
    for (int64_t i = 0; i < a.shape[0] && err == TACHY_OK; i++)
        printf("%d\n", label[i]);
    free(label);
    tachy_npy_free(&a);
    return err < 0;
}
