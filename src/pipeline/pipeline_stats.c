#include "pipeline/pipeline.h"

void pipeline_sample(tachy_stream *s, uint64_t now)
{
    if (tachy_ticks_ns(now - s->sampled) < 100000)
        return;
    s->sampled = now;
    int64_t pushed = atomic_load(&s->next_push), next = atomic_load(&s->next_pull);
    int64_t held = next ? next - 1 : 0; // the pulled one stays
    int64_t made = atomic_load(&s->nb_done) - atomic_load(&s->nb_pulled);
    tachy_sample_add(s->order_prof->samples,
                     &(struct tachy_sample){
                         .time = now,
                         .bytes = (uint64_t)atomic_load(&s->inputs) * s->in_bytes +
                                  (uint64_t)TACHY_MAX(made, 0) * s->out_bytes,
                         .to_infer = (uint32_t)s->to_infer,
                         .to_composite = (uint32_t)s->to_composite,
                         .to_write = (uint32_t)TACHY_MAX(made, 0),
                         .in_flight = (uint32_t)(pushed - held),
                         .stream = s->number,
                     });
}

void tachy_pipeline_stats(tachy_pipeline *p, struct tachy_summary *sum)
{
    struct tachy_prof *all = tachy_prof_new();
    if (!all)
        return;
    for (int i = 0; i < p->nb_workers; i++)
        tachy_prof_merge(all, p->workers[i].prof);
    pthread_mutex_lock(&p->list);
    if (p->left)
        tachy_prof_merge(all, p->left);
    for (tachy_stream *s = p->streams; s; s = s->after)
        if (s->order_prof)
            tachy_prof_merge(all, s->order_prof);
    pipeline_batch_figures(p, all);
    pthread_mutex_unlock(&p->list);
    tachy_prof_read(&all, 1, sum->steps);
    sum->workers = p->nb_workers;
    tachy_aligned_free(all);
}

void pipeline_stream_steps(tachy_stream *s, struct tachy_step_stats *steps)
{
    struct tachy_prof *all = tachy_prof_new();
    if (!all)
        return;
    for (int i = 0; i < s->pipeline->nb_workers; i++)
        tachy_prof_merge(all, s->figures[i]);
    if (s->order_prof)
        tachy_prof_merge(all, s->order_prof);
    tachy_prof_read(&all, 1, steps);
    tachy_aligned_free(all);
}

void tachy_stream_stats(const tachy_stream *s, struct tachy_stream_stats *out)
{
    // Pulled before pushed: a difference of the two is never negative.
    int64_t next = atomic_load(&s->next_pull), pulled = atomic_load(&s->nb_pulled);
    int64_t done = atomic_load(&s->nb_done), pushed = atomic_load(&s->next_push);
    *out = (struct tachy_stream_stats){
        .pushed = pushed,
        .holes = atomic_load(&s->nb_holes),
        .pulled = pulled,
        .waiting = atomic_load(&s->to_infer),
        .finished = TACHY_MAX(done - pulled, 0),
        .in_flight = TACHY_MAX(pushed - next, 0),
        .ended = atomic_load(&s->end) != INT64_MAX,
        .err = atomic_load(&s->err),
    };
}
