#include "media/side.h"
#include "test.h"

#include <libavutil/pixdesc.h>

#include <math.h>
#include <pthread.h>

TEST(formats_round_trip)
{
    for (int f = TACHY_PIX_NONE + 1; f < TACHY_PIX_COUNT; f++) {
        const struct tachy_pix_desc *d = tachy_pix_desc((enum tachy_pix)f);
        CHECK(d != NULL);
        CHECK_INT(tachy_pix_by_name(d->name), f);
        enum AVPixelFormat av = tachy_pix_to_av((enum tachy_pix)f);
        CHECK_INT(tachy_pix_from_av(av), f);
        CHECK_STR(av_get_pix_fmt_name(av), d->name);
    }
    CHECK(!tachy_pix_desc(TACHY_PIX_NONE) && !tachy_pix_desc(TACHY_PIX_COUNT));
    CHECK_INT(tachy_pix_by_name("rgb565"), TACHY_PIX_NONE);
    CHECK_INT(tachy_pix_by_name(NULL), TACHY_PIX_NONE);
    CHECK_INT(tachy_pix_from_av(AV_PIX_FMT_YUVJ422P), TACHY_PIX_YUV422P);
    CHECK_INT(tachy_pix_from_av(AV_PIX_FMT_PAL8), TACHY_PIX_NONE);
    CHECK_INT(tachy_pix_to_av((enum tachy_pix)99), AV_PIX_FMT_NONE);
}

// The descriptors against FFmpeg's own.
TEST(descriptors_agree_with_ffmpeg)
{
    for (int f = TACHY_PIX_NONE + 1; f < TACHY_PIX_COUNT; f++) {
        const struct tachy_pix_desc *d = tachy_pix_desc((enum tachy_pix)f);
        enum AVPixelFormat fmt = tachy_pix_to_av((enum tachy_pix)f);
        const AVPixFmtDescriptor *av = av_pix_fmt_desc_get(fmt);
        CHECK_INT(d->planes, av_pix_fmt_count_planes(fmt));
        CHECK_INT(d->bits, av->comp[0].depth);
        CHECK_INT(d->shift, av->comp[0].shift);
        CHECK_INT(d->bytes, (av->comp[0].depth + 7) / 8);
        CHECK_INT(d->chroma_shift_x, av->log2_chroma_w);
        CHECK_INT(d->chroma_shift_y, av->log2_chroma_h);
        CHECK_INT(d->rgb, !!(av->flags & AV_PIX_FMT_FLAG_RGB));
        CHECK_INT(d->alpha, !!(av->flags & AV_PIX_FMT_FLAG_ALPHA));
        for (int c = 0; c < av->nb_components; c++)
            CHECK_INT(d->components[av->comp[c].plane] * d->bytes, av->comp[c].step);
    }
}

TEST(frame_memory)
{
    tachy_frame *f = NULL;
    CHECK_INT(tachy_frame_new(&f, &(struct tachy_frame_params){0}), TACHY_ERR_INVAL);
    CHECK(!f);
    struct tachy_frame_params p = {.format = TACHY_PIX_YUV420P, .width = 7, .height = 5, .pts = 9};
    CHECK_INT(tachy_frame_new(&f, &p), TACHY_OK);
    CHECK_INT(f->pts, 9);
    for (int i = 0; i < 3; i++) {
        CHECK_INT((uintptr_t)f->data[i] % 64, 0);
        CHECK_INT(f->stride[i] % 64, 0);
        uint8_t *w = tachy_frame_writable(f, i);
        CHECK(w == f->data[i]);
        memset(w, i, (size_t)f->stride[i] * (i ? 3 : 5));
    }
    CHECK(!tachy_frame_writable(f, 3) && !tachy_frame_writable(f, -1));
    CHECK(tachy_frame_bytes(p.format, 7, 5) >= 64 * (5 + 3 + 3));
    CHECK_INT(tachy_frame_bytes(p.format, 0, 5), 0);
    tachy_frame *g = tachy_frame_ref(f);
    CHECK(!tachy_frame_writable(f, 0));
    tachy_frame_unref(&g);
    CHECK(!g && tachy_frame_writable(f, 0));
    tachy_frame_unref(&f);
    tachy_frame_unref(&f);
    tachy_frame_unref(NULL);
}

