#include "stage/filler.h"

#include "inpaint/windows.h"

#include <math.h>
#include <stdlib.h>

// ---- Patches

static int fill_by_patches(struct filler *f, const struct carry_rest *rest) { return carry_fill(rest); }

static void patches_close(struct filler *f) { free(f); }

static int patches_open(struct filler **f)
{
    *f = malloc(sizeof(**f));
    if (*f)
        **f = (struct filler){fill_by_patches, patches_close};
    return *f ? TACHY_OK : TACHY_ERR_NOMEM;
}

// ---- A network. It sees windows of the frame (inpaint/windows.h), and the points of a hole get what its windows say of them.

struct net_run {
    tachy_engine *engine; // NULL: there is none for several windows
    struct infer_tensors tensors;
};

struct net_filler {
    struct filler f;
    const struct filler_params *params;
    const struct tachy_infer_net *net;
    tachy_preprocess *preprocess;
    struct net_run one, many;
    float (*rgb)[3], *weight; // of each of `room` points
    int room;
};

static void net_close(struct filler *f)
{
    struct net_filler *n = (struct net_filler *)f;
    tachy_preprocess_close(&n->preprocess);
    struct net_run *const runs[] = {&n->one, &n->many};
    for (int i = 0; i < 2; i++) {
        tachy_engine_close(&runs[i]->engine);
        infer_tensors_free(&runs[i]->tensors);
    }
    free(n->rgb);
    free(n->weight);
    free(n);
}

static tachy_frame seen(const tachy_frame *f)
{
    tachy_frame s = *f;
    s.color = tachy_color_resolve(f->color, f->format, f->width, f->height);
    s.color.transfer = 1; // what comes out is of the frame's own transfer: nothing is to be mapped to SDR
    return s;
}

static struct tachy_view view_of(const struct net_filler *n, const struct fill_window *w)
{
    return (struct tachy_view){.x = w->r.x, .y = w->r.y, .w = w->r.w, .h = w->r.h, .rotation = n->params->rotation, .flip = n->params->flip};
}

// Whether any of the points is in the rectangle a..b of the frame; beyond its edge lies what is at the edge.
static bool any_rest(const struct carry_rest *rest, const double a[2], const double b[2])
{
    const tachy_frame *f = rest->out;
    int lo[2], hi[2];
    for (int k = 0; k < 2; k++) {
        int last = (k ? f->height : f->width) - 1;
        lo[k] = (int)TACHY_CLAMP(floor(TACHY_MIN(a[k], b[k]) + 1e-6), 0, last);
        hi[k] = (int)TACHY_CLAMP(ceil(TACHY_MAX(a[k], b[k]) - 1e-6) - 1, lo[k], last);
    }
    for (int y = lo[1]; y <= hi[1]; y++)
        for (int x = lo[0]; x <= hi[0]; x++) {
            int i = rest->index[(size_t)y * (size_t)f->width + (size_t)x];
            if (i >= 0 && rest->points[i].from == CARRY_NONE)
                return true;
        }
    return false;
}

// 1 if the pixel of the network's picture holds any point, else 0.
static void draw_hole(const struct net_filler *n, const struct carry_rest *rest, const double map[6], float *to)
{
    int w = n->net->card->in.width, h = n->net->card->in.height;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            const double a[2] = {map[0] * x + map[1] * y + map[2], map[3] * x + map[4] * y + map[5]};
            const double b[2] = {a[0] + map[0] + map[1], a[1] + map[3] + map[4]};
            to[(size_t)y * (size_t)w + (size_t)x] = any_rest(rest, a, b);
        }
}

static struct tachy_tensor slot_of(const struct tachy_tensor *t, int slot)
{
    struct tachy_tensor one = *t;
    if (one.rank == 4)
        one.shape[0] = 1;
    one.data = (char *)t->data + (size_t)slot * tachy_tensor_bytes(&one);
    return one;
}

