#include "profile/profile_priv.h"

#include <stdlib.h>

// What a profile's JSON keeps of single moments, in few rows: the spans of some frames, and memory over time.

enum { FRAMES = 8, MOST_SPANS = 400, MOMENTS = 200 };

struct shown {
    struct tachy_span span;
    int lane;
};

struct shown_list {
    struct shown *span;
    size_t n;
};

static int by_start(const void *a, const void *b)
{
    const struct shown *x = a, *y = b;
    return (x->span.start > y->span.start) - (x->span.start < y->span.start);
}

// Every span of a frame that is kept, by its start. False: no memory.
static bool kept_spans(const struct tachy_profile *p, struct shown_list *list)
{
    size_t room = 0;
    *list = (struct shown_list){0};
    for (int i = 0; i < p->nb_lanes; i++)
        room += (size_t)TACHY_MIN(atomic_load(&p->lane[i]->spans->count), tachy_ring_capacity(p->lane[i]->spans));
    list->span = calloc(room + 1, sizeof(*list->span));
    for (int i = 0; i < p->nb_lanes && list->span; i++) {
        uint64_t n, dropped, (*records)[TACHY_RING_WORDS] = tachy_ring_records(p->lane[i]->spans, &n, &dropped);
        for (uint64_t k = 0; records && k < n && list->n < room; k++) {
            const struct shown s = {tachy_span_of(records[k]), i};
            if (s.span.frame >= 0)
                list->span[list->n++] = s;
        }
        free(records);
    }
    if (list->span)
        qsort(list->span, list->n, sizeof(*list->span), by_start);
    return list->span;
}

static double ms(uint64_t from, uint64_t to) { return (double)tachy_ticks_ns(to - from) * 1e-6; }

json_t *profile_timeline_json(const struct tachy_profile *p)
{
    char name[32];
    struct shown_list all;
    json_t *list = json_array();
    if (!kept_spans(p, &all))
        return list;
    // From the middle, where the pipeline is full; decoders may be near the end by then.
    const struct tachy_span *middle = all.n ? &all.span[all.n / 2].span : NULL;
    int64_t from = middle ? middle->frame : 0, last = from;
    uint64_t first = 0;
    for (size_t i = 0; i < all.n; i++)
        last = all.span[i].span.stream == middle->stream ? TACHY_MAX(last, all.span[i].span.frame) : last;
    from = TACHY_MAX(TACHY_MIN(from, last - FRAMES + 1), 0);
    for (size_t i = 0; i < all.n && json_array_size(list) < MOST_SPANS; i++) {
        const struct tachy_span *s = &all.span[i].span;
        if (s->stream != middle->stream || s->frame < from || s->frame >= from + FRAMES)
            continue;
        first = TACHY_DEF(first, s->start);
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:f, s:f}", "lane", profile_lane_name(p->lane[all.span[i].lane], name),
                                              "step", p->steps.row[s->step].name, "frame", (json_int_t)s->frame, "start_ms",
                                              ms(first, s->start), "end_ms", ms(first, s->end)));
    }
    free(all.span);
    return list;
}

// ---- Memory ----

struct moment {
    uint32_t resident_kib, frames;
    uint64_t bytes;
};

static bool add_moments(struct moment *sum, const struct tachy_ring *ring, uint64_t from, uint64_t to)
{
    struct moment own[MOMENTS] = {0};
    uint64_t n, dropped, (*records)[TACHY_RING_WORDS] = tachy_ring_records(ring, &n, &dropped);
    for (uint64_t i = 0; records && i < n; i++) {
        const struct tachy_sample s = tachy_sample_of(records[i]);
        struct moment *m = &own[TACHY_MIN((s.time - from) * (MOMENTS - 1) / TACHY_MAX(to - from, 1), (uint64_t)MOMENTS - 1)];
        m->resident_kib = TACHY_MAX(m->resident_kib, s.resident_kib);
        m->frames = TACHY_MAX(m->frames, s.in_flight);
        m->bytes = TACHY_MAX(m->bytes, s.bytes);
    }
    for (int i = 0; i < MOMENTS; i++) { // memory is the process's, frames are of each stream
        sum[i].resident_kib = TACHY_MAX(sum[i].resident_kib, own[i].resident_kib);
        sum[i].frames += own[i].frames;
        sum[i].bytes += own[i].bytes;
    }
    free(records);
    return records;
}

// The time that the samples of all streams span.
static void span_of_samples(const struct tachy_profile *p, uint64_t *from, uint64_t *to)
{
    *from = UINT64_MAX, *to = 0;
    for (int i = 0; i < p->nb_lanes; i++) {
        uint64_t n = 0, dropped, (*records)[TACHY_RING_WORDS] = NULL;
        if (p->lane[i]->samples)
            records = tachy_ring_records(p->lane[i]->samples, &n, &dropped);
        for (uint64_t k = 0; records && k < n; k++) {
            *from = TACHY_MIN(*from, tachy_sample_of(records[k]).time);
            *to = TACHY_MAX(*to, tachy_sample_of(records[k]).time);
        }
        free(records);
    }
}

json_t *profile_memory_json(const struct tachy_profile *p)
{
    struct moment sum[MOMENTS] = {0};
    uint64_t from, to;
    json_t *list = json_array();
    span_of_samples(p, &from, &to);
    for (int i = 0; i < p->nb_lanes; i++)
        if (p->lane[i]->samples && to >= from && !add_moments(sum, p->lane[i]->samples, from, to))
            return list;
    for (int i = 0; i < MOMENTS; i++)
        if (sum[i].frames || sum[i].resident_kib)
            json_array_append_new(list, json_pack("{s:f, s:o, s:f, s:I}", "seconds", ms(from, to) * 1e-3 * i / (MOMENTS - 1),
                                                  "resident_mib", sum[i].resident_kib ? json_real(sum[i].resident_kib / 1024.0) : json_null(),
                                                  "in_flight_mib", (double)sum[i].bytes / (1 << 20), "frames", (json_int_t)sum[i].frames));
    return list;
}
