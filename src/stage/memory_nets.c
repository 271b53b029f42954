#include "stage/memory_nets.h"

#include "model/zoo.h"

#include <stdlib.h>

const char *const memory_features[FEATURES] = {"pix_feat", "high_res_feat0", "high_res_feat1", "vision_feats", "vision_pos_embed"};

enum { ATTENTION_PICTURE, ATTENTION_PLACES, ATTENTION_POINTERS, ATTENTION_MEMORIES, ATTENTION_AT, ATTENTION_SINCE };
enum { DECODER_POINTS, DECODER_LABELS, DECODER_PICTURE, DECODER_FINE, DECODER_FINER };
enum { DECODER_POINTER, DECODER_FOR_MEMORY, DECODER_MASK, DECODER_SCORE, DECODER_PRESENCE };
enum { ENCODER_MASK, ENCODER_PIXELS, ENCODER_PRESENCE };
enum { ENCODER_MEMORY, ENCODER_PLACE, ENCODER_AGE };

// What a network of a role reads and gives: names and ranks.
struct role {
    enum card_file_kind kind;
    const char *in[8], *out[8];
    int in_rank[8], out_rank[8];
};
static const struct role roles[] = {
    {CARD_MEMORY_ATTENTION,
     {"current_vision_feat", "current_vision_pos_embed", "memory_0", "memory_1", "memory_pos_embed", "cond_frame_id_diff"},
     {"image_embed"},
     {4, 3, 3, 5, 3, 0},
     {4}},
    {CARD_MEMORY_DECODER,
     {"point_coords", "point_labels", "image_embed", "high_res_feats_0", "high_res_feats_1"},
     {"obj_ptr", "mask_for_mem", "pred_mask", "iou", "occ_logit"},
     {3, 2, 4, 4, 4},
     {2, 4, 4, 2, 2}},
    {CARD_MEMORY_ENCODER,
     {"mask_for_mem", "pix_feat", "occ_logit"},
     {"maskmem_features", "maskmem_pos_enc", "temporal_code"},
     {4, 4, 2},
     {4, 3, 4}},
};

struct opening {
    struct memory_nets *m;
    const struct tachy_infer *net;
    const struct tachy_card *card;
    const struct tachy_log *log;
};

// ---- A network

static int find(const struct tachy_io *io, int n, const char *name, int rank)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(io[i].name, name))
            return io[i].spec.rank == rank && io[i].spec.dtype == TACHY_F32 ? i : -1;
    return -1;
}

static int mismatch(const struct opening *o, const struct memory_net *n, const char *what, const char *name)
{
    return tachy_fail(o->log, TACHY_ERR_MISMATCH, "%s: %s %.80s; docs/masks.md#the-card says what the networks of `memory` read and give, "
                      "`tachy model info %s` what this one does (model %s)", n->file, what, name, n->file, o->card->name);
}

// Each of the role's names is there, and no other.
static int take(const struct opening *o, struct memory_net *n, const struct tachy_io *io, int nb, const char *const names[],
                const int rank[], int at[], struct tachy_tensor t[])
{
    int count = 0;
    for (; count < 8 && names[count]; count++) {
        at[count] = find(io, nb, names[count], rank[count]);
        if (at[count] < 0)
            return mismatch(o, n, "has none, or one of another rank or type than float32, named", names[count]);
        t[at[count]] = io[at[count]].spec;
    }
    return nb == count ? TACHY_OK : mismatch(o, n, "has other inputs or outputs than", names[0]);
}

static int open_net(const struct opening *o, struct memory_net *n, const struct role *r)
{
    const struct tachy_io *in, *out;
    int err = tachy_model_part(o->net->net[TACHY_INFER_FULL].model, r->kind, true, &n->file, o->log);
    if (err < 0)
        return err;
    struct tachy_engine_params p = tachy_engine_setup_params(&o->net->setup);
    p.model_path = n->file;
    p.varying = true;
    p.settle = r->kind != CARD_MEMORY_ATTENTION; // what that one gives has the extents of what it reads
    p.log = o->log;
    err = tachy_engine_open(&n->engine, &p);
    if (err < 0)
        return err;
    int nb_in = tachy_engine_inputs(n->engine, &in), nb_out = tachy_engine_outputs(n->engine, &out);
    err = take(o, n, in, nb_in, r->in, r->in_rank, n->in_at, n->in);
    return err < 0 ? err : take(o, n, out, nb_out, r->out, r->out_rank, n->out_at, n->out);
}

static void close_net(struct memory_net *n)
{
    tachy_engine_close(&n->engine);
    free(n->file);
}

static struct tachy_tensor *input(struct memory_net *n, int i) { return &n->in[n->in_at[i]]; }
static struct tachy_tensor *output(struct memory_net *n, int i) { return &n->out[n->out_at[i]]; }

