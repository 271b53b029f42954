#include "base/path.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

int tachy_open_regular(FILE **out, const char *path, uint64_t *size, const struct tachy_log *log)
{
    struct stat st;
    *out = NULL;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return tachy_fail(log, tachy_err_from_errno(errno), "%s: cannot be opened: %s", path, strerror(errno));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return tachy_fail(log, TACHY_ERR_IO, "%s: is not a regular file", path);
    }
    *size = (uint64_t)st.st_size;
    *out = fdopen(fd, "rb");
    if (*out)
        return TACHY_OK;
    close(fd);
    return tachy_fail(log, TACHY_ERR_NOMEM, "%s: no memory to read it", path);
}

bool tachy_path_outside(const char *path, const char *file)
{
    char *folder = strdup(file), *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash)
        slash[1] = '\0';
    char *root = folder ? realpath(slash ? folder : ".", NULL) : NULL, *real = realpath(path, NULL);
    size_t n = root ? strlen(root) : 0;
    bool below = real && n && !strncmp(real, root, n) && (n == 1 || real[n] == '/');
    bool there = real || access(path, F_OK) == 0;
    free(folder);
    free(root);
    free(real);
    return there && !below;
}

bool tachy_path_ends(const char *name, const char *tail)
{
    size_t n = name ? strlen(name) : 0, m = strlen(tail);
    return n >= m && !strcasecmp(name + n - m, tail);
}

bool tachy_path_is_address(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789+");
    return n > 1 && !strncmp(name + n, "://", 3);
}

bool tachy_path_says(const char *name, const char *word)
{
    size_t n = strlen(word);
    return !strncmp(name, word, n) && (!name[n] || name[n] == ':');
}

bool tachy_path_is_shown(const char *name) { return tachy_path_says(name, "window") || tachy_path_says(name, "pipewire") || tachy_path_says(name, "ndi"); }

bool tachy_path_is_video_device(const char *name)
{
    static const char prefix[] = "/dev/video";
    const char *number = name + sizeof(prefix) - 1;
    return !strncmp(name, prefix, sizeof(prefix) - 1) && *number && strspn(number, "0123456789") == strlen(number);
}

const char *tachy_path_local(const char *url) { return strncmp(url, "file:", 5) ? url : url + 5; }

const char *tachy_path_number(const char *name, const char **end, int *digits)
{
    for (const char *p = strchr(name, '%'); p; p = strchr(p + 1, '%')) {
        size_t n = strspn(p + 1, "0123456789");
        long least = strtol(n ? p + 1 : "0", NULL, 10);
        if (p[n + 1] == 'd' && least <= 20) {
            *digits = (int)least;
            *end = p + n + 2;
            return p;
        }
    }
    return NULL;
}

bool tachy_path_extension_in(const char *extension, const char *words)
{
    size_t n = strlen(extension);
    for (const char *w = words; *w; w += strcspn(w, "|"), w += *w == '|')
        if (strcspn(w, "|") == n && !strncasecmp(w, extension, n))
            return true;
    return false;
}

bool tachy_path_is_picture(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && tachy_path_extension_in(dot + 1, TACHY_PICTURES_IN);
}

enum tachy_text_format tachy_text_format(const char *file, const char *format)
{
    if (format)
        return !strcmp(format, "json") ? TACHY_TEXT_JSON : !strcmp(format, "csv") ? TACHY_TEXT_CSV : TACHY_TEXT_NONE;
    if (tachy_path_ends(file, ".csv"))
        return TACHY_TEXT_CSV;
    bool json = tachy_path_ends(file, ".json") || tachy_path_ends(file, ".jsonl") || tachy_path_ends(file, ".ndjson");
    return json ? TACHY_TEXT_JSON : TACHY_TEXT_NONE;
}
