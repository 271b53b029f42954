#include "stage/focus.h"

#include "model/card.h"
#include "postprocess/focus.h"
#include "postprocess/mask.h"
#include "preprocess/signature.h"
#include "stage/mask.h"
#include "stage/net.h"
#include "stage/stage.h"
#include "stage/watch.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

// A second look: the network of the masks sees a region around each person at its full input size, instead of the whole
// frame. People are followed: a look runs the network on a person's region, and the mask's box becomes the person's
// position. So each look needs the previous one, and looks are in stream order; the networks' runs on the frames are in
// any order. A detector searches for new people: on the whole frame, and on tiles for those who are small in it. A
// picture without people is searched again if it changes, first where it changed.

enum {
    LEVELS = 4,      // of tiles, see tachy_focus_tile()
    NEWCOMERS = 24,  // least frames between two looks for them, while somebody is there
    AFTER = 2,       // looks at an empty picture after its last change: at the whole frame, and where it changed
    REST = 48,       // most frames between two looks at one that does not change
    REFINED = 3,     // times that a person's box is taken from the own mask
};
static const double DETECTED = 1.1;          // of a detection's box that is looked at
static const double ROOM = 0.2;              // around a box whose mask is asked for
static const double SHARP = 0.5, SURE = 0.8; // least sharpness of a detected person, and of one that no detector found
static const double MERIT = 1.4;             // least sum of a detected person's score and sharpness
static const double STABLE = 0.06;           // of the extents, a box's change that ends the refinement
static const double ANOTHER = 0.7;           // share of a picture that has changed if it is another one
static const double NEAR = 0.08;             // of a person's extents around it, where movement is no reason for an early look
static const double LEAVES = 0.03;           // change of luma in a cell outside of that which is one
static const double BEYOND = 0.02;           // of a view's extents, from its edge: who is there goes on beyond it
static const double WIDER = 0.4;             // of its extents, around a view that somebody is leaving
static const double CUT = 0.12;              // mean difference of luma between two frames that are of two scenes
static const float GOOD = 0.7f, FAIR = 0.5f; // scores that make a search on smaller tiles superfluous

struct focus {
    struct tachy_infer detector;
    struct tachy_infer opened; // the network of masks until the stage preprocess takes it over
    struct tachy_infer *masks; // that stage's
    struct tachy_mask_spec spec;
    int rotation;
    bool flip;
    bool asked; // for it, by name
    bool idle;  // this stream is seen as a whole
    pthread_mutex_t lock;      // holds `spare`, and the opening of another one
    struct focus_nets *spare;  // that no look uses
    bool open;
};

// A stream's.
struct focus_state {
    struct tachy_focus plan;
    struct tachy_signature before;
    bool has_before;
    int tile;  // of the next look for people who are not known yet
    int since; // frames since the last one
    struct tachy_watch watch; // of a picture that shows nobody
    int more;                 // looks that it gets although nothing changes
};

// The networks that a look runs. Looks of one stream are in order and mostly far apart, so workers share these: there are as many as
// looks have been made at the same time.
struct focus_nets {
    struct focus_nets *next;
    struct tachy_net_worker detector, masks;
    uint8_t *mask; // of one run
    int width, height;
};

struct focus_worker {
    struct tachy_regions found;
};

static const struct tachy_option options[] = {
    {"segment.focus", "focus", 0, TACHY_OPT_ENUM, "auto", .values = "auto|off", .group = "Segment",
     .help = "auto: find people first, and give the network the part of the frame around them; off: the whole frame"},
    {0},
};

// The card of the network of masks.
static const struct tachy_card *card_of(const struct focus *f) { return f->masks->net[TACHY_INFER_FULL].card; }

// ---- Open ----

// Why masks are not made of regions; NULL: they are. Before the network is opened, and by its card.
static const char *unfit(const tachy_settings *s)
{
    const char *provider = tachy_settings_str(s, "model.provider");
    if (provider && !strcmp(provider, "null"))
        return "no model runs (--provider null)";
    return tachy_settings_str(s, "debug.save_stage") ? "stages are saved (--save-stage)" : NULL;
}

static const char *unfit_card(const struct tachy_card *c)
{
    if (c->n_states)
        return "the model carries a state from frame to frame";
    if (*c->plate)
        return "the model compares the whole picture with the plate";
    return c->in.fit == TACHY_FIT_CROP ? "the model's card crops the picture itself" : NULL;
}

