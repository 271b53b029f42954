#include "sink/output.h"

#include "base/numeric.h"
#include "media/filter.h"
#include "media/frame_mem.h"
#include "media/side.h"
#include "sink/sink_ops.h"

#include <stdio.h>
#include <stdlib.h>

static const struct tachy_sink_ops *const sinks[] = { // asked in this order
    &tachy_sink_null, &tachy_sink_push, &tachy_sink_http, &tachy_sink_window, &tachy_sink_pipewire, &tachy_sink_ndi,
    &tachy_sink_device, &tachy_sink_hash, &tachy_sink_json, &tachy_sink_csv, &tachy_sink_images,
    &tachy_sink_file, // takes everything else
};

enum { MOST_THREADS = 1024 };

static bool copy_string(const char **s)
{
    if (!*s)
        return true;
    *s = strdup(*s);
    return *s != NULL;
}

// Makes the strings of the params ours; those not copied yet are NULL on failure.
static bool copy_params(struct tachy_sink_params *p)
{
    const char **strings[] = {&p->url, &p->format, &p->codec, &p->preset, &p->crf, &p->bitrate, &p->filter,
                              &p->audio_codec, &p->audio_filter, &p->pix_fmt, &p->token_file};
    bool ok = true;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(strings); i++) {
        if (ok)
            ok = copy_string(strings[i]);
        else
            *strings[i] = NULL;
    }
    return ok;
}

static void free_params(struct tachy_sink_params *p)
{
    const char *strings[] = {p->url, p->format, p->codec, p->preset, p->crf, p->bitrate, p->filter,
                             p->audio_codec, p->audio_filter, p->pix_fmt, p->token_file};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(strings); i++)
        free((void *)(uintptr_t)strings[i]);
}

static const struct tachy_sink_ops *choose(const struct tachy_sink_params *p)
{
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(sinks); i++)
        if (sinks[i]->probe(p->url, p->format))
            return sinks[i];
    return NULL;
}

// An empty text is as good as none.
static const char *text_or_null(const char *s) { return s && *s ? s : NULL; }

int tachy_sink_open_sized(size_t given_size, tachy_sink **out, const struct tachy_sink_params *given)
{
    struct tachy_sink_params own;
    given = tachy_sized_in(&own, sizeof(own), given, given_size);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(given, log), out && given))
        return TACHY_ERR_INVAL;
    tachy_av_quiet();
    struct tachy_sink_params p = *given;
    p.format = text_or_null(p.format);
    p.codec = text_or_null(p.codec);
    p.preset = text_or_null(p.preset);
    p.crf = text_or_null(p.crf);
    p.bitrate = text_or_null(p.bitrate);
    p.filter = text_or_null(p.filter);
    p.audio_codec = text_or_null(p.audio_codec);
    p.audio_filter = text_or_null(p.audio_filter);
    p.pix_fmt = text_or_null(p.pix_fmt);
    p.token_file = text_or_null(p.token_file);
    if (p.threads < 0 || p.threads > MOST_THREADS)
        return tachy_fail(p.log, TACHY_ERR_INVAL, "encoder threads: must be 0 (the encoder's choice) to %d",
                          MOST_THREADS);
    if (p.part_frames < 0)
        return tachy_fail(p.log, TACHY_ERR_INVAL, "frames of a part: must be 0 (ten seconds) or more");
    const struct tachy_sink_ops *ops = choose(&p);
    if (!p.url && !ops->no_file)
        return tachy_fail(p.log, TACHY_ERR_INVAL, "no output was named: give one with -o");
    if (p.filter && (p.resume || (ops->no_pixels && !ops->no_file)))
        return tachy_fail(p.log, TACHY_ERR_INVAL, p.resume ? "-vf: filters keep no state between the parts of --resume; leave one out"
                                                           : "-vf: this output holds no pictures; leave it out");
    // A process may have ended after it gave an output its name: tachy_sink_join() looks again.
    bool may = p.overwrite || (p.resume && tachy_sink_has_job(p.url));
    int err = ops->no_file || ops->many ? TACHY_OK : tachy_output_check(p.url, may, p.log);
    if (err < 0)
        return err;
    tachy_sink *s = calloc(1, sizeof(*s) + ops->priv_size);
    if (!s)
        return TACHY_ERR_NOMEM;
    s->ops = ops;
    s->params = p;
    s->after_pts = INT64_MIN;
    err = copy_params(&s->params) ? TACHY_OK : TACHY_ERR_NOMEM;
    if (err >= 0 && p.resume)
        err = tachy_sink_open_job(s);
    if (err >= 0)
        err = ops->open(s);
    if (err < 0)
        tachy_sink_close(&s);
    *out = s;
    return err;
}

void tachy_sink_set_side(tachy_sink *s, tachy_side *side)
{
    tachy_side *old = s->side;
    s->side = side ? tachy_side_ref(side) : NULL;
    tachy_side_unref(&old);
}

const struct tachy_surface_spec *tachy_sink_surfaces(const tachy_sink *s)
{
    return s->started && !s->filter && s->ops->surfaces ? s->ops->surfaces(s) : NULL;
}

