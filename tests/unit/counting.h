#pragma once
#include "test.h"

#include "pipeline/pipeline.h"
#include "steps.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

// A task whose steps take random time: order, nothing lost or doubled, failures, stops. Frames are
// real; the "model" adds one to the frame's number.

struct counting {
    int fail_at, fail_composite_at, fail_order_at; // frame id; -1: never
    const struct tachy_log *log;                   // receives why the model failed
    int delay_us;
    bool unordered;     // no ordered part
    bool drops_input;   // composite does not read the picture
    bool reads_pixels;  // preprocess reads as many as the stream was opened for
    size_t item_bytes;  // what it says that an item holds
    int width, height;  // of the stream
    atomic_int workers; // open now
    atomic_int calls;   // of the model
    atomic_int composites;
};

static inline tachy_frame *frame_new(int64_t id, int width)
{
    tachy_frame *f = NULL;
    tachy_frame_new(&f, &(struct tachy_frame_params){
                            .format = TACHY_PIX_GRAY8, .width = width, .height = 2, .pts = id * 10});
    f->id = id;
    return f;
}

struct counting_item {
    int64_t value;
    int64_t ordered;
};

struct counting_order {
    tachy_task *task;
    int64_t next;
};

static struct counting *conf(tachy_task *t) { return test_priv(t); }

static void random_delay(int most_us)
{
    if (most_us)
        usleep((useconds_t)(rand() % (most_us + 1)));
}

static int c_start(tachy_task *t, const struct tachy_video_info *in, struct tachy_video_info *out)
{
    *out = *in;
    conf(t)->width = in->width;
    conf(t)->height = in->height;
    return TACHY_OK;
}
static int c_worker_open(tachy_task *t, void **w)
{
    atomic_fetch_add(&conf(t)->workers, 1);
    *w = t;
    return TACHY_OK;
}
static void c_worker_close(void *w) { atomic_fetch_sub(&conf(w)->workers, 1); }
static int c_preprocess(void *w, struct tachy_item *item, int eye)
{
    const struct counting *c = conf(w);
    volatile uint8_t sum = 0;
    for (int y = 0; c->reads_pixels && y < c->height; y++)
        for (int x = 0; x < c->width; x++)
            sum = (uint8_t)(sum + item->in->data[0][y * item->in->stride[0] + x]);
    ((struct counting_item *)item->priv)->value = item->in->id;
    random_delay(conf(w)->delay_us);
    return TACHY_OK;
}
static int c_model(void *w, struct tachy_item *item, int eye)
{
    atomic_fetch_add(&conf(w)->calls, 1);
    ((struct counting_item *)item->priv)->value++;
    return conf(w)->fail_at == item->in->id ? tachy_fail(conf(w)->log, TACHY_ERR_EXTERNAL, "a wheel came off") : TACHY_OK;
}
static int c_postprocess(void *w, struct tachy_item *item, int eye) { return TACHY_OK; }
static bool c_keeps_input(const tachy_task *t)
{
    const struct counting *c = test_priv(t);
    return !c->drops_input;
}
static size_t c_item_bytes(const tachy_task *t)
{
    const struct counting *c = test_priv(t);
    return c->item_bytes;
}
static int c_order_open(tachy_task *t, void **state)
{
    *state = NULL;
    if (conf(t)->unordered)
        return TACHY_OK;
    struct counting_order *o = calloc(1, sizeof(*o));
    o->task = t;
    *state = o;
    return TACHY_OK;
}
static void c_order_close(void *state) { free(state); }
static int c_order(void *state, struct tachy_item *item)
{
    struct counting_order *o = state;
    int64_t id = item->result.frame_id;
    CHECK(id >= o->next); // positions may be without a frame
    o->next = id + 1;
    ((struct counting_item *)item->priv)->ordered = id;
    return conf(o->task)->fail_order_at == id ? TACHY_ERR_EXTERNAL : TACHY_OK;
}
static int c_composite(void *w, struct tachy_item *item)
{
    struct counting_item *ci = item->priv;
    atomic_fetch_add(&conf(w)->composites, 1);
    random_delay(conf(w)->delay_us);
    const tachy_frame *head = tachy_item_head(item);
    CHECK_INT(head->id, item->result.frame_id);
    CHECK_INT(ci->value, head->id + 1);
    if (!conf(w)->unordered)
        CHECK_INT(ci->ordered, head->id);
    CHECK(!item->in == conf(w)->drops_input);
    item->out = frame_new(head->id, head->width);
    return conf(w)->fail_composite_at == head->id ? TACHY_ERR_NOMEM : TACHY_OK;
}

static const struct test_steps counting_ops = {
    .name = "counting",
    .item_size = sizeof(struct counting_item),
    .start = c_start,
    .keeps_input = c_keeps_input,
    .item_bytes = c_item_bytes,
    .worker_open = c_worker_open,
    .worker_close = c_worker_close,
    .preprocess = c_preprocess,
    .model = c_model,
    .postprocess = c_postprocess,
    .order_open = c_order_open,
    .order_close = c_order_close,
    .order = c_order,
    .composite = c_composite,
};

static inline tachy_task *task_new(struct counting c) { return test_task(&counting_ops, &c, sizeof(c)); }

static const struct counting never = {.fail_at = -1, .fail_composite_at = -1, .fail_order_at = -1};