// `wanted`: the user should know, since --focus was given or the missing model is easy to get.
static int leave_out(const tachy_task *t, bool wanted, const char *why)
{
    tachy_msg(t->log, wanted ? TACHY_LOG_INFO : TACHY_LOG_VERBOSE, "focus: off: %s; the whole frame is looked at", why);
    return TACHY_STAGE_LEFT_OUT;
}

static bool asked(const tachy_settings *s) { return tachy_settings_is_set(s, "segment.focus"); }

// TACHY_STAGE_LEFT_OUT: its model is not installed.
static int open_detector(struct tachy_stage *st, const tachy_settings *s)
{
    struct focus *f = tachy_stage_priv(st);
    const struct tachy_net_params p = {.name = TACHY_FOCUS_DETECTOR, .task = "detect", .optional = true};
    int err = tachy_net_open(&f->detector, st, &p, s);
    if (err == TACHY_OK || f->detector.net[TACHY_INFER_FULL].card)
        return err;
    return leave_out(st->task, true, "the model " TACHY_FOCUS_DETECTOR " is not installed (`tachy model pull " TACHY_FOCUS_DETECTOR
                        "` gets it)");
}

static int open(struct tachy_stage *st, const tachy_settings *s)
{
    struct focus *f = tachy_stage_priv(st);
    tachy_task *t = st->task;
    const char *why = unfit(s);
    if (!strcmp(tachy_settings_str(s, "segment.focus"), "off"))
        return TACHY_STAGE_LEFT_OUT;
    if (why)
        return leave_out(t, asked(s), why);
    int err = infer_open_named(&f->opened, st, s);
    if (err < 0)
        return err;
    const struct tachy_card *c = f->opened.net[TACHY_INFER_FULL].card;
    why = unfit_card(c);
    err = why ? leave_out(t, asked(s), why) : open_detector(st, s);
    if (err != TACHY_OK)
        return err;
    pthread_mutex_init(&f->lock, NULL);
    f->open = true;
    f->asked = asked(s);
    t->parts = true;
    t->opened = &f->opened;
    tachy_task_describe(t, "focus ");
    tachy_msg(t->log, TACHY_LOG_VERBOSE,
              "focus: on: the model " TACHY_FOCUS_DETECTOR " finds people for %s (--focus off: the whole frame)", c->name);
    return TACHY_OK;
}

static void nets_close(struct focus_nets *n)
{
    tachy_net_worker_close(&n->detector);
    tachy_net_worker_close(&n->masks);
    tachy_aligned_free(n->mask);
    free(n);
}

static void close(struct tachy_stage *st)
{
    struct focus *f = tachy_stage_priv(st);
    for (struct focus_nets *n = f->spare, *next; n; n = next) {
        next = n->next;
        nets_close(n);
    }
    if (f->open)
        pthread_mutex_destroy(&f->lock);
    infer_free(&f->detector);
    infer_free(&f->opened);
}

static int start(struct tachy_stage *st, struct tachy_video_info *video)
{
    struct focus *f = tachy_stage_priv(st);
    f->masks = tachy_stage_priv(st->task->stage[st->index + 1]); // preprocess
    f->spec = tachy_mask_spec_of(f->masks, TACHY_INFER_FULL);
    f->rotation = video->rotation;
    f->flip = video->flipped;
    f->idle = video->stereo == TACHY_STEREO_SBS || video->stereo == TACHY_STEREO_TB;
    if (f->idle)
        leave_out(st->task, f->asked, "the picture is stereo");
    return TACHY_OK;
}

// ---- A worker ----

static void worker_close(void *worker)
{
    tachy_regions_free(&((struct focus_worker *)worker)->found);
    free(worker);
}

static int worker_open(struct tachy_stage *st, int batch, void **worker)
{
    *worker = calloc(1, sizeof(struct focus_worker));
    return *worker ? TACHY_OK : TACHY_ERR_NOMEM;
}

// The latest output of the network of masks.
static const struct tachy_tensor *mask_of(const struct focus_nets *n)
{
    return &n->masks.run.tensors.out[n->masks.run.net->output];
}

