#include "postprocess/bounds.h"
#include "stage/composite.h"

#include <tachy/source.h>

int tachy_read_picture(const char *file, const struct tachy_convert_to *to, tachy_frame **out, bool *video,
                       const struct tachy_log *log)
{
    tachy_source *source = NULL;
    tachy_frame *f = NULL;
    struct tachy_convert *convert = NULL;
    *out = NULL;
    int err = tachy_source_open(&source, tachy_source_params(.url = file, .max_frames = 1, .log = log));
    if (video)
        *video = err == TACHY_OK && !tachy_source_info(source)->still;
    if (err == TACHY_OK && !(video && *video))
        err = tachy_source_read(source, &f);
    if (f)
        err = tachy_convert_frame(&convert, f, to, out, log);
    tachy_convert_close(&convert);
    tachy_frame_unref(&f);
    tachy_source_close(&source);
    return err;
}

int tachy_matte_mix(uint8_t *shown, int w, int h, const char *file, uint8_t (*mix)(uint8_t, uint8_t), bool *video,
                    const struct tachy_log *log)
{
    const struct tachy_convert_to to = {.format = TACHY_PIX_GRAY8, .width = w, .height = h, .color = {.range = 2}};
    tachy_frame *grey;
    int err = tachy_read_picture(file, &to, &grey, video, log);
    for (int y = 0; grey && y < h; y++) {
        const uint8_t *row = grey->data[0] + y * grey->stride[0];
        for (int x = 0; x < w; x++, shown++)
            *shown = mix(*shown, row[x]);
    }
    tachy_frame_unref(&grey);
    return err;
}

int tachy_matte_make(uint8_t **matte, const struct tachy_video_info *video,
                     int (*draw)(struct tachy_stage *st, uint8_t *shown, int w, int h), struct tachy_stage *st)
{
    bool turned = video->rotation % 180;
    int w = turned ? video->height : video->width, h = turned ? video->width : video->height;
    size_t n = (size_t)w * (size_t)h;
    tachy_aligned_free(*matte);
    *matte = tachy_aligned_alloc(n);
    uint8_t *shown = tachy_aligned_alloc(n);
    int err = *matte && shown ? draw(st, shown, w, h) : TACHY_ERR_NOMEM;
    if (err == TACHY_OK)
        tachy_garbage_turn(*matte, shown, w, h, video->rotation, video->flipped);
    tachy_aligned_free(shown);
    return err;
}
