#include "task/segment_gpu_order.h"

#include "base/cpu.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    AHEAD = 8,                 // pictures of a video that wait, of at most so many bytes
    AHEAD_BYTES = 64 << 20,
    MOST_THREADS = 16,         // of the decoder beside a GPU
};

// Fitted, or what a GPU will fit.
struct picture {
    tachy_frame *frame;
    double start_s;
};

// A video's pictures are read, and fitted by the CPU, in a thread of their own, which is ahead of who asks for them.
struct segment_background {
    const struct segment *s;
    const struct tachy_log *log;
    struct picture now, next; // of who asks
    bool still;               // one picture serves all

    // Of the thread, before it starts of the opener
    tachy_source *source;
    struct tachy_convert *convert;
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

// Fills the frame as CSS `background-size: cover` does: the aspect is kept, the middle shows. A GPU that can brings it
// to the frame's size itself.
static int fit(struct segment_background *b, tachy_frame *f, tachy_frame **out)
{
    const struct tachy_video_info *to = &b->s->in;
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
    if (b->s->gpu && !b->still && segment_gpu_order_fits(b->s, view)) {
        *out = view;
        return TACHY_OK;
    }
    struct tachy_convert_to what = {to->format, to->width, to->height, to->color};
    err = tachy_convert_frame(&b->convert, view, &what, out, b->log);
    tachy_frame_unref(&view);
    return err;
}

static int open_source(struct segment_background *b)
{
    // Beside a GPU the cores have little else to do.
    int threads = b->s->gpu ? TACHY_MIN(tachy_cpu_count(), MOST_THREADS) : 0;
    return tachy_source_open(&b->source, tachy_source_params(.url = b->s->background, .threads = threads,
                                                             .stop = &b->stop, .log = b->log));
}

// Reads the next picture; at the end of a video it starts again.
static int read_picture(struct segment_background *b, struct picture *to)
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
    err = fit(b, f, &to->frame);
    tachy_frame_unref(&f);
    return err;
}

static void *read_main(void *arg)
{
    struct segment_background *b = arg;
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
static int take(struct segment_background *b)
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

static int start(struct segment_background *b)
{
    const tachy_frame *f = b->next.frame;
    int64_t bytes = (int64_t)tachy_frame_bytes(f->format, f->width, f->height);
    b->most = (int)TACHY_CLAMP(AHEAD_BYTES / bytes, 1, AHEAD);
    b->started = !pthread_create(&b->thread, NULL, read_main, b);
    return b->started ? TACHY_OK
                      : tachy_fail(b->log, TACHY_ERR_AGAIN,
                                   "%s: the system gives no thread to read it with; try again later", b->s->background);
}

int segment_background_open(struct segment_background **out, const struct segment *s,
                            const struct tachy_log *log)
{
    *out = NULL;
    struct segment_background *b = calloc(1, sizeof(*b));
    if (!b)
        return TACHY_ERR_NOMEM;
    b->s = s;
    b->log = log;
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
        segment_background_close(&b);
        return err;
    }
    *out = b;
    return TACHY_OK;
}

int segment_background_at(struct segment_background *b, double time_s, tachy_frame **out)
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

static void end_thread(struct segment_background *b)
{
    __atomic_store_n(&b->stop, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&b->lock);
    b->quit = true;
    pthread_cond_signal(&b->taken);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
}

void segment_background_close(struct segment_background **bp)
{
    struct segment_background *b = *bp;
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
    tachy_source_close(&b->source);
    pthread_cond_destroy(&b->given);
    pthread_cond_destroy(&b->taken);
    pthread_mutex_destroy(&b->lock);
    free(b);
}
