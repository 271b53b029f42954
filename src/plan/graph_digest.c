#include "plan/graph.h"

#include "base/mix.h"

// Digest of a graph's computation: its lines and the numbers of its constants.
int tachy_graph_digest(const struct tachy_graph *g, uint64_t digest[2])
{
    char *text = tachy_graph_print(g);
    if (!text)
        return TACHY_ERR_NOMEM;
    digest[0] = 1, digest[1] = 2;
    tachy_mix_wide(digest, text, strlen(text));
    for (int i = 0; i < g->nb_values; i++) {
        const struct tachy_value *v = g->values[i];
        if (v->data)
            tachy_mix_wide(digest, v->data, (size_t)tachy_value_elements(v) * tachy_dtype_size(v->dtype));
    }
    tachy_free(text);
    return TACHY_OK;
}
