#include "stage/background.h"

#include "base/thread.h"
#include "media/convert.h"

#include <pthread.h>
#include <stdlib.h>

// The background picture in mode replace, for each frame's time: in order, because a video is read along.

enum {
    AHEAD = 8,                 // pictures of a video that may wait, within this many bytes
    AHEAD_BYTES = 64 << 20,
};

// Fitted, or what a device will fit.
struct picture {
    tachy_frame *frame;
    double start_s;
};

// A video's pictures are read, and fitted by the CPU, in a thread of their own, which is ahead of who asks for them.
struct background_reader {
    const struct background *of;
    const tachy_task *task;
    const struct tachy_log *log;
    struct picture now, next; // of who asks
    bool still;               // one picture serves all

    // Used by the thread, and before it starts by the opener
    tachy_source *source;
    struct tachy_convert *convert;
    struct tachy_convert *upright, *stored; // of pictures that are turned
    double base_s; // when the current round of the video began
    double last_s; // length of the round so far
    bool read;     // there was a picture

    pthread_t thread;
    bool started;
    int stop; // ends a read; atomic
    pthread_mutex_t lock; // holds what is below
    pthread_cond_t given, taken;
    struct picture wait[AHEAD];
    int first, count, most;
    int err; // what ended the thread
    bool quit;
};

static void unref(void *frame)
{
    tachy_frame *f = frame;
    tachy_frame_unref(&f);
}

// Fills the frame as CSS `background-size: cover` does: the aspect is kept, the middle shows. A device that can brings
// it to the frame's size itself.
static int fit(struct background_reader *b, tachy_frame *f, const struct tachy_convert_to *to, bool leave, tachy_frame **out)
{
    const struct tachy_pix_desc *d = tachy_pix_desc(f->format);
    int w = f->width, h = f->height;
    if ((int64_t)w * to->height > (int64_t)h * to->width)
        w = (int)TACHY_MAX((int64_t)h * to->width / to->height, 1);
    else
        h = (int)TACHY_MAX((int64_t)w * to->height / to->width, 1);
    int x = (f->width - w) / 2, y = (f->height - h) / 2;
    x &= ~((1 << d->chroma_shift_x) - 1);
    y &= ~((1 << d->chroma_shift_y) - 1);
    struct tachy_frame_params p = {.format = f->format, .width = w, .height = h, .color = f->color,
                                    .mem = f->mem, .device = f->device, .stream = f->stream};
    for (int i = 0; i < d->planes; i++) {
        bool chroma = !d->rgb && (i == 1 || i == 2);
        int sx = chroma ? d->chroma_shift_x : 0, sy = chroma ? d->chroma_shift_y : 0;
        p.stride[i] = f->stride[i];
        p.data[i] = (uint8_t *)(uintptr_t)f->data[i] + (y >> sy) * f->stride[i] +
                    (ptrdiff_t)(x >> sx) * d->components[i] * d->bytes;
    }
    tachy_frame *view = NULL;
    p.release = unref;
    p.user = tachy_frame_ref(f);
    int err = tachy_frame_new(&view, &p);
    if (err < 0) {
        unref(p.user);
        return err;
    }
    if (leave && b->of->leaves && !b->still && b->of->leaves(b->task, view)) {
        *out = view;
        return TACHY_OK;
    }
    err = tachy_convert_frame(&b->convert, view, to, out, b->log);
    tachy_frame_unref(&view);
    return err;
}

// Converts *f, whose reference is replaced.
static int convert(struct background_reader *b, struct tachy_convert **c, enum tachy_pix format, int width, int height, tachy_frame **f)
{
    tachy_frame *out = NULL;
    int err = tachy_convert_frame(c, *f, &(struct tachy_convert_to){format, width, height, b->task->in.color}, &out, b->log);
    tachy_frame_unref(f);
    *f = out;
    return err;
}

static int turn(tachy_frame **f, const struct tachy_video_info *as, bool back)
{
    tachy_frame *out = NULL;
    int err = tachy_picture_turn(*f, as->rotation, as->flipped, back, &out);
    tachy_frame_unref(f);
    *f = out;
    return err;
}

