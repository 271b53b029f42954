#include "stage/animate.h"
#include "animate/speech.h"
#include "base/options.h"
#include "base/path.h"
#include "stage/composite.h"
#include "stage/stages.h"
#include "stage/track.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tachy/source.h>

// The first of two stages by which a face moves a portrait. It is in order: it knows the driver at rest and says how the
// portrait moves. The second, `animate`, paints that, frames side by side.

// A stream's.
struct drive_state {
    bool begun; // `neutral` is known
    int calibrations; // that it heeded
    int shown;        // the portrait that `motion` is of
    tachy_face_points neutral;
    struct tachy_face_motion motion; // of the frame before
    struct tachy_speech speech;
};

static const struct tachy_option options[] = {
    {"animate.model", NULL, 0, TACHY_OPT_STRING, "face-mesh", .arg = "NAME|FILE", .group = "Animation", .over = "model.name",
     .help = "model card of the points; --model says the same"},
    TACHY_REFINE_OPTION,
    {"animate.min_cutoff", NULL, 0, TACHY_OPT_FLOAT, "3", .min = 0.001, .max = 1000, .group = "Animation", .over = "tracking.min_cutoff",
     .help = "cut-off of the filter of points in animate; --min-cutoff says the same"},
    {"animate.beta", NULL, 0, TACHY_OPT_FLOAT, "300", .max = 10000, .group = "Animation", .over = "tracking.beta",
     .help = "how much that cut-off rises with speed in animate; --beta says the same"},
    {"animation.image", "image", 0, TACHY_OPT_LIST, .arg = "FILE", .group = "Animation",
     .help = "portrait that moves as the face in the input does, or a folder of portraits; repeat it for several, "
             "which keys 1 to 9 switch between"},
    TACHY_SOUND_OPTION,
    {"animation.portrait", "portrait", 0, TACHY_OPT_INT, "1", .min = 1, .max = ANIMATE_PORTRAITS, .arg = "N", .group = "Animation",
     .help = "number of the portrait to show; can change during a run (keys 1 to 9)"},
    {"animation.mirror", "mirror", 0, TACHY_OPT_BOOL, "false", .group = "Animation",
     .help = "flip the output like a mirror; can change during a run (key m)"},
    {"animation.recalibrate", "recalibrate", 0, TACHY_OPT_BOOL, "false", .group = "Animation",
     .help = "set during a run (key c): take the next frame with a face as the face at rest, as the first one was"},
    {"animation.pose", "pose-strength", 0, TACHY_OPT_FLOAT, "1", .max = 2, .group = "Animation",
     .help = "how strongly the portrait follows the driver's head motion; 0: not at all"},
    {"animation.expression", "expression-strength", 0, TACHY_OPT_FLOAT, "1", .max = 2, .group = "Animation",
     .help = "how strongly it follows eyes, brows and mouth; 0: not at all"},
    {"animation.motion", "motion", 0, TACHY_OPT_ENUM, "relative", .values = "relative|absolute", .group = "Animation",
     .help = "relative: the head turns by as much as the driver's has since its rest; absolute: it is turned as the driver's is"},
    {"animation.gpu_id", NULL, 0, TACHY_OPT_INT, .max = TACHY_MAX_GPUS - 1, .group = "Animation", .over = "gpu.id",
     .help = "the GPU that animates; --gpu-id says the same"},
    {"animation.batch_size", NULL, 0, TACHY_OPT_INT, .min = 1, .max = 256, .group = "Animation", .over = "model.batch_size",
     .help = "stands in for model.batch_size when animating; --batch-size says the same"},
    {"animation.inference_precision", NULL, 0, TACHY_OPT_ENUM, .values = "fp32|fp16|int8|mixed", .group = "Animation",
     .help = "stands in for gpu.precision when animating; --precision says the same",
     .keys = TACHY_KEYS(TACHY_SWITCH("animation.use_half_precision", "fp16", "fp32")), .over = "gpu.precision"},
    {"animation.provider", NULL, 0, TACHY_OPT_STRING, .arg = "NAME", .group = "Animation",
     .help = "stands in for model.provider when animating; --provider says the same",
     .keys = TACHY_KEYS(TACHY_SWITCH("animation.enable_tensorrt", "tensorrt", "auto")), .over = "model.provider"},
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
        err = tachy_read_picture(file, &to, out, NULL, log);
    if (err == TACHY_OK && like && ((*out)->width != like->width || (*out)->height != like->height))
        err = frame_black(out, like);
    return err;
}

