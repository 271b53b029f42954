// A camera without a kernel's: preloaded into the command, it answers for /dev/video0 as Video4Linux2 does. Buffers are a
// file in memory, so that mapping them is real. TACHY_FAKE_CAMERA names the folder of its pictures 0.jpg to 9.jpg; with
// TACHY_FAKE_CAMERA_STOP=N it falls silent after N pictures. /dev/video1 is an output device if TACHY_FAKE_OUTPUT names a
// file, which gets what is written to the device; it takes what TACHY_FAKE_OUTPUT_TAKES says: "YU12", "YUYV 64x48 160" (the
// only size, bytes of a row).
#undef _FILE_OFFSET_BITS // which would give open() the name of open64()
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int open(const char *path, int flags, ...);
int open64(const char *path, int flags, ...);
int ioctl(int fd, unsigned long what, ...);

enum { BUFFERS = 8, ROOM = 1280 * 720 * 2 };

static struct {
    int fd; // 0: closed
    uint32_t fourcc, width, height, fps;
    bool streams, queued[BUFFERS];
    uint32_t next, buffers, pictures;
    int64_t begun_ns;
} camera;

// Sizes and rates, in order.
static const struct mode {
    uint32_t fourcc, width, height, fps[3];
} modes[] = {
    {V4L2_PIX_FMT_YUYV, 320, 240, {30, 15, 0}},
    {V4L2_PIX_FMT_YUYV, 1280, 720, {5, 0, 0}},
    {V4L2_PIX_FMT_MJPEG, 640, 480, {60, 30, 0}},
    {V4L2_PIX_FMT_MJPEG, 1280, 720, {30, 0, 0}},
    {V4L2_PIX_FMT_MJPEG, 1920, 1080, {30, 0, 0}},
};
static const uint32_t formats[] = {V4L2_PIX_FMT_YUYV, V4L2_PIX_FMT_MJPEG, V4L2_PIX_FMT_SBGGR8};

static int32_t exposure; // in 0.1 ms; 0: automatic. Stays while nobody has the camera open

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int refuse(int e)
{
    errno = e;
    return -1;
}

static int open_camera(void)
{
    if (camera.fd)
        return refuse(EBUSY);
    memset(&camera, 0, sizeof(camera));
    camera.fps = 30;
    camera.fd = memfd_create("camera", 0);
    return camera.fd;
}

static int output; // its descriptor; 0: closed

static int describe_output(struct v4l2_capability *c)
{
    *c = (struct v4l2_capability){.capabilities = V4L2_CAP_VIDEO_OUTPUT | V4L2_CAP_READWRITE};
    strcpy((char *)c->card, "Test output");
    return 0;
}

static int set_output(struct v4l2_format *f)
{
    struct v4l2_pix_format *p = &f->fmt.pix;
    char name[5] = "YU12";
    uint32_t stride = 0;
    const char *takes = getenv("TACHY_FAKE_OUTPUT_TAKES");
    if (takes)
        sscanf(takes, "%4s %ux%u %u", name, &p->width, &p->height, &stride);
    if (f->type != V4L2_BUF_TYPE_VIDEO_OUTPUT)
        return refuse(EINVAL);
    p->pixelformat = v4l2_fourcc(name[0], name[1], name[2], name[3]);
    bool packed = p->pixelformat == V4L2_PIX_FMT_YUYV;
    p->bytesperline = stride ? stride : packed ? 2 * p->width : p->width;
    uint32_t bytes = packed ? p->bytesperline * p->height : p->bytesperline * p->height * 3 / 2;
    p->sizeimage = (bytes + 4095) / 4096 * 4096; // whole pages, as v4l2loopback says
    return 0;
}

static int answer_output(unsigned long what, void *about)
{
    return what == VIDIOC_QUERYCAP ? describe_output(about) : what == VIDIOC_S_FMT ? set_output(about) : refuse(ENOTTY);
}

