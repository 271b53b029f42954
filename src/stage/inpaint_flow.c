#include "flow/camera_motion.h"
#include "flow/flow.h"
#include "flow/flow_gpu.h"
#include "inpaint/parts.h"
#include "stage/hole.h"
#include "stage/pair.h"

#include <math.h>
#include <stdlib.h>
#include <tachy/gpu.h>

// Flow between a frame and the previous one, both ways. Motion inside a hole belongs to the removed object: it is
// replaced by the camera's motion plus the smoothest surface through other motion around the hole. In any order. With --device cuda a GPU
// computes the flow; pictures and the rest stay on the host.

enum { AROUND = 20, AROUND_LEAST = 8 }; // of the longer side, around a hole: flow there knows of what moves in it
static const float SCENE = 28; // mean difference of luma between a frame and the one before, moved, of another scene

struct flow_stage {
    struct tachy_gpu *gpu; // NULL: the CPU computes the flow
};

struct flow_worker {
    tachy_flow *flow;      // one of the two
    struct flow_gpu *there;
    uint8_t *hole, *grown, *rows;
};

static void worker_close(void *worker)
{
    struct flow_worker *w = worker;
    tachy_flow_close(&w->flow);
    flow_gpu_close(&w->there);
    free(w->hole);
    free(w->grown);
    free(w->rows);
    free(w);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    struct flow_worker *w = calloc(1, sizeof(*w));
    int width, height;
    *worker = NULL;
    if (!w)
        return TACHY_ERR_NOMEM;
    tachy_pair_size(st, &width, &height);
    size_t n = (size_t)width * (size_t)height;
    struct tachy_gpu *gpu = ((const struct flow_stage *)tachy_stage_priv(st))->gpu;
    int err = gpu ? flow_gpu_open(&w->there, gpu, width, height, st->task->log) : tachy_flow_open(&w->flow, width, height, TACHY_FLOW_PICTURE);
    w->hole = malloc(n);
    w->grown = malloc(n);
    w->rows = malloc(n);
    if (err == TACHY_OK && (!w->hole || !w->grown || !w->rows))
        err = TACHY_ERR_NOMEM;
    if (err < 0)
        worker_close(w);
    else
        *worker = w;
    return err;
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct flow_stage *f = tachy_stage_priv(st);
    int ids[TACHY_MAX_GPUS], n = 0, err = st->task->offloads ? tachy_gpus_asked(s, ids, &n, st->task->log) : TACHY_OK;
    if (err < 0 || !n)
        return err;
    if (n > 1)
        return tachy_fail(st->task->log, TACHY_ERR_UNSUPPORTED, "%s: frames stay on the CPU here, and flow is computed on one GPU: name it "
                          "with --gpu-id in place of --gpus", st->task->name);
    err = tachy_gpu_open(&f->gpu, ids[0], NULL, st->task->log);
    if (err < 0)
        return tachy_fail(st->task->log, err, "--device cuda: GPU %d cannot be used", ids[0]);
    char text[256];
    const char *why = tachy_cuda_refuses(&f->gpu->device, text);
    if (why) { // networks of another library may run there
        tachy_msg(st->task->log, TACHY_LOG_INFO, "%s: the CPU computes the flow, because: %s", st->task->name, why);
        tachy_gpu_unref(&f->gpu);
    }
    return TACHY_OK;
}

static void close(struct tachy_stage *st) { tachy_gpu_unref(&((struct flow_stage *)tachy_stage_priv(st))->gpu); }

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    int width, height;
    tachy_pair_size(st, &width, &height);
    st->item_bytes = 4 * sizeof(float) * (size_t)width * (size_t)height;
    return TACHY_OK;
}

// The hole on the grid, grown.
static void shrink(struct flow_worker *w, const tachy_frame *hole, int width, int height)
{
    memset(w->hole, 0, (size_t)width * (size_t)height);
    for (int y = 0; y < hole->height; y++) {
        const uint8_t *row = hole->data[0] + y * hole->stride[0];
        uint8_t *to = w->hole + (size_t)((int64_t)y * height / hole->height) * (size_t)width;
        for (int x = 0; x < hole->width; x++)
            if (row[x])
                to[(int64_t)x * width / hole->width] = 1;
    }
    fill_grow(w->hole, width, height, TACHY_MAX(TACHY_MAX(width, height) / AROUND, AROUND_LEAST), w->grown, w->rows);
}

