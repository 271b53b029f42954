#include "animate/keypoints.h"
#include "base/ycbcr.h"
#include "stage/animate.h"
#include "stage/family_net.h"
#include "stage/stages.h"
#include "stage/track.h"

#include <stdlib.h>
#include <tachy/engine.h>
#include <tachy/preprocess.h>

// A portrait moved by networks of the LivePortrait family, in three stages behind `drive`, whose portraits they share: what the
// driver's face does, how it has moved since its rest (in order), and the picture that a generator makes of the portrait, pasted
// over it. What the portraits' own pictures give is found once.

struct look {
    struct tachy_keypoints keys;
    float placed[TACHY_KEYPOINTS][3];
    float *features;
};

struct neural {
    struct tachy_family family;
    struct tachy_engine_setup setup;
    struct drive *drive;
    struct look look[ANIMATE_PORTRAITS];
    int64_t features; // floats of a portrait
    struct tachy_stage_dial dial; // 1: networks paint, 0: the mesh
};

struct neural_item {
    bool on; // networks paint it
    struct tachy_keypoints keys;
    bool seen;
    float placed[TACHY_KEYPOINTS][3]; // of the portrait
};

// ---- What a network sees of a face

struct seer {
    struct family_net net;
    tachy_preprocess *preprocess;
    int side;
    int out[7];
};

static void seer_close(struct seer *s)
{
    family_net_close(&s->net);
    tachy_preprocess_close(&s->preprocess);
}

static int seer_open(struct seer *s, const struct neural *of, enum tachy_role role, const struct tachy_log *log)
{
    static const char *const names[] = {"pitch", "yaw", "roll", "t", "exp", "scale", "kp"};
    static const int sizes[] = {TACHY_ANGLE_BINS, TACHY_ANGLE_BINS, TACHY_ANGLE_BINS, 3, 3 * TACHY_KEYPOINTS, 1, 3 * TACHY_KEYPOINTS};
    s->preprocess = NULL;
    int err = family_net_open(&s->net, &of->family, role, &of->setup, log);
    if (err == TACHY_OK)
        err = family_net_in(&s->net, NULL, 0);
    if (err >= 0)
        err = s->side = family_net_side(&s->net, &s->net.in[0]);
    for (int i = 0; i < 7 && err >= 0 && role == TACHY_ROLE_MOTION; i++)
        err = s->out[i] = family_net_out(&s->net, names[i], sizes[i]);
    if (err >= 0 && role == TACHY_ROLE_APPEARANCE)
        err = family_net_out(&s->net, NULL, 0);
    return err < 0 ? err : tachy_preprocess_open(&s->preprocess, tachy_preprocess_params(
        .width = s->side, .height = s->side, .layout = TACHY_NCHW, .scale = 1 / 255.f, .log = log));
}

static int seer_run(struct seer *s, const tachy_frame *f, const tachy_face_points point, const struct tachy_family_crop *how)
{
    struct tachy_face_crop crop;
    struct tachy_view view = {.use_affine = true};
    int err = tachy_face_crop(&crop, point, how->grow, how->up, s->side);
    if (err < 0)
        return err;
    memcpy(view.affine, crop.affine, sizeof(view.affine));
    err = tachy_preprocess_run(s->preprocess, f, &view, &s->net.in[0], NULL);
    return err < 0 ? err : tachy_engine_run(s->net.engine, s->net.in, s->net.out);
}

static const float *said(const struct seer *s, int i) { return s->net.out[s->out[i]].data; }

static void read_keys(const struct seer *s, struct tachy_keypoints *k)
{
    tachy_keypoints_turn(k, tachy_keypoints_angle(said(s, 0)), tachy_keypoints_angle(said(s, 1)), tachy_keypoints_angle(said(s, 2)));
    memcpy(k->shift, said(s, 3), sizeof(k->shift));
    memcpy(k->expression, said(s, 4), sizeof(k->expression));
    k->scale = said(s, 5)[0];
    memcpy(k->canonical, said(s, 6), sizeof(k->canonical));
}

// ---- The portraits, and the driver in each frame

static int look_at(struct neural *n, struct seer seer[2], const struct animate_portrait *p)
{
    struct look *l = &n->look[p->number];
    const struct tachy_tensor *features = &seer[0].net.out[0];
    int err = seer_run(&seer[0], p->picture, p->face.point, &n->family.portrait);
    if (err == TACHY_OK)
        err = seer_run(&seer[1], p->picture, p->face.point, &n->family.portrait);
    n->features = tachy_tensor_elements(features);
    if (err < 0 || !(l->features = malloc(tachy_tensor_bytes(features))))
        return err < 0 ? err : TACHY_ERR_NOMEM;
    memcpy(l->features, features->data, tachy_tensor_bytes(features));
    read_keys(&seer[1], &l->keys);
    tachy_keypoints_place(&l->keys, l->placed);
    return TACHY_OK;
}

