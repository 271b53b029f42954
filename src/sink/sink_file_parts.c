#include "base/cpu.h"
#include "sink/sink_file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// Video files in parts. Each part comes from a separate encoder, so it begins with a keyframe, refers to nothing
// outside and is the same whether or not the run was interrupted before it. Joining passes the packets to the muxer as
// an encoder would have.

// The number of encoder threads changes what an encoder writes, so a job keeps the one it began
// with, on whatever cores it goes on. These are what the encoders would choose themselves.
static int usual_threads(const tachy_sink *s)
{
    const char *name = file_sink_of(s)->choice.codec->name;
    int cores = tachy_cpu_count();
    if (!strcmp(name, "libx264"))
        return TACHY_MIN((3 * cores + 1) / 2, 64);
    if (!strcmp(name, "libx265")) // frames in work, its pool uses all cores
        return cores >= 32 ? 6 : cores >= 16 ? 5 : cores >= 8 ? 3 : cores >= 4 ? 2 : 1;
    return TACHY_MIN(cores, 16);
}

int file_sink_fixed_threads(const tachy_sink *s)
{
    int asked = file_sink_threads(&s->params);
    int64_t n = json_integer_value(json_object_get(s->job->record, "encoder_threads"));
    if (n < 1 || n > 1024) {
        n = asked ? asked : usual_threads(s);
        json_object_set_new(s->job->record, "encoder_threads", json_integer(n));
    }
    return (int)n;
}

int file_sink_part_begin(tachy_sink *s, const char *path)
{
    struct file_sink *p = file_sink_of(s);
    // The one that start() opened serves the first part.
    int err = p->encoder ? TACHY_OK : file_sink_encoder(s, file_sink_fixed_threads(s));
    if (err < 0)
        return err;
    tachy_encoder_follow(p->encoder, s->after_pts, s->distance);
    return tachy_part_create(&p->part, path, s->params.log);
}

int file_sink_part_end(tachy_sink *s)
{
    struct file_sink *p = file_sink_of(s);
    int err = file_sink_encode(s, NULL);
    if (err < 0)
        return err;
    s->bytes += p->part.out.bytes;
    err = tachy_part_finish(&p->part, tachy_encoder_context(p->encoder));
    tachy_encoder_last(p->encoder, &s->after_pts, &s->distance);
    tachy_encoder_close(&p->encoder);
    return err;
}

// The encoders' stream headers must be equal, because a file stores only one.
static int check_extradata(tachy_sink *s, const struct tachy_part_reader *r)
{
    struct file_sink *p = file_sink_of(s);
    AVCodecParameters *par = p->mux.ctx->streams[0]->codecpar;
    bool same = par->extradata_size == (int)r->extradata_size &&
                (!r->extradata_size || !memcmp(par->extradata, r->extradata, r->extradata_size));
    if (same)
        return TACHY_OK;
    return tachy_fail(s->params.log, TACHY_ERR_EXTERNAL,
                      "%s: the encoder %s describes its stream in another way in each part, so the "
                      "parts cannot be joined; choose another with -c:v, or leave --resume out",
                      s->params.url, p->choice.codec->name);
}

static int join_part(tachy_sink *s, const struct tachy_join *j, int64_t number)
{
    struct file_sink *p = file_sink_of(s);
    char *path = tachy_record_name(s->job, "part", number);
    int err = path ? tachy_part_open(&p->reader, path, s->params.log) : TACHY_ERR_NOMEM;
    while (err == TACHY_OK && (err = tachy_part_read(&p->reader, p->packet)) == TACHY_OK) {
        if (!number && p->reader.packets == 1 && p->packet->pts < 0 &&
            tachy_mux_counts_from_zero(p->format))
            p->mux.shift = av_rescale_q(av_sat_sub64(0, p->packet->pts), p->time_base, AV_TIME_BASE_Q);
        err = j->more(j->user, (double)p->packet->dts * av_q2d(p->time_base));
        if (err == TACHY_OK)
            err = file_sink_emit(s);
        av_packet_unref(p->packet);
    }
    if (err == TACHY_ERR_EOF)
        err = check_extradata(s, &p->reader);
    tachy_part_close(&p->reader);
    free(path);
    return err;
}

int file_sink_join(tachy_sink *s, const struct tachy_join *j)
{
    struct file_sink *p = file_sink_of(s);
    if (tachy_record_published(s->job))
        return (s->path = strdup(s->job->output)) ? TACHY_OK : TACHY_ERR_NOMEM;
    // An encoder provides the file's stream header; it gets no frame.
    int err = p->encoder ? TACHY_OK : file_sink_encoder(s, file_sink_fixed_threads(s));
    if (err == TACHY_OK)
        err = tachy_mux_open_in(&p->mux, p->format, s->params.url, s->job->dir, s->params.overwrite,
                                s->params.log);
    if (err == TACHY_OK)
        err = file_sink_header(s);
    for (int64_t i = 0; i < s->nb_parts && err == TACHY_OK; i++)
        err = join_part(s, j, i);
    if (err == TACHY_OK)
        err = j->more(j->user, INFINITY);
    if (err == TACHY_OK)
        err = tachy_record_publish(s->job, p->mux.out.fd);
    return err == TACHY_OK ? file_sink_trailer(s, INFINITY) : err;
}
