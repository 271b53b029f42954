#include "stage/neural.h"

#include "base/ycbcr.h"
#include "stage/stages.h"
#include "stage/track.h"

#include <stdlib.h>
#include <tachy/engine.h>
#include <tachy/preprocess.h>

// A portrait moved by networks of the LivePortrait family, in three stages behind `drive`, whose portraits they share: what the
// driver's face does, how it has moved since its rest (in order), and the picture that a generator makes of the portrait, pasted
// over it. What the portraits' own pictures give is found once.

// ---- What a network sees of a face

int neural_seer_open(struct neural_seer *s, const struct neural *of, enum tachy_role role, const struct tachy_engine_setup *setup,
                     const struct tachy_log *log)
{
    static const char *const names[] = {"pitch", "yaw", "roll", "t", "exp", "scale", "kp"};
    static const int sizes[] = {TACHY_ANGLE_BINS, TACHY_ANGLE_BINS, TACHY_ANGLE_BINS, 3, 3 * TACHY_KEYPOINTS, 1, 3 * TACHY_KEYPOINTS};
    int err = family_net_open(&s->net, &of->family, role, setup, log);
    if (err == TACHY_OK)
        err = family_net_in(&s->net, NULL, 0);
    if (err >= 0)
        err = s->side = family_net_side(&s->net, &s->net.in[0]);
    for (int i = 0; i < NEURAL_SAID && err >= 0 && role == TACHY_ROLE_MOTION; i++)
        err = s->out[i] = family_net_out(&s->net, names[i], sizes[i]);
    if (err >= 0 && role == TACHY_ROLE_APPEARANCE)
        err = family_net_out(&s->net, NULL, 0);
    return err < 0 ? err : TACHY_OK;
}

struct tachy_preprocess_params neural_preprocess(const struct neural_seer *s, const struct tachy_log *log)
{
    return (struct tachy_preprocess_params){.width = s->side, .height = s->side, .layout = TACHY_NCHW, .scale = 1 / 255.f, .log = log};
}

int neural_view(struct tachy_view *view, const tachy_face_points point, const struct tachy_family_crop *how, int side)
{
    struct tachy_face_crop crop;
    int err = tachy_face_crop(&crop, point, how->grow, how->up, side);
    if (err < 0)
        return err;
    *view = (struct tachy_view){.use_affine = true};
    memcpy(view->affine, crop.affine, sizeof(view->affine));
    return TACHY_OK;
}

void neural_read(struct tachy_keypoints *k, const float *const said[NEURAL_SAID])
{
    tachy_keypoints_turn(k, tachy_keypoints_angle(said[NEURAL_PITCH]), tachy_keypoints_angle(said[NEURAL_YAW]),
                         tachy_keypoints_angle(said[NEURAL_ROLL]));
    memcpy(k->shift, said[NEURAL_SHIFT], sizeof(k->shift));
    memcpy(k->expression, said[NEURAL_EXPRESSION], sizeof(k->expression));
    k->scale = said[NEURAL_SCALE][0];
    memcpy(k->canonical, said[NEURAL_POINTS], sizeof(k->canonical));
}

// A network whose tensors are the host's, with the pass that makes its picture.
struct seer {
    struct neural_seer of;
    tachy_preprocess *preprocess;
};

static void seer_close(struct seer *s)
{
    family_net_close(&s->of.net);
    tachy_preprocess_close(&s->preprocess);
}

static int seer_open(struct seer *s, const struct neural *n, enum tachy_role role, const struct tachy_log *log)
{
    int err = neural_seer_open(&s->of, n, role, &n->setup, log);
    const struct tachy_preprocess_params p = neural_preprocess(&s->of, log);
    return err < 0 ? err : tachy_preprocess_open(&s->preprocess, &p);
}

static int seer_run(struct seer *s, const tachy_frame *f, const tachy_face_points point, const struct tachy_family_crop *how)
{
    struct tachy_view view;
    int err = neural_view(&view, point, how, s->of.side);
    if (err == TACHY_OK)
        err = tachy_preprocess_run(s->preprocess, f, &view, &s->of.net.in[0], NULL);
    return err < 0 ? err : tachy_engine_run(s->of.net.engine, s->of.net.in, s->of.net.out);
}

static void read_keys(const struct seer *s, struct tachy_keypoints *k)
{
    const float *said[NEURAL_SAID];
    for (int i = 0; i < NEURAL_SAID; i++)
        said[i] = s->of.net.out[s->of.out[i]].data;
    neural_read(k, said);
}

// ---- The portraits, and the driver in each frame

