#include "animate/face.h"
#include "base/options.h"
#include "base/path.h"
#include "stage/composite.h"
#include "stage/stages.h"
#include "stage/track.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tachy/source.h>

// A face moves a portrait, in two stages. The first is in order: it knows the driver at rest and says how the portrait
// moves. The second paints that, frames side by side.

enum { PORTRAITS_MOST = 64 };
enum { PORTRAIT, MIRROR, REST, DIALS }; // what changes during a run; REST: how often a new one was asked for

struct portrait {
    struct tachy_face face;
    tachy_frame *picture; // YUV420P, as it is shown; all have one size
    uint8_t mouth[3][TACHY_MOUTH_SIZE * TACHY_MOUTH_SIZE];
};

struct drive {
    struct portrait *portrait[PORTRAITS_MOST];
    int nb;
    struct tachy_face_strength strength;
    struct tachy_stage_dial dial[DIALS];
};

// A stream's.
struct drive_state {
    bool begun; // `neutral` is known
    int calibrations; // that it heeded
    int shown;        // the portrait that `motion` is of
    tachy_face_points neutral;
    struct tachy_face_motion motion; // of the frame before
};

// An item's: how it is painted.
struct drive_item {
    struct tachy_face_motion motion;
    const struct portrait *portrait;
    bool mirrored;
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
    {"animation.image", "image", 0, TACHY_OPT_LIST, .arg = "FILE", .group = "Animation",
     .help = "picture of the face that moves as the input's does, or a folder of such; given again, there are several, which "
             "keys 1 to 9 switch between"},
    {"animation.portrait", "portrait", 0, TACHY_OPT_INT, "1", .min = 1, .max = PORTRAITS_MOST, .arg = "N", .group = "Animation",
     .help = "number of the portrait that is shown; can change during a run (keys 1 to 9)"},
    {"animation.mirror", "mirror", 0, TACHY_OPT_BOOL, "false", .group = "Animation",
     .help = "mirror the output as a looking glass does; can change during a run (key m)"},
    {"animation.recalibrate", "recalibrate", 0, TACHY_OPT_BOOL, "false", .group = "Animation",
     .help = "set during a run (key c): the next frame with a face counts as at rest, as the first one did"},
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

// The largest size of the shape `w` x `h` inside `width` x `height`.
static void fit_inside(struct tachy_convert_to *to, int w, int h, int width, int height)
{
    double scale = TACHY_MIN((double)width / w, (double)height / h);
    to->width = TACHY_CLAMP((int)(w * scale + 0.5), 1, width);
    to->height = TACHY_CLAMP((int)(h * scale + 0.5), 1, height);
}

// Into the middle of a black picture of the size and colour of `like`.
static int frame_black(tachy_frame **picture, const tachy_frame *like)
{
    static const uint8_t black[3] = {16, 128, 128};
    tachy_frame *in = *picture, *out = NULL;
    int err = tachy_frame_new(&out, &(struct tachy_frame_params){.format = like->format, .width = like->width,
                                                                 .height = like->height});
    for (int i = 0; i < 3 && err == TACHY_OK; i++) {
        int width = i ? (out->width + 1) / 2 : out->width, height = i ? (out->height + 1) / 2 : out->height;
        int w = i ? (in->width + 1) / 2 : in->width, h = i ? (in->height + 1) / 2 : in->height;
        int x = (out->width - in->width) / 4 * 2 >> (i > 0), y = (out->height - in->height) / 4 * 2 >> (i > 0);
        uint8_t *to = tachy_frame_writable(out, i);
        for (int row = 0; row < height; row++)
            memset(to + row * out->stride[i], i || like->color.range != 2 ? black[i] : 0, (size_t)width);
        for (int row = 0; row < h; row++)
            memcpy(to + (row + y) * out->stride[i] + x, in->data[i] + row * in->stride[i], (size_t)w);
    }
    if (err < 0)
        return err;
    out->color = like->color;
    tachy_frame_unref(picture);
    *picture = out;
    return TACHY_OK;
}

// `like`: whose size it is given; NULL: its own.
static int read_portrait(const char *file, const tachy_frame *like, tachy_frame **out, const struct tachy_log *log)
{
    tachy_source *source = NULL;
    int err = tachy_source_open(&source, tachy_source_params(.url = file, .max_frames = 1, .log = log));
    const struct tachy_video_info *info = err == TACHY_OK ? tachy_source_info(source) : NULL;
    struct tachy_convert_to to = {TACHY_PIX_YUV420P, 0, 0, {0}};
    *out = NULL;
    if (info) {
        to.width = info->width;
        to.height = info->height;
        to.color = like ? like->color : info->color;
    }
    if (info && like)
        fit_inside(&to, info->width, info->height, like->width, like->height);
    tachy_source_close(&source);
    if (err == TACHY_OK)
        err = tachy_read_picture(file, &to, out, log);
    if (err == TACHY_OK && like && ((*out)->width != like->width || (*out)->height != like->height))
        err = frame_black(out, like);
    return err;
}

static int open_face(struct portrait *p, struct tachy_stage *st, const char *file)
{
    struct tachy_regions found = {0};
    tachy_face_points points;
    int err = track_still(tachy_stage_before(st, "track"), p->picture, &found);
    if (err == TACHY_OK && (!found.nb || found.v[0].nb_points < TACHY_FACE_SKIN))
        err = tachy_fail(st->task->log, TACHY_ERR_NOT_FOUND, "%s: shows no face: give --image a picture of one that looks at the camera",
                         file);
    if (err == TACHY_OK) {
        track_face_points(&found.v[0], points);
        err = tachy_face_open(&p->face, points);
        if (err < 0)
            tachy_fail(st->task->log, err, "%s: its face is too small: give --image a larger picture of one", file);
    }
    tachy_regions_free(&found);
    return err;
}

// Of the cheeks.
static int sample_of(const struct portrait *p, int plane)
{
    static const int16_t cheeks[] = {50, 280, 205, 425, 117, 346};
    const tachy_frame *f = p->picture;
    int sum = 0;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(cheeks); i++) {
        int x = TACHY_CLAMP((int)p->face.point[cheeks[i]][0], 0, f->width - 1) >> (plane > 0);
        int y = TACHY_CLAMP((int)p->face.point[cheeks[i]][1], 0, f->height - 1) >> (plane > 0);
        sum += f->data[plane][y * f->stride[plane] + x];
    }
    return sum / (int)TACHY_ARRAY_SIZE(cheeks);
}

