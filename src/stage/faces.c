#include "stage/faces.h"
#include "measure/quality.h"
#include "stage/net.h"
#include "stage/small.h"
#include "stage/stages.h"

#include "base/cpu.h"
#include "base/options.h"

#include <math.h>
#include <stdlib.h>

// Whose the faces are that track has found: each that is large, sharp and straight enough is turned upright by points of its
// mesh, a network makes a vector of it, and after the last item the vectors are clustered (faces_store.c).

enum { MESH = 468, CORNERS = 5 };

struct faces {
    struct tachy_infer net;
    struct faces_store *store;
    struct faces_params p;
    double least_size, most_blur, most_angle;
    char *people, *names;
};

struct worker {
    struct tachy_net_worker net;
    struct small_picture crop;
    uint8_t luma[FACES_CROP * FACES_CROP];
};

static const struct tachy_option options[] = {
    {"faces.embed", "embed", 0, TACHY_OPT_STRING, .arg = "NAME|FILE", .group = "Faces",
     .help = "model card of the network that makes a vector of a face, task \"embed\" (docs/faces.md)"},
    {"faces.size", "face-size", 0, TACHY_OPT_FLOAT, "40", .max = 10000, .arg = "PIXELS", .group = "Faces",
     .help = "faces whose box is narrower or lower are left out"},
    {"faces.blur", "face-blur", 0, TACHY_OPT_FLOAT, "0.8", .max = 1, .group = "Faces",
     .help = "faces that are more blurred are left out, as quality measures it"},
    {"faces.angle", "face-angle", 0, TACHY_OPT_FLOAT, "60", .max = 90, .arg = "DEGREES", .group = "Faces",
     .help = "faces that are turned further away from the camera are left out"},
    {"faces.cluster_size", "cluster-size", 0, TACHY_OPT_INT, "2", .min = 2, .max = 100000, .group = "Faces",
     .help = "tracks or pictures that make somebody a person"},
    {"faces.cluster_samples", "cluster-samples", 0, TACHY_OPT_INT, "1", .min = 1, .max = 1000, .group = "Faces",
     .help = "near faces that make a place dense, the face itself counted: more leaves more faces out"},
    {"faces.cluster_select", "cluster-select", 0, TACHY_OPT_ENUM, "eom", .values = "eom|leaf", .group = "Faces",
     .help = "which clusters of HDBSCAN's tree are people: the most stable ones, or the smallest"},
    {"faces.people", "people", 0, TACHY_OPT_STRING, .arg = "FOLDER", .group = "Faces", .at_end = true,
     .help = "write a list of all faces here, and a folder with the inputs and a montage for each person"},
    {"faces.put", "put", 0, TACHY_OPT_ENUM, "links", .values = "links|copies|list", .group = "Faces",
     .help = "how inputs come into those folders: as hard links, as copies, or not at all"},
    {"faces.names", "names-file", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Faces", .at_end = true,
     .help = "people that are known, with the names in this file; new ones are added to it"},
    {"faces.same", "same", 0, TACHY_OPT_FLOAT, "0.5", .max = 1, .group = "Faces",
     .help = "cosine to a known person from which a face is that person's"},
    {"faces.join", "join", 0, TACHY_OPT_FLOAT, "0.7", .max = 1, .group = "Faces",
     .help = "cosine of the means of two clusters from which they are one person; 1: clusters stay apart"},
    {0},
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct faces *f = tachy_stage_priv(st);
    const char *people = tachy_settings_str(s, "faces.people"), *names = tachy_settings_str(s, "faces.names");
    const char *put = tachy_settings_str(s, "faces.put");
    f->least_size = tachy_settings_float(s, "faces.size");
    f->most_blur = tachy_settings_float(s, "faces.blur");
    f->most_angle = tachy_settings_float(s, "faces.angle");
    f->store = faces_store_open();
    f->people = people ? strdup(people) : NULL;
    f->names = names ? strdup(names) : NULL;
    if (!f->store || (people && !f->people) || (names && !f->names))
        return TACHY_ERR_NOMEM;
    f->p = (struct faces_params){
        .cluster = {.least = (int)tachy_settings_int(s, "faces.cluster_size"),
                    .samples = (int)tachy_settings_int(s, "faces.cluster_samples"),
                    .select = strcmp(tachy_settings_str(s, "faces.cluster_select"), "eom") ? TACHY_CLUSTER_LEAF : TACHY_CLUSTER_EOM},
        .same = tachy_settings_float(s, "faces.same"),
        .join = tachy_settings_float(s, "faces.join"),
        .people = f->people,
        .put = !strcmp(put, "links") ? FACES_LINKS : !strcmp(put, "copies") ? FACES_COPIES : FACES_LIST,
        .names = f->names,
        .log = st->task->log,
    };
    return tachy_net_open(&f->net, st, &(struct tachy_net_params){.name = tachy_settings_str(s, "faces.embed"), .task = "embed"}, s);
}

