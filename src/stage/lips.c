#include "stage/lips.h"

#include "stage/family_net.h"

#include <math.h>
#include <stdlib.h>

enum { CORNERS = 5, CACHE = 2 * TACHY_LIPS_LAGS + 1 };
static const double AROUND = 0.4; // of half the face's box: the picture goes so far beyond it, and down twice as far

// What the network says of the sound beside a picture.
struct voice {
    int64_t first; // number of the picture; -1: none
    float *vector;
};

struct lips {
    const struct lips_params *p;
    struct family_net lips, sound;
    tachy_preprocess *preprocess;
    struct tachy_tensor picture;
    int side, length; // of a picture; numbers of a vector
    struct voice voice[CACHE];
};

// ---- The stage's

int lips_read(struct lips_params *p, struct tachy_stage *st, const tachy_settings *s)
{
    const char *card = tachy_settings_str(s, "avsync.network");
    p->log = st->task->log;
    p->lags = (int)tachy_settings_int(s, "avsync.frames");
    if (!card)
        return TACHY_OK;
    int err = tachy_family_read(&p->family, card, "avsync", p->log);
    if (err == TACHY_OK)
        err = tachy_infer_setup(&p->setup, st, s);
    if (err == TACHY_OK)
        tachy_task_describe(st->task, " %s frames %d", p->family.name, p->lags);
    return err;
}

void lips_free(struct lips_params *p)
{
    tachy_family_free(&p->family);
    tachy_engine_setup_free(&p->setup);
    free(p->cepstra);
}

int lips_hear(struct lips_params *p, const uint8_t *bytes)
{
    enum { MOST = 24 * 3600 * TACHY_SYNC_RATE };
    if (p->nb == MOST)
        return TACHY_ERR_LIMIT;
    if (p->nb == p->room) {
        int room = TACHY_MAX(4096, 2 * p->room);
        void *grown = realloc(p->cepstra, (size_t)room * sizeof(*p->cepstra));
        if (!grown)
            return TACHY_ERR_NOMEM;
        p->cepstra = grown;
        p->room = room;
    }
    memcpy(p->cepstra[p->nb++], bytes, sizeof(*p->cepstra));
    return TACHY_OK;
}

// ---- The networks

static int take_shapes(struct lips *l)
{
    const struct tachy_tensor *t = &l->lips.in[0];
    int err = family_net_in(&l->lips, NULL, 0);
    if (err >= 0)
        err = family_net_out(&l->lips, NULL, 0);
    if (err >= 0)
        err = family_net_in(&l->sound, NULL, (int64_t)TACHY_CEPSTRA * TACHY_LIPS_CEPSTRA);
    if (err < 0)
        return err;
    if (t->rank != 5 || t->shape[0] != 1 || t->shape[1] != 3 || t->shape[2] != TACHY_LIPS_FRAMES || t->shape[3] != t->shape[4] ||
        t->shape[3] < 2 || t->shape[3] > 1024)
        return tachy_fail(l->p->log, TACHY_ERR_MISMATCH, "%s: as `%s` it needs pictures of 1 x 3 x %d x N x N", l->lips.file, l->lips.role,
                          TACHY_LIPS_FRAMES);
    l->side = (int)t->shape[3];
    l->length = (int)tachy_tensor_elements(&l->lips.out[0]);
    return family_net_out(&l->sound, NULL, l->length);
}

static int open_pictures(struct lips *l)
{
    l->picture = (struct tachy_tensor){.dtype = TACHY_F32, .rank = 3, .shape = {3, l->side, l->side}};
    int err = tachy_tensor_alloc(&l->picture);
    for (int i = 0; i < CACHE && err == TACHY_OK; i++) {
        l->voice[i] = (struct voice){-1, malloc((size_t)l->length * sizeof(float))};
        err = l->voice[i].vector ? TACHY_OK : TACHY_ERR_NOMEM;
    }
    return err < 0 ? err : tachy_preprocess_open(&l->preprocess, tachy_preprocess_params(
        .width = l->side, .height = l->side, .layout = TACHY_NCHW, .channels = l->p->family.rgb ? TACHY_RGB : TACHY_BGR,
        .scale = l->p->family.white / 255, .log = l->p->log));
}