static int nets_open(struct focus *f, struct focus_nets *n)
{
    int err = tachy_net_worker_open(&n->detector, &f->detector);
    if (err == TACHY_OK)
        err = tachy_net_worker_open(&n->masks, f->masks);
    if (err == TACHY_OK)
        err = tachy_mask_extent(&f->spec, mask_of(n), &n->width, &n->height);
    if (err < 0)
        return err;
    n->mask = tachy_aligned_alloc((size_t)n->width * (size_t)n->height);
    return n->mask ? TACHY_OK : TACHY_ERR_NOMEM;
}

// For one look, then to be given back.
static int nets_take(struct focus *f, struct focus_nets **out)
{
    int err = TACHY_OK;
    pthread_mutex_lock(&f->lock);
    struct focus_nets *n = f->spare;
    if (n) {
        f->spare = n->next;
    } else {
        n = calloc(1, sizeof(*n));
        err = n ? nets_open(f, n) : TACHY_ERR_NOMEM;
    }
    pthread_mutex_unlock(&f->lock);
    if (err < 0 && n)
        nets_close(n);
    *out = err < 0 ? NULL : n;
    return err;
}

static void nets_give(struct focus *f, struct focus_nets *n)
{
    pthread_mutex_lock(&f->lock);
    n->next = f->spare;
    f->spare = n;
    pthread_mutex_unlock(&f->lock);
}

// ---- A look ----

struct look {
    const struct focus *f;
    struct focus_worker *w;
    struct focus_nets *nets;
    struct focus_state *s;
    const tachy_frame *in;
    bool hurried; // the frame has a deadline: no search that takes long
};

static struct tachy_view view_of(const struct look *l, const struct tachy_focus_box *b)
{
    return (struct tachy_view){.x = b->x0, .y = b->y0, .w = b->x1 - b->x0, .h = b->y1 - b->y0,
                               .rotation = l->f->rotation, .flip = l->f->flip};
}

// A box in pixels of the mask's picture to frame pixels.
static void to_frame(const struct look *l, const double map[6], struct tachy_focus_box *b)
{
    const struct tachy_card *c = card_of(l->f);
    double sx = (double)c->in.width / l->nets->width, sy = (double)c->in.height / l->nets->height;
    double x0 = b->x0 * sx, y0 = b->y0 * sy, x1 = b->x1 * sx, y1 = b->y1 * sy;
    double ax = map[0] * x0 + map[1] * y0 + map[2], ay = map[3] * x0 + map[4] * y0 + map[5];
    double bx = map[0] * x1 + map[1] * y1 + map[2], by = map[3] * x1 + map[4] * y1 + map[5];
    *b = (struct tachy_focus_box){TACHY_MIN(ax, bx), TACHY_MIN(ay, by), TACHY_MAX(ax, bx), TACHY_MAX(ay, by)};
}

// Position of the person that the network sees in a part of the frame: returns 1, or 0 if it sees nobody. Negative: an
// error.
static int see(const struct look *l, const struct tachy_focus_box *part, struct tachy_focus_box *person, double *sharp)
{
    struct focus_nets *n = l->nets;
    if (part->x1 - part->x0 < 8 || part->y1 - part->y0 < 8)
        return 0;
    const struct tachy_view view = view_of(l, part);
    double map[6];
    int err = tachy_net_run(&n->masks, l->in, &view, NULL, NULL);
    if (err == TACHY_OK)
        err = tachy_mask_from_tensor(&l->f->spec, mask_of(n), NULL, 0, false, n->mask, n->width);
    if (err == TACHY_OK)
        err = tachy_preprocess_map(&card_of(l->f)->in, l->in->width, l->in->height, &view, map);
    if (err < 0)
        return err;
    if (!tachy_focus_mask_box(n->mask, n->width, n->height, person, sharp))
        return 0;
    to_frame(l, map, person);
    return 1;
}

// Replaces the box by that of its own mask until it no longer changes. Returns as see().
static int refine(const struct look *l, struct tachy_focus_box *box, double *sharp)
{
    double room = 0;
    for (int i = 0; i < REFINED; i++, room = ROOM) {
        const struct tachy_focus_box before = *box, part = tachy_focus_pad(&l->s->plan, box, room);
        int seen = see(l, &part, box, sharp);
        if (seen <= 0)
            return seen;
        double size = TACHY_MAX(box->x1 - box->x0, box->y1 - box->y0);
        double x = TACHY_MAX(fabs(box->x0 - before.x0), fabs(box->x1 - before.x1)),
               y = TACHY_MAX(fabs(box->y0 - before.y0), fabs(box->y1 - before.y1));
        if (room > 0 && TACHY_MAX(x, y) < STABLE * size)
            break;
    }
    return 1;
}

