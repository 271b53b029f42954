#include "inpaint/carry.h"
#include "media/frame_pool.h"
#include "postprocess/overlay.h"
#include "stage/filler.h"
#include "stage/hole.h"
#include "stage/pair.h"
#include "stage/stage.h"

#include <stdlib.h>

// Fills the holes of each frame: first from the nearest frame before or after that shows the place, then from the fill
// of the previous frame; only the rest is synthesised. In order.

enum { BACK = 12 }; // frames before that are looked at

struct inpaint {
    int width, height; // of the frames
    int flow_width, flow_height;
    tachy_frame_pool *pool;
    struct filler_params filler;
};

// A frame before.
struct past {
    tachy_frame *in, *hole;
    float *uv;  // its flow to the one before it; BACK planes of a state's memory
    bool known;
};

struct inpaint_state {
    struct past past[BACK]; // the last one first
    int nb;
    tachy_frame *out;       // that one, filled
    struct carry_point *points;
    int *index;
    struct filler *filler;
};

static const struct tachy_option options[] = {
    {"inpaint.look_ahead", "look-ahead", 0, TACHY_OPT_INT, "8", .max = 15, .arg = "FRAMES", .group = "Inpaint",
     .help = "later frames to search for the background that the hole hides; none with --live"},
    {"inpaint.network", "fill", 0, TACHY_OPT_STRING, .arg = "NAME|FILE", .group = "Inpaint",
     .help = "model of a network such as LaMa that fills what no frame shows; without it, patches of the picture do"},
    {"inpaint.lama_batch", "lama-batch", 0, TACHY_OPT_INT, "1", .min = 1, .max = 64, .group = "Inpaint",
     .help = "parts of a frame per run of that network, if its card's `batch` is free"},
    {0},
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct inpaint *p = tachy_stage_priv(st);
    st->ahead = tachy_settings_bool(s, "performance.live") ? 0 : (int)tachy_settings_int(s, "inpaint.look_ahead");
    tachy_task_describe(st->task, " ahead %d", st->ahead);
    return filler_read(&p->filler, st, s);
}

static void inpaint_close(struct tachy_stage *st)
{
    struct inpaint *p = tachy_stage_priv(st);
    tachy_frame_pool_close(&p->pool);
    infer_free(&p->filler.net);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct inpaint *p = tachy_stage_priv(st);
    p->width = video->width;
    p->height = video->height;
    p->filler.rotation = video->rotation;
    p->filler.flip = video->flipped;
    tachy_pair_size(st, &p->flow_width, &p->flow_height);
    return tachy_stage_pool(st, &p->pool, video->format, video->width, video->height);
}

// ---- A stream ----

static void forget(struct inpaint_state *s)
{
    for (int i = 0; i < s->nb; i++) {
        tachy_frame_unref(&s->past[i].in);
        tachy_frame_unref(&s->past[i].hole);
    }
    tachy_frame_unref(&s->out);
    s->nb = 0;
}

static void state_close(void *state)
{
    struct inpaint_state *s = state;
    if (!s)
        return;
    forget(s);
    filler_close(&s->filler);
    for (int i = 0; i < BACK; i++)
        free(s->past[i].uv);
    free(s->points);
    free(s->index);
    free(s);
}

static int state_open(struct tachy_stage *st, void **state)
{
    struct inpaint *p = tachy_stage_priv(st);
    struct inpaint_state *s = calloc(1, sizeof(*s));
    size_t n = (size_t)p->width * (size_t)p->height, flow = (size_t)p->flow_width * (size_t)p->flow_height;
    *state = NULL;
    if (!s)
        return TACHY_ERR_NOMEM;
    s->points = malloc(n * sizeof(*s->points));
    s->index = malloc(n * sizeof(*s->index));
    bool whole = s->points && s->index;
    for (int i = 0; i < BACK && whole; i++)
        whole = (s->past[i].uv = malloc(2 * flow * sizeof(float))) != NULL;
    int err = whole ? filler_open(&s->filler, &p->filler) : TACHY_ERR_NOMEM;
    if (err < 0)
        state_close(s);
    else
        *state = s;
    return err;
}

static void remember(const struct inpaint *p, struct inpaint_state *s, struct tachy_stage *st, const struct tachy_item *item)
{
    const struct tachy_inpaint_flow *f = tachy_inpaint_flow_of(st, item);
    size_t bytes = 2 * sizeof(float) * (size_t)p->flow_width * (size_t)p->flow_height;
    struct past last = s->past[BACK - 1];
    if (s->nb == BACK) {
        tachy_frame_unref(&last.in);
        tachy_frame_unref(&last.hole);
    }
    memmove(&s->past[1], &s->past[0], (BACK - 1) * sizeof(last));
    s->nb = TACHY_MIN(s->nb + 1, (int)BACK);
    s->past[0] = (struct past){tachy_frame_ref(item->in), tachy_frame_ref(tachy_hole_of(st, item)->here), last.uv, f->known};
    if (f->known)
        memcpy(last.uv, f->back_u, bytes);
    tachy_frame_unref(&s->out);
    s->out = tachy_frame_ref(item->out);
}

