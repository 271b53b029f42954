#include "base/clock.h"
#include "base/path.h"
#include "base/v4l2.h"
#include "sink/sink_ops.h"
#include "sink/upright.h"

#include <fcntl.h>
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

// An output device of Video4Linux2, as v4l2loopback makes them: what is written there, other programs see as a camera.

static const uint64_t STOPPED = 2000000000u; // ns that a device may take nothing after a stop

static const struct {
    uint32_t fourcc;
    enum AVPixelFormat format;
} known[] = { // asked for in this order
    {V4L2_PIX_FMT_YUV420, AV_PIX_FMT_YUV420P},
    {V4L2_PIX_FMT_YUYV, AV_PIX_FMT_YUYV422},
};

struct device {
    int fd; // -1: closed
    struct v4l2_pix_format pix; // as it takes them
    enum AVPixelFormat format;
    struct tachy_upright upright;
    uint8_t *picture;
    size_t bytes; // per picture; pix.sizeimage may be more, whole pages, but readers expect this number
};

static struct device *device_of(const tachy_sink *s) { return (struct device *)(uintptr_t)s->priv; }

static bool device_probe(const char *url, const char *format) { return !format && url && tachy_path_is_video_device(url); }

static int device_open(tachy_sink *s)
{
    struct device *d = device_of(s);
    const char *url = s->params.url;
    struct v4l2_capability cap = {0};
    d->fd = open(url, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (d->fd < 0)
        return tachy_fail(s->params.log, tachy_err_from_errno(errno), "%s: cannot be opened: %s%s", url, strerror(errno),
                          errno == ENOENT ? "; a virtual camera is made by modprobe v4l2loopback" : "");
    if (!tachy_v4l2_ask(d->fd, VIDIOC_QUERYCAP, &cap) || !(tachy_v4l2_can(&cap) & V4L2_CAP_VIDEO_OUTPUT) ||
        !(tachy_v4l2_can(&cap) & V4L2_CAP_READWRITE))
        return tachy_fail(s->params.log, TACHY_ERR_UNSUPPORTED,
                          "%s: takes no pictures; name an output device, such as one that v4l2loopback makes", url);
    return TACHY_OK;
}

// ---- Its format

static bool is_bt601(struct tachy_color c) { return c.matrix == AVCOL_SPC_SMPTE170M || c.matrix == AVCOL_SPC_BT470BG; }

// Bytes of a row of the first plane, at least.
static uint32_t row_of(const struct v4l2_pix_format *p) { return p->pixelformat == V4L2_PIX_FMT_YUYV ? (p->width + 1) / 2 * 4 : p->width; }

// Bytes of a picture; 0: the format's buffer is too small.
static size_t bytes_of(const struct v4l2_pix_format *p)
{
    uint64_t luma = (uint64_t)p->bytesperline * p->height, chroma = (uint64_t)(p->bytesperline + 1) / 2 * ((p->height + 1) / 2);
    uint64_t all = luma + (p->pixelformat == V4L2_PIX_FMT_YUV420 ? 2 * chroma : 0);
    bool room = p->width && p->height && p->width <= 65535 && p->height <= 65535 && p->bytesperline >= row_of(p) && p->sizeimage >= all;
    return room ? all : 0;
}

// Sets a format that it may support: the driver replaces an unsupported format or size by its own.
static int set_format(tachy_sink *s, int width, int height, bool bt601)
{
    struct device *d = device_of(s);
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(known); i++) {
        struct v4l2_format f = {.type = V4L2_BUF_TYPE_VIDEO_OUTPUT};
        f.fmt.pix = (struct v4l2_pix_format){
            .width = (uint32_t)width, .height = (uint32_t)height, .pixelformat = known[i].fourcc, .field = V4L2_FIELD_NONE,
            .colorspace = bt601 ? V4L2_COLORSPACE_SMPTE170M : V4L2_COLORSPACE_REC709};
        f.fmt.pix.bytesperline = row_of(&f.fmt.pix);
        f.fmt.pix.sizeimage = (uint32_t)av_image_get_buffer_size(known[i].format, width, height, 1);
        if (!tachy_v4l2_ask(d->fd, VIDIOC_S_FMT, &f)) {
            if (errno != EINVAL)
                return tachy_fail(s->params.log, tachy_err_from_errno(errno), "%s: takes no format: %s%s", s->params.url, strerror(errno),
                                  errno == EBUSY ? "; another program writes to it" : "");
            continue;
        }
        d->pix = f.fmt.pix;
        d->format = known[i].format;
        d->bytes = bytes_of(&d->pix);
        if (d->pix.pixelformat == known[i].fourcc && d->bytes)
            return TACHY_OK;
    }
    return tachy_fail(s->params.log, TACHY_ERR_UNSUPPORTED, "%s: takes neither yuv420p nor yuyv422; set another format of the device",
                      s->params.url);
}

