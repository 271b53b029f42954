#include "media/filter.h"

#include "base/numeric.h"
#include "media/convert.h"

#include <libavfilter/avfilter.h>
#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>
#include <libavutil/pixdesc.h>
#include <stdlib.h>

struct tachy_filter {
    const struct tachy_log *log;
    const char *option;
    AVFilterGraph *graph;
    AVFilterContext *src, *sink;
    AVFrame *frame;
    struct tachy_convert *convert; // NULL: every picture came as it was said
    struct tachy_convert_to in;
    bool jumps; // the next picture is a discontinuity
};

// ---- Opening

static int make_source(tachy_filter *t, const struct tachy_video_info *info)
{
    AVBufferSrcParameters *p = av_buffersrc_parameters_alloc();
    t->src = avfilter_graph_alloc_filter(t->graph, avfilter_get_by_name("buffer"), "in");
    if (!p || !t->src) {
        av_free(p);
        return AVERROR(ENOMEM);
    }
    p->format = tachy_pix_to_av(info->format);
    p->width = info->width;
    p->height = info->height;
    p->time_base = (AVRational){info->time_base.num, info->time_base.den};
    p->frame_rate = (AVRational){info->fps.num, TACHY_MAX(info->fps.den, 1)};
    p->sample_aspect_ratio = (AVRational){info->sar.num, TACHY_MAX(info->sar.den, 1)};
#if LIBAVFILTER_VERSION_INT >= AV_VERSION_INT(9, 16, 100)
    p->color_space = info->color.matrix;
    p->color_range = info->color.range;
#endif
    int ret = av_buffersrc_parameters_set(t->src, p);
    av_free(p);
    return ret < 0 ? ret : avfilter_init_str(t->src, NULL);
}

// The filters, then whatever brings their pictures to a format that we have.
static char *whole_text(const char *text)
{
    char names[1024];
    size_t n = 0;
    for (int f = TACHY_PIX_NONE + 1; f < TACHY_PIX_COUNT; f++)
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n ? "|" : "", av_get_pix_fmt_name(tachy_pix_to_av(f)));
    return tachy_asprintf("%s,format=pix_fmts=%s", text, names);
}

static int link_ends(tachy_filter *t, const char *text)
{
    AVFilterInOut *from = avfilter_inout_alloc(), *to = avfilter_inout_alloc();
    char *whole = whole_text(text);
    int ret = from && to && whole ? 0 : AVERROR(ENOMEM);
    if (ret >= 0) {
        *from = (AVFilterInOut){.name = av_strdup("in"), .filter_ctx = t->src};
        *to = (AVFilterInOut){.name = av_strdup("out"), .filter_ctx = t->sink};
        ret = from->name && to->name ? avfilter_graph_parse_ptr(t->graph, whole, &to, &from, NULL) : AVERROR(ENOMEM);
    }
    avfilter_inout_free(&from);
    avfilter_inout_free(&to);
    free(whole);
    return ret;
}

static int make_graph(tachy_filter *t, const char *text, const struct tachy_video_info *info)
{
    t->graph = avfilter_graph_alloc();
    t->frame = av_frame_alloc();
    int ret = t->graph && t->frame ? make_source(t, info) : AVERROR(ENOMEM);
    if (ret >= 0)
        ret = avfilter_graph_create_filter(&t->sink, avfilter_get_by_name("buffersink"), "out", NULL, NULL, t->graph);
    if (ret >= 0)
        ret = link_ends(t, text);
    return ret < 0 ? ret : avfilter_graph_config(t->graph, NULL);
}

