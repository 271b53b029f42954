#include "base/parse.h"
#include "postprocess/person.h"
#include "stage/composite.h"

#include <stdlib.h>

// Keeps one of several people in the mask. The choice depends on earlier frames, so the stage is in order.

struct person {
    struct tachy_masks *masks;
    struct tachy_person_choice choice;
};

// A stream's.
struct person_state {
    struct tachy_person eye[TACHY_MAX_EYES];
    struct tachy_buf scratch;
};

static const struct tachy_option options[] = {
    {"segment.person", "person", 0, TACHY_OPT_STRING, "all", .arg = "all|largest|center|N", .group = "Segment",
     .help = "whom to keep: everybody; the largest person; the one nearest to the centre; or the Nth from the left in "
             "the first frame with N people, who is then followed"},
    {0},
};

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct person *p = tachy_stage_priv(st);
    const char *text = tachy_settings_str(s, "segment.person");
    int64_t nth = 0;
    if (!strcmp(text, "all"))
        return TACHY_STAGE_LEFT_OUT;
    bool number = tachy_parse_int(text, &nth);
    if (!strcmp(text, "largest"))
        p->choice.rule = TACHY_PERSON_LARGEST;
    else if (!strcmp(text, "center"))
        p->choice.rule = TACHY_PERSON_CENTER;
    else if (number && nth >= 1 && nth <= 64)
        p->choice = (struct tachy_person_choice){.rule = TACHY_PERSON_NTH, .nth = (int)nth};
    else
        return tachy_fail(st->task->log, TACHY_ERR_INVAL, "--person: \"%.80s\" is not all, largest, center or a number from 1 to 64",
                          text);
    p->masks = tachy_masks_of(st);
    tachy_task_describe(st->task, " person");
    return TACHY_OK;
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct person *p = tachy_stage_priv(st);
    p->choice.rotation = video->rotation;
    p->choice.flip = video->flipped;
    return TACHY_OK;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    const struct person *p = tachy_stage_priv(st);
    const struct tachy_item *item = pieces[0].item;
    struct person_state one = {0}, *s = state ? state : &one; // a frame without a stream
    for (int i = 0; i < st->task->eyes && err[0] == TACHY_OK; i++) {
        struct tachy_mask_eye *e = tachy_mask_eye(p->masks, item, i);
        err[0] = tachy_person_keep(&s->eye[i], &p->choice, &s->scratch, e->mask, e->width, e->height, item->anew);
    }
    if (!state)
        tachy_buf_free(&one.scratch);
}

static int state_open(struct tachy_stage *st, void **state)
{
    *state = calloc(1, sizeof(struct person_state));
    return *state ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void state_close(void *state)
{
    tachy_buf_free(&((struct person_state *)state)->scratch);
    free(state);
}

static int state_save(const void *state, void **data, size_t *size)
{
    const struct person_state *s = state;
    return tachy_state_save(s->eye, sizeof(s->eye), data, size);
}

static int state_load(void *state, const void *data, size_t size)
{
    struct person_state *s = state;
    bool sound = tachy_state_load(s->eye, sizeof(s->eye), data, size) == TACHY_OK;
    for (int i = 0; i < TACHY_MAX_EYES && sound; i++)
        sound = tachy_person_sound(&s->eye[i]);
    return sound ? TACHY_OK : TACHY_ERR_FORMAT;
}

const struct tachy_stage_ops tachy_stage_person = {
    .name = "person",
    .options = options,
    .flags = TACHY_STAGE_ORDERED,
    .step = "postprocess",
    .remedy = "keep everybody (--person all)",
    .priv_size = sizeof(struct person),
    .open = open,
    .start = start,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
    .state_save = state_save,
    .state_load = state_load,
};