int lips_open(struct lips **out, const struct lips_params *p)
{
    struct lips *l = *out = calloc(1, sizeof(*l));
    if (!l)
        return TACHY_ERR_NOMEM;
    l->p = p;
    int err = family_net_open(&l->lips, &p->family, TACHY_ROLE_LIPS, &p->setup, p->log);
    if (err == TACHY_OK)
        err = family_net_open(&l->sound, &p->family, TACHY_ROLE_SOUND, &p->setup, p->log);
    if (err == TACHY_OK)
        err = take_shapes(l);
    if (err >= 0)
        err = open_pictures(l);
    if (err < 0)
        lips_close(out);
    return err < 0 ? err : TACHY_OK;
}

void lips_close(struct lips **out)
{
    struct lips *l = *out;
    *out = NULL;
    if (!l)
        return;
    family_net_close(&l->lips);
    family_net_close(&l->sound);
    tachy_preprocess_close(&l->preprocess);
    tachy_tensor_free(&l->picture);
    for (int i = 0; i < CACHE; i++)
        free(l->voice[i].vector);
    free(l);
}

// ---- Vectors

static bool heard(const struct lips *l, int64_t first)
{
    return first >= 0 && TACHY_LIPS_STEP * first + TACHY_LIPS_CEPSTRA <= l->p->nb;
}

// Of the sound that begins with picture `first`; *to is NULL where there is none.
static int hear(struct lips *l, int64_t first, const float **to)
{
    struct voice *v = &l->voice[first >= 0 ? first % CACHE : 0];
    float *in = l->sound.in[0].data;
    *to = NULL;
    if (!heard(l, first))
        return TACHY_OK;
    *to = v->vector;
    if (v->first == first)
        return TACHY_OK;
    for (int i = 0; i < TACHY_LIPS_CEPSTRA; i++)
        for (int k = 0; k < TACHY_CEPSTRA; k++)
            in[k * TACHY_LIPS_CEPSTRA + i] = l->p->cepstra[TACHY_LIPS_STEP * first + i][k];
    v->first = -1;
    int err = tachy_engine_run(l->sound.engine, l->sound.in, l->sound.out);
    if (err < 0)
        return err;
    memcpy(v->vector, l->sound.out[0].data, (size_t)l->length * sizeof(float));
    v->first = first;
    return TACHY_OK;
}

static int compare(struct lips *l, struct lips_face *f)
{
    if (f->nb == f->room) {
        int room = TACHY_MAX(256, 2 * f->room);
        struct lips_row *grown = realloc(f->row, (size_t)room * sizeof(*grown));
        if (!grown)
            return TACHY_ERR_NOMEM;
        f->row = grown;
        f->room = room;
    }
    struct lips_row *row = &f->row[f->nb];
    row->first = f->last - TACHY_LIPS_FRAMES + 1;
    if (!heard(l, row->first))
        return TACHY_OK;
    memcpy(l->lips.in[0].data, f->crop, tachy_tensor_bytes(&l->lips.in[0]));
    int err = tachy_engine_run(l->lips.engine, l->lips.in, l->lips.out);
    for (int i = 0; i <= 2 * l->p->lags && err == TACHY_OK; i++) {
        const float *voice;
        err = hear(l, row->first + i - l->p->lags, &voice);
        row->distance[i] = err < 0 ? 0 : tachy_lips_distance(l->lips.out[0].data, voice, l->length);
        f->sum[i] += (double)row->distance[i];
    }
    f->nb += err == TACHY_OK;
    f->all += err == TACHY_OK;
    return err;
}

// ---- Pictures

