#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Clips with motion and detail: a textured picture under a panning camera, and a disc with its own texture that crosses
// it in the other direction. Stereo: two eyes side by side, the right one shifted.

enum { TEXTURE = 1024 };

// Value noise of six octaves, the same on every machine.
static uint8_t *make_texture(void)
{
    uint8_t *t = malloc(TEXTURE * TEXTURE);
    for (int y = 0; t && y < TEXTURE; y++)
        for (int x = 0; x < TEXTURE; x++) {
            unsigned sum = 0;
            for (int o = 0; o < 6; o++) { // cells of 64 to 2 pixels
                unsigned h = (unsigned)(x >> (6 - o)) * 73856093u ^ (unsigned)(y >> (6 - o)) * 19349663u ^ (unsigned)o * 83492791u;
                h = (h ^ h >> 13) * 0x5bd1e995u;
                sum += (h >> 24) >> o;
            }
            t[y * TEXTURE + x] = (uint8_t)(24 + sum * 208 / 502);
        }
    return t;
}

static void draw(uint8_t *p, ptrdiff_t stride, int width, int height, const uint8_t *texture, int frame, int shift)
{
    int reach = height / 4, cx = (int)(width * (0.5 + 0.4 * cos(frame * 0.05))) + shift, cy = height / 2;
    int dx = frame * 3 + shift / 2, dy = (int)(40 * sin(frame * 0.08) + 40);
    for (int y = 0; y < height; y++) {
        const uint8_t *row = &texture[(size_t)((y + dy) % TEXTURE) * TEXTURE];
        int left = (int)sqrt(fmax(0, (double)reach * reach - (double)(y - cy) * (y - cy)));
        for (int x = 0; x < width; x++) {
            bool disc = abs(x - cx) < left;
            p[y * stride + x] = disc ? (uint8_t)(255 - row[(x * 2 + frame * 5) % TEXTURE] / 2) : row[(x + dx) % TEXTURE];
        }
    }
}

static int write_frame(tachy_sink *sink, const struct bench_case *k, const uint8_t *texture, int i)
{
    tachy_frame *f;
    int err = tachy_frame_new(&f, &(struct tachy_frame_params){.format = TACHY_PIX_YUV420P, .width = k->width, .height = k->height, .pts = i,
                                                     .duration = 1});
    if (err < 0)
        return err;
    int eyes = k->stereo ? 2 : 1;
    uint8_t *luma = tachy_frame_writable(f, 0);
    for (int e = 0; e < eyes; e++)
        draw(luma + e * (k->width / eyes), f->stride[0], k->width / eyes, k->height, texture, i, 12 * e);
    for (int c = 1; c < 3; c++)
        for (int y = 0; y < k->height / 2; y++)
            for (int x = 0; x < k->width / 2; x++)
                tachy_frame_writable(f, c)[y * f->stride[c] + x] = (uint8_t)(96 + texture[((y + i) % TEXTURE) * TEXTURE + (x * c) % TEXTURE] / 4);
    err = tachy_sink_write(sink, f, NULL);
    tachy_frame_unref(&f);
    return err;
}

static int make_clip(const struct bench_case *k, int frames, const char *path, const struct tachy_log *log, const int *stop)
{
    tachy_sink *sink = NULL;
    uint8_t *texture = make_texture();
    int err = texture ? tachy_sink_open(&sink, tachy_sink_params(.url = path, .overwrite = true, .codec = "libx264", .crf = "18",
                                                                 .preset = "ultrafast", .stop = stop, .log = log))
                      : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        err = tachy_sink_start(sink, &(struct tachy_video_info){.format = TACHY_PIX_YUV420P, .width = k->width, .height = k->height,
                                                                .time_base = {1, 30}, .fps = {30, 1}, .stereo = TACHY_STEREO_MONO});
    for (int i = 0; i < frames && err == TACHY_OK; i++)
        err = *stop ? TACHY_ERR_INTERRUPTED : write_frame(sink, k, texture, i);
    if (err == TACHY_OK)
        err = tachy_sink_finish(sink, false);
    tachy_sink_close(&sink);
    free(texture);
    return err;
}

int bench_clip(const struct bench_case *k, bool quick, const struct tachy_log *log, const int *stop, char **path)
{
    char folder[4000], file[4200];
    struct stat st;
    int frames = quick ? 60 : 240;
    while (frames > 24 && (double)frames * k->width * k->height > 600e6) // seconds to make, and MiB to keep
        frames /= 2;
    int err = cache_folder("bench", folder, sizeof(folder));
    snprintf(file, sizeof(file), "%s/motion-%dx%d%s-%d.mp4", folder, k->width, k->height, k->stereo ? "-stereo" : "", frames);
    if (err == TACHY_OK && stat(file, &st) < 0) {
        err = make_folders(folder);
        if (err == TACHY_OK)
            message_note(log, "makes a clip of %d frames, %d x %d", frames, k->width, k->height);
        err = err == TACHY_OK ? make_clip(k, frames, file, log, stop) : err;
    }
    *path = err == TACHY_OK ? strdup(file) : NULL;
    return err == TACHY_OK && !*path ? TACHY_ERR_NOMEM : err;
}