// Mean difference outside of the hole; 0: all is hole.
static float difference(const struct flow_worker *w, const struct tachy_luma *here, const struct tachy_luma *there, const float *u, const float *v)
{
    double sum = 0;
    size_t n = 0;
    for (int y = 0; y < here->height; y++)
        for (int x = 0; x < here->width; x++) {
            size_t i = (size_t)y * (size_t)here->width + (size_t)x;
            float tx = (float)x + u[i] + 0.5f, ty = (float)y + v[i] + 0.5f;
            if (w->grown[i] || !(tx >= 0 && ty >= 0 && tx < (float)here->width && ty < (float)here->height))
                continue;
            sum += abs(here->data[i] - there->data[(size_t)ty * (size_t)here->width + (size_t)tx]);
            n++;
        }
    return n ? (float)(sum / (double)n) : 0;
}

// Adds the camera's motion, `share` times.
static void add_camera(const struct tachy_camera_motion *c, float share, float *uv, int width, int height)
{
    size_t n = (size_t)width * (size_t)height, i = 0;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++, i++) {
            double u, v;
            tachy_camera_motion_at(c, x, y, &u, &v);
            uv[i] += share * (float)u;
            uv[n + i] += share * (float)v;
        }
}

// u and v one after the other; from a GPU they are there.
static int one_way(struct flow_worker *w, const tachy_frame *hole, const struct tachy_luma *here, const struct tachy_luma *there, float *uv,
                   float *differs)
{
    size_t n = (size_t)here->width * (size_t)here->height;
    shrink(w, hole, here->width, here->height);
    if (w->flow)
        tachy_flow_run(w->flow, here->data, there->data, uv, uv + n);
    *differs = difference(w, here, there, uv, uv + n);
    struct tachy_camera_motion camera;
    tachy_camera_motion_of(&camera, uv, uv + n, here->width, here->height, 1);
    add_camera(&camera, -1, uv, here->width, here->height);
    int err = fill_surfaces(uv, 2, w->grown, here->width, here->height);
    add_camera(&camera, 1, uv, here->width, here->height);
    return err;
}

static int both_ways(struct tachy_stage *st, struct flow_worker *w, struct tachy_item *item)
{
    const struct tachy_pair *p = tachy_pair_of(st, item);
    const struct tachy_hole *h = tachy_hole_of(st, item);
    struct tachy_inpaint_flow *f = tachy_stage_item(st, item);
    size_t n = (size_t)p->here->width * (size_t)p->here->height;
    float differs;
    f->known = false;
    if (!p->before || !h->before)
        return TACHY_OK;
    if (!f->back_u && !(f->back_u = malloc(4 * n * sizeof(float))))
        return TACHY_ERR_NOMEM;
    f->back_v = f->back_u + n;
    f->on_u = f->back_v + n;
    f->on_v = f->on_u + n;
    int err = w->there ? flow_gpu_run(w->there, p->here->data, p->before->data, f->back_u, f->on_u) : TACHY_OK;
    if (err == TACHY_OK)
        err = one_way(w, h->here, p->here, p->before, f->back_u, &differs);
    f->known = err == TACHY_OK && differs < SCENE;
    if (f->known)
        err = one_way(w, h->before, p->before, p->here, f->on_u, &differs);
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = both_ways(st, worker, pieces[i].item);
}

static void item_close(void *item) { free(((struct tachy_inpaint_flow *)item)->back_u); }

const struct tachy_stage_ops tachy_stage_inpaint_flow = {
    .name = "flow",
    .remedy = "compare smaller pictures (--motion-size 320)",
    .priv_size = sizeof(struct flow_stage),
    .item_size = sizeof(struct tachy_inpaint_flow),
    .open = open,
    .close = close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .item_close = item_close,
};

const struct tachy_inpaint_flow *tachy_inpaint_flow_of(const struct tachy_stage *st, const struct tachy_item *item)
{
    return tachy_stage_item(tachy_stage_before(st, tachy_stage_inpaint_flow.name), item);
}
