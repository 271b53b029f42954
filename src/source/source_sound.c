#include "base/cepstrum.h"
#include "base/sound.h"
#include "source/file_priv.h"

#include <libavutil/tx.h>
#include <libswresample/swresample.h>
#include <math.h>
#include <stdlib.h>

// The sound of a file as pictures (base/sound.h), at a constant rate; the sound itself goes to the side as that of a video does.

enum { RATE = TACHY_CEPSTRUM_RATE, FOURIER = 2048, DEFAULT_FPS = 25, CEPSTRA_FPS = 100, CEPSTRA = 2, HOUR = 3600 * RATE };

struct sound {
    struct file file; // first: input and side are the file source's
    AVStream *st;
    AVCodecContext *dec;
    AVFrame *piece;
    SwrContext *swr;
    int swr_rate, swr_format;
    AVChannelLayout swr_layout;
    float *sample;    // mono, RATE a second
    int nb, room;
    int64_t at;       // number of sample[0], from the start that was asked for; negative before it
    bool placed;      // `at` is known
    bool ended;
    int64_t next, last; // frames: the next one, and one past the last that -t allows
    AVTXContext *tx;
    av_tx_fn fourier;
    float window[FOURIER], in[FOURIER], out[FOURIER + 2];
    int width;        // of the window, samples
    bool cepstra;     // the frames are those
    double cepstrum_in[TACHY_CEPSTRUM_FOURIER], cepstrum_out[2 * TACHY_CEPSTRUM_BINS];
    int edge[TACHY_SOUND_BANDS + 1]; // bins
};

static struct sound *sound_of(tachy_source *s) { return (struct sound *)(void *)s->priv; }

static bool sound_probe(const char *url) { return false; } // only tachy_source_params.sound asks for it

// ---- Opening

static int open_decoder(tachy_source *s)
{
    struct sound *p = sound_of(s);
    AVFormatContext *fmt = p->file.in.fmt;
    int i = av_find_best_stream(fmt, AVMEDIA_TYPE_AUDIO, -1, -1, NULL, 0);
    if (i < 0)
        return tachy_fail(s->params.log, TACHY_ERR_FORMAT, "%s: holds no sound", s->url);
    p->st = fmt->streams[i];
    const AVCodec *codec = avcodec_find_decoder(p->st->codecpar->codec_id);
    for (unsigned k = 0; k < fmt->nb_streams; k++)
        fmt->streams[k]->discard = AVDISCARD_ALL;
    p->st->discard = AVDISCARD_DEFAULT;
    if (!codec)
        return tachy_fail(s->params.log, TACHY_ERR_UNSUPPORTED, "%s: its sound (%s) cannot be decoded by this FFmpeg", s->url,
                          avcodec_get_name(p->st->codecpar->codec_id));
    p->dec = avcodec_alloc_context3(codec);
    p->piece = av_frame_alloc();
    p->file.packet = av_packet_alloc();
    if (!p->dec || !p->piece || !p->file.packet)
        return TACHY_ERR_NOMEM;
    p->dec->pkt_timebase = p->st->time_base;
    int e = avcodec_parameters_to_context(p->dec, p->st->codecpar);
    if (e >= 0)
        e = avcodec_open2(p->dec, codec, NULL);
    char text[128];
    return e < 0 ? tachy_fail(s->params.log, tachy_err_from_av(e), "%s: its sound (%s) cannot be decoded: %s", s->url, codec->name,
                              tachy_av_text(e, text))
                 : TACHY_OK;
}

// Two frames long, so that each moment counts in two frames and the mouth has no steps; bounded by what is transformed.
static int open_bands(struct sound *p, struct tachy_rational fps)
{
    float scale = 1;
    p->width = TACHY_CLAMP((int)(2.0 * RATE * fps.den / fps.num), 256, FOURIER);
    for (int i = 0; i < p->width; i++)
        p->window[i] = (float)(0.5 - 0.5 * cos(2 * M_PI * (i + 0.5) / p->width));
    for (int i = 0; i <= TACHY_SOUND_BANDS; i++)
        p->edge[i] = TACHY_MIN((int)(tachy_sound_edge(i) * FOURIER / RATE + 0.5), FOURIER / 2);
    return av_tx_init(&p->tx, &p->fourier, AV_TX_FLOAT_RDFT, 0, FOURIER, &scale, AV_TX_UNALIGNED) < 0 ? TACHY_ERR_NOMEM : TACHY_OK;
}

