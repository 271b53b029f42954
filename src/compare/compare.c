#include "compare/comparison.h"

#include "base/base.h"
#include "compare/sheet.h"

#include <math.h>
#include <stdlib.h>
#include <tachy/sink.h>
#include <tachy/source.h>

enum { A, B, TRUTH, FILES };

// A comparison that goes on.
struct work {
    const struct tachy_compare_params *p;
    const char *name[FILES];        // NULL: not read
    tachy_source *source[FILES];
    struct tachy_matte matte[FILES];
    struct tachy_judge judge[2];
    struct tachy_sheet sheet;
    tachy_sink *sink; // of the sheet; NULL: none
    tachy_comparison *c;
};

bool tachy_matte_worse(enum tachy_matte_metric metric, double x, double y)
{
    if (isnan(x) || isnan(y))
        return !isnan(x);
    return metric == TACHY_MATTE_IOU ? x < y : x > y;
}

double tachy_comparison_mean(const tachy_comparison *c, int which, enum tachy_matte_metric m)
{
    double sum = 0;
    int64_t n = 0;
    if (m == TACHY_MATTE_GHOSTING)
        return c->ghosting[which];
    for (int64_t i = 0; i < c->frames; i++) {
        double v = c->figures[which][i][m];
        sum += isnan(v) ? 0 : v;
        n += !isnan(v);
    }
    return n ? sum / (double)n : NAN;
}

int64_t tachy_comparison_worst(const tachy_comparison *c, int which, enum tachy_matte_metric m)
{
    int64_t worst = -1;
    double v = NAN;
    for (int64_t i = 0; i < c->frames; i++)
        if (tachy_matte_worse(m, c->figures[which][i][m], v)) {
            v = c->figures[which][i][m];
            worst = i;
        }
    return worst;
}

void tachy_comparison_free(tachy_comparison **c)
{
    if (!c || !*c)
        return;
    for (int k = 0; k < 2; k++) {
        free((*c)->file[k]);
        free((*c)->figures[k]);
    }
    free((*c)->against);
    free(*c);
    *c = NULL;
}

static int grow(tachy_comparison *c)
{
    if (c->frames < c->room)
        return TACHY_OK;
    int64_t room = TACHY_MAX(2 * c->room, 256);
    for (int k = 0; k < c->nb; k++) {
        void *v = realloc(c->figures[k], (size_t)room * sizeof(*c->figures[k]));
        if (!v)
            return TACHY_ERR_NOMEM;
        c->figures[k] = v;
    }
    c->room = room;
    return TACHY_OK;
}

// The next matte of a file. TACHY_ERR_EOF: there is none.
static int read_matte(struct work *w, int i)
{
    tachy_frame *f;
    int err = tachy_source_read(w->source[i], &f);
    if (err < 0)
        return err;
    err = tachy_matte_of_frame(&w->matte[i], f);
    tachy_frame_unref(&f);
    return err;
}

// The next matte of each file. TACHY_ERR_EOF: all have ended.
static int read_all(struct work *w)
{
    const struct tachy_log *log = w->p->log;
    int ended = -1, goes_on = -1, first = -1;
    for (int i = 0; i < FILES; i++) {
        int err = w->name[i] ? read_matte(w, i) : TACHY_OK;
        if (err < 0 && err != TACHY_ERR_EOF)
            return err;
        if (w->name[i])
            *(err < 0 ? &ended : &goes_on) = i;
    }
    if (ended >= 0 && goes_on >= 0)
        return tachy_fail(log, TACHY_ERR_MISMATCH,
                          "%s ends after %lld frames, but %s is longer: compare files with the same number of frames", w->name[ended],
                          (long long)w->c->frames, w->name[goes_on]);
    if (ended >= 0)
        return TACHY_ERR_EOF;
    for (int i = 0; i < FILES; i++) {
        const struct tachy_matte *m = &w->matte[i], *other = first >= 0 ? &w->matte[first] : m;
        if (w->name[i] && (m->width != other->width || m->height != other->height))
            return tachy_fail(log, TACHY_ERR_MISMATCH,
                              "frame %lld is %dx%d in %s and %dx%d in %s: compare mattes of one size",
                              (long long)w->c->frames, other->width, other->height, w->name[first], m->width, m->height,
                              w->name[i]);
        first = first < 0 && w->name[i] ? i : first;
    }
    return TACHY_OK;
}