int tachy_sink_start(tachy_sink *s, const struct tachy_video_info *info)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(s, params.log), s && info))
        return TACHY_ERR_INVAL;
    const struct tachy_log *log = s->params.log;
    if (s->started)
        return tachy_fail(log, TACHY_ERR_STATE, "the output was started already");
    if (s->job && !s->part_frames)
        return tachy_fail(log, TACHY_ERR_STATE, "an output that can be resumed is for tachy_run()");
    if (!TACHY_CHECK(log, tachy_pix_desc(info->format)) ||
        !TACHY_CHECK(log, info->width >= 1 && info->width <= 65535) ||
        !TACHY_CHECK(log, info->height >= 1 && info->height <= 65535) ||
        !TACHY_CHECK(log, info->time_base.num > 0 && info->time_base.den > 0))
        return TACHY_ERR_INVAL;
    s->info = *info;
    s->info.codec = NULL; // the source's memory
    s->tick = (double)info->time_base.num / info->time_base.den;
    int err = s->params.filter ? tachy_filter_open(&s->filter, s->params.filter, "-vf", &s->info, log) : TACHY_OK;
    locale_t before = tachy_numeric_enter(); // FFmpeg reads options by it
    if (err == TACHY_OK)
        err = s->ops->start(s, &s->info);
    tachy_numeric_leave(before);
    if (err < 0)
        s->error = err;
    else
        s->started = true;
    return err;
}

// An error of the output itself: what was written is gone. Others concern one frame.
static bool is_fatal(int err)
{
    return err == TACHY_ERR_NO_SPACE || err == TACHY_ERR_IO || err == TACHY_ERR_LIMIT;
}

// Writes the filters' output after `f` went in; NULL: all that is left.
static int write_filtered(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    tachy_frame *made;
    int err = tachy_filter_send(s->filter, f);
    while (err == TACHY_OK && (err = tachy_filter_receive(s->filter, &made)) == TACHY_OK) {
        made->id = f ? f->id : s->frames;
        err = s->ops->write(s, made, r);
        tachy_frame_unref(&made);
    }
    return err == TACHY_ERR_AGAIN || err == TACHY_ERR_EOF ? TACHY_OK : err;
}

int tachy_sink_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    if (!s)
        return TACHY_ERR_INVAL;
    const struct tachy_log *log = s->params.log;
    if (s->error)
        return s->error; // told before
    if (!s->started || s->finished)
        return tachy_fail(log, TACHY_ERR_STATE, "a frame was written to an output that is not %s",
                          s->finished ? "open any more" : "started");
    if (!TACHY_CHECK(log, f || r))
        return TACHY_ERR_INVAL;
    int err = f ? tachy_frame_check(f, log, "the output") : TACHY_OK;
    if (err < 0)
        return err;
    int64_t pts = f ? f->pts : r->pts, id = f ? f->id : r->frame_id, duration = f ? f->duration : 0;
    const double tick = s->tick;
    if (!tachy_time_ok(pts, tick) || !tachy_time_ok(duration, tick))
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "frame %lld has pts %lld and duration %lld in units of %d/%d s; times must lie within 4e9 s",
                          (long long)id, (long long)pts, (long long)duration, s->info.time_base.num, s->info.time_base.den);
    if (s->frames && pts <= s->last_pts)
        return tachy_fail(log, TACHY_ERR_INVAL,
                          "frame %lld has pts %lld, which does not come after %lld of the frame "
                          "before it",
                          (long long)id, (long long)pts, (long long)s->last_pts);
    err = f && !s->ops->no_pixels && !tachy_sink_surfaces(s) ? tachy_frame_need_host(f, log, "the output") : TACHY_OK;
    if (err < 0)
        return err;
    err = s->job && !s->in_part ? tachy_sink_begin_part(s) : TACHY_OK;
    if (err == TACHY_OK)
        err = s->filter && f ? write_filtered(s, f, r) : s->ops->write(s, f, r);
    if (err < 0) {
        if (is_fatal(err))
            s->error = err;
        return err;
    }
    double distance = s->frames ? (double)pts - (double)s->last_pts : 0;
    s->end_time = ((double)pts + (duration > 0 ? (double)duration : distance)) * tick;
    s->last_pts = pts;
    s->frames++;
    return TACHY_OK;
}

int tachy_sink_finish(tachy_sink *s, bool interrupted)
{
    if (!s)
        return TACHY_ERR_INVAL;
    if (s->error)
        return s->error;
    if (s->finished)
        return tachy_fail(s->params.log, TACHY_ERR_STATE, "the output was finished already");
    s->finished = true;
    if (!s->started || s->job || (interrupted && !s->frames))
        return TACHY_OK; // close removes what there is
    int err = s->filter ? write_filtered(s, NULL, NULL) : TACHY_OK;
    if (err == TACHY_OK)
        err = s->ops->finish(s, interrupted);
    if (err < 0)
        s->error = err;
    return err;
}

int tachy_sink_outputs(const tachy_sink *s, struct tachy_output_stats *out, int max)
{
    if (!TACHY_CHECK(TACHY_LOG_OF(s, params.log), s && out && max >= 1))
        return TACHY_ERR_INVAL;
    if (s->ops->outputs)
        return s->ops->outputs(s, out, max);
    const char *name = s->params.url ? s->params.url : "-";
    out[0] = (struct tachy_output_stats){.frames = s->frames - s->dropped, .bytes = s->bytes, .shed = s->dropped, .error = s->error};
    size_t n = TACHY_MIN(strlen(name), sizeof(out[0].name) - 1);
    while (n && ((uint8_t)name[n] & 0xc0) == 0x80) // not within a character of UTF-8
        n--;
    memcpy(out[0].name, name, n);
    tachy_hide_secrets(out[0].name);
    return 1;
}

const char *tachy_sink_path(const tachy_sink *s) { return s ? s->path : NULL; }
int64_t tachy_sink_bytes(const tachy_sink *s) { return s ? s->bytes : 0; }

void tachy_sink_close(tachy_sink **s)
{
    if (!s || !*s)
        return;
    (*s)->ops->close(*s);
    tachy_record_close(&(*s)->job);
    tachy_filter_close(&(*s)->filter);
    tachy_side_unref(&(*s)->side);
    free_params(&(*s)->params);
    free((*s)->path);
    free(*s);
    *s = NULL;
}
