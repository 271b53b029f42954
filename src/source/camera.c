#include "source/camera.h"
#include "base/v4l2.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tachy/source.h>
#include <unistd.h>

static const struct {
    uint32_t fourcc;
    const char *name;
    bool compressed;
} known[] = {
    {V4L2_PIX_FMT_MJPEG, "mjpeg", true},     {V4L2_PIX_FMT_JPEG, "mjpeg", true},      {V4L2_PIX_FMT_H264, "h264", true},
    {V4L2_PIX_FMT_YUYV, "yuyv422", false},   {V4L2_PIX_FMT_UYVY, "uyvy422", false},   {V4L2_PIX_FMT_NV12, "nv12", false},
    {V4L2_PIX_FMT_YUV420, "yuv420p", false}, {V4L2_PIX_FMT_YUV422P, "yuv422p", false}, {V4L2_PIX_FMT_GREY, "gray", false},
    {V4L2_PIX_FMT_RGB24, "rgb24", false},    {V4L2_PIX_FMT_BGR24, "bgr24", false},
};

enum { WIDTH = 1280, HEIGHT = 720 }; // what is taken of a camera without --camera-size

// ---- What there is

static struct tachy_rational rate_of(struct v4l2_fract interval)
{
    return (struct tachy_rational){(int)interval.denominator, (int)interval.numerator};
}

static void read_rates(int fd, uint32_t fourcc, struct camera_size *s)
{
    for (uint32_t i = 0; s->nb_rates < CAMERA_RATES; i++) {
        struct v4l2_frmivalenum e = {.index = i, .pixel_format = fourcc, .width = (uint32_t)s->width, .height = (uint32_t)s->height};
        if (!tachy_v4l2_ask(fd, VIDIOC_ENUM_FRAMEINTERVALS, &e))
            return;
        bool listed = e.type == V4L2_FRMIVAL_TYPE_DISCRETE;
        struct tachy_rational rate = rate_of(listed ? e.discrete : e.stepwise.min); // the shortest interval
        if (rate.num > 0 && rate.den > 0)
            s->rates[s->nb_rates++] = rate;
        if (!listed)
            return;
    }
}

static void read_sizes(int fd, uint32_t fourcc, struct camera_format *f)
{
    for (uint32_t i = 0; f->nb_sizes < CAMERA_SIZES; i++) {
        struct v4l2_frmsizeenum e = {.index = i, .pixel_format = fourcc};
        if (!tachy_v4l2_ask(fd, VIDIOC_ENUM_FRAMESIZES, &e))
            return;
        struct camera_size *s = &f->sizes[f->nb_sizes++];
        bool listed = e.type == V4L2_FRMSIZE_TYPE_DISCRETE;
        if (listed)
            *s = (struct camera_size){.width = (int)e.discrete.width, .height = (int)e.discrete.height};
        else
            *s = (struct camera_size){.width = (int)e.stepwise.min_width, .height = (int)e.stepwise.min_height,
                                      .to_width = (int)e.stepwise.max_width, .to_height = (int)e.stepwise.max_height,
                                      .step_width = TACHY_MAX((int)e.stepwise.step_width, 1),
                                      .step_height = TACHY_MAX((int)e.stepwise.step_height, 1)};
        read_rates(fd, fourcc, s);
        if (!listed)
            return;
    }
}

