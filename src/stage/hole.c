#include "stage/hole.h"

#include "base/path.h"
#include "stage/background.h"
#include "stage/stages.h"

#include <stdlib.h>
#include <unistd.h>

// Rectangles, pictures and videos that say what is to be filled, and people. Where any of them says so there is a hole. In order,
// since videos are read along and each frame is handed the hole of the one before.

enum { BRIGHT = 8 }; // a mask's pixel is hole from a BRIGHT-th of white on: soft edges hold some of what goes

struct hole {
    struct background *item; // each a rectangle, a picture or a video; `file` is its text
    bool *video;
    size_t nb_items;
    struct tachy_composite_params people;
    bool finds_people;
    uint8_t *still;          // of all frames, as stored; NULL: none
    tachy_frame_pool *pool;
};

// A stream's.
struct hole_state {
    tachy_composite *people;
    struct background_reader **video; // an element per item; NULL: it is none
    size_t nb;
    tachy_frame *last;
};

static const struct tachy_option options[] = {
    {"inpaint.hole", "hole", 0, TACHY_OPT_LIST, .arg = "X,Y,W,H|FILE", .group = "Inpaint",
     .help = "fill this rectangle, in pixels of the shown picture or in percent of it with %, or what is white in "
             "this picture or video; repeat it for more. Without it people are removed"},
    {"inpaint.people", "people", 0, TACHY_OPT_BOOL, "no", .group = "Inpaint",
     .help = "with --hole: also remove people"},
    {"inpaint.grow", "grow", 0, TACHY_OPT_FLOAT, "8", .max = 64, .arg = "PIXELS", .group = "Inpaint",
     .help = "how far the hole extends beyond a person's edge"},
    {0},
};

static void hole_close(struct tachy_stage *st)
{
    struct hole *h = tachy_stage_priv(st);
    while (h->nb_items)
        free(h->item[--h->nb_items].file);
    free(h->item);
    free(h->video);
    tachy_aligned_free(h->still);
    tachy_frame_pool_close(&h->pool);
}

static int add(struct hole *h, const char *text, const struct tachy_log *log)
{
    struct tachy_garbage_rect r;
    if (!tachy_garbage_parse(text, &r) && access(tachy_path_local(text), R_OK) != 0)
        return tachy_fail(log, TACHY_ERR_NOT_FOUND, "--hole: \"%.200s\" is neither a rectangle X,Y,W,H with an area (10%%,0,20%%,15%%) nor a "
                          "picture or video that can be read", text);
    h->item[h->nb_items].file = strdup(text);
    return h->item[h->nb_items].file ? (h->nb_items++, TACHY_OK) : TACHY_ERR_NOMEM;
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct hole *h = tachy_stage_priv(st);
    const char *const *items;
    size_t n = tachy_settings_list(s, "inpaint.hole", &items);
    h->item = calloc(n + 1, sizeof(*h->item));
    h->video = calloc(n + 1, sizeof(*h->video));
    int err = h->item && h->video ? TACHY_OK : TACHY_ERR_NOMEM;
    for (size_t i = 0; i < n && err == TACHY_OK; i++)
        err = add(h, items[i], st->task->log);
    h->finds_people = tachy_stage_before(st, "postprocess");
    h->people = (struct tachy_composite_params){.mode = TACHY_MODE_MASK, .threshold = 0.5f, .log = st->task->log,
                                                .grow = (float)tachy_settings_float(s, "inpaint.grow")};
    tachy_task_describe(st->task, "inpaint");
    return err;
}

// ---- What does not change ----

static uint8_t add_bright(uint8_t hole, uint8_t grey) { return grey >= 256 / BRIGHT ? 255 : hole; }

static int draw(struct tachy_stage *st, uint8_t *shown, int width, int height)
{
    const struct hole *h = tachy_stage_priv(st);
    struct tachy_garbage_rect r;
    int err = TACHY_OK;
    memset(shown, 0, (size_t)width * (size_t)height);
    for (size_t i = 0; i < h->nb_items && err == TACHY_OK; i++)
        if (!tachy_garbage_parse(h->item[i].file, &r))
            err = tachy_matte_mix(shown, width, height, h->item[i].file, add_bright, &h->video[i], st->task->log);
        else if (!tachy_garbage_fill(shown, width, height, &r))
            err = tachy_fail(st->task->log, TACHY_ERR_INVAL, "--hole: %s is outside of the picture, which has %dx%d pixels", h->item[i].file,
                             width, height);
    return err;
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct hole *h = tachy_stage_priv(st);
    int err = tachy_matte_make(&h->still, video, draw, st);
    if (err == TACHY_OK)
        err = tachy_stage_pool(st, &h->pool, TACHY_PIX_GRAY8, video->width, video->height);
    st->item_bytes = (size_t)video->width * (size_t)video->height;
    return err;
}

