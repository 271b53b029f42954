#include "pipeline/readers.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/thread.h"
#include "profile/prof.h"

enum {
    CPU_DECODERS = 16, // at most, if no number is asked for
    GPU_SESSIONS = 8,  // likewise, of each GPU
    SESSION_FRAMES = 250, // that make up for the opening of one more decoder of the GPU's
    SESSION_WAITING = 100, // pictures of one that wait for those before them
};

// With more than one decoder, pictures that must stay until they are in order would fill the host's memory; the
// decoder's own threads then use the cores better. On a GPU they wait in its memory, and as many decoders work as its
// room allows. A task that must see frames in reading order has one decoder.
static bool one_decoder(const struct run_readers *r)
{
    return r->resume || r->paced || live_stream_policy(r->live) ;
}

static int wanted_decoders(const struct run_readers *r, int asked)
{
    if (one_decoder(r))
        return 1;
    if (asked)
        return TACHY_MIN(asked, READERS_MAX);
    int gpus = r->stream->sched.on_gpu ? r->source->params.nb_gpus : 1; // each is given something
    if (r->shared || r->source->params.in_order || (r->stream->sched.keeps_input && !r->stream->sched.on_gpu))
        return r->shared ? 1 : gpus;
    if (!r->stream->sched.on_gpu)
        return TACHY_CLAMP(TACHY_DEF(r->source->params.threads, tachy_cpu_count()), 1,
                           TACHY_MIN(tachy_cpu_count(), CPU_DECODERS));
    // Sessions wait for the GPU, not for cores, and each takes a while to open.
    int64_t n = tachy_source_info(r->source)->frames / SESSION_FRAMES;
    if (r->stream->sched.keeps_input)
        n = TACHY_MIN(n, tachy_stream_window(r->stream) / SESSION_WAITING);
    return (int)TACHY_CLAMP(n, gpus, TACHY_MIN(gpus * GPU_SESSIONS, READERS_MAX));
}

static bool divides(tachy_source *s) { return s->ops->divides && s->ops->divides(s); }

static bool could_be_more(const struct run_readers *r, bool max_frames)
{
    const struct tachy_source_params *p = &r->source->params;
    // If several were requested and there is one, the input is not suitable.
    bool refused = r->nb == 1 && wanted_decoders(r, p->decoders) > 1;
    return !one_decoder(r) && (!refused || p->max_frames) && divides(r->source) && p->every_nth <= 1 && !p->max_frames == !max_frames &&
           r->nb < TACHY_MIN(tachy_cpu_count(), READERS_MAX);
}

bool run_readers_could_be_more(const struct run_readers *r) { return could_be_more(r, false); }
bool run_readers_are_cut_short(const struct run_readers *r) { return could_be_more(r, true); }

int run_readers_open(struct run_readers *r, tachy_source *source, tachy_stream *stream,
                     struct tachy_profile *profile, const struct tachy_log *log)
{
    r->source = source;
    r->stream = stream;
    r->profile = profile;
    r->log = log;
    int asked = wanted_decoders(r, source->params.decoders), most = r->tunes ? TACHY_MAX(asked, wanted_decoders(r, 0)) : asked;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->woken, NULL);
    r->made = true;
    int n = tachy_source_spread(source, most, tachy_stream_window(stream));
    atomic_store(&r->active, TACHY_MIN(asked, n));
    for (int i = 0; i < n; i++) {
        r->one[i].all = r;
        r->nb = i + 1;
        int err = tachy_profile_open_prof(profile, stream->pipeline->steps, TACHY_LANE_SOURCE, &r->profs[i]);
        r->one[i].prof = r->profs[i];
        if (err < 0)
            return err;
    }
    return TACHY_OK;
}

// A file may change its size or format on the way; it is brought to the stream's here, on this thread and before
// mode live decides on it.
static int push(struct run_reader *one, tachy_frame *f, int64_t seq, bool breaks)
{
    struct run_readers *r = one->all;
    tachy_frame *fit = NULL;
    int err = f ? pipeline_fit(r->stream, f, &fit) : TACHY_OK;
    if (err == TACHY_OK)
        err = r->nb > 1 ? pipeline_push_at(r->stream, fit, seq, breaks) : live_stream_push(r->live, fit);
    tachy_frame_unref(&fit);
    return err;
}

static bool stopped(void *readers) { return run_readers_stopped(readers); }

static bool wait_due(struct run_readers *r, const tachy_frame *f)
{
    struct tachy_rational tb = tachy_source_info(r->source)->time_base;
    uint64_t start = tachy_now_ns();
    bool due = tachy_pace_wait(&r->pace, (double)f->pts * tb.num / tb.den, stopped, r);
    atomic_fetch_add(&r->source->pace_ns, tachy_now_ns() - start);
    return due;
}

