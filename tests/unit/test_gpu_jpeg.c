#include "test.h"

#include "base/base.h"
#include "fakes/fake.h"
#include "fakes/symbol.h"
#include "media/convert.h"
#include "media/frame_priv.h"

#include <libavcodec/avcodec.h>
#include <tachy/source.h>
#include <unistd.h>

// Sequences of JPEG pictures decoded on a GPU, over a driver and an nvJPEG without one (fakes/), which decodes as FFmpeg does: what
// comes out is what comes from the CPU, also of pictures that the engines do not take. Pictures are FFmpeg's encoder's.

enum { PICTURES = 80, W = 64, H = 48, ZERO = 21, EXTENDED = 30, NO_END = 40 };

static char folder[64], last_message[1024];
static void on_message(void *user, enum tachy_log_level level, const char *msg)
{
    snprintf(last_message, sizeof(last_message), "%s", msg);
}
static const struct tachy_log log_all = {.fn = on_message, .max_level = TACHY_LOG_INFO};

static int (*open_states)(void);
static int (*decoded)(void);
static void (*set_none)(int is);

static AVFrame *paint(enum AVPixelFormat format, int w, int h, int n)
{
    AVFrame *f = av_frame_alloc();
    f->format = format;
    f->width = w;
    f->height = h;
    f->color_range = AVCOL_RANGE_JPEG;
    CHECK(av_frame_get_buffer(f, 0) >= 0);
    for (int i = 0; i < 3 && f->data[i]; i++)
        for (int y = 0; y < (i && format == AV_PIX_FMT_YUVJ420P ? h / 2 : h); y++)
            for (int x = 0; x < f->linesize[i]; x++)
                f->data[i][y * f->linesize[i] + x] = (uint8_t)(n * 3 + (x + 2 * y) * (i + 1));
    return f;
}

static void save(int n, const uint8_t *data, size_t size)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%03d.jpg", folder, n);
    FILE *to = fopen(path, "wb");
    CHECK(to && fwrite(data, 1, size, to) == size && !fclose(to));
}

static void write_picture(enum AVPixelFormat format, int w, int h, int n, bool odd)
{
    AVCodecContext *enc = avcodec_alloc_context3(avcodec_find_encoder(AV_CODEC_ID_MJPEG));
    AVPacket *p = av_packet_alloc();
    AVFrame *f = paint(format, w, h, n);
    enc->pix_fmt = format;
    enc->width = w;
    enc->height = h;
    enc->color_range = AVCOL_RANGE_JPEG;
    enc->time_base = (AVRational){1, 25};
    CHECK(avcodec_open2(enc, NULL, NULL) >= 0 && avcodec_send_frame(enc, f) >= 0 && avcodec_receive_packet(enc, p) >= 0);
    for (int i = 0; odd && n == EXTENDED && i + 1 < p->size; i++)
        if (p->data[i] == 0xff && p->data[i + 1] == 0xc0) {
            p->data[i + 1] = 0xc1; // the same by the extended process
            break;
        }
    if (odd && n == ZERO)
        av_grow_packet(p, 1); // with a zero, which the fake refuses
    save(n, p->data, (size_t)(odd && n == NO_END ? p->size - 2 : p->size));
    av_frame_free(&f);
    av_packet_free(&p);
    avcodec_free_context(&enc);
}

static tachy_source *open_all(bool gpu, int decoders)
{
    char url[128];
    tachy_source *s = NULL;
    snprintf(url, sizeof(url), "%s/%%03d.jpg", folder);
    CHECK_INT(tachy_source_open(&s, tachy_source_params(.url = url, .decode = gpu ? TACHY_DECODE_AUTO : TACHY_DECODE_CPU, .on_gpu = gpu,
                                                        .decoders = decoders, .log = &log_all)),
              TACHY_OK);
    return s;
}

static void check_same(const tachy_frame *a, const tachy_frame *b)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(a->format);
    CHECK(a->format == b->format && a->width == b->width && a->height == b->height);
    CHECK(a->id == b->id && a->pts == b->pts && a->duration == b->duration && a->key == b->key);
    CHECK_INT(a->discontinuity, b->discontinuity);
    CHECK(!memcmp(&a->color, &b->color, sizeof(a->color)));
    for (int i = 0; i < d->planes; i++)
        for (int y = 0; y < tachy_plane_rows(d, i, a->height); y++)
            CHECK(!memcmp(a->data[i] + y * a->stride[i], b->data[i] + y * b->stride[i], tachy_plane_row_bytes(d, i, a->width)));
}

