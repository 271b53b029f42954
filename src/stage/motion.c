#include "stage/motion.h"

#include "flow/flow.h"
#include "model/digest.h"
#include "stage/pair.h"

#include <stdlib.h>
#include <unistd.h>

// Motion of a frame since the previous one: values of the frame, and a region for each thing that moves against the
// camera.

enum { FLO_HEAD = 12 };

struct motion_worker {
    tachy_flow *flow;
    float *flo; // FLO_HEAD bytes, then u and v in turn, for files
    float *u, *v;
    void *scratch;
};

const struct tachy_option tachy_motion_options[] = {
    {"motion.flow_cache", "flow-cache", 0, TACHY_OPT_STRING, .arg = "FOLDER", .group = "Motion",
     .help = "save the flow of each pair of frames here as .flo, and read it instead of computing it again"},
    {0},
};

int tachy_motion_open(struct tachy_stage *st, const tachy_settings *s)
{
    struct tachy_motion_stage *m = tachy_stage_priv(st);
    const char *cache = tachy_settings_str(s, "motion.flow_cache");
    if (!cache)
        return TACHY_OK;
    m->cache = tachy_asprintf("%s", cache);
    return m->cache ? tachy_make_folders(cache, st->task->log) : TACHY_ERR_NOMEM;
}

void tachy_motion_close(struct tachy_stage *st) { tachy_free(((struct tachy_motion_stage *)tachy_stage_priv(st))->cache); }

int tachy_motion_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct tachy_motion_stage *m = tachy_stage_priv(st);
    tachy_pair_size(st, &m->width, &m->height);
    m->scale_x = (double)video->width / m->width;
    m->scale_y = (double)video->height / m->height;
    return TACHY_OK;
}

static void worker_close(void *worker)
{
    struct motion_worker *w = worker;
    tachy_flow_close(&w->flow);
    free(w->flo);
    free(w->u);
    free(w->v);
    free(w->scratch);
    free(w);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    const struct tachy_motion_stage *m = tachy_stage_priv(st);
    struct motion_worker *w = calloc(1, sizeof(*w));
    size_t plane = (size_t)m->width * (size_t)m->height * sizeof(float);
    *worker = NULL;
    if (!w)
        return TACHY_ERR_NOMEM;
    int err = tachy_flow_open(&w->flow, m->width, m->height, TACHY_FLOW_PICTURE);
    w->u = malloc(plane);
    w->v = malloc(plane);
    w->flo = m->cache ? malloc(FLO_HEAD + 2 * plane) : NULL;
    w->scratch = malloc(tachy_motion_scratch(m->width, m->height));
    if (err == TACHY_OK && (!w->u || !w->v || !w->scratch || (m->cache && !w->flo)))
        err = TACHY_ERR_NOMEM;
    if (err < 0)
        worker_close(w);
    else
        *worker = w;
    return err;
}

// ---- Files of flow ----

// The file of a pair's flow: named by what both pictures show. NULL: out of memory.
static char *cache_path(const struct tachy_motion_stage *m, const struct tachy_pair *p)
{
    static const char how[] = "flow 1"; // another one if the flow of the same pictures becomes another
    size_t size = (size_t)m->width * (size_t)m->height;
    int32_t extents[2] = {m->width, m->height};
    struct AVSHA *d = digest_new();
    char hex[65];
    if (!d)
        return NULL;
    digest_add(d, how, sizeof(how));
    digest_add(d, extents, sizeof(extents));
    digest_add(d, p->before->data, size);
    digest_add(d, p->here->data, size);
    digest_hex(&d, hex);
    return tachy_asprintf("%s/%s.flo", m->cache, hex);
}

static bool read_flow(const struct tachy_motion_stage *m, struct motion_worker *w, const char *path)
{
    size_t n = (size_t)m->width * (size_t)m->height, size, whole = FLO_HEAD + 2 * n * sizeof(float);
    char *data;
    int32_t head[2];
    if (access(path, F_OK) < 0 || tachy_read_file(path, whole, &data, &size, NULL) < 0)
        return false;
    bool sound = size == whole && !memcmp(data, "PIEH", 4);
    memcpy(head, sound ? data + 4 : (const char *)head, sizeof(head));
    sound = sound && head[0] == m->width && head[1] == m->height;
    for (size_t i = 0; i < n && sound; i++) {
        memcpy(&w->u[i], data + FLO_HEAD + 8 * i, sizeof(float));
        memcpy(&w->v[i], data + FLO_HEAD + 8 * i + 4, sizeof(float));
    }
    tachy_free(data);
    return sound;
}