static void count_release(void *user) { ++*(int *)user; }

TEST(frame_wraps_memory)
{
    uint8_t pixels[4 * 4] = {0};
    int released = 0;
    tachy_frame *f = NULL;
    struct tachy_frame_params p = {.format = TACHY_PIX_GRAY8, .width = 5, .height = 4,
                                   .data = {pixels}, .stride = {4}, .release = count_release,
                                   .user = &released};
    CHECK_INT(tachy_frame_new(&f, &p), TACHY_ERR_INVAL); // a row is longer than the stride
    CHECK_INT(released, 0);
    p.width = 4;
    p.data[0] = pixels + 12; // bottom up
    p.stride[0] = -4;
    CHECK_INT(tachy_frame_new(&f, &p), TACHY_OK);
    CHECK(!tachy_frame_writable(f, 0));
    AVFrame *av = NULL;
    CHECK_INT(tachy_frame_to_av(&av, f), TACHY_OK);
    CHECK(av->data[0] == pixels + 12 && av->linesize[0] == -4);
    CHECK(av->buf[0]->data == pixels && av->buf[0]->size == 16);
    tachy_frame_unref(&f);
    CHECK_INT(released, 0);
    av_frame_free(&av);
    CHECK_INT(released, 1);
}

static AVFrame *decoded(enum AVPixelFormat format, int width, int height)
{
    AVFrame *av = av_frame_alloc();
    av->format = format;
    av->width = width;
    av->height = height;
    CHECK(av_frame_get_buffer(av, 0) >= 0);
    return av;
}

TEST(from_av_and_back_without_a_copy)
{
    AVFrame *av = decoded(AV_PIX_FMT_YUVJ420P, 33, 17);
    const uint8_t *luma = av->data[0];
    av->pts = 1234;
    av->colorspace = AVCOL_SPC_BT709;
    av->color_primaries = AVCOL_PRI_BT709;
    av->color_trc = AVCOL_TRC_BT709;
    av->chroma_location = AVCHROMA_LOC_CENTER;
    CHECK(av_frame_new_side_data(av, AV_FRAME_DATA_A53_CC, 3) != NULL);
    tachy_frame *f = NULL;
    CHECK_INT(tachy_frame_from_av(&f, av), TACHY_OK);
    CHECK(!av->buf[0]);
    av_frame_free(&av);
    CHECK(f->data[0] == luma);
    CHECK_INT(f->format, TACHY_PIX_YUV420P);
    CHECK_INT(f->pts, 1234);
    CHECK_INT(f->color.range, 2);
    CHECK_INT(f->color.matrix, 1);
    CHECK_INT(f->color.chroma_loc, 2);
    CHECK(!tachy_frame_writable(f, 0)); // a decoder's picture is never written

    f->pts = 77;
    AVFrame *back = NULL;
    CHECK_INT(tachy_frame_to_av(&back, f), TACHY_OK);
    tachy_frame_unref(&f);
    CHECK(back->data[0] == luma);
    CHECK_INT(back->format, AV_PIX_FMT_YUV420P);
    CHECK_INT(back->color_range, AVCOL_RANGE_JPEG);
    CHECK_INT(back->pts, 77);
    CHECK(av_frame_get_side_data(back, AV_FRAME_DATA_A53_CC) != NULL);
    av_frame_free(&back);

    av = decoded(AV_PIX_FMT_RGB565LE, 8, 8);
    CHECK_INT(tachy_frame_from_av(&f, av), TACHY_ERR_INVAL);
    CHECK(!f && av->buf[0]); // still the caller's
    av_frame_free(&av);
}

TEST(own_frame_to_av_is_read_only_and_outlives_the_frame)
{
    tachy_frame *f = NULL;
    struct tachy_frame_params p = {.format = TACHY_PIX_YUVA420P, .width = 15, .height = 9};
    CHECK_INT(tachy_frame_new(&f, &p), TACHY_OK);
    for (int i = 0; i < 4; i++)
        memset(tachy_frame_writable(f, i), 10 * i, (size_t)f->stride[i] * (i % 3 ? 5 : 9));
    AVFrame *av = NULL;
    CHECK_INT(tachy_frame_to_av(&av, f), TACHY_OK);
    tachy_frame_unref(&f);
    CHECK(!av_frame_is_writable(av));
    CHECK_INT(av->colorspace, AVCOL_SPC_UNSPECIFIED); // zeros are not the RGB matrix
    CHECK_INT(av->data[3][av->linesize[3] * 8 + 14], 30);
    AVFrame *copy = av_frame_clone(av);
    av_frame_free(&av);
    CHECK_INT(copy->data[2][copy->linesize[2] * 4 + 7], 20);
    av_frame_free(&copy);
}

