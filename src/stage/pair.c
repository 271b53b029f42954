#include "stage/pair.h"

#include "postprocess/mask.h"
#include "stage/small.h"

#include <stdlib.h>

const struct tachy_option tachy_luma_options[] = {
    {"motion.size", "motion-size", 0, TACHY_OPT_INT, "640", .max = 16384, .arg = "PIXELS", .group = "Motion",
     .help = "longest side of the pictures to compare; 0: the frames' own size"},
    {"motion.flow_batch", NULL, 0, TACHY_OPT_INT, "32", .min = 1, .max = TACHY_PAIRS_MOST, .group = "Motion",
     .help = "pairs of frames that a GPU compares at once per worker; fewer of large pictures, by its memory"},
    {0},
};

static struct tachy_luma *new_luma(int width, int height)
{
    struct tachy_luma *l = malloc(sizeof(*l) + (size_t)width * (size_t)height);
    if (l) {
        atomic_init(&l->users, 1);
        l->width = width;
        l->height = height;
        l->surface = NULL;
        l->stream = NULL;
    }
    return l;
}

struct tachy_luma *tachy_luma_of_surface(tachy_frame *surface, void *stream)
{
    struct tachy_luma *l = new_luma(surface->width, 0);
    if (!l) {
        tachy_frame_unref(&surface);
        return NULL;
    }
    l->height = surface->height;
    l->surface = surface;
    l->stream = stream;
    return l;
}

static void drop(struct tachy_luma **l)
{
    if (*l && atomic_fetch_sub(&(*l)->users, 1) == 1) {
        tachy_frame_unref(&(*l)->surface);
        free(*l);
    }
    *l = NULL;
}

static struct tachy_luma *share(struct tachy_luma *l)
{
    if (l)
        atomic_fetch_add(&l->users, 1);
    return l;
}

void tachy_pair_set(struct tachy_pair *p, struct tachy_luma *here)
{
    drop(&p->here);
    drop(&p->before);
    p->here = here;
}

void tachy_pair_close(void *item) { tachy_pair_set(item, NULL); }

// ---- luma ----

int tachy_luma_open(struct tachy_stage *st, const tachy_settings *s)
{
    struct tachy_luma_stage *l = tachy_stage_priv(st);
    l->size = (int)tachy_settings_int(s, "motion.size");
    l->pairs = (int)tachy_settings_int(s, "motion.flow_batch");
    tachy_task_describe(st->task, " motion %d", l->size);
    return TACHY_OK;
}

int tachy_luma_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct tachy_luma_stage *l = tachy_stage_priv(st);
    int longer = TACHY_MAX(video->width, video->height), most = TACHY_DEF(l->size, longer);
    l->width = small_side(video->width, longer, most);
    l->height = small_side(video->height, longer, most);
    st->item_bytes = (size_t)l->width * (size_t)l->height;
    return TACHY_OK;
}

// By tachy_luma_guide(), which gives the same bits on every machine, as struct small_picture does not.
static int make(const struct tachy_luma_stage *l, struct tachy_pair *p, const struct tachy_item *item)
{
    const tachy_frame *f = item->in;
    struct tachy_rect whole = {0, 0, f->width, f->height};
    tachy_pair_set(p, new_luma(l->width, l->height));
    return p->here ? tachy_luma_guide(f, &whole, p->here->data, l->width, l->width, l->height) : TACHY_ERR_NOMEM;
}

static void luma_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = make(tachy_stage_priv(st), tachy_stage_item(st, pieces[i].item), pieces[i].item);
}

const struct tachy_stage_ops tachy_stage_luma = {
    .name = "luma",
    .options = tachy_luma_options,
    .flags = TACHY_STAGE_READS,
    .step = "preprocess",
    .remedy = "compare smaller pictures (--motion-size 320)",
    .priv_size = sizeof(struct tachy_luma_stage),
    .item_size = sizeof(struct tachy_pair),
    .open = tachy_luma_open,
    .start = tachy_luma_start,
    .run = luma_run,
    .item_close = tachy_pair_close,
};

// ---- pair ----

struct pair_state {
    struct tachy_luma *last; // NULL: none yet
};

static void pair_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct pair_state *s = state;
    struct tachy_item *item = pieces[0].item;
    struct tachy_pair *p = tachy_stage_item(tachy_stage_before(st, tachy_stage_luma.name), item);
    if (!s) { // calibration: the cost of a pair is wanted, whichever it is
        p->before = share(p->here);
        return;
    }
    if (!item->anew)
        p->before = share(s->last);
    drop(&s->last);
    s->last = share(p->here);
}

static int state_open(struct tachy_stage *st, void **state)
{
    *state = calloc(1, sizeof(struct pair_state));
    return *state ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void state_close(void *state)
{
    struct pair_state *s = state;
    drop(&s->last);
    free(s);
}

static int state_save(const void *state, void **data, size_t *size)
{
    const struct tachy_luma *l = ((const struct pair_state *)state)->last;
    int32_t head[2] = {l ? l->width : 0, l ? l->height : 0};
    size_t pixels = (size_t)head[0] * (size_t)head[1];
    char *p = malloc(sizeof(head) + pixels);
    *data = p;
    *size = sizeof(head) + pixels;
    if (!p)
        return TACHY_ERR_NOMEM;
    memcpy(p, head, sizeof(head));
    if (l)
        memcpy(p + sizeof(head), l->data, pixels);
    return TACHY_OK;
}

static int state_load(void *state, const void *data, size_t size)
{
    struct pair_state *s = state;
    int32_t head[2];
    if (size < sizeof(head))
        return TACHY_ERR_FORMAT;
    memcpy(head, data, sizeof(head));
    if (head[0] < 0 || head[1] < 0 || head[0] > 65535 || head[1] > 65535 || size - sizeof(head) != (size_t)head[0] * (size_t)head[1])
        return TACHY_ERR_FORMAT;
    if (!head[0] || !head[1])
        return TACHY_OK;
    drop(&s->last);
    s->last = new_luma(head[0], head[1]);
    if (!s->last)
        return TACHY_ERR_NOMEM;
    memcpy(s->last->data, (const char *)data + sizeof(head), size - sizeof(head));
    return TACHY_OK;
}

const struct tachy_stage_ops tachy_stage_pair = {
    .name = "pair",
    .flags = TACHY_STAGE_ORDERED,
    .step = "preprocess",
    .run = pair_run,
    .state_open = state_open,
    .state_close = state_close,
    .state_save = state_save,
    .state_load = state_load,
};

// Data on a GPU is not saved.
const struct tachy_stage_ops tachy_stage_pair_cuda = {
    .name = "pair",
    .flags = TACHY_STAGE_ORDERED,
    .step = "preprocess",
    .run = pair_run,
    .state_open = state_open,
    .state_close = state_close,
};

const struct tachy_pair *tachy_pair_of(const struct tachy_stage *st, const struct tachy_item *item)
{
    const struct tachy_stage *luma = tachy_stage_before(st, tachy_stage_luma.name);
    return luma ? tachy_stage_item(luma, item) : NULL;
}

void tachy_pair_size(const struct tachy_stage *st, int *width, int *height)
{
    const struct tachy_luma_stage *l = tachy_stage_priv(tachy_stage_before(st, tachy_stage_luma.name));
    *width = l->width;
    *height = l->height;
}