// People whom the detector sees in a part of the frame.
static int detect(const struct look *l, const struct tachy_focus_box *part, struct tachy_focus_search *s)
{
    const struct tachy_view view = view_of(l, part);
    tachy_regions_clear(&l->w->found);
    int err = tachy_net_run(&l->nets->detector, l->in, &view, NULL, &l->w->found);
    for (int i = 0; i < l->w->found.nb && err == TACHY_OK; i++) {
        const struct tachy_region *r = &l->w->found.v[i];
        double x = DETECTED * r->w / 2, y = DETECTED * r->h / 2;
        const struct tachy_focus_box b = {r->x - x, r->y - y, r->x + x, r->y + y};
        const struct tachy_focus_candidate c = {tachy_focus_pad(&l->s->plan, &b, 0), (double)r->score};
        if (!tachy_focus_knows(&l->s->plan, &c.box))
            tachy_focus_consider(s, &c);
    }
    return err;
}

static int detect_level(const struct look *l, int level, struct tachy_focus_search *s)
{
    struct tachy_focus_box tile;
    int err = TACHY_OK;
    for (int i = 0; err == TACHY_OK && tachy_focus_tile(&l->s->plan, level, i, &tile); i++)
        err = detect(l, &tile, s);
    return err;
}

// The whole frame and all tiles; smaller ones only if larger ones did not do.
static int detect_all(const struct look *l, struct tachy_focus_search *s)
{
    int err = detect_level(l, 1, s);
    l->s->since = l->s->more = 0;
    for (int level = 2; level <= LEVELS && err == TACHY_OK; level++)
        if (!s->nb || s->c[0].merit < (double)(level < 4 ? GOOD : FAIR))
            err = detect_level(l, level, s);
    return err;
}

// The whole frame, and at the next look the part of an empty one that has changed, or one of the tiles: all of them in turn.
static int detect_some(const struct look *l, struct tachy_focus_search *s)
{
    struct tachy_focus_box tile;
    int level = 1, i = l->s->tile / 2;
    l->s->since = 0;
    if (l->s->tile % 2 && !l->s->plan.nb && tachy_watch_part(&l->s->watch, l->in->width, l->in->height, &tile)) {
        l->s->tile--; // whose turn is later
        return detect(l, &tile, s);
    }
    if (l->s->tile++ % 2)
        for (level = 2; level <= LEVELS && i >= tachy_focus_tiles(&l->s->plan, level); level++)
            i -= tachy_focus_tiles(&l->s->plan, level);
    if (level > LEVELS) { // all have been looked at
        l->s->tile = 0;
        level = 1;
    }
    return tachy_focus_tile(&l->s->plan, level, level == 1 ? 0 : i, &tile) ? detect(l, &tile, s) : TACHY_OK;
}

// Everybody is lost: they are near where the picture has changed since the last look, or gone. After a cut they may be
// anywhere.
static int detect_lost(const struct look *l, struct tachy_focus_search *s)
{
    struct tachy_focus_box whole = {0, 0, l->in->width, l->in->height}, part;
    if (tachy_watch_see(&l->s->watch, &l->s->before) > ANOTHER && !l->hurried)
        return detect_all(l, s);
    l->s->more = AFTER;
    l->s->since = 0;
    int err = tachy_watch_part(&l->s->watch, l->in->width, l->in->height, &part) ? detect(l, &part, s) : TACHY_OK;
    return err < 0 ? err : detect(l, &whole, s);
}

// Keeps the candidates that the network's mask confirms, best first.
static int confirm(const struct look *l, const struct tachy_focus_search *s)
{
    struct tachy_focus_search good = {.nb = 0};
    for (int i = 0; i < s->nb; i++) {
        struct tachy_focus_candidate c = s->c[i];
        double sharp = 0;
        int seen = refine(l, &c.box, &sharp);
        if (seen < 0)
            return seen;
        c.merit += sharp;
        if (seen && sharp >= SHARP && c.merit >= MERIT)
            tachy_focus_consider(&good, &c);
    }
    for (int i = 0; i < good.nb; i++)
        if (!tachy_focus_knows(&l->s->plan, &good.c[i].box))
            tachy_focus_found(&l->s->plan, &good.c[i].box);
    return TACHY_OK;
}