// ---- Sizes

static bool has_shape(const struct tachy_tensor *t, const int64_t shape[])
{
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] >= 0 && shape[i] >= 0 && t->shape[i] != shape[i])
            return false;
    return true;
}

// The encoder's outputs, one picture each.
static int take_features(const struct opening *o)
{
    static const int rank[FEATURES] = {4, 4, 4, 4, 3};
    const struct tachy_infer_net *net = &o->net->net[TACHY_INFER_FULL];
    for (int i = 0; i < FEATURES; i++) {
        int at = find(net->out, net->nb_out, memory_features[i], rank[i]);
        if (at < 0)
            return tachy_fail(o->log, TACHY_ERR_MISMATCH, "model %s: its encoder of pictures has no output named %s of rank %d; "
                              "docs/masks.md#the-card says what it gives", o->card->name, memory_features[i], rank[i]);
        o->m->feature[i] = net->out[at].spec;
    }
    return TACHY_OK;
}

static bool in_range(int64_t v, int64_t least, int64_t most) { return v >= least && v <= most; }

// What the networks give each other has the sizes that they read.
static int take_sizes(const struct opening *o)
{
    struct memory_nets *m = o->m;
    const struct tachy_tensor *picture = &m->feature[FEATURE_PICTURE], *memory = output(&m->encoder, ENCODER_MEMORY);
    const struct tachy_tensor *mask = output(&m->decoder, DECODER_MASK), *wide = output(&m->decoder, DECODER_FOR_MEMORY);
    int64_t h = picture->shape[2], w = picture->shape[3], channels = memory->shape[1], kept = output(&m->encoder, ENCODER_AGE)->shape[0];
    int64_t pointer = output(&m->decoder, DECODER_POINTER)->shape[1];
    if (!in_range(h, 1, 4096) || !in_range(w, 1, 4096) || !in_range(channels, 1, 4096) || !in_range(kept, 2, 64))
        return mismatch(o, &m->encoder, "gives memories of a size that is not supported, as", "maskmem_features");
    if (!in_range(pointer, 1, 65536) || pointer % channels || !in_range(mask->shape[2], 2, 4096) || !in_range(mask->shape[3], 2, 4096) ||
        !in_range(wide->shape[2], 1, 8192) || !in_range(wide->shape[3], 1, 8192))
        return mismatch(o, &m->decoder, "gives masks or pointers of a size that is not supported, as", "pred_mask");
    m->size = (struct memory_sizes){(int32_t)kept, (int32_t)channels, (int32_t)(h * w), (int32_t)pointer};
    m->width = (int)mask->shape[3];
    m->height = (int)mask->shape[2];
    const struct tachy_tensor *f = m->feature;
    const struct {
        struct memory_net *net;
        const struct tachy_tensor *t;
        const int64_t *shape; // -1: any extent
        const char *name;
    } fits[] = {
        {&m->attention, input(&m->attention, ATTENTION_PICTURE), picture->shape, "current_vision_feat"},
        {&m->attention, input(&m->attention, ATTENTION_PLACES), f[FEATURE_PLACES].shape, "current_vision_pos_embed"},
        {&m->attention, input(&m->attention, ATTENTION_POINTERS), (int64_t[]){-1, -1, pointer}, "memory_0"},
        {&m->attention, input(&m->attention, ATTENTION_MEMORIES), (int64_t[]){-1, -1, channels, h, w}, "memory_1"},
        {&m->attention, input(&m->attention, ATTENTION_AT), (int64_t[]){-1, -1, channels}, "memory_pos_embed"},
        {&m->decoder, input(&m->decoder, DECODER_PICTURE), (int64_t[]){-1, picture->shape[1], h, w}, "image_embed"},
        {&m->decoder, input(&m->decoder, DECODER_FINE), f[FEATURE_FINE].shape, "high_res_feats_0"},
        {&m->decoder, input(&m->decoder, DECODER_FINER), f[FEATURE_FINER].shape, "high_res_feats_1"},
        {&m->decoder, mask, (int64_t[]){1, 1, -1, -1}, "pred_mask"},
        {&m->decoder, output(&m->decoder, DECODER_SCORE), (int64_t[]){1, 1}, "iou"},
        {&m->decoder, output(&m->decoder, DECODER_PRESENCE), (int64_t[]){1, 1}, "occ_logit"},
        {&m->encoder, input(&m->encoder, ENCODER_MASK), (int64_t[]){-1, 1, wide->shape[2], wide->shape[3]}, "mask_for_mem"},
        {&m->encoder, input(&m->encoder, ENCODER_PIXELS), f[FEATURE_PIXELS].shape, "pix_feat"},
        {&m->encoder, memory, (int64_t[]){1, channels, h, w}, "maskmem_features"},
        {&m->encoder, output(&m->encoder, ENCODER_PLACE), (int64_t[]){1, h * w, channels}, "maskmem_pos_enc"},
        {&m->encoder, output(&m->encoder, ENCODER_AGE), (int64_t[]){kept, 1, 1, channels}, "temporal_code"},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(fits); i++)
        if (!has_shape(fits[i].t, fits[i].shape))
            return mismatch(o, fits[i].net, "reads or gives another size than the networks around it, of", fits[i].name);
    return TACHY_OK;
}

