#include "source/file_priv.h"

#include "cuda/nvdec.h"
#include "cuda/nvjpeg.h"

#include <libavutil/hwcontext.h>
#include <libavutil/pixdesc.h>
#include <stdio.h>
#include <stdlib.h>

// Decoding on a GPU: FFmpeg's decoders with NVDEC doing their work; of JPEG pictures nvJPEG's (file_jpeg.c).
//
// What NVDEC hands out is one of few surfaces that the decoder needs itself, and one that finds none
// left fails. So each lane lends out HELD of them, and further pictures are copied into memory of
// ours, on the stream that all else is ordered by. A reader that is done with a frame at once
// makes no copy; one that keeps many (to put them in order) costs memory, not frames.

enum {
    HELD = 6,      // surfaces of a lane that frames may hold
    SURFACES = 24, // of a session, about: what it decodes into and what it hands out
};

// The lane's count of surfaces that are out. Frames may outlive the lane.
struct file_held {
    atomic_int refs, out;
};

static void held_unref(struct file_held *h)
{
    if (h && atomic_fetch_sub(&h->refs, 1) == 1)
        free(h);
}

static void surface_is_back(void *opaque, uint8_t *data)
{
    struct file_held *h = opaque;
    atomic_fetch_sub(&h->out, 1);
    held_unref(h);
}

// ---- Whether it can

// A log that keeps the last message, so that a reason can stand in one sentence.
struct reason {
    char text[512];
    struct tachy_log log;
};

static void keep_reason(void *user, enum tachy_log_level level, const char *msg)
{
    struct reason *r = user;
    snprintf(r->text, sizeof(r->text), "%s", msg);
}

// The decoder of this codec that NVDEC can work for; NULL: FFmpeg has none.
static const AVCodec *decoder_for(enum AVCodecID id)
{
    void *at = NULL;
    for (const AVCodec *c; (c = av_codec_iterate(&at));) {
        if (c->id != id || !av_codec_is_decoder(c) || c->capabilities & AV_CODEC_CAP_HARDWARE)
            continue;
        const AVCodecHWConfig *hw;
        for (int i = 0; (hw = avcodec_get_hw_config(c, i)); i++)
            if (hw->device_type == AV_HWDEVICE_TYPE_CUDA && hw->pix_fmt == AV_PIX_FMT_CUDA &&
                hw->methods & AV_CODEC_HW_CONFIG_METHOD_HW_DEVICE_CTX)
                return c;
    }
    return NULL;
}

static int cuvid_codec(enum AVCodecID id)
{
    const char *name = avcodec_get_name(id);
    for (int i = 0; i < CUVID_CODECS; i++)
        if (tachy_nvdec_codec_name(i) && !strcmp(tachy_nvdec_codec_name(i), name))
            return i;
    return -1;
}

// Chroma and depth of samples as NVDEC counts them; false: neither it nor our frames have them.
static bool kind_of(enum AVPixelFormat f, struct tachy_nvdec_kind *kind)
{
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f);
    if (!d || d->nb_components != 3 || d->flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_ALPHA))
        return false;
    kind->bits = d->comp[0].depth;
    kind->chroma = d->log2_chroma_w == 1 && d->log2_chroma_h == 1 ? CUVID_420 : CUVID_444;
    bool full = !d->log2_chroma_w && !d->log2_chroma_h;
    return (kind->chroma == CUVID_420 && (kind->bits == 8 || kind->bits == 10)) ||
           (full && kind->bits == 8);
}

static int refuse(struct reason *r, const char *fmt, ...) TACHY_PRINTF(2, 3);
static int refuse(struct reason *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->text, sizeof(r->text), fmt, ap);
    va_end(ap);
    return TACHY_ERR_UNSUPPORTED;
}

