#pragma once
#include "rows.h"
#include "stage/stage.h"

#include <pthread.h>
#include <stdlib.h>

// Tasks of tests and benchmarks: the same kinds of stages as segment (preprocess, model, postprocess, an ordered one,
// composite), each a function of the test for one region or item. NULL: the task lacks that stage.

struct test_steps {
    const char *name;
    size_t item_size; // zeroed bytes at tachy_item.priv
    int (*start)(tachy_task *t, const struct tachy_video_info *in, struct tachy_video_info *out); // NULL: out is in
    bool (*keeps_input)(const tachy_task *t); // whether composite reads the picture; NULL: it does
    size_t (*item_bytes)(const tachy_task *t);
    int (*worker_open)(tachy_task *t, void **worker); // NULL: the task is the worker
    void (*worker_close)(void *worker);
    int (*preprocess)(void *worker, struct tachy_item *item, int region);
    int (*model)(void *worker, struct tachy_item *item, int region);
    int (*postprocess)(void *worker, struct tachy_item *item, int region);
    int (*composite)(void *worker, struct tachy_item *item);
    int (*sync)(struct tachy_item *item);
    void (*item_close)(void *item);

    // A recurrent model, in the place of `model`.
    int (*state_open)(tachy_task *t, void **state);
    void (*state_close)(void *state);
    int (*recur)(void *worker, void *state, struct tachy_item *item, int region);

    int (*order_open)(tachy_task *t, void **state); // *state NULL: nothing is ordered
    void (*order_close)(void *state);
    int (*order)(void *state, struct tachy_item *item);
    int (*order_save)(const void *state, void **data, size_t *size);
    int (*order_load)(void *state, const void *data, size_t size);

    int (*copy)(tachy_task *t, struct tachy_item *to, const struct tachy_item *from, int region);

    const char *(*batch_key)(const tachy_task *t); // NULL, or gives NULL: no batches
    int (*batch_open)(tachy_task *t, int most, void **engine);
    void (*batch_close)(void *engine);
    int (*batch_model)(void *engine, const struct tachy_piece pieces[], int n);

    int (*group)(const tachy_task *t); // items at once; more than one go to group_step
    void (*group_step)(void *worker, int step, struct tachy_item *const items[], int n, int region, int err[]);

    bool (*load)(tachy_task *t, void *worker, int step, const struct tachy_item *item, struct tachy_stage_load *l);
    int (*queue)(void *worker, int step, struct tachy_item *const items[], int n);
};

struct test_shared {
    struct test_steps steps;
    max_align_t priv[];
};

struct test_worker {
    const struct test_steps *steps;
    void *own;
    bool batch;
};

enum { TEST_PREPROCESS, TEST_MODEL, TEST_POSTPROCESS }; // indices of stages

// A stage's kind, as one of TEST_STEP_*.
static inline int test_step_of(const struct tachy_stage *st)
{
    return TACHY_MIN(st->index + TEST_STEP_PREPROCESS, (int)TEST_STEP_COMPOSITE);
}

// A task's parameters.
struct test_task {
    tachy_task task; // first
    struct test_shared shared;
};

static inline struct test_shared *test_shared_of(const tachy_task *t)
{
    return &((struct test_task *)(uintptr_t)t)->shared;
}

static inline void *test_priv(const tachy_task *t) { return test_shared_of(t)->priv; }

static inline const struct test_steps *test_steps_of(const struct tachy_stage *st)
{
    return &test_shared_of(st->task)->steps;
}

static inline int test_step(const struct test_steps *s, void *worker, int step, void *state, struct tachy_item *item,
                            int region)
{
    switch (step) {
    case TEST_STEP_PREPROCESS: return s->preprocess(worker, item, region);
    case TEST_STEP_MODEL: return s->recur ? s->recur(worker, state, item, region) : s->model(worker, item, region);
    case TEST_STEP_POSTPROCESS: return s->postprocess(worker, item, region);
    default: return s->composite(worker, item);
    }
}

