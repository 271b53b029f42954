#include "base/clock.h"
#include "base/path.h"
#include "base/thread.h"
#include "sink/pixels.h"
#include "sink/sdl.h"
#include "sink/sink_ops.h"
#include "sink/turn.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

// A window, by SDL 2. A separate thread creates it, handles its events and shows the newest picture, so that it
// responds while the run is paused, and a slow screen delays nobody.

enum { WAIT_MS = 100, LARGEST = 16384 };

struct shown {
    void *window, *renderer, *texture;
    int width, height; // of the texture
    bool mirrored, full;
};

struct window {
    struct sdl sdl;
    void *library;
    tachy_pixels *pixels;
    int mode;   // by which SDL makes RGB of pictures
    int turned; // degrees clockwise, of stored pictures
    bool flipped;

    pthread_t thread;
    bool started;
    struct shown shown; // the thread's

    pthread_mutex_t lock; // of what follows
    pthread_cond_t changed;
    bool ready, leave;  // the thread has tried to open a display; it ends
    bool closed, done;  // by the user; all pictures are there, so no run has to be ended
    char failed[160];   // why there is no display
    int width, height;  // of the window that is wanted, for pictures of square pixels; 0: none yet
    AVFrame *newest;    // not shown yet; NULL: none
};

static struct window *window_of(const tachy_sink *s) { return (struct window *)(uintptr_t)s->priv; }

