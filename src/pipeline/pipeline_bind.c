#include "pipeline/pipeline.h"

#include <stdlib.h>

static bool same_rational(struct tachy_rational a, struct tachy_rational b)
{
    return (int64_t)a.num * b.den == (int64_t)b.num * a.den;
}

// Compares what a task's start() may look at: frames of both go through the same steps.
static bool same_input(const struct tachy_video_info *a, const struct tachy_video_info *b)
{
    return a->format == b->format && a->width == b->width && a->height == b->height &&
           same_rational(a->time_base, b->time_base) && same_rational(a->sar, b->sar) &&
           !memcmp(&a->color, &b->color, sizeof(a->color)) && a->rotation == b->rotation &&
           a->flipped == b->flipped && a->stereo == b->stereo && a->still == b->still &&
           a->transparent == b->transparent;
}

static void close_bind(struct tachy_pipeline *p, struct pipeline_bind *b)
{
    pipeline_batch_put(p, b->batcher);
    for (int i = 0; i < b->task->nb_stages; i++)
        b->task->stage[i]->batched = false;
    for (int i = 0; b->worker && i < b->nb_workers; i++)
        tachy_task_worker_close(b->task, b->worker[i].of);
    tachy_task_worker_close(b->task, b->spare.of);
    b->task->memory = NULL;
    b->task->profile = NULL;
    free(b->worker);
    pthread_mutex_destroy(&b->open);
    free(b);
}

static int open_bind(struct pipeline_bind **out, struct tachy_pipeline *p, tachy_task *task,
                     const struct tachy_video_info *input)
{
    struct pipeline_bind *b = calloc(1, sizeof(*b));
    *out = NULL;
    if (!b)
        return TACHY_ERR_NOMEM;
    b->task = task;
    b->input = *input;
    b->nb_workers = p->nb_workers;
    pthread_mutex_init(&b->open, NULL);
    b->worker = calloc((size_t)p->nb_workers, sizeof(*b->worker));
    task->memory = p->memory;
    task->profile = p->profile;
    int err = b->worker ? tachy_stages_start(task, input, &b->output) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK) {
        tachy_task_count(task, p->steps);
        err = pipeline_batch_get(p, task, &b->batcher);
    }
    if (err == TACHY_OK)
        err = tachy_task_worker_open(task, b->spare.of);
    b->spare.open = err == TACHY_OK;
    if (err < 0) {
        close_bind(p, b);
        return err;
    }
    *out = b;
    return TACHY_OK;
}

int pipeline_bind_get(struct tachy_pipeline *p, tachy_task *task,
                      const struct tachy_video_info *input, struct pipeline_bind **out)
{
    struct pipeline_bind *b = p->binds;
    while (b && b->task != task)
        b = b->next;
    *out = NULL;
    if (b && !same_input(&b->input, input))
        return tachy_fail(p->log, TACHY_ERR_STATE,
                          "pipeline: the task serves streams of %s %dx%d already; open a task of its "
                          "own for a stream of %s %dx%d",
                          tachy_pix_desc(b->input.format)->name, b->input.width, b->input.height,
                          tachy_pix_desc(input->format)->name, input->width, input->height);
    if (!b) {
        int err = open_bind(&b, p, task, input);
        if (err < 0)
            return err;
        b->next = p->binds;
        p->binds = b;
    }
    b->streams++;
    *out = b;
    return TACHY_OK;
}

void pipeline_bind_put(struct tachy_pipeline *p, struct pipeline_bind *b)
{
    if (!b || --b->streams)
        return;
    struct pipeline_bind **link = &p->binds;
    while (*link != b)
        link = &(*link)->next;
    *link = b->next;
    close_bind(p, b);
}

int pipeline_bind_worker(struct pipeline_bind *b, int index, void *const **worker)
{
    struct pipeline_objects *o = &b->worker[index];
    int err = TACHY_OK;
    if (!o->open) {
        pthread_mutex_lock(&b->open);
        if (b->spare.open) {
            *o = b->spare;
            b->spare = (struct pipeline_objects){0};
        } else {
            err = tachy_task_worker_open(b->task, o->of);
        }
        o->open = err == TACHY_OK;
        pthread_mutex_unlock(&b->open);
    }
    *worker = o->of;
    return err;
}