static int show(struct net_filler *n, const struct carry_rest *rest, const struct fill_window *w, struct net_run *run, int slot)
{
    const tachy_frame frame = seen(rest->out);
    const struct tachy_view view = view_of(n, w);
    struct tachy_tensor to = slot_of(&run->tensors.in[n->net->picture], slot);
    double map[6];
    int err = tachy_preprocess_run(n->preprocess, &frame, &view, &to, NULL);
    if (err == TACHY_OK)
        err = tachy_preprocess_map(&n->net->card->in, frame.width, frame.height, &view, map);
    if (err == TACHY_OK && n->net->hole >= 0)
        draw_hole(n, rest, map, slot_of(&run->tensors.in[n->net->hole], slot).data);
    return err;
}

// The network's colour at (x, y) of its picture, linear between the middles of pixels.
static void colour_at(const struct net_filler *n, const float *out, double x, double y, float rgb[3])
{
    const struct tachy_card *c = n->net->card;
    int w = c->in.width, h = c->in.height;
    size_t pixel = c->out_layout == TACHY_NHWC ? 3 : 1, plane = c->out_layout == TACHY_NHWC ? 1 : (size_t)w * (size_t)h;
    x = TACHY_CLAMP(x - 0.5, 0, w - 1);
    y = TACHY_CLAMP(y - 0.5, 0, h - 1);
    int x0 = (int)x, y0 = (int)y;
    float ax = (float)(x - x0), ay = (float)(y - y0);
    size_t at = ((size_t)y0 * (size_t)w + (size_t)x0) * pixel, right = x0 + 1 < w ? pixel : 0, down = y0 + 1 < h ? (size_t)w * pixel : 0;
    for (size_t k = 0; k < 3; k++) {
        const float *p = out + (c->in.channels == TACHY_BGR ? 2 - k : k) * plane + at;
        float v = ((1 - ay) * (p[0] + ax * (p[right] - p[0])) + ay * (p[down] + ax * (p[down + right] - p[down]))) / c->white;
        rgb[k] = v >= 0 ? TACHY_MIN(v, 1) : 0; // also NaN
    }
}

static int take(struct net_filler *n, const struct carry_rest *rest, const struct fill_windows *all, const struct fill_window *w, const float *out)
{
    const tachy_frame *f = rest->out;
    const struct tachy_view view = view_of(n, w);
    double m[6];
    int err = tachy_preprocess_map(&n->net->card->in, f->width, f->height, &view, m);
    double det = m[0] * m[4] - m[1] * m[3];
    for (int y = TACHY_MAX(w->r.y, 0); y < TACHY_MIN(w->r.y + w->r.h, f->height) && err == TACHY_OK; y++)
        for (int x = TACHY_MAX(w->r.x, 0); x < TACHY_MIN(w->r.x + w->r.w, f->width); x++) {
            int i = rest->index[(size_t)y * (size_t)f->width + (size_t)x];
            if (i < 0 || all->hole[i] != w->hole)
                continue;
            double dx = x + 0.5 - m[2], dy = y + 0.5 - m[5];
            float weight = fill_window_weight(w, x, y), rgb[3];
            colour_at(n, out, (m[4] * dx - m[1] * dy) / det, (m[0] * dy - m[3] * dx) / det, rgb);
            for (int k = 0; k < 3; k++)
                n->rgb[i][k] += weight * rgb[k];
            n->weight[i] += weight;
        }
    return err;
}

static int run_windows(struct net_filler *n, const struct carry_rest *rest, const struct fill_windows *all, int first, int nb)
{
    struct net_run *run = nb > 1 ? &n->many : &n->one;
    const struct tachy_infer *in = &n->params->net;
    int err = TACHY_OK;
    for (int i = 0; i < nb && err == TACHY_OK; i++)
        err = show(n, rest, &all->window[first + i], run, i);
    if (err == TACHY_OK)
        err = tachy_engine_run(run->engine, run->tensors.in, run->tensors.out);
    if (n->params->counted)
        atomic_fetch_add_explicit(&in->st->task->model[TACHY_INFER_FULL].runs, nb, memory_order_relaxed);
    for (int i = 0; i < nb && err == TACHY_OK && !in->pretends; i++)
        err = take(n, rest, all, &all->window[first + i], slot_of(&run->tensors.out[n->net->output], i).data);
    return err;
}