// *engines: how many of the GPU's decode this codec; 0: unknown.
static int check_caps(const AVCodecParameters *par, struct tachy_gpu *g, int *engines, struct reason *r)
{
    const struct tachy_device *d = &g->device;
    const char *format = av_get_pix_fmt_name((enum AVPixelFormat)par->format);
    struct tachy_nvdec_kind kind = {.codec = cuvid_codec(par->codec_id)};
    struct tachy_nvdec_caps caps;
    if (kind.codec < 0 || !kind_of((enum AVPixelFormat)par->format, &kind))
        return refuse(r, "NVDEC has no form of %s pictures (%s) that is read here",
                      avcodec_get_name(par->codec_id), format ? format : "unknown");
    int err = tachy_nvdec_ask(&caps, &g->device, &kind, &r->log);
    if (err < 0)
        return err;
    *engines = caps.engines;
    if (!caps.supported)
        return refuse(r, "the NVDEC of GPU %d (%s) does not decode %s of %s", d->ordinal, d->name,
                      avcodec_get_name(par->codec_id), format);
    int64_t blocks = (int64_t)((par->width + 15) / 16) * ((par->height + 15) / 16);
    if (par->width < caps.min_width || par->width > caps.max_width ||
        par->height < caps.min_height || par->height > caps.max_height || blocks > caps.max_blocks)
        return refuse(r, "the NVDEC of GPU %d (%s) decodes %s from %dx%d to %dx%d, not %dx%d",
                      d->ordinal, d->name, avcodec_get_name(par->codec_id), caps.min_width,
                      caps.min_height, caps.max_width, caps.max_height, par->width, par->height);
    return TACHY_OK;
}

static void close_device(struct file_device *c)
{
    av_buffer_unref(&c->hw);
    tachy_gpu_unref(&c->gpu);
}

// Engines for JPEG pictures, and the library.
static int try_jpeg(struct tachy_gpu *g, struct reason *r)
{
    struct tachy_nvjpeg *j;
    int err = tachy_nvjpeg_open(&j, g, &r->log);
    tachy_nvjpeg_close(&j);
    return err;
}

static int open_device(tachy_source *s, struct file_device *c, int ordinal, struct reason *r)
{
    int engines = 0, err = tachy_gpu_open(&c->gpu, ordinal, s->params.gpu_stream, &r->log);
    if (file_of(s)->gpu.jpeg)
        return err < 0 ? err : try_jpeg(c->gpu, r);
    if (err == TACHY_OK)
        err = check_caps(file_of(s)->st->codecpar, c->gpu, &engines, r);
    if (err == TACHY_OK)
        err = tachy_av_device_open(&c->hw, c->gpu, &r->log);
    s->decode_engines += err == TACHY_OK ? engines : 0;
    return err;
}

// A GPU that cannot be opened ends it; one that does not decode this is left out where another one does.
static int open_devices(tachy_source *s, struct reason *r)
{
    struct file *p = file_of(s);
    int err = TACHY_OK, refused = TACHY_OK;
    for (int i = 0; i < s->params.nb_gpus; i++) {
        struct file_device *c = &p->gpu.device[p->gpu.nb];
        err = open_device(s, c, s->params.gpus[i], r);
        if (err == TACHY_OK) {
            p->gpu.nb++;
            continue;
        }
        close_device(c);
        if (err != TACHY_ERR_UNSUPPORTED)
            return err;
        refused = err;
    }
    if (p->gpu.nb && refused)
        tachy_msg(s->params.log, TACHY_LOG_INFO, "%s: not all of the GPUs decode it: %s", s->url, r->text);
    return p->gpu.nb ? TACHY_OK : refused;
}

static int prepare(tachy_source *s, struct reason *r)
{
    struct file *p = file_of(s);
    const AVCodecParameters *par = p->st->codecpar;
    p->gpu.jpeg = p->in.pictures && !p->in.still && par->codec_id == AV_CODEC_ID_MJPEG;
    if (!p->gpu.jpeg && (p->in.pictures || p->in.still))
        return refuse(r, "it is single pictures");
    if (p->gpu.jpeg && !s->params.on_gpu)
        return refuse(r, "JPEG pictures are decoded on a GPU only if they stay there (--device cuda)");
    p->gpu.codec = p->gpu.jpeg ? avcodec_find_decoder(par->codec_id) : decoder_for(par->codec_id);
    if (!p->gpu.codec)
        return refuse(r, "this FFmpeg cannot have %s decoded by NVDEC",
                      avcodec_get_name(par->codec_id));
    return open_devices(s, r);
}

static size_t bytes_free(struct tachy_device *d)
{
    size_t idle = 0, all = 0;
    if (tachy_device_enter(d, NULL) < 0)
        return 0;
    if (d->cu->memory_info(&idle, &all) != CUDA_OK)
        idle = 0;
    tachy_device_leave(d);
    return idle;
}

