#include "base/clock.h"
#include "curate/curate.h"
#include "profile/prof.h"

#include <inttypes.h>
#include <math.h>

// The writer: the last in the row, and the caller's thread.

enum { LOOK_NS = 250 * 1000000 };

// The frame's line, without newline.
static void put_line(struct tachy_text *t, const struct curate *c, const struct curate_record *r, bool keep)
{
    const struct tachy_frame *f = &r->head;
    t->len = 0;
    tachy_text_add(t, "{\"file\":");
    tachy_text_string(t, r->file->path);
    tachy_text_add(t, ",\"frame\":%" PRId64 ",\"pts\":%" PRId64 ",\"time\":", f->id, f->pts);
    if (isfinite(r->time))
        tachy_text_add(t, "%.6f", r->time);
    else
        tachy_text_add(t, "null");
    tachy_text_add(t, ",\"width\":%d,\"height\":%d,\"keep\":%s", f->width, f->height, keep ? "true" : "false");
    if (r->looked)
        tachy_text_add(t, ",\"scene\":%" PRId64 ",\"cut\":%s", r->scene, r->cut ? "true" : "false");
    if (r->compared)
        tachy_text_add(t, ",\"duplicate\":%d,\"hash\":\"%016" PRIx64 "\",\"digest\":\"%016" PRIx64 "\"", r->duplicate, r->hash, r->digest);
    if (r->of_file) {
        tachy_text_add(t, ",\"duplicate_of\":{\"file\":");
        tachy_text_string(t, r->of_file);
        tachy_text_add(t, ",\"frame\":%" PRId64 "}", r->of_frame);
    }
    if (r->picture[0])
        tachy_text_add(t, ",\"picture\":\"%s\"", r->picture);
    for (int i = 0; i < c->nb_tasks; i++) {
        tachy_text_add(t, ",\"%s\":%s", c->task[i].name, r->pushed[i] ? "" : "null");
        if (r->pushed[i])
            tachy_text_put(t, r->text[i].p, r->text[i].len);
    }
    tachy_text_add(t, "}\n");
}

struct writer {
    struct curate *c;
    struct curate_file *file; // that is being written
    struct tachy_text line;
    int err;                  // of the folder of results: the run ends
    uint64_t look;            // when progress is shown next
    int64_t bytes, before;    // of the inputs in all; of those that were done
    int64_t done;             // bytes of inputs that have ended
    int64_t frames;           // of this run
    int ended;
};

static void show(struct writer *w)
{
    struct curate *c = w->c;
    uint64_t now = tachy_now_ns();
    if (!c->p.progress || now < w->look)
        return;
    w->look = now + LOOK_NS;
    double work = (double)(w->bytes - w->before), seconds = (double)(now - c->began) / 1e9;
    double part = w->file ? w->file->share * (double)w->file->size : 0;
    double share = work > 0 ? ((double)(w->done - w->before) + part) / work : 0;
    struct tachy_step_stats steps[TACHY_MAX_STEPS];
    int n = curate_steps(c, steps);
    c->p.progress(c->p.user, &(struct tachy_curate_progress){
        .files = c->nb_files, .done = w->ended, .file = w->file ? w->file->path : NULL, .frames = w->frames, .share = share,
        .seconds = seconds, .eta = share > 0.001 ? seconds * (1 - share) / share : -1,
        .fps = seconds > 0 ? (double)w->frames / seconds : 0, .steps = steps, .nb_steps = n});
}

static void begin(struct writer *w, struct curate_file *f)
{
    w->file = f;
    f->begin = curate_ledger_at(w->c);
    f->notes_begin = curate_ledger_notes_at(w->c);
    f->frames = f->kept = 0;
    f->share = 0;
}

static int write_frame(struct writer *w, struct curate_record *r)
{
    struct curate_file *f = r->file;
    bool keep = curate_expression_holds(w->c->keep, r->value);
    uint64_t start = tachy_ticks();
    int err = keep ? curate_picture(w->c, r) : TACHY_OK;
    if (r->picture[0])
        curate_count(w->c, w->c->writes, "pictures", r->head.id, start);
    if (err < 0)
        return err;
    start = tachy_ticks();
    put_line(&w->line, w->c, r, keep);
    f->frames++;
    f->kept += keep;
    f->share = r->share;
    w->frames++;
    err = w->line.failed ? TACHY_ERR_NOMEM : curate_ledger_add(w->c, &w->line);
    for (int i = 0; i < w->c->nb_tasks && err == TACHY_OK; i++)
        err = r->note[i].len ? curate_ledger_note(w->c, i, &r->note[i]) : TACHY_OK;
    curate_count(w->c, w->c->writes, "results", r->head.id, start);
    return err;
}

