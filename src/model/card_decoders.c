#include "model/card_reader.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

// The array `outputs` of a card: what is found in each output, and how.

// One name, or several in an array; returns how many, 0 if the key is absent.
static int names(struct card_reader *r, json_t *o, const char *key, const char *to[TACHY_MAX_LEVELS])
{
    json_t *v = json_object_get(o, key);
    size_t n = json_is_array(v) ? json_array_size(v) : v != NULL;
    if (n > TACHY_MAX_LEVELS || (json_is_array(v) && !n)) {
        card_bad(r, key, "must name 1 to %d outputs", TACHY_MAX_LEVELS);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        json_t *name = json_is_array(v) ? json_array_get(v, i) : v;
        to[i] = json_string_value(name);
        if (!to[i] || !*to[i]) {
            card_bad(r, key, "must be the name of an output, or an array of names");
            return 0;
        }
    }
    return (int)n;
}

static int wholes(struct card_reader *r, json_t *o, const char *key, int most, int to[TACHY_MAX_LEVELS])
{
    json_t *v = json_object_get(o, key), *e;
    size_t n = json_array_size(v), i;
    if (v && (!json_is_array(v) || !n || n > TACHY_MAX_LEVELS))
        card_bad(r, key, "must be an array of 1 to %d whole numbers", TACHY_MAX_LEVELS);
    if (n > TACHY_MAX_LEVELS)
        return 0;
    json_array_foreach(v, i, e) {
        json_int_t x = json_integer_value(e);
        if (!json_is_integer(e) || x < 1 || x > most)
            card_bad(r, key, "must be whole numbers from 1 to %d", most);
        to[i] = (int)TACHY_CLAMP(x, 1, (json_int_t)most);
    }
    return (int)n;
}

// `n` numbers that are not 0, or one for all of them.
static void floats(struct card_reader *r, json_t *o, const char *key, int n, float def, float *to)
{
    json_t *v = json_object_get(o, key);
    for (int i = 0; i < n; i++)
        to[i] = def;
    if (!v)
        return;
    if (json_is_array(v) && json_array_size(v) != (size_t)n) {
        card_bad(r, key, "must be a number or %d numbers", n);
        return;
    }
    for (int i = 0; i < n; i++) {
        to[i] = card_number(r, key, json_is_array(v) ? json_array_get(v, (size_t)i) : v);
        if (to[i] == 0)
            card_bad(r, key, "must not be 0");
    }
}

static float share(struct card_reader *r, json_t *o, const char *key, float def)
{
    json_t *v = json_object_get(o, key);
    float x = v ? card_number(r, key, v) : def;
    if (!(x >= 0 && x <= 1))
        card_bad(r, key, "must be from 0 to 1");
    return x;
}

static bool truth(struct card_reader *r, json_t *o, const char *key)
{
    json_t *v = json_object_get(o, key);
    if (v && !json_is_boolean(v))
        card_bad(r, key, "must be true or false");
    return json_is_true(v);
}

static void read_labels(struct card_reader *r, json_t *o, struct card_doc *d, struct tachy_card_decoder *c)
{
    json_t *v = json_object_get(o, "labels"), *e;
    size_t n = json_array_size(v), i;
    if (!v)
        return;
    if (!json_is_array(v) || !n || n > 65536) {
        card_bad(r, "labels", "must be an array of 1 to 65536 names");
        return;
    }
    const char **labels = d->labels[c - d->card.decoder] = calloc(n, sizeof(*labels));
    if (!labels) {
        r->err = r->err ? r->err : TACHY_ERR_NOMEM;
        return;
    }
    json_array_foreach(v, i, e) {
        labels[i] = json_string_value(e);
        if (!labels[i])
            card_bad(r, "labels", "must be names in quotes");
    }
    c->labels = labels;
    c->nb_labels = (int)n;
}

