#include "animate/face.h"
#include "measure/light.h"
#include "stage/small.h"
#include "stage/stages.h"
#include "stage/track.h"

#include <math.h>
#include <stdlib.h>

// Lighting of a frame, as named values. The direction comes from the largest face's shading, with normals from the mesh
// between the points that track found; without a face it comes from the picture's gradients.

enum { COLORS, LUMA, PICTURES };
enum { COLORS_SIDE = 160, LUMA_SIDE = 384 };

struct worker {
    int width, height; // of the frames that the pictures are for; 0: none yet
    struct small_picture picture[PICTURES];
    struct tachy_face face;
    struct tachy_lit place[TACHY_FACE_SKIN];
};

// Reference values of a stream, from which changes are measured.
struct lighting_state {
    int64_t seen; // frames
    double exposure, temperature, direction[3];
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    st->task->values = true;
    return TACHY_OK;
}

static void close_pictures(struct worker *w)
{
    for (int i = 0; i < PICTURES; i++)
        small_close(&w->picture[i]);
    w->width = 0;
}

static int fit_pictures(struct worker *w, const tachy_frame *f, const struct tachy_log *log)
{
    static const int most[PICTURES] = {COLORS_SIDE, LUMA_SIDE};
    int longer = TACHY_MAX(f->width, f->height), err = TACHY_OK;
    if (w->width == f->width && w->height == f->height)
        return TACHY_OK;
    close_pictures(w);
    for (int i = 0; i < PICTURES && err == TACHY_OK; i++)
        err = small_open(&w->picture[i], i == LUMA ? TACHY_LUMA : TACHY_RGB, small_side(f->width, longer, most[i]),
                         small_side(f->height, longer, most[i]), log);
    w->width = err == TACHY_OK ? f->width : 0;
    w->height = f->height;
    return err;
}

// ---- A face

static const struct tachy_region *largest_face(const struct tachy_result *r)
{
    const struct tachy_region *best = NULL;
    for (int i = 0; i < r->nb_regions; i++)
        if (r->regions[i].nb_points >= TACHY_FACE_SKIN && (!best || r->regions[i].w * r->regions[i].h > best->w * best->h))
            best = &r->regions[i];
    return best;
}

// Normals of the skin at each point: the sum of those of its triangles, towards the camera. z points away from it in the mesh.
static void add_normals(struct worker *w)
{
    const struct tachy_face *f = &w->face;
    for (int i = f->skin; i < f->triangles; i++) {
        const int16_t *c = f->triangle[i].corner;
        if (TACHY_MAX(c[0], TACHY_MAX(c[1], c[2])) >= TACHY_FACE_SKIN || TACHY_MIN(c[0], TACHY_MIN(c[1], c[2])) < 0)
            continue; // of a ring
        const float *a = f->point[c[0]], *b = f->point[c[1]], *d = f->point[c[2]];
        double u[3], v[3], n[3];
        for (int k = 0; k < 3; k++) {
            u[k] = (double)b[k] - (double)a[k];
            v[k] = (double)d[k] - (double)a[k];
        }
        n[0] = u[1] * v[2] - u[2] * v[1];
        n[1] = u[2] * v[0] - u[0] * v[2];
        n[2] = u[0] * v[1] - u[1] * v[0];
        for (int p = 0; p < 3; p++) // clockwise as seen from in front
            for (int k = 0; k < 3; k++)
                w->place[c[p]].normal[k] += k == 2 ? n[k] : -n[k];
    }
}

// Linear light of the luma around a place of the frame: of 3 x 3 samples.
static bool light_at(const struct worker *w, double x, double y, double *light)
{
    const struct small_picture *l = &w->picture[LUMA];
    int px = (int)floor(x * l->p.width / w->width), py = (int)floor(y * l->p.height / w->height);
    if (px < 1 || py < 1 || px >= l->p.width - 1 || py >= l->p.height - 1)
        return false;
    *light = 0;
    for (int j = -1; j <= 1; j++)
        for (int i = -1; i <= 1; i++)
            *light += tachy_light_of(l->data[(ptrdiff_t)(py + j) * l->p.width + px + i]) / 9;
    return true;
}

// Brows, eyes, nostrils and lips have shades of their own: points near these are left out.
static bool is_plain(const struct tachy_face *f, int i)
{
    static const int16_t shaded[] = {70, 63, 105, 66, 107, 300, 293, 334, 296, 336, // brows
                                     33, 159, 133, 145, 362, 386, 263, 374, 98, 327, 61, 0, 291, 17, 13};
    float reach = 0.16f * f->radius;
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(shaded); k++)
        if (hypotf(f->point[i][0] - f->point[shaded[k]][0], f->point[i][1] - f->point[shaded[k]][1]) < reach)
            return false;
    return true;
}

