#include "task/batch_auto.h"

#include "base/base.h"
#include "stage/infer.h"
#include "task/task.h"

#include <stdio.h>
#include <unistd.h>

bool tachy_batch_is_auto(const tachy_settings *s) { return tachy_settings_int(s, "model.batch_size") == 0; }

// ---- The search

enum { TRIALS_MAX = 32 };

struct tried {
    int batch;
    double ms;
};

static double quickest(const struct tried t[], int n)
{
    double ms = t[0].ms;
    for (int i = 1; i < n; i++)
        ms = TACHY_MIN(ms, t[i].ms);
    return ms;
}

int tachy_batch_find(int most, tachy_batch_trial *trial, void *user, int *best)
{
    struct tried t[TRIALS_MAX];
    int n = 0, fits = 0, fails = 0, err = TACHY_OK;
    *best = 1;
    for (int batch = 1; batch <= most && !fails && n < TRIALS_MAX; batch *= 2) {
        t[n].batch = batch;
        err = trial(user, batch, &t[n].ms);
        if (err < 0)
            fails = batch;
        else if (fits = batch, ++n && t[n - 1].ms > 1.25 * quickest(t, n))
            break;
    }
    if (!n || (err < 0 && err != TACHY_ERR_NOMEM && err != TACHY_ERR_MISMATCH))
        return err;
    while (fails - fits > TACHY_MAX(fits / 8, 1) && n < TRIALS_MAX) {
        t[n].batch = fits + (fails - fits) / 2;
        err = trial(user, t[n].batch, &t[n].ms);
        if (err < 0)
            fails = t[n].batch;
        else
            fits = t[n++].batch;
    }
    double ms = quickest(t, n);
    *best = t[0].batch;
    for (int i = 0, found = 0; i < n; i++)
        if (t[i].ms <= 1.03 * ms && (!found || t[i].batch < *best)) {
            *best = t[i].batch;
            found = 1;
        }
    return TACHY_OK;
}

// ---- A task's network

struct network {
    struct tachy_infer *infer;
    int64_t budget; // bytes
    const struct tachy_log *log;
};

// Bytes; 0: the system does not say.
static int64_t available_memory(void)
{
    char line[256];
    long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof(line), f) && sscanf(line, "MemAvailable: %lld", &kib) != 1)
        ;
    if (f)
        fclose(f);
    return (int64_t)kib << 10;
}

static int try_network(void *user, int batch, double *ms)
{
    struct network *n = user;
    int64_t grown;
    int err = tachy_infer_try(n->infer, batch, ms, &grown);
    if (err == TACHY_OK && batch > 1 && n->budget && grown > n->budget)
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        tachy_msg(n->log, TACHY_LOG_VERBOSE, "--batch auto: %d pictures in a run take %.3f ms each", batch, *ms);
    else
        tachy_msg(n->log, TACHY_LOG_VERBOSE, "--batch auto: %d pictures in a run do not fit: %s", batch, tachy_err_text(err));
    return err;
}

int tachy_batch_of_task(const char *name, const tachy_settings *s, int *best, const struct tachy_log *log)
{
    tachy_task *t = NULL;
    struct network n = {.log = log};
    struct tachy_log errors = log ? *log : (struct tachy_log){0};
    errors.max_level = TACHY_LOG_ERR; // the task that runs afterwards says the rest
    *best = 1;
    int err = tachy_task_make(&t, name, TACHY_TASK_RUNS, s, &errors);
    for (int i = 0; err == TACHY_OK && i < t->nb_stages; i++)
        if (!strcmp(t->stage[i]->ops->name, "preprocess"))
            n.infer = tachy_stage_priv(t->stage[i]);
    n.budget = tachy_settings_int(s, "processing.max_memory") << 20;
    if (!n.budget)
        n.budget = available_memory() / 2;
    if (err == TACHY_OK && n.infer && tachy_infer_batches(n.infer)) {
        err = tachy_batch_find(256, try_network, &n, best);
        if (err == TACHY_OK)
            tachy_msg(log, TACHY_LOG_INFO, "--batch auto: %s runs %d picture%s at once", name, *best, *best == 1 ? "" : "s");
    }
    tachy_task_close(&t);
    return err;
}
