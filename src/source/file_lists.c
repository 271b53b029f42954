#include "source/file_priv.h"

#include "base/path.h"

#include <libavutil/avstring.h>
#include <libavutil/bprint.h>
#include <stdlib.h>
#include <strings.h>

// Formats that name other files. A file may say that it is one whatever its name is, so that opening what
// somebody sent would open, and show, files of one's own. They are taken only if the address says so, by its
// ending or as FORMAT+ADDRESS, and what they name must lie below their folder.

static const struct list_format {
    const char *demuxer;
    const char *endings; // that say so; "": only FORMAT+ADDRESS does
} lists[] = {
    {"hls", "m3u8,m3u"}, {"dash", "mpd"}, {"concat", "ffconcat,concat"}, {"sdp", "sdp"}, {"vobsub", "idx"},
    {"imf", ""}, {"avisynth", ""}, {"vapoursynth", ""}, {"lavfi", ""},
};

// The list format of this demuxer; NULL: it names no files.
static const struct list_format *find_list(const char *demuxer)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(lists); i++)
        if (av_match_name(lists[i].demuxer, demuxer))
            return &lists[i];
    return NULL;
}

const char *file_list_prefix(struct file_input *in, const char *url)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(lists); i++) {
        size_t n = strlen(lists[i].demuxer);
        if (!strncmp(url, lists[i].demuxer, n) && url[n] == '+' && strchr(url + n, ':')) {
            in->list = lists[i].demuxer;
            return url + n + 1;
        }
    }
    return url;
}

const char *file_list_by_name(const char *url)
{
    size_t n = strstr(url, "://") ? strcspn(url, "?#") : strlen(url), dot = n;
    while (dot && url[dot - 1] != '.' && url[dot - 1] != '/')
        dot--;
    char ending[16];
    if (!dot || url[dot - 1] == '/' || n - dot >= sizeof(ending))
        return NULL;
    snprintf(ending, sizeof(ending), "%.*s", (int)(n - dot), url + dot);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(lists); i++)
        if (ending[0] && av_match_name(ending, lists[i].endings))
            return lists[i].demuxer;
    return NULL;
}

// FFmpeg's names of all formats that may be read, as its option format_whitelist, which it hands on to what a list
// names. NULL: no memory.
static char *whitelist(const char *list)
{
    AVBPrint all;
    char *text = NULL;
    void *at = NULL;
    av_bprint_init(&all, 0, AV_BPRINT_SIZE_UNLIMITED);
    av_bprintf(&all, "image2");
    for (const AVInputFormat *f; (f = av_demuxer_iterate(&at));) {
        const struct list_format *l = find_list(f->name);
        if (!l || (list && !strcmp(l->demuxer, list)))
            av_bprintf(&all, ",%s", f->name);
    }
    av_bprint_finalize(&all, av_bprint_is_complete(&all) ? &text : NULL);
    return text;
}

// ---- What a list names

// "http" of "http://...", also after FFmpeg's "crypto+" for encrypted input; "": a local path.
static void scheme_of(const char **url, char scheme[32])
{
    if (!strncmp(*url, "crypto+", 7) || !strncmp(*url, "crypto:", 7))
        *url += 7;
    const char *colon = strchr(*url, ':'), *slash = strchr(*url, '/');
    bool local = !colon || (slash && slash < colon);
    snprintf(scheme, 32, "%.*s", local ? 0 : (int)TACHY_MIN(colon - *url, 31), *url);
    if (!strcasecmp(scheme, "file")) {
        *url = colon + 1;
        scheme[0] = '\0';
    }
}

// Below the list's folder; or on a network, as the list itself.
static bool may_name(const struct file_input *in, const char *url)
{
    char own[32], scheme[32];
    const char *list = in->name;
    scheme_of(&list, own);
    scheme_of(&url, scheme);
    if (!strcmp(scheme, "data"))
        return true; // it holds what it names
    if (!in->list || in->pb)
        return false;
    if (!scheme[0])
        return !own[0] && !tachy_path_outside(url, list);
    return own[0] && (!strcmp(scheme, own) || !strcmp(scheme, "http") || !strcmp(scheme, "https"));
}

// In the place of FFmpeg's own: every file that the format opens comes by here, the first as in->name.
static int open_checked(AVFormatContext *fmt, AVIOContext **pb, const char *url, int flags, AVDictionary **options)
{
    struct file_input *in = fmt->opaque;
    if (!in || (flags & AVIO_FLAG_WRITE))
        return AVERROR(EPERM);
    // Numbered pictures have the names that the address gives them.
    bool own = !strcmp(url, in->name) || (fmt->iformat && !strcmp(fmt->iformat->name, "image2"));
    if (own || may_name(in, url))
        return in->io_open(fmt, pb, url, flags, options);
    if (!in->refused)
        in->refused = strdup(url);
    return AVERROR(EPERM);
}

int file_list_guard(struct file_input *in)
{
    in->list = in->list ? in->list : file_list_by_name(in->name);
    in->io_open = in->fmt->io_open;
    in->fmt->io_open = open_checked;
    in->fmt->opaque = in;
    in->fmt->format_whitelist = whitelist(in->list);
    return in->fmt->format_whitelist ? TACHY_OK : TACHY_ERR_NOMEM;
}

// ---- Messages

int file_list_refused(const struct file_input *in, const char *url, const struct tachy_log *log)
{
    return tachy_fail(log, TACHY_ERR_FORMAT,
                      "%s: names %s, which does not lie below its own folder; only what does is opened", url, in->refused);
}

// The format of the input by its beginning, which is read again; NULL: not known.
static const AVInputFormat *probe_again(struct file_input *in)
{
    AVFormatContext *fmt = file_context(in);
    AVIOContext *pb = in->pb;
    const AVInputFormat *f = NULL;
    file_input_wait(in);
    if (fmt && (pb || avio_open2(&pb, in->name, AVIO_FLAG_READ, &fmt->interrupt_callback, NULL) >= 0))
        av_probe_input_buffer2(pb, &f, in->name, NULL, 0, 0);
    if (!in->pb)
        avio_closep(&pb);
    if (fmt)
        fmt->pb = NULL;
    avformat_free_context(fmt);
    return f;
}

int file_list_failed(struct file_input *in, int e, const char *url, const struct tachy_log *log)
{
    if (in->refused)
        return file_list_refused(in, url, log);
    if (e != AVERROR(EINVAL)) // what a format that is not on the whitelist ends with
        return TACHY_OK;
    const AVInputFormat *f = probe_again(in);
    const struct list_format *l = f ? find_list(f->name) : NULL;
    if (!l || (in->list && !strcmp(in->list, l->demuxer)))
        return TACHY_OK;
    return tachy_fail(log, TACHY_ERR_FORMAT,
                      "%s: is in the format %s, which names other files, but its name does not say so; if that is meant, give "
                      "%s+file:NAME or %s+ADDRESS", url, l->demuxer, l->demuxer, l->demuxer);
}
