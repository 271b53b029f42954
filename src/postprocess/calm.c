#include "postprocess/calm.h"

#include <stdlib.h>

static void forget(struct tachy_calm *c)
{
    for (int i = 0; i < c->nb; i++)
        free(c->thing[i].points);
    c->nb = 0;
}

void tachy_calm_free(struct tachy_calm *c)
{
    forget(c);
    *c = (struct tachy_calm){0};
}

// Moves the thing's state from `c` to the caller.
static struct tachy_calmed take(struct tachy_calm *c, int64_t id)
{
    for (int i = 0; i < c->nb; i++) {
        struct tachy_calmed t = c->thing[i];
        if (t.id != id)
            continue;
        c->thing[i].points = NULL;
        return t;
    }
    return (struct tachy_calmed){.id = id};
}

static int calm(struct tachy_calmed *t, const struct tachy_one_euro *f, struct tachy_region *r, double seconds)
{
    struct tachy_point *points = (struct tachy_point *)(uintptr_t)r->points; // of the frame in hand
    if (t->nb_points != r->nb_points) {
        free(t->points);
        t->points = calloc((size_t)r->nb_points * 2, sizeof(*t->points));
        t->nb_points = t->points ? r->nb_points : 0;
        if (!t->points)
            return TACHY_ERR_NOMEM;
    }
    const struct tachy_one_euro_turn turn = tachy_one_euro_turn(f, seconds, TACHY_MAX(r->w, r->h));
    for (int i = 0; i < r->nb_points; i++) {
        points[i].x = (float)tachy_one_euro_step(f, &turn, &t->points[2 * i], points[i].x);
        points[i].y = (float)tachy_one_euro_step(f, &turn, &t->points[2 * i + 1], points[i].y);
    }
    tachy_region_around(r);
    return TACHY_OK;
}

int tachy_calm_run(struct tachy_calm *c, const struct tachy_one_euro *f, struct tachy_region *regions, int nb, double seconds)
{
    struct tachy_calm before = *c;
    int err = TACHY_OK;
    for (c->nb = 0; c->nb < nb; c->nb++)
        c->thing[c->nb] = take(&before, regions[c->nb].track);
    forget(&before);
    for (int i = 0; i < nb && err == TACHY_OK; i++)
        err = regions[i].nb_points ? calm(&c->thing[i], f, &regions[i], seconds) : TACHY_OK;
    return err;
}

// ---- As bytes: the struct, then the filters' states of each thing

static size_t bytes_of(const struct tachy_calmed *t) { return 2 * (size_t)t->nb_points * sizeof(*t->points); }

int tachy_calm_save(const struct tachy_calm *c, void **data, size_t *size)
{
    struct tachy_calm plain = *c;
    *size = sizeof(plain);
    for (int i = 0; i < c->nb; i++) {
        *size += bytes_of(&c->thing[i]);
        plain.thing[i].points = NULL;
    }
    char *to = *data = malloc(*size);
    if (!to)
        return TACHY_ERR_NOMEM;
    memcpy(to, &plain, sizeof(plain));
    to += sizeof(plain);
    for (int i = 0; i < c->nb; i++) {
        if (c->thing[i].nb_points)
            memcpy(to, c->thing[i].points, bytes_of(&c->thing[i]));
        to += bytes_of(&c->thing[i]);
    }
    return TACHY_OK;
}

static int load_thing(struct tachy_calmed *t, const char **from, size_t *left)
{
    size_t n = t->nb_points < 0 ? SIZE_MAX : bytes_of(t);
    t->points = NULL;
    if (n > *left)
        return TACHY_ERR_FORMAT;
    if (n && !(t->points = malloc(n)))
        return TACHY_ERR_NOMEM;
    if (n)
        memcpy(t->points, *from, n);
    *from += n;
    *left -= n;
    return TACHY_OK;
}

int tachy_calm_load(struct tachy_calm *c, const void *data, size_t size)
{
    const char *from = (const char *)data + sizeof(*c);
    if (size < sizeof(*c))
        return TACHY_ERR_FORMAT;
    memcpy(c, data, sizeof(*c));
    size -= sizeof(*c);
    int err = c->nb < 0 || c->nb > TACHY_MAX_FOLLOWED ? TACHY_ERR_FORMAT : TACHY_OK, n = err < 0 ? 0 : c->nb;
    for (c->nb = 0; c->nb < n && err == TACHY_OK; c->nb++)
        err = load_thing(&c->thing[c->nb], &from, &size);
    if (err == TACHY_OK && size)
        err = TACHY_ERR_FORMAT;
    if (err < 0)
        tachy_calm_free(c);
    return err;
}
