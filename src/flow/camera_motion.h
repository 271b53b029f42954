#pragma once
#include "base/base.h"

// The camera's motion between two pictures, from the dense flow between them: a homography that most of the flow agrees
// with.

struct tachy_camera_motion {
    // Pixel p of the first picture is at H p of the second; rows, pixels with (0, 0) the middle of the upper left one.
    double h[9];
    double x, y;    // what the middle of the picture moves by, pixels; what the camera turns to moves the other way
    double zoom;    // 1: none; above 1: things grow
    double roll;    // degrees clockwise that the picture turns
    double agree;   // share of the flow within a pixel of it, 0..1
};

// u, v: dense, of every `every`-th pixel of every such row of a picture of width x height, both at least 1. The same flow gives the same result on every machine. If fewer than a
// quarter of the vectors agree, the result is no motion, and `agree` tells the share.
void tachy_camera_motion_of(struct tachy_camera_motion *c, const float *u, const float *v, int width, int height, int every);

// The camera's motion at pixel (x, y), as a displacement.
static inline void tachy_camera_motion_at(const struct tachy_camera_motion *c, double x, double y, double *u, double *v)
{
    const double *h = c->h;
    double w = 1 / (h[6] * x + h[7] * y + h[8]);
    *u = (h[0] * x + h[1] * y + h[2]) * w - x;
    *v = (h[3] * x + h[4] * y + h[5]) * w - y;
}