// The stream's pictures are stored in another position than these: upright, fitted to what is shown, and back.
static int fit_turned(struct background_reader *b, const tachy_frame *from, const struct tachy_video_info *own, tachy_frame **out)
{
    const struct tachy_video_info *to = &b->task->in;
    const struct tachy_pix_desc *d = tachy_pix_desc(to->format);
    const enum tachy_pix format = d->rgb || d->chroma_shift_x == d->chroma_shift_y ? to->format : TACHY_PIX_RGB24;
    const bool turned = to->rotation % 180;
    const struct tachy_convert_to shown = {format, turned ? to->height : to->width, turned ? to->width : to->height, to->color};
    tachy_frame *f = tachy_frame_ref((tachy_frame *)(uintptr_t)from), *fitted = NULL;
    int err = convert(b, &b->upright, format, f->width, f->height, &f);
    if (err == TACHY_OK)
        err = turn(&f, own, false);
    if (err == TACHY_OK)
        err = fit(b, f, &shown, false, &fitted);
    if (err == TACHY_OK)
        err = turn(&fitted, to, true);
    if (err == TACHY_OK && format != to->format)
        err = convert(b, &b->stored, to->format, to->width, to->height, &fitted);
    tachy_frame_unref(&f);
    *out = fitted;
    return err;
}

static int open_source(struct background_reader *b)
{
    return tachy_source_open(&b->source, tachy_source_params(.url = b->of->file, .threads = b->of->threads,
                                                             .stop = &b->stop, .log = b->log));
}

// Reads the next picture; at the end of a video it starts again.
static int read_picture(struct background_reader *b, struct picture *to)
{
    tachy_frame *f = NULL;
    int err = tachy_source_read(b->source, &f);
    if (err == TACHY_ERR_EOF && b->read && !b->still) {
        b->base_s = b->last_s;
        tachy_source_close(&b->source);
        err = open_source(b);
        if (err == TACHY_OK)
            err = tachy_source_read(b->source, &f);
    }
    if (err < 0)
        return err;
    const struct tachy_video_info *info = tachy_source_info(b->source);
    double tick = (double)info->time_base.num / info->time_base.den;
    double fps =
        info->fps.num > 0 && info->fps.den > 0 ? (double)info->fps.num / info->fps.den : 25;
    to->start_s = b->base_s + (double)f->pts * tick;
    b->last_s = to->start_s + (f->duration > 0 ? (double)f->duration * tick : 1 / fps);
    b->read = true;
    const struct tachy_video_info *in = &b->task->in;
    if (info->rotation != in->rotation || info->flipped != in->flipped)
        err = fit_turned(b, f, info, &to->frame);
    else
        err = fit(b, f, &(struct tachy_convert_to){in->format, in->width, in->height, in->color}, true, &to->frame);
    tachy_frame_unref(&f);
    return err;
}

static void *read_main(void *arg)
{
    struct background_reader *b = arg;
    tachy_thread_name("tachy-behind");
    struct picture p = {0};
    int err = TACHY_OK;
    pthread_mutex_lock(&b->lock);
    while (!b->quit && err == TACHY_OK) {
        pthread_mutex_unlock(&b->lock);
        err = read_picture(b, &p);
        pthread_mutex_lock(&b->lock);
        while (b->count == b->most && !b->quit)
            pthread_cond_wait(&b->taken, &b->lock);
        if (err == TACHY_OK && !b->quit) {
            b->wait[(b->first + b->count++) % AHEAD] = p;
            p.frame = NULL;
        }
        pthread_cond_signal(&b->given);
    }
    b->err = err;
    pthread_mutex_unlock(&b->lock);
    tachy_frame_unref(&p.frame);
    return NULL;
}

// The next picture in b->next. TACHY_ERR_EOF: there is none any more.
static int take(struct background_reader *b)
{
    pthread_mutex_lock(&b->lock);
    while (!b->count && !b->err)
        pthread_cond_wait(&b->given, &b->lock);
    int err = b->count ? TACHY_OK : b->err;
    if (err == TACHY_OK) {
        b->next = b->wait[b->first];
        b->first = (b->first + 1) % AHEAD;
        b->count--;
        pthread_cond_signal(&b->taken);
    }
    pthread_mutex_unlock(&b->lock);
    return err;
}

static int start(struct background_reader *b)
{
    const tachy_frame *f = b->next.frame;
    int64_t bytes = (int64_t)tachy_frame_bytes(f->format, f->width, f->height);
    b->most = (int)TACHY_CLAMP(AHEAD_BYTES / bytes, 1, AHEAD);
    b->started = !pthread_create(&b->thread, NULL, read_main, b);
    return b->started ? TACHY_OK
                      : tachy_fail(b->log, TACHY_ERR_AGAIN,
                                   "%s: the system can start no thread to read it; try again later", b->of->file);
}

