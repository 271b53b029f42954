#include "stage/prompts.h"

#include "base/parse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const struct tachy_option prompts_options[] = {
    {"masks.point", "point", 0, TACHY_OPT_LIST, .arg = "X,Y[,0|1]", .group = "Masks",
     .help = "a point on the wanted thing (1) or off it (0), in pixels of the shown picture or in percent with %; all "
             "points are about one thing"},
    {"masks.box", "box", 0, TACHY_OPT_LIST, .arg = "X,Y,W,H", .group = "Masks",
     .help = "a box around a thing; repeat it for more things. Points refine a single box"},
    {"masks.find", "find", 0, TACHY_OPT_STRING, .arg = "NAME|FILE", .group = "Masks",
     .help = "make masks of what this detector finds, from its boxes: a model as for detect"},
    {0},
};

// ---- Settings

// "12", "50%".
static bool parse_place(const char *text, double *v, bool *percent)
{
    char number[32];
    size_t n = strlen(text);
    *percent = n && text[n - 1] == '%';
    snprintf(number, sizeof(number), "%.*s", (int)(n - *percent), text);
    return n < sizeof(number) && tachy_parse_float(number, v) && *v >= 0;
}

static bool parse_point(const char *text, struct prompts_point *p)
{
    char part[3][32] = {"", "", "1"};
    int n = 0;
    for (const char *at = text;; at++) {
        size_t size = strcspn(at, ",");
        if (n == 3 || size >= sizeof(part[n]))
            return false;
        snprintf(part[n++], sizeof(part[0]), "%.*s", (int)size, at);
        at += size;
        if (!*at)
            break;
    }
    p->label = part[2][0] - '0';
    return n >= 2 && strlen(part[2]) == 1 && (p->label == PROMPT_NOT_IN || p->label == PROMPT_IN) &&
           parse_place(part[0], &p->x, &p->percent[0]) && parse_place(part[1], &p->y, &p->percent[1]);
}

static int read_user(struct prompts *p, const tachy_settings *s)
{
    const char *const *texts;
    size_t n = tachy_settings_list(s, "masks.point", &texts);
    if (n > PROMPTS_POINTS)
        return tachy_fail(p->log, TACHY_ERR_INVAL, "--point: %zu points are too many; give up to %d", n, PROMPTS_POINTS);
    for (size_t i = 0; i < n; i++)
        if (!parse_point(texts[i], &p->point[p->nb_points++]))
            return tachy_fail(p->log, TACHY_ERR_INVAL, "--point: \"%.100s\" is no point X,Y or X,Y,0 (200,50%%,1)", texts[i]);
    n = tachy_settings_list(s, "masks.box", &texts);
    p->box = calloc(n + 1, sizeof(*p->box));
    if (!p->box)
        return TACHY_ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        if (!tachy_garbage_parse(texts[i], &p->box[p->nb_boxes++]))
            return tachy_fail(p->log, TACHY_ERR_INVAL, "--box: \"%.100s\" is no rectangle X,Y,W,H with an area (10%%,0,20%%,15%%)",
                              texts[i]);
    if (p->nb_points && (p->nb_boxes > 1 || p->finds))
        return tachy_fail(p->log, TACHY_ERR_INVAL, "--point: goes alone or with one --box, which it says more of");
    return TACHY_OK;
}

int prompts_open(struct prompts *p, struct tachy_stage *st, const tachy_settings *s)
{
    p->log = st->task->log;
    p->finds = tachy_settings_is_set(s, "masks.find");
    int err = read_user(p, s);
    p->asked = p->nb_points || p->nb_boxes || p->finds;
    if (err < 0 || !p->finds)
        return err;
    return tachy_net_open(&p->finder, st, &(struct tachy_net_params){.name = tachy_settings_str(s, "masks.find"), .task = "detect"}, s);
}

void prompts_close(struct prompts *p)
{
    infer_free(&p->finder);
    free(p->box);
}

int prompts_count(const struct prompts *p, int found) { return p->finds ? found + p->nb_boxes : TACHY_MAX(p->nb_boxes, 1); }
int prompts_points(const struct prompts *p) { return p->nb_points + (p->nb_boxes || p->finds ? 2 : 0); }

// ---- Places

// From shares of the picture as shown to shares of it as stored.
static void to_stored(const struct prompts_picture *in, double x, double y, double to[2])
{
    int rotation = in->rotation;
    x = in->flip ? 1 - x : x;
    to[0] = rotation == 90 ? y : rotation == 180 ? 1 - x : rotation == 270 ? 1 - y : x;
    to[1] = rotation == 90 ? 1 - x : rotation == 180 ? 1 - y : rotation == 270 ? x : y;
}

