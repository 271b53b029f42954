#include "curate/curate.h"
#include "measure/quality.h"
#include "stage/small.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

// Finds scenes and duplicates among the frames of all inputs, without a task. It looks at a luma picture of 32 x 32
// samples of each frame. Used by the reader's thread.

enum { SIDE = 32, SAMPLES = SIDE * SIDE, BINS = 32, RECENT = 8 };
// A cut: the picture changes by CUT_CHANGE of the range of luma more than three times what it changed by lately (motion, and
// cameras that move), and its histogram has moved by CUT_HISTOGRAM, or the change is CUT_SURE.
static const double CUT_CHANGE = 0.03, CUT_HISTOGRAM = 0.15, CUT_SURE = 0.2;

struct seen {
    uint64_t hash, digest;
    const struct curate_file *file; // NULL: of an earlier run
    const char *name;               // of the input
    int64_t frame;
};

struct curate_look {
    bool compare; // with the frames before
    int near;     // bits
    struct small_picture luma;
    int width, height;
    const struct curate_file *file; // that is being read
    uint8_t before[SAMPLES];
    double change[RECENT];
    int nb_changes, frames;
    int64_t scene;
    struct seen *seen; // frames that are no duplicates
    size_t nb;
    char **name; // of inputs of earlier runs
    size_t nb_names;
};

// ---- Scenes

static double change_of(const uint8_t *a, const uint8_t *b)
{
    int sum = 0;
    for (int i = 0; i < SAMPLES; i++)
        sum += abs(a[i] - b[i]);
    return sum / (255.0 * SAMPLES);
}

// 0: the same; 1: nothing in common.
static double histogram_moved(const uint8_t *a, const uint8_t *b)
{
    int bin[BINS] = {0}, sum = 0;
    for (int i = 0; i < SAMPLES; i++) {
        bin[a[i] * BINS / 256]++;
        bin[b[i] * BINS / 256]--;
    }
    for (int i = 0; i < BINS; i++)
        sum += abs(bin[i]);
    return sum / (2.0 * SAMPLES);
}

static bool cuts(struct curate_look *l, const uint8_t *luma)
{
    double change = change_of(luma, l->before), lately = 0;
    int n = TACHY_MIN(l->nb_changes, RECENT);
    for (int i = 0; i < n; i++)
        lately += l->change[i] / n;
    bool cut = change > CUT_CHANGE + 3 * lately && (change > CUT_SURE || histogram_moved(luma, l->before) > CUT_HISTOGRAM);
    if (cut)
        l->nb_changes = 0;
    else
        l->change[l->nb_changes++ % RECENT] = change;
    return cut;
}

static void find_scene(struct curate_look *l, struct curate_record *r)
{
    r->cut = l->frames == 0 || cuts(l, l->luma.data);
    l->scene += r->cut && l->frames;
    r->scene = l->scene;
    l->frames++;
    memcpy(l->before, l->luma.data, SAMPLES);
}

// ---- Duplicates

static int add_seen(struct curate_look *l, const struct seen *s)
{
    if (!(l->nb & (l->nb - 1))) {
        struct seen *more = realloc(l->seen, (l->nb ? 2 * l->nb : 1) * sizeof(*more));
        if (!more)
            return TACHY_ERR_NOMEM;
        l->seen = more;
    }
    l->seen[l->nb++] = *s;
    return TACHY_OK;
}

// Names the nearest frame, or the first of several that are equally near.
static int compare(struct curate_look *l, struct curate_record *r)
{
    const struct seen own = {r->hash, r->digest, l->file, l->file->path, r->head.id};
    const struct seen *of = NULL;
    int bits = l->near + 1;
    r->duplicate = 0;
    for (size_t i = 0; i < l->nb && r->duplicate < 2; i++) {
        const struct seen *s = &l->seen[i];
        int apart = __builtin_popcountll(s->hash ^ own.hash);
        bool same = s->digest == own.digest;
        if (!same && apart >= bits)
            continue;
        r->duplicate = same ? 2 : 1;
        bits = apart;
        of = s;
    }
    if (!of)
        return add_seen(l, &own);
    r->of_file = of->name;
    r->of_frame = of->frame;
    return TACHY_OK;
}

// Frames of a file that failed are not there.
static void forget(struct curate_look *l, const struct curate_file *f)
{
    size_t n = 0;
    for (size_t i = 0; i < l->nb; i++)
        if (l->seen[i].file != f)
            l->seen[n++] = l->seen[i];
    l->nb = n;
}

// Calls `each` for the frames in results.jsonl that were compared, with their line.
static int scan(const struct curate *c, int (*each)(void *user, const struct seen *s, int duplicate, const char *line), void *user)
{
    char *path = tachy_asprintf("%s/results.jsonl", curate_ledger_dir(c)), *line = NULL;
    size_t room = 0;
    int64_t left = curate_ledger_at(c);
    ssize_t n;
    FILE *f = path ? fopen(path, "r") : NULL;
    int err = f ? TACHY_OK : TACHY_ERR_IO;
    while (err == TACHY_OK && left > 0 && (n = getline(&line, &room, f)) > 0) {
        struct seen s = {0};
        int duplicate;
        const char *at = strstr(line, ",\"duplicate\":"); // in a text of JSON its quotes have backslashes
        left -= n;
        if (at && sscanf(at, ",\"duplicate\":%d,\"hash\":\"%" SCNx64 "\",\"digest\":\"%" SCNx64, &duplicate, &s.hash, &s.digest) == 3)
            err = each(user, &s, duplicate, line);
    }
    if (f)
        fclose(f);
    free(line);
    free(path);
    return err;
}