// Whom the detector does not know, for only a part of a person is in the frame, the mask of the whole frame may show.
static int trust_mask(const struct look *l)
{
    struct tachy_focus_box box = {0, 0, l->in->width, l->in->height};
    double sharp = 0;
    int seen = refine(l, &box, &sharp);
    if (seen > 0 && sharp >= SURE)
        tachy_focus_found(&l->s->plan, &box);
    return seen < 0 ? seen : TACHY_OK;
}

// True if the person seems to extend beyond the view.
static bool goes_on(const struct tachy_focus *plan, const struct tachy_focus_box *view, const struct tachy_focus_box *person)
{
    double x = BEYOND * (view->x1 - view->x0), y = BEYOND * (view->y1 - view->y0);
    return (view->x0 > 0 && person->x0 < view->x0 + x) || (view->x1 < plan->width && person->x1 > view->x1 - x) ||
           (view->y0 > 0 && person->y0 < view->y0 + y) || (view->y1 < plan->height && person->y1 > view->y1 - y);
}

// As see(), in the person's view; for somebody who has moved beyond its edge, in a wider one.
static int see_followed(const struct look *l, const struct tachy_focused *o, struct tachy_focus_box *person, double *sharp)
{
    int seen = see(l, &o->view, person, sharp);
    if (seen <= 0 || !goes_on(&l->s->plan, &o->view, person))
        return seen;
    const struct tachy_focus_box wider = tachy_focus_pad(&l->s->plan, &o->view, WIDER);
    return see(l, &wider, person, sharp);
}

static int follow(const struct look *l)
{
    struct tachy_focus *plan = &l->s->plan;
    int seen = 0;
    for (int i = 0; i < plan->nb && seen >= 0; i++) {
        struct tachy_focus_box person;
        double sharp;
        seen = see_followed(l, &plan->one[i], &person, &sharp);
        if (seen > 0 && sharp >= SHARP)
            tachy_focus_saw(plan, i, &person);
    }
    return seen < 0 ? seen : TACHY_OK;
}

static int tiles_of(const struct tachy_focus *plan)
{
    int n = 0;
    for (int level = 2; level <= LEVELS; level++)
        n += tachy_focus_tiles(plan, level);
    return n;
}

static bool sees_anybody(const struct tachy_focus *plan)
{
    bool any = false;
    for (int i = 0; i < plan->nb; i++)
        any |= plan->one[i].seen;
    return any;
}

static int look_with(const struct look *l)
{
    struct tachy_focus *plan = &l->s->plan;
    struct tachy_focus_search s = {.nb = 0};
    bool lost = plan->nb > 0;
    int err = follow(l);
    lost = lost && !sees_anybody(plan);
    if (!plan->looks)
        l->s->more = 2 * tiles_of(plan); // unless all is looked at here
    if (err == TACHY_OK && lost)
        err = detect_lost(l, &s);
    else if (err == TACHY_OK && !plan->looks && !l->hurried)
        err = detect_all(l, &s);
    else if (err == TACHY_OK && (!plan->nb || l->s->since >= NEWCOMERS))
        err = detect_some(l, &s);
    if (err == TACHY_OK)
        err = confirm(l, &s);
    if (err == TACHY_OK && !sees_anybody(plan))
        err = trust_mask(l);
    tachy_focus_looked(plan);
    return err;
}

static int look(struct focus *f, struct look *l)
{
    int err = nets_take(f, &l->nets);
    if (err < 0)
        return err;
    err = look_with(l);
    nets_give(f, l->nets);
    l->s->watch.seen = l->s->before;
    l->s->more -= l->s->more > 0;
    return err;
}

// ---- A frame ----

static bool is_cut(struct focus_state *s, const tachy_frame *f)
{
    struct tachy_signature now;
    double sum = 0;
    if (tachy_signature_make(&now, f, NULL) < 0)
        return false;
    int n = now.columns * now.rows;
    for (int i = 0; i < n; i++)
        sum += abs(now.cell[i] - s->before.cell[i]);
    bool cut = s->has_before && sum > CUT * n * TACHY_SIGNATURE_ONE;
    s->before = now;
    s->has_before = true;
    return cut;
}

