#include "cuda/gpu_options.h"
#include "curate/curate_options.h"
#include "job/job.h"
#include "pipeline/run_options.h"
#include "sink/sink_options.h"
#include "source/source_options.h"
#include "task/task.h"

#include <pthread.h>
#include <stdio.h>

// The rows of all parts as the one table of <tachy/settings.h>. It is joined once and constant from then on.

static struct tachy_option joined[TACHY_OPTIONS_MAX + 1];
static size_t nb_joined;
static pthread_once_t once = PTHREAD_ONCE_INIT;

// Keeps groups together: a row goes after the last one of its group.
static void add_row(const struct tachy_option *row, uint64_t verbs)
{
    int known = tachy_option_index(joined, row->path);
    if (known >= 0) { // two tasks share a stage
        joined[known].verbs |= verbs;
        return;
    }
    if (nb_joined == TACHY_OPTIONS_MAX) // a unit test looks at the size
        return;
    size_t at = nb_joined;
    while (at && strcmp(joined[at - 1].group, row->group))
        at--;
    at = at ? at : nb_joined;
    memmove(&joined[at + 1], &joined[at], (nb_joined++ - at) * sizeof(*joined));
    joined[at] = *row;
    joined[at].verbs |= verbs;
}

static void add(const struct tachy_option *rows, uint64_t verbs)
{
    for (; rows && rows->path; rows++)
        add_row(rows, verbs);
}

// Rows that every task of `tachy curate` has, below its name.
static void add_task_rows(size_t task)
{
    static char paths[16][4][40];
    for (size_t i = 0; tachy_curate_task_options[i].path && task < TACHY_ARRAY_SIZE(paths); i++) {
        struct tachy_option row = tachy_curate_task_options[i];
        snprintf(paths[task][i], sizeof(paths[0][0]), "%s.%s", tachy_tasks[task]->info.name, row.path);
        row.path = paths[task][i];
        add_row(&row, row.verbs);
    }
}

static void join(void)
{
    add(tachy_job_options, 0);
    add(tachy_source_options, 0);
    add(tachy_sink_options, 0);
    for (size_t i = 0; tachy_tasks[i]; i++)
        add(tachy_tasks[i]->options, TACHY_VERB_TASK(i));
    for (size_t i = 0; tachy_tasks[i]; i++)
        add(tachy_tasks[i]->shared, TACHY_VERB_TASK(i));
    for (size_t i = 0; tachy_tasks[i]; i++)
        for (const struct tachy_task_stage *s = tachy_tasks[i]->stages; s->cpu || s->cuda; s++)
            add((s->cpu ? s->cpu : s->cuda)->options, TACHY_VERB_TASK(i));
    add(tachy_curate_options, 0);
    for (size_t i = 0; tachy_tasks[i]; i++)
        add_task_rows(i);
    add(tachy_gpu_options, 0);
    add(tachy_run_options, 0);
    add(tachy_job_run_options, 0);
    add(tachy_command_options, 0);
    add(tachy_save_options, 0);
    add(tachy_planned_options, 0);
}

const struct tachy_option *tachy_options(void)
{
    pthread_once(&once, join);
    return joined;
}

const struct tachy_option *tachy_option_find(const char *name, const char **nearest)
{
    return tachy_option_find_in(tachy_options(), name, nearest);
}

const struct tachy_option *tachy_option_lookup(const char *name, const char **nearest)
{
    return tachy_option_lookup_in(tachy_options(), name, nearest);
}

int tachy_settings_new(tachy_settings **out, const struct tachy_log *log)
{
    TACHY_CLEAR(out);
    return TACHY_CHECK(log, out) ? tachy_settings_new_of(out, tachy_options(), log) : TACHY_ERR_INVAL;
}