// Stages of the host that look at portraits: the task's own, or one opened beside it if frames are on a GPU or are sound.
struct looker {
    struct tachy_stage *track; // of the task or of `own`
    tachy_task own;
};

static void looker_close(struct looker *l) { tachy_stages_close(&l->own); }

// To be closed also on failure.
static int looker_open(struct looker *l, const struct tachy_stage *st, const tachy_settings *s)
{
    tachy_settings *host = NULL;
    l->track = tachy_stage_before(st, "track");
    if (!st->task->devices && l->track)
        return TACHY_OK;
    l->own = (tachy_task){.name = st->task->name, .log = st->task->log, .eyes = 1, .pinned = -1};
    int err = tachy_settings_copy(&host, s, st->task->log);
    static const char *const on_host[][2] = {{"gpu.device", "cpu"}, {"gpu.precision", "fp32"}, {"gpu.fp16", "no"},
                                             {"animation.inference_precision", "fp32"}};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(on_host) && err == TACHY_OK; i++)
        err = tachy_settings_set(host, on_host[i][0], on_host[i][1], "animate");
    if (err == TACHY_OK)
        err = tachy_stage_add(&l->own, &tachy_stage_track, host);
    if (err == TACHY_OK)
        l->track = l->own.stage[0];
    tachy_settings_free(&host);
    return err;
}

static int open_face(struct animate_portrait *p, const struct looker *l, const char *file)
{
    const struct tachy_log *log = l->track->task->log;
    struct tachy_regions found = {0};
    tachy_face_points points;
    int err = track_still(l->track, p->picture, &found);
    if (err == TACHY_OK && (!found.nb || found.v[0].nb_points < TACHY_FACE_SKIN))
        err = tachy_fail(log, TACHY_ERR_NOT_FOUND, "%s: shows no face: give --image a picture of one that looks at the camera",
                         file);
    if (err == TACHY_OK) {
        track_face_points(&found.v[0], points);
        err = tachy_face_open(&p->face, points);
        if (err < 0)
            tachy_fail(log, err, "%s: its face is too small: give --image a larger picture of one", file);
    }
    tachy_regions_free(&found);
    return err;
}

// Of the cheeks.
static int sample_of(const struct animate_portrait *p, int plane)
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

static int add_portrait(struct drive *d, const struct looker *l, const char *file)
{
    const struct tachy_log *log = l->track->task->log;
    if (d->nb == ANIMATE_PORTRAITS)
        return tachy_fail(log, TACHY_ERR_INVAL, "%s: --image takes up to %d portraits; give it fewer", file, ANIMATE_PORTRAITS);
    struct animate_portrait *p = d->portrait[d->nb] = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->number = d->nb++;
    int err = read_portrait(file, p->number ? d->portrait[0]->picture : NULL, &p->picture, log);
    if (err == TACHY_OK)
        err = open_face(p, l, file);
    if (err == TACHY_OK)
        tachy_face_mouth(p->mouth, (const int[3]){sample_of(p, 0), sample_of(p, 1), sample_of(p, 2)});
    return err;
}

static int is_picture(const struct dirent *e) { return e->d_name[0] != '.' && tachy_path_is_picture(e->d_name); }

static int add_folder(struct drive *d, const struct looker *l, const char *folder)
{
    struct dirent **entry = NULL;
    int n = scandir(folder, &entry, is_picture, alphasort), err = TACHY_OK;
    if (n <= 0)
        err = tachy_fail(l->track->task->log, TACHY_ERR_NOT_FOUND, "%s: there is no picture in this folder for --image", folder);
    for (int i = 0; i < n; i++) {
        char *file = err == TACHY_OK ? tachy_asprintf("%s/%s", folder, entry[i]->d_name) : NULL;
        if (err == TACHY_OK)
            err = file ? add_portrait(d, l, file) : TACHY_ERR_NOMEM;
        free(file);
        free(entry[i]);
    }
    free(entry);
    return err;
}

static int add_portraits(struct tachy_stage *st, const tachy_settings *s)
{
    struct drive *d = tachy_stage_priv(st);
    struct looker l = {0};
    const char *const *files;
    size_t n = tachy_settings_list(s, "animation.image", &files);
    int err = looker_open(&l, st, s);
    for (size_t i = 0; i < n && err == TACHY_OK; i++) {
        struct stat about;
        bool folder = stat(files[i], &about) == 0 && S_ISDIR(about.st_mode);
        err = folder ? add_folder(d, &l, files[i]) : add_portrait(d, &l, files[i]);
    }
    looker_close(&l);
    return err;
}

