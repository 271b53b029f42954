#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
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
    size_t n = strlen(text);
    const char *end = n && text[n - 1] == '\n' ? "" : "\n";
    if (!strcmp(path, "-"))
        return printf("%s%s", text, end) < 0 || fflush(stdout) ? write_failed("standard output")
                                                               : TACHY_OK;
    FILE *f = fopen(path, "w");
    if (!f)
        return write_failed(path);
    bool good = fprintf(f, "%s%s", text, end) >= 0;
    if (fclose(f) != 0 || !good)
        return write_failed(path);
    return TACHY_OK;
}
