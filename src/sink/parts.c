#include "sink/output.h"
#include "sink/sink_ops.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// An output in parts: what of it is the same for every kind of sink.

bool tachy_sink_has_job(const char *url)
{
    char *dir = url ? tachy_record_dir(url) : NULL;
    char *path = dir ? tachy_asprintf("%s/job.json", dir) : NULL;
    bool has = path && access(path, F_OK) == 0;
    free(path);
    free(dir);
    return has;
}

int tachy_sink_open_job(tachy_sink *s)
{
    const char *file = s->params.url ? tachy_output_file(s->params.url) : NULL;
    struct stat st;
    if (!s->ops->join || !file || (stat(file, &st) == 0 && !S_ISREG(st.st_mode)))
        return tachy_fail(s->params.log, TACHY_ERR_UNSUPPORTED,
                          "%s: an output of this kind cannot be resumed, only videos, numbered "
                          "pictures and JSON lines in files can; leave --resume out",
                          file          ? file
                          : s->params.url ? "standard output"
                                          : s->ops->name);
    return tachy_record_open(&s->job, s->params.url, s->params.log);
}

static int64_t get(const json_t *o, const char *key, int64_t missing)
{
    const json_t *v = json_object_get(o, key);
    return json_is_integer(v) ? (int64_t)json_integer_value(v) : missing;
}

static bool set(json_t *o, const char *key, int64_t v)
{
    return json_object_set_new(o, key, json_integer(v)) == 0;
}

// Each part is there, of the size that was recorded.
static int check_parts(const tachy_sink *s, const json_t *sizes)
{
    for (int64_t i = 0; i < s->nb_parts; i++) {
        char *path = tachy_record_name(s->job, "part", i);
        if (!path)
            return TACHY_ERR_NOMEM;
        struct stat st;
        int64_t size = (int64_t)json_integer_value(json_array_get(sizes, (size_t)i));
        bool ok = stat(path, &st) == 0 && (S_ISDIR(st.st_mode) || st.st_size == size);
        int err = ok ? TACHY_OK
                     : tachy_fail(s->params.log, TACHY_ERR_FORMAT,
                                  "%s: is not what this run left behind; to start over, remove the "
                                  "folder %s",
                                  path, s->job->dir);
        free(path);
        if (err < 0)
            return err;
    }
    return TACHY_OK;
}

// Frames in parts of ten seconds; every run must get the same number.
static int64_t default_frames(const struct tachy_video_info *info)
{
    double fps = info->fps.num > 0 && info->fps.den > 0 ? (double)info->fps.num / info->fps.den : 25;
    return TACHY_CLAMP((int64_t)(10 * fps + 0.5), 1, 1 << 20);
}

// True if that many frames fill these parts.
static bool fits(const tachy_sink *s)
{
    return s->part_frames >= 1 && s->part_frames <= 1000000000 && s->frames >= 0 &&
           s->frames / s->part_frames + (s->frames % s->part_frames != 0) == s->nb_parts;
}

int tachy_sink_parts_start(tachy_sink *s, const struct tachy_video_info *info)
{
    json_t *r = s->job->record, *parts = json_object_get(r, "parts");
    if (!parts && json_object_set_new(r, "parts", parts = json_array()) < 0)
        return TACHY_ERR_NOMEM;
    s->part_frames = get(r, "part_frames", TACHY_DEF(s->params.part_frames, default_frames(info)));
    s->nb_parts = (int64_t)json_array_size(parts);
    s->frames = get(r, "frames", 0);
    if (!fits(s))
        return tachy_fail(s->params.log, TACHY_ERR_FORMAT,
                          "%s/job.json: is damaged; to start over, remove the folder %s", s->job->dir,
                          s->job->dir);
    int err = tachy_record_published(s->job) ? TACHY_OK : check_parts(s, parts);
    if (err < 0)
        return err;
    s->last_pts = get(r, "last_pts", 0);
    s->end_time = json_number_value(json_object_get(r, "end_time"));
    s->after_pts = get(r, "encoder_pts", INT64_MIN);
    s->distance = get(r, "encoder_distance", 0);
    if (!set(r, "part_frames", s->part_frames))
        return TACHY_ERR_NOMEM;
    return tachy_sink_start(s, info);
}

