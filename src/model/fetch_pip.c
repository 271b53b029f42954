#include "base/code_dir.h"
#include "model/fetch_wheel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <tachy/model.h>
#include <unistd.h>

extern char **environ;

// Runs a program without a shell; its output goes to `output`. Returns its exit status, or -1 if it could not be
// started or was killed.
static int run_program(const char *const argv[], const char *output)
{
    posix_spawn_file_actions_t io;
    pid_t child;
    if (posix_spawn_file_actions_init(&io))
        return -1;
    int err = posix_spawn_file_actions_addopen(&io, 0, "/dev/null", O_RDONLY, 0);
    if (!err)
        err = posix_spawn_file_actions_addopen(&io, 1, output, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (!err)
        err = posix_spawn_file_actions_adddup2(&io, 1, 2);
    if (!err)
        err = posix_spawnp(&child, argv[0], &io, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&io);
    if (err)
        return -1;
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool has_pip(const char *python)
{
    const char *const argv[] = {python, "-m", "pip", "--version", NULL};
    return run_program(argv, "/dev/null") == 0;
}

// A Python with pip: $TACHY_PYTHON, the one that tools/setup made, python3. NULL: none. Free
// with tachy_free().
static char *find_python(void)
{
    const char *asked = getenv("TACHY_PYTHON");
    if (asked && *asked)
        return has_pip(asked) ? tachy_asprintf("%s", asked) : NULL;
    char *deps = tachy_deps_dir();
    char *venv = deps ? tachy_asprintf("%s/venv/bin/python3", deps) : NULL;
    free(deps);
    if (venv && has_pip(venv))
        return venv;
    free(venv);
    return has_pip("python3") ? tachy_asprintf("python3") : NULL;
}

// The platform tags in a wheel's name: ...-cp311-cp311-manylinux_2_28_x86_64.whl. A wheel serves only as an archive
// here, so any machine and Python may request it.
struct tags {
    char python[16];    // "3.11"; "": any
    char platform[128]; // "manylinux_2_28_x86_64", the first of several; "": any
};

static struct tags read_tags(const char *file)
{
    struct tags t = {0};
    const char *dash[3] = {NULL, NULL, NULL}; // the last three, last first
    for (const char *p = file + strlen(file); p > file && !dash[2]; p--)
        if (p[-1] == '-')
            dash[!dash[0] ? 0 : !dash[1] ? 1 : 2] = p;
    if (!dash[2])
        return t;
    if (!strncmp(dash[2], "cp", 2) && dash[2][2] >= '0' && dash[2][2] <= '9')
        snprintf(t.python, sizeof(t.python), "%c.%.*s", dash[2][2],
                 (int)TACHY_MIN(strspn(dash[2] + 3, "0123456789"), (size_t)3), dash[2] + 3);
    if (strncmp(dash[0], "any.", 4))
        snprintf(t.platform, sizeof(t.platform), "%.*s", (int)strcspn(dash[0], "."), dash[0]);
    return t;
}

static int run_pip(const char *python, const struct card_source *s, const char *folder,
                   const char *output)
{
    struct tags t = read_tags(s->wheel);
    char *want = tachy_asprintf("%s==%s", s->package, s->version);
    const char *argv[24] = {python, "-m", "pip", "download", "--disable-pip-version-check",
                            "--no-input", "-q", "--no-deps", "--only-binary=:all:", "-d", folder};
    size_t n = 11;
    if (t.python[0]) {
        argv[n++] = "--python-version";
        argv[n++] = t.python;
    }
    if (t.platform[0]) {
        argv[n++] = "--platform";
        argv[n++] = t.platform;
    }
    argv[n] = want;
    int status = want ? run_program(argv, output) : -1;
    free(want);
    return status;
}

// Removes a folder and the files in it.
static void remove_folder(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char *path = tachy_asprintf("%s/%s", folder, e->d_name);
        if (path && strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            unlink(path);
        free(path);
    }
    if (d)
        closedir(d);
    rmdir(folder);
}

// The last line of pip's output that is not blank, cut to what a message holds.
static void last_line(const char *path, char line[256])
{
    char buf[256];
    snprintf(line, 256, "it said nothing");
    FILE *f = fopen(path, "re");
    while (f && fgets(buf, sizeof(buf), f)) {
        buf[strcspn(buf, "\n")] = '\0';
        if (buf[strspn(buf, " \t")])
            memcpy(line, buf, sizeof(buf));
    }
    if (f)
        fclose(f);
}

// Downloads into `temp`, checks, and moves the wheel into `folder`.
static int download(const char *python, const struct card_source *s, const char *temp,
                    const char *folder, const struct tachy_log *log)
{
    char *output = tachy_asprintf("%s/pip.log", temp), *got = tachy_asprintf("%s/%s", temp, s->wheel);
    char *final = tachy_asprintf("%s/%s", folder, s->wheel), said[256], hex[65];
    int err = output && got && final ? TACHY_OK : TACHY_ERR_NOMEM;
    if (!err && run_pip(python, s, temp, output) != 0) {
        last_line(output, said);
        err = tachy_fail(log, TACHY_ERR_IO, "%s==%s: `%s -m pip download` failed: %s", s->package,
                         s->version, python, said);
    }
    if (!err && access(got, F_OK) < 0)
        err = tachy_fail(log, TACHY_ERR_NOT_FOUND, "%s==%s: the registry offered another wheel than %s",
                         s->package, s->version, s->wheel);
    if (!err)
        err = tachy_sha256_file(got, hex, log);
    if (!err)
        err = part_expect(s->wheel, hex, s->wheel_sha256, log);
    if (!err && rename(got, final) < 0)
        err = tachy_fail(log, tachy_err_from_errno(errno), "%s: cannot be written: %s", final,
                         strerror(errno));
    free(output);
    free(got);
    free(final);
    return err;
}

int fetch_pip(const struct card_source *s, const char *folder, const struct tachy_log *log)
{
    char *python = find_python();
    if (!python)
        return tachy_fail(log, TACHY_ERR_UNAVAILABLE,
                          "%s: getting it needs Python 3 with pip: install python3-pip, set "
                          "TACHY_PYTHON to one, or put the file into %s",
                          s->wheel, folder);
    tachy_msg(log, TACHY_LOG_INFO, "fetching %s with %s", s->wheel, python);
    int err = tachy_make_folders(folder, log);
    char *temp = tachy_asprintf("%s/.pull-XXXXXX", folder);
    if (!err && (!temp || !mkdtemp(temp)))
        err = tachy_fail(log, TACHY_ERR_IO, "%s: no temporary folder can be made in it: %s", folder,
                         strerror(errno));
    if (!err) {
        err = download(python, s, temp, folder, log);
        remove_folder(temp);
    }
    free(temp);
    free(python);
    return err;
}
