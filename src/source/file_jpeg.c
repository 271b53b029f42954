#include "source/file_priv.h"

#include "cuda/nvjpeg.h"
#include "source/jpeg_head.h"

#include <stdlib.h>

// JPEG pictures decoded on a GPU, several of a lane's segment at once, since one alone keeps one engine of several busy. A picture
// that they do not take, or that is not whole, goes to FFmpeg's decoder in its turn, as if there were no GPU; that one says what is
// wrong with it.

static const size_t TOGETHER_BYTES = (size_t)64 << 20; // of pictures that are decoded at once, unless one needs more

// What the pictures of a kind become.
static const struct form {
    int components, across, down; // samples of luma for one of chroma
    enum tachy_pix format;
    enum AVPixelFormat av; // FFmpeg's name of the same
} forms[] = {
    {1, 1, 1, TACHY_PIX_GRAY8, AV_PIX_FMT_GRAY8},
    {3, 2, 2, TACHY_PIX_YUV420P, AV_PIX_FMT_YUVJ420P},
    {3, 2, 1, TACHY_PIX_YUV422P, AV_PIX_FMT_YUVJ422P},
    {3, 1, 1, TACHY_PIX_YUV444P, AV_PIX_FMT_YUVJ444P},
};

static bool samples(const struct jpeg_head *h, const struct form *f)
{
    int luma = h->sampling[0], chroma = f->components == 1 ? luma : h->sampling[1];
    return h->components == f->components && luma >> 4 == f->across * (chroma >> 4) && (luma & 15) == f->down * (chroma & 15);
}

// NULL: it is none of them, or not the baseline process.
static const struct form *form_of(const struct jpeg_head *h)
{
    const bool colours = h->components == 3;
    bool known = !h->process && h->bits == 8 && (h->transform < 0 || h->transform == (colours ? 1 : 0)) &&
                 (!colours || (h->sampling[1] == h->sampling[2] && memcmp(h->name, "RGB", 3)));
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(forms) && known; i++)
        if (samples(h, &forms[i]))
            return &forms[i];
    return NULL;
}

static bool is_whole(const uint8_t *data, size_t size)
{
    while (size > 2 && !data[size - 1])
        size--;
    return size > 4 && data[size - 2] == 0xff && data[size - 1] == 0xd9;
}

// Makes l->picture what FFmpeg's decoder would say of l->packet.
static void describe(tachy_source *s, struct file_lane *l, const struct jpeg_head *h, const struct form *f)
{
    const AVCodecParameters *par = file_of(s)->st->codecpar;
    AVFrame *picture = l->picture;
    picture->width = h->width;
    picture->height = h->height;
    picture->format = f->av;
    picture->color_range = AVCOL_RANGE_JPEG;
    picture->colorspace = par->color_space;
    picture->color_primaries = par->color_primaries;
    picture->color_trc = par->color_trc;
    picture->chroma_location = par->chroma_location;
    picture->pts = picture->best_effort_timestamp = l->packet->pts;
    picture->pkt_dts = l->packet->dts;
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(57, 30, 100)
    picture->duration = l->packet->duration;
#else
    picture->pkt_duration = l->packet->duration;
#endif
#ifdef AV_FRAME_FLAG_KEY
    picture->flags |= AV_FRAME_FLAG_KEY;
#else
    picture->key_frame = 1;
#endif
}

// A packet, and what it became.
struct picture {
    AVPacket *packet;
    tachy_frame *frame;
    const struct form *form; // NULL: it is FFmpeg's to decode
    struct jpeg_head head;
};

struct file_jpeg {
    struct tachy_nvjpeg *decoder;
    struct picture waiting[TACHY_NVJPEG_MOST]; // next .. nb - 1
    int next, nb;
};

static void forget(struct file_jpeg *j)
{
    for (; j->next < j->nb; j->next++) {
        av_packet_unref(j->waiting[j->next].packet);
        tachy_frame_unref(&j->waiting[j->next].frame);
    }
    j->next = j->nb = 0;
}

void file_jpeg_again(struct file_lane *l)
{
    if (l->jpeg)
        forget(l->jpeg);
    tachy_frame_unref(&l->from_jpeg);
}

void file_jpeg_close(struct file_lane *l)
{
    struct file_jpeg *j = l->jpeg;
    file_jpeg_again(l);
    l->jpeg = NULL;
    for (int i = 0; j && i < TACHY_NVJPEG_MOST; i++)
        av_packet_free(&j->waiting[i].packet);
    if (j)
        tachy_nvjpeg_close(&j->decoder);
    free(j);
}

