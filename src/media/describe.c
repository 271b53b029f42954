#include "media/describe.h"

#include "base/base.h"

json_t *tachy_color_to_json(struct tachy_color c)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i}", "matrix", c.matrix, "primaries", c.primaries,
                     "transfer", c.transfer, "range", c.range, "chroma_loc", c.chroma_loc);
}

static int int_of(const json_t *o, const char *key)
{
    json_int_t v = json_integer_value(json_object_get(o, key));
    return (int)TACHY_CLAMP(v, INT32_MIN, INT32_MAX);
}

struct tachy_color tachy_color_from_json(const json_t *o)
{
    return (struct tachy_color){
        .matrix = (uint8_t)int_of(o, "matrix"),
        .primaries = (uint8_t)int_of(o, "primaries"),
        .transfer = (uint8_t)int_of(o, "transfer"),
        .range = (uint8_t)int_of(o, "range"),
        .chroma_loc = (uint8_t)int_of(o, "chroma_loc"),
    };
}

json_t *tachy_video_to_json(const struct tachy_video_info *v)
{
    return json_pack("{s:s, s:i, s:i, s:[ii], s:[ii], s:o, s:i, s:b, s:i}", "format",
                     tachy_pix_desc(v->format)->name, "width", v->width, "height", v->height,
                     "time_base", (int)v->time_base.num, (int)v->time_base.den, "fps",
                     (int)v->fps.num, (int)v->fps.den, "color", tachy_color_to_json(v->color),
                     "rotation", v->rotation, "flipped", v->flipped, "stereo", (int)v->stereo);
}

static struct tachy_rational rational(const json_t *list)
{
    return (struct tachy_rational){(int)json_integer_value(json_array_get(list, 0)),
                                   (int)json_integer_value(json_array_get(list, 1))};
}

bool tachy_video_from_json(struct tachy_video_info *v, const json_t *o)
{
    const char *format = json_string_value(json_object_get(o, "format"));
    int stereo = int_of(o, "stereo");
    *v = (struct tachy_video_info){
        .format = format ? tachy_pix_by_name(format) : TACHY_PIX_NONE,
        .width = int_of(o, "width"),
        .height = int_of(o, "height"),
        .time_base = rational(json_object_get(o, "time_base")),
        .fps = rational(json_object_get(o, "fps")),
        .color = tachy_color_from_json(json_object_get(o, "color")),
        .rotation = int_of(o, "rotation"),
        .flipped = json_is_true(json_object_get(o, "flipped")),
        .stereo = (enum tachy_stereo)stereo,
    };
    return v->format && v->width > 0 && v->width <= 65535 && v->height > 0 && v->height <= 65535 &&
           v->time_base.num > 0 && v->time_base.den > 0 && v->rotation >= 0 && v->rotation < 360 &&
           v->rotation % 90 == 0 && stereo >= TACHY_STEREO_MONO && stereo <= TACHY_STEREO_TB;
}

struct tachy_npy tachy_plane_array(const tachy_frame *f, int plane)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    bool chroma = !d->rgb && (plane == 1 || plane == 2);
    struct tachy_npy a = {.kind = 'u', .size = d->bytes, .rank = d->components[plane] > 1 ? 3 : 2};
    a.shape[0] = chroma ? -(-f->height >> d->chroma_shift_y) : f->height;
    a.shape[1] = chroma ? -(-f->width >> d->chroma_shift_x) : f->width;
    a.shape[2] = d->components[plane];
    a.bytes = (size_t)(a.shape[0] * a.shape[1]) * d->components[plane] * d->bytes;
    return a;
}