static void read_scores(struct card_reader *r, json_t *o, struct card_doc *d, struct tachy_card_decoder *c)
{
    static const char *const hows[] = {"none", "sigmoid", "softmax", NULL};
    static const char *const places[] = {"first", "last", NULL};
    c->how = (enum tachy_decoder_scores)card_choice(r, o, "activation", hows, 0);
    c->threshold = share(r, o, "threshold", c->kind == TACHY_DECODE_CLASSES ? 0 : 0.5f);
    c->nothing = INT_MAX;
    if (json_object_get(o, "nothing"))
        c->nothing = card_choice(r, o, "nothing", places, -1) ? -1 : 0;
    else if (c->kind == TACHY_DECODE_DETR && c->how == TACHY_SCORES_SOFTMAX)
        c->nothing = -1;
    read_labels(r, o, d, c);
}

static const char *const units[] = {"pixels", "share", NULL};

// Outputs that go together: each has as many levels.
static void read_levels(struct card_reader *r, json_t *o, struct tachy_card_decoder *c)
{
    c->levels = names(r, o, "name", c->output);
    int scores = names(r, o, "scores", c->scores), points = names(r, o, "point_outputs", c->points);
    bool apart = c->kind >= TACHY_DECODE_SSD;
    if (!c->levels)
        card_bad(r, "name", "is missing");
    if (apart != (scores > 0) || (scores && scores != c->levels))
        card_bad(r, "scores", apart ? "must name as many outputs as `name`" : "is for forms whose scores are apart");
    if (points && points != c->levels)
        card_bad(r, "point_outputs", "must name as many outputs as `name`");
    c->nb_strides = wholes(r, o, "strides", 4096, c->stride);
    int per_cell = wholes(r, o, "per_cell", 64, c->per_cell);
    bool grid = c->kind == TACHY_DECODE_YOLOX || c->kind == TACHY_DECODE_SSD || c->kind == TACHY_DECODE_DISTANCES;
    if (grid != (c->nb_strides > 0))
        card_bad(r, "strides", grid ? "is missing" : "is for forms with a grid");
    if (per_cell && per_cell != c->nb_strides)
        card_bad(r, "per_cell", "must have a number for each stride");
    if (c->levels > 1 && c->levels != c->nb_strides)
        card_bad(r, "name", "names %d outputs for %d strides", c->levels, c->nb_strides);
}

// Two numbers of points.
static void read_around(struct card_reader *r, json_t *o, struct tachy_card_decoder *c)
{
    json_t *v = json_object_get(o, "around");
    for (size_t i = 0; v && i < 2; i++) {
        json_t *e = json_array_get(v, i);
        json_int_t n = json_integer_value(e);
        if (!json_is_integer(e) || json_array_size(v) != 2 || n < 0 || n >= c->nb_points)
            card_bad(r, "around", "must be an array of two different numbers of points, from 0");
        c->around[i] = (int)TACHY_CLAMP(n, 0, TACHY_MAX(c->nb_points - 1, 0));
    }
    if (v && c->around[0] == c->around[1])
        card_bad(r, "around", "must be an array of two different numbers of points, from 0");
}