// ---- Items ----

static struct carry_flow flow_of(const struct inpaint *p, const float *uv)
{
    return (struct carry_flow){uv, uv + (size_t)p->flow_width * (size_t)p->flow_height, p->flow_width, p->flow_height, p->width, p->height};
}

// Back through the frames before, as far as the scene goes; from[i] is past[i].
static void look_back(struct tachy_stage *st, const struct inpaint_state *s, const struct tachy_item *item, int n, tachy_frame *from[])
{
    const struct inpaint *p = tachy_stage_priv(st);
    const struct tachy_inpaint_flow *f = tachy_inpaint_flow_of(st, item);
    const float *uv = f->known ? f->back_u : NULL;
    for (int i = 0; i < s->nb && uv; i++) {
        struct carry_flow flow = flow_of(p, uv);
        carry_step(s->points, n, &flow);
        carry_look(s->points, n, s->past[i].hole, i, i + 1);
        from[i] = s->past[i].in;
        uv = s->past[i].known ? s->past[i].uv : NULL;
    }
}

// On through those to come; from[BACK + i] is that of pieces[i].
static void look_on(struct tachy_stage *st, const struct inpaint_state *s, const struct tachy_piece pieces[], int nb, int n, tachy_frame *from[])
{
    const struct inpaint *p = tachy_stage_priv(st);
    carry_restart(s->points, n);
    for (int i = 1; i < nb; i++) {
        const struct tachy_inpaint_flow *f = tachy_inpaint_flow_of(st, pieces[i].item);
        if (!f->known || !pieces[i].item->in)
            return;
        struct carry_flow flow = flow_of(p, f->on_u);
        carry_step(s->points, n, &flow);
        carry_look(s->points, n, tachy_hole_of(st, pieces[i].item)->here, BACK + i, i);
        from[BACK + i] = pieces[i].item->in;
    }
}

// Marks the rest of the hole where the previous frame has been filled.
static void look_at_filled(struct tachy_stage *st, const struct inpaint_state *s, const struct tachy_item *item, int n)
{
    const struct inpaint *p = tachy_stage_priv(st);
    const struct tachy_inpaint_flow *f = tachy_inpaint_flow_of(st, item);
    if (!f->known || !s->out)
        return;
    struct carry_flow flow = flow_of(p, f->back_u);
    carry_restart(s->points, n);
    carry_step(s->points, n, &flow);
    carry_before(s->points, n, p->width, p->height);
}

// Sets the share of the frame that is hole, and the share of the hole that no frame shows.
static int tell(const struct inpaint *p, const struct inpaint_state *s, struct tachy_item *item, int n)
{
    int unseen = 0;
    for (int i = 0; i < n; i++)
        unseen += s->points[i].from < 0;
    int err = tachy_item_set_value(item, "hole", n / ((double)p->width * p->height));
    return err == TACHY_OK ? tachy_item_set_value(item, "invented", n ? unseen / (double)n : 0) : err;
}

static int inpaint(struct tachy_stage *st, struct inpaint_state *s, const struct tachy_piece pieces[], int nb)
{
    struct inpaint *p = tachy_stage_priv(st);
    struct tachy_item *item = pieces[0].item;
    const tachy_frame *hole = tachy_hole_of(st, item)->here;
    tachy_frame *from[BACK + TACHY_STAGE_ITEMS] = {0};
    int err = tachy_frame_pool_get(p->pool, &item->out);
    if (err < 0)
        return err;
    tachy_overlay_copy(item->in, item->out);
    tachy_item_name(item, item->in->color);
    if (item->anew)
        forget(s);
    int n = carry_begin(hole, s->points, s->index);
    if (n) {
        look_back(st, s, item, n, from);
        look_on(st, s, pieces, nb, n, from);
        look_at_filled(st, s, item, n);
        carry_write(item->out, s->points, n, s->index, from, s->out);
        err = s->filler->fill(s->filler, &(struct carry_rest){item->out, s->points, n, s->index});
    }
    if (err == TACHY_OK)
        err = tell(p, s, item, n);
    if (err == TACHY_OK)
        remember(p, s, st, item);
    return err;
}

// Without a stream, a state serves one call.
static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    void *own = NULL;
    if (!state)
        err[0] = state_open(st, &own);
    if (err[0] == TACHY_OK)
        err[0] = inpaint(st, state ? state : own, pieces, n);
    state_close(own);
}

const struct tachy_stage_ops tachy_stage_inpaint = {
    .name = "inpaint",
    .flags = TACHY_STAGE_ORDERED | TACHY_STAGE_READS | TACHY_STAGE_WRITES,
    .options = options,
    .step = "composite",
    .remedy = "smaller holes, or smaller pictures (-vf scale=1280:-2)",
    .priv_size = sizeof(struct inpaint),
    .open = open,
    .close = inpaint_close,
    .start = start,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
};