// From places in the frame; n: how many there are.
static int places_of(struct worker *w, const struct tachy_region *r)
{
    int n = 0;
    for (int i = 0; i < TACHY_FACE_SKIN; i++) {
        struct tachy_lit p = w->place[i];
        double length = sqrt(p.normal[0] * p.normal[0] + p.normal[1] * p.normal[1] + p.normal[2] * p.normal[2]);
        if (!(length > 0) || !is_plain(&w->face, i) || p.normal[2] < 0.15 * length || !light_at(w, (double)r->points[i].x, (double)r->points[i].y, &p.light))
            continue; // seen from the side, its place is not known well
        for (int k = 0; k < 3; k++)
            p.normal[k] /= length;
        w->place[n++] = p;
    }
    return n;
}

static bool face_light(struct worker *w, const struct tachy_region *r, double direction[3], double *softness)
{
    tachy_face_points point;
    if (!r)
        return false;
    track_face_points(r, point);
    memset(w->place, 0, sizeof(w->place));
    if (tachy_face_open(&w->face, point) < 0)
        return false;
    add_normals(w);
    return tachy_light_fit(w->place, places_of(w, r), direction, softness);
}

// ---- A frame

// From the stored frame's axes to those of the frame as shown.
static void turn_to_shown(double v[3], const struct tachy_video_info *in)
{
    for (int r = 0; r < in->rotation % 360; r += 90) { // clockwise: right becomes down
        double x = v[0];
        v[0] = -v[1];
        v[1] = x;
    }
    if (in->flipped)
        v[0] = -v[0];
}

static void set_direction(struct tachy_stage *st, struct worker *w, const struct tachy_item *item, double value[])
{
    const struct small_picture *l = &w->picture[LUMA];
    double to[3] = {0}, softness = 1;
    bool face = face_light(w, largest_face(&item->result), to, &softness);
    if (!face && !tachy_light_gradients(l->data, l->p.width, l->p.height, to, &softness))
        softness = 1;
    turn_to_shown(to, &st->task->in);
    value[TACHY_L_FROM_FACE] = face;
    for (int i = 0; i < 3; i++)
        value[TACHY_L_X + i] = to[i];
    value[TACHY_L_SOFTNESS] = softness;
}

static void set_changes(struct lighting_state *s, double value[])
{
    const double *to = value + TACHY_L_X;
    double along = to[0] * s->direction[0] + to[1] * s->direction[1] + to[2] * s->direction[2];
    bool both = (to[0] != 0 || to[1] != 0 || to[2] != 0) && (s->direction[0] != 0 || s->direction[1] != 0 || s->direction[2] != 0);
    value[TACHY_L_EXPOSURE_CHANGE] = s->seen ? value[TACHY_L_EXPOSURE] - s->exposure : 0;
    value[TACHY_L_TEMPERATURE_CHANGE] = s->seen ? value[TACHY_L_TEMPERATURE] - s->temperature : 0;
    value[TACHY_L_DIRECTION_CHANGE] = s->seen && both ? acos(TACHY_CLAMP(along, -1, 1)) * 180 / 3.14159265358979323846 : 0;
    s->seen++;
    s->exposure = value[TACHY_L_EXPOSURE];
    s->temperature = value[TACHY_L_TEMPERATURE];
    memcpy(s->direction, to, sizeof(s->direction));
}

static int measure(struct tachy_stage *st, struct worker *w, struct lighting_state *state, struct tachy_item *item)
{
    struct lighting_state none = {0}, *s = state ? state : &none;
    double value[TACHY_L_COUNT];
    int err = fit_pictures(w, item->in, st->task->log);
    for (int i = 0; i < PICTURES && err == TACHY_OK; i++)
        err = small_make(&w->picture[i], item->in);
    if (err < 0)
        return err;
    if (item->anew)
        *s = none;
    const struct small_picture *c = &w->picture[COLORS];
    tachy_light_colors(c->data, c->p.width * c->p.height, value);
    set_direction(st, w, item, value);
    set_changes(s, value);
    for (int i = 0; i < TACHY_L_COUNT && err == TACHY_OK; i++)
        err = tachy_item_set_value(item, tachy_light_names[i], value[i]);
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = measure(st, worker, state, pieces[i].item);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    *worker = calloc(1, sizeof(struct worker));
    return *worker ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void worker_close(void *worker)
{
    close_pictures(worker);
    free(worker);
}

const struct tachy_stage_ops tachy_stage_lighting = {
    .name = "lighting",
    .flags = TACHY_STAGE_ORDERED | TACHY_STAGE_READS,
    .state_size = sizeof(struct lighting_state),
    .open = open,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
};