// A text that the settings may not outlive; NULL: the provider's own.
static const char *precision_named(const char *name)
{
    static const char *const names[] = {"fp32", "tf32", "fp16", "mixed"};
    for (size_t i = 0; name && i < TACHY_ARRAY_SIZE(names); i++)
        if (!strcmp(name, names[i]))
            return names[i];
    return NULL;
}

static int keypoints_open(struct tachy_stage *st, const tachy_settings *s)
{
    struct neural *n = tachy_stage_priv(st);
    struct seer seer[2] = {{.net.lent = -1}, {.net.lent = -1}};
    const char *card = tachy_settings_str(s, "animation.neural_card");
    n->dial.path = "animation.backend";
    atomic_store(&n->dial.value, !strcmp(tachy_settings_str(s, "animation.backend"), "neural"));
    st->dials = &n->dial;
    st->nb_dials = 1;
    n->drive = tachy_stage_priv(tachy_stage_before(st, "drive"));
    int err = tachy_family_read(&n->family, card, "animate", st->task->log);
    if (err == TACHY_OK)
        err = tachy_engine_setup_read(&n->setup, s);
    if (!strcmp(tachy_settings_str(s, "animation.neural_device"), "cuda")) {
        n->setup.device = "cuda";
        n->setup.gpu = (int)tachy_settings_int(s, "gpu.id");
    }
    n->setup.precision = precision_named(tachy_settings_str(s, "animation.neural_precision"));
    for (int i = 0; i < 2 && err == TACHY_OK; i++)
        err = seer_open(&seer[i], n, i ? TACHY_ROLE_MOTION : TACHY_ROLE_APPEARANCE, st->task->log);
    for (int i = 0; i < n->drive->nb && err == TACHY_OK; i++)
        err = look_at(n, seer, n->drive->portrait[i]);
    if (err == TACHY_OK)
        tachy_task_describe(st->task, " %s", n->family.name);
    seer_close(&seer[0]);
    seer_close(&seer[1]);
    return err;
}

static void keypoints_close(struct tachy_stage *st)
{
    struct neural *n = tachy_stage_priv(st);
    for (int i = 0; i < ANIMATE_PORTRAITS; i++)
        free(n->look[i].features);
    tachy_engine_setup_free(&n->setup);
    tachy_family_free(&n->family);
}

static int keypoints_worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct seer *s = *worker = calloc(1, sizeof(*s));
    int err = s ? seer_open(s, tachy_stage_priv(st), TACHY_ROLE_MOTION, st->task->log) : TACHY_ERR_NOMEM;
    if (err < 0 && s) {
        seer_close(s);
        free(s);
        *worker = NULL;
    }
    return err;
}

static void keypoints_worker_close(void *worker)
{
    seer_close(worker);
    free(worker);
}

static void keypoints_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct neural *of = tachy_stage_priv(st);
    const struct tachy_stage *drive = tachy_stage_before(st, "drive");
    for (int i = 0; i < n; i++) {
        const struct tachy_item *item = pieces[i].item;
        struct neural_item *to = tachy_stage_item(st, pieces[i].item);
        const struct tachy_region *driver = drive_region(item);
        const struct drive_item *rest = tachy_stage_item(drive, item);
        tachy_face_points point;
        to->on = atomic_load(&of->dial.value) != 0;
        to->seen = driver && (to->on || rest->rests);
        if (!to->seen)
            continue;
        track_face_points(driver, point);
        err[i] = seer_run(worker, item->in, point, &of->family.driver);
        if (err[i] == TACHY_ERR_INVAL) { // a face without extent
            to->seen = false;
            err[i] = TACHY_OK;
        } else if (err[i] == TACHY_OK) {
            read_keys(worker, &to->keys);
        }
    }
}

const struct tachy_stage_ops tachy_stage_keypoints = {
    .name = "keypoints",
    .flags = TACHY_STAGE_READS | TACHY_STAGE_MODEL,
    .priv_size = sizeof(struct neural),
    .item_size = sizeof(struct neural_item),
    .open = keypoints_open,
    .close = keypoints_close,
    .worker_open = keypoints_worker_open,
    .worker_close = keypoints_worker_close,
    .run = keypoints_run,
};

// ---- How it has moved

