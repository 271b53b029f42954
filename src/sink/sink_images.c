#include "sink/encoder.h"
#include "sink/output.h"
#include "sink/sink_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <libavutil/avstring.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// A picture, or a numbered sequence (name_%04d.png, counted from 1 as FFmpeg does). Each file is written under a
// temporary name and renamed, so that a reader never sees half a picture; if the disk is full, complete pictures stay.
// 10-bit frames become 16-bit PNG and TIFF.

static const struct {
    const char *extension;
    enum AVCodecID id;
} kinds[] = {
    {".png", AV_CODEC_ID_PNG},   {".jpg", AV_CODEC_ID_MJPEG}, {".jpeg", AV_CODEC_ID_MJPEG},
    {".webp", AV_CODEC_ID_WEBP}, {".bmp", AV_CODEC_ID_BMP},   {".tif", AV_CODEC_ID_TIFF},
    {".tiff", AV_CODEC_ID_TIFF}, {".ppm", AV_CODEC_ID_PPM},
};

struct priv {
    enum AVCodecID id;
    const char *pattern; // params.url without "file:"
    bool numbered;
    tachy_encoder *encoder;
    AVPacket *packet;
    int64_t files;       // written so far
    bool keep;           // finished, or failed in writing: close leaves the whole files
    char *folder;        // of the part that is written; NULL: files get their names at once
};

static enum AVCodecID kind_of(const char *url)
{
    const char *dot = url ? strrchr(url, '.') : NULL;
    for (size_t i = 0; dot && i < TACHY_ARRAY_SIZE(kinds); i++)
        if (!av_strcasecmp(dot, kinds[i].extension))
            return kinds[i].id;
    return AV_CODEC_ID_NONE;
}

static bool images_probe(const char *url, const char *format)
{
    if (format)
        return !strcmp(format, "image2");
    return kind_of(url) != AV_CODEC_ID_NONE;
}

// Name of the file with this number; NULL: the pattern is not one (or out of memory).
static char *file_name(const struct priv *p, int64_t number)
{
    if (!p->numbered)
        return strdup(p->pattern);
    char name[4096];
    if (number > INT_MAX || av_get_frame_filename(name, sizeof(name), p->pattern, (int)number) < 0)
        return NULL;
    return strdup(name);
}

// The file with this number below `folder`. NULL: no memory.
static char *name_in(const struct priv *p, const char *folder, int64_t number)
{
    char *name = file_name(p, number);
    const char *slash = name ? strrchr(name, '/') : NULL;
    char *in = name ? tachy_asprintf("%s/%s", folder, slash ? slash + 1 : name) : NULL;
    free(name);
    return in;
}

// Name of the next file, and whether it may be written.
static int next_file(tachy_sink *s, char **name)
{
    const struct priv *p = (void *)s->priv;
    *name = p->folder ? name_in(p, p->folder, p->files + 1) : file_name(p, p->files + 1);
    if (!*name)
        return tachy_fail(s->params.log, TACHY_ERR_INVAL,
                          "%s: is no name for numbered pictures: it needs one %%04d and no other %%",
                          p->pattern);
    // In parts: what is in the folder is ours, and the join looks at the names.
    bool ours = p->folder || (s->job && s->job->begun);
    int err = ours ? TACHY_OK : tachy_output_check(*name, s->params.overwrite, s->params.log);
    if (err < 0) {
        free(*name);
        *name = NULL;
    }
    return err;
}

static int images_open(tachy_sink *s)
{
    struct priv *p = (void *)s->priv;
    const struct tachy_log *log = s->params.log;
    p->pattern = tachy_output_file(s->params.url);
    if (!p->pattern)
        p->pattern = s->params.url; // "-"
    p->numbered = strchr(p->pattern, '%') != NULL;
    p->id = kind_of(p->pattern);
    if (s->params.codec) {
        const AVCodec *c;
        int err = tachy_choice_encoder(&c, s->params.codec, AVMEDIA_TYPE_VIDEO, log);
        if (err < 0)
            return err;
        p->id = c->id;
    }
    if (p->id == AV_CODEC_ID_NONE)
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "%s: the name does not tell the kind of picture; end it in .png, .jpg, "
                          ".webp, .bmp or .tiff, or add -c:v png",
                          p->pattern);
    char *name;
    int err = next_file(s, &name);
    free(name);
    return err;
}

// TACHY_ERR_LIMIT: what was written is taken back.
static int one_only(tachy_sink *s)
{
    const struct priv *p = (void *)s->priv;
    const char *dot = strrchr(p->pattern, '.');
    return tachy_fail(s->params.log, TACHY_ERR_LIMIT,
                      "%s: holds one picture only; for more put a number into the name, such as "
                      "name_%%04d%s, or take one with --max-frames 1",
                      p->pattern, dot ? dot : ".png");
}

static int open_encoder(tachy_sink *s)
{
    struct priv *p = (void *)s->priv;
    const struct tachy_video_info *info = &s->info;
    struct tachy_choice choice;
    int err = tachy_choice_picture(&choice, &s->params, p->id, info);
    if (err < 0)
        return err;
    if (!p->packet)
        p->packet = av_packet_alloc();
    struct tachy_encoder_params ep = {
        .choice = &choice, .info = info, .log = s->params.log,
        .threads = p->numbered ? s->params.threads : 1,
    };
    err = p->packet ? tachy_encoder_open(&p->encoder, &ep) : TACHY_ERR_NOMEM;
    tachy_choice_free(&choice);
    return err;
}