TEST(pool_recycles)
{
    tachy_frame_pool *p = NULL;
    CHECK_INT(tachy_frame_pool_open(&p, TACHY_PIX_NV12, 0, 4), TACHY_ERR_INVAL);
    CHECK_INT(tachy_frame_pool_open(&p, TACHY_PIX_NV12, 66, 34), TACHY_OK);
    tachy_frame *a = NULL, *b = NULL;
    CHECK_INT(tachy_frame_pool_get(p, &a), TACHY_OK);
    const uint8_t *memory = a->data[0];
    CHECK(tachy_frame_writable(a, 1) == a->data[1]);
    a->id = 5;
    a->discontinuity = 1;
    tachy_frame_unref(&a);
    CHECK_INT(tachy_frame_pool_get(p, &a), TACHY_OK);
    CHECK(a->data[0] == memory && a->id == 0 && !a->discontinuity);
    CHECK_INT(tachy_frame_pool_get(p, &b), TACHY_OK);
    CHECK(b->data[0] != memory);
    tachy_frame_unref(&b);
    tachy_frame_pool_close(&p); // one frame is out, one is idle
    CHECK(!p);
    memset(tachy_frame_writable(a, 0), 1, (size_t)a->stride[0] * 34);
    tachy_frame_unref(&a);
    tachy_frame_pool_close(&p);
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *get_and_put(void *arg)
{
    tachy_frame *held[3] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        tachy_frame **f = &held[i % 3];
        tachy_frame_unref(f);
        if (tachy_frame_pool_get(arg, f))
            return arg;
        *tachy_frame_writable(*f, 0) = (uint8_t)i;
    }
    for (int i = 0; i < 3; i++)
        tachy_frame_unref(&held[i]);
    return NULL;
}

TEST(pool_is_thread_safe)
{
    tachy_frame_pool *p = NULL;
    CHECK_INT(tachy_frame_pool_open(&p, TACHY_PIX_GRAY8, 16, 16), TACHY_OK);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, get_and_put, p), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        CHECK(!failed);
    }
    tachy_frame_pool_close(&p);
}

TEST(color_resolves)
{
    struct tachy_color none = {0}, c;
    c = tachy_color_resolve(none, TACHY_PIX_YUV420P, 1280, 720);
    CHECK(c.matrix == 1 && c.primaries == 1 && c.transfer == 1 && c.range == 1 && c.chroma_loc == 1);
    c = tachy_color_resolve(none, TACHY_PIX_NV12, 720, 480);
    CHECK(c.matrix == 6 && c.primaries == 6 && c.transfer == 6 && c.range == 1);
    c = tachy_color_resolve(none, TACHY_PIX_NV12, 720, 576);
    CHECK(c.matrix == 6 && c.primaries == 5);
    c = tachy_color_resolve(none, TACHY_PIX_NV12, 1000, 577);
    CHECK(c.matrix == 1);
    c = tachy_color_resolve((struct tachy_color){.primaries = 9, .transfer = 16, .matrix = 2},
                            TACHY_PIX_P010, 3840, 2160);
    CHECK(c.matrix == 9 && c.transfer == 16 && c.range == 1);
    c = tachy_color_resolve((struct tachy_color){2, 2, 2, 0, 0}, TACHY_PIX_BGRA, 4, 4);
    CHECK(c.matrix == 0 && c.primaries == 1 && c.transfer == 13 && c.range == 2);
    c = tachy_color_resolve((struct tachy_color){5, 5, 4, 2, 3}, TACHY_PIX_YUV420P, 1920, 1080);
    CHECK(c.matrix == 5 && c.primaries == 5 && c.transfer == 4 && c.range == 2 && c.chroma_loc == 3);
    CHECK_INT(tachy_color_resolve(none, TACHY_PIX_GRAY8, 64, 64).range, 2);
}