static void read_boxes(struct card_reader *r, json_t *o, struct card_doc *d, struct tachy_card_decoder *c)
{
    static const char *const known[] = {
        "meaning", "form", "name", "scores", "point_outputs", "classes", "number", "points", "strides", "per_cell",
        "scale", "anchor", "centre", "extents", "order", "objectness", "columns", "unit", "nothing", "activation",
        "threshold", "overlap", "agnostic", "blend", "limit", "labels", "around"};
    static const char *const forms[] = {"yolox", "yolo", "ssd", "distances", "detr", "corners", NULL};
    static const char *const orders[] = {"xy", "yx", NULL};
    static const char *const extents[] = {"linear", "logarithm", NULL};
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    c->kind = (enum tachy_decoder_kind)card_choice(r, o, "form", forms, -1);
    read_levels(r, o, c);
    c->classes = card_text(r, o, "classes", "");
    c->count = card_text(r, o, "number", "");
    c->nb_points = card_whole(r, o, "points", 0, 1024, 0);
    if (c->nb_points && c->kind != TACHY_DECODE_SSD && c->kind != TACHY_DECODE_DISTANCES)
        card_bad(r, "points", "of boxes are for the forms ssd and distances");
    read_around(r, o, c);
    floats(r, o, "scale", 4, 1, c->scale);
    floats(r, o, "anchor", 2, 1, c->anchor);
    c->centre = share(r, o, "centre", 0.5f);
    c->exponent = card_choice(r, o, "extents", extents, 0);
    c->yx = card_choice(r, o, "order", orders, 0);
    c->objectness = truth(r, o, "objectness");
    c->columns = truth(r, o, "columns");
    c->shares = card_choice(r, o, "unit", units, 0);
    c->overlap = share(r, o, "overlap", c->kind >= TACHY_DECODE_DETR ? 1 : 0.45f);
    c->agnostic = truth(r, o, "agnostic");
    c->blend = truth(r, o, "blend");
    c->limit = card_whole(r, o, "limit", 1, 65536, 300);
    read_scores(r, o, d, c);
}

enum { MOST_POINTS = 65536 };

// Numbers of a region's points; how many, 0 if the key is absent.
static int places(struct card_reader *r, json_t *o, const char *key, int **to)
{
    json_t *v = json_object_get(o, key), *e;
    size_t n = json_array_size(v), i;
    if (!v)
        return 0;
    if (!json_is_array(v) || !n || n > MOST_POINTS) {
        card_bad(r, key, "must be an array of numbers of points, from 0");
        return 0;
    }
    *to = calloc(n, sizeof(**to));
    if (!*to) {
        r->err = r->err ? r->err : TACHY_ERR_NOMEM;
        return 0;
    }
    json_array_foreach(v, i, e) {
        json_int_t at = json_integer_value(e);
        if (!json_is_integer(e) || at < 0 || at >= MOST_POINTS)
            card_bad(r, key, "must be numbers of points, from 0");
        else
            (*to)[i] = (int)at;
    }
    return (int)n;
}

// Points that an earlier entry found, so the last entry of points says how many a region has so far.
static void read_places(struct card_reader *r, json_t *o, struct card_doc *d, struct tachy_card_decoder *c)
{
    int **to = &d->places[2 * (c - d->card.decoder)], n = places(r, o, "at", &to[0]), have = 0;
    c->nb_depth_of = places(r, o, "depth_of", &to[1]);
    c->at = to[0];
    c->depth_of = to[1];
    for (const struct tachy_card_decoder *e = d->card.decoder; e < c; e++) {
        if (e->kind == TACHY_DECODE_POINTS && !e->at)
            have = e->nb_points;
        for (int i = 0; e->at && i < e->nb_points; i++)
            have = TACHY_MAX(have, e->at[i] + 1);
    }
    if (c->at && n != c->nb_points)
        card_bad(r, "at", "must have as many numbers as there are `points`");
    if (c->at && !have)
        card_bad(r, "at", "needs an entry with the meaning points before this one");
    if (c->nb_depth_of && !c->at)
        card_bad(r, "depth_of", "is for points with `at`");
    for (int i = 0; i < c->nb_depth_of; i++)
        if (c->depth_of[i] >= have)
            card_bad(r, "depth_of", "must be numbers of points that earlier entries found");
}

static void read_points(struct card_reader *r, json_t *o, struct card_doc *d, struct tachy_card_decoder *c)
{
    static const char *const known[] = {"meaning", "name", "points", "order", "unit", "heatmaps", "window", "at", "depth_of"};
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    c->nb_points = card_whole(r, o, "points", 1, MOST_POINTS, 0);
    c->order = card_text(r, o, "order", "xy");
    c->shares = card_choice(r, o, "unit", units, 0);
    c->scores[0] = json_object_get(o, "heatmaps") ? card_text(r, o, "heatmaps", "") : NULL;
    c->window = card_whole(r, o, "window", 1, 63, 7);
    if (c->window % 2 == 0)
        card_bad(r, "window", "must be odd: as many cells on each side of the point");
    if (strspn(c->order, "xyzsv-") != strlen(c->order) || !strchr(c->order, 'x') || !strchr(c->order, 'y') ||
        strlen(c->order) > 16)
        card_bad(r, "order", "must have a letter for each number of a point: x, y, z, s (score), v (its logit) or -");
    read_places(r, o, d, c);
}