int file_jpeg_open(struct file_lane *l, const struct tachy_log *log)
{
    if (l->jpeg)
        return TACHY_OK;
    struct file_jpeg *j = l->jpeg = calloc(1, sizeof(*j));
    bool all = j;
    for (int i = 0; j && i < TACHY_NVJPEG_MOST; i++)
        all = (j->waiting[i].packet = av_packet_alloc()) && all;
    int err = all ? tachy_nvjpeg_open(&j->decoder, l->device->gpu, log) : TACHY_ERR_NOMEM;
    if (err < 0)
        file_jpeg_close(l);
    return err;
}

// Reads the next packets of the segment, as many as may be decoded at once. TACHY_ERR_EOF: there are none.
static int read_some(tachy_source *s, struct file_lane *l)
{
    struct file_jpeg *j = l->jpeg;
    size_t bytes = 0;
    int err = TACHY_OK;
    j->next = j->nb = 0;
    while (j->nb < TACHY_NVJPEG_MOST && (!j->nb || bytes < TOGETHER_BYTES) && (err = file_decode_packet(s, l)) == TACHY_OK) {
        struct picture *p = &j->waiting[j->nb++];
        av_packet_move_ref(p->packet, l->packet);
        const uint8_t *data = p->packet->data;
        size_t size = (size_t)TACHY_MAX(p->packet->size, 0);
        p->form = jpeg_head_read(&p->head, data, size) && is_whole(data, size) ? form_of(&p->head) : NULL;
        bytes += p->form ? tachy_frame_bytes(p->form->format, p->head.width, p->head.height) : 0;
    }
    return j->nb && err == TACHY_ERR_EOF ? TACHY_OK : err;
}

// The frames that the pictures are to become; without one it is FFmpeg's.
static int take_frames(struct file_lane *l)
{
    struct file_jpeg *j = l->jpeg;
    int err = TACHY_OK;
    for (int i = 0; i < j->nb && err == TACHY_OK; i++) {
        struct picture *p = &j->waiting[i];
        const tachy_frame like = {.format = p->form ? p->form->format : 0, .width = p->head.width, .height = p->head.height};
        if (!p->form)
            continue;
        err = tachy_frame_pool_get_like(&l->copies, l->device->gpu, TACHY_DEVICE, NULL, &like, &p->frame);
        if (err == TACHY_ERR_NOMEM || err == TACHY_ERR_INVAL)
            err = TACHY_OK;
    }
    return err;
}

static int decode(struct file_jpeg *j, struct picture *const pictures[], int n, int planes, const struct tachy_log *log)
{
    struct tachy_nvjpeg_picture of[TACHY_NVJPEG_MOST];
    for (int i = 0; i < n; i++) {
        const struct picture *p = pictures[i];
        of[i] = (struct tachy_nvjpeg_picture){.data = p->packet->data, .size = (size_t)p->packet->size};
        for (int k = 0; k < planes; k++) {
            of[i].plane[k] = tachy_frame_writable(p->frame, k);
            of[i].stride[k] = p->frame->stride[k];
        }
    }
    return tachy_nvjpeg_decode(j->decoder, of, n, planes, log);
}

// Those of so many planes; if the engines refuse one of them, each for itself.
static int decode_all(struct file_jpeg *j, int planes, const struct tachy_log *log)
{
    struct picture *of[TACHY_NVJPEG_MOST];
    int n = 0;
    for (int i = 0; i < j->nb; i++)
        if (j->waiting[i].frame && tachy_pix_desc(j->waiting[i].form->format)->planes == planes)
            of[n++] = &j->waiting[i];
    if (!n)
        return TACHY_OK;
    int err = decode(j, of, n, planes, log);
    for (int i = 0; i < n && err == TACHY_ERR_UNSUPPORTED; i++) {
        int one = n > 1 ? decode(j, &of[i], 1, planes, log) : err;
        if (one < 0)
            tachy_frame_unref(&of[i]->frame);
        err = one < 0 ? one : err;
    }
    return err == TACHY_ERR_UNSUPPORTED ? TACHY_OK : err;
}

static int fill(tachy_source *s, struct file_lane *l)
{
    int err = read_some(s, l);
    if (err == TACHY_OK)
        err = take_frames(l);
    if (err == TACHY_OK)
        err = decode_all(l->jpeg, 1, s->params.log);
    return err < 0 ? err : decode_all(l->jpeg, 3, s->params.log);
}

int file_jpeg_packet(tachy_source *s, struct file_lane *l)
{
    struct file_jpeg *j = l->jpeg;
    int err = j->next < j->nb ? TACHY_OK : fill(s, l);
    if (err < 0)
        return err;
    struct picture *p = &j->waiting[j->next++];
    av_packet_move_ref(l->packet, p->packet);
    l->from_jpeg = p->frame;
    p->frame = NULL;
    if (l->from_jpeg)
        describe(s, l, &p->head, p->form);
    return TACHY_OK;
}