static void close(struct tachy_stage *st)
{
    struct faces *f = tachy_stage_priv(st);
    infer_free(&f->net);
    faces_store_close(f->store);
    free(f->people);
    free(f->names);
}

static int finish(struct tachy_stage *st)
{
    struct faces *f = tachy_stage_priv(st);
    if (!f->people && !f->names)
        return TACHY_OK;
    f->p.cluster.threads = tachy_cpu_count();
    return faces_store_write(f->store, &f->p);
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
    struct faces *f = tachy_stage_priv(st);
    struct worker *w = *worker = calloc(1, sizeof(*w));
    int err = w ? tachy_net_worker_open(&w->net, &f->net) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = small_open(&w->crop, TACHY_RGB, FACES_CROP, FACES_CROP, st->task->log);
    if (err < 0 && w) {
        worker_close(w);
        *worker = NULL;
    }
    return err;
}

// ---- A face

// Where the eyes, the tip of the nose and the corners of the mouth are in a picture of 112 x 112 pixels that face networks are
// trained with (ArcFace, Deng et al. 2019); half a pixel is added, since pixel edges are at integers here.
static const double template[CORNERS][2] = {
    {38.7946, 52.1963}, {74.0318, 52.0014}, {56.5252, 72.2366}, {42.0493, 92.8655}, {71.2299, 92.7041}};

// The same points of the mesh: the middle between the corners of an eye, the tip, the corners. Left in the picture first.
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

// Degrees between where the face looks and the camera: the plane through forehead, chin and cheeks.
static double angle_of(const struct tachy_point *p)
{
    const double a[3] = {(double)p[454].x - (double)p[234].x, (double)p[454].y - (double)p[234].y, (double)p[454].z - (double)p[234].z};
    const double b[3] = {(double)p[152].x - (double)p[10].x, (double)p[152].y - (double)p[10].y, (double)p[152].z - (double)p[10].z};
    const double n[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
    double length = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    return length > 0 ? acos(TACHY_CLAMP(n[2] / length, -1, 1)) * 180 / 3.14159265358979323846 : 90;
}

static int look(struct tachy_stage *st, struct worker *w, const struct tachy_item *item, struct tachy_region *r, struct tachy_regions *list)
{
    struct faces *f = tachy_stage_priv(st);
    struct tachy_named *v = tachy_regions_alloc(list, 4 * sizeof(*v));
    struct tachy_view view;
    if (!v)
        return TACHY_ERR_NOMEM;
    view_of(r, FACES_CROP, &view);
    int err = small_make_view(&w->crop, item->in, &view);
    if (err < 0)
        return err;
    for (int i = 0; i < FACES_CROP * FACES_CROP; i++)
        w->luma[i] = (uint8_t)((54 * w->crop.data[3 * i] + 183 * w->crop.data[3 * i + 1] + 19 * w->crop.data[3 * i + 2] + 128) >> 8);
    double size = TACHY_MIN(r->w, r->h), angle = angle_of(r->points), blur = tachy_blur_of(w->luma, FACES_CROP, FACES_CROP);
    bool kept = size >= f->least_size && angle <= f->most_angle && blur <= f->most_blur;
    v[0] = (struct tachy_named){"face_size", size};
    v[1] = (struct tachy_named){"face_blur", blur};
    v[2] = (struct tachy_named){"face_angle", angle};
    v[3] = (struct tachy_named){"face_kept", kept};
    r->values = v;
    r->nb_values = 4;
    if (!kept)
        return TACHY_OK;
    struct tachy_region about = {0};
    view_of(r, f->net.net[TACHY_INFER_FULL].card->in.width, &view);
    err = tachy_net_run(&w->net, item->in, &view, &about, list);
    r->embedding = about.embedding;
    r->nb_embedding = about.nb_embedding;
    if (err < 0 || (!f->people && !f->names))
        return err;
    return faces_store_add(f->store, st->task->input, item->in->id, r, size * (1 - blur) * cos(angle * 3.14159265358979323846 / 180),
                           w->crop.data);
}

static int look_at_all(struct tachy_stage *st, struct worker *w, struct tachy_item *item)
{
    struct tachy_regions *list = tachy_stage_item(st, item);
    tachy_regions_clear(list);
    int err = tachy_regions_copy(list, item->result.regions, item->result.nb_regions);
    for (int i = 0; i < list->nb && err == TACHY_OK; i++)
        if (list->v[i].nb_points >= MESH)
            err = look(st, w, item, &list->v[i], list);
    item->result.regions = list->v;
    item->result.nb_regions = list->nb;
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = look_at_all(st, worker, pieces[i].item);
}

static void item_close(void *item) { tachy_regions_free(item); }

const struct tachy_stage_ops tachy_stage_faces = {
    .name = "faces",
    .options = options,
    .flags = TACHY_STAGE_READS | TACHY_STAGE_MODEL | TACHY_STAGE_ORDERED,
    .priv_size = sizeof(struct faces),
    .item_size = sizeof(struct tachy_regions),
    .open = open,
    .close = close,
    .finish = finish,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .item_close = item_close,
};