static int open_cepstra(struct sound *p)
{
    double scale = 1;
    p->width = TACHY_CEPSTRUM_WINDOW;
    return av_tx_init(&p->tx, &p->fourier, AV_TX_DOUBLE_RDFT, 0, TACHY_CEPSTRUM_FOURIER, &scale, AV_TX_UNALIGNED) < 0 ? TACHY_ERR_NOMEM
                                                                                                                     : TACHY_OK;
}

static int width_of(const struct sound *p) { return p->cepstra ? TACHY_CEPSTRA * (int)sizeof(float) : TACHY_SOUND_BANDS; }

static void describe(tachy_source *s, struct tachy_rational fps)
{
    struct sound *p = sound_of(s);
    const AVFormatContext *fmt = p->file.in.fmt;
    double length = fmt->duration > 0 ? (double)fmt->duration / AV_TIME_BASE : 0, rate = (double)fps.num / fps.den;
    length = TACHY_MAX(length - s->params.start, 0);
    p->last = INT64_MAX;
    if (s->params.duration > 0) {
        p->last = (int64_t)ceil(s->params.duration * rate - 1e-6);
        length = TACHY_MIN(length, s->params.duration);
    }
    s->info = (struct tachy_video_info){
        .format = TACHY_PIX_GRAY8, .width = width_of(p), .height = 1, .time_base = {fps.den, fps.num}, .fps = fps,
        .sar = {1, 1}, .frames = (int64_t)ceil(length * rate - 1e-6), .duration = length, .stereo = TACHY_STEREO_MONO,
        .color = {.range = AVCOL_RANGE_JPEG}, .codec = p->dec->codec->name};
}

static int sound_open(tachy_source *s)
{
    struct sound *p = sound_of(s);
    struct tachy_rational fps = s->params.rate.num ? s->params.rate : (struct tachy_rational){DEFAULT_FPS, 1};
    p->cepstra = s->params.sound == CEPSTRA;
    if (p->cepstra)
        fps = (struct tachy_rational){CEPSTRA_FPS, 1};
    if (s->params.loop)
        return tachy_fail(s->params.log, TACHY_ERR_INVAL, "%s: sound is not read again and again; leave --loop out", s->url);
    p->file.in.stop = s->params.stop;
    p->file.in.timeout = s->params.timeout;
    int err = file_input_open(&p->file.in, s->url, s->params.rate, s->params.log);
    if (err == TACHY_OK)
        err = open_decoder(s);
    if (err < 0)
        return err;
    p->file.zero_us = TACHY_MAX(p->file.in.fmt->start_time, 0); // AV_NOPTS_VALUE is far below
    if (s->side)
        err = file_side_open(s);
    if (err == TACHY_OK)
        err = p->cepstra ? open_cepstra(p) : open_bands(p, fps);
    if (err == TACHY_OK)
        describe(s, fps);
    return err;
}

// ---- Samples

static int grow(struct sound *p, int more)
{
    if (p->nb + more <= p->room)
        return TACHY_OK;
    int room = 2 * (p->nb + more);
    float *sample = realloc(p->sample, (size_t)room * sizeof(*sample));
    if (!sample)
        return TACHY_ERR_NOMEM;
    p->sample = sample;
    p->room = room;
    return TACHY_OK;
}

// The resampler for what the decoder gives now.
static int fit_resampler(struct sound *p)
{
    const AVFrame *f = p->piece;
    AVChannelLayout mono = AV_CHANNEL_LAYOUT_MONO; // FFmpeg 5 takes no const one
    AVChannelLayout layout = {0};
    if (p->swr && p->swr_rate == f->sample_rate && p->swr_format == f->format && !av_channel_layout_compare(&p->swr_layout, &f->ch_layout))
        return 0;
    swr_free(&p->swr);
    p->swr_rate = f->sample_rate;
    p->swr_format = f->format;
    int e = av_channel_layout_copy(&p->swr_layout, &f->ch_layout);
    if (e >= 0 && f->ch_layout.order == AV_CHANNEL_ORDER_UNSPEC)
        av_channel_layout_default(&layout, f->ch_layout.nb_channels);
    else if (e >= 0)
        e = av_channel_layout_copy(&layout, &f->ch_layout);
    if (e >= 0)
        e = swr_alloc_set_opts2(&p->swr, &mono, AV_SAMPLE_FMT_FLT, RATE, &layout, f->format, f->sample_rate, 0, NULL);
    av_channel_layout_uninit(&layout);
    return e < 0 ? e : swr_init(p->swr);
}

