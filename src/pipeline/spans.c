#include "pipeline/spans.h"

static enum pipeline_span_kind kind_of(const struct tachy_stage *st, bool batched)
{
    return st->flags & TACHY_STAGE_ORDERED                ? SPAN_ORDERED
           : batched && st->flags & TACHY_STAGE_BATCHES ? SPAN_BATCHED
                                                          : SPAN_CARRIED;
}

static int index_of_copies(const tachy_task *t)
{
    for (int i = 0; i < t->nb_stages; i++)
        if (t->stage[i]->ops->copy)
            return i;
    return -2;
}

// Sets the span's properties from its stages.
static void describe(const tachy_task *t, struct pipeline_span *s)
{
    s->drops = !t->save || !tachy_task_flag(t, s->end, TACHY_STAGE_REGIONS); // who saves a region saves its frame
    for (int i = s->end; i < t->nb_stages; i++)
        s->drops = s->drops && !(t->stage[i]->flags & TACHY_STAGE_READS);
    s->own = s->kind == SPAN_ORDERED;
    for (int i = s->first; i < s->end; i++)
        s->own = s->own && tachy_stage_of_nobody(t->stage[i]);
}

int pipeline_spans(const tachy_task *t, bool batched, bool copies, struct pipeline_span span[PIPELINE_SPANS])
{
    int n = 0, copied = copies ? index_of_copies(t) : -2;
    bool writes = false; // a span that does is there
    for (int i = 0; i < t->nb_stages; i++) {
        enum pipeline_span_kind kind = kind_of(t->stage[i], batched);
        bool first_writes = !writes && t->stage[i]->flags & TACHY_STAGE_WRITES && kind != SPAN_ORDERED;
        bool goes_on = n && span[n - 1].kind == kind && kind != SPAN_BATCHED && !first_writes && i != copied + 1 &&
                       !t->stage[i]->ahead && !(t->stage[i]->flags & TACHY_STAGE_APART);
        if (i == copied + 1 && kind != SPAN_ORDERED)
            span[n++] = (struct pipeline_span){SPAN_ORDERED, i, i, .copies = true};
        if (first_writes && kind == SPAN_BATCHED) // where items wait until they are near
            span[n++] = (struct pipeline_span){SPAN_CARRIED, i, i, .writes = true};
        if (!goes_on)
            span[n++] = (struct pipeline_span){
                kind, i, i, .writes = first_writes && kind == SPAN_CARRIED, .copies = i == copied + 1 && kind == SPAN_ORDERED};
        span[n - 1].ahead = TACHY_MAX(span[n - 1].ahead, t->stage[i]->ahead);
        span[n - 1].end = i + 1;
        writes = writes || first_writes;
    }
    if (copied == t->nb_stages - 1)
        span[n++] = (struct pipeline_span){SPAN_ORDERED, t->nb_stages, t->nb_stages, .copies = true};
    if (n && span[n - 1].kind == SPAN_BATCHED) // where items come back to
        span[n++] = (struct pipeline_span){SPAN_CARRIED, t->nb_stages, t->nb_stages, .writes = false};
    for (int i = 0; i < n; i++)
        describe(t, &span[i]);
    return n;
}
