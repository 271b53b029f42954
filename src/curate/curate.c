#include "curate/curate.h"
#include "curate/export.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/options.h"
#include "pipeline/pipeline.h"
#include "pipeline/run_options.h"
#include "task/batch_auto.h"
#include "task/task.h"

#include <stdlib.h>
#include <tachy/gpu.h>

// One run: opens what it needs, starts the threads, writes, and counts.

// --device auto: the GPU if the kernels run there and every task takes it.
static int choose_device(struct curate *c)
{
    char why[400] = "";
    const char *asked = tachy_settings_str(c->set, "gpu.device");
    if (!asked || strcmp(asked, "auto") != 0)
        return TACHY_OK;
    bool there = tachy_gpu_runs(c->set, why, sizeof(why)), cuda = there;
    const char *const *given;
    size_t n = tachy_settings_list(c->set, "curate.tasks", &given);
    for (int i = 0; tachy_tasks[i]; i++)
        for (size_t k = 0; k < n && tachy_tasks[i]->host; k++)
            if (strstr(given[k], tachy_tasks[i]->info.name)) {
                snprintf(why, sizeof(why), "%s runs on the CPU only", tachy_tasks[i]->info.name);
                cuda = false;
            }
    tachy_msg(c->log, there ? TACHY_LOG_INFO : TACHY_LOG_VERBOSE, "--device auto: the %s, because %s%s", cuda ? "GPU" : "CPU", cuda ? "the kernels run on " : "", why);
    return tachy_settings_set(c->set, "gpu.device", cuda ? "cuda" : "cpu", "auto");
}

static int read_shard(struct curate *c)
{
    const char *text = tachy_settings_str(c->set, "curate.shard");
    char rest;
    if (!text)
        return TACHY_OK;
    if (sscanf(text, "%6d/%6d%c", &c->shard, &c->shards, &rest) != 2 || c->shard < 1 || c->shard > c->shards)
        return tachy_fail(c->log, TACHY_ERR_INVAL, "--shard %.40s: is no K/N with K from 1 to N, as in 3/16", text);
    c->shard--;
    return TACHY_OK;
}

// --batch auto: what pays for the task that it pays most for.
static int choose_batch(struct curate *c, struct tachy_run_params *p)
{
    int err = TACHY_OK;
    for (int i = 0; i < c->nb_tasks && err == TACHY_OK && tachy_batch_is_auto(c->set); i++) {
        int batch;
        err = tachy_batch_of_task(c->task[i].name, c->task[i].set, &batch, c->log);
        p->batch = TACHY_MAX(p->batch, batch);
    }
    return err;
}

static int open_pipeline(struct curate *c)
{
    struct tachy_run_params p = {0};
    tachy_run_read_settings(&p, c->set);
    int err = choose_batch(c, &p);
    if (err < 0)
        return err;
    int workers = TACHY_DEF(p.workers, tachy_cpu_count());
    c->nb_room = 2 * workers * TACHY_MAX(p.batch, 1) + 16;
    err = tachy_pipeline_open(&c->pipeline, tachy_pipeline_params(.workers = p.workers, .max_bytes = p.max_bytes, .batch = p.batch,
                                                                  .batch_timeout_us = p.batch_timeout_us, .log = c->log));
    if (err < 0)
        return err;
    c->reads = tachy_prof_new(c->pipeline->steps);
    c->writes = tachy_prof_new(c->pipeline->steps);
    return c->reads && c->writes ? TACHY_OK : TACHY_ERR_NOMEM;
}

void curate_count(const struct curate *c, struct tachy_prof *prof, const char *row, int64_t frame, uint64_t start)
{
    int step = tachy_rows_add(c->pipeline->steps, row, 0, NULL);
    tachy_prof_add(prof, step, (struct tachy_prof_item){.frame = frame}, start, tachy_ticks(), 0);
}

int curate_steps(const struct curate *c, struct tachy_step_stats steps[TACHY_MAX_STEPS])
{
    struct tachy_prof *all = tachy_prof_new(c->pipeline->steps);
    if (!all)
        return 0;
    pipeline_merge(c->pipeline, all);
    tachy_prof_merge(all, c->reads);
    tachy_prof_merge(all, c->writes);
    int n = tachy_prof_read(all, steps);
    tachy_aligned_free(all);
    return n;
}

static int open_all(struct curate *c)
{
    pthread_mutex_init(&c->room_lock, NULL);
    pthread_cond_init(&c->room_cond, NULL);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(c->queue); i++) {
        pthread_mutex_init(&c->queue[i].lock, NULL);
        tachy_cond_init(&c->queue[i].cond);
        c->queue[i].last = &c->queue[i].first;
    }
    int err = tachy_settings_copy(&c->set, c->p.settings, c->log);
    if (err == TACHY_OK)
        err = choose_device(c);
    if (err == TACHY_OK)
        err = curate_tasks_open(c);
    if (err == TACHY_OK)
        err = read_shard(c);
    if (err == TACHY_OK)
        err = curate_export_check(c->set, &c->pictures, c->log);
    if (err == TACHY_OK)
        err = curate_inputs_list(c);
    if (err == TACHY_OK)
        err = curate_ledger_open(c);
    if (err == TACHY_OK)
        err = curate_notes_check(c);
    if (err == TACHY_OK)
        err = curate_look_open(c);
    if (err == TACHY_OK)
        err = curate_streams_open(c);
    return err == TACHY_OK ? open_pipeline(c) : err;
}

