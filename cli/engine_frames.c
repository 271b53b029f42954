#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum { FRAMES = 8, APART = 12 }; // that are taken, and how many frames lie between two

struct engine_frames {
    tachy_source *source;
    tachy_model *model; // NULL: of no card
    tachy_preprocess *preprocess;
    const struct tachy_log *log;
    int taken;
};

int engine_frames_open(struct engine_frames **out, const char *video, const struct tachy_model_params *model)
{
    struct engine_frames *f = *out = calloc(1, sizeof(*f));
    if (!f)
        return TACHY_ERR_NOMEM;
    f->log = model->log;
    int err = tachy_model_is_path(model->name) ? TACHY_OK : tachy_model_open(&f->model, model);
    return err < 0 ? err : tachy_source_open(&f->source, tachy_source_params(.url = video, .log = f->log));
}

// As the card says; without a card, a picture from 0 to 1 of the tensor's size.
static int open_preprocess(struct engine_frames *f, const struct tachy_tensor *t)
{
    const int64_t *s = t->shape;
    bool last = t->rank == 4 && s[3] <= 4 && s[1] > 4;
    struct tachy_preprocess_params p = {.width = (int)(last ? s[2] : s[3]), .height = (int)(last ? s[1] : s[2]),
                                        .layout = last ? TACHY_NHWC : TACHY_NCHW, .scale = 1.0f / 255};
    if (t->rank != 4 || (last ? s[3] : s[1]) != 3 || t->dtype != TACHY_F32) {
        message_error("--input: the model's first input is not a picture of three channels in float32");
        return TACHY_ERR_UNSUPPORTED;
    }
    if (f->model)
        p = tachy_model_card(f->model)->in;
    p.log = f->log;
    return tachy_preprocess_open(&f->preprocess, &p);
}

// Every picture of the batch is this frame.
static int put(struct engine_frames *f, const tachy_frame *frame, struct tachy_tensor *t)
{
    struct tachy_tensor one = *t;
    int err = f->preprocess ? TACHY_OK : open_preprocess(f, t);
    one.shape[0] = 1;
    for (int64_t i = 0; i < t->shape[0] && err == TACHY_OK; i++) {
        one.data = (char *)t->data + (size_t)i * tachy_tensor_bytes(&one);
        err = tachy_preprocess_run(f->preprocess, frame, NULL, &one, NULL);
    }
    return err;
}

int engine_frames_next(struct engine_frames *f, struct engine_tensors *t)
{
    tachy_frame *frame = NULL;
    int err = f->taken < FRAMES ? TACHY_OK : TACHY_ERR_EOF;
    for (int i = 0; i < (f->taken ? APART : 1) && err == TACHY_OK; i++) {
        tachy_frame_unref(&frame);
        err = tachy_source_read(f->source, &frame);
    }
    if (err == TACHY_OK)
        err = put(f, frame, &t->in[0]);
    tachy_frame_unref(&frame);
    f->taken++;
    return err == TACHY_ERR_EOF ? 0 : err < 0 ? err : 1;
}

void engine_frames_close(struct engine_frames **pf)
{
    struct engine_frames *f = *pf;
    *pf = NULL;
    if (!f)
        return;
    tachy_preprocess_close(&f->preprocess);
    tachy_source_close(&f->source);
    tachy_model_close(&f->model);
    free(f);
}