// Frames that wait for their turn may take a quarter of a device's free memory. With several devices each gets a share
// of that, which may double for a while.
static void set_budget(tachy_source *s)
{
    struct file *p = file_of(s);
    size_t least = SIZE_MAX;
    for (int i = 0; i < p->gpu.nb; i++) {
        p->gpu.device[i].free_bytes = bytes_free(&p->gpu.device[i].gpu->device);
        least = TACHY_MIN(least, p->gpu.device[i].free_bytes);
    }
    size_t share = p->gpu.nb > 1 ? least / 8 * (size_t)p->gpu.nb : least / 4;
    if (s->params.on_gpu)
        s->order_bytes = TACHY_MAX(share, (size_t)1);
}

int file_gpu_open(tachy_source *s)
{
    struct file *p = file_of(s);
    const struct tachy_source_params *q = &s->params;
    if (q->decode == TACHY_DECODE_CPU || (q->decode == TACHY_DECODE_AUTO && !q->on_gpu))
        return TACHY_OK;
    struct reason r = {.log = {.fn = keep_reason, .user = &r, .max_level = TACHY_LOG_ERR}};
    int err = prepare(s, &r);
    if (err == TACHY_OK) {
        p->gpu.on = true;
        atomic_store(&s->nvdec, true);
        set_budget(s);
        return TACHY_OK;
    }
    file_gpu_close(p);
    if (err == TACHY_ERR_NOMEM && !*r.text)
        return err; // for host memory, whose failure nobody has logged; a full GPU has logged it
    if (q->decode == TACHY_DECODE_NVDEC)
        return tachy_fail(q->log, err, "%s: NVDEC was asked for and cannot decode it: %s", s->url,
                          r.text);
    tachy_msg(q->log, TACHY_LOG_INFO, "%s: decoded on the CPU: %s", s->url, r.text);
    return TACHY_OK;
}

void file_gpu_close(struct file *p)
{
    for (int i = 0; i < p->gpu.nb; i++)
        close_device(&p->gpu.device[i]);
    p->gpu.nb = 0;
    p->gpu.codec = NULL;
    p->gpu.on = p->gpu.jpeg = false;
}

int file_gpu_lanes(tachy_source *s, int lanes)
{
    struct file *p = file_of(s);
    const AVCodecParameters *par = p->st->codecpar;
    size_t one = tachy_frame_bytes(TACHY_PIX_P010, par->width, par->height) * SURFACES;
    size_t fit = 0;
    bool known = p->gpu.on;
    for (int i = 0; i < p->gpu.nb; i++) {
        fit += p->gpu.device[i].free_bytes / 2 / TACHY_MAX(one, (size_t)1);
        known = known && p->gpu.device[i].free_bytes;
    }
    if (!known || fit >= (size_t)lanes)
        return lanes;
    tachy_msg(s->params.log, TACHY_LOG_VERBOSE,
              "%s: half of the free memory of the GPU, or of all of them, holds about %zu decoders of its "
              "pictures", s->url, fit);
    return (int)TACHY_MAX(fit, (size_t)1);
}

// ---- A lane

// FFmpeg asks for the format of a stream's pictures, at the start and when they change. The list contains CUDA if there
// is a hwaccel for them; if that fails, FFmpeg asks again without it.
static enum AVPixelFormat choose_format(AVCodecContext *dec, const enum AVPixelFormat *formats)
{
    struct tachy_nvdec_kind kind;
    const enum AVPixelFormat *f = formats, *plain = NULL;
    for (; *f != AV_PIX_FMT_NONE; f++) {
        const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(*f);
        if (*f == AV_PIX_FMT_CUDA && kind_of(dec->sw_pix_fmt, &kind))
            return *f;
        if (!plain && d && !(d->flags & AV_PIX_FMT_FLAG_HWACCEL))
            plain = f;
    }
    return plain ? *plain : AV_PIX_FMT_NONE;
}

// The GPU with the fewest decoders, of all sources of this process.
static struct file_device *deal(struct file *p)
{
    struct tachy_gpu *gpus[TACHY_MAX_GPUS];
    for (int i = 0; i < p->gpu.nb; i++)
        gpus[i] = p->gpu.device[i].gpu;
    return &p->gpu.device[tachy_gpu_take_decoder(gpus, p->gpu.nb)];
}