static int open_as(const char *name, const char *path, int flags, mode_t mode)
{
    if (!strcmp(path, "/dev/video0") && getenv("TACHY_FAKE_CAMERA"))
        return open_camera();
    int (*next)(const char *, int, ...);
    *(void **)&next = dlsym(RTLD_NEXT, name);
    if (!strcmp(path, "/dev/video1") && getenv("TACHY_FAKE_OUTPUT"))
        return output = next(getenv("TACHY_FAKE_OUTPUT"), flags | O_CREAT | O_TRUNC, 0600);
    return next(path, flags, mode);
}

static mode_t mode_of(int flags, va_list args) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0; }

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_as("open", path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_as("open64", path, flags, mode);
}

int close(int fd)
{
    int (*next)(int);
    *(void **)&next = dlsym(RTLD_NEXT, "close");
    if (fd && fd == camera.fd)
        camera.fd = 0;
    if (fd && fd == output)
        output = 0;
    return next(fd);
}

static int list_sizes(struct v4l2_frmsizeenum *e)
{
    uint32_t at = 0;
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
        if (modes[i].fourcc == e->pixel_format && at++ == e->index) {
            e->type = V4L2_FRMSIZE_TYPE_DISCRETE;
            e->discrete.width = modes[i].width;
            e->discrete.height = modes[i].height;
            return 0;
        }
    return refuse(EINVAL);
}

static int list_rates(struct v4l2_frmivalenum *e)
{
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
        if (modes[i].fourcc == e->pixel_format && modes[i].width == e->width && modes[i].height == e->height && e->index < 3 &&
            modes[i].fps[e->index]) {
            e->type = V4L2_FRMIVAL_TYPE_DISCRETE;
            e->discrete.numerator = 1;
            e->discrete.denominator = modes[i].fps[e->index];
            return 0;
        }
    return refuse(EINVAL);
}

static int list_format(struct v4l2_fmtdesc *e)
{
    if (e->index >= sizeof(formats) / sizeof(*formats))
        return refuse(EINVAL);
    e->pixelformat = formats[e->index];
    e->flags = e->pixelformat == V4L2_PIX_FMT_MJPEG ? V4L2_FMT_FLAG_COMPRESSED : 0;
    snprintf((char *)e->description, sizeof(e->description), "format %u", e->index);
    return 0;
}

static int set_format(struct v4l2_format *f, bool set)
{
    if (set) {
        camera.fourcc = f->fmt.pix.pixelformat;
        camera.width = f->fmt.pix.width;
        camera.height = f->fmt.pix.height;
    }
    f->fmt.pix = (struct v4l2_pix_format){.width = camera.width, .height = camera.height, .pixelformat = camera.fourcc,
                                          .field = V4L2_FIELD_NONE, .sizeimage = ROOM, .bytesperline = 2 * camera.width};
    return 0;
}

static int set_rate(struct v4l2_streamparm *p, bool set)
{
    if (set && p->parm.capture.timeperframe.numerator)
        camera.fps = p->parm.capture.timeperframe.denominator / p->parm.capture.timeperframe.numerator;
    p->parm.capture.capability = V4L2_CAP_TIMEPERFRAME;
    p->parm.capture.timeperframe = (struct v4l2_fract){1, camera.fps};
    return 0;
}

// Draws a frame and returns its size. A raw picture's luma is its number; its chroma is grey plus the exposure.
static uint32_t draw(uint8_t *to)
{
    uint32_t raw = 2 * camera.width * camera.height;
    if (camera.fourcc != V4L2_PIX_FMT_MJPEG) {
        for (uint32_t i = 0; i < raw; i += 2) {
            to[i] = (uint8_t)(16 + camera.pictures);
            to[i + 1] = (uint8_t)(128 + exposure);
        }
        return raw;
    }
    char name[512];
    snprintf(name, sizeof(name), "%s/%u.jpg", getenv("TACHY_FAKE_CAMERA"), camera.pictures % 10);
    FILE *f = fopen(name, "rb");
    size_t n = f ? fread(to, 1, ROOM, f) : 0;
    if (f)
        fclose(f);
    return (uint32_t)n;
}