static int add_portrait(struct tachy_stage *st, const char *file)
{
    struct drive *d = tachy_stage_priv(st);
    if (d->nb == PORTRAITS_MOST)
        return tachy_fail(st->task->log, TACHY_ERR_INVAL, "%s: --image takes up to %d portraits; give it fewer", file, PORTRAITS_MOST);
    struct portrait *p = d->portrait[d->nb] = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    int err = read_portrait(file, d->nb++ ? d->portrait[0]->picture : NULL, &p->picture, st->task->log);
    if (err == TACHY_OK)
        err = open_face(p, st, file);
    if (err == TACHY_OK)
        tachy_face_mouth(p->mouth, (const int[3]){sample_of(p, 0), sample_of(p, 1), sample_of(p, 2)});
    return err;
}

static int is_picture(const struct dirent *e) { return e->d_name[0] != '.' && tachy_path_is_picture(e->d_name); }

static int add_folder(struct tachy_stage *st, const char *folder)
{
    struct dirent **entry = NULL;
    int n = scandir(folder, &entry, is_picture, alphasort), err = TACHY_OK;
    if (n <= 0)
        err = tachy_fail(st->task->log, TACHY_ERR_NOT_FOUND, "%s: there is no picture in this folder for --image", folder);
    for (int i = 0; i < n; i++) {
        char *file = err == TACHY_OK ? tachy_asprintf("%s/%s", folder, entry[i]->d_name) : NULL;
        if (err == TACHY_OK)
            err = file ? add_portrait(st, file) : TACHY_ERR_NOMEM;
        free(file);
        free(entry[i]);
    }
    free(entry);
    return err;
}

static int drive_open(struct tachy_stage *st, const tachy_settings *s)
{
    struct drive *d = tachy_stage_priv(st);
    const char *const *files;
    size_t n = tachy_settings_list(s, "animation.image", &files);
    int shown = (int)tachy_settings_int(s, "animation.portrait"), err = TACHY_OK;
    static const char *const paths[DIALS] = {"animation.portrait", "animation.mirror", "animation.recalibrate"};
    d->strength.pose = (float)tachy_settings_float(s, "animation.pose");
    d->strength.expression = (float)tachy_settings_float(s, "animation.expression");
    for (size_t i = 0; i < n && err == TACHY_OK; i++) {
        struct stat about;
        bool folder = stat(files[i], &about) == 0 && S_ISDIR(about.st_mode);
        err = folder ? add_folder(st, files[i]) : add_portrait(st, files[i]);
    }
    if (err == TACHY_OK && shown > d->nb)
        err = tachy_fail(st->task->log, TACHY_ERR_INVAL, "--portrait %d: --image names %d", shown, d->nb);
    for (int i = 0; i < DIALS; i++)
        d->dial[i].path = paths[i];
    d->dial[PORTRAIT].why = "--image names";
    d->dial[PORTRAIT].most = d->nb;
    atomic_store(&d->dial[PORTRAIT].value, shown);
    atomic_store(&d->dial[MIRROR].value, tachy_settings_bool(s, "animation.mirror"));
    st->dials = d->dial;
    st->nb_dials = DIALS;
    return err;
}

static void drive_close(struct tachy_stage *st)
{
    struct drive *d = tachy_stage_priv(st);
    for (int i = 0; i < d->nb; i++) {
        tachy_frame_unref(&d->portrait[i]->picture);
        free(d->portrait[i]);
    }
}

