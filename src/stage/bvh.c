#include "stage/note.h"
#include "stage/stages.h"

#include "base/base.h"
#include "base/options.h"
#include "postprocess/text.h"

#include <math.h>
#include <stdlib.h>

// Bodies as BVH (Biovision Hierarchy): a file for each person of an input, with one skeleton and its rotations per frame. The
// lengths of the bones are those of the person's first frame; their directions are those of the points. +y is up, +z nearer.

enum { BODY_POINTS = 33, JOINTS = 16 };

// A joint is the middle of two of BlazePose's points. Depth first.
static const struct joint {
    const char *name;
    int parent;      // -1: the root
    int a, b;        // points
    int aim;         // joint that its bone ends at; -1: an end, which does not turn
    int left, right; // joints whose line it turns with, besides its bone; 0: it turns only with the bone
} joints[JOINTS] = {
    {"Hips", -1, 23, 24, 1, 10, 13},       {"Chest", 0, 11, 12, 2, 4, 7},       {"Neck", 1, 9, 10, 3, 0, 0},
    {"Head", 2, 7, 8, -1, 0, 0},           {"LeftShoulder", 1, 11, 11, 5, 0, 0}, {"LeftElbow", 4, 13, 13, 6, 0, 0},
    {"LeftWrist", 5, 15, 15, -1, 0, 0},    {"RightShoulder", 1, 12, 12, 8, 0, 0}, {"RightElbow", 7, 14, 14, 9, 0, 0},
    {"RightWrist", 8, 16, 16, -1, 0, 0},   {"LeftHip", 0, 23, 23, 11, 0, 0},    {"LeftKnee", 10, 25, 25, 12, 0, 0},
    {"LeftAnkle", 11, 27, 27, -1, 0, 0},   {"RightHip", 0, 24, 24, 14, 0, 0},   {"RightKnee", 13, 26, 26, 15, 0, 0},
    {"RightAnkle", 14, 28, 28, -1, 0, 0},
};

typedef float body_at[JOINTS][3];

struct body {
    int input; // in bvh.input
    int64_t track, first; // first: the frame that it was first seen in
    body_at *at;          // a row for each frame since
    int64_t n, room;
    double frame_s; // seconds
};

// A frame's note; after it the people in it.
struct note {
    int64_t frame;
    double frame_s;
};
struct note_body {
    int64_t track;
    body_at at;
};

struct bvh {
    char *folder;
    char **input; // in their order
    int nb_inputs;
    struct body *body;
    int nb;
    double frame_s;
    bool overwrite;
};

static const struct tachy_option options[] = {
    {"pose.bvh", "bvh", 0, TACHY_OPT_STRING, .arg = "FOLDER", .group = "Tracking", .at_end = true,
     .help = "write each person's motion here as a BVH file, for animation programs"},
    {0},
};

static int bvh_open(struct tachy_stage *st, const tachy_settings *s)
{
    struct bvh *b = tachy_stage_priv(st);
    const char *folder = tachy_settings_str(s, "pose.bvh");
    if (!folder)
        return TACHY_STAGE_LEFT_OUT;
    b->folder = strdup(folder);
    b->overwrite = tachy_settings_bool(s, "output.overwrite");
    return !b->folder ? TACHY_ERR_NOMEM : st->task->keeps_notes ? TACHY_OK : tachy_make_folders(folder, st->task->log);
}

static void bvh_close(struct tachy_stage *st)
{
    struct bvh *b = tachy_stage_priv(st);
    for (int i = 0; i < b->nb; i++)
        free(b->body[i].at);
    for (int i = 0; i < b->nb_inputs; i++)
        free(b->input[i]);
    free(b->input);
    free(b->body);
    free(b->folder);
}

// The input's place in the list, added if it is new; TACHY_ERR_NOMEM.
static int input_of(struct bvh *b, const char *name)
{
    for (int i = b->nb_inputs - 1; i >= 0; i--)
        if (!strcmp(b->input[i], name))
            return i;
    char **all = realloc(b->input, (size_t)(b->nb_inputs + 1) * sizeof(*all));
    if (!all)
        return TACHY_ERR_NOMEM;
    b->input = all;
    all[b->nb_inputs] = strdup(name);
    return all[b->nb_inputs] ? b->nb_inputs++ : TACHY_ERR_NOMEM;
}

