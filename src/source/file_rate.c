#include "source/file_priv.h"

#include <stdlib.h>

// Constant rate: frames are dropped or repeated as FFmpeg's fps filter does with round=near.
// Output frame k shows the last frame whose time, rounded to the output's ticks, is k or less.

static int64_t tick_of(const struct file *p, int64_t pts)
{
    AVRational out = {p->rate.fps.den, p->rate.fps.num};
    return av_rescale_q_rnd(pts, p->st->time_base, out, AV_ROUND_NEAR_INF);
}

// End of the last frame, in output ticks.
static int64_t end_tick(const struct file *p, const tachy_frame *f)
{
    int64_t length = f->duration;
    AVRational fps = p->st->avg_frame_rate;
    if (length <= 0 && fps.num > 0 && fps.den > 0)
        length = av_rescale_q(1, av_inv_q(fps), p->st->time_base);
    int64_t end = av_sat_add64(f->pts, TACHY_MAX(length, 1));
    return tick_of(p, p->end == INT64_MAX ? end : TACHY_MIN(end, p->end - p->start));
}

static void release_frame(void *user)
{
    tachy_frame *f = user;
    tachy_frame_unref(&f);
}

// The same pixels with another time.
static int repeat(struct file *p, tachy_frame **out)
{
    tachy_frame *f = p->rate.current;
    struct tachy_frame_params fp = {.format = f->format, .width = f->width, .height = f->height,
                                    .color = f->color, .pts = p->rate.k, .duration = 1,
                                    .release = release_frame, .user = f,
                                    .mem = f->mem, .device = f->device, .stream = f->stream};
    for (int i = 0; i < 4; i++) {
        fp.data[i] = (uint8_t *)(uintptr_t)f->data[i]; // a wrapped frame is never written
        fp.stride[i] = f->stride[i];
    }
    int err = tachy_frame_new(out, &fp);
    if (err)
        return err;
    tachy_frame_ref(f);
    (*out)->key = f->key;
    (*out)->discontinuity = f->discontinuity;
    f->discontinuity = 0; // of its first showing only
    p->rate.k++;
    p->rate.any = true;
    return TACHY_OK;
}

static int fill(tachy_source *s)
{
    struct file *p = file_of(s);
    if (!p->rate.current) {
        int err = file_next(s, &p->rate.current);
        if (err)
            return err;
        p->rate.k = tick_of(p, p->rate.current->pts);
    }
    if (p->rate.next || p->rate.ended)
        return TACHY_OK;
    int err = file_next(s, &p->rate.next);
    p->rate.ended = err == TACHY_ERR_EOF;
    return p->rate.ended ? TACHY_OK : err;
}

int file_rate_read(tachy_source *s, tachy_frame **out)
{
    struct file *p = file_of(s);
    for (;;) {
        if (p->rate.ended && !p->rate.current)
            return TACHY_ERR_EOF;
        int err = fill(s);
        if (err)
            return err;
        const tachy_frame *next = p->rate.next;
        int64_t until = next ? tick_of(p, next->pts) : end_tick(p, p->rate.current);
        bool only = !next && !p->rate.any; // one short frame is shown all the same
        if (until > p->rate.k || only)
            return repeat(p, out);
        int cut = p->rate.current->discontinuity;
        tachy_frame_unref(&p->rate.current);
        p->rate.current = p->rate.next;
        p->rate.next = NULL;
        if (p->rate.current && cut)
            p->rate.current->discontinuity = 1;
        if (!p->rate.current)
            p->rate.ended = true;
    }
}

void file_rate_close(struct file *p)
{
    tachy_frame_unref(&p->rate.current);
    tachy_frame_unref(&p->rate.next);
}