// A decoded piece, or NULL for what the resampler still holds.
static int append(struct sound *p, const AVFrame *f)
{
    int most = p->swr ? swr_get_out_samples(p->swr, f ? f->nb_samples : 0) : 0;
    if (most <= 0)
        return TACHY_OK;
    if (grow(p, most) < 0)
        return TACHY_ERR_NOMEM;
    uint8_t *to = (uint8_t *)(p->sample + p->nb);
    int n = swr_convert(p->swr, &to, most, f ? (const uint8_t **)(uintptr_t)f->extended_data : NULL, f ? f->nb_samples : 0);
    p->nb += TACHY_MAX(n, 0);
    return n < 0 ? TACHY_ERR_FORMAT : TACHY_OK;
}

// All pieces that the decoder has.
static int take_pieces(tachy_source *s)
{
    struct sound *p = sound_of(s);
    char text[128];
    int e, err = TACHY_OK;
    while (err == TACHY_OK && (e = avcodec_receive_frame(p->dec, p->piece)) >= 0) {
        if (!p->placed) {
            int64_t t = p->piece->best_effort_timestamp;
            int64_t us = t == AV_NOPTS_VALUE ? 0 : av_rescale_q(t, p->st->time_base, AV_TIME_BASE_Q) - p->file.zero_us;
            p->at = tachy_time_ok(us, 1e-6) ? llrint(((double)us / AV_TIME_BASE - s->params.start) * RATE) : 0;
            p->placed = true;
        }
        e = p->piece->sample_rate > 0 ? fit_resampler(p) : AVERROR_INVALIDDATA;
        if (e < 0)
            file_damaged(s, "a piece of sound cannot be converted", tachy_av_text(e, text));
        else
            err = append(p, p->piece);
        av_frame_unref(p->piece);
    }
    return err;
}

// One packet, into the decoder and the side.
static int read_packet(tachy_source *s)
{
    struct sound *p = sound_of(s);
    AVPacket *packet = p->file.packet;
    char text[128];
    int e = file_input_read(&p->file.in, packet);
    if (e == AVERROR(EAGAIN))
        return TACHY_OK;
    if (e < 0) {
        p->ended = true;
        if (p->file.in.silent)
            return file_input_silent(&p->file.in, s->url, s->params.log);
        if (e == AVERROR_EXIT)
            return TACHY_ERR_INTERRUPTED;
        if (e != AVERROR_EOF)
            file_damaged(s, "sound cannot be read", tachy_av_text(e, text));
        avcodec_send_packet(p->dec, NULL);
        int err = take_pieces(s);
        return err < 0 ? err : append(p, NULL);
    }
    int err = TACHY_OK;
    if (packet->stream_index == p->st->index) {
        e = avcodec_send_packet(p->dec, packet);
        if (e < 0 && e != AVERROR(EAGAIN))
            file_damaged(s, "a packet of sound cannot be decoded", tachy_av_text(e, text));
        err = take_pieces(s);
    }
    if (s->side)
        file_side_put(s, packet);
    else
        av_packet_unref(packet);
    return err;
}

// Samples before number `to` are not needed any more.
static void drop(struct sound *p, int64_t to)
{
    int n = (int)TACHY_CLAMP(to - p->at, 0, p->nb);
    if (!n)
        return; // there may be no sample yet
    memmove(p->sample, p->sample + n, (size_t)(p->nb - n) * sizeof(*p->sample));
    p->at += n;
    p->nb -= n;
}

// ---- Pictures

// `begin`: number of the window's first sample.
static void hear(struct sound *p, int64_t begin, uint8_t row[TACHY_SOUND_BANDS])
{
    memset(p->in, 0, sizeof(p->in));
    for (int i = 0; i < p->width; i++) {
        int64_t k = begin + i - p->at;
        p->in[i] = k >= 0 && k < p->nb && isfinite(p->sample[k]) ? p->window[i] * p->sample[k] : 0;
    }
    p->fourier(p->tx, p->out, p->in, sizeof(float));
    // Parseval: the bins of a full-scale sine under Hann's window sum up to this.
    const double whole = (double)FOURIER * p->width * 3 / 32;
    for (int b = 0; b < TACHY_SOUND_BANDS; b++) {
        double power = 0;
        for (int i = p->edge[b]; i < p->edge[b + 1]; i++)
            power += (double)p->out[2 * i] * p->out[2 * i] + (double)p->out[2 * i + 1] * p->out[2 * i + 1];
        row[b] = tachy_sound_level(power / whole);
    }
}