static int load(struct window *w, const struct tachy_log *log)
{
    w->library = dlopen("libSDL2-2.0.so.0", RTLD_NOW | RTLD_LOCAL);
    bool whole = w->library;
#define SDL2_LOAD(result, name, args) \
    whole = whole && (*(void **)&w->sdl.name = dlsym(w->library, "SDL_" #name));
    SDL2_FUNCTIONS(SDL2_LOAD)
#undef SDL2_LOAD
    return whole ? TACHY_OK : tachy_fail(log, TACHY_ERR_UNAVAILABLE, "window: needs SDL 2; install libsdl2-2.0-0");
}

// ---- The window's thread

static bool make_window(struct window *w, int width, int height)
{
    const struct sdl *sdl = &w->sdl;
    struct shown *o = &w->shown;
    struct sdl_rect bounds;
    int fit_w = width, fit_h = height;
    if (sdl->GetDisplayUsableBounds(0, &bounds) == 0 && bounds.w > 0 && bounds.h > 0 && (width > bounds.w || height > bounds.h)) {
        double scale = TACHY_MIN((double)bounds.w / width, (double)bounds.h / height);
        fit_w = TACHY_MAX((int)(width * scale), 1);
        fit_h = TACHY_MAX((int)(height * scale), 1);
    }
    sdl->SetYUVConversionMode(w->mode);
    uint32_t flags = SDL2_RESIZABLE | (o->full ? SDL2_FULLSCREEN : 0);
    o->window = sdl->CreateWindow("tachy", SDL2_CENTERED, SDL2_CENTERED, fit_w, fit_h, flags);
    o->renderer = o->window ? sdl->CreateRenderer(o->window, -1, 0) : NULL;
    return o->renderer && sdl->RenderSetLogicalSize(o->renderer, width, height) == 0; // bars if the shapes differ
}

static void draw(struct window *w)
{
    const struct sdl *sdl = &w->sdl;
    struct shown *o = &w->shown;
    if (!o->texture)
        return;
    sdl->RenderClear(o->renderer);
    sdl->RenderCopyEx(o->renderer, o->texture, NULL, NULL, 0, NULL, o->mirrored ? SDL2_FLIP_HORIZONTAL : 0);
    sdl->RenderPresent(o->renderer);
}

// A picture of another size has another texture.
static bool upload(struct window *w, const AVFrame *f)
{
    const struct sdl *sdl = &w->sdl;
    struct shown *o = &w->shown;
    if (!o->texture || o->width != f->width || o->height != f->height) {
        if (o->texture)
            sdl->DestroyTexture(o->texture);
        o->texture = sdl->CreateTexture(o->renderer, SDL2_IYUV, SDL2_STREAMING, f->width, f->height);
        o->width = f->width;
        o->height = f->height;
    }
    return o->texture && sdl->UpdateYUVTexture(o->texture, NULL, f->data[0], f->linesize[0], f->data[1], f->linesize[1],
                                               f->data[2], f->linesize[2]) == 0;
}

static void show_newest(struct window *w)
{
    pthread_mutex_lock(&w->lock);
    int width = w->width, height = w->height;
    AVFrame *f = w->newest;
    w->newest = NULL;
    pthread_mutex_unlock(&w->lock);
    if (!f)
        return;
    bool shown = (w->shown.window || make_window(w, width, height)) && upload(w, f);
    av_frame_free(&f);
    if (shown)
        draw(w);
    pthread_mutex_lock(&w->lock);
    if (!shown && !*w->failed)
        snprintf(w->failed, sizeof(w->failed), "%s", w->sdl.GetError());
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void tell(const tachy_sink *s, char key)
{
    if (s->params.key)
        s->params.key(s->params.key_user, key);
}

static void close_by_user(tachy_sink *s)
{
    struct window *w = window_of(s);
    pthread_mutex_lock(&w->lock);
    bool before = w->closed || w->done;
    w->closed = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (!before)
        tell(s, 'q');
}

static void press(tachy_sink *s, int32_t key)
{
    struct window *w = window_of(s);
    struct shown *o = &w->shown;
    switch (key) {
    case 'q':
        close_by_user(s);
        break;
    case SDL2_ESCAPE:
        if (!o->full) {
            close_by_user(s);
            break;
        } // fall through
    case 'f':
        o->full = !o->full;
        w->sdl.SetWindowFullscreen(o->window, o->full ? SDL2_FULLSCREEN : 0);
        draw(w);
        break;
    case 'm':
        o->mirrored = !o->mirrored;
        draw(w);
        break;
    default:
        if (key > ' ' && key < 0x7f)
            tell(s, (char)key);
    }
}

static bool open_display(struct window *w)
{
    const struct sdl *sdl = &w->sdl;
    sdl->SetHint("SDL_NO_SIGNAL_HANDLERS", "1"); // Ctrl-C is the run's
    sdl->SetHint("SDL_RENDER_SCALE_QUALITY", "1");
    bool opened = sdl->InitSubSystem(SDL2_VIDEO) == 0;
    const char *driver = opened ? sdl->GetCurrentVideoDriver() : NULL;
    bool seen = driver && strcmp(driver, "offscreen") && strcmp(driver, "dummy") && strcmp(driver, "evdev");
    pthread_mutex_lock(&w->lock);
    if (!seen)
        snprintf(w->failed, sizeof(w->failed), "%s", opened ? "there is none" : sdl->GetError());
    w->ready = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (opened && !seen)
        sdl->QuitSubSystem(SDL2_VIDEO);
    return seen;
}

static bool goes_on(struct window *w)
{
    pthread_mutex_lock(&w->lock);
    bool on = !w->leave;
    pthread_mutex_unlock(&w->lock);
    return on;
}

static void *window_main(void *sink)
{
    tachy_sink *s = sink;
    struct window *w = window_of(s);
    const struct sdl *sdl = &w->sdl;
    struct shown *o = &w->shown;
    union sdl_event e;
    tachy_thread_name("tachy-window");
    if (!open_display(w))
        return NULL;
    while (goes_on(w)) {
        if (sdl->WaitEventTimeout(&e, WAIT_MS)) {
            if (e.type == SDL2_QUIT)
                close_by_user(s);
            else if (e.type == SDL2_KEYDOWN && !e.key.repeat)
                press(s, e.key.symbol);
            else if (e.type != SDL2_USER)
                draw(w); // it was moved, resized, uncovered
        }
        show_newest(w);
    }
    if (o->texture)
        sdl->DestroyTexture(o->texture);
    if (o->renderer)
        sdl->DestroyRenderer(o->renderer);
    if (o->window)
        sdl->DestroyWindow(o->window);
    sdl->QuitSubSystem(SDL2_VIDEO);
    return NULL;
}

// ---- The sink

static bool window_probe(const char *url, const char *format) { return !format && url && tachy_path_says(url, "window"); }

// "window:full,mirror"
static int read_words(tachy_sink *s)
{
    struct shown *o = &window_of(s)->shown;
    const char *at = s->params.url + strlen("window");
    while (*at) {
        size_t n = strcspn(++at, ",");
        if (n == 4 && !strncmp(at, "full", n))
            o->full = true;
        else if (n == 6 && !strncmp(at, "mirror", n))
            o->mirrored = true;
        else
            return tachy_fail(s->params.log, TACHY_ERR_INVAL, "%s: write window, window:full, window:mirror or window:full,mirror",
                              s->params.url);
        at += n;
    }
    return TACHY_OK;
}

// Signals are for the other threads.
static int start_thread(tachy_sink *s)
{
    struct window *w = window_of(s);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    w->started = !pthread_create(&w->thread, NULL, window_main, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return w->started ? TACHY_OK : tachy_fail(s->params.log, TACHY_ERR_AGAIN, "window: no more threads");
}

static int window_open(tachy_sink *s)
{
    struct window *w = window_of(s);
    const struct tachy_log *log = s->params.log;
    pthread_mutex_init(&w->lock, NULL);
    tachy_cond_init(&w->changed);
    int err = read_words(s);
    if (err == TACHY_OK)
        err = load(w, log);
    if (err == TACHY_OK)
        err = start_thread(s);
    if (err < 0)
        return err;
    pthread_mutex_lock(&w->lock);
    while (!w->ready)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    if (*w->failed)
        return tachy_fail(log, TACHY_ERR_UNAVAILABLE, "window: no display can be opened (%s); is DISPLAY or WAYLAND_DISPLAY set?",
                          w->failed);
    return TACHY_OK;
}

// The nearest colours that SDL can show; most pictures have these and need no conversion.
static struct tachy_color choose_color(struct window *w, const struct tachy_video_info *info)
{
    struct tachy_color c = tachy_pixels_resolve(info->color, tachy_pix_to_av(info->format), info->width, info->height);
    bool old = c.matrix == AVCOL_SPC_SMPTE170M || c.matrix == AVCOL_SPC_BT470BG, full = old && c.range == AVCOL_RANGE_JPEG;
    w->mode = full ? SDL2_JPEG : old ? SDL2_BT601 : SDL2_BT709;
    if (!old)
        c.matrix = AVCOL_SPC_BT709;
    c.range = full ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    return c;
}

static int window_start(tachy_sink *s, const struct tachy_video_info *info)
{
    struct window *w = window_of(s);
    bool lies = info->rotation % 180;
    double wide = info->sar.num > 0 && info->sar.den > 0 ? (double)info->sar.num / info->sar.den : 1;
    int width = (int)TACHY_CLAMP(info->width * wide + 0.5, 1., (double)LARGEST);
    w->turned = info->rotation;
    w->flipped = info->flipped;
    pthread_mutex_lock(&w->lock);
    w->width = lies ? info->height : width;
    w->height = lies ? width : info->height;
    pthread_mutex_unlock(&w->lock);
    return tachy_pixels_open(&w->pixels, &(struct tachy_pixels_params){.format = AV_PIX_FMT_YUV420P, .width = info->width,
                                                                       .height = info->height, .color = choose_color(w, info),
                                                                       .log = s->params.log});
}

// Converts to the screen's format.
static int convert(struct window *w, tachy_frame *f, AVFrame **out)
{
    AVFrame *in, *made = NULL;
    int err = tachy_frame_to_av(&in, f);
    if (err < 0)
        return err;
    err = tachy_pixels_run(w->pixels, in, f->color, &made);
    av_frame_free(&in);
    if (err == TACHY_OK && (w->turned || w->flipped)) {
        AVFrame *lying = made;
        err = tachy_turn(lying, w->turned, w->flipped, &made);
        av_frame_free(&lying);
    }
    *out = made;
    return err;
}

static int window_write(tachy_sink *s, tachy_frame *f, const struct tachy_result *r)
{
    struct window *w = window_of(s);
    const struct tachy_log *log = s->params.log;
    AVFrame *made, *before;
    if (!f)
        return tachy_fail(log, TACHY_ERR_INVAL, "window: this run makes no pictures to show; choose another --mode");
    int err = convert(w, f, &made);
    if (err < 0)
        return err;
    pthread_mutex_lock(&w->lock);
    before = w->newest;
    w->newest = made;
    bool failed = *w->failed;
    pthread_mutex_unlock(&w->lock);
    av_frame_free(&before);
    if (failed)
        return tachy_fail(log, TACHY_ERR_IO, "window: cannot be shown: %s", w->failed);
    w->sdl.PushEvent(&(union sdl_event){.type = SDL2_USER});
    return TACHY_OK;
}

// The last picture is seen; a single one until the window is closed or the run is stopped.
static int window_finish(tachy_sink *s, bool interrupted)
{
    struct window *w = window_of(s);
    const int *stop = s->params.stop;
    pthread_mutex_lock(&w->lock);
    w->done = true;
    while (!w->closed && !*w->failed && (w->newest || (s->frames == 1 && !interrupted)) &&
           !(stop && __atomic_load_n(stop, __ATOMIC_RELAXED)))
        tachy_cond_wait_until(&w->changed, &w->lock, tachy_now_ns() + 100000000u);
    pthread_mutex_unlock(&w->lock);
    return TACHY_OK;
}

static void window_close(tachy_sink *s)
{
    struct window *w = window_of(s);
    pthread_mutex_lock(&w->lock);
    w->leave = true;
    pthread_mutex_unlock(&w->lock);
    if (w->started) {
        if (!*w->failed)
            w->sdl.PushEvent(&(union sdl_event){.type = SDL2_USER});
        pthread_join(w->thread, NULL);
    }
    tachy_pixels_close(&w->pixels);
    av_frame_free(&w->newest);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    // The library stays loaded: its dependencies may have their own threads.
}

const struct tachy_sink_ops tachy_sink_window = {
    .name = "window",
    .priv_size = sizeof(struct window),
    .no_file = true,
    .probe = window_probe,
    .open = window_open,
    .start = window_start,
    .write = window_write,
    .finish = window_finish,
    .close = window_close,
};
