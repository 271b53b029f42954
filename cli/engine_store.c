#include "engine.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The engine store: tachy/store.h.

static struct tachy_store_params params_of(const struct cli *c)
{
    const char *const *options;
    struct tachy_store_params p = {.log = &c->log};
    size_t n = tachy_settings_list(c->settings, "model.provider_options", &options);
    for (size_t i = 0; i < n; i++)
        if (!strncmp(options[i], "store=", 6))
            p.dir = options[i] + 6;
    return p;
}

// "2026-11-21", UTC; the store knows no finer.
static const char *day(int64_t used, char buf[16])
{
    time_t t = (time_t)used;
    struct tm tm;
    if (!gmtime_r(&t, &tm) || !strftime(buf, 16, "%Y-%m-%d", &tm))
        snprintf(buf, 16, "?");
    return buf;
}

static json_t *list_json(const struct tachy_store_entries *l)
{
    char used[16];
    json_t *rows = json_array();
    for (int i = 0; i < l->nb_entries; i++) {
        const struct tachy_store_entry *e = &l->entries[i];
        json_array_append_new(rows, json_pack("{s:s, s:s, s:I, s:s, s:s}", "key", e->key, "title", e->title, "bytes",
                                              (json_int_t)e->bytes, "used", day(e->used, used), "state",
                                              tachy_store_state_name(e->state)));
    }
    return json_pack("{s:s, s:I, s:o}", "dir", l->dir, "bytes", (json_int_t)l->bytes, "entries", rows);
}

static void print_list(const struct tachy_store_entries *l)
{
    char used[16];
    printf("# %s: %d entries, %.1f KiB\n", l->dir, l->nb_entries, (double)l->bytes / 1024);
    if (l->nb_entries)
        printf("%-32s %-10s %8s %-8s %s\n", "KEY", "USED", "BYTES", "STATE", "WHAT");
    for (int i = 0; i < l->nb_entries; i++) {
        const struct tachy_store_entry *e = &l->entries[i];
        printf("%-32s %-10s %8llu %-8s %s\n", e->key, day(e->used, used), (unsigned long long)e->bytes,
               tachy_store_state_name(e->state), *e->title ? e->title : "-");
    }
}

int engine_ls(struct cli *c)
{
    struct tachy_store_params p = params_of(c);
    struct tachy_store_entries *l = NULL;
    int err = tachy_store_list(&l, &p);
    if (err == TACHY_OK && tachy_settings_str(c->settings, "run.json"))
        err = cli_write_json(c, list_json(l));
    else if (err == TACHY_OK)
        print_list(l);
    tachy_store_list_free(&l);
    return err;
}

int engine_gc(struct cli *c)
{
    struct tachy_store_params p = params_of(c);
    struct tachy_store_gc what = {.unused_days = (int)tachy_settings_int(c->settings, "engine.unused_days"),
                                  .all = tachy_settings_bool(c->settings, "engine.all")};
    int n = 0;
    uint64_t bytes = 0;
    int err = tachy_store_remove(&p, &what, &n, &bytes);
    if (err == TACHY_OK && tachy_settings_str(c->settings, "run.json"))
        err = cli_write_json(c, json_pack("{s:i, s:I}", "removed", n, "bytes", (json_int_t)bytes));
    else if (err == TACHY_OK)
        printf("removed %d entries, %.1f KiB\n", n, (double)bytes / 1024);
    return err;
}
