#include "curate/curate.h"

#include <math.h>

// Values of the names in conditions and filters (docs/curate.md).

static struct curate_value number(double v)
{
    return (struct curate_value){.kind = isfinite(v) ? CURATE_NUMBER : CURATE_NOTHING, .number = v};
}

static struct curate_value text(const char *s)
{
    return (struct curate_value){.kind = s ? CURATE_TEXT : CURATE_NOTHING, .text = s};
}

static struct curate_value of_frame(const struct curate_record *r, const char *name)
{
    const struct tachy_frame *f = &r->head;
    if (!strcmp(name, "file"))
        return text(r->file->path);
    if (!strcmp(name, "frame"))
        return number((double)f->id);
    if (!strcmp(name, "time"))
        return number(r->time);
    if (!strcmp(name, "width"))
        return number(f->width);
    if (!strcmp(name, "height"))
        return number(f->height);
    if (!strcmp(name, "aspect"))
        return number((double)f->width / f->height);
    if (r->looked && !strcmp(name, "scene"))
        return number((double)r->scene);
    if (r->looked && !strcmp(name, "cut"))
        return number(r->cut);
    if (r->compared && !strcmp(name, "duplicate"))
        return number(r->duplicate);
    return (struct curate_value){.kind = CURATE_NOTHING};
}

static struct curate_value named(const struct tachy_named *v, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(v[i].name, name))
            return number(v[i].value);
    return (struct curate_value){.kind = CURATE_NOTHING};
}

// True if a label matches `name`, which has _ where the label may have a space or another sign.
static bool is_label(const char *label, const char *name)
{
    for (; *label && *name; label++, name++)
        if (*label != *name && *name != '_')
            return false;
    return !*label && !*name;
}

static double count(const struct tachy_result *result, const char *label)
{
    int n = 0;
    for (int i = 0; i < result->nb_regions; i++)
        n += result->regions[i].label && is_label(result->regions[i].label, label);
    return n;
}

static const struct tachy_region *best_of(const struct tachy_result *result)
{
    const struct tachy_region *best = result->nb_regions ? result->regions : NULL;
    for (int i = 1; i < result->nb_regions; i++)
        if (result->regions[i].score > best->score)
            best = &result->regions[i];
    return best;
}

// A number by name: the frame's, else the best region's.
static struct curate_value measured(const struct tachy_result *result, const char *name)
{
    const struct tachy_region *best = best_of(result);
    struct curate_value v = named(result->values, result->nb_values, name);
    return v.kind || !best ? v : named(best->values, best->nb_values, name);
}

// `rest`: the part after the task's name and dot; NULL: only the task's name.
static struct curate_value of_task(const struct tachy_result *result, const char *rest)
{
    const struct tachy_region *best = best_of(result);
    if (!rest || !strcmp(rest, "count"))
        return number(result->nb_regions);
    if (!strncmp(rest, "count.", 6))
        return number(count(result, rest + 6));
    if (!strcmp(rest, "coverage"))
        return number((double)result->coverage);
    if (best && !strcmp(rest, "label"))
        return text(best->label);
    if (best && !strcmp(rest, "score"))
        return number((double)best->score);
    return measured(result, rest);
}

static void set(const struct curate *c, struct curate_record *r, int i, struct curate_value v)
{
    if (!v.kind)
        return;
    r->value[i] = v;
    if (!atomic_load_explicit(&c->valued[i], memory_order_relaxed))
        atomic_store_explicit(&c->valued[i], true, memory_order_relaxed);
}

void curate_values_of_frame(const struct curate *c, struct curate_record *r)
{
    for (int i = 0; i < c->names.n; i++)
        set(c, r, i, of_frame(r, c->names.name[i]));
}

void curate_values_of_result(const struct curate *c, struct curate_record *r, int task, const struct tachy_result *result)
{
    const char *own = c->task[task].name;
    size_t n = strlen(own);
    for (int i = 0; i < c->names.n; i++) {
        const char *name = c->names.name[i];
        if (r->value[i].kind)
            continue;
        if (!strncmp(name, own, n) && (!name[n] || name[n] == '.'))
            set(c, r, i, of_task(result, name[n] ? name + n + 1 : NULL));
        else if (!strcmp(name, "category") && (!strcmp(own, "categorize") || !strcmp(own, "classify")))
            set(c, r, i, of_task(result, "label"));
        else if (!strchr(name, '.'))
            set(c, r, i, measured(result, name));
    }
}

void curate_values_check(const struct curate *c)
{
    for (int i = 0; i < c->names.n; i++)
        if (!atomic_load(&c->valued[i]))
            tachy_msg(c->log, TACHY_LOG_WARN, "%s, which a condition or keep names, had no value in any frame; is it spelt right, and "
                      "which task measures it?", c->names.name[i]);
}
