#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <tachy/search.h>

bool search_asked(const struct cli *c)
{
    const char *const *list;
    bool asks = tachy_settings_list(c->settings, "categorize.search", &list) || tachy_settings_list(c->settings, "categorize.like", &list);
    return asks && !c->profile && !strcmp((c->inner ? c->inner : c->verb)->name, "categorize");
}

bool search_has_inputs(const struct cli *c)
{
    const char *const *list;
    return c->n_args || tachy_settings_list(c->settings, "input.files", &list);
}

static void add_hit(FILE *f, json_t *hit)
{
    fprintf(f, "  %.4f  %s", json_number_value(json_object_get(hit, "score")), json_string_value(json_object_get(hit, "file")));
    if (json_integer_value(json_object_get(hit, "frame")))
        fprintf(f, "  frame %lld, %.2f s", (long long)json_integer_value(json_object_get(hit, "frame")),
                json_number_value(json_object_get(hit, "time")));
    fputc('\n', f);
}

// A heading for each query, a line for each hit. Free with free(); NULL: out of memory.
static char *hits_text(const char *json)
{
    char *text = NULL;
    size_t size, i, k;
    json_t *all = json_loads(json, 0, NULL), *query, *hit;
    FILE *f = open_memstream(&text, &size);
    json_array_foreach(all, i, query) {
        if (f)
            fprintf(f, "%s\n", json_string_value(json_object_get(query, "query")));
        json_array_foreach(json_object_get(query, "hits"), k, hit)
            if (f)
                add_hit(f, hit);
    }
    if (f)
        fclose(f);
    json_decref(all);
    return text;
}

int search_run(struct cli *c, bool ran)
{
    char *json = NULL;
    int err = ran ? TACHY_OK : cli_check_json(c);
    if (err == TACHY_OK)
        err = tachy_search(&json, c->settings, &c->log);
    char *text = err == TACHY_OK ? hits_text(json) : NULL;
    if (err == TACHY_OK && !text)
        err = TACHY_ERR_NOMEM;
    if (!ran)
        return cli_report(c, err, json, text);
    if (text)
        fputs(text, c->stdout_taken ? stderr : stdout);
    tachy_free(json);
    free(text);
    return err;
}
