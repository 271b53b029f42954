#include "postprocess/bounds.h"
#include "postprocess/mask_priv.h"
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

static void copy_turned(const uint8_t *from, ptrdiff_t from_stride, uint8_t *to, ptrdiff_t to_stride, int w, int h, const struct mask_turn *t,
                        ptrdiff_t row, size_t element, bool back)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) { // x, y: as shown
            ptrdiff_t at = t->origin + x * t->x + y * t->y, stored = at / row * (back ? to_stride : from_stride) + at % row * (ptrdiff_t)element;
            ptrdiff_t shown = y * (back ? from_stride : to_stride) + x * (ptrdiff_t)element;
            memcpy(to + (back ? stored : shown), from + (back ? shown : stored), element);
        }
}

int tachy_picture_turn(const tachy_frame *f, int rotation, bool flip, bool back, tachy_frame **out)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    const bool turned = rotation % 180;
    int err = tachy_frame_new(out, &(struct tachy_frame_params){.format = f->format, .width = turned ? f->height : f->width,
                                                                .height = turned ? f->width : f->height, .color = f->color});
    const tachy_frame *shown = back ? f : *out;
    for (int i = 0; i < d->planes && err == TACHY_OK; i++) {
        const int shift = !d->rgb && (i == 1 || i == 2) ? d->chroma_shift_x : 0, up = (1 << shift) - 1;
        const int w = (shown->width + up) >> shift, h = (shown->height + up) >> shift, row = turned ? h : w;
        const struct mask_turn t = mask_turn_back(rotation, flip, w, h, row);
        copy_turned(f->data[i], f->stride[i], tachy_frame_writable(*out, i), (*out)->stride[i], w, h, &t, row,
                    (size_t)(d->components[i] * d->bytes), back);
    }
    return err;
}
