#include "plan/cpu/choice.h"

#include "base/base.h"
#include "base/clock.h"

#include <stdlib.h>

// Times kernels against each other in the network's own order: the whole plan runs repeatedly, each shape with its next
// kernel in each run, and every step is timed. So a step finds the caches as in normal use, one run times a kernel of
// every shape, and kernels take turns, so that other load on the machine affects all of them. A step's time is its
// minimum; a kernel that falls behind is dropped. In the end the chosen kernels together run against the defaults, and
// each is kept only if it wins again. The choice changes no bit of a result.

static const struct {
    double seconds; // at most
    int rounds;     // that a kernel runs at most
    int pairs;      // of runs in the end
} efforts[] = {{0, 0, 0}, {0.5, 4, 4}, {3, 16, 12}, {30, 64, 40}};

// Limit for packed weights held at a time besides the defaults', so that building takes little more memory than
// running.
enum { PACKED_LIMIT = 32 << 20 };

// Data for the timed runs, all on this thread.
struct timing {
    struct choice *c;
    float **base; // as a run has it
    float *arena, *scratch;
    int nb_ends; // inputs and outputs, at base + BASE_INPUTS
    uint64_t *ns; // of each step in the last run
    uint64_t total; // of all
    int *order;     // groups by time, the longest first
};

static void timing_close(struct timing *t)
{
    for (int i = 0; t->base && i < t->nb_ends; i++)
        tachy_aligned_free(t->base[BASE_INPUTS + i]);
    tachy_aligned_free(t->arena);
    tachy_aligned_free(t->scratch);
    free(t->base);
    free(t->ns);
    free(t->order);
}

// Scratch that the kernel with the most needs.
static size_t scratch_bytes(const struct choice *c)
{
    size_t most = c->b->plan->scratch * sizeof(float);
    struct tachy_conv conv;
    for (int g = 0; g < c->nb_groups; g++)
        for (int i = 0; i < c->groups[g].nb; i++) {
            tachy_conv_setup(&conv, &c->groups[g].shape, &c->groups[g].v[i]);
            most = TACHY_MAX(most, tachy_conv_scratch_size(&conv, c->groups[g].scaled));
        }
    size_t band = 0;
    for (int i = 0; i < c->b->plan->nb_steps; i++)
        band = TACHY_MAX(band, plan_joined_band(&c->b->plan->steps[i]));
    return TACHY_MAX(band + most, 64);
}

// Numbers in 0..1, as pictures have them; zeros for integers.
static void *noise(const struct tachy_value *v)
{
    size_t n = (size_t)TACHY_MAX(tachy_value_elements(v), 1), size = n * TACHY_MAX(tachy_dtype_size(v->dtype), 4);
    float *data = tachy_aligned_alloc(size);
    uint32_t seed = 1;
    if (data)
        memset(data, 0, size);
    for (size_t i = 0; data && v->dtype == TACHY_F32 && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)(seed >> 8) / (float)(1 << 24);
    }
    return data;
}

static int timing_open(struct timing *t, struct choice *c)
{
    const struct tachy_graph *g = c->b->g;
    const struct tachy_cpu_plan *p = c->b->plan;
    *t = (struct timing){.c = c};
    t->base = calloc((size_t)BASE_INPUTS + (size_t)p->nb_in + (size_t)p->nb_out, sizeof(*t->base));
    t->ns = calloc((size_t)TACHY_MAX(p->nb_steps, 1), sizeof(*t->ns));
    t->order = calloc((size_t)TACHY_MAX(c->nb_groups, 1), sizeof(*t->order));
    t->arena = tachy_aligned_alloc(TACHY_MAX(p->arena, 16) * sizeof(float));
    t->scratch = tachy_aligned_alloc(scratch_bytes(c));
    if (!t->base || !t->ns || !t->order || !t->arena || !t->scratch)
        return TACHY_ERR_NOMEM;
    t->base[BASE_ARENA] = t->arena;
    t->base[BASE_WEIGHTS] = p->weights;
    t->base[BASE_SCRATCH] = t->scratch;
    for (int i = 0; i < p->nb_in + p->nb_out; i++) {
        t->base[BASE_INPUTS + i] = noise(i < p->nb_in ? g->in[i] : g->out[i - p->nb_in]);
        t->nb_ends++;
        if (!t->base[BASE_INPUTS + i])
            return TACHY_ERR_NOMEM;
    }
    return TACHY_OK;
}

static void run(struct timing *t)
{
    const struct tachy_cpu_plan *p = t->c->b->plan;
    struct plan_run r = {t->base};
    uint64_t start = tachy_now_ns(), before = start;
    for (int i = 0; i < p->nb_steps; i++) {
        p->steps[i].run(&p->steps[i], &r, 0, p->steps[i].rows);
        uint64_t now = tachy_now_ns();
        t->ns[i] = TACHY_MAX(now - before, 1);
        before = now;
    }
    t->total = before - start;
}