// Its name without folder and extension; returns the length.
static int stem_of(const char *input, const char **stem)
{
    const char *slash = strrchr(input, '/'), *dot;
    *stem = slash ? slash + 1 : input;
    dot = strrchr(*stem, '.');
    return dot ? (int)(dot - *stem) : (int)strlen(*stem);
}

// The file of a person of this input; NULL: no memory. Of inputs with one stem the second has a 2 after it, and so on.
static char *file_of(const struct bvh *b, int input, int64_t track)
{
    const char *stem, *other;
    int n = stem_of(b->input[input], &stem), number = 1;
    for (int i = 0; i < input; i++)
        number += stem_of(b->input[i], &other) == n && !strncmp(stem, other, (size_t)n);
    return number > 1 ? tachy_asprintf("%s/%.*s.%d.person%lld.bvh", b->folder, n, stem, number, (long long)track)
                      : tachy_asprintf("%s/%.*s.person%lld.bvh", b->folder, n, stem, (long long)track);
}

static int check_free(const struct tachy_stage *st, int input, int64_t track)
{
    const struct bvh *b = tachy_stage_priv(st);
    char *path = file_of(b, input, track);
    int err = path ? tachy_check_free(path, b->overwrite, "--bvh FOLDER", st->task->log) : TACHY_ERR_NOMEM;
    tachy_free(path);
    return err;
}

// Numbers of persons begin at 0, so the first file tells that a run is repeated before it has done any work.
static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct bvh *b = tachy_stage_priv(st);
    b->frame_s = video->fps.num > 0 && video->fps.den > 0 ? (double)video->fps.den / video->fps.num : 0.04;
    if (st->task->keeps_notes)
        return TACHY_OK;
    int input = input_of(b, st->task->input ? st->task->input : "");
    return input < 0 ? input : st->task->input ? check_free(st, input, 0) : TACHY_OK;
}

// ---- Collecting

static struct body *body_of(struct bvh *b, int input, int64_t track, const struct note *note)
{
    for (int i = b->nb - 1; i >= 0; i--)
        if (b->body[i].track == track && b->body[i].input == input)
            return &b->body[i];
    struct body *all = realloc(b->body, (size_t)(b->nb + 1) * sizeof(*all));
    if (!all)
        return NULL;
    b->body = all;
    all[b->nb] = (struct body){.input = input, .track = track, .first = note->frame, .frame_s = note->frame_s};
    return &all[b->nb++];
}

static int64_t add_row(struct body *p)
{
    if (p->n == p->room) {
        int64_t room = TACHY_MAX(2 * p->room, 256);
        body_at *at = realloc(p->at, (size_t)room * sizeof(*at));
        if (!at)
            return TACHY_ERR_NOMEM;
        p->at = at;
        p->room = room;
    }
    return p->n++;
}

// In frames between in which somebody was not seen they stay as they were.
static int add(struct body *p, int64_t frame, const body_at at)
{
    int64_t row = frame < p->first ? TACHY_ERR_FORMAT : 0;
    while (row >= 0 && p->n <= frame - p->first) {
        row = add_row(p);
        if (row > 0)
            memcpy(p->at[row], p->at[row - 1], sizeof(*p->at));
    }
    if (row >= 0)
        memcpy(p->at[p->n - 1], at, sizeof(*p->at));
    return row < 0 ? (int)row : TACHY_OK;
}

static int take(struct tachy_stage *st, const char *input, const void *note, size_t size)
{
    struct bvh *b = tachy_stage_priv(st);
    struct tachy_note from = {note, size};
    struct note n;
    struct note_body seen;
    if (!tachy_note_get(&from, &n, sizeof(n)) || from.left % sizeof(seen))
        return TACHY_ERR_FORMAT;
    int in = input_of(b, input), err = in < 0 ? in : TACHY_OK;
    while (err == TACHY_OK && tachy_note_get(&from, &seen, sizeof(seen))) {
        struct body *p = body_of(b, in, seen.track, &n);
        err = p ? add(p, n.frame, (const float (*)[3])seen.at) : TACHY_ERR_NOMEM;
    }
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct bvh *b = tachy_stage_priv(st);
    const struct tachy_item *item = pieces[0].item;
    struct tachy_text *text = tachy_note_begin(st, item);
    const struct note note = {tachy_item_head(item)->id, b->frame_s};
    tachy_note_put(text, &note, sizeof(note));
    for (int i = 0; i < item->result.nb_regions; i++) {
        const struct tachy_region *r = &item->result.regions[i];
        struct note_body seen = {.track = r->track};
        if (r->nb_points < BODY_POINTS)
            continue;
        for (int j = 0; j < JOINTS; j++) {
            const struct tachy_point *p = &r->points[joints[j].a], *q = &r->points[joints[j].b];
            const float to[3] = {(p->x + q->x) / 2, -(p->y + q->y) / 2, -(p->z + q->z) / 2};
            memcpy(seen.at[j], to, sizeof(to));
        }
        tachy_note_put(text, &seen, sizeof(seen));
    }
    err[0] = tachy_note_end(st, item);
}