static inline void test_stage_run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct test_worker *w = worker;
    struct tachy_item *items[TACHY_STAGE_ITEMS];
    if (w->batch) {
        int all = w->steps->batch_model(w->own, pieces, n);
        for (int i = 0; i < n; i++)
            err[i] = all;
        return;
    }
    if (!w->steps->group_step || n == 1) {
        for (int i = 0; i < n; i++)
            err[i] = test_step(w->steps, w->own, test_step_of(st), state, pieces[i].item, pieces[i].region);
        return;
    }
    for (int i = 0; i < n; i++)
        items[i] = pieces[i].item;
    w->steps->group_step(w->own, test_step_of(st), items, n, pieces[0].region, err);
}

static inline int test_worker_open(struct tachy_stage *st, int batch, void **worker)
{
    const struct test_steps *s = test_steps_of(st);
    struct test_worker *w = *worker = calloc(1, sizeof(*w));
    w->steps = s;
    w->batch = batch > 1;
    w->own = st->task;
    int err = w->batch ? s->batch_open(st->task, batch, &w->own) : s->worker_open ? s->worker_open(st->task, &w->own) : 0;
    if (err < 0) {
        free(w);
        *worker = NULL;
    }
    return err;
}

static inline void test_worker_close(void *worker)
{
    struct test_worker *w = worker;
    if (w->batch)
        w->steps->batch_close(w->own);
    else if (w->steps->worker_close)
        w->steps->worker_close(w->own);
    free(w);
}

static inline int test_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    const struct test_steps *s = test_steps_of(st);
    const struct tachy_video_info in = *video;
    st->group = s->group ? s->group(st->task) : 1;
    st->item_bytes = s->item_bytes ? s->item_bytes(st->task) : 0;
    return s->start ? s->start(st->task, &in, video) : TACHY_OK;
}

static inline int test_start_composite(struct tachy_stage *st, struct tachy_video_info *video)
{
    const struct test_steps *s = test_steps_of(st);
    st->flags |= !s->keeps_input || s->keeps_input(st->task) ? TACHY_STAGE_READS : 0;
    return TACHY_OK;
}

static inline int test_open_model(struct tachy_stage *st, const tachy_settings *set)
{
    const struct test_steps *s = test_steps_of(st);
    st->flags |= s->recur ? TACHY_STAGE_ORDERED : TACHY_STAGE_BATCHES;
    st->batch_key = s->batch_key ? s->batch_key(st->task) : NULL;
    return TACHY_OK;
}

static inline int test_open_member(struct tachy_stage *st, const tachy_settings *set)
{
    const struct test_steps *s = test_steps_of(st);
    st->worker_of = TEST_MODEL;
    st->item_of = TEST_PREPROCESS;
    if (test_step_of(st) != TEST_STEP_COMPOSITE)
        st->flags |= s->recur ? TACHY_STAGE_ORDERED : 0;
    return test_step_of(st) == TEST_STEP_COMPOSITE && !s->composite ? TACHY_STAGE_LEFT_OUT : TACHY_OK;
}

static inline int test_open_order(struct tachy_stage *st, const tachy_settings *set)
{
    const struct test_steps *s = test_steps_of(st);
    void *state = NULL;
    if (s->order_open)
        s->order_open(st->task, &state);
    bool ordered = s->order && (state || !s->order_open);
    if (state)
        s->order_close(state);
    return ordered ? TACHY_OK : TACHY_STAGE_LEFT_OUT;
}

static inline void test_order(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n,
                              int err[])
{
    err[0] = test_steps_of(st)->order(state, pieces[0].item);
}

static inline int test_copy(struct tachy_stage *st, struct tachy_item *to, const struct tachy_item *from, int region)
{
    return test_steps_of(st)->copy(st->task, to, from, region);
}

static inline int test_state_open(struct tachy_stage *st, void **state)
{
    const struct test_steps *s = test_steps_of(st);
    return s->state_open ? s->state_open(st->task, state) : TACHY_OK;
}