// Takes the last run's times over, each for the kernel that ran.
static void record(struct timing *t)
{
    struct choice *c = t->c;
    for (int g = 0; g < c->nb_groups; g++)
        c->groups[g].time[c->groups[g].current] = 0;
    for (int k = 0; k < c->b->nb_kernels; k++) {
        struct choice_member *m = &c->members[k];
        struct choice_group *g = &c->groups[m->group];
        uint64_t *best = &m->best[g->current], ns = t->ns[choice_timed_step(c, k) - c->b->plan->steps];
        *best = *best ? TACHY_MIN(*best, ns) : ns;
        g->time[g->current] += *best;
    }
}

static int best_of(const struct choice_group *g)
{
    int best = 0;
    for (int i = 1; i < g->nb; i++)
        if (g->time[i] && (!g->time[best] || g->time[i] < g->time[best]))
            best = i;
    return best;
}

// Drops kernels that fall behind the best one, except the default, which gains are measured against.
static void drop(struct choice_group *g)
{
    double most = g->rounds >= 8 ? 1.03 : g->rounds >= 4 ? 1.08 : g->rounds >= 2 ? 1.25 : 1e9;
    uint64_t best = g->time[best_of(g)];
    for (int i = 1; i < g->nb; i++)
        g->out[i] = g->out[i] || (double)g->time[i] > most * (double)best;
}

// The next kernel of a group that is not settled.
static void advance(struct timing *t, int group, int rounds)
{
    struct choice_group *g = &t->c->groups[group];
    int next = g->current + 1, left = 0;
    while (next < g->nb && g->out[next])
        next++;
    if (next == g->nb) {
        next = 0;
        g->rounds++;
        drop(g);
    }
    for (int i = 0; i < g->nb; i++)
        left += !g->out[i];
    g->closed = left == 1 || g->rounds >= rounds;
    g->current = g->closed ? best_of(g) : next;
    choice_use(t->c, group, g->current);
}

// Times groups order[from..to-1]; the others run what they run.
static void time_groups(struct timing *t, int from, int to, int rounds, uint64_t until)
{
    struct choice_group *groups = t->c->groups;
    for (bool open = true; open && tachy_now_ns() < until;) {
        run(t);
        record(t);
        open = false;
        for (int i = from; i < to; i++) {
            if (!groups[t->order[i]].closed)
                advance(t, t->order[i], rounds);
            open = open || !groups[t->order[i]].closed;
        }
    }
}

// Chooses a group's kernel: the best one if its gain exceeds the uncertainty of so few times.
static void decide(struct timing *t, int group)
{
    struct choice *c = t->c;
    struct choice_group *g = &c->groups[group];
    int best = best_of(g);
    double least = g->rounds >= 8 ? 0.98 : g->rounds >= 2 ? 0.96 : 0.9;
    bool gains = (double)g->time[best] < least * (double)g->time[0];
    g->chosen = gains ? best : 0;
    g->current = g->chosen;
    choice_use(c, group, g->chosen);
    for (int k = 0; k < c->b->nb_kernels; k++)
        for (int i = 1; i < g->nb && c->members[k].group == group; i++)
            if (i != g->chosen)
                plan_packed_unref(&c->members[k].packed[i]);
}

// True if an earlier variant packs weights in the same way; they then share one copy.
static bool packs_alike(const struct choice_group *g, int i)
{
    int k = 0;
    while (g->v[k].isa != g->v[i].isa || g->v[k].depthwise != g->v[i].depthwise || g->v[k].vectors != g->v[i].vectors)
        k++;
    return k < i;
}

static size_t packed_bytes(const struct choice *c, int group)
{
    const struct choice_group *g = &c->groups[group];
    size_t one = 0, all = 0;
    struct tachy_conv conv;
    for (int i = 1; i < g->nb; i++) {
        tachy_conv_setup(&conv, &g->shape, &g->v[i]);
        one += packs_alike(g, i) ? 0 : tachy_conv_packed_size(&conv);
    }
    for (int k = 0; k < c->b->nb_kernels; k++)
        all += c->members[k].group == group ? one : 0;
    return all;
}

static int pack_group(struct choice *c, int group)
{
    int err = TACHY_OK;
    for (int k = 0; k < c->b->nb_kernels; k++)
        for (int i = 0; i < c->groups[group].nb && !err && c->members[k].group == group; i++)
            err = choice_pack(c, k, i);
    return err;
}

// Runs twice with every default: the first run warms up. Sorts the groups and drops those that have no other kernel or
// take negligible time. Returns how many are left.
static int sort_groups(struct timing *t)
{
    struct choice *c = t->c;
    int n = 0;
    run(t);
    run(t);
    record(t);
    for (int g = 0; g < c->nb_groups; g++) {
        uint64_t time = c->groups[g].time[0];
        if (c->groups[g].nb < 2 || time < t->total / 500)
            continue;
        int i = n++;
        for (; i > 0 && c->groups[t->order[i - 1]].time[0] < time; i--)
            t->order[i] = t->order[i - 1];
        t->order[i] = g;
    }
    return n;
}

