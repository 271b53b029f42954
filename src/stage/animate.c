#include "animate/face.h"
#include "base/options.h"
#include "stage/composite.h"
#include "stage/stages.h"
#include "stage/track.h"

#include <stdlib.h>
#include <tachy/source.h>

// A face moves a portrait, in two stages. The first is in order: it knows the driver at rest and says how the portrait
// moves. The second paints that, frames side by side.

struct drive {
    struct tachy_face face; // the portrait's
    struct tachy_face_strength strength;
    tachy_frame *portrait; // YUV420P, as it is shown
    uint8_t mouth[3][TACHY_MOUTH_SIZE * TACHY_MOUTH_SIZE];
};

// A stream's.
struct drive_state {
    bool begun; // `neutral` is known
    tachy_face_points neutral;
    struct tachy_face_motion motion; // of the frame before
};

#define ON_CPU "tachy animate runs on the CPU, frame by frame"

static const struct tachy_option options[] = {
    {"animate.model", NULL, 0, TACHY_OPT_STRING, "face-mesh", .arg = "NAME|FILE", .group = "Animation", .over = "model.name",
     .help = "model card of the points; --model says the same"},
    TACHY_REFINE_OPTION,
    {"animate.min_cutoff", NULL, 0, TACHY_OPT_FLOAT, "3", .min = 0.001, .max = 1000, .group = "Animation", .over = "tracking.min_cutoff",
     .help = "cut-off of the filter of points in animate; --min-cutoff says the same"},
    {"animate.beta", NULL, 0, TACHY_OPT_FLOAT, "300", .max = 10000, .group = "Animation", .over = "tracking.beta",
     .help = "what it rises by with speed in animate; --beta says the same"},
    {"animation.image", "image", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Animation",
     .help = "picture of the face that moves as the input's does"},
    {"animation.pose", "pose-strength", 0, TACHY_OPT_FLOAT, "1", .max = 2, .group = "Animation",
     .help = "how much of the driver's head motion the portrait takes over; 0: none"},
    {"animation.expression", "expression-strength", 0, TACHY_OPT_FLOAT, "1", .max = 2, .group = "Animation",
     .help = "the same of eyes, brows and mouth"},
    {"animation.gpu_id", NULL, 0, TACHY_OPT_INT, .max = 255, .group = "Animation",
     .help = "number of the GPU that animates", .planned = ON_CPU},
    {"animation.batch_size", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 256, .group = "Animation",
     .help = "stands in for model.batch_size when animating", .over = "model.batch_size",
     .planned = ON_CPU},
    {"animation.inference_precision", NULL, 0, TACHY_OPT_ENUM, .values = "fp32|fp16|int8|mixed", .group = "Animation",
     .help = "stands in for gpu.precision when animating",
     .keys = TACHY_KEYS(TACHY_SWITCH("animation.use_half_precision", "fp16", "fp32")), .over = "gpu.precision",
     .planned = ON_CPU},
    {"animation.enable_tensorrt", NULL, 0, TACHY_OPT_BOOL, .group = "Animation",
     .help = "animate with the provider tensorrt", .planned = ON_CPU},
    {0},
};

// ---- The portrait

static int read_portrait(const char *file, tachy_frame **out, const struct tachy_log *log)
{
    tachy_source *source = NULL;
    int err = tachy_source_open(&source, tachy_source_params(.url = file, .max_frames = 1, .log = log));
    const struct tachy_video_info *info = err == TACHY_OK ? tachy_source_info(source) : NULL;
    struct tachy_convert_to to = {TACHY_PIX_YUV420P, 0, 0, {0}};
    *out = NULL;
    if (info) {
        to.width = info->width;
        to.height = info->height;
        to.color = info->color;
    }
    tachy_source_close(&source);
    return err == TACHY_OK ? tachy_read_picture(file, &to, out, log) : err;
}

static int open_face(struct drive *d, struct tachy_stage *st, const char *file)
{
    struct tachy_regions found = {0};
    tachy_face_points points;
    int err = track_still(tachy_stage_before(st, "track"), d->portrait, &found);
    if (err == TACHY_OK && (!found.nb || found.v[0].nb_points < TACHY_FACE_SKIN))
        err = tachy_fail(st->task->log, TACHY_ERR_NOT_FOUND, "%s: shows no face: give --image a picture of one that looks at the camera",
                         file);
    if (err == TACHY_OK) {
        track_face_points(&found.v[0], points);
        err = tachy_face_open(&d->face, points);
        if (err < 0)
            tachy_fail(st->task->log, err, "%s: its face is too small: give --image a larger picture of one", file);
    }
    tachy_regions_free(&found);
    return err;
}

// Of the cheeks.
static int sample_of(const struct drive *d, int plane)
{
    static const int16_t cheeks[] = {50, 280, 205, 425, 117, 346};
    const tachy_frame *f = d->portrait;
    int sum = 0;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(cheeks); i++) {
        int x = TACHY_CLAMP((int)d->face.point[cheeks[i]][0], 0, f->width - 1) >> (plane > 0);
        int y = TACHY_CLAMP((int)d->face.point[cheeks[i]][1], 0, f->height - 1) >> (plane > 0);
        sum += f->data[plane][y * f->stride[plane] + x];
    }
    return sum / (int)TACHY_ARRAY_SIZE(cheeks);
}