static int look_at(struct neural *n, struct seer seer[2], const struct animate_portrait *p)
{
    struct neural_look *l = &n->look[p->number];
    const struct tachy_tensor *features = &seer[0].of.net.out[0];
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

int neural_open(struct neural *n, struct tachy_stage *st, const tachy_settings *s)
{
    struct seer seer[2] = {{.of.net.lent = -1}, {.of.net.lent = -1}};
    n->dial.path = "animation.backend";
    atomic_store(&n->dial.value, !strcmp(tachy_settings_str(s, "animation.backend"), "neural"));
    st->dials = &n->dial;
    st->nb_dials = 1;
    n->drive = tachy_stage_priv(tachy_stage_before(st, "drive"));
    int err = tachy_family_read(&n->family, tachy_settings_str(s, "animation.neural_card"), "animate", st->task->log);
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

void neural_close(struct neural *n)
{
    for (int i = 0; i < ANIMATE_PORTRAITS; i++)
        free(n->look[i].features);
    tachy_engine_setup_free(&n->setup);
    tachy_family_free(&n->family);
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

int neural_read_setup(struct neural *n, const tachy_settings *s)
{
    int err = tachy_engine_setup_read(&n->setup, s);
    const char *asked = precision_named(tachy_settings_str(s, "animation.neural_precision"));
    bool there = !strcmp(tachy_settings_str(s, "gpu.device"), "cuda");
    if (asked || !there) // --precision is that of networks whose frames are on a GPU
        n->setup.precision = asked;
    if (there || !strcmp(tachy_settings_str(s, "animation.neural_device"), "cuda")) {
        n->setup.device = "cuda";
        n->setup.gpu = (int)tachy_settings_int(s, "gpu.id");
    }
    return err;
}

static int keypoints_open(struct tachy_stage *st, const tachy_settings *s)
{
    struct neural *n = tachy_stage_priv(st);
    int err = neural_read_setup(n, s);
    return err < 0 ? err : neural_open(n, st, s);
}

static void keypoints_close(struct tachy_stage *st) { neural_close(tachy_stage_priv(st)); }

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

bool neural_wants(struct tachy_stage *st, const struct tachy_item *item, tachy_face_points point)
{
    const struct neural *of = tachy_stage_priv(st);
    struct neural_item *to = tachy_stage_item(st, item);
    const struct tachy_region *driver = drive_region(item);
    const struct drive_item *rest = tachy_stage_item(tachy_stage_before(st, "drive"), item);
    to->on = atomic_load(&of->dial.value) != 0;
    to->look = &of->look[rest->portrait->number];
    to->seen = driver && (to->on || rest->rests);
    if (to->seen)
        track_face_points(driver, point);
    return to->seen;
}

static void keypoints_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct neural *of = tachy_stage_priv(st);
    for (int i = 0; i < n; i++) {
        const struct tachy_item *item = pieces[i].item;
        struct neural_item *to = tachy_stage_item(st, item);
        tachy_face_points point;
        if (!neural_wants(st, item, point))
            continue;
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
    const struct neural_look *look = item->look;
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

void neural_maker_close(struct neural_maker *m)
{
    family_net_close(&m->stitch);
    family_net_close(&m->warp);
    family_net_close(&m->make);
}

// The network that takes features and keypoints: the generator itself if the card names none that warps.
static int open_warping(struct neural_maker *m, const struct neural *n)
{
    struct family_net *net = neural_warps(m);
    int err = m->feature = family_net_in(net, "feature_3d", n->features);
    if (err >= 0)
        err = m->source = family_net_in(net, "kp_source", 3 * TACHY_KEYPOINTS);
    if (err >= 0)
        err = m->driving = family_net_in(net, "kp_driving", 3 * TACHY_KEYPOINTS);
    if (err < 0)
        return err;
    tachy_tensor_free(&net->in[m->feature]); // it is a portrait's
    net->lent = m->feature;
    return TACHY_OK;
}

int neural_maker_open(struct neural_maker *m, const struct neural *n, const struct tachy_engine_setup *setup,
                      const struct tachy_engine_setup *host, const struct tachy_log *log)
{
    bool stitches = n->family.file[TACHY_ROLE_STITCHING], warps = n->family.file[TACHY_ROLE_WARPING];
    m->stitch.lent = m->warp.lent = m->make.lent = -1;
    int err = stitches ? family_net_open(&m->stitch, &n->family, TACHY_ROLE_STITCHING, host, log) : TACHY_OK;
    if (err >= 0 && stitches)
        err = family_net_in(&m->stitch, NULL, 6 * TACHY_KEYPOINTS);
    if (err >= 0 && stitches)
        err = family_net_out(&m->stitch, NULL, 3 * TACHY_KEYPOINTS + 2);
    if (err >= 0 && warps)
        err = family_net_open(&m->warp, &n->family, TACHY_ROLE_WARPING, setup, log);
    if (err >= 0)
        err = family_net_open(&m->make, &n->family, TACHY_ROLE_GENERATOR, setup, log);
    if (err >= 0)
        err = open_warping(m, n);
    if (err >= 0 && warps)
        err = family_net_out(&m->warp, NULL, 0);
    if (err >= 0 && warps)
        err = family_net_in(&m->make, NULL, tachy_tensor_elements(&m->warp.out[0]));
    if (err >= 0)
        err = m->side = family_net_side(&m->make, &m->make.out[0]);
    return err < 0 ? err : TACHY_OK;
}

static void generate_worker_close(void *worker)
{
    neural_maker_close(worker);
    free(worker);
}

static int generate_worker_open(struct tachy_stage *st, int batch, void **worker)
{
    const struct neural *n = neural_of(st);
    struct neural_maker *m = *worker = calloc(1, sizeof(*m));
    int err = m ? neural_maker_open(m, n, &n->setup, &n->setup, st->task->log) : TACHY_ERR_NOMEM;
    if (err < 0 && m) {
        generate_worker_close(m);
        *worker = NULL;
    }
    return err;
}

static int generate_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct generate *g = tachy_stage_priv(st);
    animate_video(neural_of(st)->drive, video);
    return tachy_stage_pool(st, &g->pool, video->format, video->width, video->height);
}

static void generate_close(struct tachy_stage *st)
{
    struct generate *g = tachy_stage_priv(st);
    tachy_frame_pool_close(&g->pool);
}

int neural_stitch(struct neural_maker *m, const struct neural_look *look, float at[TACHY_KEYPOINTS][3])
{
    enum { N = 3 * TACHY_KEYPOINTS };
    float *in = m->stitch.engine ? m->stitch.in[0].data : NULL;
    if (!in)
        return TACHY_OK;
    memcpy(in, look->placed, N * sizeof(*in));
    memcpy(in + N, at, N * sizeof(*in));
    int err = tachy_engine_run(m->stitch.engine, m->stitch.in, m->stitch.out);
    const float *by = m->stitch.out[0].data;
    for (int i = 0; i < TACHY_KEYPOINTS && err == TACHY_OK; i++)
        for (int k = 0; k < 3; k++)
            at[i][k] += by[3 * i + k] + (k < 2 ? by[N + k] : 0);
    return err;
}

static int make(struct neural_maker *m, const struct neural_look *look, float at[TACHY_KEYPOINTS][3])
{
    struct family_net *warp = neural_warps(m);
    int err = neural_stitch(m, look, at);
    warp->in[m->feature].data = look->features;
    memcpy(warp->in[m->source].data, look->placed, sizeof(look->placed));
    memcpy(warp->in[m->driving].data, at, sizeof(look->placed));
    if (err == TACHY_OK)
        err = tachy_engine_run(warp->engine, warp->in, warp->out);
    if (err < 0 || warp == &m->make)
        return err;
    memcpy(m->make.in[0].data, warp->out[0].data, tachy_tensor_bytes(&warp->out[0]));
    return tachy_engine_run(m->make.engine, m->make.in, m->make.out);
}

int neural_paste(struct tachy_face_paste *p, const struct neural *n, const struct animate_portrait *portrait, int side, int i)
{
    const tachy_frame *f = portrait->picture;
    struct tachy_color c = tachy_color_resolve(f->color, f->format, f->width, f->height);
    double weight[4];
    tachy_ycbcr_weights(c.matrix, 8, c.range == 2, i, weight);
    for (int k = 0; k < 4; k++)
        p->matrix[k] = (float)weight[k];
    p->feather = (float)n->family.feather;
    return tachy_face_crop(&p->crop, portrait->face.point, n->family.portrait.grow, n->family.portrait.up, side);
}

static int paste(const struct neural_maker *m, const struct neural *n, const struct drive_item *of, tachy_frame *out)
{
    int err = TACHY_OK;
    for (int i = 0; i < 3 && err == TACHY_OK; i++) {
        struct tachy_face_paste p;
        struct tachy_face_plane plane = animate_plane(of->portrait->picture, out, i);
        err = neural_paste(&p, n, of->portrait, m->side, i);
        if (err < 0)
            return err;
        tachy_face_paste(&p, m->make.out[0].data, &plane);
        if (of->mirrored)
            animate_mirror(&plane);
    }
    return err;
}

static int generate(struct tachy_stage *st, struct neural_maker *m, struct tachy_item *item)
{
    const struct generate *own = tachy_stage_priv(st);
    const struct neural *n = neural_of(st);
    const struct drive_item *of = tachy_stage_item(tachy_stage_before(st, "drive"), item);
    struct neural_item *keys = tachy_stage_item(tachy_stage_before(st, "keypoints"), item);
    if (!keys->on)
        return TACHY_OK;
    int err = make(m, keys->look, keys->placed);
    if (err == TACHY_OK)
        err = tachy_frame_pool_get(own->pool, &item->out);
    if (err < 0)
        return err;
    animate_name(of, item);
    return paste(m, n, of, item->out);
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