// Groups in portions whose weights fit the memory set aside, the longest first, each with its share
// of the time.
static int time_all(struct timing *t, int nb, double seconds, int rounds)
{
    struct choice *c = t->c;
    uint64_t until = tachy_now_ns() + (uint64_t)(seconds * 1e9), left = 0;
    for (int i = 0; i < nb; i++)
        left += c->groups[t->order[i]].time[0];
    for (int from = 0, to; from < nb; from = to) {
        size_t bytes = 0;
        uint64_t part = 0, now = tachy_now_ns();
        for (to = from; to < nb; to++) {
            size_t more = packed_bytes(c, t->order[to]);
            if (to > from && bytes + more > PACKED_LIMIT)
                break;
            bytes += more;
            part += c->groups[t->order[to]].time[0];
            if (pack_group(c, t->order[to]) < 0)
                return TACHY_ERR_NOMEM;
        }
        double share = until > now && left ? (double)(until - now) * (double)part / (double)left : 0;
        time_groups(t, from, to, rounds, now + (uint64_t)share);
        for (int i = from; i < to; i++)
            decide(t, t->order[i]);
        left -= part;
    }
    return TACHY_OK;
}

static void use_all(struct choice *c, bool chosen)
{
    for (int g = 0; g < c->nb_groups; g++)
        if (c->groups[g].chosen)
            choice_use(c, g, chosen ? c->groups[g].chosen : 0);
}

// Runs with the defaults (0) or as chosen (1) and takes each step's least time over.
static void run_pair(struct timing *t, bool chosen, uint64_t *least)
{
    use_all(t->c, chosen);
    run(t);
    for (int i = 0; i < t->c->b->plan->nb_steps; i++)
        least[i] = least[i] ? TACHY_MIN(least[i], t->ns[i]) : t->ns[i];
}

// A group's steps in the runs of compare().
static uint64_t sum_of(const struct choice *c, int group, const uint64_t *least)
{
    uint64_t sum = 0;
    for (int k = 0; k < c->b->nb_kernels; k++)
        sum += c->members[k].group == group ? least[choice_timed_step(c, k) - c->b->plan->steps] : 0;
    return sum;
}

// Sum of the steps' minimum times, because on a busy machine no long run is undisturbed.
static double run_ms(const struct tachy_cpu_plan *p, const uint64_t *least)
{
    uint64_t total = 0;
    for (int i = 0; i < p->nb_steps; i++)
        total += least[i];
    return (double)total / 1e6;
}

// Returns groups whose choice does not win again to their default. The run's time has the chosen times of their steps,
// each once: two joined convolutions share a step. Overwrites defaults[].
static void confirm(struct timing *t, struct plan_choice *about, uint64_t *defaults, const uint64_t *chosen)
{
    struct choice *c = t->c;
    struct tachy_cpu_plan *p = c->b->plan;
    about->default_run_ms = run_ms(p, defaults);
    for (int g = 0; g < c->nb_groups; g++)
        if ((double)sum_of(c, g, chosen) > 0.995 * (double)sum_of(c, g, defaults))
            c->groups[g].chosen = 0;
    for (int k = 0; k < c->b->nb_kernels; k++) {
        ptrdiff_t i = choice_timed_step(c, k) - p->steps;
        if (c->groups[c->members[k].group].chosen)
            defaults[i] = chosen[i];
    }
    about->run_ms = run_ms(p, defaults);
}

// The choices together against the defaults, in turn.
static int compare(struct timing *t, struct plan_choice *about, int pairs, double seconds)
{
    int n = t->c->b->plan->nb_steps;
    uint64_t until = tachy_now_ns() + (uint64_t)(seconds * 1e9);
    uint64_t *least = calloc(2 * (size_t)TACHY_MAX(n, 1), sizeof(*least));
    if (!least)
        return TACHY_ERR_NOMEM;
    for (int i = 0; i < pairs && (i < 2 || tachy_now_ns() < until); i++)
        for (int k = 0; k < 2; k++)
            run_pair(t, (i + k) % 2, least + (i + k) % 2 * n);
    confirm(t, about, least, least + n);
    free(least);
    return TACHY_OK;
}

int choice_time(struct choice *c, struct plan_choice *about, int effort, int parts)
{
    struct timing t;
    double seconds = efforts[effort].seconds / parts;
    uint64_t start = tachy_now_ns();
    int err = timing_open(&t, c);
    for (int k = 0; k < c->b->nb_kernels && !err; k++)
        err = choice_pack(c, k, 0);
    for (int g = 0; g < c->nb_groups && !err; g++)
        choice_use(c, g, 0);
    if (!err) {
        int nb = sort_groups(&t);
        err = time_all(&t, nb, seconds * 0.85, efforts[effort].rounds);
    }
    if (!err)
        err = compare(&t, about, efforts[effort].pairs, seconds * 0.15);
    about->effort = effort;
    about->seconds = (double)(tachy_now_ns() - start) / 1e9;
    timing_close(&t);
    return err;
}
