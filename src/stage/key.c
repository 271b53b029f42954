#include "base/parse.h"
#include "stage/composite.h"

#include <stdlib.h>

// A chroma keyer. The stage only finds the screen's colours; composite computes alpha from them and the decoded
// picture, row by row. If the screen must be found, frames are searched in order from the first on, until one shows it;
// every later frame of the stream gets its colour.

enum { PATIENCE = 100 }; // frames without a screen after which that is logged

struct key {
    uint32_t color[TACHY_KEY_COLORS]; // those given by value, 0xRRGGBBAA
    int nb_colors;
    bool finds; // and one that is found, of this hue
    enum tachy_key_hue hue;
    float black, white;
    bool shadows;
};

// A stream's.
struct key_state {
    struct tachy_ycbcr found;
    int32_t has_found;
    int32_t missed; // frames before it was found
};

static const struct tachy_option options[] = {
    {"segment.key", "key", 0, TACHY_OPT_LIST, .arg = "green|blue|auto|COLOR", .group = "Segment",
     .help = "key out a screen of this colour instead of running a network, or in addition to a --model that is "
             "named; green, blue, auto: the exact colour is taken from the border of the first frames; repeat it for "
             "several samples"},
    {"segment.key_black", "key-black", 0, TACHY_OPT_FLOAT, "0.15", .max = 0.9, .group = "Segment",
     .help = "keyed alpha up to this becomes 0: cleans an uneven screen"},
    {"segment.key_white", "key-white", 0, TACHY_OPT_FLOAT, "0.9", .min = 0.1, .max = 1, .group = "Segment",
     .help = "keyed alpha from this on becomes 1: closes holes in people"},
    {"segment.key_shadows", "key-shadows", 0, TACHY_OPT_ENUM, "keep", .values = "keep|remove", .group = "Segment",
     .help = "keep: shadows on the screen darken the new background; remove: they count as screen"},
    {0},
};

// ---- Open ----

static int read_color(struct key *k, const char *text, const struct tachy_log *log)
{
    static const char *const hues[] = {"auto", "green", "blue"};
    uint32_t rgba;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(hues); i++)
        if (!strcmp(text, hues[i])) {
            if (k->finds && k->hue != (enum tachy_key_hue)i)
                return tachy_fail(log, TACHY_ERR_INVAL, "--key: one screen is found by itself, so only one of auto, green and "
                                  "blue can be given; give the others as #RRGGBB");
            k->finds = true;
            k->hue = (enum tachy_key_hue)i;
            return TACHY_OK;
        }
    if (!tachy_parse_color(text, &rgba))
        return tachy_fail(log, TACHY_ERR_INVAL, "--key: \"%.80s\" is not a colour: green, blue, auto, #RRGGBB or a CSS name", text);
    const struct tachy_frame like = {.format = TACHY_PIX_RGB24, .width = 1, .height = 1};
    struct tachy_ycbcr c;
    if (!tachy_key_color_of(&c, rgba, &like))
        return tachy_fail(log, TACHY_ERR_INVAL, "--key: %.80s has no hue to tell a screen by; a grey wall is --plate's", text);
    if (k->nb_colors == TACHY_KEY_COLORS - 1)
        return tachy_fail(log, TACHY_ERR_LIMIT, "--key: at most %d colours can be given", TACHY_KEY_COLORS - 1);
    k->color[k->nb_colors++] = rgba;
    return TACHY_OK;
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct key *k = tachy_stage_priv(st);
    const char *const *colors;
    size_t n = tachy_settings_list(s, "segment.key", &colors);
    int err = n ? TACHY_OK : TACHY_STAGE_LEFT_OUT;
    for (size_t i = 0; i < n && err == TACHY_OK; i++)
        err = read_color(k, colors[i], st->task->log);
    if (err != TACHY_OK)
        return err;
    k->black = (float)tachy_settings_float(s, "segment.key_black");
    k->white = (float)tachy_settings_float(s, "segment.key_white");
    if (!(k->black < k->white))
        return tachy_fail(st->task->log, TACHY_ERR_INVAL, "--key-black %g is not below --key-white %g: alpha rises from one to "
                          "the other", (double)k->black, (double)k->white);
    k->shadows = !strcmp(tachy_settings_str(s, "segment.key_shadows"), "keep");
    if (!k->finds)
        st->flags &= ~(unsigned)TACHY_STAGE_ORDERED;
    tachy_task_describe(st->task, " key");
    return TACHY_OK;
}

// ---- Run ----

// Looks for the screen, unless it is known.
static int find(const struct tachy_stage *st, struct key_state *s, const tachy_frame *f)
{
    const struct key *k = tachy_stage_priv(st);
    bool found;
    if (s->has_found)
        return TACHY_OK;
    int err = tachy_key_find(&s->found, k->hue, f, &found);
    if (err < 0)
        return err;
    s->has_found = found;
    s->missed = TACHY_MIN(s->missed + !found, PATIENCE + 1);
    if (found)
        tachy_msg(st->task->log, TACHY_LOG_INFO, "key: frame %lld shows the screen: luma %.3f, Cb %+.3f, Cr %+.3f of 1",
                  (long long)f->id, (double)s->found.y, (double)s->found.u, (double)s->found.v);
    else if (s->missed == PATIENCE)
        tachy_msg(st->task->log, TACHY_LOG_WARN,
                  "key: %d frames and no screen at their border, so nothing is keyed; name its colour: --key #RRGGBB", PATIENCE);
    return TACHY_OK;
}

static int run_one(const struct tachy_stage *st, struct key_state *state, struct tachy_item *item)
{
    const struct key *k = tachy_stage_priv(st);
    struct tachy_chroma_key *to = tachy_stage_item(st, item);
    struct key_state now = {0}; // of a frame without a stream
    struct key_state *s = state ? state : &now;
    int err = k->finds ? find(st, s, item->in) : TACHY_OK;
    *to = (struct tachy_chroma_key){.black = k->black, .white = k->white, .shadows = k->shadows};
    if (s->has_found)
        to->color[to->nb_colors++] = s->found;
    for (int i = 0; i < k->nb_colors; i++)
        to->nb_colors += tachy_key_color_of(&to->color[to->nb_colors], k->color[i], item->in);
    item->bounds.key = to;
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = run_one(st, state, pieces[i].item);
}

// ---- A stream's state ----

static int state_load(void *state, const void *data, size_t size)
{
    ((struct key_state *)state)->missed &= 0xffff; // it only counts
    return TACHY_OK;
}

const struct tachy_stage_ops tachy_stage_key = {
    .name = "key",
    .options = options,
    .flags = TACHY_STAGE_ORDERED | TACHY_STAGE_READS,
    .step = "postprocess",
    .remedy = "give the screen's colour, as in --key #00b140",
    .priv_size = sizeof(struct key),
    .item_size = sizeof(struct tachy_chroma_key),
    .state_size = sizeof(struct key_state),
    .open = open,
    .run = run,
    .state_load = state_load,
};
