#include "base/base.h"
#include "plan/cuda/parts.h"

#include <stdlib.h>

bool cuda_engines_fit(const struct cuda_step *s)
{
    const struct tachy_nn_conv *c = &s->a.conv;
    const cuda_address all = c->in.data | c->out.data | c->epilogue.add.data | c->weights | s->bias;
    return s->kind == CUDA_CONV && !s->stem && !s->scaled && !c->scale && !c->sums && all % 16 == 0 && tachy_nn_cudnn_takes(c);
}

int cuda_engines_open(struct cuda_plan *p, struct cuda_step *s, size_t scratch, const struct tachy_log *log)
{
    const int most = p->params.effort > 2 ? CUDA_ENGINES : CUDA_ENGINES / 2;
    if (!p->engines)
        p->engines = calloc((size_t)p->nb_steps, sizeof(*p->engines));
    if (!p->engines)
        return TACHY_ERR_NOMEM;
    int err = p->cudnn ? TACHY_OK : tachy_nn_cudnn_open(&p->cudnn, log);
    if (err < 0)
        return err;
    err = tachy_nn_cudnn_conv_open(&s->engines, p->cudnn, &s->a.conv, scratch, most, &s->nb_engines, log);
    if (s->engines)
        p->engines[p->nb_engines++] = s->engines;
    for (int i = 0; i < s->nb_engines; i++)
        p->scratch = TACHY_MAX(p->scratch, TACHY_ALIGN(tachy_nn_cudnn_conv_workspace(s->engines, i), 256));
    return err == TACHY_ERR_NOMEM ? err : TACHY_OK;
}

static bool is_run(const struct cuda_plan *p, const struct tachy_nn_cudnn_conv *v)
{
    for (int i = 0; i < p->nb_steps; i++)
        if (p->steps[i].engines == v && p->steps[i].way.kernel == CUDA_CONV_CUDNN)
            return true;
    return false;
}

void cuda_engines_keep(struct cuda_plan *p)
{
    int kept = 0;
    for (int i = 0; i < p->nb_engines; i++) {
        if (is_run(p, p->engines[i]))
            p->engines[kept++] = p->engines[i];
        else
            tachy_nn_cudnn_conv_close(&p->engines[i]);
    }
    p->nb_engines = kept;
    if (!kept)
        tachy_nn_cudnn_close(&p->cudnn);
}

void cuda_engines_close(struct cuda_plan *p)
{
    for (int i = 0; i < p->nb_engines; i++)
        tachy_nn_cudnn_conv_close(&p->engines[i]);
    tachy_nn_cudnn_close(&p->cudnn);
    free(p->engines);
    p->engines = NULL, p->nb_engines = 0;
}
