#include "ref/ref_nms.h"

#include <math.h>
#include <stdbool.h>

int tachy_ref_overlap(const float a[4], const float b[4], float most)
{
    float w = fminf(a[2], b[2]) - fmaxf(a[0], b[0]), h = fminf(a[3], b[3]) - fmaxf(a[1], b[1]);
    float common = fmaxf(w, 0) * fmaxf(h, 0);
    float both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]);
    return common > most * (both - common);
}

// The next box after `last` in the order of scores.
static int next_best(const float *score, int n, int last)
{
    int best = -1;
    for (int i = 0; i < n; i++) {
        if (isnan(score[i]))
            continue;
        bool behind = last < 0 || score[i] < score[last] || (score[i] == score[last] && i > last);
        if (behind && (best < 0 || score[i] > score[best]))
            best = i;
    }
    return best;
}

int tachy_ref_nms(int32_t *kept, const float (*box)[4], const float *score, const int32_t *classes, int n, float most,
                  float least, int limit)
{
    int found = 0, i = -1;
    for (int turn = 0; turn < n && found < limit; turn++) {
        i = next_best(score, n, i);
        if (i < 0 || !(score[i] > least))
            break;
        bool hidden = false;
        for (int k = 0; k < found && !hidden; k++)
            hidden = (!classes || classes[kept[k]] == classes[i]) && tachy_ref_overlap(box[kept[k]], box[i], most);
        if (!hidden)
            kept[found++] = i;
    }
    return found;
}