int tachy_sink_begin_part(tachy_sink *s)
{
    char *path = tachy_record_name(s->job, "part", s->nb_parts);
    int err = path ? s->ops->part_begin(s, path) : TACHY_ERR_NOMEM;
    s->in_part = err == TACHY_OK;
    free(path);
    return err;
}

int tachy_sink_cut(tachy_sink *s)
{
    if (s->error)
        return s->error;
    if (!s->in_part)
        return TACHY_OK;
    s->in_part = false;
    int err = s->ops->part_end(s);
    if (err < 0)
        return s->error = err;
    json_t *r = s->job->record;
    char *path = tachy_record_name(s->job, "part", s->nb_parts++);
    struct stat st = {0};
    if (path)
        stat(path, &st);
    free(path);
    bool ok = json_array_append_new(json_object_get(r, "parts"), json_integer(st.st_size)) == 0 &&
              set(r, "frames", s->frames) && set(r, "last_pts", s->last_pts) &&
              set(r, "encoder_pts", s->after_pts) && set(r, "encoder_distance", s->distance) &&
              json_object_set_new(r, "end_time", json_real(s->end_time)) == 0;
    return path && ok ? TACHY_OK : TACHY_ERR_NOMEM;
}

int tachy_sink_join(tachy_sink *s, const struct tachy_join *j)
{
    if (s->error)
        return s->error;
    if (!s->frames)
        return tachy_fail(s->params.log, TACHY_ERR_FORMAT, "%s: no frame came, so no file is written",
                          s->params.url);
    int err = s->ops->join(s, j);
    s->finished = true;
    if (err < 0)
        return s->error = err;
    tachy_record_remove(s->job);
    return TACHY_OK;
}

int tachy_sink_describe(const tachy_sink *s, json_t *what)
{
    const struct tachy_sink_params *p = &s->params;
    const struct {
        const char *name, *text;
    } texts[] = {{"output.format", p->format}, {"output.codec", p->codec},
                 {"output.preset", p->preset}, {"output.crf", p->crf}, {"output.bitrate", p->bitrate},
                 {"output.audio_codec", p->audio_codec}, {"output.audio_filter", p->audio_filter},
                 {"output.pix_fmt", p->pix_fmt},
                 {"output.encoder", p->encode == TACHY_ENCODE_NVENC ? "nvenc" : "cpu"}};
    const struct {
        const char *name;
        int64_t n;
    } numbers[] = {{"output.no_audio", p->no_audio},
                   {"output.no_subtitles", p->no_subtitles},
                   {"output.threads", p->threads},
                   {"processing.chunk_size", p->part_frames}};
    bool ok = true;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(texts); i++)
        ok = ok && json_object_set_new(what, texts[i].name,
                                       json_string(texts[i].text ? texts[i].text : "")) == 0;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(numbers); i++)
        ok = ok && json_object_set_new(what, numbers[i].name,
                                       json_sprintf("%lld", (long long)numbers[i].n)) == 0;
    unsigned c = avcodec_version(), f = avformat_version(), w = swscale_version();
    ok = ok && json_object_set_new(what, "FFmpeg",
                                   json_sprintf("%s, libavcodec %u.%u.%u, libavformat %u.%u.%u, "
                                                "libswscale %u.%u.%u",
                                                av_version_info(), c >> 16, c >> 8 & 255, c & 255,
                                                f >> 16, f >> 8 & 255, f & 255, w >> 16, w >> 8 & 255,
                                                w & 255)) == 0;
    return ok ? TACHY_OK : TACHY_ERR_NOMEM;
}