int file_gpu_prepare(tachy_source *s, struct file_lane *l)
{
    if (!l->device)
        l->device = deal(file_of(s));
    if (file_of(s)->gpu.jpeg) {
        l->dec->thread_count = 1; // each picture is done before the next
        return file_jpeg_open(l, s->params.log);
    }
    if (!l->held) {
        l->held = calloc(1, sizeof(*l->held));
        if (!l->held)
            return TACHY_ERR_NOMEM;
        atomic_init(&l->held->refs, 1);
    }
    l->dec->hw_device_ctx = av_buffer_ref(l->device->hw);
    l->dec->get_format = choose_format;
    l->dec->thread_count = 1; // threads would only decode ahead into more surfaces
    l->dec->extra_hw_frames = HELD;
#ifdef AV_HWACCEL_FLAG_UNSAFE_OUTPUT
    l->dec->hwaccel_flags |= AV_HWACCEL_FLAG_UNSAFE_OUTPUT; // copied here, and only when needed
#endif
    return l->dec->hw_device_ctx ? TACHY_OK : TACHY_ERR_NOMEM;
}

void file_gpu_close_lane(struct file_lane *l)
{
    file_jpeg_close(l); // while its GPU is there
    if (l->device)
        tachy_gpu_give_decoder(l->device->gpu);
    l->device = NULL;
    held_unref(l->held);
    l->held = NULL;
    tachy_frame_pool_close(&l->copies);
}

static bool lend(struct file_lane *l, AVFrame *picture)
{
    struct file_held *h = l->held;
    if (atomic_load(&h->out) >= HELD)
        return false;
    AVBufferRef *token = av_buffer_create((uint8_t *)h, sizeof(*h), surface_is_back, h, 0);
    if (!token)
        return false;
    atomic_fetch_add(&h->refs, 1);
    atomic_fetch_add(&h->out, 1);
    av_buffer_unref(&picture->opaque_ref);
    picture->opaque_ref = token; // given back with the frame
    return true;
}

static int copy_out(tachy_source *s, struct file_lane *l, const tachy_frame *f, tachy_frame **out)
{
    struct tachy_gpu *g = l->device->gpu;
    bool stay = s->params.on_gpu;
    int err = tachy_frame_pool_get_like(&l->copies, stay ? g : NULL, TACHY_DEVICE, NULL, f, out);
    if (err == TACHY_ERR_NOMEM)
        return tachy_fail(s->params.log, err, "%s: there is no memory for another picture of %dx%d "
                          "%s", s->url, f->width, f->height, stay ? "on its GPU" : "");
    if (err == TACHY_OK)
        err = tachy_frame_copy_planes(*out, f, &g->device, g->stream, !stay, s->params.log);
    if (err < 0)
        tachy_frame_unref(out);
    return err;
}

int file_gpu_frame(tachy_source *s, struct file_lane *l, tachy_frame **out)
{
    AVFrame *picture = l->picture;
    bool lent = s->params.on_gpu && lend(l, picture);
    tachy_frame *f;
    int err = tachy_frame_from_av(&f, picture);
    if (err == TACHY_ERR_INVAL)
        return tachy_fail(s->params.log, TACHY_ERR_UNSUPPORTED,
                          "%s: a picture of NVDEC's (%s, %dx%d) is in a form that is not read here; "
                          "--decode cpu takes it", s->url,
                          av_get_pix_fmt_name(tachy_av_sw_format(picture)), picture->width,
                          picture->height);
    if (err < 0 || lent) {
        *out = f;
        return err;
    }
    err = copy_out(s, l, f, out);
    tachy_frame_unref(&f);
    return err;
}

int file_gpu_missed(tachy_source *s, const AVFrame *picture)
{
    struct file *p = file_of(s);
    const char *format = av_get_pix_fmt_name(picture->format), *who = p->gpu.jpeg ? "nvJPEG" : "NVDEC";
    if (s->params.decode == TACHY_DECODE_NVDEC)
        return tachy_fail(s->params.log, TACHY_ERR_UNSUPPORTED,
                          "%s: NVDEC was asked for and %s does not take its pictures (%s, %dx%d); "
                          "--decode auto decodes them on the CPU", s->url, p->gpu.jpeg ? who : "it", format ? format : "unknown",
                          picture->width, picture->height);
    atomic_store(&s->nvdec, p->gpu.jpeg); // of JPEG pictures it is only this one
    if (!atomic_exchange(&p->gpu.missed, true))
        tachy_msg(s->params.log, TACHY_LOG_INFO,
                  "%s: %s on the CPU: %s does not take %s (%s, %dx%d)", s->url, p->gpu.jpeg ? "some pictures are decoded" : "decoded",
                  who, p->gpu.jpeg ? "them" : "its pictures", format ? format : "unknown", picture->width, picture->height);
    return TACHY_OK;
}
