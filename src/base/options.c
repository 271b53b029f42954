#include "base/options.h"
#include "base/base.h"

#include <stdio.h>
#include <strings.h>

// Sections whose keys may name an option that another section names too, the more special one
// later: what the whole run is for, how it is worked on, a part, a part of a part, a task.
static const char *const sections[] = {"performance",      "processing",      "gpu",      "model",
                                       "batching.dynamic", "pipeline.stages", "animation"};

size_t tachy_option_count(const struct tachy_option *table)
{
    size_t n = 0;
    while (table[n].path)
        n++;
    return n;
}

int tachy_option_index(const struct tachy_option *table, const char *path)
{
    for (int i = 0; table[i].path; i++)
        if (!strcmp(table[i].path, path))
            return i;
    return -1;
}

// Keys that files of other programs have at the top level or in a task's section; they hold for the whole run.
static const struct habit {
    const char *word, *row;
    struct tachy_key key;
} habits[] = {
    {"batch_size", "model.batch_size", {0}},
    {"clip_batch", "model.batch_size", {0}},
    {"embedding_batch", "model.batch_size", {0}},
    {"arcface_batch", "processing.arcface_batch", {0}},
    {"mediapipe_batch", "processing.mediapipe_batch", {0}},
    {"face_detection_batch", "processing.face_detection_batch", {0}},
    {"optical_flow_batch", "motion.flow_batch", {0}},
    {"audio_chunk_size", "processing.audio_chunk_size", {0}},
    {"lama_batch", "inpaint.lama_batch", {0}},
    {"sam2_batch", "masks.sam2_batch", {0}},
    {"num_workers", "model.num_workers", {0}},
    {"device", "gpu.device", {0}},
    {"use_fp16", "gpu.fp16", {0}},
    {"mixed_precision", "gpu.precision", {"mixed_precision", "mixed", "fp32"}},
    {"pin_memory", "dataloader.pin_memory", {0}},
    {"use_multiprocessing", "processing.use_multiprocessing", {0}},
};

// True if a row below `path`, of `size` bytes, belongs to a task.
static bool is_task_section(const struct tachy_option *table, const char *path, size_t size)
{
    for (const struct tachy_option *o = table; o->path; o++)
        if (o->verbs & TACHY_VERB_TASKS && !(o->verbs & ~TACHY_VERB_TASKS) && !strncmp(o->path, path, size) && o->path[size] == '.')
            return true;
    return false;
}

static const struct habit *habit_of(const struct tachy_option *table, const char *path)
{
    const char *dot = strrchr(path, '.'), *word = dot ? dot + 1 : path;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(habits); i++)
        if (!strcmp(habits[i].word, word) && (!dot || is_task_section(table, path, (size_t)(dot - path))))
            return &habits[i];
    return NULL;
}

static const struct tachy_option *by_habit(const struct tachy_option *table, const char *path, const struct tachy_key **key)
{
    const struct habit *h = habit_of(table, path);
    int i = h ? tachy_option_index(table, h->row) : -1;
    if (i >= 0 && h->key.path)
        *key = &h->key;
    return i < 0 ? NULL : &table[i];
}

const struct tachy_option *tachy_option_by_key(const struct tachy_option *table, const char *path,
                                               const struct tachy_key **key)
{
    *key = NULL;
    for (const struct tachy_option *o = table; o->path; o++) {
        if (!strcmp(o->path, path))
            return o;
        for (const struct tachy_key *k = o->keys; k && k->path; k++) {
            if (!strcmp(k->path, path)) {
                *key = k;
                return o;
            }
        }
    }
    return by_habit(table, path, key);
}

// True if `path` lies below `section`.
static bool is_below(const char *path, const char *section)
{
    size_t n = strlen(section);
    return !strncmp(path, section, n) && path[n] == '.';
}

int tachy_option_order(const char *key)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(sections); i++)
        if (is_below(key, sections[i]))
            return (int)i + 1;
    return 0;
}

bool tachy_option_is_section(const struct tachy_option *table, const char *path)
{
    for (const struct tachy_option *o = table; o->path; o++) {
        if (!o->command_only && is_below(o->path, path))
            return true;
        for (const struct tachy_key *k = o->keys; k && k->path; k++)
            if (is_below(k->path, path))
                return true;
    }
    return false;
}