TEST(errors_map)
{
    char text[128];
    CHECK_INT(tachy_err_from_av(0), TACHY_OK);
    CHECK_INT(tachy_err_from_av(AVERROR_EOF), TACHY_ERR_EOF);
    CHECK_INT(tachy_err_from_av(AVERROR(EAGAIN)), TACHY_ERR_AGAIN);
    CHECK_INT(tachy_err_from_av(AVERROR(ENOMEM)), TACHY_ERR_NOMEM);
    CHECK_INT(tachy_err_from_av(AVERROR(ENOSPC)), TACHY_ERR_NO_SPACE);
    CHECK_INT(tachy_err_from_av(AVERROR(ENOENT)), TACHY_ERR_NOT_FOUND);
    CHECK_INT(tachy_err_from_av(AVERROR_INVALIDDATA), TACHY_ERR_FORMAT);
    CHECK_INT(tachy_err_from_av(AVERROR_DECODER_NOT_FOUND), TACHY_ERR_UNSUPPORTED);
    CHECK_STR(tachy_av_text(AVERROR_EOF, text), "End of file");
    CHECK(strlen(tachy_av_text(-987654321, text)) > 0);
}

static tachy_side *side_with(int streams, const enum AVMediaType *types)
{
    tachy_side *s = NULL;
    CHECK_INT(tachy_side_new(&s), TACHY_OK);
    s->streams = calloc((size_t)streams, sizeof(*s->streams));
    s->nb_streams = streams;
    for (int i = 0; i < streams; i++) {
        s->streams[i].par = avcodec_parameters_alloc();
        s->streams[i].par->codec_type = types[i];
        s->streams[i].time_base = (AVRational){1, 1000};
    }
    return s;
}

static int put(tachy_side *s, int stream, int64_t dts, int size)
{
    AVPacket *p = av_packet_alloc();
    if (size)
        CHECK(av_new_packet(p, size) >= 0);
    p->stream_index = stream;
    p->dts = dts;
    int err = tachy_side_put(s, p);
    CHECK(!p->buf); // taken over on success and on failure
    av_packet_free(&p);
    return err;
}

TEST(side_gives_packets_in_order_of_time)
{
    const enum AVMediaType types[] = {AVMEDIA_TYPE_AUDIO, AVMEDIA_TYPE_SUBTITLE};
    tachy_side *s = side_with(2, types);
    CHECK_INT(put(s, 2, 0, 1), TACHY_ERR_INVAL);
    CHECK_INT(put(s, 0, 0, 10), TACHY_OK);
    CHECK_INT(put(s, 0, 500, 10), TACHY_OK);
    CHECK_INT(put(s, 0, AV_NOPTS_VALUE, 10), TACHY_OK); // stays after its predecessor
    CHECK_INT(put(s, 1, 250, 10), TACHY_OK);
    AVPacket *p = av_packet_alloc();
    CHECK_INT(tachy_side_take(s, -1, p), TACHY_ERR_AGAIN);
    const int64_t want[] = {0, 250, 500, AV_NOPTS_VALUE};
    for (int i = 0; i < 4; i++) {
        CHECK_INT(tachy_side_take(s, i < 2 ? 0.25 : 0.5, p), TACHY_OK);
        CHECK_INT(p->dts, want[i]);
        av_packet_unref(p);
    }
    CHECK_INT(tachy_side_take(s, INFINITY, p), TACHY_ERR_AGAIN);
    CHECK_INT(put(s, 1, 900, 1), TACHY_OK);
    tachy_side_end(s);
    CHECK_INT(tachy_side_take(s, 0.5, p), TACHY_ERR_AGAIN);
    CHECK_INT(tachy_side_take(s, INFINITY, p), TACHY_OK);
    av_packet_unref(p);
    CHECK_INT(tachy_side_take(s, INFINITY, p), TACHY_ERR_EOF);
    CHECK_INT(put(s, 0, 1000, 10), TACHY_OK); // freed with the side
    av_packet_free(&p);
    tachy_side_unref(&s);
}

