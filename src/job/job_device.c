#include "job/job.h"

#include "task/task.h"

#include <stdio.h>
#include <tachy/gpu.h>

// --device auto: the GPU if there is one that the kernels run on and that does all that the settings ask for, else the CPU.

enum { WHY = 400 };

static void keep(void *user, enum tachy_log_level level, const char *text)
{
    if (level == TACHY_LOG_ERR)
        snprintf(user, WHY, "%s", text);
}

// True if the task accepts the settings with its frames on a GPU; sets gpu.device.
static bool task_takes(tachy_job *j, char *why)
{
    const struct tachy_log quiet = {keep, why, TACHY_LOG_ERR};
    return tachy_settings_set(j->set, "gpu.device", "cuda", "auto") == TACHY_OK &&
           tachy_task_check(j->ops, j->set, &quiet) == TACHY_OK;
}

int job_choose_device(tachy_job *j)
{
    char why[WHY] = "--sandbox works there";
    const char *asked = tachy_settings_str(j->set, "gpu.device");
    if (!asked || strcmp(asked, "auto") != 0)
        return TACHY_OK;
    bool there = !tachy_settings_bool(j->set, "run.sandbox") && tachy_gpu_runs(j->set, why, sizeof(why)), cuda = there && task_takes(j, why);
    if (cuda)
        tachy_msg(j->p.log, TACHY_LOG_INFO, "--device auto: the GPU, because the kernels run on %s", why);
    else // without a GPU there was no choice
        tachy_msg(j->p.log, there ? TACHY_LOG_INFO : TACHY_LOG_VERBOSE, "--device auto: the CPU, because: %s", why);
    return cuda ? TACHY_OK : tachy_settings_set(j->set, "gpu.device", "cpu", "auto");
}
