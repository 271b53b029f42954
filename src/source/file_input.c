#include "source/file_priv.h"

#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT_PICTURE_RATE = 25 };

// "scheme:" of two letters or more in front, as in http://..., pipe:0, concat:...
static bool has_scheme(const char *url)
{
    size_t n = strspn(url, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.,");
    return n > 1 && url[n] == ':';
}

// The number of a file name that fits the pattern, -1: it does not.
static long long fitting_number(const char *name, const char *pattern, const char *number,
                                const char *after, int digits)
{
    size_t before = (size_t)(number - pattern), length = strlen(name), rest = strlen(after);
    if (length < before + rest + 1 || strncmp(name, pattern, before) ||
        strcmp(name + length - rest, after))
        return -1;
    const char *first = name + before;
    size_t n = length - rest - before;
    if (strspn(first, "0123456789") < n || n > 9 || n < (size_t)digits)
        return -1;
    return strtoll(first, NULL, 10);
}

// With the slash at its end; "." for a bare name. NULL: no memory.
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path + 1)) : strdup(".");
}

// Lowest number of the files that fit shot_%04d.png; -1: there is none.
static int first_number(const char *path)
{
    const char *slash = strrchr(path, '/'), *after = NULL;
    const char *pattern = slash ? slash + 1 : path;
    int digits = 0;
    const char *number = tachy_path_number(pattern, &after, &digits);
    char *dir_name = folder_of(path);
    DIR *dir = dir_name && number ? opendir(dir_name) : NULL;
    long long lowest = -1;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        long long n = fitting_number(e->d_name, pattern, number, after, digits);
        if (n >= 0 && (lowest < 0 || n < lowest))
            lowest = n;
    }
    if (dir)
        closedir(dir);
    free(dir_name);
    return (int)lowest;
}

// Says in one sentence why a local path cannot be read.
static int check_path(const char *path, const struct stat *st, const struct tachy_log *log)
{
    if (S_ISDIR(st->st_mode))
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "%s: is a folder; name a file in it, or a numbered sequence such as "
                          "%s/%%04d.png", path, path);
    if (access(path, R_OK))
        return tachy_fail(log, TACHY_ERR_IO, "%s: may not be read: %s", path, strerror(errno));
    if (S_ISREG(st->st_mode) && !st->st_size)
        return tachy_fail(log, TACHY_ERR_FORMAT, "%s: is empty", path);
    return TACHY_OK;
}

static int open_failed(const struct file_input *in, const char *url, int e, const struct tachy_log *log)
{
    char text[128];
    if (in->silent)
        return file_input_silent(in, url, log);
    int err = tachy_err_from_av(e);
    if (err == TACHY_ERR_INTERRUPTED)
        return err; // who asked for it knows
    if (in->camera && tachy_path_says(url, "screen"))
        return tachy_fail(log, TACHY_ERR_UNAVAILABLE, "%s: no X display can be opened; is DISPLAY set, or name one: screen::0", url);
    if (err == TACHY_ERR_EOF || err == TACHY_ERR_FORMAT || e == AVERROR(EINVAL))
        return tachy_fail(log, TACHY_ERR_FORMAT,
                          "%s: is not a video or picture that can be read, or its beginning or "
                          "index is damaged", url);
    return tachy_fail(log, err, "%s: cannot be opened: %s", url, tachy_av_text(e, text));
}

enum input_kind { INPUT_STDIN, INPUT_CAMERA, INPUT_SCREEN, INPUT_PATH, INPUT_PATTERN, INPUT_ADDRESS, INPUT_MISSING };

// The kind of input that a url names. *path: without "file:", except for addresses; *st: of the file.
static enum input_kind kind_of(const char *url, const char **path, struct stat *st)
{
    const char *after;
    int digits;
    *path = tachy_path_local(url);
    if (!strcmp(url, "-") || !strcmp(url, "pipe:") || !strcmp(url, "pipe:0"))
        return INPUT_STDIN;
    if (tachy_path_is_video_device(*path))
        return INPUT_CAMERA;
    if (tachy_path_says(url, "screen") && access(url, F_OK))
        return INPUT_SCREEN;
    if (!stat(*path, st))
        return INPUT_PATH;
    int missing = errno;
    bool local = *path != url || !has_scheme(url);
    if (local && tachy_path_number(*path, &after, &digits))
        return INPUT_PATTERN;
    errno = missing;
    return local ? INPUT_MISSING : INPUT_ADDRESS;
}

