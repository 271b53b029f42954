#include "stage/motion.h"

#include "flow/flow.h"
#include "stage/pair.h"

#include <stdlib.h>

// Motion of a frame since the previous one: values of the frame, and a region for each thing that moves against the
// camera.

struct motion_worker {
    tachy_flow *flow;
    void *flo; // for the cache
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
    return flow_cache_open(&m->cache, tachy_settings_str(s, "motion.flow_cache"), st->task->log);
}

void tachy_motion_close(struct tachy_stage *st) { flow_cache_close(&((struct tachy_motion_stage *)tachy_stage_priv(st))->cache); }

int tachy_motion_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct tachy_motion_stage *m = tachy_stage_priv(st);
    tachy_pair_size(st, &m->width, &m->height);
    m->cache.width = m->width;
    m->cache.height = m->height;
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
    w->flo = m->cache.folder ? malloc(flow_cache_bytes(&m->cache)) : NULL;
    w->scratch = malloc(tachy_motion_scratch(m->width, m->height));
    if (err == TACHY_OK && (!w->u || !w->v || !w->scratch || (m->cache.folder && !w->flo)))
        err = TACHY_ERR_NOMEM;
    if (err < 0)
        worker_close(w);
    else
        *worker = w;
    return err;
}

static int find_flow(struct tachy_motion_stage *m, struct motion_worker *w, const struct tachy_pair *p)
{
    const size_t stride = (size_t)m->width;
    char *path = NULL;
    if (m->cache.folder && !(path = flow_cache_path(&m->cache, (struct flow_picture){p->before->data, (ptrdiff_t)stride},
                                                    (struct flow_picture){p->here->data, (ptrdiff_t)stride})))
        return TACHY_ERR_NOMEM;
    if (!path || !flow_cache_read(&m->cache, path, w->u, w->v)) {
        tachy_flow_run(w->flow, p->before->data, p->here->data, w->u, w->v);
        if (path)
            flow_cache_write(&m->cache, path, w->u, w->v, w->flo);
    }
    tachy_free(path);
    tachy_motion_take(w->u, m->width, m->height, w->u);
    tachy_motion_take(w->v, m->width, m->height, w->v);
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
    float cell = (float)(TACHY_MOTION_CELL * tachy_motion_every(m->width, m->height));
    for (int i = 0; i < f->nb; i++) {
        const struct tachy_moving *o = &f->thing[i];
        t->value[i][0] = (struct tachy_named){"motion_x", o->u * m->scale_x};
        t->value[i][1] = (struct tachy_named){"motion_y", o->v * m->scale_y};
        t->region[i] = (struct tachy_region){
            .x = (o->x0 + o->x1) * 0.5 * m->scale_x, .y = (o->y0 + o->y1) * 0.5 * m->scale_y,
            .w = (o->x1 - o->x0) * m->scale_x, .h = (o->y1 - o->y0) * m->scale_y,
            .class_id = 0, .label = "moving", .track = -1, .values = t->value[i], .nb_values = MOTION_NAMED,
            // The share of the box that moves.
            .score = TACHY_MIN((float)o->cells * cell * cell /
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
    int err = find_flow(m, w, p);
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
