#include "source/camera.h"
#include "source/file_priv.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

// A camera or a screen as an input of FFmpeg's device library, which is loaded on demand: it has dependencies that few
// users need.

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load_devices(void)
{
    char name[32];
    snprintf(name, sizeof(name), "libavdevice.so.%u", avformat_version() >> 16); // their numbers are the same
    void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    void (*add)(void) = NULL;
    if (lib)
        *(void **)&add = dlsym(lib, "avdevice_register_all");
    if (add)
        add(); // it stays
}

// Sets in->camera.
static int find_device(struct file_input *in, const char *kind, const char *path, const struct tachy_log *log)
{
    pthread_once(&once, load_devices);
    in->camera = av_find_input_format(kind);
    return in->camera ? TACHY_OK
                      : tachy_fail(log, TACHY_ERR_UNAVAILABLE, "%s: needs %s of FFmpeg's library of devices; install libavdevice%u", path, kind,
                                   avformat_version() >> 16);
}

static void ask_mode(const struct camera_mode *mode, AVDictionary **options)
{
    char text[64];
    if (mode->width) {
        snprintf(text, sizeof(text), "%dx%d", mode->width, mode->height);
        av_dict_set(options, "video_size", text, 0);
    }
    if (mode->rate.num) {
        snprintf(text, sizeof(text), "%d/%d", mode->rate.num, mode->rate.den);
        av_dict_set(options, "framerate", text, 0);
    }
}

int file_screen_resolve(struct file_input *in, const char *name, AVDictionary **options, const struct tachy_log *log)
{
    struct camera_mode mode = in->camera_mode;
    int err = find_device(in, "x11grab", name, log);
    if (err < 0)
        return err;
    if (!mode.rate.num)
        mode.rate = (struct tachy_rational){30, 1};
    ask_mode(&mode, options);
    in->name = strdup(name[6] ? name + 7 : ""); // FFmpeg takes "" for $DISPLAY
    return TACHY_OK;
}

int file_camera_resolve(struct file_input *in, const char *path, AVDictionary **options, const struct tachy_log *log)
{
    enum { TIMEOUT = 10 };
    struct camera_mode mode = in->camera_mode;
    struct camera *c = malloc(sizeof(*c));
    int err = c ? camera_read(c, path) : TACHY_ERR_NOMEM;
    if (err == TACHY_ERR_NOT_FOUND)
        tachy_fail(log, err, "%s: there is no such camera; tachy probe --cameras lists those that there are", path);
    else if (err == TACHY_ERR_UNSUPPORTED)
        tachy_fail(log, err, "%s: gives no pictures; tachy probe --cameras lists the cameras", path);
    else if (err == TACHY_ERR_IO)
        tachy_fail(log, err, "%s: cannot be opened: %s%s", path, strerror(errno),
                   errno == EACCES ? "; its users are in the group video" : errno == EBUSY ? "; another program has it" : "");
    else if (err == TACHY_OK)
        err = camera_choose(c, &mode, log);
    if (err == TACHY_OK && in->camera_mode.exposure != 0)
        err = camera_expose(path, in->camera_mode.exposure, log);
    if (err == TACHY_OK)
        tachy_msg(log, TACHY_LOG_INFO, "%s is %s: %dx%d, %.4g fps, %s", path, c->name, mode.width, mode.height,
                  mode.rate.den ? (double)mode.rate.num / mode.rate.den : 0., mode.format);
    free(c);
    if (err < 0)
        return err;
    err = find_device(in, "v4l2", path, log);
    if (err < 0)
        return err;
    av_dict_set(options, "input_format", mode.format, 0);
    ask_mode(&mode, options);
    in->timeout = in->timeout ? in->timeout : TIMEOUT;
    in->name = strdup(path);
    return TACHY_OK;
}
