#include "plan/refuse.h"

const char *tachy_refuse_size(const struct tachy_value *v)
{
    int64_t elements = tachy_value_elements(v);
    return elements < 1 || elements > INT32_MAX / 2 ? "an empty or very large tensor" : NULL;
}

const char *tachy_refuse_pool(const struct tachy_node *n)
{
    for (int i = 0; i < 4; i++)
        if (n->attr.pool.pad[i] >= n->attr.pool.kernel[i % 2])
            return "windows that see nothing but padding";
    return NULL;
}

const char *tachy_refuse_slope(const struct tachy_value *slope, const struct tachy_value *of)
{
    if (!slope || !slope->data)
        return "a slope that is not constant";
    int64_t n = tachy_value_elements(slope);
    // One a channel is [C,1,1] or [1,C,1,1]: a slope for each column is another thing.
    bool channels = of->rank == 4 && n == of->shape[1] && slope->rank >= 3 && slope->shape[slope->rank - 3] == n;
    return n == 1 || channels ? NULL : "a slope that is neither one nor one a channel";
}
