#include "pipeline/pipeline.h"

#include "profile/system.h"

void pipeline_sample(tachy_stream *s, uint64_t now)
{
    if (tachy_ticks_ns(now - s->sampled) < 100000)
        return;
    s->sampled = now;
    bool memory = tachy_ticks_ns(now - s->sampled_memory) > 10000000;
    if (memory)
        s->sampled_memory = now;
    int64_t pushed = atomic_load(&s->next_push), next = atomic_load(&s->next_pull);
    int64_t held = next ? next - 1 : 0; // the pulled one stays
    int64_t made = atomic_load(&s->nb_done) - atomic_load(&s->nb_pulled);
    tachy_sample_add(s->sample_prof->samples,
                     &(struct tachy_sample){
                         .time = now,
                         .bytes = (uint64_t)(atomic_load(&s->inputs) * s->sched.in_bytes +
                                             TACHY_MAX(made, 0) * s->sched.out_bytes),
                         .to_infer = (uint32_t)s->to_infer,
                         .to_composite = (uint32_t)s->to_composite,
                         .to_write = (uint32_t)TACHY_MAX(made, 0),
                         .in_flight = (uint32_t)(pushed - held),
                         .stream = s->number,
                         .resident_kib = memory ? (uint32_t)(tachy_resident_memory() >> 10) : 0,
                     });
}

void pipeline_queues(const tachy_stream *s, struct tachy_queues *q)
{
    int64_t next = atomic_load(&s->next_pull), pulled = atomic_load(&s->nb_pulled);
    int64_t made = atomic_load(&s->nb_done) - pulled, pushed = atomic_load(&s->next_push);
    made = TACHY_MAX(made, 0);
    *q = (struct tachy_queues){
        .to_infer = atomic_load(&s->to_infer),
        .to_composite = atomic_load(&s->to_composite),
        .to_write = made,
        .in_flight = TACHY_MAX(pushed - next, 0),
        .capacity = s->bounds.depth,
        .bytes = atomic_load(&s->inputs) * s->sched.in_bytes + made * s->sched.out_bytes,
    };
}

void pipeline_keep(struct tachy_pipeline *p, const struct tachy_prof *prof)
{
    p->left = TACHY_DEF(p->left, tachy_prof_new(p->steps));
    if (p->left && prof)
        tachy_prof_merge(p->left, prof);
}

static void merge_turns(const tachy_stream *s, struct tachy_prof *sum)
{
    for (int k = s->first_turn; k < s->nb_spans; k++)
        if (s->turn[k].prof)
            tachy_prof_merge(sum, s->turn[k].prof);
}

void pipeline_merge(tachy_pipeline *p, struct tachy_prof *sum)
{
    for (int i = 0; i < p->nb_workers; i++)
        tachy_prof_merge(sum, p->workers[i].prof);
    pthread_mutex_lock(&p->list);
    if (p->left)
        tachy_prof_merge(sum, p->left);
    for (tachy_stream *s = p->streams; s; s = s->next)
        merge_turns(s, sum);
    pipeline_batch_figures(p, sum);
    pthread_mutex_unlock(&p->list);
}

void tachy_pipeline_stats_sized(size_t s_size, tachy_pipeline *p, struct tachy_summary *s)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && s))
        return;
    struct tachy_prof *all = tachy_prof_new(p->steps);
    if (!all)
        return;
    struct tachy_summary sum;
    tachy_sized_in(&sum, sizeof(sum), s, s_size); // the rest of it stays
    pipeline_merge(p, all);
    sum.nb_steps = tachy_prof_read(all, sum.steps);
    sum.workers = atomic_load(&p->active);
    tachy_sized_out(s, TACHY_MIN(s_size, sizeof(sum)), &sum, sizeof(sum));
    tachy_aligned_free(all);
}

void pipeline_merge_stream(const tachy_stream *s, struct tachy_prof *sum)
{
    for (int i = 0; i < s->pipeline->nb_workers; i++)
        tachy_prof_merge(sum, s->figures[i]);
    merge_turns(s, sum);
}

void pipeline_threads(const struct tachy_pipeline *p, double *cpu_s, double *queued_s)
{
    for (int i = 0; i < p->nb_workers; i++)
        tachy_prof_thread_read(p->workers[i].prof, cpu_s, queued_s);
}

static double busy_s(const struct tachy_prof *p)
{
    uint64_t ns = 0;
    for (int s = 0, n = tachy_rows_count(p->steps); s < n; s++)
        ns += atomic_load(&p->step[s].busy_ns);
    return (double)ns * 1e-9;
}

double pipeline_order_s(const tachy_stream *s)
{
    uint64_t most = 0;
    for (int k = s->first_turn; k < s->nb_spans; k++)
        most = TACHY_MAX(most, atomic_load(&s->turn[k].busy));
    return (double)tachy_ticks_ns(most) * 1e-9;
}

// In ordered spans whose time is counted as no worker's.
static double own_s(const tachy_stream *s)
{
    double sum = 0;
    for (int k = s->first_turn; k < s->nb_spans; k++)
        sum += s->turn[k].prof ? busy_s(s->turn[k].prof) : 0;
    return sum;
}

double pipeline_work_s(struct tachy_pipeline *p)
{
    double sum = 0;
    for (int i = 0; i < p->nb_workers; i++)
        sum += busy_s(p->workers[i].prof);
    pthread_mutex_lock(&p->list);
    if (p->left)
        sum += busy_s(p->left);
    for (tachy_stream *s = p->streams; s; s = s->next)
        sum += own_s(s);
    pthread_mutex_unlock(&p->list);
    return sum;
}

double pipeline_transfer_s(const tachy_stream *s)
{
    const tachy_task *t = s->bind->task;
    uint64_t ns = 0;
    for (int i = 0; i < t->nb_stages; i++)
        ns += atomic_load(&t->stage[i]->transfer_ns);
    return (double)ns * 1e-9;
}

void tachy_stream_stats_sized(size_t out_size, const tachy_stream *s, struct tachy_stream_stats *out)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(s, pipeline->log), s && out))
        return;
    // Pulled before pushed: a difference of the two is never negative.
    int64_t next = atomic_load(&s->next_pull), pulled = atomic_load(&s->nb_pulled);
    int64_t done = atomic_load(&s->nb_done), pushed = atomic_load(&s->next_push);
    struct tachy_stream_stats now = {
        .pushed = pushed,
        .holes = atomic_load(&s->nb_holes),
        .pulled = pulled,
        .waiting = atomic_load(&s->to_infer),
        .finished = TACHY_MAX(done - pulled, 0),
        .in_flight = TACHY_MAX(pushed - next, 0),
        .ended = atomic_load(&s->end) != INT64_MAX,
        .err = atomic_load(&s->err),
    };
    tachy_sized_out(out, out_size, &now, sizeof(now));
}
