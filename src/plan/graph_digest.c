#include "plan/graph.h"

#include "base/mix.h"

#include <stdlib.h>

// Digest of a graph's computation: its lines and the numbers of its constants.
int tachy_graph_digest(const struct tachy_graph *g, uint64_t digest[2])
{
    struct tachy_mix_part *parts = calloc((size_t)g->nb_values + 1, sizeof(*parts));
    char *text = tachy_graph_print(g);
    int n = 0;
    digest[0] = 1, digest[1] = 2;
    if (parts && text)
        parts[n++] = (struct tachy_mix_part){text, strlen(text)};
    for (int i = 0; i < g->nb_values && n; i++) {
        const struct tachy_value *v = g->values[i];
        if (v->data)
            parts[n++] = (struct tachy_mix_part){v->data, (size_t)tachy_value_elements(v) * tachy_dtype_size(v->dtype)};
    }
    bool ok = n && tachy_mix_parts(digest, parts, n);
    tachy_free(text);
    free(parts);
    return ok ? TACHY_OK : TACHY_ERR_NOMEM;
}