static int judge_frame(struct work *w)
{
    tachy_comparison *c = w->c;
    const struct tachy_matte *truth = &w->matte[w->p->truth ? TRUTH : B];
    int err = grow(c);
    for (int k = 0; k < c->nb && err == TACHY_OK; k++)
        err = tachy_judge_frame(&w->judge[k], &w->matte[k], truth, c->figures[k][c->frames]);
    if (err == TACHY_OK && w->sink)
        err = tachy_sheet_take(&w->sheet, c->frames, &w->matte[A], c->nb > 1 ? &w->matte[B] : NULL, truth,
                               c->figures[0][c->frames], c->nb > 1 ? c->figures[1][c->frames] : NULL);
    if (!c->frames) {
        c->width = truth->width;
        c->height = truth->height;
    }
    c->frames += err == TACHY_OK;
    return err;
}

static int write_sheet(struct work *w)
{
    tachy_frame *f;
    const char *const names[] = {w->p->a, w->p->truth ? w->p->b : NULL, w->p->truth ? w->p->truth : w->p->b};
    int err = tachy_sheet_draw(&f, &w->sheet, names);
    if (err < 0)
        return err;
    struct tachy_video_info info = {.format = f->format, .width = f->width, .height = f->height, .time_base = {1, 25},
                                    .fps = {25, 1}, .still = true, .frames = 1, .stereo = TACHY_STEREO_MONO};
    err = tachy_sink_start(w->sink, &info);
    if (err == TACHY_OK)
        err = tachy_sink_write(w->sink, f, NULL);
    if (err == TACHY_OK)
        err = tachy_sink_finish(w->sink, false);
    tachy_frame_unref(&f);
    return err;
}

static int open_work(struct work *w, const struct tachy_compare_params *p)
{
    *w = (struct work){.p = p, .name = {p->a, p->b, p->truth}, .c = calloc(1, sizeof(*w->c))};
    if (!w->c)
        return TACHY_ERR_NOMEM;
    w->c->nb = p->truth ? 2 : 1;
    w->c->against = strdup(p->truth ? p->truth : p->b);
    if (!w->c->against)
        return TACHY_ERR_NOMEM;
    for (int k = 0; k < w->c->nb; k++)
        if (!(w->c->file[k] = strdup(w->name[k])))
            return TACHY_ERR_NOMEM;
    int err = TACHY_OK;
    for (int i = 0; i < FILES && err == TACHY_OK; i++)
        if (w->name[i])
            err = tachy_source_open(&w->source[i], tachy_source_params(.url = w->name[i], .stereo = TACHY_STEREO_MONO,
                                                                       .stop = p->stop, .log = p->log));
    if (err == TACHY_OK && p->report)
        err = tachy_sink_open(&w->sink, tachy_sink_params(.url = p->report, .overwrite = p->overwrite, .log = p->log));
    return err;
}

static void close_work(struct work *w)
{
    for (int i = 0; i < FILES; i++) {
        tachy_source_close(&w->source[i]);
        tachy_matte_free(&w->matte[i]);
    }
    for (int k = 0; k < 2; k++)
        tachy_judge_free(&w->judge[k]);
    tachy_sheet_free(&w->sheet);
    tachy_sink_close(&w->sink);
    tachy_comparison_free(&w->c);
}

int tachy_compare_mattes_sized(size_t p_size, tachy_comparison **out, const struct tachy_compare_params *p)
{
    struct tachy_compare_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    TACHY_CLEAR(out);
    if (!out || !p || !TACHY_CHECK(p->log, p->a) || !TACHY_CHECK(p->log, p->b)) {
        if (p && !out)
            tachy_msg(p->log, TACHY_LOG_ERR, "%s: the argument check `out` failed", __func__);
        return TACHY_ERR_INVAL;
    }
    struct work w;
    int err = open_work(&w, p);
    while (err == TACHY_OK) {
        err = p->stop && __atomic_load_n(p->stop, __ATOMIC_RELAXED) ? TACHY_ERR_INTERRUPTED : read_all(&w);
        if (err == TACHY_OK)
            err = judge_frame(&w);
    }
    if (err == TACHY_ERR_EOF)
        err = w.sink ? write_sheet(&w) : TACHY_OK;
    if (err == TACHY_OK) {
        for (int k = 0; k < w.c->nb; k++)
            w.c->ghosting[k] = w.judge[k].ghost_pixels ? w.judge[k].ghost_sum / (double)w.judge[k].ghost_pixels : NAN;
        *out = w.c;
        w.c = NULL;
    }
    close_work(&w);
    return err;
}