static void read_heatmaps(struct card_reader *r, json_t *o, struct card_doc *d, struct tachy_card_decoder *c)
{
    static const char *const known[] = {"meaning", "name", "points", "layout", "activation"};
    static const char *const layouts[] = {"nhwc", "nchw", NULL};
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    c->nb_points = card_whole(r, o, "points", 1, 65536, 0);
    c->layout = (enum tachy_layout)card_choice(r, o, "layout", layouts, (int)d->card.in.layout);
    read_scores(r, o, d, c);
}

static void read_classes(struct card_reader *r, json_t *o, struct card_doc *d, struct tachy_card_decoder *c)
{
    static const char *const known[] = {"meaning", "name", "activation", "threshold", "top", "labels"};
    card_only(r, o, known, TACHY_ARRAY_SIZE(known));
    c->top = card_whole(r, o, "top", 1, 65536, 5);
    read_scores(r, o, d, c);
}

static void read_vector(struct card_reader *r, json_t *o, struct card_doc *d, struct tachy_card_decoder *c)
{
    static const char *const known[] = {"meaning", "name", "activation"};
    card_only(r, o, known, c->kind == TACHY_DECODE_SCORE ? 3 : 2);
    if (c->kind == TACHY_DECODE_SCORE)
        read_scores(r, o, d, c);
}

static void read_decoder(struct card_reader *r, json_t *o, struct card_doc *d, struct tachy_card_decoder *c)
{
    static const char *const meanings[] = {"boxes", "points", "heatmaps", "classes", "embedding", "score", "raw", NULL};
    static const enum tachy_decoder_kind kinds[] = {
        TACHY_DECODE_YOLOX, TACHY_DECODE_POINTS, TACHY_DECODE_HEATMAPS, TACHY_DECODE_CLASSES, TACHY_DECODE_EMBEDDING,
        TACHY_DECODE_SCORE, TACHY_DECODE_RAW};
    *c = (struct tachy_card_decoder){.classes = "", .count = "", .order = "xy", .nothing = INT_MAX, .limit = 1};
    if (!json_is_object(o)) {
        card_bad(r, "", "must be an object");
        return;
    }
    card_ask(r, o, "meaning", "what is in it? boxes, points, heatmaps, classes, embedding, score or raw; if it is not needed, take "
                              "the entry out");
    c->kind = kinds[card_choice(r, o, "meaning", meanings, -1)];
    if (c->kind == TACHY_DECODE_YOLOX) {
        read_boxes(r, o, d, c);
        return;
    }
    c->output[0] = card_text(r, o, "name", "");
    c->levels = 1;
    switch (c->kind) {
    case TACHY_DECODE_POINTS: read_points(r, o, d, c); break;
    case TACHY_DECODE_HEATMAPS: read_heatmaps(r, o, d, c); break;
    case TACHY_DECODE_CLASSES: read_classes(r, o, d, c); break;
    default: read_vector(r, o, d, c);
    }
}

void card_read_decoders(struct card_reader *r, json_t *list, struct card_doc *d)
{
    r->section = "";
    if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > TACHY_MAX_DECODERS) {
        card_bad(r, "outputs", "must be an array of 1 to %d entries", TACHY_MAX_DECODERS);
        return;
    }
    for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
        char section[32];
        snprintf(section, sizeof(section), "outputs[%zu].", i);
        r->section = section;
        read_decoder(r, json_array_get(list, i), d, &d->card.decoder[d->card.n_decoders++]);
        r->section = "";
    }
}
