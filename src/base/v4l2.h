#pragma once
#include <errno.h>
#include <linux/videodev2.h>
#include <stdbool.h>
#include <sys/ioctl.h>

// One question to a Video4Linux2 device; false: errno says why not.
static inline bool tachy_v4l2_ask(int fd, unsigned long what, void *about)
{
    int ret;
    do
        ret = ioctl(fd, what, about);
    while (ret < 0 && errno == EINTR);
    return ret == 0;
}

// Capabilities of the opened device (V4L2_CAP_...), not of its siblings.
static inline unsigned tachy_v4l2_can(const struct v4l2_capability *cap)
{
    return cap->capabilities & V4L2_CAP_DEVICE_CAPS ? cap->device_caps : cap->capabilities;
}
