// NVENC's driver library without a GPU: the functions that FFmpeg's h264_nvenc and hevc_nvenc call, with pictures
// encoded losslessly by libx264 and libx265. A picture is read as late as a device might read it, when its bits are
// fetched. Calls that a driver would refuse are refused; uses that would be undefined (a surface that is written while
// it is read, one that is still registered at the end) are counted as errors and printed.
#include "fake.h"

#include <dlfcn.h>
#include <ffnvcodec/nvEncodeAPI.h>
#include <libavcodec/avcodec.h>
#include <libavutil/opt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESOURCES = 128, BUFFERS = 64, HEADER = 256 };

struct picture { // of a resource or of a buffer of the encoder's own
    uint8_t *data;
    size_t pitch;
    int width, height;
    NV_ENC_BUFFER_FORMAT format;
    int mapped, there, locked;
};

struct bits {
    AVPacket *packet;
    struct picture *of;
    uint64_t time, sum;
    int there, waiting;
};

struct session {
    AVCodecContext *x;
    NV_ENC_CONFIG config;
    GUID codec;
    int width, height, pictures, ready; // `ready`: its parameters were given
    struct picture resource[RESOURCES], input[BUFFERS];
    struct bits bits[BUFFERS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_nvenc_state state;

FAKE_API struct fake_nvenc_state *fake_nvenc(void) { return &state; }

static NVENCSTATUS wrong(const char *what)
{
    fprintf(stderr, "NVENC: %s\n", what);
    pthread_mutex_lock(&lock);
    state.wrong++;
    pthread_mutex_unlock(&lock);
    return NV_ENC_ERR_INVALID_PARAM;
}

#define VERSION(struct_version, wanted)                                                                       \
    do {                                                                                                      \
        if ((struct_version) != (wanted)) {                                                                   \
            state.other_version++;                                                                            \
            return NV_ENC_ERR_INVALID_VERSION;                                                                \
        }                                                                                                     \
    } while (0)

static int same(GUID a, GUID b) { return !memcmp(&a, &b, sizeof(a)); }

// ---- Sessions

// The GPU that a context belongs to; -1: none.
static int device_of(void *context)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    __typeof__(fake_cuda_device_of) *of = lib ? (__typeof__(of))dlsym(lib, "fake_cuda_device_of") : NULL;
    return of ? of(context) : -1;
}

static size_t bytes_at(const void *data)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    __typeof__(fake_cuda_bytes_at) *at = lib ? (__typeof__(at))dlsym(lib, "fake_cuda_bytes_at") : NULL;
    return at ? at((cuda_address)(uintptr_t)data) : 0;
}

static NVENCSTATUS open_session(NV_ENC_OPEN_ENCODE_SESSION_EX_PARAMS *p, void **out)
{
    VERSION(p->version, NV_ENC_OPEN_ENCODE_SESSION_EX_PARAMS_VER);
    *out = NULL;
    int device = device_of(p->device);
    if (p->apiVersion != NVENCAPI_VERSION)
        return NV_ENC_ERR_INVALID_VERSION;
    if (p->deviceType != NV_ENC_DEVICE_TYPE_CUDA || device < 0)
        return wrong("a session without a context of CUDA's");
    if (state.without >> device & 1)
        return NV_ENC_ERR_UNSUPPORTED_DEVICE;
    pthread_mutex_lock(&lock);
    int full = state.most_sessions && state.sessions >= state.most_sessions;
    state.sessions += !full;
    state.opened += !full;
    state.device = full ? state.device : device;
    pthread_mutex_unlock(&lock);
    if (full)
        return NV_ENC_ERR_OUT_OF_MEMORY; // as drivers that limit them say it
    *out = calloc(1, sizeof(struct session));
    return *out ? NV_ENC_SUCCESS : NV_ENC_ERR_OUT_OF_MEMORY;
}