static void to_shown(const struct prompts_picture *in, const double at[2], double to[2])
{
    double x = at[0], y = at[1];
    int rotation = in->rotation;
    double u = rotation == 90 ? 1 - y : rotation == 180 ? 1 - x : rotation == 270 ? y : x;
    to[0] = in->flip ? 1 - u : u;
    to[1] = rotation == 90 ? x : rotation == 180 ? 1 - y : rotation == 270 ? 1 - x : y;
}

static void shown_size(const struct prompts_picture *in, double size[2])
{
    bool side = in->rotation == 90 || in->rotation == 270;
    size[0] = side ? in->height : in->width;
    size[1] = side ? in->width : in->height;
}

// A corner of a box, or a point, as a share of the shown picture.
static double share(double v, bool percent, double size) { return v / (percent ? 100 : size); }

// Corners in any order become the upper left and the lower right one as shown.
static void add_box(const struct prompts_picture *in, struct prompt *a, const double one[2], const double other[2])
{
    double u[2], v[2];
    to_shown(in, one, u);
    to_shown(in, other, v);
    to_stored(in, fmin(u[0], v[0]), fmin(u[1], v[1]), a->at[a->nb]);
    a->label[a->nb++] = PROMPT_UPPER_LEFT;
    to_stored(in, fmax(u[0], v[0]), fmax(u[1], v[1]), a->at[a->nb]);
    a->label[a->nb++] = PROMPT_LOWER_RIGHT;
}

static void of_user(const struct prompts *p, const struct prompts_picture *in, int box, struct prompt *to)
{
    double size[2], v[4], one[2], other[2];
    shown_size(in, size);
    *to = (struct prompt){0};
    if (box < p->nb_boxes) {
        const struct tachy_garbage_rect *r = &p->box[box];
        for (int i = 0; i < 4; i++)
            v[i] = share(r->v[i], r->percent[i], size[i % 2]);
        to_stored(in, v[0], v[1], one);
        to_stored(in, v[0] + v[2], v[1] + v[3], other);
        add_box(in, to, one, other);
    }
    for (int i = 0; i < p->nb_points; i++) {
        const struct prompts_point *g = &p->point[i];
        to_stored(in, share(g->x, g->percent[0], size[0]), share(g->y, g->percent[1], size[1]), to->at[to->nb]);
        to->label[to->nb++] = g->label;
    }
}

static void of_region(const struct prompts_picture *in, const struct tachy_region *r, struct prompt *to)
{
    double x[4], y[4];
    tachy_region_corners(r, x, y);
    const double one[2] = {fmin(fmin(x[0], x[1]), fmin(x[2], x[3])) / in->width, fmin(fmin(y[0], y[1]), fmin(y[2], y[3])) / in->height};
    const double other[2] = {fmax(fmax(x[0], x[1]), fmax(x[2], x[3])) / in->width, fmax(fmax(y[0], y[1]), fmax(y[2], y[3])) / in->height};
    *to = (struct prompt){.of = r};
    add_box(in, to, one, other);
}

void prompts_get(const struct prompts *p, const struct prompts_picture *in, const struct tachy_regions *found, int i, struct prompt *to)
{
    if (p->finds && i < found->nb)
        of_region(in, &found->v[i], to);
    else
        of_user(p, in, i - found->nb, to);
}

int prompts_check(const struct prompts *p, const struct prompts_picture *in)
{
    double size[2];
    shown_size(in, size);
    for (int i = 0; i < p->nb_points; i++) {
        const struct prompts_point *g = &p->point[i];
        if (share(g->x, g->percent[0], size[0]) > 1 || share(g->y, g->percent[1], size[1]) > 1)
            return tachy_fail(p->log, TACHY_ERR_INVAL, "--point: %g%s,%g%s is outside of the picture, which has %gx%g pixels", g->x,
                              g->percent[0] ? "%" : "", g->y, g->percent[1] ? "%" : "", size[0], size[1]);
    }
    for (int i = 0; i < p->nb_boxes; i++) {
        const struct tachy_garbage_rect *r = &p->box[i];
        if (share(r->v[0], r->percent[0], size[0]) >= 1 || share(r->v[1], r->percent[1], size[1]) >= 1)
            return tachy_fail(p->log, TACHY_ERR_INVAL, "--box: the one at %g%s,%g%s is outside of the picture, which has %gx%g pixels",
                              r->v[0], r->percent[0] ? "%" : "", r->v[1], r->percent[1] ? "%" : "", size[0], size[1]);
    }
    return TACHY_OK;
}

void prompt_put(const struct prompt *p, const struct prompts_picture *in, int width, int height, float *at, float *label, int points)
{
    for (int k = 0; k < points; k++) {
        double to[2] = {0, 0};
        if (k < p->nb)
            to_shown(in, p->at[k], to);
        at[2 * k] = (float)(to[0] * width);
        at[2 * k + 1] = (float)(to[1] * height);
        label[k] = k < p->nb ? (float)p->label[k] : PROMPT_NO_POINT;
    }
}