int tachy_source_reads(const char *url, char **out)
{
    struct stat st;
    struct file_input in = {.list = NULL};
    const char *path;
    *out = NULL;
    if (tachy_source_null.probe(url))
        return TACHY_OK;
    url = file_list_prefix(&in, url);
    switch (kind_of(url, &path, &st)) {
    case INPUT_STDIN:
    case INPUT_MISSING:
        return TACHY_OK;
    case INPUT_CAMERA:
    case INPUT_SCREEN:
    case INPUT_ADDRESS:
        return TACHY_ERR_UNSUPPORTED;
    case INPUT_PATTERN:
        *out = folder_of(path);
        break;
    case INPUT_PATH:
        if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
            return TACHY_ERR_UNSUPPORTED;
        *out = in.list || file_list_by_name(path) ? folder_of(path) : strdup(path);
        break;
    }
    return *out ? TACHY_OK : TACHY_ERR_NOMEM;
}

static int resolve_path(struct file_input *in, const char *url, const char *path, const struct stat *st,
                        AVDictionary **options, const struct tachy_log *log)
{
    int err = check_path(path, st, log);
    if (err)
        return err;
    in->local = S_ISREG(st->st_mode);
    int e = S_ISFIFO(st->st_mode) ? file_pipe_open(in, path) : 0;
    if (e < 0)
        return open_failed(in, url, e, log);
    in->name = tachy_asprintf("file:%s", path);
    av_dict_set(options, "pattern_type", "none", 0); // a % in the name is a %
    return TACHY_OK;
}

static int resolve_pattern(struct file_input *in, const char *url, const char *path, struct tachy_rational rate,
                           AVDictionary **options, const struct tachy_log *log)
{
    int number = first_number(path);
    if (number < 0)
        return tachy_fail(log, TACHY_ERR_NOT_FOUND, "%s: no file fits this pattern", url);
    in->local = in->pictures = true;
    in->name = tachy_asprintf("file:%s", path);
    av_dict_set_int(options, "start_number", number, 0);
    struct tachy_rational r = rate.num ? rate : (struct tachy_rational){DEFAULT_PICTURE_RATE, 1};
    char text[32];
    snprintf(text, sizeof(text), "%d/%d", r.num, r.den);
    av_dict_set(options, "framerate", text, 0);
    return TACHY_OK;
}

// The other end of an address may fall silent. RTP over UDP that a firewall drops looks so as well,
// and FFmpeg would try it first.
static int resolve_address(struct file_input *in, const char *url, AVDictionary **options)
{
    enum { ADDRESS_TIMEOUT = 10 };
    in->timeout = in->timeout ? in->timeout : ADDRESS_TIMEOUT;
    if (!strncmp(url, "rtsp", 4))
        av_dict_set(options, "rtsp_flags", "prefer_tcp", 0);
    in->name = strdup(url);
    return TACHY_OK;
}

static int resolve_stdin(struct file_input *in, const struct tachy_log *log)
{
    int e = file_pipe_open(in, NULL);
    if (e < 0)
        return open_failed(in, "standard input", e, log);
    in->name = strdup("pipe:0");
    return TACHY_OK;
}

// Sets in->name and the demuxer options that the name calls for.
static int resolve(struct file_input *in, const char *url, struct tachy_rational rate,
                   AVDictionary **options, const struct tachy_log *log)
{
    struct stat st;
    const char *path;
    int err = TACHY_OK;
    switch (kind_of(url, &path, &st)) {
    case INPUT_STDIN:
        err = resolve_stdin(in, log);
        break;
    case INPUT_CAMERA:
        err = file_camera_resolve(in, path, options, log);
        break;
    case INPUT_SCREEN:
        err = file_screen_resolve(in, path, options, log);
        break;
    case INPUT_PATH:
        err = resolve_path(in, url, path, &st, options, log);
        break;
    case INPUT_PATTERN:
        err = resolve_pattern(in, url, path, rate, options, log);
        break;
    case INPUT_ADDRESS:
        err = resolve_address(in, url, options);
        break;
    case INPUT_MISSING:
        return tachy_fail(log, tachy_err_from_errno(errno), "%s: cannot be opened: %s", url, strerror(errno));
    }
    return err == TACHY_OK && !in->name ? TACHY_ERR_NOMEM : err;
}