static int make_room(struct net_filler *n, int points)
{
    if (points > n->room) {
        free(n->rgb);
        free(n->weight);
        n->rgb = malloc((size_t)points * sizeof(*n->rgb));
        n->weight = malloc((size_t)points * sizeof(*n->weight));
        n->room = n->rgb && n->weight ? points : 0;
    }
    if (points > n->room)
        return TACHY_ERR_NOMEM;
    memset(n->rgb, 0, (size_t)points * sizeof(*n->rgb));
    memset(n->weight, 0, (size_t)points * sizeof(*n->weight));
    return TACHY_OK;
}

static int fill_by_net(struct filler *f, const struct carry_rest *rest)
{
    struct net_filler *n = (struct net_filler *)f;
    const struct tachy_preprocess_params *in = &n->net->card->in;
    bool turned = n->params->rotation % 180;
    struct fill_windows w = {0};
    int err = make_room(n, rest->n);
    if (err == TACHY_OK)
        err = fill_windows_of(&w, rest, turned ? in->height : in->width, turned ? in->width : in->height);
    for (int i = 0, nb = 0; i < w.nb && err == TACHY_OK; i += nb) {
        nb = n->many.engine && w.nb - i >= n->params->batch ? n->params->batch : 1;
        err = run_windows(n, rest, &w, i, nb);
    }
    for (int i = 0; i < rest->n && err == TACHY_OK; i++)
        for (int k = 0; k < 3; k++)
            n->rgb[i][k] /= n->weight[i] > 0 ? n->weight[i] : 1;
    if (err == TACHY_OK && w.nb)
        carry_paint(rest, (const float(*)[3])n->rgb);
    fill_windows_free(&w);
    return err;
}

// ---- Opening

static int open_run(struct net_run *run, const struct filler_params *p, int batch)
{
    const struct tachy_infer_net *net = &p->net.net[TACHY_INFER_FULL];
    int err = infer_open_engine(&p->net, net, batch, 0, &run->engine);
    return err < 0 ? err : infer_tensors_open(&p->net, net, run->engine, batch, &run->tensors);
}

static int net_open(struct filler **f, const struct filler_params *p)
{
    struct net_filler *n = calloc(1, sizeof(*n));
    if (!n)
        return TACHY_ERR_NOMEM;
    *f = &n->f;
    n->f = (struct filler){fill_by_net, net_close};
    n->params = p;
    n->net = &p->net.net[TACHY_INFER_FULL];
    struct tachy_preprocess_params pp = n->net->card->in;
    pp.log = p->net.st->task->log;
    int err = tachy_preprocess_open(&n->preprocess, &pp);
    if (err == TACHY_OK)
        err = open_run(&n->one, p, 1);
    if (err == TACHY_OK && p->batch > 1)
        err = open_run(&n->many, p, p->batch);
    return err;
}

int filler_open(struct filler **f, const struct filler_params *p)
{
    *f = NULL;
    int err = p->net.net[TACHY_INFER_FULL].card ? net_open(f, p) : patches_open(f);
    if (err < 0)
        filler_close(f);
    return err;
}

void filler_close(struct filler **f)
{
    if (*f)
        (*f)->close(*f);
    *f = NULL;
}

int filler_read(struct filler_params *p, struct tachy_stage *st, const tachy_settings *s)
{
    const char *name = tachy_settings_str(s, "inpaint.network");
    if (!name)
        return TACHY_OK;
    int err = infer_open_model(&p->net, st, name, NULL, s, st->task->log);
    if (err < 0)
        return err;
    const struct tachy_card *c = p->net.net[TACHY_INFER_FULL].card;
    if (strcmp(c->task, "inpaint"))
        return tachy_fail(st->task->log, TACHY_ERR_MISMATCH, "--fill: the card of model %s says task \"%s\"; needed is one of task \"inpaint\"",
                          c->name, c->task);
    err = infer_open_first(&p->net);
    p->batch = (int)tachy_settings_int(s, "inpaint.lama_batch");
    if (p->batch > 1 && !c->free_batch) {
        tachy_msg(st->task->log, TACHY_LOG_WARN, "--lama-batch: model %s takes one picture in a run, as its card says", c->name);
        p->batch = 1;
    }
    p->counted = !st->task->engine[0];
    if (err == TACHY_OK && p->counted)
        infer_describe(&p->net);
    else if (err == TACHY_OK)
        tachy_task_describe(st->task, " fill %s", c->name);
    return err;
}