// ---- Rotations: matrices whose columns are the rotated axes

typedef double vec[3], mat[3][3];

static void between(const body_at at, int from, int to, vec d)
{
    for (int i = 0; i < 3; i++)
        d[i] = (double)at[to][i] - (double)at[from][i];
}

static void cross(const vec a, const vec b, vec c)
{
    for (int i = 0; i < 3; i++)
        c[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

static double dot(const vec a, const vec b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

static void to_unit(vec v)
{
    double n = sqrt(dot(v, v));
    for (int i = 0; i < 3; i++)
        v[i] = n > 1e-9 ? v[i] / n : i == 1;
}

// c = a b, or with the first one turned over.
static void times(const mat a, bool turned, const mat b, mat c)
{
    mat r;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            r[i][j] = 0;
            for (int k = 0; k < 3; k++)
                r[i][j] += (turned ? a[k][i] : a[i][k]) * b[k][j];
        }
    memcpy(c, r, sizeof(r));
}

// Axes of a joint that turns with a line: y along its bone, x as near to the line as that allows.
static void axes_of(const body_at at, const struct joint *j, int number, mat m)
{
    vec x, y, z;
    between(at, number, j->aim, y);
    between(at, j->right, j->left, x);
    to_unit(y);
    cross(x, y, z);
    to_unit(z);
    cross(y, z, x);
    for (int i = 0; i < 3; i++)
        m[i][0] = x[i], m[i][1] = y[i], m[i][2] = z[i];
}

// The smallest rotation that brings one direction to another (Rodrigues).
static void rotation(const vec from, const vec to, mat m)
{
    vec v;
    double c = dot(from, to);
    cross(from, to, v);
    if (c < -1 + 1e-9) { // half a turn about any axis across
        const vec side = {fabs(from[0]) < 0.9, fabs(from[0]) >= 0.9, 0};
        cross(from, side, v);
        to_unit(v);
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                m[i][j] = 2 * v[i] * v[j] - (i == j);
        return;
    }
    const mat k = {{0, -v[2], v[1]}, {v[2], 0, -v[0]}, {-v[1], v[0], 0}};
    times(k, false, k, m);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            m[i][j] = (i == j) + k[i][j] + m[i][j] / (1 + c);
}

// The rotation of each joint in world space, from the directions at rest and now.
static void turns_of(const body_at rest, const body_at now, mat turn[JOINTS])
{
    static const mat none = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    for (int i = 0; i < JOINTS; i++) {
        const struct joint *j = &joints[i];
        const double (*up)[3] = j->parent < 0 ? none : (const double (*)[3])turn[j->parent];
        mat a, b;
        vec was, is, turned = {0};
        memcpy(turn[i], up, sizeof(mat));
        if (j->aim < 0)
            continue;
        if (j->left) {
            axes_of(rest, j, i, a);
            axes_of(now, j, i, b);
            for (int r = 0; r < 3; r++) // b times a turned over
                for (int c = 0; c < 3; c++)
                    turn[i][r][c] = b[r][0] * a[c][0] + b[r][1] * a[c][1] + b[r][2] * a[c][2];
            continue;
        }
        between(rest, i, j->aim, was);
        between(now, i, j->aim, is);
        for (int r = 0; r < 3; r++)
            turned[r] = dot(up[r], was);
        to_unit(turned);
        to_unit(is);
        rotation(turned, is, a);
        times(a, false, up, turn[i]);
    }
}

// ---- Writing

// Four digits after the point, whatever the locale's is.
static void put(struct tachy_text *t, double v)
{
    long long all = isfinite(v) ? llround(fabs(v) * 10000) : 0;
    tachy_text_add(t, " %s%lld.%04lld", v < 0 && all ? "-" : "", all / 10000, all % 10000);
}

static void put_joint(struct tachy_text *t, const body_at rest, int i, int depth)
{
    vec offset = {0};
    if (joints[i].parent >= 0)
        between(rest, joints[i].parent, i, offset);
    tachy_text_add(t, "%*s%s %s\n%*s{\n%*sOFFSET", 2 * depth, "", depth ? "JOINT" : "ROOT", joints[i].name, 2 * depth, "", 2 * depth + 2, "");
    for (int k = 0; k < 3; k++)
        put(t, offset[k]);
    tachy_text_add(t, "\n%*sCHANNELS %s Zrotation Xrotation Yrotation\n", 2 * depth + 2, "", depth ? "3" : "6 Xposition Yposition Zposition");
    for (int c = i + 1; c < JOINTS; c++)
        if (joints[c].parent == i)
            put_joint(t, rest, c, depth + 1);
    if (joints[i].aim < 0)
        tachy_text_add(t, "%*sEnd Site\n%*s{\n%*sOFFSET 0 0 0\n%*s}\n", 2 * depth + 2, "", 2 * depth + 2, "", 2 * depth + 4, "", 2 * depth + 2, "");
    tachy_text_add(t, "%*s}\n", 2 * depth, "");
}

static void put_frame(struct tachy_text *t, const body_at rest, const body_at now)
{
    const double degrees = 180 / 3.14159265358979323846;
    mat turn[JOINTS], own;
    turns_of(rest, now, turn);
    for (int k = 0; k < 3; k++)
        put(t, (double)now[0][k]);
    for (int i = 0; i < JOINTS; i++) {
        memcpy(own, turn[i], sizeof(own));
        if (joints[i].parent >= 0)
            times((const double (*)[3])turn[joints[i].parent], true, (const double (*)[3])turn[i], own);
        put(t, atan2(-own[0][1], own[1][1]) * degrees);
        put(t, asin(TACHY_CLAMP(own[2][1], -1, 1)) * degrees);
        put(t, atan2(-own[2][0], own[2][2]) * degrees);
    }
    tachy_text_add(t, "\n");
}

static int write_body(const struct tachy_stage *st, const struct body *p)
{
    const struct bvh *b = tachy_stage_priv(st);
    char *path = file_of(b, p->input, p->track);
    struct tachy_text t = {0};
    tachy_text_add(&t, "HIERARCHY\n");
    put_joint(&t, p->at[0], 0, 0);
    tachy_text_add(&t, "MOTION\nFrames: %lld\nFrame Time: 0.%06lld\n", (long long)p->n, llround(TACHY_MIN(p->frame_s, 0.999999) * 1e6));
    for (int64_t i = 0; i < p->n; i++)
        put_frame(&t, p->at[0], p->at[i]);
    int err = !path || t.failed ? TACHY_ERR_NOMEM : tachy_write_file(path, t.p, t.len, st->task->log);
    tachy_text_free(&t);
    tachy_free(path);
    return err;
}

static int finish(struct tachy_stage *st)
{
    const struct bvh *b = tachy_stage_priv(st);
    int err = TACHY_OK;
    for (int i = 0; i < b->nb && err == TACHY_OK; i++)
        err = check_free(st, b->body[i].input, b->body[i].track);
    for (int i = 0; i < b->nb && err == TACHY_OK; i++)
        err = write_body(st, &b->body[i]);
    if (!b->nb)
        tachy_msg(st->task->log, TACHY_LOG_WARN, "--bvh %s: nobody with 33 points was seen, so no file was written", b->folder);
    return err;
}

const struct tachy_stage_ops tachy_stage_bvh = {
    .name = "bvh",
    .options = options,
    .flags = TACHY_STAGE_ORDERED,
    .priv_size = sizeof(struct bvh),
    .item_size = TACHY_NOTE_ITEM,
    .open = bvh_open,
    .close = bvh_close,
    .finish = finish,
    .start = start,
    .run = run,
    .item_close = tachy_note_close,
    .take = take,
};