int background_reader_open(struct background_reader **out, const struct background *of, const tachy_task *task)
{
    *out = NULL;
    struct background_reader *b = calloc(1, sizeof(*b));
    if (!b)
        return TACHY_ERR_NOMEM;
    b->of = of;
    b->task = task;
    b->log = task->log;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->given, NULL);
    pthread_cond_init(&b->taken, NULL);
    int err = open_source(b);
    if (err == TACHY_OK) {
        b->still = tachy_source_info(b->source)->still;
        err = read_picture(b, &b->next);
    }
    if (err == TACHY_OK && !b->still)
        err = start(b);
    if (err < 0) {
        background_reader_close(&b);
        return err;
    }
    *out = b;
    return TACHY_OK;
}

int background_reader_at(struct background_reader *b, double time_s, tachy_frame **out)
{
    *out = NULL;
    for (;;) {
        int err = !b->next.frame && !b->still ? take(b) : TACHY_OK;
        if (err < 0 && err != TACHY_ERR_EOF)
            return err;
        if (!b->next.frame || (b->now.frame && b->next.start_s > time_s + 1e-6))
            break; // also at the end of a video that could not be opened again: its last picture stays
        tachy_frame_unref(&b->now.frame);
        b->now = b->next;
        b->next.frame = NULL;
    }
    *out = tachy_frame_ref(b->now.frame);
    return TACHY_OK;
}

static void end_thread(struct background_reader *b)
{
    __atomic_store_n(&b->stop, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&b->lock);
    b->quit = true;
    pthread_cond_signal(&b->taken);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
}

void background_reader_close(struct background_reader **bp)
{
    struct background_reader *b = *bp;
    *bp = NULL;
    if (!b)
        return;
    if (b->started)
        end_thread(b);
    for (int i = 0; i < b->count; i++)
        tachy_frame_unref(&b->wait[(b->first + i) % AHEAD].frame);
    tachy_frame_unref(&b->now.frame);
    tachy_frame_unref(&b->next.frame);
    tachy_convert_close(&b->convert);
    tachy_convert_close(&b->upright);
    tachy_convert_close(&b->stored);
    tachy_source_close(&b->source);
    pthread_cond_destroy(&b->given);
    pthread_cond_destroy(&b->taken);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

// ---- The stage ----

int background_open(struct tachy_stage *st, const tachy_settings *set)
{
    struct background *b = tachy_stage_priv(st);
    struct tachy_composite_params p;
    const char *file;
    int err = tachy_composite_settings(set, st->task->log, &p, &file);
    if (err < 0 || !file)
        return err < 0 ? err : TACHY_STAGE_LEFT_OUT;
    b->file = strdup(file);
    return b->file ? TACHY_OK : TACHY_ERR_NOMEM;
}

void background_close(struct tachy_stage *st) { free(((struct background *)tachy_stage_priv(st))->file); }

int background_save(const void *state, void **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    return TACHY_OK;
}

int background_load(void *state, const void *data, size_t size) { return size ? TACHY_ERR_FORMAT : TACHY_OK; }

void background_item_close(void *item) { tachy_frame_unref(item); }

tachy_frame *tachy_background_of(const struct tachy_composite_stage *c, const struct tachy_item *item)
{
    return c->background ? *(tachy_frame **)tachy_stage_item(c->background, item) : NULL;
}

static int state_open(struct tachy_stage *st, void **state)
{
    struct background_reader *r;
    int err = background_reader_open(&r, tachy_stage_priv(st), st->task);
    *state = r;
    return err;
}

static void state_close(void *state) { background_reader_close(&(struct background_reader *){state}); }

static void run(struct tachy_stage *st, void *worker, void *state, const struct tachy_piece pieces[], int n, int err[])
{
    tachy_frame **picture = tachy_stage_item(st, pieces[0].item);
    tachy_frame_unref(picture);
    err[0] = background_reader_at(state, tachy_item_time(st->task, pieces[0].item), picture);
}

const struct tachy_stage_ops tachy_stage_background = {
    .name = "background",
    .flags = TACHY_STAGE_ORDERED,
    .step = "postprocess",
    .remedy = "a picture behind people in the place of a video",
    .priv_size = sizeof(struct background),
    .item_size = sizeof(tachy_frame *),
    .open = background_open,
    .close = background_close,
    .run = run,
    .state_open = state_open,
    .state_close = state_close,
    .state_save = background_save,
    .state_load = background_load,
    .item_close = background_item_close,
};
