#include "stage/quality.h"

#include "postprocess/text.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

// The report over all frames: how often each score is below its threshold, the spread of each value, frames that show the
// same, and sizes that stand out.

struct seen {
    int32_t input;
    int64_t frame;
    uint64_t digest, hash;
    float size; // square root of the pixels
};

struct quality_report {
    char *file;
    pthread_mutex_t lock; // guards the rest
    char **input;
    int32_t nb_inputs;
    struct seen *seen;
    size_t nb, room;
    double sum[TACHY_Q_COUNT], least[TACHY_Q_COUNT], most[TACHY_Q_COUNT];
    int64_t below[TACHY_Q_ISSUES - TACHY_Q_DARK_SCORE];
};

struct quality_report *quality_report_open(const char *file)
{
    struct quality_report *r = calloc(1, sizeof(*r));
    if (!r || !(r->file = strdup(file))) {
        free(r);
        return NULL;
    }
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void quality_report_close(struct quality_report *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->nb_inputs; i++)
        free(r->input[i]);
    pthread_mutex_destroy(&r->lock);
    free(r->input);
    free(r->seen);
    free(r->file);
    free(r);
}

// ---- Adding. Under the lock.

// Index of the input; a new one is added.
static int32_t input_of(struct quality_report *r, const char *name)
{
    name = name ? name : "";
    for (int32_t i = r->nb_inputs - 1; i >= 0; i--)
        if (!strcmp(r->input[i], name))
            return i;
    char **all = realloc(r->input, ((size_t)r->nb_inputs + 1) * sizeof(*all));
    if (!all)
        return TACHY_ERR_NOMEM;
    r->input = all;
    all[r->nb_inputs] = strdup(name);
    return all[r->nb_inputs] ? r->nb_inputs++ : TACHY_ERR_NOMEM;
}

static int add(struct quality_report *r, const struct seen *s, const double value[])
{
    if (r->nb == r->room) {
        size_t room = 2 * r->room + 1024;
        struct seen *all = realloc(r->seen, room * sizeof(*all));
        if (!all)
            return TACHY_ERR_NOMEM;
        r->seen = all;
        r->room = room;
    }
    for (int i = 0; i < TACHY_Q_COUNT; i++) {
        r->sum[i] += value[i];
        r->least[i] = r->nb ? TACHY_MIN(r->least[i], value[i]) : value[i];
        r->most[i] = r->nb ? TACHY_MAX(r->most[i], value[i]) : value[i];
    }
    for (int i = TACHY_Q_DARK_SCORE; i < TACHY_Q_ISSUES; i++)
        r->below[i - TACHY_Q_DARK_SCORE] += value[i] < tachy_quality_thresholds[i - TACHY_Q_DARK_SCORE];
    r->seen[r->nb++] = *s;
    return TACHY_OK;
}

int quality_report_add(struct quality_report *r, const char *input, int64_t id, const double value[TACHY_Q_COUNT],
                       uint64_t digest, uint64_t hash)
{
    struct seen s = {.frame = id, .digest = digest, .hash = hash, .size = (float)sqrt(value[TACHY_Q_MEGAPIXELS] * 1e6)};
    pthread_mutex_lock(&r->lock);
    s.input = input_of(r, input);
    int err = s.input < 0 ? s.input : add(r, &s, value);
    pthread_mutex_unlock(&r->lock);
    return err;
}

// ---- Writing

static int in_order(const struct seen *x, const struct seen *y)
{
    return x->input != y->input ? (x->input > y->input) - (x->input < y->input) : (x->frame > y->frame) - (x->frame < y->frame);
}

static int by_digest(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    return x->digest != y->digest ? (x->digest > y->digest) - (x->digest < y->digest) : in_order(x, y);
}

static int by_hash(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash) : in_order(x, y);
}

static int by_size(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    return x->size != y->size ? (x->size > y->size) - (x->size < y->size) : in_order(x, y);
}

static void add_frame(struct tachy_text *t, const struct quality_report *r, const struct seen *s)
{
    tachy_text_add(t, "{\"input\":");
    tachy_text_string(t, r->input[s->input]);
    tachy_text_add(t, ",\"frame\":%lld}", (long long)s->frame);
}

