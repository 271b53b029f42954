#include "stage/faces.h"
#include "measure/quality.h"
#include "stage/net.h"
#include "stage/small.h"
#include "stage/stages.h"

#include "base/options.h"

#include <math.h>
#include <stdlib.h>

// Vectors of the faces that track has found: each that is large, sharp and straight enough is turned upright by points of its
// mesh, and a network makes a vector of it.

enum { MESH = 468, CORNERS = 5 };

struct host {
    struct faces faces; // first
    struct tachy_infer net;
};

// A worker's, which sees one face after the other.
struct worker {
    struct faces_runner run; // first
    struct tachy_net_worker net;
    struct small_picture crop;
};

const struct tachy_option faces_options[] = {
    {"faces.embed", "embed", 0, TACHY_OPT_STRING, .arg = "NAME|FILE", .group = "Faces",
     .help = "model that turns a face into a vector, task \"embed\" (docs/faces.md)"},
    {"faces.size", "face-size", 0, TACHY_OPT_FLOAT, "40", .max = 10000, .arg = "PIXELS", .group = "Faces",
     .help = "leave out faces whose box is narrower or lower"},
    {"faces.blur", "face-blur", 0, TACHY_OPT_FLOAT, "0.8", .max = 1, .group = "Faces",
     .help = "leave out faces that are more blurred, by the measure of quality"},
    {"faces.angle", "face-angle", 0, TACHY_OPT_FLOAT, "60", .max = 90, .arg = "DEGREES", .group = "Faces",
     .help = "leave out faces that are turned further away from the camera"},
    {0},
};

struct tachy_net_params faces_open(struct tachy_stage *st, const tachy_settings *s)
{
    struct faces *f = tachy_stage_priv(st);
    f->least_size = tachy_settings_float(s, "faces.size");
    f->most_blur = tachy_settings_float(s, "faces.blur");
    f->most_angle = tachy_settings_float(s, "faces.angle");
    f->keeps = tachy_settings_is_set(s, "faces.people") || tachy_settings_is_set(s, "faces.names");
    return (struct tachy_net_params){.name = tachy_settings_str(s, "faces.embed"), .task = "embed"};
}

// ---- A face

// Positions of the eyes, the tip of the nose and the corners of the mouth in a picture of 112 x 112 pixels, as face
// networks are trained (ArcFace, Deng et al. 2019). Half a pixel is added, since pixel edges are at integers here.
static const double template[CORNERS][2] = {
    {38.7946, 52.1963}, {74.0318, 52.0014}, {56.5252, 72.2366}, {42.0493, 92.8655}, {71.2299, 92.7041}};

// The same points of the mesh: the middle between the corners of each eye, the tip, the corners. The one on the
// picture's left comes first.
static void corners_of(const struct tachy_point *p, double to[CORNERS][2])
{
    static const int pairs[CORNERS][2] = {{33, 133}, {362, 263}, {4, 4}, {61, 61}, {291, 291}};
    for (int i = 0; i < CORNERS; i++) {
        const struct tachy_point *a = &p[pairs[i][0]], *b = &p[pairs[i][1]];
        to[i][0] = ((double)a->x + (double)b->x) / 2;
        to[i][1] = ((double)a->y + (double)b->y) / 2;
    }
}

// The similarity, in the least squares, that maps a picture of `side` pixels in which the face is as in the template to the
// frame (Umeyama 1991, in the plane without mirroring).
static void view_of(const struct tachy_region *r, int side, struct tachy_view *v)
{
    double to[CORNERS][2], mx = 0, my = 0, tx = 0, ty = 0, re = 0, im = 0, size = 0, scale = (double)FACES_CROP / side;
    corners_of(r->points, to);
    for (int i = 0; i < CORNERS; i++) {
        mx += template[i][0] / CORNERS;
        my += template[i][1] / CORNERS;
        tx += to[i][0] / CORNERS;
        ty += to[i][1] / CORNERS;
    }
    for (int i = 0; i < CORNERS; i++) {
        double x = template[i][0] - mx, y = template[i][1] - my, u = to[i][0] - tx, w = to[i][1] - ty;
        re += x * u + y * w;
        im += x * w - y * u;
        size += x * x + y * y;
    }
    double c = re / size, s = im / size;
    *v = (struct tachy_view){.use_affine = true, .affine = {c * scale, -s * scale, tx - c * mx + s * my, s * scale, c * scale,
                                                            ty - s * mx - c * my}};
}