// ---- The driver

static const struct tachy_region *driver_of(const struct tachy_item *item)
{
    const struct tachy_result *r = &item->result;
    return r->nb_regions && r->regions[0].nb_points >= TACHY_FACE_SKIN ? &r->regions[0] : NULL;
}

// Where the portrait moves to.
static void follow(struct drive *d, struct drive_state *s, const struct tachy_region *driver)
{
    const struct portrait *p = d->portrait[s->shown];
    int calibrations = atomic_load(&d->dial[REST].asked);
    tachy_face_points now;
    if (!driver) {
        tachy_face_ease(&s->motion, 0.1f); // nobody is there: back to rest
        return;
    }
    track_face_points(driver, now);
    if (!s->begun || s->calibrations != calibrations)
        memcpy(s->neutral, now, sizeof(now));
    s->begun = true;
    s->calibrations = calibrations;
    tachy_face_drive(&p->face, s->neutral, now, &d->strength, &s->motion);
}

static void drive_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct drive *d = tachy_stage_priv(st);
    struct tachy_item *item = pieces[0].item;
    struct drive_item *to = tachy_stage_item(st, item);
    struct drive_state *s = state;
    int shown = (int)atomic_load(&d->dial[PORTRAIT].value) - 1;
    *to = (struct drive_item){.portrait = d->portrait[shown], .mirrored = atomic_load(&d->dial[MIRROR].value) != 0};
    if (!s)
        return;
    if (s->shown != shown)
        memset(&s->motion, 0, sizeof(s->motion)); // its pixels are another portrait's
    s->shown = shown;
    follow(d, s, driver_of(item));
    to->motion = s->motion;
}

static int drive_state_open(struct tachy_stage *st, void **state)
{
    *state = calloc(1, sizeof(struct drive_state));
    return *state ? TACHY_OK : TACHY_ERR_NOMEM;
}

static int drive_state_save(const void *state, void **data, size_t *size)
{
    return tachy_state_save(state, sizeof(struct drive_state), data, size);
}

static int drive_state_load(void *state, const void *data, size_t size)
{
    int err = tachy_state_load(state, sizeof(struct drive_state), data, size);
    ((struct drive_state *)state)->calibrations = 0; // this process was asked for none yet
    return err;
}

const struct tachy_stage_ops tachy_stage_drive = {
    .name = "drive",
    .options = options,
    .flags = TACHY_STAGE_ORDERED,
    .step = "animate",
    .priv_size = sizeof(struct drive),
    .item_size = sizeof(struct drive_item),
    .open = drive_open,
    .close = drive_close,
    .run = drive_run,
    .state_open = drive_state_open,
    .state_close = free,
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
    const tachy_frame *picture = d->portrait[0]->picture;
    video->format = picture->format;
    video->width = picture->width;
    video->height = picture->height;
    video->color = picture->color;
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

static void mirror(const struct tachy_face_plane *p)
{
    for (int y = 0; y < p->height; y++) {
        uint8_t *row = p->dst + y * p->stride_dst;
        for (int a = 0, b = p->width - 1; a < b; a++, b--) {
            uint8_t left = row[a];
            row[a] = row[b];
            row[b] = left;
        }
    }
}

static void paint(const struct drive_item *of, const struct tachy_face_placed *placed, tachy_frame *out)
{
    const tachy_frame *from = of->portrait->picture;
    for (int i = 0; i < 3; i++) {
        struct tachy_face_plane p = {
            .src = from->data[i], .stride_src = from->stride[i],
            .dst = tachy_frame_writable(out, i), .stride_dst = out->stride[i],
            .width = i ? (out->width + 1) / 2 : out->width, .height = i ? (out->height + 1) / 2 : out->height,
            .scale_x = i ? 0.5f : 1, .scale_y = i ? 0.5f : 1};
        for (int y = 0; y < p.height; y++)
            memcpy(p.dst + y * p.stride_dst, p.src + y * p.stride_src, (size_t)p.width);
        tachy_face_paint(&of->portrait->face, placed, &p, of->portrait->mouth[i]);
        if (of->mirrored)
            mirror(&p);
    }
}

static int animate(struct tachy_stage *st, struct tachy_face_placed *placed, struct tachy_item *item)
{
    const struct animate *a = tachy_stage_priv(st);
    const struct drive_item *of = tachy_stage_item(tachy_stage_before(st, "drive"), item);
    const tachy_frame *head = tachy_item_head(item);
    int err = tachy_frame_pool_get(a->pool, &item->out);
    if (err < 0)
        return err;
    item->out->id = head->id;
    item->out->pts = head->pts;
    item->out->duration = head->duration;
    item->out->color = of->portrait->picture->color;
    tachy_face_place(&of->portrait->face, &of->motion, placed);
    paint(of, placed, item->out);
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