static int device_start(tachy_sink *s, const struct tachy_video_info *info)
{
    struct device *d = device_of(s);
    struct tachy_color c = tachy_upright_color(info);
    int width, height;
    tachy_upright_size(info, &width, &height);
    int err = set_format(s, width, height, is_bt601(c));
    if (err < 0)
        return err;
    if (!(d->picture = calloc(1, d->bytes)))
        return TACHY_ERR_NOMEM;
    tachy_msg(s->params.log, TACHY_LOG_INFO, "%s: takes %ux%u, %s", s->params.url, d->pix.width, d->pix.height,
              av_get_pix_fmt_name(d->format));
    return tachy_upright_open(&d->upright, info, d->format, (int)d->pix.width, (int)d->pix.height, s->params.log);
}

// ---- Pictures

// In rows as the device has them.
static void pack(struct device *d, const AVFrame *f)
{
    bool planes = d->format == AV_PIX_FMT_YUV420P;
    uint8_t *to = d->picture;
    for (int i = 0; i < (planes ? 3 : 1); i++) {
        int width = (int)(i ? (d->pix.width + 1) / 2 : row_of(&d->pix)), height = (int)(i ? (d->pix.height + 1) / 2 : d->pix.height);
        int stride = (int)(i ? (d->pix.bytesperline + 1) / 2 : d->pix.bytesperline);
        av_image_copy_plane(to, stride, f->data[i], f->linesize[i], width, height);
        to += (size_t)stride * (size_t)height;
    }
}

// All of it, at once as drivers take it; waits for a device that is not ready.
static int put(tachy_sink *s)
{
    const struct device *d = device_of(s);
    const int *stop = s->params.stop;
    uint64_t stopped = 0, begun = tachy_now_ns();
    for (;;) {
        ssize_t n = write(d->fd, d->picture, d->bytes);
        if (n >= 0)
            break;
        if (errno != EAGAIN && errno != EINTR)
            return tachy_fail(s->params.log, TACHY_ERR_IO, "%s: a picture cannot be written: %s", s->params.url, strerror(errno));
        if (stop && __atomic_load_n(stop, __ATOMIC_RELAXED) && !stopped)
            stopped = tachy_now_ns();
        if (stopped && tachy_now_ns() - stopped > STOPPED)
            return tachy_fail(s->params.log, TACHY_ERR_IO, "%s: takes no more pictures", s->params.url);
        poll(&(struct pollfd){.fd = d->fd, .events = POLLOUT}, 1, 100);
    }
    s->write_ns += tachy_now_ns() - begun;
    s->bytes += (int64_t)d->bytes;
    return TACHY_OK;
}

static int device_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    struct device *d = device_of(s);
    AVFrame *made;
    if (!f)
        return tachy_fail(s->params.log, TACHY_ERR_INVAL, "%s: this run makes no pictures to show; choose another --mode", s->params.url);
    int err = tachy_upright_run(&d->upright, f, &made);
    if (err == TACHY_OK)
        pack(d, made);
    av_frame_free(&made);
    return err == TACHY_OK ? put(s) : err;
}

static int device_finish(tachy_sink *s, bool interrupted) { return TACHY_OK; }

static void device_close(tachy_sink *s)
{
    struct device *d = device_of(s);
    if (d->fd > 0)
        close(d->fd);
    tachy_upright_close(&d->upright);
    free(d->picture);
}

const struct tachy_sink_ops tachy_sink_device = {
    .name = "device",
    .priv_size = sizeof(struct device),
    .no_file = true,
    .probe = device_probe,
    .open = device_open,
    .start = device_start,
    .write = device_write,
    .finish = device_finish,
    .close = device_close,
};
