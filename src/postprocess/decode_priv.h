#pragma once
#include "postprocess/decode.h"
#include "ref/ref_preprocess.h"

#include <math.h>

// Inside of the decoders.

// One output of the model as rows of numbers.
struct decode_part {
    int out;            // of the model
    int64_t rows, cols; // of one picture
};

// Decoded boxes, in pixels of the network's picture.
struct decode_boxes {
    float (*box)[4]; // x0, y0, x1, y1
    float *score;
    int32_t *class_id;
    int64_t *row;    // original row, counted over all levels
    int nb;
    int32_t *kept, *order;
};

struct tachy_decoder {
    const struct tachy_card_decoder *card;
    const char *name; // of the model
    int width, height, batch;
    int64_t rows; // boxes in all levels
    int nb_classes;
    struct decode_part part[TACHY_MAX_LEVELS], scores[TACHY_MAX_LEVELS], points[TACHY_MAX_LEVELS];
    struct decode_part classes, count; // out < 0: none
    float (*cell)[3];  // of each row: x, y of the cell's centre in pixels, stride; NULL: no grid
    struct decode_boxes found;
    struct tachy_point *spot; // points of one region while it is made
    float *value;             // scores of one row, or a vector
    const struct tachy_log *log;
};

// Number i of picture `item`.
static inline float decode_at(const struct decode_part *part, const struct tachy_decoder_frame *f, int64_t i)
{
    const struct tachy_tensor *t = &f->out[part->out];
    i += f->item * part->rows * part->cols;
    switch (t->dtype) {
    case TACHY_F32: return ((const float *)t->data)[i];
    case TACHY_F16: return tachy_ref_float(((const uint16_t *)t->data)[i]);
    case TACHY_U8: return ((const uint8_t *)t->data)[i];
    case TACHY_I8: return ((const int8_t *)t->data)[i];
    case TACHY_I32: return (float)((const int32_t *)t->data)[i];
    case TACHY_I64: return (float)((const int64_t *)t->data)[i];
    case TACHY_BF16: break; // of no output
    }
    return NAN;
}
// The numbers of the picture, if they are float32; NULL: they are not.
static inline const float *decode_floats(const struct decode_part *part, const struct tachy_decoder_frame *f)
{
    const struct tachy_tensor *t = &f->out[part->out];
    return t->dtype == TACHY_F32 ? (const float *)t->data + f->item * part->rows * part->cols : NULL;
}
// n numbers from number `first` on, `step` apart.
void decode_read(const struct decode_part *part, const struct tachy_decoder_frame *f, int64_t first, int64_t n, int64_t step,
                 float *to);
float decode_sigmoid(float v);
// Scores out of what a network gives, in place: `how` for n classes.
void decode_scores(enum tachy_decoder_scores how, float *v, int n);

int decode_boxes_run(tachy_decoder *d, const struct tachy_decoder_frame *f, struct tachy_regions *list);
int decode_points_run(tachy_decoder *d, const struct tachy_decoder_frame *f, struct tachy_regions *list);
int decode_heatmaps_run(tachy_decoder *d, const struct tachy_decoder_frame *f, struct tachy_regions *list);
int decode_classes_run(tachy_decoder *d, const struct tachy_decoder_frame *f, struct tachy_regions *list);
int decode_vector_run(tachy_decoder *d, const struct tachy_decoder_frame *f, struct tachy_regions *list);

static inline bool decode_is_boxes(enum tachy_decoder_kind k) { return k <= TACHY_DECODE_CORNERS; }
