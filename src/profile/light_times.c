#include "profile/light_times.h"

#include "base/base.h"

#include <jansson.h>
#include <stdlib.h>

const char *tachy_resource_name(enum tachy_resource r)
{
    static const char *const names[TACHY_RESOURCE_COUNT] = {"cores", "sms", "nvdec", "to_host", "to_device", "nvenc"};
    return (unsigned)r < TACHY_RESOURCE_COUNT ? names[r] : "?";
}

static enum tachy_resource resource_of(const char *name)
{
    int r = TACHY_RESOURCE_COUNT - 1;
    while (r > 0 && (!name || strcmp(name, tachy_resource_name((enum tachy_resource)r)) != 0))
        r--;
    return (enum tachy_resource)r;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void tachy_light_times(const struct tachy_light *l, struct tachy_light_times *t)
{
    for (int s = 0; s < TACHY_MAX_STEPS; s++) {
        double v[TACHY_LIGHT_MOST];
        int n = l->nb[s];
        memcpy(v, l->rate[s], sizeof(v));
        qsort(v, (size_t)n, sizeof(v[0]), compare);
        t->step[s] = n ? 1e3 / ((v[n / 2] + v[(n - 1) / 2]) / 2) : 0;
        t->of[s] = l->of[s];
        t->copies[s] = l->copies[s];
    }
    memcpy(t->link, l->link_ms, sizeof(t->link));
    memcpy(t->link_copies, l->link_copies, sizeof(t->link_copies));
}

// Cost of a frame on each resource of one GPU.
static void sum_up(const struct tachy_light_times *t, double decoded, struct tachy_resource_stats all[TACHY_RESOURCE_COUNT])
{
    for (int r = 0; r < TACHY_RESOURCE_COUNT; r++)
        all[r] = (struct tachy_resource_stats){.light_ms = t->link[r], .copies = t->link_copies[r]};
    for (int s = 0; s < TACHY_MAX_STEPS; s++) {
        struct tachy_resource_stats *of = &all[t->of[s]];
        of->light_ms += t->step[s] * (s == TACHY_STEP_DECODE ? decoded : 1.0);
        of->copies = TACHY_MAX(of->copies, t->copies[s]);
    }
}

// The part of the run's frames that GPU i had; all of one if there are no more.
static double part_of(const struct tachy_summary *sum, int n, int i)
{
    int64_t frames = 0;
    for (int k = 0; k < n && n > 1; k++)
        frames += sum->gpus[k].frames;
    return frames ? (double)sum->gpus[i].frames / (double)frames : 1.0 / n;
}

// One for all GPUs' frames.
static bool shared(enum tachy_resource r) { return r == TACHY_RESOURCE_CORES || r == TACHY_RESOURCE_NVENC; }

// For the GPUs' own resources, the one with the most work counts.
static double of_a_frame(enum tachy_resource r, double sum, double other)
{
    return shared(r) ? sum + other : TACHY_MAX(sum, other);
}

void tachy_light_apply(const struct tachy_light_times *t, int n, double decoded, struct tachy_summary *sum)
{
    struct tachy_resource_stats *all = sum->resources;
    int gpu[TACHY_RESOURCE_COUNT] = {0}; // that has the most to do there
    memset(all, 0, sizeof(sum->resources));
    for (int s = 0; s < sum->nb_steps; s++)
        sum->steps[s].light_ms = 0;
    for (int i = 0; i < n; i++) {
        struct tachy_resource_stats own[TACHY_RESOURCE_COUNT];
        const double part = part_of(sum, n, i);
        sum_up(&t[i], decoded, own);
        for (int s = 0; s < sum->nb_steps; s++)
            sum->steps[s].light_ms = of_a_frame(t[i].of[s], sum->steps[s].light_ms, part * t[i].step[s]);
        for (int r = 0; r < TACHY_RESOURCE_COUNT; r++) {
            if (part * own[r].light_ms > all[r].light_ms)
                gpu[r] = i;
            all[r].light_ms = of_a_frame((enum tachy_resource)r, all[r].light_ms, part * own[r].light_ms);
            if (i == gpu[r])
                all[r].copies = own[r].copies;
            own[r].busy = part * own[r].light_ms * 1e-3 * sum->fps;
        }
        if (n > 1)
            memcpy(sum->gpus[i].resources, own, sizeof(own));
    }
    all[TACHY_RESOURCE_CORES].copies = sum->cores;
    sum->light_ratio = 0;
    sum->light_gpu = -1;
    for (int r = 0; r < TACHY_RESOURCE_COUNT; r++) {
        all[r].busy = all[r].light_ms * 1e-3 * sum->fps;
        if (all[r].busy <= sum->light_ratio)
            continue;
        sum->light_ratio = all[r].busy;
        sum->light_by = (enum tachy_resource)r;
        sum->light_gpu = n > 1 && !shared((enum tachy_resource)r) ? sum->gpus[gpu[r]].gpu : -1;
    }
}

// ---- The file

static char *store_path(const char *dir)
{
    char *cache = dir ? NULL : tachy_cache_dir();
    char *path = dir || cache ? tachy_asprintf("%s/light.json", dir ? dir : cache) : NULL;
    free(cache);
    return path;
}

int tachy_light_load(const char *dir, const char *key, const struct tachy_rows *steps, struct tachy_light_times *t)
{
    char *path = store_path(dir);
    json_t *all = path ? json_load_file(path, 0, NULL) : NULL;
    json_t *row = json_object_get(all, key), *where = json_object_get(row, "where"),
           *link = json_object_get(row, "link"), *threads = json_object_get(row, "link_copies");
    *t = (struct tachy_light_times){0};
    for (int s = 0, n = tachy_rows_count(steps); s < n; s++) {
        const char *name = steps->row[s].name;
        const json_t *at = json_object_get(where, name);
        t->step[s] = json_number_value(json_object_get(row, name));
        t->of[s] = resource_of(json_string_value(json_object_get(at, "resource")));
        t->copies[s] = (int)json_integer_value(json_object_get(at, "copies"));
    }
    for (int r = 0; r < TACHY_RESOURCE_COUNT; r++) {
        const char *name = tachy_resource_name((enum tachy_resource)r);
        t->link[r] = json_number_value(json_object_get(link, name));
        t->link_copies[r] = (int)json_integer_value(json_object_get(threads, name));
    }
    int err = row ? TACHY_OK : TACHY_ERR_NOT_FOUND;
    json_decref(all);
    free(path);
    return err;
}

static json_t *row_of(const struct tachy_rows *steps, const struct tachy_light_times *t)
{
    json_t *row = json_object(), *where = json_object(), *link = json_object(), *threads = json_object();
    for (int s = 0, n = tachy_rows_count(steps); s < n; s++) {
        const char *name = steps->row[s].name;
        json_object_set_new(row, name, json_real(t->step[s]));
        if (t->of[s] != TACHY_RESOURCE_CORES)
            json_object_set_new(where, name, json_pack("{s:s, s:i}", "resource", tachy_resource_name(t->of[s]),
                                                       "copies", t->copies[s]));
    }
    for (int r = 0; r < TACHY_RESOURCE_COUNT; r++) {
        const char *name = tachy_resource_name((enum tachy_resource)r);
        if (t->link[r] > 0)
            json_object_set_new(link, name, json_real(t->link[r]));
        if (t->link_copies[r])
            json_object_set_new(threads, name, json_integer(t->link_copies[r]));
    }
    json_object_set_new(row, "where", where);
    json_object_set_new(row, "link", link);
    json_object_set_new(row, "link_copies", threads);
    return row;
}

int tachy_light_save(const char *dir, const char *key, const struct tachy_rows *steps, const struct tachy_light_times *t,
                     const struct tachy_log *log)
{
    char *path = store_path(dir);
    if (!path)
        return TACHY_ERR_NOT_FOUND;
    json_t *all = json_load_file(path, 0, NULL);
    if (!json_is_object(all)) {
        json_decref(all);
        all = json_object();
    }
    json_object_set_new(all, key, row_of(steps, t));
    char *text = json_dumps(all, JSON_INDENT(1) | JSON_SORT_KEYS);
    int err = text ? tachy_write_file(path, text, strlen(text), log) : TACHY_ERR_NOMEM;
    free(text);
    json_decref(all);
    free(path);
    return err;
}
