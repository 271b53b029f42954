#include "base/path.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
