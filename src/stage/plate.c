#include "postprocess/plate.h"

#include "stage/composite.h"

#include <stdlib.h>

// A difference matte. The stage knows the plate and finds each frame's light; composite makes alpha of both pictures, row
// by row. If the network's card names an input for the plate, the network gets it instead.

struct plate {
    char *file;
    float tolerance;
    tachy_frame *picture; // of the pipeline's format and size
    atomic_bool told;     // that a frame shows something else
    struct tachy_infer *infer; // the network that sees the plate; NULL: the difference counts
};

static const struct tachy_option options[] = {
    {"segment.plate", "plate", 0, TACHY_OPT_STRING, .arg = "FILE", .group = "Segment",
     .help = "keep what differs from this picture of the empty scene, instead of running a network, or in addition to "
             "a --model that is named; the camera must not move"},
    {"segment.plate_tolerance", "plate-tolerance", 0, TACHY_OPT_FLOAT, "1", .min = 0.1, .max = 10, .group = "Segment",
     .help = "how much a pixel may differ and still belong to the empty scene, in multiples of the noise"},
    {0},
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct plate *p = tachy_stage_priv(st);
    const char *file = tachy_settings_str(s, "segment.plate");
    const struct tachy_card *card = NULL;
    if (tachy_stage_before(st, "preprocess")) {
        p->infer = tachy_infer_of(st);
        card = p->infer->net[TACHY_INFER_FULL].card;
        p->infer = *card->plate ? p->infer : NULL;
    }
    if (!file && p->infer && !p->infer->pretends)
        return tachy_fail(st->task->log, TACHY_ERR_INVAL, "model %s: compares each frame with a picture of the scene without "
                          "people: name it with --plate FILE", card->name);
    if (!file)
        return TACHY_STAGE_LEFT_OUT;
    if (p->infer)
        st->flags = 0;
    p->tolerance = (float)tachy_settings_float(s, "segment.plate_tolerance");
    tachy_task_describe(st->task, " plate");
    p->file = strdup(file);
    return p->file ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void close(struct tachy_stage *st)
{
    struct plate *p = tachy_stage_priv(st);
    tachy_frame_unref(&p->picture);
    free(p->file);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct plate *p = tachy_stage_priv(st);
    const struct tachy_log *log = st->task->log;
    const struct tachy_convert_to to = {video->format, video->width, video->height, video->color};
    if (video->rotation || video->flipped)
        return tachy_fail(log, TACHY_ERR_UNSUPPORTED, "--plate: the video is shown turned by %d degrees; write it upright first "
                          "(ffmpeg -i IN OUT), and take the plate from that", video->rotation);
    tachy_frame_unref(&p->picture);
    int err = tachy_read_picture(p->file, &to, &p->picture, NULL, log);
    if (p->infer)
        p->infer->plate = p->picture;
    return err;
}

static void fit(struct plate *p, const struct tachy_stage *st, struct tachy_item *item)
{
    struct tachy_plate *to = tachy_stage_item(st, item);
    *to = (struct tachy_plate){.picture = p->picture, .tolerance = p->tolerance};
    if (!tachy_plate_fit(to, item->in) && !atomic_exchange(&p->told, true))
        tachy_msg(st->task->log, TACHY_LOG_WARN, "plate: frame %lld has little in common with %s; was the camera moved?",
                  (long long)item->in->id, p->file);
    item->bounds.plate = to;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct plate *p = tachy_stage_priv(st);
    for (int i = 0; i < n && !p->infer; i++)
        fit(tachy_stage_priv(st), st, pieces[i].item);
}

const struct tachy_stage_ops tachy_stage_plate = {
    .name = "plate",
    .options = options,
    .flags = TACHY_STAGE_READS,
    .step = "postprocess",
    .priv_size = sizeof(struct plate),
    .item_size = sizeof(struct tachy_plate),
    .open = open,
    .close = close,
    .start = start,
    .run = run,
};