// A stream's.
struct relate_state {
    bool begun; // `rest` is known
    int shown;  // the portrait that `placed` is of
    struct tachy_keypoints rest;
    float placed[TACHY_KEYPOINTS][3];
};

static void relate_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct tachy_stage *of = tachy_stage_before(st, "keypoints");
    const struct neural *all = tachy_stage_priv(of);
    struct neural_item *item = tachy_stage_item(of, pieces[0].item);
    const struct drive_item *drive = tachy_stage_item(tachy_stage_before(st, "drive"), pieces[0].item);
    const struct look *look = &all->look[drive->portrait->number];
    struct relate_state none = {0}, *s = state ? state : &none;
    if (!item->on && !item->seen)
        return;
    if (!s->begun || s->shown != drive->portrait->number)
        memcpy(s->placed, look->placed, sizeof(s->placed));
    s->shown = drive->portrait->number;
    if (item->seen && (!s->begun || drive->rests))
        s->rest = item->keys;
    s->begun = s->begun || item->seen;
    if (item->seen)
        tachy_keypoints_drive(&look->keys, &s->rest, &item->keys, &all->drive->strength, s->placed);
    for (int i = 0; i < TACHY_KEYPOINTS && !item->seen; i++) // back to rest
        for (int k = 0; k < 3; k++)
            s->placed[i][k] += 0.1f * (look->placed[i][k] - s->placed[i][k]);
    memcpy(item->placed, s->placed, sizeof(item->placed));
}

const struct tachy_stage_ops tachy_stage_relate = {
    .name = "relate",
    .step = "keypoints",
    .flags = TACHY_STAGE_ORDERED,
    .state_size = sizeof(struct relate_state),
    .run = relate_run,
};

// ---- The picture

struct generate {
    tachy_frame_pool *pool;
};

struct generator {
    struct family_net stitch, warp, make;
    int feature, source, driving; // inputs of the network that warps
    int side;
};

static struct neural *neural_of(const struct tachy_stage *st) { return tachy_stage_priv(tachy_stage_before(st, "keypoints")); }

static void generate_worker_close(void *worker)
{
    struct generator *g = worker;
    family_net_close(&g->stitch);
    family_net_close(&g->warp);
    family_net_close(&g->make);
    free(g);
}

// The network that takes features and keypoints: the generator itself if the card names none that warps.
static int open_warping(struct generator *g, const struct neural *n, struct family_net *net)
{
    int err = g->feature = family_net_in(net, "feature_3d", n->features);
    if (err >= 0)
        err = g->source = family_net_in(net, "kp_source", 3 * TACHY_KEYPOINTS);
    if (err >= 0)
        err = g->driving = family_net_in(net, "kp_driving", 3 * TACHY_KEYPOINTS);
    if (err < 0)
        return err;
    tachy_tensor_free(&net->in[g->feature]); // it is a portrait's
    net->lent = g->feature;
    return TACHY_OK;
}

static int open_generator(struct generator *g, const struct neural *n, const struct tachy_log *log)
{
    bool stitches = n->family.file[TACHY_ROLE_STITCHING], warps = n->family.file[TACHY_ROLE_WARPING];
    g->stitch.lent = g->warp.lent = g->make.lent = -1;
    int err = stitches ? family_net_open(&g->stitch, &n->family, TACHY_ROLE_STITCHING, &n->setup, log) : TACHY_OK;
    if (err >= 0 && stitches)
        err = family_net_in(&g->stitch, NULL, 6 * TACHY_KEYPOINTS);
    if (err >= 0 && stitches)
        err = family_net_out(&g->stitch, NULL, 3 * TACHY_KEYPOINTS + 2);
    if (err >= 0 && warps)
        err = family_net_open(&g->warp, &n->family, TACHY_ROLE_WARPING, &n->setup, log);
    if (err >= 0)
        err = family_net_open(&g->make, &n->family, TACHY_ROLE_GENERATOR, &n->setup, log);
    if (err >= 0)
        err = open_warping(g, n, warps ? &g->warp : &g->make);
    if (err >= 0 && warps)
        err = family_net_out(&g->warp, NULL, 0);
    if (err >= 0 && warps)
        err = family_net_in(&g->make, NULL, tachy_tensor_elements(&g->warp.out[0]));
    if (err >= 0)
        err = g->side = family_net_side(&g->make, &g->make.out[0]);
    return err < 0 ? err : TACHY_OK;
}

static int generate_worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct generator *g = *worker = calloc(1, sizeof(*g));
    int err = g ? open_generator(g, neural_of(st), st->task->log) : TACHY_ERR_NOMEM;
    if (err < 0 && g) {
        generate_worker_close(g);
        *worker = NULL;
    }
    return err;
}