static NVENCSTATUS destroy(void *encoder)
{
    struct session *s = encoder;
    for (int i = 0; i < RESOURCES; i++)
        if (s->resource[i].there)
            wrong("a surface is registered when the encoder is closed");
    for (int i = 0; i < BUFFERS; i++) {
        if (s->input[i].there || s->bits[i].there)
            wrong("a buffer is left when the encoder is closed");
        free(s->input[i].data);
        av_packet_free(&s->bits[i].packet);
    }
    avcodec_free_context(&s->x);
    free(s);
    pthread_mutex_lock(&lock);
    state.sessions--;
    pthread_mutex_unlock(&lock);
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS count_codecs(void *encoder, uint32_t *n)
{
    *n = 2;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS list_codecs(void *encoder, GUID *list, uint32_t size, uint32_t *n)
{
    if (size < 2)
        return NV_ENC_ERR_INVALID_PARAM;
    list[0] = NV_ENC_CODEC_H264_GUID;
    list[1] = NV_ENC_CODEC_HEVC_GUID;
    *n = 2;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS caps(void *encoder, GUID codec, NV_ENC_CAPS_PARAM *p, int *value)
{
    VERSION(p->version, NV_ENC_CAPS_PARAM_VER);
    int h264 = same(codec, NV_ENC_CODEC_H264_GUID);
    *value = p->capsToQuery == NV_ENC_CAPS_WIDTH_MAX || p->capsToQuery == NV_ENC_CAPS_HEIGHT_MAX ? (h264 ? 4096 : 8192)
             : p->capsToQuery == NV_ENC_CAPS_NUM_MAX_BFRAMES                                     ? 4
             : p->capsToQuery == NV_ENC_CAPS_SUPPORT_10BIT_ENCODE                                ? !h264
             : p->capsToQuery == NV_ENC_CAPS_SUPPORT_FIELD_ENCODING                              ? 0
                                                                                                 : 1;
    return NV_ENC_SUCCESS;
}

static int preset_of(GUID preset)
{
    const GUID all[] = {NV_ENC_PRESET_P1_GUID, NV_ENC_PRESET_P2_GUID, NV_ENC_PRESET_P3_GUID, NV_ENC_PRESET_P4_GUID,
                        NV_ENC_PRESET_P5_GUID, NV_ENC_PRESET_P6_GUID, NV_ENC_PRESET_P7_GUID};
    for (int i = 0; i < 7; i++)
        if (same(preset, all[i]))
            return i + 1;
    return 0;
}

// Drivers' initial configuration: a bit rate, which a constant quality has to remove.
static NVENCSTATUS preset_config(void *encoder, GUID codec, GUID preset, NV_ENC_TUNING_INFO tuning,
                                 NV_ENC_PRESET_CONFIG *p)
{
    VERSION(p->version, NV_ENC_PRESET_CONFIG_VER);
    VERSION(p->presetCfg.version, NV_ENC_CONFIG_VER);
    if (!preset_of(preset) || tuning == NV_ENC_TUNING_INFO_UNDEFINED)
        return NV_ENC_ERR_UNSUPPORTED_PARAM;
    p->presetCfg.gopLength = 250;
    p->presetCfg.frameIntervalP = state.interval ? state.interval : 1;
    p->presetCfg.rcParams.rateControlMode = NV_ENC_PARAMS_RC_VBR;
    p->presetCfg.rcParams.averageBitRate = 5000000;
    return NV_ENC_SUCCESS;
}

// The pictures' format in planes, by the profile.
static enum AVPixelFormat inner_format(const struct session *s)
{
    if (same(s->config.profileGUID, NV_ENC_HEVC_PROFILE_MAIN10_GUID))
        return AV_PIX_FMT_YUV420P10;
    if (same(s->config.profileGUID, NV_ENC_H264_PROFILE_HIGH_444_GUID) ||
        same(s->config.profileGUID, NV_ENC_HEVC_PROFILE_FREXT_GUID))
        return AV_PIX_FMT_YUV444P;
    return AV_PIX_FMT_YUV420P;
}

// The inner encoder: no loss, and each picture's bits at once.
static NVENCSTATUS open_codec(struct session *s)
{
    int h264 = same(s->codec, NV_ENC_CODEC_H264_GUID);
    const NV_ENC_CONFIG_HEVC *hevc = &s->config.encodeCodecConfig.hevcConfig;
    const NV_ENC_CONFIG_H264 *avc = &s->config.encodeCodecConfig.h264Config;
    const AVCodec *c = avcodec_find_encoder_by_name(h264 ? "libx264" : "libx265");
    avcodec_free_context(&s->x);
    s->x = c ? avcodec_alloc_context3(c) : NULL;
    if (!s->x)
        return NV_ENC_ERR_OUT_OF_MEMORY;
    s->x->width = s->width;
    s->x->height = s->height;
    s->x->pix_fmt = inner_format(s);
    s->x->time_base = (AVRational){1, 1000};
    s->x->gop_size = 12;
    s->x->max_b_frames = 0;
    s->x->thread_count = 1;
    s->x->color_range = (h264 ? avc->h264VUIParameters.videoFullRangeFlag : hevc->hevcVUIParameters.videoFullRangeFlag)
                            ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    if (h264 ? avc->disableSPSPPS : hevc->disableSPSPPS)
        s->x->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    av_opt_set(s->x->priv_data, "preset", "ultrafast", 0);
    av_opt_set(s->x->priv_data, "tune", "zerolatency", 0);
    if (h264)
        av_opt_set(s->x->priv_data, "qp", "0", 0);
    else
        av_opt_set(s->x->priv_data, "x265-params", "lossless=1:log-level=none:pools=none:frame-threads=1", 0);
    return avcodec_open2(s->x, c, NULL) < 0 ? NV_ENC_ERR_UNSUPPORTED_PARAM : NV_ENC_SUCCESS;
}

static enum AVPixelFormat av_format(NV_ENC_BUFFER_FORMAT f)
{
    return f == NV_ENC_BUFFER_FORMAT_NV12              ? AV_PIX_FMT_NV12
           : f == NV_ENC_BUFFER_FORMAT_YV12            ? AV_PIX_FMT_YUV420P
           : f == NV_ENC_BUFFER_FORMAT_YUV444          ? AV_PIX_FMT_YUV444P
           : f == NV_ENC_BUFFER_FORMAT_YUV420_10BIT    ? AV_PIX_FMT_P010
                                                       : AV_PIX_FMT_NONE;
}

static NVENCSTATUS initialize(void *encoder, NV_ENC_INITIALIZE_PARAMS *p)
{
    struct session *s = encoder;
    VERSION(p->version, NV_ENC_INITIALIZE_PARAMS_VER);
    VERSION(p->encodeConfig->version, NV_ENC_CONFIG_VER);
    if (!preset_of(p->presetGUID) || p->enableEncodeAsync)
        return NV_ENC_ERR_UNSUPPORTED_PARAM;
    s->codec = p->encodeGUID;
    s->config = *p->encodeConfig;
    s->width = (int)p->encodeWidth;
    s->height = (int)p->encodeHeight;
    const NV_ENC_RC_PARAMS *rc = &s->config.rcParams;
    pthread_mutex_lock(&lock);
    state.preset = preset_of(p->presetGUID);
    state.quality = rc->targetQuality * 256 + rc->targetQualityLSB;
    state.bit_rate = (int)rc->averageBitRate;
    state.rate_control = (int)rc->rateControlMode;
    state.hevc = same(s->codec, NV_ENC_CODEC_HEVC_GUID);
    pthread_mutex_unlock(&lock);
    s->ready = 1;
    // FFmpeg opens one encoder of libx265's kind at a time, and is opening ours.
    return state.hevc ? NV_ENC_SUCCESS : open_codec(s);
}

static NVENCSTATUS set_streams(void *encoder, NV_ENC_CUSTREAM_PTR in, NV_ENC_CUSTREAM_PTR out)
{
    pthread_mutex_lock(&lock);
    state.stream = in ? *(void **)in : NULL;
    pthread_mutex_unlock(&lock);
    return in && out ? NV_ENC_SUCCESS : NV_ENC_ERR_INVALID_PTR;
}

static NVENCSTATUS reconfigure(void *encoder, NV_ENC_RECONFIGURE_PARAMS *p)
{
    VERSION(p->version, NV_ENC_RECONFIGURE_PARAMS_VER);
    return NV_ENC_SUCCESS;
}

static const char *last_error(void *encoder) { return "the fake encoder"; }

// Only the parameter sets: an inner encoder adds a message about itself.
static NVENCSTATUS sequence_params(void *encoder, NV_ENC_SEQUENCE_PARAM_PAYLOAD *p)
{
    const struct session *s = encoder;
    VERSION(p->version, NV_ENC_SEQUENCE_PARAM_PAYLOAD_VER);
    if (!s->x) // HEVC is for containers without their own header
        return NV_ENC_ERR_UNIMPLEMENTED;
    int size = s->x->extradata_size;
    const uint8_t *d = s->x->extradata;
    uint32_t used = 0;
    for (int at = 0; at + 4 < size;) {
        int next = at + 4;
        while (next + 4 < size && memcmp(d + next, "\0\0\0\1", 4))
            next++;
        next = next + 4 < size ? next : size;
        int type = d[at + 4] & 31; // SPS, PPS
        if ((type == 7 || type == 8) && used + (uint32_t)(next - at) <= p->inBufferSize)
            memcpy((uint8_t *)p->spsppsBuffer + used, d + at, (size_t)(next - at)), used += (uint32_t)(next - at);
        at = next;
    }
    *p->outSPSPPSPayloadSize = used;
    return NV_ENC_SUCCESS;
}

// ---- Pictures and buffers

static size_t sample_bytes(NV_ENC_BUFFER_FORMAT f) { return f == NV_ENC_BUFFER_FORMAT_YUV420_10BIT ? 2 : 1; }

static size_t picture_bytes(const struct picture *p)
{
    size_t h = (size_t)p->height;
    return p->pitch * (p->format == NV_ENC_BUFFER_FORMAT_YUV444 ? 3 * h : h + (h + 1) / 2);
}

static NVENCSTATUS register_resource(void *encoder, NV_ENC_REGISTER_RESOURCE *p)
{
    struct session *s = encoder;
    VERSION(p->version, NV_ENC_REGISTER_RESOURCE_VER);
    struct picture new = {p->resourceToRegister, p->pitch, (int)p->width, (int)p->height, p->bufferFormat, 0, 1, 0};
    if (state.no_surfaces)
        return NV_ENC_ERR_RESOURCE_REGISTER_FAILED;
    if (p->resourceType != NV_ENC_INPUT_RESOURCE_TYPE_CUDADEVICEPTR || av_format(p->bufferFormat) == AV_PIX_FMT_NONE)
        return wrong("a surface of another kind");
    if (new.width != s->width || new.height != s->height || p->pitch % 4 ||
        p->pitch < (size_t)p->width * sample_bytes(p->bufferFormat))
        return wrong("a surface of another size, or a pitch that does not fit");
    if (bytes_at(new.data) < picture_bytes(&new))
        return wrong("a surface that is no memory of the GPU's, or too little");
    int n = 0, free_one = -1;
    for (int i = RESOURCES - 1; i >= 0; i--) {
        if (s->resource[i].there && s->resource[i].data == new.data)
            return wrong("a surface is registered twice");
        n += s->resource[i].there;
        free_one = s->resource[i].there ? free_one : i;
    }
    if (free_one < 0)
        return NV_ENC_ERR_OUT_OF_MEMORY;
    s->resource[free_one] = new;
    p->registeredResource = &s->resource[free_one];
    pthread_mutex_lock(&lock);
    state.registrations++;
    state.most_registered = n + 1 > state.most_registered ? n + 1 : state.most_registered;
    pthread_mutex_unlock(&lock);
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS unregister_resource(void *encoder, NV_ENC_REGISTERED_PTR resource)
{
    struct picture *p = resource;
    if (!p->there || p->mapped)
        return wrong("a surface that is not registered, or mapped, is given up");
    p->there = 0;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS map(void *encoder, NV_ENC_MAP_INPUT_RESOURCE *p)
{
    VERSION(p->version, NV_ENC_MAP_INPUT_RESOURCE_VER);
    struct picture *r = p->registeredResource;
    if (!r->there || r->mapped)
        return wrong("a surface is mapped that is not registered, or is mapped");
    r->mapped = 1;
    p->mappedResource = r;
    p->mappedBufferFmt = r->format;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS unmap(void *encoder, NV_ENC_INPUT_PTR resource)
{
    struct picture *r = resource;
    if (!r->mapped)
        return wrong("a surface is unmapped that is not mapped");
    r->mapped = 0;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS create_input(void *encoder, NV_ENC_CREATE_INPUT_BUFFER *p)
{
    struct session *s = encoder;
    VERSION(p->version, NV_ENC_CREATE_INPUT_BUFFER_VER);
    int i = 0;
    while (i < BUFFERS && s->input[i].there)
        i++;
    if (i == BUFFERS || av_format(p->bufferFmt) == AV_PIX_FMT_NONE)
        return NV_ENC_ERR_UNSUPPORTED_PARAM;
    struct picture *b = &s->input[i];
    size_t pitch = ((size_t)p->width * sample_bytes(p->bufferFmt) + 255) / 256 * 256;
    *b = (struct picture){NULL, pitch, (int)p->width, (int)p->height, p->bufferFmt, 0, 1, 0};
    b->data = calloc(1, picture_bytes(b));
    p->inputBuffer = b;
    return b->data ? NV_ENC_SUCCESS : NV_ENC_ERR_OUT_OF_MEMORY;
}

static NVENCSTATUS destroy_input(void *encoder, NV_ENC_INPUT_PTR buffer)
{
    struct picture *b = buffer;
    b->there = 0;
    free(b->data);
    b->data = NULL;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS lock_input(void *encoder, NV_ENC_LOCK_INPUT_BUFFER *p)
{
    VERSION(p->version, NV_ENC_LOCK_INPUT_BUFFER_VER);
    struct picture *b = p->inputBuffer;
    if (b->locked)
        return wrong("a buffer is locked twice");
    b->locked = 1;
    p->bufferDataPtr = b->data;
    p->pitch = (uint32_t)b->pitch;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS unlock_input(void *encoder, NV_ENC_INPUT_PTR buffer)
{
    struct picture *b = buffer;
    if (!b->locked)
        return wrong("a buffer is unlocked that is not locked");
    b->locked = 0;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS create_bits(void *encoder, NV_ENC_CREATE_BITSTREAM_BUFFER *p)
{
    struct session *s = encoder;
    VERSION(p->version, NV_ENC_CREATE_BITSTREAM_BUFFER_VER);
    int i = 0;
    while (i < BUFFERS && s->bits[i].there)
        i++;
    if (i == BUFFERS)
        return NV_ENC_ERR_OUT_OF_MEMORY;
    s->bits[i].there = 1;
    p->bitstreamBuffer = &s->bits[i];
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS destroy_bits(void *encoder, NV_ENC_OUTPUT_PTR buffer)
{
    struct bits *b = buffer;
    if (!b) // FFmpeg gives back what it did not come to make
        return NV_ENC_ERR_INVALID_PTR;
    b->there = 0;
    av_packet_free(&b->packet);
    return NV_ENC_SUCCESS;
}

// ---- Encoding

static uint64_t sum_of(const struct picture *p)
{
    uint64_t sum = 1469598103934665603u;
    size_t row = (size_t)p->width * sample_bytes(p->format), rows = picture_bytes(p) / p->pitch;
    for (size_t y = 0; y < rows; y++)
        for (size_t x = 0; x < row; x++)
            sum = (sum ^ p->data[y * p->pitch + x]) * 1099511628211u;
    return sum;
}

static NVENCSTATUS encode(void *encoder, NV_ENC_PIC_PARAMS *p)
{
    struct session *s = encoder;
    VERSION(p->version, NV_ENC_PIC_PARAMS_VER);
    if (p->encodePicFlags & NV_ENC_PIC_FLAG_EOS)
        return s->ready ? NV_ENC_SUCCESS : NV_ENC_ERR_ENCODER_NOT_INITIALIZED;
    struct picture *in = p->inputBuffer;
    struct bits *b = p->outputBitstream;
    int surface = in >= s->resource && in < s->resource + RESOURCES;
    if (!in->there || in->locked || (surface && !in->mapped) || b->waiting || p->bufferFmt != in->format)
        return wrong("a picture that is not ready, or bits that nobody fetched");
    s->pictures++;
    if (state.fail_at && s->pictures >= state.fail_at)
        return NV_ENC_ERR_GENERIC;
    *b = (struct bits){b->packet, in, p->inputTimeStamp, sum_of(in), 1, 1};
    pthread_mutex_lock(&lock);
    state.surfaces += surface;
    state.uploads += !surface;
    pthread_mutex_unlock(&lock);
    int interval = s->config.frameIntervalP > 1 ? s->config.frameIntervalP : 1;
    return s->pictures % interval ? NV_ENC_ERR_NEED_MORE_INPUT : NV_ENC_SUCCESS;
}

static void swap_chroma(const struct picture *p, AVFrame *f)
{
    size_t h = (size_t)p->height;
    f->linesize[1] = f->linesize[2] = (int)p->pitch / 2; // V before U, half the pitch
    f->data[2] = f->data[0] + p->pitch * h;
    f->data[1] = f->data[2] + p->pitch / 2 * ((h + 1) / 2);
}

static AVFrame *view(const struct picture *p, int64_t time)
{
    AVFrame *f = av_frame_alloc();
    f->format = av_format(p->format);
    f->width = p->width;
    f->height = p->height;
    f->pts = time;
    for (int i = 0; i < (p->format == NV_ENC_BUFFER_FORMAT_YUV444 ? 3 : 2); i++) {
        f->data[i] = p->data + p->pitch * (size_t)p->height * (size_t)i;
        f->linesize[i] = (int)p->pitch;
    }
    if (p->format == NV_ENC_BUFFER_FORMAT_YV12)
        swap_chroma(p, f);
    return f;
}

// A picture in planes, as both inner encoders take it.
static AVFrame *planar(const struct session *s, const AVFrame *in)
{
    AVFrame *f = av_frame_alloc();
    f->format = s->x->pix_fmt;
    f->width = in->width;
    f->height = in->height;
    f->pts = in->pts;
    if (av_frame_get_buffer(f, 0) < 0)
        abort();
    int full = in->format == AV_PIX_FMT_YUV444P, wide = in->format == AV_PIX_FMT_P010, pairs = wide || in->format == AV_PIX_FMT_NV12;
    for (int k = 0; k < 3; k++) {
        int w = k && !full ? (in->width + 1) / 2 : in->width, h = k && !full ? (in->height + 1) / 2 : in->height;
        for (int y = 0; y < h; y++) {
            const uint8_t *from = in->data[pairs && k ? 1 : k] + y * in->linesize[pairs && k ? 1 : k];
            uint8_t *to = f->data[k] + y * f->linesize[k];
            for (int x = 0; x < w; x++) {
                int at = pairs && k ? 2 * x + k - 1 : x;
                if (wide)
                    ((uint16_t *)(void *)to)[x] = (uint16_t)(((const uint16_t *)(const void *)from)[at] >> 6);
                else
                    to[x] = from[at];
            }
        }
    }
    return f;
}

static NVENCSTATUS lock_bits(void *encoder, NV_ENC_LOCK_BITSTREAM *p)
{
    struct session *s = encoder;
    VERSION(p->version, NV_ENC_LOCK_BITSTREAM_VER);
    struct bits *b = p->outputBitstream;
    if (!b->waiting)
        return wrong("bits are fetched of a picture that was not given");
    if (sum_of(b->of) != b->sum)
        wrong("a surface was written while the encoder had it");
    if (!s->x && open_codec(s) != NV_ENC_SUCCESS)
        return wrong("the inner encoder does not open");
    AVFrame *in = view(b->of, (int64_t)b->time), *f = planar(s, in);
    av_frame_free(&in);
    if (!b->packet)
        b->packet = av_packet_alloc();
    av_packet_unref(b->packet);
    int ret = avcodec_send_frame(s->x, f);
    av_frame_free(&f);
    if (ret < 0 || avcodec_receive_packet(s->x, b->packet) < 0)
        return wrong("the inner encoder gives nothing");
    b->waiting = 0;
    p->bitstreamBufferPtr = b->packet->data;
    p->bitstreamSizeInBytes = (uint32_t)b->packet->size;
    p->outputTimeStamp = b->time;
    p->pictureType = b->packet->flags & AV_PKT_FLAG_KEY ? NV_ENC_PIC_TYPE_IDR : NV_ENC_PIC_TYPE_P;
    p->frameAvgQP = 1;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS unlock_bits(void *encoder, NV_ENC_OUTPUT_PTR buffer) { return NV_ENC_SUCCESS; }

// ---- The library

FAKE_API NVENCSTATUS NvEncodeAPIGetMaxSupportedVersion(uint32_t *version)
{
    *version = state.old_driver ? 10 << 4 : NVENCAPI_MAJOR_VERSION << 4 | NVENCAPI_MINOR_VERSION;
    return NV_ENC_SUCCESS;
}

FAKE_API NVENCSTATUS NvEncodeAPICreateInstance(NV_ENCODE_API_FUNCTION_LIST *list)
{
    VERSION(list->version, NV_ENCODE_API_FUNCTION_LIST_VER);
    list->nvEncOpenEncodeSessionEx = open_session;
    list->nvEncDestroyEncoder = destroy;
    list->nvEncGetEncodeGUIDCount = count_codecs;
    list->nvEncGetEncodeGUIDs = list_codecs;
    list->nvEncGetEncodeCaps = caps;
    list->nvEncGetEncodePresetConfigEx = preset_config;
    list->nvEncInitializeEncoder = initialize;
    list->nvEncSetIOCudaStreams = set_streams;
    list->nvEncReconfigureEncoder = reconfigure;
    list->nvEncGetLastErrorString = last_error;
    list->nvEncGetSequenceParams = sequence_params;
    list->nvEncRegisterResource = register_resource;
    list->nvEncUnregisterResource = unregister_resource;
    list->nvEncMapInputResource = map;
    list->nvEncUnmapInputResource = unmap;
    list->nvEncCreateInputBuffer = create_input;
    list->nvEncDestroyInputBuffer = destroy_input;
    list->nvEncLockInputBuffer = lock_input;
    list->nvEncUnlockInputBuffer = unlock_input;
    list->nvEncCreateBitstreamBuffer = create_bits;
    list->nvEncDestroyBitstreamBuffer = destroy_bits;
    list->nvEncEncodePicture = encode;
    list->nvEncLockBitstream = lock_bits;
    list->nvEncUnlockBitstream = unlock_bits;
    return NV_ENC_SUCCESS;
}