// Attention weighs each of a picture's cells against each token: so many numbers at a time are at most 512 MiB.
static int together_of(struct memory_nets *m, int together)
{
    int64_t tokens = (int64_t)m->size.kept * m->size.cells + (int64_t)MEMORY_POINTERS * (m->size.pointer / m->size.channels);
    int64_t fits = ((int64_t)1 << 27) / (tokens * m->size.cells);
    const struct tachy_tensor *batch[] = {input(&m->attention, ATTENTION_MEMORIES), input(&m->decoder, DECODER_PICTURE),
                                          input(&m->encoder, ENCODER_MASK)};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(batch); i++)
        if (batch[i]->shape[0] > 0)
            together = (int)TACHY_MIN(together, batch[i]->shape[0]);
    return (int)TACHY_CLAMP(fits, 1, together);
}

static int allocate(struct memory_nets *m, int points)
{
    size_t n = (size_t)m->together, cells = (size_t)m->size.cells, channels = (size_t)m->size.channels, pointer = (size_t)m->size.pointer;
    size_t memory = channels * cells, kept = (size_t)m->size.kept;
    const struct tachy_tensor *wide = output(&m->decoder, DECODER_FOR_MEMORY);
    const struct {
        float **p;
        size_t numbers;
    } all[] = {
        {&m->at, n * (size_t)points * 2},
        {&m->label, n * (size_t)points},
        {&m->mask, n * (size_t)m->width * (size_t)m->height},
        {&m->score, n},
        {&m->presence, n},
        {&m->seen, n * (size_t)m->feature[FEATURE_PICTURE].shape[1] * cells},
        {&m->pointer, n * pointer},
        {&m->memory, n * kept * memory},
        {&m->new_memory, n * memory},
        {&m->memory_at, n * (kept * memory + MEMORY_POINTERS * pointer)},
        {&m->pointers, n * MEMORY_POINTERS * pointer},
        {&m->for_memory, n * (size_t)(wide->shape[2] * wide->shape[3])},
        {&m->new_place, n * memory},
        {&m->new_age, kept * channels},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(all); i++)
        if (!(*all[i].p = malloc(all[i].numbers * sizeof(float))))
            return TACHY_ERR_NOMEM;
    return TACHY_OK;
}

int memory_nets_open(struct memory_nets *m, const struct tachy_infer *net, int points, int together)
{
    struct opening o = {.m = m, .net = net, .card = net->net[TACHY_INFER_FULL].card, .log = net->st->task->log};
    struct memory_net *const nets[] = {&m->attention, &m->decoder, &m->encoder};
    *m = (struct memory_nets){.points = points};
    int err = TACHY_OK;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(roles) && err == TACHY_OK; i++)
        err = open_net(&o, nets[i], &roles[i]);
    if (err == TACHY_OK)
        err = take_features(&o);
    if (err == TACHY_OK)
        err = take_sizes(&o);
    if (err < 0)
        return err;
    m->together = together_of(m, together);
    return allocate(m, TACHY_MAX(points, 1));
}

void memory_nets_close(struct memory_nets *m)
{
    void *own[] = {m->at, m->label, m->mask, m->score, m->presence, m->seen, m->pointer, m->memory, m->new_memory, m->memory_at,
                   m->pointers, m->for_memory, m->new_place, m->new_age};
    close_net(&m->attention);
    close_net(&m->decoder);
    close_net(&m->encoder);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(own); i++)
        free(own[i]);
    *m = (struct memory_nets){0};
}

// ---- Runs

static void set(struct tachy_tensor *t, float *data, const int64_t shape[])
{
    memcpy(t->shape, shape, sizeof(*shape) * (size_t)t->rank);
    t->data = data;
}

// A feature of the picture, as it is.
static void set_feature(const struct memory_nets *m, struct tachy_tensor *t, float *const feature[], enum memory_feature i)
{
    set(t, feature[i], m->feature[i].shape);
}