// The input's name, kept once while its frames come one after the other; NULL: out of memory.
static const char *keep_name(struct curate_look *l, const char *name)
{
    if (l->nb_names && !strcmp(l->name[l->nb_names - 1], name))
        return l->name[l->nb_names - 1];
    char **all = realloc(l->name, (l->nb_names + 1) * sizeof(*all));
    if (!all)
        return NULL;
    l->name = all;
    all[l->nb_names] = strdup(name);
    return all[l->nb_names] ? all[l->nb_names++] : NULL;
}

static int remember(void *look, const struct seen *s, int duplicate, const char *line)
{
    struct seen own = *s;
    if (duplicate)
        return TACHY_OK;
    json_t *o = json_loads(line, 0, NULL);
    const char *name = json_string_value(json_object_get(o, "file"));
    own.name = keep_name(look, name ? name : "");
    own.frame = json_integer_value(json_object_get(o, "frame"));
    json_decref(o);
    return own.name ? add_seen(look, &own) : TACHY_ERR_NOMEM;
}

struct report {
    struct tachy_curate_summary *sum;
    struct tachy_text text;
};

static int count(void *report, const struct seen *s, int duplicate, const char *line)
{
    struct report *r = report;
    r->sum->duplicates += duplicate == 2;
    r->sum->near_duplicates += duplicate == 1;
    json_t *o = duplicate ? json_loads(line, 0, NULL) : NULL, *of = json_object_get(o, "duplicate_of");
    char *own = of ? json_dumps(json_object_get(o, "file"), JSON_ENCODE_ANY) : NULL, *first = own ? json_dumps(of, JSON_COMPACT) : NULL;
    if (first) {
        tachy_text_add(&r->text, "{\"duplicate\":%d,\"file\":", duplicate);
        tachy_text_put(&r->text, own, strlen(own));
        tachy_text_add(&r->text, ",\"frame\":%lld,\"of\":", (long long)json_integer_value(json_object_get(o, "frame")));
        tachy_text_put(&r->text, first, strlen(first));
        tachy_text_add(&r->text, "}\n");
    }
    free(own);
    free(first);
    json_decref(o);
    return TACHY_OK;
}

int curate_look_count(struct curate *c)
{
    struct report r = {.sum = &c->sum};
    if (!c->look || !c->look->compare)
        return TACHY_OK;
    char *path = tachy_asprintf("%s/duplicates.jsonl", curate_ledger_dir(c));
    int err = path ? scan(c, count, &r) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = r.text.failed ? TACHY_ERR_NOMEM : tachy_write_file(path, r.text.len ? r.text.p : "", r.text.len, c->log);
    tachy_text_free(&r.text);
    free(path);
    return err;
}

// ---- For the reader

static bool named(const struct curate *c, const char *name)
{
    for (int i = 0; i < c->names.n; i++)
        if (!strcmp(c->names.name[i], name))
            return true;
    return false;
}

int curate_look_open(struct curate *c)
{
    bool compared = named(c, "duplicate") || tachy_settings_is_set(c->set, "curate.near");
    if (!compared && !named(c, "scene") && !named(c, "cut"))
        return TACHY_OK;
    if (compared && c->shards)
        return tachy_fail(c->log, TACHY_ERR_INVAL, "duplicates are looked for among the frames of all inputs, which one of --shard does "
                          "not see; leave out --shard, or duplicate and --near");
    if (!(c->look = calloc(1, sizeof(*c->look))))
        return TACHY_ERR_NOMEM;
    c->look->compare = compared;
    c->look->near = (int)tachy_settings_int(c->set, "curate.near");
    return compared ? scan(c, remember, c->look) : TACHY_OK;
}

void curate_look_close(struct curate *c)
{
    if (c->look) {
        small_close(&c->look->luma);
        for (size_t i = 0; i < c->look->nb_names; i++)
            free(c->look->name[i]);
        free(c->look->name);
        free(c->look->seen);
        free(c->look);
    }
}

void curate_look_begin(struct curate *c, struct curate_file *f)
{
    struct curate_look *l = c->look;
    if (!l)
        return;
    l->file = f;
    l->frames = l->nb_changes = 0;
    l->scene = 0;
    if (f->looked) // a second try
        forget(l, f);
    f->looked = true;
}

void curate_look_failed(struct curate *c, const struct curate_file *f)
{
    if (c->look)
        forget(c->look, f);
}

static int fit(struct curate_look *l, const tachy_frame *f, const struct tachy_log *log)
{
    if (l->width == f->width && l->height == f->height)
        return TACHY_OK;
    small_close(&l->luma);
    int err = small_open(&l->luma, TACHY_LUMA, SIDE, SIDE, log);
    l->width = err == TACHY_OK ? f->width : 0;
    l->height = f->height;
    return err;
}

int curate_look(struct curate *c, struct curate_record *r)
{
    struct curate_look *l = c->look;
    tachy_frame *host = NULL;
    if (!l)
        return TACHY_OK;
    int err = tachy_frame_download(&host, r->frame, c->log);
    if (err == TACHY_OK)
        err = fit(l, host, c->log);
    if (err == TACHY_OK)
        err = small_make(&l->luma, host);
    r->looked = err == TACHY_OK;
    if (err == TACHY_OK)
        find_scene(l, r);
    if (err == TACHY_OK && l->compare) {
        r->compared = true;
        r->hash = tachy_quality_hash(l->luma.data);
        r->digest = tachy_quality_digest(host);
        err = compare(l, r);
    }
    tachy_frame_unref(&host);
    return err;
}