static inline int test_order_state(struct tachy_stage *st, void **state)
{
    const struct test_steps *s = test_steps_of(st);
    return s->order_open ? s->order_open(st->task, state) : TACHY_OK;
}

static inline bool test_load(struct tachy_stage *st, void *worker, const struct tachy_item *item, struct tachy_stage_load *l)
{
    const struct test_steps *s = test_steps_of(st);
    const struct test_worker *w = worker;
    return s->load && s->load(st->task, w->own, test_step_of(st), item, l);
}

static inline int test_sync_item(struct tachy_stage *st, struct tachy_item *item)
{
    return test_steps_of(st)->sync(item);
}

static inline int test_queue(struct tachy_stage *st, void *worker, struct tachy_item *const items[], int n)
{
    const struct test_worker *w = worker;
    return w->steps->queue(w->own, test_step_of(st), items, n);
}

// The stages of these steps: one table for all tasks that have the same.
static inline const struct tachy_stage_ops *test_table(const struct test_steps *steps)
{
    enum { STAGES = 5, TABLES = 64 };
    static struct {
        struct test_steps steps;
        struct tachy_stage_ops ops[STAGES];
    } *tables[TABLES];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < TABLES && tables[i] && memcmp(&tables[i]->steps, steps, sizeof(*steps)))
        i++;
    bool known = i < TABLES && tables[i];
    if (!known && (i == TABLES || !(tables[i] = calloc(1, sizeof(*tables[i])))))
        abort();
    const struct tachy_stage_ops all[STAGES] = {
        {.name = "preprocess", .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_READS,
         .item_size = steps->item_size, .open = test_open_member, .start = test_start, .run = test_stage_run,
         .item_close = steps->item_close, .load = test_load, .queue = test_queue},
        {.name = "model", .flags = TACHY_STAGE_REGIONS | TACHY_STAGE_MODEL, .open = test_open_model,
         .worker_open = test_worker_open, .worker_close = test_worker_close, .run = test_stage_run,
         .state_open = test_state_open, .state_close = steps->state_close},
        {.name = "postprocess", .flags = TACHY_STAGE_REGIONS, .open = test_open_member,
         .run = test_stage_run, .copy = steps->copy ? test_copy : NULL},
        {.name = "order", .flags = TACHY_STAGE_ORDERED, .step = "postprocess", .open = test_open_order,
         .run = test_order, .state_open = test_order_state, .state_close = steps->order_close,
         .state_save = steps->order_save, .state_load = steps->order_load},
        {.name = "composite", .flags = TACHY_STAGE_WRITES, .open = test_open_member,
         .start = test_start_composite, .run = test_stage_run, .sync = steps->sync ? test_sync_item : NULL, .load = test_load,
         .queue = test_queue},
    };
    if (!known) {
        memcpy(&tables[i]->steps, steps, sizeof(*steps));
        memcpy(tables[i]->ops, all, sizeof(all));
    }
    pthread_mutex_unlock(&lock);
    return tables[i]->ops;
}

// A task of the steps with `size` bytes of private data, copied from `priv`.
static inline tachy_task *test_task(const struct test_steps *steps, const void *priv, size_t size)
{
    struct test_task *whole = calloc(1, sizeof(*whole) + size);
    if (!whole)
        abort();
    struct test_shared *shared = &whole->shared;
    tachy_task *t = &whole->task;
    shared->steps = *steps;
    if (size && priv)
        memcpy(shared->priv, priv, size);
    t->name = steps->name;
    t->eyes = 1;
    t->pinned = -1;
    const struct tachy_stage_ops *ops = test_table(steps);
    for (int i = 0; i < 5; i++)
        if (tachy_stage_add(t, &ops[i], NULL) < 0)
            abort();
    return t;
}

static inline void test_task_free(tachy_task *t) // NULL is allowed
{
    if (!t)
        return;
    tachy_stages_close(t);
    free(t);
}