// Groups of two and more neighbours in the sorted list that are the same.
static void add_groups(struct tachy_text *t, struct quality_report *r, const char *name, bool exact)
{
    size_t i = 0, groups = 0;
    qsort(r->seen, r->nb, sizeof(*r->seen), exact ? by_digest : by_hash);
    tachy_text_add(t, ",\n\"%s\":[", name);
    while (i < r->nb) {
        size_t end = i + 1;
        while (end < r->nb && (exact ? r->seen[end].digest == r->seen[i].digest : r->seen[end].hash == r->seen[i].hash))
            end++;
        for (size_t k = i; k < end && end - i > 1; k++) {
            tachy_text_add(t, k > i ? "," : groups++ ? ",\n[" : "\n[");
            add_frame(t, r, &r->seen[k]);
        }
        tachy_text_add(t, end - i > 1 ? "]" : "%s", "");
        i = end;
    }
    tachy_text_char(t, ']');
}

// Linear between neighbours, as NumPy's default.
static double quartile(const struct quality_report *r, double share)
{
    double at = share * (double)(r->nb - 1);
    size_t i = (size_t)at, next = TACHY_MIN(i + 1, r->nb - 1);
    return (double)r->seen[i].size + (at - (double)i) * (double)(r->seen[next].size - r->seen[i].size);
}

// Farther than three interquartile ranges from the quartiles; if all but a few have one size, every other one.
static void add_odd_sizes(struct tachy_text *t, struct quality_report *r)
{
    bool first = true;
    qsort(r->seen, r->nb, sizeof(*r->seen), by_size);
    double q1 = quartile(r, 0.25), q3 = quartile(r, 0.75), reach = 3 * (q3 - q1);
    tachy_text_add(t, ",\n\"odd_size\":[");
    for (size_t i = 0; i < r->nb; i++) {
        double size = (double)r->seen[i].size;
        if (size >= q1 - reach && size <= q3 + reach)
            continue;
        tachy_text_add(t, first ? "\n" : ",\n");
        add_frame(t, r, &r->seen[i]);
        first = false;
    }
    tachy_text_char(t, ']');
}

static void add_spreads(struct tachy_text *t, const struct quality_report *r)
{
    for (int i = 0; i < TACHY_Q_COUNT; i++) {
        const double v[3] = {r->least[i], r->sum[i] / (double)r->nb, r->most[i]};
        tachy_text_add(t, "%s\n  \"%s\":{\"least\":", i ? "," : "", tachy_quality_names[i]);
        tachy_text_number(t, (float)v[0]);
        tachy_text_add(t, ",\"mean\":");
        tachy_text_number(t, (float)v[1]);
        tachy_text_add(t, ",\"most\":");
        tachy_text_number(t, (float)v[2]);
        if (i >= TACHY_Q_DARK_SCORE && i < TACHY_Q_ISSUES)
            tachy_text_add(t, ",\"threshold\":%g,\"below\":%lld", tachy_quality_thresholds[i - TACHY_Q_DARK_SCORE],
                           (long long)r->below[i - TACHY_Q_DARK_SCORE]);
        tachy_text_char(t, '}');
    }
}

int quality_report_write(struct quality_report *r, const struct tachy_log *log)
{
    struct tachy_text t = {0};
    tachy_text_add(&t, "{\"frames\":%zu,\"inputs\":%d", r->nb, r->nb_inputs);
    if (r->nb) {
        tachy_text_add(&t, ",\n\"values\":{");
        add_spreads(&t, r);
        tachy_text_char(&t, '}');
        add_groups(&t, r, "exact_duplicates", true);
        add_groups(&t, r, "near_duplicates", false);
        add_odd_sizes(&t, r);
    }
    tachy_text_add(&t, "}\n");
    int err = t.failed ? TACHY_ERR_NOMEM : tachy_write_file(r->file, t.p, t.len, log);
    tachy_text_free(&t);
    return err;
}