// The picture showed nobody; whether somebody may be there now.
static bool may_have_come(struct focus_state *s)
{
    if (tachy_watch_see(&s->watch, &s->before) > 0)
        s->more = TACHY_MAX(s->more, AFTER);
    return s->more > 0 || s->since >= REST;
}

// True if somebody may be about to leave a view: since the last look the picture has changed between the person and the
// view's edge, or up to a cell beyond that.
static bool may_leave(const struct focus_state *s, const struct tachy_focused *o)
{
    const struct tachy_signature *now = &s->before, *then = &s->watch.seen;
    const struct tachy_focus_box near = tachy_focus_pad(&s->plan, &o->person, NEAR);
    double sx = (double)s->plan.width / now->columns, sy = (double)s->plan.height / now->rows;
    for (int i = 0; i < now->columns * now->rows; i++) {
        double x = (i % now->columns + 0.5) * sx, y = (i / now->columns + 0.5) * sy;
        bool in_view = x > o->view.x0 - sx && x < o->view.x1 + sx && y > o->view.y0 - sy && y < o->view.y1 + sy;
        bool is_near = x > near.x0 && x < near.x1 && y > near.y0 && y < near.y1;
        if (in_view && !is_near && abs(now->cell[i] - then->cell[i]) > LEAVES * TACHY_SIGNATURE_ONE)
            return true;
    }
    return false;
}

static bool may_any_leave(const struct focus_state *s)
{
    bool any = false, same = s->watch.seen.columns == s->before.columns && s->watch.seen.rows == s->before.rows;
    for (int i = 0; i < s->plan.nb && same; i++)
        any |= may_leave(s, &s->plan.one[i]);
    return any;
}

static int focus(struct focus *f, struct focus_worker *w, struct focus_state *s, struct tachy_item *item)
{
    struct tachy_focus *plan = &s->plan;
    struct look l = {.f = f, .w = w, .s = s, .in = item->in, .hurried = item->due.deadline != UINT64_MAX};
    bool cut = is_cut(s, item->in);
    int err = TACHY_OK;
    if (item->anew || plan->width != item->in->width || plan->height != item->in->height)
        tachy_focus_begin(plan, item->in->width, item->in->height);
    else if (cut)
        tachy_focus_cut(plan);
    s->since++;
    if (may_any_leave(s))
        tachy_focus_hurry(plan);
    if (tachy_focus_due(plan) && (!tachy_focus_nobody(plan) || may_have_come(s)))
        err = look(f, &l);
    if (item->reuse) // the whole result is another frame's
        return err;
    item->nb_parts = tachy_focus_parts(plan, item->part);
    item->nobody = tachy_focus_nobody(plan);
    return err;
}

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    struct focus *f = tachy_stage_priv(st);
    if (state && !f->idle) // a frame without a stream is seen as a whole
        err[0] = focus(f, worker, state, pieces[0].item);
}

static int state_load(void *state, const void *data, size_t size)
{
    struct focus_state *s = state;
    s->has_before = *(const unsigned char *)&s->has_before == 1;
    s->tile &= 0xffff; // they only count
    s->since &= 0xffff;
    s->more &= 0xffff;
    tachy_watch_check(&s->watch);
    return tachy_focus_sound(&s->plan) ? TACHY_OK : TACHY_ERR_FORMAT;
}

const struct tachy_stage_ops tachy_stage_focus = {
    .name = "focus",
    .options = options,
    .flags = TACHY_STAGE_ORDERED | TACHY_STAGE_READS | TACHY_STAGE_MODEL,
    .remedy = "look at the whole frame (--focus off)",
    .priv_size = sizeof(struct focus),
    .state_size = sizeof(struct focus_state),
    .open = open,
    .close = close,
    .start = start,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .run = run,
    .state_load = state_load,
};

// ---- On a device ----

static int open_cuda(struct tachy_stage *st, const tachy_settings *s)
{
    if (!strcmp(tachy_settings_str(s, "segment.focus"), "off"))
        return TACHY_STAGE_LEFT_OUT;
    return leave_out(st->task, asked(s), "it runs on the CPU only (--device cpu)");
}

const struct tachy_stage_ops tachy_stage_focus_cuda = {
    .name = "focus",
    .options = options,
    .open = open_cuda,
};