// Demuxers that "recognise" any text as coloured characters.
static bool is_text_art(const AVInputFormat *f)
{
    static const char *const names[] = {"tty", "bin", "xbin", "adf", "idf"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++)
        if (!strcmp(f->name, names[i]))
            return true;
    return false;
}

// Elementary streams: their demuxers make times up, or give none.
static bool is_bare_stream(const AVInputFormat *f)
{
    static const char *const names[] = {
        "h264", "hevc", "vvc", "evc", "m4v", "mpegvideo", "h263", "h261", "cavsvideo", "vc1",
        "dirac", "obu", "mjpeg", "mjpeg_2000", "avs2", "avs3", "dnxhd", "rawvideo",
    };
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++)
        if (!strcmp(f->name, names[i]))
            return true;
    return f->flags & AVFMT_NOTIMESTAMPS;
}

static void classify(struct file_input *in)
{
    const char *name = in->fmt->iformat->name;
    size_t n = strlen(name);
    bool single = !in->pictures && !strcmp(name, "image2");
    bool piped = n > 5 && !strcmp(name + n - 5, "_pipe");
    in->counted = piped || (is_bare_stream(in->fmt->iformat) && !in->pictures && !single);
    in->still = single || (piped && in->local);
    in->pictures |= single || piped;
}

int file_input_open(struct file_input *in, const char *url, struct tachy_rational rate,
                    const struct tachy_log *log)
{
    AVDictionary *options = NULL;
    tachy_av_quiet();
    int err = resolve(in, file_list_prefix(in, url), rate, &options, log);
    if (err) {
        av_dict_free(&options);
        return err;
    }
    const AVInputFormat *named = in->pictures ? av_find_input_format("image2") : in->camera;
    in->fmt = file_context(in);
    if (!in->fmt || file_list_guard(in) < 0) {
        av_dict_free(&options);
        return TACHY_ERR_NOMEM;
    }
    if (in->camera)
        in->fmt->flags |= AVFMT_FLAG_NONBLOCK;
    in->patience_ns = in->timeout > 0 ? (uint64_t)(in->timeout * 1e9) : 0;
    file_input_wait(in);
    // Frees the context if it fails.
    int e = avformat_open_input(&in->fmt, in->name, named, &options);
    av_dict_free(&options);
    if (e < 0) {
        err = file_list_failed(in, e, url, log);
        return err < 0 ? err : open_failed(in, url, e, log);
    }
    if (is_text_art(in->fmt->iformat))
        return tachy_fail(log, TACHY_ERR_FORMAT, "%s: is text, not a video or picture", url);
    classify(in);
    file_input_wait(in);
    e = avformat_find_stream_info(in->fmt, NULL);
    if (in->refused)
        return file_list_refused(in, url, log);
    return e < 0 ? open_failed(in, url, e, log) : TACHY_OK;
}

void file_input_close(struct file_input *in)
{
    avformat_close_input(&in->fmt);
    file_pipe_close(in);
    free(in->name);
    free(in->refused);
    in->name = in->refused = NULL;
}

int file_input_choose(const struct file_input *in, const char *url, AVStream **video,
                      const struct tachy_log *log)
{
    int best = -1, audio = 0;
    int64_t best_pixels = -1;
    for (unsigned i = 0; i < in->fmt->nb_streams; i++) {
        const AVStream *st = in->fmt->streams[i];
        audio += st->codecpar->codec_type == AVMEDIA_TYPE_AUDIO;
        if (st->codecpar->codec_type != AVMEDIA_TYPE_VIDEO ||
            (st->disposition & AV_DISPOSITION_ATTACHED_PIC))
            continue;
        int64_t pixels = (int64_t)st->codecpar->width * st->codecpar->height;
        if (st->disposition & AV_DISPOSITION_DEFAULT)
            pixels += INT64_C(1) << 40; // the file's own choice comes first
        if (pixels > best_pixels) {
            best = (int)i;
            best_pixels = pixels;
        }
    }
    *video = best < 0 ? NULL : in->fmt->streams[best];
    if (best >= 0)
        return TACHY_OK;
    return tachy_fail(log, TACHY_ERR_FORMAT, "%s: holds no video%s", url,
                      audio ? ", only sound" : "");
}
