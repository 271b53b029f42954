#include "stage/categories.h"
#include "stage/decode.h"
#include "stage/stages.h"
#include "stage/text_vectors.h"

#include <math.h>
#include <stdlib.h>

// Finds the class whose texts describe a picture best: a class has a vector, the mean of its texts' vectors, and the
// one nearest to the picture's vector gets the highest score (Radford et al. 2021).

struct categorize {
    struct tachy_categories classes;
    float *vector;  // of unit length, a row for each class
    int size;       // numbers of a vector
    float scale;
    double least;   // score
    int top;
    bool keep;      // the vector stays in the result
};

// Data of an item.
struct item {
    struct tachy_regions list;
};

static const struct tachy_option options[] = {
    {"categorize.classes", "categories", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Categories",
     .help = "classes to score: one name per line, or JSON with phrases and templates (docs/categorize.md)"},
    {"categorize.min_score", "min-score", 0, TACHY_OPT_FLOAT, "0", .max = 1, .group = "Categories",
     .help = "lowest score of a class; a picture without one has no category"},
    {"categorize.vectors", "vectors", 0, TACHY_OPT_BOOL, "no", .group = "Categories",
     .help = "add each picture's vector to the JSON lines"},
    {0},
};

// Numbers of the vector that the card's network makes.
static int vector_size(const struct tachy_infer *in)
{
    const struct tachy_infer_net *net = &in->net[TACHY_INFER_FULL];
    for (int k = 0; k < net->card->n_decoders; k++)
        for (int i = 0; i < net->nb_out && net->card->decoder[k].kind == TACHY_DECODE_EMBEDDING; i++)
            if (!*net->card->decoder[k].output[0] || !strcmp(net->card->decoder[k].output[0], net->out[i].name))
                return (int)tachy_tensor_elements(&net->out[i].spec);
    return 0;
}

static void scale_to_one(float *v, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    for (int i = 0; i < n && sum > 0; i++)
        v[i] = (float)((double)v[i] / sqrt(sum));
}

static int make_vectors(struct categorize *c, const struct tachy_infer *in)
{
    const struct tachy_text_network net = {in->net[TACHY_INFER_FULL].model, &in->setup, in->st->task->log};
    size_t size = (size_t)c->size;
    float *each = calloc((size_t)c->classes.nb_texts * size, sizeof(*each));
    c->vector = calloc((size_t)c->classes.nb * size, sizeof(*c->vector));
    int err = each && c->vector ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = tachy_text_vectors(&net, (const char *const *)c->classes.text, c->classes.nb_texts, c->size, each);
    for (int t = 0; t < c->classes.nb_texts && err == TACHY_OK; t++)
        for (size_t i = 0; i < size; i++)
            c->vector[(size_t)c->classes.class_of[t] * size + i] += each[(size_t)t * size + i];
    for (int k = 0; k < c->classes.nb && err == TACHY_OK; k++)
        scale_to_one(c->vector + (size_t)k * size, c->size);
    free(each);
    return err;
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct categorize *c = tachy_stage_priv(st);
    const struct tachy_infer *in = tachy_infer_of(st);
    const struct tachy_card *card = in->net[TACHY_INFER_FULL].card;
    const char *file = tachy_settings_str(s, "categorize.classes");
    c->size = vector_size(in);
    if (c->size < 1)
        return tachy_fail(st->task->log, TACHY_ERR_MISMATCH, "model %s: its card has no output with the meaning embedding", card->name);
    c->scale = card->text.scale;
    c->least = tachy_settings_float(s, "categorize.min_score");
    c->keep = tachy_settings_bool(s, "categorize.vectors");
    int err = file ? tachy_categories_read(&c->classes, file, st->task->log) : TACHY_OK;
    int top = tachy_settings_is_set(s, "regions.top") ? (int)tachy_settings_int(s, "regions.top") : 5;
    c->top = TACHY_MIN(top, c->classes.nb);
    return err == TACHY_OK && file ? make_vectors(c, in) : err;
}

static void close(struct tachy_stage *st)
{
    struct categorize *c = tachy_stage_priv(st);
    tachy_categories_free(&c->classes);
    free(c->vector);
}

// Softmax of the scaled cosines, in `p`, one for each class.
static void score(const struct categorize *c, const float *v, double *p)
{
    double most = -INFINITY, sum = 0;
    for (int k = 0; k < c->classes.nb; k++) {
        double dot = 0;
        for (int i = 0; i < c->size; i++)
            dot += (double)v[i] * (double)c->vector[(size_t)k * (size_t)c->size + (size_t)i];
        p[k] = dot * (double)c->scale;
        most = TACHY_MAX(most, p[k]);
    }
    for (int k = 0; k < c->classes.nb; k++)
        sum += p[k] = exp(p[k] - most);
    for (int k = 0; k < c->classes.nb; k++)
        p[k] /= sum;
}

static int name_best(const struct categorize *c, struct tachy_region *r, struct tachy_regions *list)
{
    double *p = tachy_regions_alloc(list, sizeof(*p) * (size_t)c->classes.nb);
    struct tachy_named *v = tachy_regions_alloc(list, sizeof(*v) * (size_t)c->top);
    if (!p || !v)
        return TACHY_ERR_NOMEM;
    score(c, r->embedding, p);
    r->values = v;
    for (r->nb_values = 0; r->nb_values < c->top; r->nb_values++) {
        int best = 0;
        for (int k = 1; k < c->classes.nb; k++)
            best = p[k] > p[best] ? k : best;
        if (!(p[best] >= c->least))
            break;
        v[r->nb_values] = (struct tachy_named){c->classes.name[best], p[best]};
        if (!r->nb_values) {
            r->class_id = best;
            r->label = c->classes.name[best];
            r->score = (float)p[best];
        }
        p[best] = -1;
    }
    return TACHY_OK;
}

static int categorize(struct tachy_stage *st, struct tachy_item *item)
{
    const struct categorize *c = tachy_stage_priv(st);
    struct tachy_regions *list = &((struct item *)tachy_stage_item(st, item))->list;
    int err = TACHY_OK;
    tachy_regions_clear(list);
    for (int i = 0; i < item->result.nb_regions && err == TACHY_OK; i++) {
        struct tachy_region *r = tachy_regions_add(list);
        if (!r)
            return TACHY_ERR_NOMEM;
        *r = item->result.regions[i];
        if (r->nb_embedding == c->size && c->top)
            err = name_best(c, r, list);
        r->nb_embedding = c->keep ? r->nb_embedding : 0;
    }
    item->result.regions = list->v;
    item->result.nb_regions = list->nb;
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = categorize(st, pieces[i].item);
}

static void item_close(void *item) { tachy_regions_free(&((struct item *)item)->list); }

const struct tachy_stage_ops tachy_stage_categorize = {
    .name = "categorize",
    .options = options,
    .priv_size = sizeof(struct categorize),
    .item_size = sizeof(struct item),
    .open = open,
    .close = close,
    .run = run,
    .item_close = item_close,
};