static double code_at(const struct sound *p, int64_t i)
{
    int64_t k = i - p->at;
    return k >= 0 && k < p->nb && isfinite(p->sample[k]) ? TACHY_CLAMP(rint((double)p->sample[k] * 32768), -32768, 32767) : 0;
}

// `begin`: number of the window's first sample; the one before it is there as well.
static void hear_cepstrum(struct sound *p, int64_t begin, uint8_t *row)
{
    double power[TACHY_CEPSTRUM_BINS];
    float cepstrum[TACHY_CEPSTRA];
    memset(p->cepstrum_in, 0, sizeof(p->cepstrum_in));
    for (int i = 0; i < TACHY_CEPSTRUM_WINDOW; i++)
        if (begin + i < p->at + p->nb) // behind the end there is nothing, not a step to 0
            p->cepstrum_in[i] = code_at(p, begin + i) - 0.97 * code_at(p, begin + i - 1);
    p->fourier(p->tx, p->cepstrum_out, p->cepstrum_in, sizeof(double));
    for (int i = 0; i < TACHY_CEPSTRUM_BINS; i++) {
        double re = p->cepstrum_out[2 * i], im = p->cepstrum_out[2 * i + 1];
        power[i] = (re * re + im * im) / TACHY_CEPSTRUM_FOURIER;
    }
    tachy_cepstrum(power, cepstrum);
    memcpy(row, cepstrum, sizeof(cepstrum));
}

// Decodes up to sample number `end`; those before `keep` are not needed.
static int read_to(tachy_source *s, int64_t end, int64_t keep)
{
    struct sound *p = sound_of(s);
    int err = TACHY_OK;
    while (err == TACHY_OK && !p->ended && p->at + p->nb < end) {
        err = read_packet(s);
        drop(p, keep);
    }
    return err;
}

static int sound_read(tachy_source *s, tachy_frame **out)
{
    struct sound *p = sound_of(s);
    const struct tachy_rational fps = s->info.fps;
    if (p->next >= p->last)
        return TACHY_ERR_EOF;
    double length = (double)RATE * fps.den / fps.num;
    int64_t from = llrint((double)p->next * length);
    int64_t begin = p->cepstra ? from : llrint(((double)p->next + 0.5) * length) - p->width / 2, keep = begin - p->cepstra;
    drop(p, keep);
    if (p->at + p->nb < begin + p->width) {
        int err = read_to(s, begin + p->width + TACHY_MIN(s->params.sound_chunk, HOUR), keep);
        if (err < 0)
            return err;
    }
    if (p->cepstra && p->next) // the last window is the first that reaches the end
        from += TACHY_CEPSTRUM_WINDOW - RATE / CEPSTRA_FPS;
    if (p->at + p->nb <= from)
        return p->next ? TACHY_ERR_EOF : tachy_fail(s->params.log, TACHY_ERR_FORMAT, "%s: no sound could be decoded from there", s->url);
    int err = tachy_frame_new(out, &(struct tachy_frame_params){.format = TACHY_PIX_GRAY8, .width = width_of(p), .height = 1});
    if (err < 0)
        return err;
    if (p->cepstra)
        hear_cepstrum(p, begin, tachy_frame_writable(*out, 0));
    else
        hear(p, begin, tachy_frame_writable(*out, 0));
    (*out)->pts = p->next++;
    (*out)->duration = 1;
    (*out)->key = true;
    return TACHY_OK;
}

// On for the sake of the side.
static void sound_stop(tachy_source *s, double end)
{
    struct sound *p = sound_of(s);
    while (!p->ended && (double)(p->at + p->nb) < end * RATE && read_packet(s) == TACHY_OK)
        drop(p, p->at + p->nb);
}

static void sound_close(tachy_source *s)
{
    struct sound *p = sound_of(s);
    av_tx_uninit(&p->tx);
    swr_free(&p->swr);
    av_channel_layout_uninit(&p->swr_layout);
    avcodec_free_context(&p->dec);
    av_frame_free(&p->piece);
    av_packet_free(&p->file.packet);
    free(p->sample);
    free(p->file.side_of);
    free(p->file.side_dts);
    file_input_close(&p->file.in);
}

const struct tachy_source_ops tachy_source_sound = {
    .name = "sound",
    .priv_size = sizeof(struct sound),
    .probe = sound_probe,
    .open = sound_open,
    .read = sound_read,
    .stop = sound_stop,
    .close = sound_close,
};