static int drive_open(struct tachy_stage *st, const tachy_settings *s)
{
    struct drive *d = tachy_stage_priv(st);
    const char *file = tachy_settings_str(s, "animation.image");
    d->strength.pose = (float)tachy_settings_float(s, "animation.pose");
    d->strength.expression = (float)tachy_settings_float(s, "animation.expression");
    int err = read_portrait(file, &d->portrait, st->task->log);
    if (err == TACHY_OK)
        err = open_face(d, st, file);
    if (err == TACHY_OK)
        tachy_face_mouth(d->mouth, (const int[3]){sample_of(d, 0), sample_of(d, 1), sample_of(d, 2)});
    return err;
}

static void drive_close(struct tachy_stage *st)
{
    struct drive *d = tachy_stage_priv(st);
    tachy_frame_unref(&d->portrait);
}

// ---- The driver

static const struct tachy_region *driver_of(const struct tachy_item *item)
{
    const struct tachy_result *r = &item->result;
    return r->nb_regions && r->regions[0].nb_points >= TACHY_FACE_SKIN ? &r->regions[0] : NULL;
}

static void drive_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct drive *d = tachy_stage_priv(st);
    struct tachy_item *item = pieces[0].item;
    struct tachy_face_motion *motion = tachy_stage_item(st, item);
    const struct tachy_region *driver = driver_of(item);
    struct drive_state *s = state;
    tachy_face_points now;
    memset(motion, 0, sizeof(*motion));
    if (!s)
        return;
    if (driver) {
        track_face_points(driver, now);
        if (!s->begun)
            memcpy(s->neutral, now, sizeof(now));
        s->begun = true;
        tachy_face_drive(&d->face, s->neutral, now, &d->strength, &s->motion);
    } else {
        tachy_face_ease(&s->motion, 0.1f); // nobody is there: back to rest
    }
    *motion = s->motion;
}

static int drive_state_open(struct tachy_stage *st, void **state)
{
    *state = calloc(1, sizeof(struct drive_state));
    return *state ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void drive_state_close(void *state) { free(state); }

static int drive_state_save(const void *state, void **data, size_t *size)
{
    *size = sizeof(struct drive_state);
    *data = malloc(*size);
    if (!*data)
        return TACHY_ERR_NOMEM;
    memcpy(*data, state, *size);
    return TACHY_OK;
}

static int drive_state_load(void *state, const void *data, size_t size)
{
    if (size != sizeof(struct drive_state))
        return TACHY_ERR_FORMAT;
    memcpy(state, data, size);
    return TACHY_OK;
}

const struct tachy_stage_ops tachy_stage_drive = {
    .name = "drive",
    .options = options,
    .flags = TACHY_STAGE_ORDERED,
    .step = "animate",
    .priv_size = sizeof(struct drive),
    .item_size = sizeof(struct tachy_face_motion),
    .open = drive_open,
    .close = drive_close,
    .run = drive_run,
    .state_open = drive_state_open,
    .state_close = drive_state_close,
    .state_save = drive_state_save,
    .state_load = drive_state_load,
};

// ---- The picture

struct animate {
    tachy_frame_pool *pool;
};

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct animate *a = tachy_stage_priv(st);
    const struct drive *d = tachy_stage_priv(tachy_stage_before(st, "drive"));
    video->format = d->portrait->format;
    video->width = d->portrait->width;
    video->height = d->portrait->height;
    video->color = d->portrait->color;
    video->sar = (struct tachy_rational){1, 1};
    video->rotation = 0;
    video->flipped = false;
    video->stereo = TACHY_STEREO_MONO;
    video->transparent = false;
    tachy_frame_pool_close(&a->pool);
    int err = tachy_frame_pool_open(&a->pool, video->format, video->width, video->height);
    if (err == TACHY_OK && st->task->memory)
        tachy_frame_pool_account(a->pool, st->task->memory);
    return err;
}

static void close(struct tachy_stage *st)
{
    struct animate *a = tachy_stage_priv(st);
    tachy_frame_pool_close(&a->pool);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    *worker = malloc(sizeof(struct tachy_face_placed));
    return *worker ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void paint(const struct drive *d, const struct tachy_face_placed *placed, tachy_frame *out)
{
    for (int i = 0; i < 3; i++) {
        struct tachy_face_plane p = {
            .src = d->portrait->data[i], .stride_src = d->portrait->stride[i],
            .dst = tachy_frame_writable(out, i), .stride_dst = out->stride[i],
            .width = i ? (out->width + 1) / 2 : out->width, .height = i ? (out->height + 1) / 2 : out->height,
            .scale_x = i ? 0.5f : 1, .scale_y = i ? 0.5f : 1};
        for (int y = 0; y < p.height; y++)
            memcpy(p.dst + y * p.stride_dst, p.src + y * p.stride_src, (size_t)p.width);
        tachy_face_paint(&d->face, placed, &p, d->mouth[i]);
    }
}

static int animate(struct tachy_stage *st, struct tachy_face_placed *placed, struct tachy_item *item)
{
    const struct animate *a = tachy_stage_priv(st);
    const struct tachy_stage *of = tachy_stage_before(st, "drive");
    const struct drive *d = tachy_stage_priv(of);
    const tachy_frame *head = tachy_item_head(item);
    int err = tachy_frame_pool_get(a->pool, &item->out);
    if (err < 0)
        return err;
    item->out->id = head->id;
    item->out->pts = head->pts;
    item->out->duration = head->duration;
    item->out->color = d->portrait->color;
    tachy_face_place(&d->face, tachy_stage_item(of, item), placed);
    paint(d, placed, item->out);
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = animate(st, worker, pieces[i].item);
}

const struct tachy_stage_ops tachy_stage_animate = {
    .name = "animate",
    .flags = TACHY_STAGE_WRITES,
    .priv_size = sizeof(struct animate),
    .open = NULL,
    .close = close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = free,
    .run = run,
};