// All pictures from the GPU against those from the CPU; `elsewhere` of them are the CPU's in both.
static void compare(int decoders, int elsewhere)
{
    int before = decoded();
    tachy_source *cpu = open_all(false, 1), *gpu = open_all(true, decoders);
    int on_host = 0;
    CHECK_INT(tachy_source_info(gpu)->mem, TACHY_DEVICE);
    CHECK_INT(tachy_source_info(gpu)->format, tachy_source_info(cpu)->format);
    for (int n = 0; n < PICTURES; n++) {
        tachy_frame *a = NULL, *b = NULL;
        CHECK_INT(tachy_source_read(cpu, &a), TACHY_OK);
        CHECK_INT(tachy_source_read(gpu, &b), TACHY_OK);
        if (a && b)
            check_same(a, b);
        on_host += b && b->mem == TACHY_HOST;
        tachy_frame_unref(&a);
        tachy_frame_unref(&b);
    }
    tachy_frame *none = NULL;
    CHECK_INT(tachy_source_read(gpu, &none), TACHY_ERR_EOF);
    CHECK_INT(decoded() - before, PICTURES - elsewhere);
    CHECK_INT(on_host, elsewhere);
    tachy_source_close(&cpu);
    tachy_source_close(&gpu);
    CHECK_INT(open_states(), 0);
}

TEST(every_kind)
{
    static const enum AVPixelFormat kinds[] = {AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_YUVJ422P, AV_PIX_FMT_YUVJ444P};
    for (size_t k = 0; k < TACHY_ARRAY_SIZE(kinds); k++) {
        for (int n = 0; n < PICTURES; n++)
            write_picture(kinds[k], W, H, n, false);
        compare(1, 0);
        compare(3, 0);
    }
}

TEST(pictures_that_the_engines_do_not_take)
{
    for (int n = 0; n < PICTURES; n++)
        write_picture(AV_PIX_FMT_YUVJ420P, W, H, n, true);
    compare(1, 3);
    CHECK(strstr(last_message, "some pictures are decoded on the CPU: nvJPEG does not take them"));
    compare(3, 3);
}

TEST(the_size_changes)
{
    for (int n = 0; n < PICTURES; n++)
        write_picture(AV_PIX_FMT_YUVJ420P, n < 50 ? W : 2 * W, H, n, false);
    compare(1, 0);
    compare(3, 0);
}

TEST(a_gpu_without_engines)
{
    for (int n = 0; n < PICTURES; n++)
        write_picture(AV_PIX_FMT_YUVJ420P, W, H, n, false);
    set_none(1);
    tachy_source *s = open_all(true, 1);
    CHECK_INT(tachy_source_info(s)->mem, TACHY_HOST);
    CHECK(strstr(last_message, "has no engines that decode JPEG pictures"));
    tachy_source_close(&s);
    set_none(0);
}

TEST(opens)
{
    open_states = (__typeof__(open_states))fake_symbol("libnvjpeg.so.13", "fake_nvjpeg_open");
    decoded = (__typeof__(decoded))fake_symbol("libnvjpeg.so.13", "fake_nvjpeg_decoded");
    set_none = (__typeof__(set_none))fake_symbol("libnvjpeg.so.13", "fake_nvjpeg_none");
    snprintf(folder, sizeof(folder), "/tmp/tachy-jpeg-XXXXXX");
    CHECK(mkdtemp(folder));
}

TEST(cleans)
{
    char path[128];
    for (int n = 0; n < PICTURES; n++) {
        snprintf(path, sizeof(path), "%s/%03d.jpg", folder, n);
        unlink(path);
    }
    CHECK_INT(rmdir(folder), 0);
}

TEST_MAIN(TEST_CASE(opens), TEST_CASE(every_kind), TEST_CASE(pictures_that_the_engines_do_not_take), TEST_CASE(the_size_changes),
          TEST_CASE(a_gpu_without_engines), TEST_CASE(cleans))