// The next frame, with its time measured without what it waited for other threads.
static int read_next(struct run_reader *one, tachy_frame **f, int64_t *seq, bool *breaks)
{
    struct run_readers *r = one->all;
    uint64_t waited = 0, start = tachy_ticks();
    tachy_step_begin("decode");
    int err = tachy_source_read_any(r->source, f, seq, breaks, &waited);
    tachy_step_end();
    if (err < 0 || !*f)
        return err;
    uint64_t end = tachy_ticks();
    if (waited) {
        double share = (double)waited / (double)TACHY_MAX(tachy_ticks_ns(end - start), (uint64_t)1);
        start += (uint64_t)((double)(end - start) * TACHY_MIN(share, 1.0));
    }
    tachy_prof_add(one->prof, TACHY_STEP_DECODE,
                   (struct tachy_prof_item){(*f)->id, r->stream->number}, start, end, 0);
    if (r->paced && !wait_due(r, *f)) {
        tachy_frame_unref(f);
        return TACHY_ERR_INTERRUPTED;
    }
    atomic_fetch_add(&r->decoded, 1);
    return TACHY_OK;
}

bool run_readers_stopped(const struct run_readers *r)
{
    return atomic_load(&r->stop) || (r->stop_asked && *(const volatile int *)r->stop_asked) ||
           tachy_control_ending(r->control, r->controlled);
}

// Waits while fewer threads are wanted.
static void rest(struct run_reader *one)
{
    struct run_readers *r = one->all;
    int number = (int)(one - r->one);
    if (number < atomic_load(&r->active))
        return;
    pthread_mutex_lock(&r->lock);
    while (number >= atomic_load(&r->active) && !r->ending)
        pthread_cond_wait(&r->woken, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

// One thread ends, and so will all.
static void wake_all(struct run_readers *r)
{
    pthread_mutex_lock(&r->lock);
    r->ending = true;
    pthread_cond_broadcast(&r->woken);
    pthread_mutex_unlock(&r->lock);
}

// Waits while the run is paused or the thread rests. False: no more is to be read.
static bool may_read(struct run_reader *one)
{
    struct run_readers *r = one->all;
    rest(one);
    while (!run_readers_stopped(r) && tachy_control_hold(r->control, r->controlled))
        if (r->paced) // then there is one thread: its clock starts again
            r->pace.started = false;
    return !run_readers_stopped(r);
}

void run_readers_set(struct run_readers *r, int n)
{
    pthread_mutex_lock(&r->lock);
    atomic_store(&r->active, n);
    pthread_cond_broadcast(&r->woken);
    pthread_mutex_unlock(&r->lock);
}

static void *reader_main(void *arg)
{
    struct run_reader *one = arg;
    struct run_readers *r = one->all;
    int err = TACHY_OK;
    bool begun = false;
    tachy_thread_name("tachy-reader");
    tachy_profile_thread(r->profile, one->prof);
    while (err == TACHY_OK && may_read(one)) {
        tachy_frame *f = NULL;
        int64_t seq;
        bool breaks = false;
        err = read_next(one, &f, &seq, &breaks);
        if (err < 0)
            break;
        if (!begun)
            atomic_fetch_add(&r->begun, 1);
        begun = true;
        uint64_t start = tachy_ticks();
        err = f ? tachy_resume_read(r->resume, f) : TACHY_OK;
        if (err == TACHY_OK)
            err = push(one, f, seq, breaks);
        atomic_fetch_add(&r->push_ticks, tachy_ticks() - start);
        tachy_frame_unref(&f);
    }
    tachy_prof_thread_stop(one->prof);
    wake_all(r);
    if (!begun)
        atomic_fetch_add(&r->begun, 1);
    if (err == TACHY_OK || err == TACHY_ERR_INTERRUPTED) // a pipeline that failed tells it itself
        err = TACHY_OK;
    if (err != TACHY_ERR_EOF) {
        int none = TACHY_ERR_EOF;
        atomic_compare_exchange_strong(&r->err, &none, err);
        atomic_store(&r->stop, true); // the others as well
    }
    if (atomic_fetch_sub(&r->running, 1) == 1) {
        atomic_store(&r->end_ns, tachy_now_ns());
        live_stream_push(r->live, NULL);
    }
    return NULL;
}

int run_readers_start(struct run_readers *r)
{
    atomic_store(&r->err, TACHY_ERR_EOF);
    atomic_store(&r->running, r->nb);
    atomic_store(&r->begun, r->nb - atomic_load(&r->active)); // the others may never begin
    for (int i = 0; i < r->nb; i++) {
        r->one[i].started = !pthread_create(&r->one[i].thread, NULL, reader_main, &r->one[i]);
        if (r->one[i].started)
            continue;
        // Fewer threads read all the same.
        int left = r->nb - i;
        if (atomic_fetch_sub(&r->running, left) == left)
            live_stream_push(r->live, NULL);
        if (i == 0)
            return tachy_fail(r->log, TACHY_ERR_AGAIN,
                              "the system can start no more threads; try again later");
        break;
    }
    return TACHY_OK;
}

int run_readers_join(struct run_readers *r)
{
    for (int i = 0; i < r->nb; i++)
        if (r->one[i].started)
            pthread_join(r->one[i].thread, NULL);
    for (int i = 0; i < r->nb; i++)
        r->one[i].started = false;
    return atomic_load(&r->err);
}

void run_readers_close(struct run_readers *r)
{
    for (int i = 0; i < r->nb; i++)
        tachy_profile_close_prof(r->profile, &r->profs[i]);
    r->nb = 0;
    if (r->made) {
        pthread_cond_destroy(&r->woken);
        pthread_mutex_destroy(&r->lock);
    }
    r->made = false;
}