static int decode(struct memory_nets *m, float *const feature[], int n, int points)
{
    struct memory_net *d = &m->decoder;
    const struct tachy_tensor *picture = &m->feature[FEATURE_PICTURE], wide = *output(d, DECODER_FOR_MEMORY);
    set(input(d, DECODER_POINTS), m->at, (int64_t[]){n, points, 2});
    set(input(d, DECODER_LABELS), m->label, (int64_t[]){n, points});
    set(input(d, DECODER_PICTURE), m->seen, (int64_t[]){n, picture->shape[1], picture->shape[2], picture->shape[3]});
    set_feature(m, input(d, DECODER_FINE), feature, FEATURE_FINE);
    set_feature(m, input(d, DECODER_FINER), feature, FEATURE_FINER);
    set(output(d, DECODER_POINTER), m->pointer, (int64_t[]){n, m->size.pointer});
    set(output(d, DECODER_FOR_MEMORY), m->for_memory, (int64_t[]){n, 1, wide.shape[2], wide.shape[3]});
    set(output(d, DECODER_MASK), m->mask, (int64_t[]){n, 1, m->height, m->width});
    set(output(d, DECODER_SCORE), m->score, (int64_t[]){n, 1});
    set(output(d, DECODER_PRESENCE), m->presence, (int64_t[]){n, 1});
    return tachy_engine_run(d->engine, d->in, d->out);
}

int memory_nets_ask(struct memory_nets *m, float *const feature[FEATURES], int n)
{
    size_t picture = (size_t)m->feature[FEATURE_PICTURE].shape[1] * (size_t)m->size.cells;
    for (int i = 0; i < n; i++)
        memcpy(m->seen + (size_t)i * picture, feature[FEATURE_PICTURE], picture * sizeof(float));
    return decode(m, feature, n, m->points);
}

int memory_nets_follow(struct memory_nets *m, float *const feature[FEATURES], const struct memory_bank *b, int first, int n)
{
    struct memory_net *a = &m->attention;
    const struct tachy_tensor *picture = &m->feature[FEATURE_PICTURE];
    int64_t h = picture->shape[2], w = picture->shape[3], memories = memory_bank_memories(b), pointers = memory_bank_pointers(b);
    float since = (float)b->frames;
    memory_bank_read(b, first, n, m->memory, m->pointers, m->memory_at);
    set_feature(m, input(a, ATTENTION_PICTURE), feature, FEATURE_PICTURE);
    set_feature(m, input(a, ATTENTION_PLACES), feature, FEATURE_PLACES);
    set(input(a, ATTENTION_POINTERS), m->pointers, (int64_t[]){n, pointers, m->size.pointer});
    set(input(a, ATTENTION_MEMORIES), m->memory, (int64_t[]){n, memories, m->size.channels, h, w});
    set(input(a, ATTENTION_AT), m->memory_at,
        (int64_t[]){n, memories * h * w + pointers * (m->size.pointer / m->size.channels), m->size.channels});
    set(input(a, ATTENTION_SINCE), &since, (int64_t[]){0});
    set(output(a, 0), m->seen, (int64_t[]){n, picture->shape[1], h, w});
    int err = tachy_engine_run(a->engine, a->in, a->out);
    if (err < 0)
        return err;
    for (int i = 0; i < n; i++) { // nothing but what is remembered says where the thing is
        m->at[2 * i] = m->at[2 * i + 1] = 0;
        m->label[i] = -1;
    }
    return decode(m, feature, n, 1);
}

int memory_nets_remember(struct memory_nets *m, float *const feature[FEATURES], struct memory_bank *b, int first, int n)
{
    struct memory_net *e = &m->encoder;
    const struct tachy_tensor *picture = &m->feature[FEATURE_PICTURE];
    const struct tachy_tensor *from = output(&m->decoder, DECODER_FOR_MEMORY);
    set(input(e, ENCODER_MASK), m->for_memory, (int64_t[]){n, 1, from->shape[2], from->shape[3]});
    set_feature(m, input(e, ENCODER_PIXELS), feature, FEATURE_PIXELS);
    set(input(e, ENCODER_PRESENCE), m->presence, (int64_t[]){n, 1});
    set(output(e, ENCODER_MEMORY), m->new_memory, (int64_t[]){n, m->size.channels, picture->shape[2], picture->shape[3]});
    set(output(e, ENCODER_PLACE), m->new_place, (int64_t[]){n, m->size.cells, m->size.channels});
    set(output(e, ENCODER_AGE), m->new_age, (int64_t[]){m->size.kept, 1, 1, m->size.channels});
    int err = tachy_engine_run(e->engine, e->in, e->out);
    if (err < 0)
        return err;
    memory_bank_write(b, first, n, m->new_memory, m->pointer);
    memcpy(b->place, m->new_place, sizeof(float) * (size_t)m->size.channels * (size_t)m->size.cells);
    memcpy(b->age, m->new_age, sizeof(float) * (size_t)m->size.channels * (size_t)m->size.kept);
    return TACHY_OK;
}
