#include "plan/pass.h"

#include "base/base.h"

#define PASSES \
    {"levels", tachy_plan_levels}, {"turned", tachy_plan_turned}, {"common", tachy_plan_common}, \
    {"focus", tachy_plan_focus}, \
    {"heads", tachy_plan_heads}, {"expectation", tachy_plan_expectation}, {"pools", tachy_plan_pools}, {"shuffle", tachy_plan_shuffle}, \
    {"moves", tachy_plan_moves}, {"activations", tachy_plan_activations}, {"gelu", tachy_plan_gelu}, \
    {"prelu", tachy_plan_prelu}, {"blend", tachy_plan_blend}, {"affine", tachy_plan_affine}, {"pad", tachy_plan_pad}, \
    {"resize", tachy_plan_resize}, {"mean", tachy_plan_mean}, {"fuse", tachy_plan_fuse}, \
    {"scale", tachy_plan_scale}, {"sums", tachy_plan_sums}, {"dead", tachy_plan_dead}, \
    {"layout", tachy_plan_layout},
const struct tachy_plan_pass tachy_plan_all_passes[] = {PASSES {NULL, NULL}};
const struct tachy_plan_pass tachy_plan_int8_passes[] = {{"int8", tachy_plan_int8}, PASSES {NULL, NULL}};
#undef PASSES

int tachy_plan_passes(struct tachy_graph *g, const char *last)
{
    return tachy_plan_run_passes(g, tachy_plan_all_passes, last);
}

int tachy_plan_run_passes(struct tachy_graph *g, const struct tachy_plan_pass *list, const char *last)
{
    for (const struct tachy_plan_pass *p = list; p->name; p++) {
        int err = p->run(g);
        if (err == TACHY_OK)
            err = tachy_graph_verify(g);
        if (err < 0)
            return tachy_fail(g->log, err, "plan: the pass %s failed", p->name);
        if (last && !strcmp(last, p->name))
            return TACHY_OK;
    }
    return last ? tachy_fail(g->log, TACHY_ERR_NOT_FOUND, "plan: there is no pass %s", last) : TACHY_OK;
}
