#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int write_failed(const char *name)
{
    int e = errno;
    message_error("%s: cannot be written: %s", name, strerror(e));
    return e == ENOSPC || e == EDQUOT || e == EFBIG ? TACHY_ERR_NO_SPACE : TACHY_ERR_IO;
}

int check_writable(const char *path)
{
    char folder[PATH_MAX];
    if (access(path, F_OK) == 0)
        return access(path, W_OK) == 0 ? TACHY_OK : write_failed(path);
    snprintf(folder, sizeof(folder), "%s", path);
    char *slash = strrchr(folder, '/');
    snprintf(slash ? slash + 1 : folder, 2, ".");
    return access(folder, W_OK | X_OK) == 0 ? TACHY_OK : write_failed(path);
}

int write_text(const char *path, const char *text)
{
    struct stat st;
    size_t n = strlen(text);
    const char *end = n && text[n - 1] == '\n' ? "" : "\n";
    if (!strcmp(path, "-"))
        return printf("%s%s", text, end) < 0 || fflush(stdout) ? write_failed("standard output")
                                                               : TACHY_OK;
    FILE *f = fopen(path, "w");
    if (!f)
        return write_failed(path);
    bool good = fprintf(f, "%s%s", text, end) >= 0;
    if (fclose(f) == 0 && good)
        return TACHY_OK;
    int err = write_failed(path);
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        unlink(path); // half of a text is none
    return err;
}

json_t *environment_json(void)
{
    char *text = NULL;
    json_t *o = tachy_report_environment(&text) == TACHY_OK ? json_loads(text, 0, NULL) : NULL;
    tachy_free(text);
    return o ? o : json_object();
}

int cache_folder(const char *name, char *buf, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool own = cache && *cache == '/';
    if (!own && !(home && *home)) {
        message_error("what is stored is in $XDG_CACHE_HOME or $HOME, and neither is set");
        return TACHY_ERR_NOT_FOUND;
    }
    int n = snprintf(buf, size, "%s%s/tachy/%s", own ? cache : home, own ? "" : "/.cache", name);
    return n > 0 && (size_t)n < size ? TACHY_OK : TACHY_ERR_LIMIT;
}

int make_folders(const char *path)
{
    char part[4096];
    for (const char *s = path + 1; s; s = strchr(s + 1, '/')) {
        snprintf(part, sizeof(part), "%.*s", (int)(s - path), path);
        if (*s == '/' && mkdir(part, 0777) < 0 && errno != EEXIST)
            return write_failed(part);
    }
    return mkdir(path, 0777) < 0 && errno != EEXIST ? write_failed(path) : TACHY_OK;
}