static int drive_open(struct tachy_stage *st, const tachy_settings *s)
{
    struct drive *d = tachy_stage_priv(st);
    int shown = (int)tachy_settings_int(s, "animation.portrait");
    static const char *const paths[DRIVE_DIALS] = {"animation.portrait", "animation.mirror", "animation.recalibrate"};
    d->strength.pose = (float)tachy_settings_float(s, "animation.pose");
    d->strength.expression = (float)tachy_settings_float(s, "animation.expression");
    d->strength.absolute = !strcmp(tachy_settings_str(s, "animation.motion"), "absolute");
    d->hears = tachy_settings_is_set(s, "animation.audio");
    st->flags |= d->hears ? TACHY_STAGE_READS : 0;
    int err = add_portraits(st, s);
    if (err == TACHY_OK && shown > d->nb)
        err = tachy_fail(st->task->log, TACHY_ERR_INVAL, "--portrait %d: --image names %d", shown, d->nb);
    for (int i = 0; i < DRIVE_DIALS; i++)
        d->dial[i].path = paths[i];
    d->dial[DRIVE_PORTRAIT].why = "--image names";
    d->dial[DRIVE_PORTRAIT].most = d->nb;
    atomic_store(&d->dial[DRIVE_PORTRAIT].value, shown);
    atomic_store(&d->dial[DRIVE_MIRROR].value, tachy_settings_bool(s, "animation.mirror"));
    st->dials = d->dial;
    st->nb_dials = DRIVE_DIALS;
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

const struct tachy_region *drive_region(const struct tachy_item *item)
{
    const struct tachy_result *r = &item->result;
    return r->nb_regions && r->regions[0].nb_points >= TACHY_FACE_SKIN ? &r->regions[0] : NULL;
}

// Where the portrait moves to.
static void follow(struct drive *d, struct drive_state *s, const struct tachy_region *driver, bool *rests)
{
    const struct animate_portrait *p = d->portrait[s->shown];
    int calibrations = atomic_load(&d->dial[DRIVE_REST].asked);
    tachy_face_points now;
    if (!driver) {
        tachy_face_ease(&s->motion, 0.1f); // nobody is there: back to rest
        return;
    }
    track_face_points(driver, now);
    *rests = !s->begun || s->calibrations != calibrations;
    if (*rests)
        memcpy(s->neutral, now, sizeof(now));
    s->begun = true;
    s->calibrations = calibrations;
    tachy_face_drive(&p->face, s->neutral, now, &d->strength, &s->motion);
}

// Where the portrait moves to with what is heard.
static void speak(const struct drive *d, struct drive_state *s, const struct tachy_item *item)
{
    const struct animate_portrait *p = d->portrait[s->shown];
    tachy_face_points now;
    if (item->anew)
        s->speech = (struct tachy_speech){0};
    tachy_speech_hear(&s->speech, item->in->data[0], (double)item->in->duration * d->tick);
    tachy_speech_face(&s->speech, p->face.point, now);
    tachy_face_drive(&p->face, p->face.point, now, &d->strength, &s->motion);
}

static int drive_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct drive *d = tachy_stage_priv(st);
    d->tick = (double)video->time_base.num / video->time_base.den;
    return TACHY_OK;
}

static void drive_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct drive *d = tachy_stage_priv(st);
    struct tachy_item *item = pieces[0].item;
    struct drive_item *to = tachy_stage_item(st, item);
    struct drive_state *s = state;
    int shown = (int)atomic_load(&d->dial[DRIVE_PORTRAIT].value) - 1;
    *to = (struct drive_item){.portrait = d->portrait[shown], .mirrored = atomic_load(&d->dial[DRIVE_MIRROR].value) != 0};
    if (!s)
        return;
    if (s->shown != shown)
        memset(&s->motion, 0, sizeof(s->motion)); // its pixels are another portrait's
    s->shown = shown;
    if (d->hears)
        speak(d, s, item);
    else
        follow(d, s, drive_region(item), &to->rests);
    to->motion = s->motion;
}

static int drive_state_load(void *state, const void *data, size_t size)
{
    ((struct drive_state *)state)->calibrations = 0; // this process was asked for none yet
    return TACHY_OK;
}

const struct tachy_stage_ops tachy_stage_drive = {
    .name = "drive",
    .options = options,
    .flags = TACHY_STAGE_ORDERED,
    .step = "animate",
    .priv_size = sizeof(struct drive),
    .item_size = sizeof(struct drive_item),
    .state_size = sizeof(struct drive_state),
    .open = drive_open,
    .close = drive_close,
    .start = drive_start,
    .run = drive_run,
    .state_load = drive_state_load,
};
