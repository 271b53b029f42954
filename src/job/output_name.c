#include "base/path.h"
#include "job/job.h"

#include <stdio.h>
#include <stdlib.h>

// Containers that are written as well as read; others become Matroska, which holds every
// kind of sound and subtitle.
#define VIDEOS_OUT "mp4|m4v|mov|mkv|webm|ts|avi|mpg|nut"
#define VIDEOS_IN VIDEOS_OUT "|m2ts|mts|mpeg|wmv|flv|ogv|3gp|mxf|y4m|gif"

bool tachy_job_takes(const char *name)
{
    return name && name[0] != '.' && tachy_path_extension_in(job_extension(name), TACHY_PICTURES_IN "|" VIDEOS_IN);
}

// The extension of a muxer's usual files.
static const char *format_extension(const char *format)
{
    static const char *const pairs[][2] = {
        {"matroska", "mkv"}, {"mpegts", "ts"}, {"json", "jsonl"}, {"image2", "png"},
        {"framemd5", "framemd5"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (!strcmp(format, pairs[i][0]))
            return pairs[i][1];
    return format;
}

static const char *pick_extension(const char *ext, bool picture, const char *mode, const char *format)
{
    if (format)
        return format_extension(format);
    if (!strcmp(mode, "json"))
        return "jsonl";
    if (picture)
        return strcmp(mode, "alpha") && tachy_path_extension_in(ext, TACHY_PICTURES_OUT) ? ext : "png";
    if (!strcmp(mode, "alpha"))
        return "mov";
    return tachy_path_extension_in(ext, VIDEOS_OUT) ? ext : "mkv";
}

// Name of the input without what belongs to an address, or to a device, as an allocated text.
static char *local_name(const char *input)
{
    if (!strncmp(input, "null:", 5))
        return strdup("null");
    if (tachy_path_says(input, "screen"))
        return strdup("screen");
    if (!strncmp(input, "/dev/", 5))
        return strdup(strrchr(input, '/') + 1);
    if (tachy_path_local(input) > input || !strstr(input, "://"))
        return strdup(tachy_path_local(input));
    size_t n = strcspn(input, "?#");
    const char *start = input + n;
    while (start > input && start[-1] != '/')
        start--;
    return start < input + n ? strndup(start, (size_t)(input + n - start)) : strdup("stream");
}

// A single file cannot carry a number pattern: "shot_%04d" becomes "shot". In place: the
// text gets no longer, because the shortest pattern is replaced by less.
static void drop_pattern(char *stem)
{
    const char *end, *number;
    int digits;
    if (!(number = tachy_path_number(stem, &end, &digits)))
        return;
    memmove(stem + (number - stem), end, strlen(end) + 1);
    size_t n = strlen(stem);
    while (n && strchr("_-. ", stem[n - 1]))
        stem[--n] = '\0';
    if (!n || stem[n - 1] == '/')
        snprintf(stem + n, 2, "x"); // nothing but the pattern: "%04d.png"
}

// Folder, name without extension, mode, extension.
static char *join(const char *folder, const char *stem, const char *mode, const char *ext)
{
    const char *slash = strrchr(stem, '/');
    if (folder && slash)
        stem = slash + 1;
    bool plain = !strcmp(mode, "json"); // in.jsonl says it
    size_t size = (folder ? strlen(folder) : 0) + strlen(stem) + strlen(mode) + strlen(ext) + 3;
    char *out = malloc(size);
    if (out)
        snprintf(out, size, "%s%s%s%s.%s", folder ? folder : "", stem, plain ? "" : ".",
                 plain ? "" : mode, ext);
    return out;
}

char *job_output_name(const char *input, const char *mode, const char *format, const char *folder)
{
    char *stem = local_name(input);
    if (!stem)
        return NULL;
    char *slash = strrchr(stem, '/'), *name = slash ? slash + 1 : stem;
    char *dot = strrchr(name, '.');
    if (dot == name) // a hidden file's name has no extension
        dot = NULL;
    bool picture = tachy_path_is_picture(stem);
    const char *in_ext = dot ? dot + 1 : "";
    const char *ext = pick_extension(in_ext, picture, mode, format);
    char kept[16];
    snprintf(kept, sizeof(kept), "%s", ext); // `ext` may lie in `stem`
    if (dot)
        *dot = '\0';
    if (!tachy_path_extension_in(kept, TACHY_PICTURES_OUT))
        drop_pattern(stem);
    char *out = join(folder, stem, mode, kept);
    free(stem);
    return out;
}