TEST(side_trims_and_resets)
{
    const enum AVMediaType types[] = {AVMEDIA_TYPE_AUDIO, AVMEDIA_TYPE_AUDIO};
    tachy_side *s = side_with(2, types);
    for (int i = 0; i < 10; i++)
        CHECK_INT(put(s, i % 2, 100 * i, 4), TACHY_OK);
    tachy_side_trim(s, 0.5);
    CHECK_INT(put(s, 1, 1000, 4), TACHY_OK); // the lists are whole
    AVPacket *p = av_packet_alloc();
    int n = 0;
    while (!tachy_side_take(s, 0.9, p)) {
        CHECK_INT(p->dts, 100 * n++);
        av_packet_unref(p);
    }
    CHECK_INT(n, 5);
    CHECK_INT(tachy_side_take(s, 1, p), TACHY_OK);
    av_packet_unref(p);
    CHECK_INT(put(s, 0, 0, 4), TACHY_OK);
    tachy_side_reset(s);
    tachy_side_end(s);
    CHECK_INT(tachy_side_take(s, INFINITY, p), TACHY_ERR_EOF);
    av_packet_free(&p);
    tachy_side_unref(&s);
}

TEST(side_is_bounded)
{
    const enum AVMediaType types[] = {AVMEDIA_TYPE_AUDIO, AVMEDIA_TYPE_DATA};
    tachy_side *s = side_with(2, types);
    const int part = (int)(TACHY_SIDE_MAX_BYTES / 4);
    tachy_side *sink = tachy_side_ref(s);
    CHECK_INT(put(s, 0, 0, part), TACHY_OK);
    CHECK_INT(put(s, 1, 0, part), TACHY_OK);
    CHECK_INT(put(s, 0, 1, part), TACHY_OK);
    CHECK_INT(put(s, 1, 1, part), TACHY_OK);
    CHECK(!tachy_side_given_up(s, 1));
    CHECK_INT(put(s, 0, 2, part), TACHY_OK); // the data stream makes room
    CHECK(tachy_side_given_up(s, 1) && !tachy_side_given_up(s, 0));
    CHECK_INT(put(s, 1, 2, 1), TACHY_ERR_LIMIT);
    CHECK_INT(put(s, 0, 3, part), TACHY_OK);
    CHECK_INT(put(s, 0, 4, part), TACHY_ERR_LIMIT); // audio only is left
    CHECK(!tachy_side_given_up(s, 0));
    AVPacket *p = av_packet_alloc();
    CHECK_INT(tachy_side_take(sink, INFINITY, p), TACHY_OK);
    av_packet_free(&p);
    CHECK_INT(put(s, 0, 5, part), TACHY_OK);
    tachy_side_unref(&sink);
    tachy_side_unref(&s);
}

static void *put_many(void *arg)
{
    for (int i = 0; i < ROUNDS; i++)
        put(arg, i % 2, i, 3);
    tachy_side_end(arg);
    return NULL;
}

TEST(side_is_thread_safe)
{
    const enum AVMediaType types[] = {AVMEDIA_TYPE_AUDIO, AVMEDIA_TYPE_AUDIO};
    tachy_side *s = side_with(2, types);
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, put_many, s), 0);
    AVPacket *p = av_packet_alloc();
    int64_t last[2] = {-1, -1};
    int taken = 0, err;
    while ((err = tachy_side_take(s, INFINITY, p)) != TACHY_ERR_EOF) {
        if (err)
            continue;
        CHECK(p->dts > last[p->stream_index]);
        last[p->stream_index] = p->dts;
        taken++;
        av_packet_unref(p);
    }
    CHECK_INT(taken, ROUNDS);
    pthread_join(thread, NULL);
    av_packet_free(&p);
    tachy_side_unref(&s);
}

TEST_MAIN(TEST_CASE(formats_round_trip), TEST_CASE(descriptors_agree_with_ffmpeg),
          TEST_CASE(frame_memory), TEST_CASE(frame_wraps_memory),
          TEST_CASE(from_av_and_back_without_a_copy),
          TEST_CASE(own_frame_to_av_is_read_only_and_outlives_the_frame), TEST_CASE(pool_recycles),
          TEST_CASE(pool_is_thread_safe), TEST_CASE(color_resolves), TEST_CASE(errors_map),
          TEST_CASE(side_gives_packets_in_order_of_time), TEST_CASE(side_trims_and_resets), TEST_CASE(side_is_bounded),
          TEST_CASE(side_is_thread_safe))
