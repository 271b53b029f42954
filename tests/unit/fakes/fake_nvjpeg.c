// nvJPEG over FFmpeg's decoder, for "device" memory of fake_cuda.c. Its engines do not take a picture that ends with a zero.
#include "fake.h"

#include "cuda/nvjpeg_abi.h"

#include <libavcodec/avcodec.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID = 2, BAD = 3, NOT_SUPPORTED = 4, ARCH_MISMATCH = 7 };

struct nvjpeg_state_of {
    int output, batch;
    AVCodecContext *dec;
    AVFrame *picture;
    AVPacket *packet;
};

static _Atomic int open_states, decoded;
static int none; // the GPU has no such engines

FAKE_API int fake_nvjpeg_open(void) { return open_states; }
FAKE_API int fake_nvjpeg_decoded(void) { return decoded; }
FAKE_API void fake_nvjpeg_none(int is) { none = is; }

FAKE_API int nvjpegCreateEx(int back_end, void *device_memory, void *pinned_memory, unsigned flags, nvjpeg_handle *handle)
{
    if (none || back_end != NVJPEG_HARDWARE)
        return ARCH_MISMATCH;
    *handle = malloc(1);
    return *handle ? 0 : INVALID;
}

FAKE_API int nvjpegDestroy(nvjpeg_handle handle)
{
    free(handle);
    return 0;
}

FAKE_API int nvjpegJpegStateCreate(nvjpeg_handle handle, nvjpeg_state *state)
{
    struct nvjpeg_state_of *s = *state = calloc(1, sizeof(*s));
    s->dec = avcodec_alloc_context3(avcodec_find_decoder(AV_CODEC_ID_MJPEG));
    s->picture = av_frame_alloc();
    s->packet = av_packet_alloc();
    open_states++;
    return avcodec_open2(s->dec, NULL, NULL) < 0 ? INVALID : 0;
}

FAKE_API int nvjpegJpegStateDestroy(nvjpeg_state s)
{
    avcodec_free_context(&s->dec);
    av_frame_free(&s->picture);
    av_packet_free(&s->packet);
    free(s);
    open_states--;
    return 0;
}

FAKE_API int nvjpegDecodeBatchedInitialize(nvjpeg_handle handle, nvjpeg_state s, int batch, int cpu_threads, int output)
{
    s->output = output;
    s->batch = batch;
    return batch > 0 && (output == NVJPEG_YUV || output == NVJPEG_Y) ? 0 : INVALID;
}

static void copy_out(const AVFrame *f, const struct nvjpeg_image *to, int planes)
{
    int narrow = f->format == AV_PIX_FMT_YUVJ420P || f->format == AV_PIX_FMT_YUVJ422P, low = f->format == AV_PIX_FMT_YUVJ420P;
    for (int i = 0; i < planes; i++)
        for (int y = 0; y < (i && low ? (f->height + 1) / 2 : f->height); y++)
            memcpy((uint8_t *)(uintptr_t)to->plane[i] + (size_t)y * to->pitch[i], f->data[i] + y * f->linesize[i],
                   (size_t)(i && narrow ? (f->width + 1) / 2 : f->width));
}

static int decode(struct nvjpeg_state_of *s, const uint8_t *data, size_t size, const struct nvjpeg_image *to)
{
    if (av_new_packet(s->packet, (int)size) < 0)
        return INVALID;
    memcpy(s->packet->data, data, size);
    int bad = avcodec_send_packet(s->dec, s->packet) < 0 || avcodec_receive_frame(s->dec, s->picture) < 0;
    av_packet_unref(s->packet);
    if (bad)
        return BAD;
    copy_out(s->picture, to, s->output == NVJPEG_Y ? 1 : 3);
    av_frame_unref(s->picture);
    return 0;
}

FAKE_API int nvjpegDecodeBatched(nvjpeg_handle handle, nvjpeg_state s, const uint8_t *const *data, const size_t *sizes,
                                 struct nvjpeg_image *to, cuda_stream stream)
{
    int err = s->output && stream ? 0 : INVALID;
    for (int i = 0; i < s->batch && !err; i++)
        err = data[i][sizes[i] - 1] ? 0 : NOT_SUPPORTED;
    for (int i = 0; i < s->batch && !err; i++)
        err = decode(s, data[i], sizes[i], &to[i]);
    decoded += err ? 0 : s->batch;
    return err;
}
