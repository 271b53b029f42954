#include "base/path.h"
#include "job/job.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

// The inputs of a job: a folder stands for the videos and pictures that lie in it, in the order of their names.

static int is_input(const struct dirent *e) { return tachy_job_takes(e->d_name); }

static int add(tachy_job *j, char *name)
{
    char **all = name ? realloc(j->inputs, ((size_t)j->nb_inputs + 1) * sizeof(*all)) : NULL;
    if (!all) {
        free(name);
        return TACHY_ERR_NOMEM;
    }
    j->inputs = all;
    j->inputs[j->nb_inputs++] = name;
    return TACHY_OK;
}

static int add_folder(tachy_job *j, const char *folder)
{
    struct dirent **entry = NULL;
    int n = scandir(tachy_path_local(folder), &entry, is_input, alphasort), err = TACHY_OK;
    if (n < 0)
        return tachy_fail(j->p.log, tachy_err_from_errno(errno), "%s: the folder cannot be read: %s", folder, strerror(errno));
    const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    for (int i = 0; i < n; i++) {
        if (err == TACHY_OK)
            err = add(j, tachy_asprintf("%s%s%s", folder, slash, entry[i]->d_name));
        free(entry[i]);
    }
    free(entry);
    return n ? err : tachy_fail(j->p.log, TACHY_ERR_NOT_FOUND, "%s: there is no video or picture in this folder", folder);
}

int job_list_inputs(tachy_job *j)
{
    const char *const *given;
    const char *sound = tachy_settings_str(j->set, "animation.audio");
    size_t n = tachy_settings_list(j->set, "input.files", &given);
    if (!n && sound)
        return add(j, strdup(sound));
    int err = n ? TACHY_OK : tachy_fail(j->p.log, TACHY_ERR_INVAL, "no input is given: tachy %s FILE", j->p.task);
    for (size_t i = 0; i < n && err == TACHY_OK; i++) {
        struct stat st;
        bool folder = given[i][0] && stat(tachy_path_local(given[i]), &st) == 0 && S_ISDIR(st.st_mode);
        err = folder ? add_folder(j, given[i]) : add(j, strdup(given[i]));
    }
    return err;
}
