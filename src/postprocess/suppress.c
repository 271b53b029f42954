#include "postprocess/decode.h"
#include "ref/ref_nms.h"

// Orders by score, the higher first, equal ones in their order: a merge sort, so that it is the same everywhere.
static void merge(int32_t *v, int32_t *to, int n, int half, const float *score)
{
    for (int i = 0, a = 0, b = half; i < n; i++) {
        bool left = b >= n || (a < half && score[v[a]] >= score[v[b]]);
        to[i] = left ? v[a++] : v[b++];
    }
    memcpy(v, to, (size_t)n * sizeof(*v));
}

static void sort(int32_t *v, int32_t *to, int n, const float *score)
{
    if (n < 2)
        return;
    sort(v, to, n / 2, score);
    sort(v + n / 2, to, n - n / 2, score);
    merge(v, to, n, n / 2, score);
}

int tachy_suppress(int32_t *kept, const float (*box)[4], const float *score, const int32_t *classes, int n, float most,
                   int limit, int32_t *order)
{
    int found = 0;
    for (int i = 0; i < n; i++)
        order[i] = i;
    sort(order, kept, n, score);
    for (int i = 0; i < n && found < limit; i++) {
        int b = order[i];
        bool hidden = false;
        for (int k = 0; k < found && !hidden; k++)
            hidden = (!classes || classes[kept[k]] == classes[b]) && tachy_ref_overlap(box[kept[k]], box[b], most);
        if (!hidden)
            kept[found++] = b;
    }
    return found;
}