static int images_start(tachy_sink *s, const struct tachy_video_info *info)
{
    struct priv *p = (void *)s->priv;
    p->keep = s->job;
    p->files = s->frames;
    if (!p->numbered && info->frames > 1)
        return one_only(s);
    return open_encoder(s);
}

static int write_file(void *sink)
{
    tachy_sink *s = sink;
    struct priv *p = (void *)s->priv;
    char *name;
    int err = next_file(s, &name);
    if (err < 0)
        return err;
    struct tachy_output out;
    err = tachy_output_open(&out, name, s->params.overwrite || p->folder, s->params.log);
    out.resumable = p->folder;
    if (err >= 0 && tachy_output_write(&out, p->packet->data, (size_t)p->packet->size) < 0)
        err = tachy_output_fail(&out);
    if (err >= 0)
        err = tachy_output_finish(&out);
    s->write_ns += out.write_ns;
    tachy_output_close(&out);
    free(name);
    if (err < 0) {
        p->keep = true;
        return err;
    }
    p->files++;
    s->bytes += p->packet->size;
    return TACHY_OK;
}

static int images_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    struct priv *p = (void *)s->priv;
    if (!f)
        return tachy_fail(s->params.log, TACHY_ERR_INVAL,
                          "%s: this run makes no pictures; choose another --mode", p->pattern);
    if (!p->numbered && s->frames)
        return one_only(s);
    return tachy_encoder_run(p->encoder, f, p->packet, write_file, s);
}

static int images_finish(tachy_sink *s, bool interrupted)
{
    struct priv *p = (void *)s->priv;
    int err = tachy_encoder_run(p->encoder, NULL, p->packet, write_file, s);
    if (err < 0)
        return err;
    p->keep = true;
    if (tachy_output_file(p->pattern) && !(s->path = strdup(p->pattern)))
        return TACHY_ERR_NOMEM;
    return TACHY_OK;
}

// ---- in parts: a folder each, whose pictures get their names at the end

static int images_part_begin(tachy_sink *s, const char *path)
{
    struct priv *p = (void *)s->priv;
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return tachy_fail(s->params.log, tachy_err_from_errno(errno), "%s: cannot be made: %s", path,
                          strerror(errno));
    free(p->folder);
    p->folder = strdup(path);
    if (!p->folder)
        return TACHY_ERR_NOMEM;
    return p->encoder ? TACHY_OK : open_encoder(s);
}

// Waits until the pictures of the part are on the disk.
static int sync_folder(const tachy_sink *s, const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int e = fd < 0 || syncfs(fd) < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return e ? tachy_fail(s->params.log, tachy_err_from_errno(e), "%s: cannot be written to disk: %s",
                          folder, strerror(e))
             : TACHY_OK;
}

static int images_part_end(tachy_sink *s)
{
    struct priv *p = (void *)s->priv;
    int err = tachy_encoder_run(p->encoder, NULL, p->packet, write_file, s);
    tachy_encoder_close(&p->encoder);
    return err == TACHY_OK ? sync_folder(s, p->folder) : err;
}

// Gives one picture its name. One that is not in its part has it already.
static int publish(tachy_sink *s, int64_t number)
{
    struct priv *p = (void *)s->priv;
    char *folder = tachy_record_name(s->job, "part", (number - 1) / s->part_frames);
    char *from = folder ? name_in(p, folder, number) : NULL, *to = file_name(p, number);
    int err = from && to ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err == TACHY_OK && access(from, F_OK) == 0)
        err = tachy_output_check(to, s->params.overwrite, s->params.log);
    else if (err == TACHY_OK && access(to, F_OK) < 0)
        err = tachy_fail(s->params.log, TACHY_ERR_FORMAT,
                         "%s: is missing; to start over, remove the folder %s", from, s->job->dir);
    if (err == TACHY_OK && rename(from, to) < 0 && errno != ENOENT)
        err = tachy_fail(s->params.log, tachy_err_from_errno(errno), "%s: cannot be given its name: %s",
                         to, strerror(errno));
    free(folder);
    free(from);
    free(to);
    return err;
}

static int images_join(tachy_sink *s, const struct tachy_join *j)
{
    struct priv *p = (void *)s->priv;
    int err = TACHY_OK;
    bool done = tachy_record_published(s->job);
    for (int64_t n = 1; n <= s->frames && err == TACHY_OK && !done; n++)
        err = publish(s, n);
    if (err == TACHY_OK && !done)
        err = tachy_record_publish(s->job, -1);
    if (err == TACHY_OK && !(s->path = strdup(p->pattern)))
        err = TACHY_ERR_NOMEM;
    return err;
}

static void images_close(tachy_sink *s)
{
    struct priv *p = (void *)s->priv;
    free(p->folder);
    for (int64_t i = 1; !p->keep && i <= p->files; i++) {
        char *name = file_name(p, i);
        if (name)
            unlink(name);
        free(name);
    }
    tachy_encoder_close(&p->encoder);
    av_packet_free(&p->packet);
}

const struct tachy_sink_ops tachy_sink_images = {
    .name = "images",
    .many = true,
    .priv_size = sizeof(struct priv),
    .probe = images_probe,
    .open = images_open,
    .start = images_start,
    .write = images_write,
    .finish = images_finish,
    .close = images_close,
    .part_begin = images_part_begin,
    .part_end = images_part_end,
    .join = images_join,
};