static void read_formats(int fd, struct camera *c)
{
    for (uint32_t i = 0; c->nb_formats < CAMERA_FORMATS; i++) {
        struct v4l2_fmtdesc e = {.index = i, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
        if (!tachy_v4l2_ask(fd, VIDIOC_ENUM_FMT, &e))
            return;
        struct camera_format *f = &c->formats[c->nb_formats++];
        snprintf(f->description, sizeof(f->description), "%.31s", (const char *)e.description);
        for (int k = 0; k < 4; k++)
            f->fourcc[k] = (char)(e.pixelformat >> (8 * k) & 0x7f);
        f->compressed = e.flags & V4L2_FMT_FLAG_COMPRESSED;
        for (size_t k = 0; k < TACHY_ARRAY_SIZE(known); k++)
            if (known[k].fourcc == e.pixelformat) {
                f->name = known[k].name;
                f->compressed = known[k].compressed;
            }
        read_sizes(fd, e.pixelformat, f);
    }
}

int camera_read(struct camera *c, const char *path)
{
    struct v4l2_capability cap = {0};
    *c = (struct camera){.nb_formats = 0};
    snprintf(c->path, sizeof(c->path), "%s", path);
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENXIO || errno == ENODEV ? TACHY_ERR_NOT_FOUND : TACHY_ERR_IO;
    bool asked = tachy_v4l2_ask(fd, VIDIOC_QUERYCAP, &cap);
    uint32_t can = tachy_v4l2_can(&cap);
    bool captures = asked && (can & V4L2_CAP_VIDEO_CAPTURE) && (can & V4L2_CAP_STREAMING);
    snprintf(c->name, sizeof(c->name), "%.32s", (const char *)cap.card);
    snprintf(c->driver, sizeof(c->driver), "%.16s", (const char *)cap.driver);
    snprintf(c->bus, sizeof(c->bus), "%.32s", (const char *)cap.bus_info);
    if (captures)
        read_formats(fd, c);
    close(fd);
    return captures ? TACHY_OK : TACHY_ERR_UNSUPPORTED;
}

// ---- Exposure

static bool set_control(int fd, uint32_t id, int32_t value)
{
    return tachy_v4l2_ask(fd, VIDIOC_S_CTRL, &(struct v4l2_control){.id = id, .value = value});
}

// In the driver's units of 0.1 ms.
static int set_exposure(int fd, const char *path, double exposure, const struct tachy_log *log)
{
    struct v4l2_queryctrl range = {.id = V4L2_CID_EXPOSURE_ABSOLUTE};
    bool has = tachy_v4l2_ask(fd, VIDIOC_QUERYCTRL, &range);
    if (exposure < 0) // some know one kind of automatic exposure, some the other
        return set_control(fd, V4L2_CID_EXPOSURE_AUTO, V4L2_EXPOSURE_APERTURE_PRIORITY) ||
                       set_control(fd, V4L2_CID_EXPOSURE_AUTO, V4L2_EXPOSURE_AUTO)
                   ? TACHY_OK
                   : tachy_fail(log, TACHY_ERR_UNSUPPORTED, "%s: finds no exposure by itself; leave --exposure out", path);
    if (!has)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "%s: its exposure cannot be set; leave --exposure out", path);
    if (exposure * 10 < range.minimum || exposure * 10 > range.maximum)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "--exposure %.4g: %s takes %.4g to %.4g milliseconds", exposure, path,
                          range.minimum / 10., range.maximum / 10.);
    set_control(fd, V4L2_CID_EXPOSURE_AUTO, V4L2_EXPOSURE_MANUAL); // a camera may have no other
    return set_control(fd, V4L2_CID_EXPOSURE_ABSOLUTE, (int32_t)(exposure * 10 + 0.5))
               ? TACHY_OK
               : tachy_fail(log, TACHY_ERR_UNSUPPORTED, "%s: its exposure cannot be set: %s", path, strerror(errno));
}

int camera_expose(const char *path, double exposure, const struct tachy_log *log)
{
    int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return tachy_fail(log, TACHY_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    int err = set_exposure(fd, path, exposure, log);
    close(fd);
    return err;
}

// ---- What is taken

static double fps(struct tachy_rational r) { return r.den > 0 ? (double)r.num / r.den : 0; }

static bool fits(const struct camera_size *s, int width, int height)
{
    if (!s->to_width)
        return s->width == width && s->height == height;
    return width >= s->width && width <= s->to_width && height >= s->height && height <= s->to_height &&
           !((width - s->width) % s->step_width) && !((height - s->height) % s->step_height);
}

// The slowest rate that is at least as asked, or the fastest. False: all are slower.
static bool choose_rate(const struct camera_size *s, struct tachy_rational asked, struct tachy_rational *out)
{
    const struct tachy_rational *best = NULL;
    *out = asked;
    for (const struct tachy_rational *r = s->rates; r < s->rates + s->nb_rates; r++) {
        if (asked.num && fps(*r) < 0.99 * fps(asked))
            continue;
        if (!best || (asked.num ? fps(*r) < fps(*best) : fps(*r) > fps(*best)))
            best = r;
    }
    if (best && !(s->to_width && asked.num)) // a range of sizes goes with one of rates
        *out = *best;
    return best || !s->nb_rates;
}

static int64_t area(const struct camera_mode *m) { return (int64_t)m->width * m->height; }

static bool is_small(const struct camera_mode *m) { return m->width <= WIDTH && m->height <= HEIGHT; }

// True if a is preferable to b.
static bool is_better(const struct camera_mode *a, bool a_compressed, const struct camera_mode *b, bool b_compressed)
{
    if (area(a) != area(b))
        return is_small(a) != is_small(b) ? is_small(a) : is_small(a) == (area(a) > area(b));
    if (fps(a->rate) != fps(b->rate))
        return fps(a->rate) > fps(b->rate);
    return !a_compressed && b_compressed;
}

// A mode of this size as asked. False: there is none.
static bool make_mode(const struct camera_format *f, const struct camera_size *s, const struct camera_mode *asked,
                      struct camera_mode *m)
{
    *m = (struct camera_mode){.width = s->width, .height = s->height, .format = f->name};
    if (!asked->width && s->to_width && s->to_width >= WIDTH && fits(s, WIDTH, HEIGHT))
        *m = (struct camera_mode){.width = WIDTH, .height = HEIGHT, .format = f->name};
    if (asked->width && !fits(s, asked->width, asked->height))
        return false;
    if (asked->width) {
        m->width = asked->width;
        m->height = asked->height;
    }
    return choose_rate(s, asked->rate, &m->rate);
}

int camera_choose(const struct camera *c, struct camera_mode *mode, const struct tachy_log *log)
{
    struct camera_mode best, m;
    bool found = false, compressed = false;
    for (const struct camera_format *f = c->formats; f < c->formats + c->nb_formats; f++) {
        if (!f->name || (mode->format && strcmp(mode->format, f->name)))
            continue;
        if (!f->nb_sizes && !found) { // as the driver pleases
            best = *mode;
            best.format = f->name;
            found = true;
            continue;
        }
        for (const struct camera_size *s = f->sizes; s < f->sizes + f->nb_sizes; s++) {
            if (!make_mode(f, s, mode, &m) || (found && !is_better(&m, f->compressed, &best, compressed)))
                continue;
            best = m;
            compressed = f->compressed;
            found = true;
        }
    }
    if (!found && !mode->width && !mode->rate.num && !mode->format)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "%s: the camera offers no format that tachy reads; see tachy probe --cameras",
                          c->path);
    if (!found)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "%s: the camera has no mode that fits --camera-size, --camera-rate and "
                          "--camera-format; see tachy probe --cameras", c->path);
    *mode = best;
    return TACHY_OK;
}