// The Middlebury format: "PIEH", width, height, then u and v of each pixel, little-endian.
static void write_flow(struct tachy_stage *st, struct tachy_motion_stage *m, const struct motion_worker *w, const char *path)
{
    size_t n = (size_t)m->width * (size_t)m->height;
    int32_t extents[2] = {m->width, m->height};
    memcpy(w->flo, "PIEH", 4);
    memcpy((char *)w->flo + 4, extents, sizeof(extents));
    float *to = w->flo + FLO_HEAD / sizeof(float);
    for (size_t i = 0; i < n; i++) {
        to[2 * i] = w->u[i];
        to[2 * i + 1] = w->v[i];
    }
    int err = tachy_write_file(path, w->flo, FLO_HEAD + 2 * n * sizeof(float), NULL);
    if (err < 0 && !atomic_exchange(&m->told, true))
        tachy_msg(st->task->log, TACHY_LOG_WARN, "motion: %s cannot be written (%s); the run goes on without keeping flow", path,
                  tachy_err_name(err));
}

static int find_flow(struct tachy_stage *st, struct tachy_motion_stage *m, struct motion_worker *w, const struct tachy_pair *p)
{
    char *path = m->cache ? cache_path(m, p) : NULL;
    if (m->cache && !path)
        return TACHY_ERR_NOMEM;
    if (!path || !read_flow(m, w, path)) {
        tachy_flow_run(w->flow, p->before->data, p->here->data, w->u, w->v);
        if (path)
            write_flow(st, m, w, path);
    }
    tachy_free(path);
    return TACHY_OK;
}

// ---- Results ----

static void tell_frame(const struct tachy_motion_stage *m, struct tachy_item *item, const struct tachy_motion *f)
{
    double scale = (m->scale_x + m->scale_y) / 2;
    const struct tachy_named values[] = {
        {"motion", f->mean * scale},
        {"motion_p95", f->p95 * scale},
        {"direction", f->direction},
        {"coherence", f->coherence},
        {"still", f->still},
        {"moving", f->moving},
        {"camera_x", f->camera.x * m->scale_x},
        {"camera_y", f->camera.y * m->scale_y},
        {"camera_zoom", f->camera.zoom},
        {"camera_roll", f->camera.roll},
        {"camera_agree", f->camera.agree},
        {"shot", f->shot},
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(values); i++)
        tachy_item_set_value(item, values[i].name, values[i].value);
}

static void tell_things(const struct tachy_motion_stage *m, struct motion_things *t, struct tachy_item *item, const struct tachy_motion *f)
{
    for (int i = 0; i < f->nb; i++) {
        const struct tachy_moving *o = &f->thing[i];
        t->value[i][0] = (struct tachy_named){"motion_x", o->u * m->scale_x};
        t->value[i][1] = (struct tachy_named){"motion_y", o->v * m->scale_y};
        t->region[i] = (struct tachy_region){
            .x = (o->x0 + o->x1) * 0.5 * m->scale_x, .y = (o->y0 + o->y1) * 0.5 * m->scale_y,
            .w = (o->x1 - o->x0) * m->scale_x, .h = (o->y1 - o->y0) * m->scale_y,
            .class_id = 0, .label = "moving", .track = -1, .values = t->value[i], .nb_values = MOTION_NAMED,
            // The share of the box that moves.
            .score = TACHY_MIN((float)o->cells * TACHY_MOTION_CELL * TACHY_MOTION_CELL /
                                   ((float)(o->x1 - o->x0) * (float)(o->y1 - o->y0)), 1.0f),
        };
    }
    item->result.regions = t->region;
    item->result.nb_regions = f->nb;
}

void tachy_motion_tell(struct tachy_stage *st, struct tachy_item *item, const float *u, const float *v, void *scratch)
{
    const struct tachy_motion_stage *m = tachy_stage_priv(st);
    struct tachy_motion found;
    tachy_motion_of(&found, u, v, m->width, m->height, scratch);
    tell_frame(m, item, &found);
    tell_things(m, tachy_stage_item(st, item), item, &found);
}

static int motion(struct tachy_stage *st, struct motion_worker *w, struct tachy_item *item)
{
    struct tachy_motion_stage *m = tachy_stage_priv(st);
    const struct tachy_pair *p = tachy_pair_of(st, item);
    if (!p->before)
        return TACHY_OK;
    int err = find_flow(st, m, w, p);
    if (err == TACHY_OK)
        tachy_motion_tell(st, item, w->u, w->v, w->scratch);
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = motion(st, worker, pieces[i].item);
}

const struct tachy_stage_ops tachy_stage_motion = {
    .name = "motion",
    .options = tachy_motion_options,
    .remedy = "compare smaller pictures (--motion-size 320)",
    .priv_size = sizeof(struct tachy_motion_stage),
    .item_size = sizeof(struct motion_things),
    .open = tachy_motion_open,
    .close = tachy_motion_close,
    .start = tachy_motion_start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
};
