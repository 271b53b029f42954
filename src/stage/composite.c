#include "stage/composite.h"

#include "base/output_options.h"

#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

// The picture that is written.

// ---- Settings ----

static enum tachy_mode mode_by_name(const char *name)
{
    static const char *const names[] = {"mask",    "cutout", "blur", "replace",
                                        "overlay", "alpha",  "json", "side-by-side"};
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(names); i++)
        if (!strcmp(names[i], name))
            return (enum tachy_mode)i;
    return TACHY_MODE_CUTOUT; // the option table admits no other name
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = s ? strlen(s) : 0, m = strlen(end);
    return n >= m && !strcasecmp(s + n - m, end);
}

static enum tachy_spill spill_by_name(const char *name)
{
    return !strcmp(name, "green") ? TACHY_SPILL_GREEN : !strcmp(name, "blue") ? TACHY_SPILL_BLUE
         : !strcmp(name, "auto")  ? TACHY_SPILL_KEY   : TACHY_SPILL_OFF;
}

// Keying out a screen also removes its light by default.
static enum tachy_spill spill_of(const tachy_settings *set)
{
    const char *const *keys;
    bool keyed = !tachy_settings_is_set(set, "segment.despill") && tachy_settings_list(set, "segment.key", &keys) > 0;
    return spill_by_name(keyed ? "auto" : tachy_settings_str(set, "segment.despill"));
}

// The container decides what an alpha plane may look like: ProRes 4444, VP9, else RGBA.
static enum tachy_pix alpha_of(const char *file, const char *format)
{
    if (ends_with(file, ".webm") || (format && !strcmp(format, "webm")))
        return TACHY_PIX_YUVA420P;
    if (ends_with(file, ".mov") || (format && !strcmp(format, "mov")) || (!file && !format))
        return TACHY_PIX_YUVA444P10;
    return TACHY_PIX_RGBA;
}

// With several outputs that differ, the format that holds most is chosen, and each output converts it.
static enum tachy_pix alpha_format(const tachy_settings *set)
{
    const char *const *outputs, *format = tachy_settings_str(set, "output.format");
    char own[TACHY_OUTPUT_VALUE];
    size_t n = tachy_settings_list(set, "output.file", &outputs);
    enum tachy_pix all = n ? TACHY_PIX_NONE : alpha_of(NULL, format);
    for (size_t i = 0; i < n; i++) {
        bool named = tachy_output_option(outputs[i], "f", own, sizeof(own));
        enum tachy_pix one = alpha_of(tachy_output_name(outputs[i]), named ? own : format);
        all = all == TACHY_PIX_NONE || all == one ? one : TACHY_PIX_YUVA444P10;
    }
    return all;
}

// In mode replace the background is a file; in the others it is a colour (the task has checked that).
static void read_background(const tachy_settings *set, struct tachy_composite_params *p, const char **file)
{
    const char *text = tachy_settings_str(set, "segment.background");
    bool tint = p->mode == TACHY_MODE_OVERLAY;
    p->color = tachy_settings_color(set, tint ? "segment.tint" : "segment.background");
    // A colour and no file of that name: as in mode cutout.
    if (p->mode == TACHY_MODE_REPLACE && p->color && access(text, F_OK) != 0)
        p->mode = TACHY_MODE_CUTOUT;
    *file = p->mode == TACHY_MODE_REPLACE ? text : NULL;
}

int tachy_composite_settings(const tachy_settings *set, const struct tachy_log *log, struct tachy_composite_params *p,
                             const char **background)
{
    *background = NULL;
    *p = (struct tachy_composite_params){
        .mode = mode_by_name(tachy_settings_str(set, "segment.mode")),
        .threshold = (float)tachy_settings_float(set, "segment.threshold"),
        .feather = (float)tachy_settings_float(set, "segment.feather"),
        .blur = (float)tachy_settings_float(set, "segment.blur"),
        .grow = (float)(tachy_settings_float(set, "segment.grow") - tachy_settings_float(set, "segment.shrink")),
        .foreground = tachy_settings_bool(set, "segment.foreground"),
        .despill = spill_of(set),
        .alpha_format = alpha_format(set),
        .log = log,
    };
    read_background(set, p, background);
    return TACHY_OK;
}

// ---- What composite and lines have in common ----

enum tachy_edge tachy_edge_of(const tachy_settings *set)
{
    const char *name = tachy_settings_str(set, "segment.edge");
    return !strcmp(name, "natural") ? TACHY_EDGE_NATURAL : !strcmp(name, "hard") ? TACHY_EDGE_HARD : TACHY_EDGE_SOFT;
}

// The ramp from probability to alpha. A matte keeps its soft values, because a ramp would harden hair, unless the user
// asks for one. Without a network there is nothing to ramp. Solved alpha has some haze, so a tenth is cut at both ends.
static void set_ramp(struct tachy_composite_stage *c, const struct tachy_stage *st, const tachy_settings *set)
{
    struct tachy_composite_params *p = &c->params;
    const struct tachy_infer *in = tachy_stage_before(st, "preprocess") ? tachy_infer_of(st) : NULL;
    bool asked = tachy_settings_is_set(set, "segment.threshold") || tachy_settings_is_set(set, "segment.feather");
    bool matte = in && in->net[TACHY_INFER_FULL].card->meaning == TACHY_OUT_ALPHA;
    enum tachy_edge edge = tachy_edge_of(set);
    if (tachy_stage_before(st, "everything") || (!asked && (matte || edge == TACHY_EDGE_NATURAL))) {
        p->threshold = 0.5f;
        p->feather = edge == TACHY_EDGE_NATURAL ? 0.8f : 1;
    }
    if (edge == TACHY_EDGE_HARD)
        p->feather = 0;
}