// ---- A stream ----

static void state_close(void *state)
{
    struct hole_state *s = state;
    for (size_t i = 0; s && i < s->nb; i++)
        background_reader_close(&s->video[i]);
    if (s) {
        tachy_composite_close(&s->people);
        tachy_frame_unref(&s->last);
        free(s->video);
    }
    free(s);
}

static int state_open(struct tachy_stage *st, void **state)
{
    const struct hole *h = tachy_stage_priv(st);
    struct hole_state *s = calloc(1, sizeof(*s));
    int err = s ? tachy_composite_open(&s->people, &h->people) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && !(s->video = calloc(h->nb_items + 1, sizeof(struct background_reader *))))
        err = TACHY_ERR_NOMEM;
    for (size_t i = 0; i < h->nb_items && err == TACHY_OK; i++, s->nb++)
        if (h->video[i])
            err = background_reader_open(&s->video[i], &h->item[i], st->task);
    if (err < 0)
        state_close(s);
    *state = err < 0 ? NULL : s;
    return err;
}

// ---- Items ----

// White is a luma or a green.
static int add_video(struct background_reader *r, double time_s, tachy_frame *hole)
{
    tachy_frame *f;
    int err = background_reader_at(r, time_s, &f);
    if (err < 0)
        return err;
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    int step = d->components[0], at = d->rgb ? 1 : 0, least = (1 << d->bits) / BRIGHT;
    for (int y = 0; y < hole->height; y++) {
        const uint8_t *row = f->data[0] + y * f->stride[0];
        uint8_t *to = tachy_frame_writable(hole, 0) + y * hole->stride[0];
        for (int x = 0; x < hole->width; x++) {
            int v = d->bytes == 2 ? ((const uint16_t *)row)[x * step + at] >> d->shift : row[x * step + at];
            to[x] |= v >= least ? 255 : 0;
        }
    }
    tachy_frame_unref(&f);
    return TACHY_OK;
}

static int make(const struct hole *h, struct hole_state *s, struct tachy_item *item, double time_s, tachy_frame *hole)
{
    int err = TACHY_OK;
    uint8_t *to = tachy_frame_writable(hole, 0);
    size_t width = (size_t)hole->width;
    if (h->finds_people)
        err = tachy_composite_run(s->people, tachy_item_head(item), &item->result, NULL, NULL, hole);
    for (int y = 0; y < hole->height && err == TACHY_OK; y++, to += hole->stride[0])
        for (size_t x = 0; x < width; x++)
            to[x] = (uint8_t)((h->finds_people && to[x] >= 128 ? 255 : 0) | h->still[(size_t)y * width + x]);
    for (size_t i = 0; i < s->nb && err == TACHY_OK; i++)
        if (s->video[i])
            err = add_video(s->video[i], time_s, hole);
    return err;
}

static int hole(struct tachy_stage *st, struct hole_state *s, struct tachy_item *item)
{
    struct hole *h = tachy_stage_priv(st);
    struct tachy_hole *it = tachy_stage_item(st, item);
    tachy_frame_unref(&it->here);
    tachy_frame_unref(&it->before);
    int err = tachy_frame_pool_get(h->pool, &it->here);
    if (err == TACHY_OK)
        err = make(h, s, item, tachy_item_time(st->task, item), it->here);
    if (err < 0)
        return err;
    if (!item->anew)
        it->before = tachy_frame_ref(s->last);
    tachy_frame_unref(&s->last);
    s->last = tachy_frame_ref(it->here);
    return TACHY_OK;
}

// Where no stream is at hand, a state serves one call.
static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    void *own = NULL;
    if (!state)
        err[0] = state_open(st, &own);
    if (err[0] == TACHY_OK)
        err[0] = hole(st, state ? state : own, pieces[0].item);
    state_close(own);
}

static void item_close(void *item)
{
    struct tachy_hole *h = item;
    tachy_frame_unref(&h->here);
    tachy_frame_unref(&h->before);
}

const struct tachy_stage_ops tachy_stage_hole = {
    .name = "hole",
    .flags = TACHY_STAGE_ORDERED,
    .options = options,
    .step = "postprocess",
    .priv_size = sizeof(struct hole),
    .item_size = sizeof(struct tachy_hole),
    .open = open,
    .close = hole_close,
    .start = start,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
    .item_close = item_close,
};

const struct tachy_hole *tachy_hole_of(const struct tachy_stage *st, const struct tachy_item *item)
{
    return tachy_stage_item(tachy_stage_before(st, tachy_stage_hole.name), item);
}