// ---- The list

static json_t *size_json(const struct camera_size *s)
{
    json_t *rates = json_array(), *o = json_pack("{s:i,s:i}", "width", s->width, "height", s->height);
    for (int i = 0; i < s->nb_rates; i++)
        json_array_append_new(rates, json_sprintf("%d/%d", s->rates[i].num, s->rates[i].den));
    if (s->to_width)
        json_object_update_new(o, json_pack("{s:i,s:i,s:i,s:i}", "to_width", s->to_width, "to_height", s->to_height, "step_width",
                                            s->step_width, "step_height", s->step_height));
    json_object_set_new(o, "rates", rates);
    return o;
}

static json_t *format_json(const struct camera_format *f)
{
    json_t *sizes = json_array(), *o = json_pack("{s:s?,s:s,s:b}", "format", f->name, "fourcc", f->fourcc, "compressed", f->compressed);
    json_object_set_new(o, "description", json_string(f->description));
    for (int i = 0; i < f->nb_sizes; i++)
        json_array_append_new(sizes, size_json(&f->sizes[i]));
    json_object_set_new(o, "sizes", sizes);
    return o;
}

static json_t *camera_json(const struct camera *c)
{
    json_t *formats = json_array(), *o = json_pack("{s:s}", "path", c->path);
    json_object_set_new(o, "name", json_string(c->name)); // refuses what is not UTF-8
    json_object_set_new(o, "driver", json_string(c->driver));
    json_object_set_new(o, "bus", json_string(c->bus));
    for (int i = 0; i < c->nb_formats; i++)
        json_array_append_new(formats, format_json(&c->formats[i]));
    json_object_set_new(o, "formats", formats);
    return o;
}

int tachy_cameras(char **json, const struct tachy_log *log)
{
    TACHY_CLEAR(json);
    if (!TACHY_CHECK(log, json))
        return TACHY_ERR_INVAL;
    struct camera *c = malloc(sizeof(*c));
    json_t *all = json_array();
    for (int n = 0; c && n < CAMERA_NUMBERS; n++) {
        char path[32];
        snprintf(path, sizeof(path), "/dev/video%d", n);
        int err = camera_read(c, path);
        if (err == TACHY_ERR_IO)
            tachy_msg(log, TACHY_LOG_WARN, "%s: cannot be opened: %s%s", path, strerror(errno),
                      errno == EACCES ? "; its users are in the group video" : "");
        if (err == TACHY_OK)
            json_array_append_new(all, camera_json(c));
    }
    json_t *o = json_pack("{s:o}", "cameras", all);
    *json = c && o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    json_decref(o);
    free(c);
    return *json ? TACHY_OK : TACHY_ERR_NOMEM;
}
