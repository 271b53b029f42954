#include "plan/graph.h"

#include "base/mix.h"

// What a graph computes, in 128 bits: its lines and the numbers of its constants.
int tachy_graph_digest(const struct tachy_graph *g, uint64_t digest[2])
{
    char *text = tachy_graph_print(g);
    if (!text)
        return TACHY_ERR_NOMEM;
    for (int k = 0; k < 2; k++) {
        uint64_t h = tachy_mix(1 + (uint64_t)k, text, strlen(text));
        for (int i = 0; i < g->nb_values; i++) {
            const struct tachy_value *v = g->values[i];
            if (v->data)
                h = tachy_mix(h, v->data, (size_t)tachy_value_elements(v) * tachy_dtype_size(v->dtype));
        }
        digest[k] = h;
    }
    tachy_free(text);
    return TACHY_OK;
}
