#pragma once
#include "media/convert.h"
#include "media/surface.h"
#include "postprocess/composite.h"
#include "stage/mask.h"

// Output made from masks: a picture (composite) or a line of JSON (mode json), with the edges of --refine and, in mode
// replace, the background picture.

extern const struct tachy_stage_ops tachy_stage_background, tachy_stage_background_cuda; // background.c
extern const struct tachy_stage_ops tachy_stage_garbage; // garbage.c
extern const struct tachy_stage_ops tachy_stage_key; // key.c
extern const struct tachy_stage_ops tachy_stage_plate; // plate.c
extern const struct tachy_stage_ops tachy_stage_keep; // keep.c
extern const struct tachy_stage_ops tachy_stage_person; // person.c
extern const struct tachy_stage_ops tachy_stage_everything; // everything.c
extern const struct tachy_stage_ops tachy_stage_refine; // refine.c; a device's composite fits the edges itself
extern const struct tachy_stage_ops tachy_stage_composite, tachy_stage_composite_cuda;
extern const struct tachy_stage_ops tachy_stage_mask_lines, tachy_stage_mask_lines_cuda;

// --edge
enum tachy_edge { TACHY_EDGE_SOFT, TACHY_EDGE_NATURAL, TACHY_EDGE_HARD };
enum tachy_edge tachy_edge_of(const tachy_settings *set);

// Reads the settings segment.*: the kind of output, and the background file (NULL: none), which lives as long as `set`.
int tachy_composite_settings(const tachy_settings *set, const struct tachy_log *log, struct tachy_composite_params *p,
                             const char **background);

// The memory of a stage that ends a task of masks: composite or lines.
struct tachy_composite_stage {
    struct tachy_stage *st;
    struct tachy_masks *masks;
    struct tachy_composite_params params;
    const struct tachy_stage *refine, *background; // NULL: there is none
    bool refines, solves;        // also if a device does it itself
    bool beside;                 // of lines: pictures are made as well, in the mode of the settings
    struct tachy_video_info out; // of start()
    tachy_frame_pool *pool;      // of finished pictures; NULL: none are made
};

// TACHY_STAGE_LEFT_OUT: the mode is the other stage's, unless the outputs want both.
int tachy_composite_open_stage(struct tachy_stage *st, const tachy_settings *set, bool lines);
// Starts the output: *video becomes the sink's, unless this is `beside`. The form opens the pool.
int tachy_composite_start(struct tachy_stage *st, struct tachy_video_info *video);
void tachy_composite_close_stage(struct tachy_stage *st);
int tachy_composite_worker_open(struct tachy_stage *st, int batch, void **worker); // on the host: a tachy_composite
void tachy_composite_worker_close(void *worker);
// The times and numbers of a finished picture are its frame's.
void tachy_composite_name(const struct tachy_composite_stage *c, struct tachy_item *item);

// picture.c: the first picture of a file in another format and size, as a frame of the caller's. On failure *out is NULL.
// With `video`, it is also NULL for a video, and *video says so.
int tachy_read_picture(const char *file, const struct tachy_convert_to *to, tachy_frame **out, bool *video,
                       const struct tachy_log *log);
// A matte of all frames of a stream, as stored, that `draw` draws as shown; replaces *matte (tachy_aligned_free()).
int tachy_matte_make(uint8_t **matte, const struct tachy_video_info *video,
                     int (*draw)(struct tachy_stage *st, uint8_t *shown, int w, int h), struct tachy_stage *st);
// Mixes a picture's grey, stretched to w x h, into `shown` pixel by pixel; `video` as of tachy_read_picture().
int tachy_matte_mix(uint8_t *shown, int w, int h, const char *file, uint8_t (*mix)(uint8_t, uint8_t), bool *video,
                    const struct tachy_log *log);

// A picture turned: from how it is shown to how pictures of a stream with this rotation are stored if `back`, else the other way. Its
// chroma must be as fine down as across.
int tachy_picture_turn(const tachy_frame *f, int rotation, bool flip, bool back, tachy_frame **out);

// background.c: the picture behind the item; NULL: there is none.
tachy_frame *tachy_background_of(const struct tachy_composite_stage *c, const struct tachy_item *item);
// refine.c: the coefficients of the item's regions; NULL without --refine.
const struct tachy_refine *tachy_refined(const struct tachy_composite_stage *c, const struct tachy_item *item,
                                         struct tachy_refine r[TACHY_MAX_EYES]);

// mask_lines.c: what both forms of lines have. An item's bytes begin with its line.
struct tachy_mask_line_item {
    char *json; // grown as needed
    size_t size;
};
int tachy_mask_line(struct tachy_stage *st, tachy_composite *c, struct tachy_item *item, const struct tachy_refine *refine,
                    tachy_frame *alpha); // alpha: the line is of that picture; NULL: of the masks
void tachy_mask_lines_item_close(void *item);
// Seconds from the start of the stream.
static inline double tachy_item_time(const tachy_task *t, const struct tachy_item *item)
{
    return (double)item->result.pts * t->in.time_base.num / t->in.time_base.den;
}