int tachy_composite_open_stage(struct tachy_stage *st, const tachy_settings *set, bool lines)
{
    struct tachy_composite_stage *c = tachy_stage_priv(st);
    const char *background;
    int err = tachy_composite_settings(set, st->task->log, &c->params, &background);
    if (err < 0)
        return err;
    enum tachy_mode m = c->params.mode;
    const unsigned both = 1u << TACHY_TEXT_NONE | 1u << TACHY_TEXT_JSON;
    c->beside = lines && m != TACHY_MODE_JSON && (tachy_output_kinds(set) & both) == both;
    if ((m == TACHY_MODE_JSON) != lines && !c->beside)
        return TACHY_STAGE_LEFT_OUT;
    if (c->beside)
        m = c->params.mode = TACHY_MODE_JSON;
    c->st = st;
    c->masks = tachy_masks_of(st);
    set_ramp(c, st, set);
    c->refine = tachy_stage_before(st, "refine");
    c->background = tachy_stage_before(st, "background");
    bool solves = c->solves = c->masks && tachy_edge_of(set) == TACHY_EDGE_NATURAL;
    c->refines = c->masks && !solves && tachy_settings_bool(set, "segment.refine");
    // The guided filter applies its coefficients to the picture's luma.
    if (c->refines)
        tachy_masks_guide(c->masks);
    bool keyed = tachy_stage_before(st, "key") || tachy_stage_before(st, "plate");
    st->flags |= keyed || solves || c->refines || (m != TACHY_MODE_MASK && m != TACHY_MODE_JSON) ? TACHY_STAGE_READS : 0;
    tachy_task_describe(st->task, " mode %d%s", (int)m, solves ? " natural" : c->refines ? " refine" : "");
    return TACHY_OK;
}

int tachy_composite_start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct tachy_composite_stage *c = tachy_stage_priv(st);
    const struct tachy_video_info in = *video;
    int err = tachy_composite_output(&c->params, &in, &c->out);
    if (!c->beside)
        *video = c->out;
    return err;
}

void tachy_composite_close_stage(struct tachy_stage *st)
{
    tachy_frame_pool_close(&((struct tachy_composite_stage *)tachy_stage_priv(st))->pool);
}

void tachy_composite_name(const struct tachy_composite_stage *c, struct tachy_item *item)
{
    tachy_item_name(item, c->out.color);
}

// ---- On the host ----

// Colours that the network gives are shown unless the settings refuse them, estimated ones if they ask for them.
static int open(struct tachy_stage *st, const tachy_settings *set)
{
    struct tachy_composite_stage *c = tachy_stage_priv(st);
    int err = tachy_composite_open_stage(st, set, false);
    bool refused = tachy_settings_is_set(set, "segment.foreground") && !tachy_settings_bool(set, "segment.foreground");
    bool shown = c->params.mode != TACHY_MODE_MASK && c->params.mode != TACHY_MODE_OVERLAY;
    if (err == TACHY_OK && c->masks && shown && !refused && tachy_masks_colour(c->masks))
        tachy_task_describe(st->task, " given");
    return err;
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct tachy_composite_stage *c = tachy_stage_priv(st);
    int err = tachy_composite_start(st, video);
    return err < 0 ? err : tachy_stage_pool(st, &c->pool, video->format, video->width, video->height);
}

int tachy_composite_worker_open(struct tachy_stage *st, int batch, void **worker)
{
    tachy_composite *c = NULL;
    int err = tachy_composite_open(&c, &((struct tachy_composite_stage *)tachy_stage_priv(st))->params);
    *worker = c;
    return err;
}

void tachy_composite_worker_close(void *worker) { tachy_composite_close(&(tachy_composite *){worker}); }

// The colours that the network gives for the item's eyes; returns how many: all or none.
static int given(const struct tachy_composite_stage *c, const struct tachy_item *item, struct tachy_given g[TACHY_MAX_EYES])
{
    for (int i = 0; i < item->result.eyes; i++) {
        g[i] = c->masks && c->masks->coloured ? tachy_mask_eye(c->masks, item, i)->given : (struct tachy_given){0};
        if (!g[i].v)
            return 0;
    }
    return item->result.eyes;
}

static int composite(const struct tachy_composite_stage *c, tachy_composite *worker, struct tachy_item *item)
{
    struct tachy_refine refine[TACHY_MAX_EYES];
    struct tachy_given colours[TACHY_MAX_EYES];
    int err = tachy_frame_pool_get(c->pool, &item->out);
    if (err < 0)
        return err;
    tachy_composite_bound(worker, &item->bounds);
    tachy_composite_give(worker, colours, given(c, item, colours));
    err = tachy_composite_run(worker, tachy_item_head(item), &item->result, tachy_refined(c, item, refine),
                              tachy_background_of(c, item), item->out);
    tachy_composite_give(worker, NULL, 0);
    tachy_composite_name(c, item);
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    for (int i = 0; i < n; i++)
        err[i] = composite(tachy_stage_priv(st), worker, pieces[i].item);
}

const struct tachy_stage_ops tachy_stage_composite = {
    .name = "composite",
    .flags = TACHY_STAGE_WRITES,
    .priv_size = sizeof(struct tachy_composite_stage),
    .open = open,
    .close = tachy_composite_close_stage,
    .start = start,
    .worker_open = tachy_composite_worker_open,
    .worker_close = tachy_composite_worker_close,
    .run = run,
};