// A rate that has changed leaves the number of pictures open.
static void describe(const tachy_filter *t, struct tachy_video_info *info)
{
    AVRational tb = av_buffersink_get_time_base(t->sink), fps = av_buffersink_get_frame_rate(t->sink),
               sar = av_buffersink_get_sample_aspect_ratio(t->sink);
    bool same = fps.num && info->fps.num && !av_cmp_q(fps, (AVRational){info->fps.num, info->fps.den});
    info->frames = same ? info->frames : 0;
    info->format = tachy_pix_from_av(av_buffersink_get_format(t->sink));
    info->width = av_buffersink_get_w(t->sink);
    info->height = av_buffersink_get_h(t->sink);
    info->time_base = (struct tachy_rational){tb.num, tb.den};
    info->fps = fps.num > 0 && fps.den > 0 ? (struct tachy_rational){fps.num, fps.den} : info->fps;
    info->sar = (struct tachy_rational){sar.num, TACHY_MAX(sar.den, 1)};
}

int tachy_filter_open(tachy_filter **out, const char *text, const char *option, struct tachy_video_info *info,
                      const struct tachy_log *log)
{
    char why[128];
    tachy_filter *t = *out = calloc(1, sizeof(*t));
    if (!t)
        return TACHY_ERR_NOMEM;
    t->log = log;
    t->option = option;
    t->in = (struct tachy_convert_to){info->format, info->width, info->height, info->color};
    locale_t before = tachy_numeric_enter(); // FFmpeg reads options by it
    int ret = make_graph(t, text, info);
    tachy_numeric_leave(before);
    if (ret >= 0) {
        describe(t, info);
        return TACHY_OK;
    }
    tachy_filter_close(out);
    return tachy_fail(log, ret == AVERROR(ENOMEM) ? TACHY_ERR_NOMEM : TACHY_ERR_INVAL,
                      "%s %.80s: FFmpeg cannot make these filters (%s); `ffmpeg -filters` lists them", option, text,
                      tachy_av_text(ret, why));
}

// ---- Pictures

static int failed(const tachy_filter *t, int ret)
{
    char why[128];
    return tachy_fail(t->log, ret == AVERROR(ENOMEM) ? TACHY_ERR_NOMEM : TACHY_ERR_EXTERNAL, "%s: the filters failed: %s",
                      t->option, tachy_av_text(ret, why));
}

int tachy_filter_send(tachy_filter *t, tachy_frame *f)
{
    tachy_frame *fit = NULL;
    AVFrame *av = NULL;
    int err = f ? tachy_frame_need_host(f, t->log, t->option) : TACHY_OK;
    if (err < 0)
        return err;
    bool same = !f || (f->format == t->in.format && f->width == t->in.width && f->height == t->in.height);
    if (f && !same)
        err = tachy_convert_frame(&t->convert, f, &t->in, &fit, t->log);
    if (f && err == TACHY_OK)
        err = tachy_frame_to_av(&av, same ? f : fit);
    t->jumps |= f && f->discontinuity;
    int ret = err < 0 ? 0 : av_buffersrc_add_frame(t->src, av);
    av_frame_free(&av);
    tachy_frame_unref(&fit);
    return err < 0 ? err : ret < 0 && ret != AVERROR_EOF ? failed(t, ret) : TACHY_OK;
}

int tachy_filter_receive(tachy_filter *t, tachy_frame **out)
{
    *out = NULL;
    int ret = av_buffersink_get_frame(t->sink, t->frame);
    if (ret == AVERROR(EAGAIN) || ret == AVERROR_EOF)
        return ret == AVERROR_EOF ? TACHY_ERR_EOF : TACHY_ERR_AGAIN;
    if (ret < 0)
        return failed(t, ret);
    int err = tachy_frame_from_av(out, t->frame);
    av_frame_unref(t->frame);
    if (err == TACHY_OK) {
        (*out)->duration = 0; // many filters leave that of the picture that went in
        (*out)->discontinuity = t->jumps;
        t->jumps = false;
    }
    return err;
}

void tachy_filter_close(tachy_filter **filter)
{
    tachy_filter *t = *filter;
    if (!t)
        return;
    *filter = NULL;
    avfilter_graph_free(&t->graph);
    av_frame_free(&t->frame);
    tachy_convert_close(&t->convert);
    free(t);
}
