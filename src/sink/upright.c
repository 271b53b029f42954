#include "sink/upright.h"
#include "sink/turn.h"

void tachy_upright_size(const struct tachy_video_info *info, int *width, int *height)
{
    bool lies = info->rotation % 180;
    *width = lies ? info->height : info->width;
    *height = lies ? info->width : info->height;
}

struct tachy_color tachy_upright_color(const struct tachy_video_info *info)
{
    struct tachy_color c = tachy_pixels_resolve(info->color, tachy_pix_to_av(info->format), info->width, info->height);
    if (c.matrix != AVCOL_SPC_SMPTE170M && c.matrix != AVCOL_SPC_BT470BG)
        c.matrix = AVCOL_SPC_BT709;
    c.range = AVCOL_RANGE_MPEG;
    return c;
}

int tachy_upright_open(struct tachy_upright *u, const struct tachy_video_info *info, enum AVPixelFormat format, int width, int height,
                       const struct tachy_log *log)
{
    int err = TACHY_OK;
    tachy_upright_close(u);
    *u = (struct tachy_upright){.color = tachy_upright_color(info), .turned = info->rotation, .flipped = info->flipped};
    struct tachy_pixels_params p = {AV_PIX_FMT_YUV420P, info->width, info->height, u->color, log};
    if (u->turned || u->flipped)
        err = tachy_pixels_open(&u->plain, &p);
    p.format = format;
    p.width = width;
    p.height = height;
    return err < 0 ? err : tachy_pixels_open(&u->pixels, &p);
}

void tachy_upright_close(struct tachy_upright *u)
{
    tachy_pixels_close(&u->plain);
    tachy_pixels_close(&u->pixels);
}

// Turns the picture upright.
static int turn(const struct tachy_upright *u, AVFrame **picture, struct tachy_color color)
{
    AVFrame *plain = NULL, *upright = NULL;
    int err = tachy_pixels_run(u->plain, *picture, color, &plain);
    if (err == TACHY_OK)
        err = tachy_turn(plain, u->turned, u->flipped, &upright);
    av_frame_free(&plain);
    av_frame_free(picture);
    *picture = upright;
    return err;
}

int tachy_upright_run(struct tachy_upright *u, tachy_frame *f, AVFrame **out)
{
    AVFrame *in;
    *out = NULL;
    int err = tachy_frame_to_av(&in, f);
    if (err == TACHY_OK && u->plain)
        err = turn(u, &in, f->color);
    if (err == TACHY_OK)
        err = tachy_pixels_run(u->pixels, in, u->plain ? u->color : f->color, out);
    av_frame_free(&in);
    return err;
}