// Angle between the face's direction and the camera, in degrees: from the plane through forehead, chin and cheeks.
static double angle_of(const struct tachy_point *p)
{
    const double a[3] = {(double)p[454].x - (double)p[234].x, (double)p[454].y - (double)p[234].y, (double)p[454].z - (double)p[234].z};
    const double b[3] = {(double)p[152].x - (double)p[10].x, (double)p[152].y - (double)p[10].y, (double)p[152].z - (double)p[10].z};
    const double n[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
    double length = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    return length > 0 ? acos(TACHY_CLAMP(n[2] / length, -1, 1)) * 180 / 3.14159265358979323846 : 90;
}

// Sets the face's fields that are known before the network sees it.
static int begin(const struct faces *f, struct faces_face *face, const tachy_frame *in, struct faces_item *item, struct tachy_region *r)
{
    struct tachy_named *v = tachy_regions_alloc(&item->list, 4 * sizeof(*v));
    if (!v)
        return TACHY_ERR_NOMEM;
    double size = TACHY_MIN(r->w, r->h), angle = angle_of(r->points);
    v[FACES_SIZE] = (struct tachy_named){"face_size", size};
    v[FACES_BLUR] = (struct tachy_named){"face_blur", 0};
    v[FACES_ANGLE] = (struct tachy_named){"face_angle", angle};
    v[FACES_KEPT] = (struct tachy_named){"face_kept", 0};
    r->values = v;
    r->nb_values = 4;
    *face = (struct faces_face){
        .in = in, .item = item, .region = r, .value = v, .wanted = size >= f->least_size && angle <= f->most_angle};
    view_of(r, FACES_CROP, &face->crop);
    view_of(r, f->side, &face->look);
    return TACHY_OK;
}

// And after.
static int judge(const struct faces *f, struct faces_face *face)
{
    uint8_t luma[FACES_CROP * FACES_CROP], *copy = NULL;
    for (int i = 0; i < FACES_CROP * FACES_CROP; i++)
        luma[i] = (uint8_t)((54 * face->rgb[3 * i] + 183 * face->rgb[3 * i + 1] + 19 * face->rgb[3 * i + 2] + 128) >> 8);
    face->value[FACES_BLUR].value = tachy_blur_of(luma, FACES_CROP, FACES_CROP);
    face->wanted = face->wanted && face->value[FACES_BLUR].value <= f->most_blur;
    face->value[FACES_KEPT].value = face->wanted;
    if (!face->wanted || !f->keeps)
        return TACHY_OK;
    copy = tachy_regions_alloc(&face->item->list, FACES_CROP_BYTES);
    if (copy)
        face->rgb = memcpy(copy, face->rgb, FACES_CROP_BYTES);
    return copy ? TACHY_OK : TACHY_ERR_NOMEM;
}

static int look(const struct faces *f, struct faces_runner *r, struct faces_face face[], int n)
{
    int err = n ? r->crop(r, face, n) : TACHY_OK;
    for (int i = 0; i < n && err == TACHY_OK; i++)
        err = judge(f, &face[i]);
    if (n && err == TACHY_OK)
        err = r->embed(r, face, n);
    for (int i = 0; i < n && err == TACHY_OK; i++)
        if (face[i].wanted)
            face[i].item->crop[face[i].region - face[i].item->list.v] = f->keeps ? face[i].rgb : NULL;
    return err;
}

// Copies the item's regions, which the faces' values and vectors are added to.
static int take_regions(struct faces_item *to, struct tachy_item *item)
{
    tachy_regions_clear(&to->list);
    int err = tachy_regions_copy(&to->list, item->result.regions, item->result.nb_regions);
    size_t bytes = sizeof(*to->crop) * (size_t)to->list.nb;
    if (err == TACHY_OK && bytes && !(to->crop = tachy_regions_alloc(&to->list, bytes)))
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK && bytes)
        memset(to->crop, 0, bytes);
    item->result.regions = to->list.v;
    item->result.nb_regions = to->list.nb;
    return err;
}