static void close_all(struct curate *c)
{
    curate_streams_close(c);
    tachy_aligned_free(c->reads);
    tachy_aligned_free(c->writes);
    tachy_pipeline_close(&c->pipeline);
    curate_look_close(c);
    curate_ledger_close(c);
    curate_inputs_free(c);
    tachy_index_free(&c->seen);
    curate_tasks_close(c);
    tachy_settings_free(&c->set);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(c->queue); i++) {
        pthread_mutex_destroy(&c->queue[i].lock);
        pthread_cond_destroy(&c->queue[i].cond);
    }
    pthread_mutex_destroy(&c->room_lock);
    pthread_cond_destroy(&c->room_cond);
}

// Works on the files that are to be done.
static int run_once(struct curate *c)
{
    struct curate_level level[CURATE_TASKS_MAX + 1];
    pthread_t reader, thread[CURATE_TASKS_MAX + 1];
    const struct curate_load load = curate_load(c);
    int n = 0, err = TACHY_OK;
    while (n < c->nb_levels && err == TACHY_OK) {
        level[n] = (struct curate_level){c, n};
        err = pthread_create(&thread[n], NULL, curate_level_run, &level[n]) ? TACHY_ERR_AGAIN : TACHY_OK;
        n += err == TACHY_OK;
    }
    bool reads = err == TACHY_OK && !pthread_create(&reader, NULL, curate_read, c);
    if (reads) {
        err = curate_write(c, &load);
        pthread_join(reader, NULL);
    } else {
        err = tachy_fail(c->log, TACHY_ERR_AGAIN, "curate: a thread cannot be started; is there a limit on processes?");
        for (int i = 0; i < n; i++) // each takes one end, and is given no next level
            curate_queue_put(&c->queue[i], curate_record_new(c, NULL));
    }
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    return err < 0 ? err : c->read_err;
}

// Files that were in work when a task failed on a frame of another one are tried again, once.
static int try_again(struct curate *c)
{
    int n = 0;
    for (int i = 0; i < c->nb_files; i++)
        if (c->file[i].state == CURATE_RETRY) {
            c->file[i].state = CURATE_TODO;
            n++;
        }
    int err = n && !curate_stopped(c) ? run_once(c) : TACHY_OK;
    for (int i = 0; i < c->nb_files; i++)
        if (c->file[i].state == CURATE_RETRY)
            c->file[i].state = CURATE_FAILED;
    return err;
}

static int count(struct curate *c)
{
    struct tachy_curate_summary *s = &c->sum;
    s->files = c->nb_files;
    for (int i = 0; i < c->nb_files; i++) {
        enum curate_state state = c->file[i].state;
        s->done += state == CURATE_DONE;
        s->before += state == CURATE_BEFORE;
        s->same += state == CURATE_SAME;
        s->failed += state == CURATE_FAILED;
        s->left += state == CURATE_TODO;
        s->other += state == CURATE_OTHER;
    }
    curate_ledger_count(c, &s->frames, &s->kept);
    s->nb_steps = curate_steps(c, s->steps);
    s->seconds = (double)(tachy_now_ns() - c->began) / 1e9;
    return curate_look_count(c);
}

static int run(struct curate *c)
{
    c->began = tachy_now_ns();
    int err = run_once(c);
    if (err == TACHY_OK)
        err = try_again(c);
    if (err == TACHY_OK)
        err = curate_ledger_failed(c);
    if (err == TACHY_OK && !curate_stopped(c))
        err = curate_notes_finish(c);
    if (err == TACHY_OK && !curate_stopped(c))
        err = curate_export(c);
    int counted = count(c);
    err = err < 0 ? err : counted;
    if (err == TACHY_OK && !c->sum.left && c->sum.done)
        curate_values_check(c);
    if (err < 0)
        return err;
    if (curate_stopped(c))
        return tachy_fail(c->log, TACHY_ERR_INTERRUPTED, "interrupted; %d of %d inputs are left, and the same command goes on", c->sum.left,
                          c->sum.files);
    if (c->sum.failed)
        return tachy_fail(c->log, TACHY_ERR_AGAIN, "%d of %d inputs failed; failed.jsonl in the folder of the results lists them, and the "
                          "same command tries them again", c->sum.failed, c->sum.files);
    return TACHY_OK;
}

int tachy_curate_sized(size_t p_size, size_t s_size, const struct tachy_curate_params *p, struct tachy_curate_summary *s)
{
    struct tachy_curate_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), p && p->settings && s))
        return TACHY_ERR_INVAL;
    struct curate *c = calloc(1, sizeof(*c));
    if (!c)
        return TACHY_ERR_NOMEM;
    c->p = *p;
    c->log = p->log;
    int err = open_all(c);
    if (err == TACHY_OK)
        err = run(c);
    tachy_sized_out(s, s_size, &c->sum, sizeof(c->sum));
    close_all(c);
    free(c);
    return err;
}