// The face's picture: a square around the box of its points, upright.
static struct tachy_view look(const struct lips *l, const struct tachy_region *r)
{
    static const int turns[4][4] = {{1, 0, 0, 1}, {0, -1, 1, 0}, {-1, 0, 0, -1}, {0, 1, -1, 0}};
    const int *t = turns[l->p->rotation / 90 % 4];
    const int right[2] = {l->p->flip ? -t[0] : t[0], l->p->flip ? -t[1] : t[1]}, down[2] = {t[2], t[3]};
    double lo[2] = {INFINITY, INFINITY}, hi[2] = {-INFINITY, -INFINITY};
    for (int i = 0; i < r->nb_points; i++) {
        double x = (double)r->points[i].x, y = (double)r->points[i].y, at[2] = {right[0] * x + right[1] * y, down[0] * x + down[1] * y};
        for (int k = 0; k < 2; k++) {
            lo[k] = TACHY_MIN(lo[k], at[k]);
            hi[k] = TACHY_MAX(hi[k], at[k]);
        }
    }
    double half = TACHY_MAX(hi[0] - lo[0], hi[1] - lo[1]) / 2, side = 2 * half * (1 + AROUND), step = side / l->side;
    double left = (lo[0] + hi[0]) / 2 - half * (1 + AROUND), top = (lo[1] + hi[1]) / 2 - half;
    return (struct tachy_view){.use_affine = true,
                               .affine = {right[0] * step, down[0] * step, right[0] * left + down[0] * top,
                                          right[1] * step, down[1] * step, right[1] * left + down[1] * top}};
}

static int push(struct lips *l, struct lips_face *f, int64_t number)
{
    size_t plane = (size_t)l->side * (size_t)l->side, all = 3 * TACHY_LIPS_FRAMES * plane;
    const float *picture = l->picture.data;
    if (!f->crop && !(f->crop = calloc(all, sizeof(float))))
        return TACHY_ERR_NOMEM;
    f->seen = f->seen && number == f->last + 1 ? TACHY_MIN(f->seen + 1, (int)TACHY_LIPS_FRAMES) : 1;
    f->last = number;
    for (size_t c = 0; c < 3; c++) {
        float *to = f->crop + c * TACHY_LIPS_FRAMES * plane;
        memmove(to, to + plane, (TACHY_LIPS_FRAMES - 1) * plane * sizeof(float));
        memcpy(to + (TACHY_LIPS_FRAMES - 1) * plane, picture + c * plane, plane * sizeof(float));
    }
    return f->seen == TACHY_LIPS_FRAMES ? compare(l, f) : TACHY_OK;
}

int lips_see(struct lips *l, struct lips_face *f, const tachy_frame *frame, const struct tachy_region *r, double from, double to)
{
    int64_t first = (int64_t)ceil(TACHY_CLAMP(from, 0, 1e7) * TACHY_LIPS_RATE - 0.5 - 1e-6);
    int64_t end = (int64_t)ceil(TACHY_CLAMP(to, 0, 1e7) * TACHY_LIPS_RATE - 0.5 - 1e-6);
    first = f->seen ? TACHY_MAX(first, f->last + 1) : first;
    if (first >= end)
        return TACHY_OK;
    const struct tachy_view view = look(l, r);
    int err = tachy_preprocess_run(l->preprocess, frame, &view, &l->picture, NULL);
    for (int64_t i = first; i < end && err == TACHY_OK; i++)
        err = push(l, f, i);
    return err;
}

// ---- Verdicts

void lips_forget(struct lips_face *f, int first)
{
    int old = 0;
    while (old < f->nb && f->row[old].first * TACHY_LIPS_STEP < first)
        old++;
    f->nb -= old;
    if (old)
        memmove(f->row, f->row + old, (size_t)f->nb * sizeof(*f->row));
}

bool lips_window(const struct lips *l, const struct lips_face *f, int first, int n, struct tachy_sync_peak *peak)
{
    double sum[TACHY_LIPS_CURVE] = {0};
    int rows = 0;
    for (int i = 0; i < f->nb; i++) {
        int64_t at = f->row[i].first * TACHY_LIPS_STEP;
        if (at < first || at + TACHY_LIPS_CEPSTRA > first + n)
            continue;
        for (int k = 0; k <= 2 * l->p->lags; k++)
            sum[k] += (double)f->row[i].distance[k];
        rows++;
    }
    if (rows)
        *peak = tachy_lips_peak(sum, l->p->lags, rows);
    return rows;
}

bool lips_all(const struct lips *l, const struct lips_face *f, struct tachy_sync_peak *peak)
{
    if (f->all)
        *peak = tachy_lips_peak(f->sum, l->p->lags, f->all);
    return f->all;
}

void lips_face_close(struct lips_face *f)
{
    free(f->crop);
    free(f->row);
}