// Faces that are looked at together; of[i] is the number of the item of face[i].
struct batch {
    struct faces_face face[FACES_TOGETHER];
    int of[FACES_TOGETHER], n;
};

static void look_at(const struct faces *f, struct faces_runner *r, struct batch *b, int err[])
{
    int all = look(f, r, b->face, b->n);
    for (int i = 0; i < b->n && all < 0; i++)
        err[b->of[i]] = all;
    b->n = 0;
}

void faces_look(struct tachy_stage *st, struct faces_runner *r, struct tachy_item *const items[], const tachy_frame *const in[], int n,
                int err[])
{
    const struct faces *f = tachy_stage_priv(st);
    struct batch b;
    b.n = 0;
    for (int i = 0; i < n; i++) {
        struct faces_item *to = tachy_stage_item(st, items[i]);
        err[i] = in[i] ? take_regions(to, items[i]) : err[i];
        for (int k = 0; in[i] && k < to->list.nb && err[i] == TACHY_OK; k++) {
            if (to->list.v[k].nb_points < MESH)
                continue;
            b.of[b.n] = i;
            err[i] = begin(f, &b.face[b.n], in[i], to, &to->list.v[k]);
            b.n += err[i] == TACHY_OK;
            if (b.n == r->together)
                look_at(f, r, &b, err);
        }
    }
    look_at(f, r, &b, err);
}

void faces_item_close(void *item) { tachy_regions_free(&((struct faces_item *)item)->list); }

// ---- Frames on the host

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct host *h = tachy_stage_priv(st);
    const struct tachy_net_params p = faces_open(st, s);
    int err = tachy_net_open(&h->net, st, &p, s);
    if (err == TACHY_OK)
        h->faces.side = h->net.net[TACHY_INFER_FULL].card->in.width;
    return err;
}

static void close(struct tachy_stage *st) { infer_free(&((struct host *)tachy_stage_priv(st))->net); }

static int crop(struct faces_runner *r, struct faces_face face[], int n)
{
    struct worker *w = (void *)r;
    face->rgb = w->crop.data;
    return small_make_view(&w->crop, face->in, &face->crop);
}

static int embed(struct faces_runner *r, struct faces_face face[], int n)
{
    struct tachy_region about = {0};
    struct tachy_regions *list = &face->item->list;
    int err = face->wanted ? tachy_net_run(&((struct worker *)r)->net, face->in, &face->look, &about, list) : TACHY_OK;
    face->region->embedding = about.embedding;
    face->region->nb_embedding = about.nb_embedding;
    return err;
}

static void worker_close(void *worker)
{
    struct worker *w = worker;
    tachy_net_worker_close(&w->net);
    small_close(&w->crop);
    free(w);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct host *h = tachy_stage_priv(st);
    struct worker *w = *worker = calloc(1, sizeof(*w));
    int err = w ? tachy_net_worker_open(&w->net, &h->net) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = small_open(&w->crop, TACHY_RGB, FACES_CROP, FACES_CROP, st->task->log);
    if (w)
        w->run = (struct faces_runner){.crop = crop, .embed = embed, .together = 1};
    if (err < 0 && w) {
        worker_close(w);
        *worker = NULL;
    }
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct worker *w = worker;
    for (int i = 0; i < n; i++) {
        struct tachy_item *item = pieces[i].item;
        faces_look(st, &w->run, &item, &(const tachy_frame *){item->in}, 1, &err[i]);
    }
}

const struct tachy_stage_ops tachy_stage_faces = {
    .name = "faces",
    .options = faces_options,
    .flags = TACHY_STAGE_READS | TACHY_STAGE_MODEL,
    .priv_size = sizeof(struct host),
    .item_size = sizeof(struct faces_item),
    .open = open,
    .close = close,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .item_close = faces_item_close,
};