static int generate_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct generate *g = tachy_stage_priv(st);
    animate_video(neural_of(st)->drive, video);
    tachy_frame_pool_close(&g->pool);
    int err = tachy_frame_pool_open(&g->pool, video->format, video->width, video->height);
    if (err == TACHY_OK && st->task->memory)
        tachy_frame_pool_account(g->pool, st->task->memory);
    return err;
}

static void generate_close(struct tachy_stage *st)
{
    struct generate *g = tachy_stage_priv(st);
    tachy_frame_pool_close(&g->pool);
}

// What makes the driven keypoints fit the portrait's shoulders and neck.
static int stitch(struct generator *g, const struct look *look, float at[TACHY_KEYPOINTS][3])
{
    enum { N = 3 * TACHY_KEYPOINTS };
    float *in = g->stitch.engine ? g->stitch.in[0].data : NULL;
    if (!in)
        return TACHY_OK;
    memcpy(in, look->placed, N * sizeof(*in));
    memcpy(in + N, at, N * sizeof(*in));
    int err = tachy_engine_run(g->stitch.engine, g->stitch.in, g->stitch.out);
    const float *by = g->stitch.out[0].data;
    for (int i = 0; i < TACHY_KEYPOINTS && err == TACHY_OK; i++)
        for (int k = 0; k < 3; k++)
            at[i][k] += by[3 * i + k] + (k < 2 ? by[N + k] : 0);
    return err;
}

static int make(struct generator *g, const struct look *look, float at[TACHY_KEYPOINTS][3])
{
    struct family_net *warp = g->warp.engine ? &g->warp : &g->make;
    int err = stitch(g, look, at);
    warp->in[g->feature].data = look->features;
    memcpy(warp->in[g->source].data, look->placed, sizeof(look->placed));
    memcpy(warp->in[g->driving].data, at, sizeof(look->placed));
    if (err == TACHY_OK)
        err = tachy_engine_run(warp->engine, warp->in, warp->out);
    if (err < 0 || warp == &g->make)
        return err;
    memcpy(g->make.in[0].data, warp->out[0].data, tachy_tensor_bytes(&warp->out[0]));
    return tachy_engine_run(g->make.engine, g->make.in, g->make.out);
}

// What R, G and B from 0 to 1 weigh in a plane of 8 bits, and what is added.
static void weigh(const tachy_frame *f, int plane, float matrix[4])
{
    struct tachy_color c = tachy_color_resolve(f->color, f->format, f->width, f->height);
    double weight[4];
    tachy_ycbcr_weights(c.matrix, 8, c.range == 2, plane, weight);
    for (int k = 0; k < 4; k++)
        matrix[k] = (float)weight[k];
}

static int paste(const struct generator *g, const struct neural *n, const struct drive_item *of, tachy_frame *out)
{
    const struct animate_portrait *portrait = of->portrait;
    const tachy_frame *from = portrait->picture;
    struct tachy_face_paste p = {.rgb = g->make.out[0].data, .feather = (float)n->family.feather};
    int err = tachy_face_crop(&p.crop, portrait->face.point, n->family.portrait.grow, n->family.portrait.up, g->side);
    for (int i = 0; i < 3 && err == TACHY_OK; i++) {
        struct tachy_face_plane plane = animate_plane(from, out, i);
        weigh(from, i, p.matrix);
        tachy_face_paste(&p, &plane);
        if (of->mirrored)
            animate_mirror(&plane);
    }
    return err;
}

static int generate(struct tachy_stage *st, struct generator *g, struct tachy_item *item)
{
    const struct generate *own = tachy_stage_priv(st);
    const struct neural *n = neural_of(st);
    const struct drive_item *of = tachy_stage_item(tachy_stage_before(st, "drive"), item);
    struct neural_item *keys = tachy_stage_item(tachy_stage_before(st, "keypoints"), item);
    if (!keys->on)
        return TACHY_OK;
    int err = make(g, &n->look[of->portrait->number], keys->placed);
    if (err == TACHY_OK)
        err = tachy_frame_pool_get(own->pool, &item->out);
    if (err < 0)
        return err;
    animate_name(of, item);
    return paste(g, n, of, item->out);
}

static void generate_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = generate(st, worker, pieces[i].item);
}

const struct tachy_stage_ops tachy_stage_generate = {
    .name = "generate",
    .flags = TACHY_STAGE_WRITES | TACHY_STAGE_MODEL,
    .priv_size = sizeof(struct generate),
    .close = generate_close,
    .start = generate_start,
    .worker_open = generate_worker_open,
    .worker_close = generate_worker_close,
    .run = generate_run,
};