// As with O_NONBLOCK.
static int take(struct v4l2_buffer *b)
{
    const char *stop = getenv("TACHY_FAKE_CAMERA_STOP");
    int64_t due = camera.begun_ns + (int64_t)camera.pictures * 1000000000 / camera.fps;
    if (!camera.streams || !camera.queued[camera.next] || now_ns() < due || (stop && camera.pictures >= (uint32_t)atoi(stop)))
        return refuse(EAGAIN);
    uint8_t *to = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, camera.fd, (off_t)camera.next * ROOM);
    if (to == MAP_FAILED)
        return refuse(EIO);
    b->index = camera.next;
    b->bytesused = draw(to);
    munmap(to, ROOM);
    b->flags = V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    b->timestamp.tv_sec = due / 1000000000;
    b->timestamp.tv_usec = due % 1000000000 / 1000;
    b->sequence = camera.pictures++;
    camera.queued[camera.next] = false;
    camera.next = (camera.next + 1) % camera.buffers;
    return 0;
}

static int set_buffers(struct v4l2_requestbuffers *r)
{
    camera.buffers = r->count = r->count > BUFFERS ? BUFFERS : r->count;
    return ftruncate(camera.fd, (off_t)BUFFERS * ROOM);
}

static int tell(struct v4l2_capability *c)
{
    *c = (struct v4l2_capability){.capabilities = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING};
    strcpy((char *)c->card, "Test camera");
    strcpy((char *)c->driver, "fake");
    strcpy((char *)c->bus_info, "usb-1");
    return 0;
}

static int name_input(struct v4l2_input *i)
{
    *i = (struct v4l2_input){.index = i->index, .type = V4L2_INPUT_TYPE_CAMERA};
    return i->index ? refuse(EINVAL) : 0;
}

static int set_control(const struct v4l2_control *c)
{
    if (c->id == V4L2_CID_EXPOSURE_AUTO && (c->value == V4L2_EXPOSURE_MANUAL || c->value == V4L2_EXPOSURE_APERTURE_PRIORITY))
        exposure = 0;
    else if (c->id == V4L2_CID_EXPOSURE_ABSOLUTE)
        exposure = c->value;
    else
        return refuse(EINVAL);
    return 0;
}

static int tell_control(struct v4l2_queryctrl *c)
{
    if (c->id != V4L2_CID_EXPOSURE_ABSOLUTE)
        return refuse(EINVAL);
    c->minimum = 10;
    c->maximum = 100;
    return 0;
}

static int answer(unsigned long what, void *about)
{
    struct v4l2_buffer *b = about;
    switch (what) {
    case VIDIOC_QUERYCAP: return tell(about);
    case VIDIOC_ENUM_FMT: return list_format(about);
    case VIDIOC_ENUM_FRAMESIZES: return list_sizes(about);
    case VIDIOC_ENUM_FRAMEINTERVALS: return list_rates(about);
    case VIDIOC_ENUMINPUT: return name_input(about);
    case VIDIOC_G_INPUT: return *(int *)about = 0;
    case VIDIOC_S_INPUT: return 0;
    case VIDIOC_S_FMT: return set_format(about, true);
    case VIDIOC_G_FMT: return set_format(about, false);
    case VIDIOC_S_PARM: return set_rate(about, true);
    case VIDIOC_G_PARM: return set_rate(about, false);
    case VIDIOC_S_CTRL: return set_control(about);
    case VIDIOC_QUERYCTRL: return tell_control(about);
    case VIDIOC_REQBUFS: return set_buffers(about);
    case VIDIOC_QUERYBUF:
        b->length = ROOM;
        b->m.offset = b->index * ROOM;
        return 0;
    case VIDIOC_QBUF: return camera.queued[b->index] = true, 0;
    case VIDIOC_DQBUF: return take(b);
    case VIDIOC_STREAMON:
        camera.begun_ns = now_ns();
        return camera.streams = true, 0;
    case VIDIOC_STREAMOFF: return camera.streams = false, 0;
    default: return refuse(ENOTTY);
    }
}

int ioctl(int fd, unsigned long what, ...)
{
    va_list args;
    va_start(args, what);
    void *about = va_arg(args, void *);
    va_end(args);
    if (fd && fd == camera.fd)
        return answer((unsigned)what, about);
    if (fd && fd == output)
        return answer_output((unsigned)what, about);
    int (*next)(int, unsigned long, ...);
    *(void **)&next = dlsym(RTLD_NEXT, "ioctl");
    return next(fd, what, about);
}
