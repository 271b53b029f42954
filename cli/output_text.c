#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static int write_error(const char *name)
{
    int saved = errno;
    message_error("%s: cannot be written: %s", name, strerror(saved));
    return saved == ENOSPC ? TACHY_ERR_NO_SPACE : TACHY_ERR_IO;
}

int check_writable(const char *path)
{
    char folder[PATH_MAX];
    if (access(path, F_OK) == 0)
        return access(path, W_OK) == 0 ? TACHY_OK : write_error(path);
    snprintf(folder, sizeof(folder), "%s", path);
    char *slash = strrchr(folder, '/');
    snprintf(slash ? slash + 1 : folder, 2, ".");
    return access(folder, W_OK | X_OK) == 0 ? TACHY_OK : write_error(path);
}

int write_text(const char *path, const char *text)
{
    size_t n = strlen(text);
    const char *end = n && text[n - 1] == '\n' ? "" : "\n";
    if (!strcmp(path, "-"))
        return printf("%s%s", text, end) < 0 || fflush(stdout) ? write_error("standard output")
                                                               : TACHY_OK;
    FILE *f = fopen(path, "w");
    if (!f)
        return write_error(path);
    bool good = fprintf(f, "%s%s", text, end) >= 0;
    if (fclose(f) != 0 || !good)
        return write_error(path);
    return TACHY_OK;
}