static void fail(struct curate_file *f, const struct curate_record *r, const struct tachy_log *log)
{
    f->state = r->retry ? CURATE_RETRY : CURATE_FAILED;
    if (!f->why[0])
        snprintf(f->why, sizeof(f->why), "frame %lld: %s", (long long)r->head.id, tachy_err_text(r->err));
    bool named = !strncmp(f->why, f->path, strlen(f->path));
    if (f->state == CURATE_FAILED)
        tachy_msg(log, TACHY_LOG_WARN, "%s%s%s; the other inputs go on", named ? "" : f->path, named ? "" : ": ", f->why);
}

// A copy of something that has no results yet, or none at all.
static void copy_state(struct curate_file *f, const struct curate_file *first)
{
    f->state = first->state;
    snprintf(f->why, sizeof(f->why), "has the bytes of %.200s, which failed", first->path);
}

static int end(struct writer *w, struct curate_record *r)
{
    struct curate *c = w->c;
    struct curate_file *f = r->file;
    int err = TACHY_OK;
    if (w->file != f)
        begin(w, f);
    if (r->err == TACHY_ERR_INTERRUPTED && f->state == CURATE_TODO && !curate_stopped(c))
        f->state = CURATE_RETRY; // a task has failed on a frame of the file before
    else if (r->err < 0 && r->err != TACHY_ERR_INTERRUPTED && f->state == CURATE_TODO)
        fail(f, r, c->log);
    bool interrupted = r->err == TACHY_ERR_INTERRUPTED;
    const struct curate_file *first = f->first ? &c->file[f->first - 1] : NULL;
    if (f->state == CURATE_TODO && first && first->state != CURATE_DONE && first->state != CURATE_BEFORE)
        copy_state(f, first);
    if (f->state == CURATE_TODO && !interrupted) {
        f->state = first ? CURATE_SAME : CURATE_DONE;
        err = curate_ledger_end(c, f);
    } else if (f->state != CURATE_BEFORE && f->state != CURATE_OTHER) {
        err = curate_ledger_drop(c, f);
    }
    if (f->state == CURATE_BEFORE || f->state == CURATE_OTHER)
        w->before += f->size;
    w->done += f->size;
    w->ended++;
    c->sum.decoded += f->decoded;
    w->file = NULL;
    return err;
}

static int take(struct writer *w, struct curate_record *r)
{
    if (!r->frame)
        return end(w, r);
    if (w->file != r->file)
        begin(w, r->file);
    if (r->err < 0 && r->file->state == CURATE_TODO)
        fail(r->file, r, w->c->log);
    return r->file->state == CURATE_TODO ? write_frame(w, r) : TACHY_OK;
}

struct curate_load curate_load(const struct curate *c)
{
    struct curate_load load = {0};
    for (int i = 0; i < c->nb_files; i++) {
        bool ended = c->file[i].state != CURATE_TODO;
        load.bytes += c->file[i].size;
        load.ended_bytes += ended ? c->file[i].size : 0;
        load.ended += ended;
    }
    return load;
}

int curate_write(struct curate *c, const struct curate_load *load)
{
    struct writer w = {.c = c, .bytes = load->bytes, .before = load->ended_bytes, .done = load->ended_bytes, .ended = load->ended};
    for (bool last = false; !last;) {
        struct curate_record *r = curate_queue_take(&c->queue[c->nb_levels], tachy_now_ns() + LOOK_NS);
        last = r && !r->file;
        if (r && !last && w.err == TACHY_OK)
            w.err = take(&w, r);
        if (w.err < 0)
            atomic_store(&c->stop, true); // the rest only passes through
        curate_record_free(c, r);
        show(&w);
    }
    tachy_text_free(&w.line);
    return w.err;
}