int tachy_word_at(const char *words, const char *word)
{
    size_t len = strlen(word);
    int at = 0;
    for (const char *p = words; p && *p; at++) {
        size_t n = strcspn(p, "|");
        if (n == len && !memcmp(p, word, n))
            return at;
        p += n + (p[n] == '|');
    }
    return -1;
}

bool tachy_word_in(const char *words, const char *word) { return tachy_word_at(words, word) >= 0; }

static const struct tachy_option *find(const struct tachy_option *table, const char *name)
{
    const struct tachy_key *key;
    const struct tachy_option *row = tachy_option_by_key(table, name, &key);
    if (row)
        return row;
    for (const struct tachy_option *o = table; o->path; o++) {
        if (o->name && !strcmp(o->name, name))
            return o;
        if (o->letter && name[0] == o->letter && !name[1])
            return o;
        if (tachy_word_in(o->aliases, name))
            return o;
    }
    return NULL;
}

enum { NAMES_MAX = 2 * TACHY_OPTIONS_MAX }; // a unit test holds that all keys fit

// Paths and other keys, of rows of files or of all.
static size_t list_keys(const struct tachy_option *table, const char **out, bool all)
{
    size_t n = 0;
    for (const struct tachy_option *o = table; o->path; o++) {
        if (!all && o->command_only)
            continue;
        if (n < NAMES_MAX)
            out[n++] = o->path;
        for (const struct tachy_key *k = o->keys; k && k->path && n < NAMES_MAX; k++)
            out[n++] = k->path;
    }
    return n;
}

const struct tachy_option *tachy_option_find_in(const struct tachy_option *table, const char *name,
                                                const char **nearest)
{
    TACHY_CLEAR(nearest);
    const struct tachy_option *o = name ? find(table, name) : NULL;
    if (o || !nearest || !name)
        return o;
    const char *names[NAMES_MAX];
    size_t n = tachy_option_count(table);
    for (size_t i = 0; i < n; i++)
        names[i] = table[i].name;
    if (strchr(name, '.'))
        n = list_keys(table, names, true);
    *nearest = tachy_nearest(name, names, n);
    return NULL;
}

const char *tachy_option_shown(const struct tachy_option *o, char *buf, size_t size)
{
    if (!o->name && !o->letter)
        return o->path;
    if (o->name)
        snprintf(buf, size, "%s%s", o->one_dash ? "-" : "--", o->name);
    else
        snprintf(buf, size, "-%c", o->letter);
    return buf;
}

const char *tachy_option_nearest_path(const struct tachy_option *table, const char *key)
{
    const char *last = strrchr(key, '.');
    const struct tachy_option *o = find(table, last ? last + 1 : key);
    if (o && !o->command_only)
        return o->path;
    const char *paths[NAMES_MAX] = {NULL};
    size_t n = list_keys(table, paths, false);
    const char *best = tachy_nearest(key, paths, n);
    if (best)
        return best;
    // A bare last part of a path: "batch_size" means "model.batch_size".
    for (size_t i = 0; i < n; i++)
        if (!strcasecmp(strrchr(paths[i], '.') + 1, last ? last + 1 : key))
            return paths[i];
    return NULL;
}

// "batch_size" of "model.batch_size"; also "max_latency" of "performance.max_latency_ms".
static bool is_last_part(const char *path, const char *name)
{
    const char *last = strrchr(path, '.') + 1;
    size_t n = strlen(name);
    return n && !strncmp(last, name, n) && (!last[n] || !strcmp(last + n, "_ms"));
}

const struct tachy_option *tachy_option_lookup_in(const struct tachy_option *table, const char *name,
                                                  const char **nearest)
{
    char dashed[64];
    const struct tachy_option *o = tachy_option_find_in(table, name, nearest);
    if (!name)
        return NULL;
    snprintf(dashed, sizeof(dashed), "%s", name);
    for (char *p = dashed; *p; p++)
        *p = *p == '_' ? '-' : *p;
    o = o ? o : find(table, dashed);
    if (o)
        return o;
    for (o = table; o->path; o++) {
        if (is_last_part(o->path, name))
            return o;
        for (const struct tachy_key *k = o->keys; k && k->path; k++)
            if (is_last_part(k->path, name))
                return o;
    }
    return NULL;
}
