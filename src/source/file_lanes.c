#include "source/file_priv.h"

#include "base/clock.h"

#include <stdlib.h>

// Several parallel decoders of one file, each with one segment at a time (file_cut.c). They have no threads: a thread
// that reads works on a lane. So a file is decoded on as many cores as threads read it, a picture is in the cache of
// the thread that decoded it, and a single thread reads everything in order.
//
// No lane outputs a picture more than `window` positions beyond the first one that has not been output, so that the
// reader's memory is bounded; a segment that begins further on waits. Readers that order the frames by position in a
// window of that size cannot deadlock: the thread that returns takes the lane that is furthest behind.

enum { SHORT = 50 }; // pictures; a file with fewer has nothing to share out

static struct file_lane *new_lane(void)
{
    struct file_lane *l = calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    l->last = l->jump_at = AV_NOPTS_VALUE;
    l->end = INT64_MAX;
    return l;
}

int file_lanes_open(tachy_source *s)
{
    struct file *p = file_of(s);
    if (pthread_mutex_init(&p->lock, NULL))
        return TACHY_ERR_NOMEM;
    pthread_cond_init(&p->moved, NULL);
    p->lock_made = true;
    int err = file_cut_open(s);
    struct file_lane *l = new_lane();
    struct file_segment *first = p->cut.tail;
    if (err || !l) {
        free(l);
        file_cut_release(&p->cut, &first);
        return TACHY_ERR_NOMEM;
    }
    p->lanes[p->nb_lanes++] = l;
    l->segment = first;
    err = file_gpu_open(s);
    if (!err)
        err = file_decode_open(s, l, file_decode_threads(s));
    if (!err && p->gpu.on)
        tachy_msg(s->params.log, TACHY_LOG_VERBOSE, "%s: decoding with %s on %s of GPU %d (%s)",
                  s->url, l->dec->codec->name, p->gpu.jpeg ? "JPEG engines" : "NVDEC", l->device->gpu->device.ordinal, l->device->gpu->device.name);
    else if (!err)
        tachy_msg(s->params.log, TACHY_LOG_VERBOSE, "%s: decoding with %s, %d thread%s", s->url,
                  l->dec->codec->name, l->dec->thread_count, l->dec->thread_count == 1 ? "" : "s");
    return err;
}

int file_lanes_again(tachy_source *s)
{
    struct file *p = file_of(s);
    struct file_lane *l = p->lanes[0];
    pthread_mutex_lock(&p->lock);
    file_cut_close(&p->cut);
    file_cut_release(&p->cut, &l->segment);
    p->cut = (struct file_cut){0};
    int err = file_cut_open(s);
    l->segment = p->cut.tail;
    pthread_mutex_unlock(&p->lock);
    file_decode_again(l);
    return err;
}

void file_lanes_close(tachy_source *s)
{
    struct file *p = file_of(s);
    if (!p->lock_made)
        return;
    file_cut_close(&p->cut);
    for (int i = 0; i < p->nb_lanes; i++) {
        struct file_lane *l = p->lanes[i];
        file_cut_release(&p->cut, &l->before);
        file_cut_release(&p->cut, &l->segment);
        tachy_frame_unref(&l->ready);
        avcodec_free_context(&l->dec);
        av_packet_free(&l->packet);
        av_frame_free(&l->picture);
        file_convert_close(l);
        file_gpu_close_lane(l);
        free(l);
    }
    pthread_cond_destroy(&p->moved);
    pthread_mutex_destroy(&p->lock);
}

// The position after the segment's last one.
static int64_t end_of(struct file *p, const struct file_lane *l)
{
    pthread_mutex_lock(&p->lock);
    const struct file_segment *g = l->segment;
    int64_t end = g->counted || !g->whole ? l->seq : g->base + g->nb_times;
    pthread_mutex_unlock(&p->lock);
    return TACHY_MAX(end, l->seq);
}

// The first position that may not be given yet: the window begins at the first one that was not. Under the lock.
static int64_t window_end(const struct file *p)
{
    int64_t first = p->cut.head ? p->cut.head->base : INT64_MAX;
    for (int i = 0; i < p->nb_lanes; i++)
        if (p->lanes[i]->segment && p->lanes[i]->seq < first)
            first = p->lanes[i]->seq;
    return av_sat_add64(first, p->window);
}

// Positions of the segment before that had no picture; then the lane stands in the next one, which may have to wait.
static bool cross(struct file *p, struct file_lane *l, bool *waits)
{
    pthread_mutex_lock(&p->lock);
    const struct file_segment *b = l->before;
    bool none_left = l->seq >= b->base + b->nb_times;
    if (none_left) {
        l->seq = l->segment->base;
        file_cut_release(&p->cut, &l->before);
    }
    *waits = none_left && l->seq >= window_end(p);
    pthread_mutex_unlock(&p->lock);
    return none_left;
}

// Damage left over at the end of a segment counts for the next segment's first picture. That may be on another lane, so
// it is reported with the last available position: a picture that is damaged itself, or one that did not come out of
// its packet.
int file_lane_step(tachy_source *s, struct file_lane *l, tachy_frame **out, int64_t *seq, bool *breaks)
{
    struct file *p = file_of(s);
    *out = NULL;
    *breaks = false;
    *seq = l->seq;
    if (!l->ready && !l->done) {
        int err = file_decode(s, l, &l->ready_seq);
        if (!err)
            err = file_convert(s, l, &l->ready);
        if (err && err != TACHY_ERR_EOF)
            return err;
        l->done = err == TACHY_ERR_EOF;
        l->crossed |= l->done;
    }
    if (l->before && l->crossed) {
        bool waits;
        if (!cross(p, l, &waits)) { // no picture at this position
            *breaks = l->broken || l->jump_at != AV_NOPTS_VALUE;
            return TACHY_OK;
        }
        if (waits)
            return TACHY_ERR_AGAIN;
        *seq = l->seq;
    }
    if (l->done)
        l->ready_seq = end_of(p, l);
    if (l->seq < l->ready_seq) { // no picture at this position
        *breaks = l->done && (l->broken || l->jump_at != AV_NOPTS_VALUE);
        return TACHY_OK;
    }
    if (l->done)
        return TACHY_ERR_EOF;
    *breaks = l->broken > 0;
    *out = l->ready;
    l->ready = NULL;
    return TACHY_OK;
}

// --- Under the lock from here on --------------------------------------------------------------
// A free lane that may go on: the caller's own, else the one that is furthest behind.
static struct file_lane *lane_to_go_on(const struct file *p, int64_t until, bool own)
{
    struct file_lane *best = NULL;
    for (int i = 0; i < p->nb_lanes; i++) {
        struct file_lane *l = p->lanes[i];
        if (l->busy || !l->segment || l->seq >= until || (p->failed && l->seq >= p->failed_at))
            continue;
        if (own ? pthread_equal(l->user, pthread_self()) : !best || l->seq < best->seq)
            best = l;
    }
    return best;
}

// Lanes that have a segment on this one's GPU.
static int load_of(const struct file *p, const struct file_lane *l)
{
    int n = 0;
    for (int i = 0; i < p->nb_lanes && l->device; i++)
        n += p->lanes[i]->segment && p->lanes[i]->device == l->device;
    return n;
}

// The first of those whose GPU has the least to do.
static struct file_lane *idle_lane(const struct file *p)
{
    struct file_lane *best = NULL;
    for (int i = 0; i < p->nb_lanes; i++) {
        struct file_lane *l = p->lanes[i];
        if (!l->segment && !l->busy && (!best || load_of(p, l) < load_of(p, best)))
            best = l;
    }
    return best;
}

static struct file_lane *lane_to_start(tachy_source *s, int64_t until)
{
    struct file *p = file_of(s);
    struct file_lane *l = p->failed ? NULL : idle_lane(p);
    struct file_segment *g = l ? file_cut_take(s, until, false) : NULL;
    if (!g)
        return NULL;
    l->segment = g;
    l->seq = g->base;
    l->end = g->end;
    l->last = av_sat_sub64(g->last, p->zero);
    l->offset = l->back = 0;
    l->broken = 0;
    l->jump_at = AV_NOPTS_VALUE;
    l->started = l->flushing = l->done = l->lead = false;
    return l;
}

// H.264 on NVDEC: a flush makes FFmpeg open a new session, which takes as long as a hundred pictures.
#ifdef TACHY_LANES_GO_ON // on the CPU as well, for tests
static bool flush_is_dear(const struct file *p) { return p->st->codecpar->codec_id == AV_CODEC_ID_H264; }
#else
static bool flush_is_dear(const struct file *p)
{
    return p->gpu.on && p->st->codecpar->codec_id == AV_CODEC_ID_H264;
}
#endif

// The next segment may begin beyond the window: its first packets bring out the pictures that the decoder still has.
bool file_lane_goes_on(tachy_source *s, struct file_lane *l)
{
    struct file *p = file_of(s);
    const struct file_segment *g = l->segment;
    if (!flush_is_dear(p) || p->nb_lanes < 2 || l->before || p->failed || g->counted || !g->nb_times)
        return false;
    int64_t last = g->times[g->nb_times - 1];
    struct file_segment *next = file_cut_take(s, INT64_MAX, true);
    if (!next)
        return false;
    l->before = l->segment;
    l->before_last = last;
    l->crossed = l->started = false;
    l->segment = next;
    return true;
}

// A lane to work on, or NULL: *wait says whether there may be one later.
static struct file_lane *choose(tachy_source *s, bool *wait)
{
    struct file *p = file_of(s);
    int64_t until = window_end(p);
    struct file_lane *l = lane_to_go_on(p, until, true);
    if (!l)
        l = lane_to_start(s, until);
    if (!l)
        l = lane_to_go_on(p, until, false);
    *wait = false;
    for (int i = 0; i < p->nb_lanes && !l; i++)
        *wait |= p->lanes[i]->busy;
    return l;
}

// The threads that decode are shared by the decoders side by side.
static int lane_threads(const tachy_source *s, int lanes) { return TACHY_MAX(s->params.threads / lanes, 1); }

// Resets the decoder after its segment. A lane that had several threads has one from now on.
static int leave_segment(tachy_source *s, struct file_lane *l)
{
    struct file *p = file_of(s);
    int threads = p->gpu.on ? 1 : lane_threads(s, p->nb_lanes);
    int err = TACHY_OK;
    file_jpeg_again(l);
    if (l->dec->thread_count != threads && p->nb_lanes > 1)
        err = file_decode_open(s, l, threads);
    else
        avcodec_flush_buffers(l->dec);
    pthread_mutex_lock(&p->lock);
    file_cut_release(&p->cut, &l->segment);
    pthread_mutex_unlock(&p->lock);
    return err;
}

int file_read_any(tachy_source *s, tachy_frame **out, int64_t *seq, bool *breaks, uint64_t *waited_ns)
{
    struct file *p = file_of(s);
    int err = TACHY_ERR_EOF;
    *out = NULL;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        bool wait;
        struct file_lane *l = choose(s, &wait);
        if (!l && !wait)
            break;
        if (!l) {
            uint64_t start = tachy_now_ns();
            p->waiting++;
            pthread_cond_wait(&p->moved, &p->lock);
            p->waiting--;
            *waited_ns += tachy_now_ns() - start;
            continue;
        }
        l->busy = true;
        l->user = pthread_self();
        pthread_mutex_unlock(&p->lock);
        err = file_lane_step(s, l, out, seq, breaks);
        int left = err == TACHY_ERR_EOF ? leave_segment(s, l) : TACHY_OK;
        pthread_mutex_lock(&p->lock);
        l->busy = false;
        if (!err)
            l->seq = *seq + 1;
        err = left ? left : err;
        if (err && err != TACHY_ERR_EOF && err != TACHY_ERR_AGAIN && (!p->failed || l->seq < p->failed_at)) {
            p->failed = err;
            p->failed_at = l->seq;
        }
        if (p->waiting)
            pthread_cond_broadcast(&p->moved);
        if (!err)
            break;
    }
    if (err) {
        err = p->failed ? p->failed : file_ended(s);
        if (err != TACHY_ERR_EOF)
            p->failed = err; // told once
        if (p->waiting)
            pthread_cond_broadcast(&p->moved);
    }
    pthread_mutex_unlock(&p->lock);
    return err;
}

// Why a file has one decoder; NULL: it may have several.
static const char *unsuitable(tachy_source *s)
{
    struct file *p = file_of(s);
    if (!p->in.local)
        return "it is no file";
    enum AVCodecID codec = p->st->codecpar->codec_id;
    if (p->in.still || (p->in.pictures && codec != AV_CODEC_ID_MJPEG && codec != AV_CODEC_ID_PNG)) // file_key.c reads their heads
        return "it is pictures";
    if (p->in.counted)
        return "its pictures have no times";
    if (p->rate.on)
        return "its rate is changed (-r)";
    if (!file_key_known(p->st->codecpar->codec_id))
        return "what its keyframes need is not known";
    if (p->interlaced)
        return "its pictures are interlaced";
    if (s->info.frames > 0 && s->info.frames < SHORT)
        return "it is short";
    return NULL;
}

bool file_divides(tachy_source *s)
{
    struct file *p = file_of(s);
    pthread_mutex_lock(&p->lock);
    bool divides = !unsuitable(s) && p->cut.divides;
    pthread_mutex_unlock(&p->lock);
    return divides;
}

int file_spread(tachy_source *s, int decoders, int64_t window)
{
    struct file *p = file_of(s);
    const char *why = window < 2 ? "there is no memory for pictures out of order" : unsuitable(s);
    if (!why && !p->cut.on)
        why = "its packets do not tell the order of the pictures";
    decoders = file_gpu_lanes(s, TACHY_MIN(decoders, LANES_MAX));
    pthread_mutex_lock(&p->lock);
    p->window = window;
    for (int i = p->nb_lanes; i < decoders && !why; i++) {
        struct file_lane *l = new_lane();
        if (!l)
            break;
        p->lanes[p->nb_lanes++] = l;
        l->format = p->lanes[0]->format;
        l->width = p->lanes[0]->width;
        l->height = p->lanes[0]->height;
        if (file_decode_open(s, l, lane_threads(s, decoders))) {
            why = "a second decoder cannot be opened";
            p->nb_lanes--;
            avcodec_free_context(&l->dec);
            av_packet_free(&l->packet);
            av_frame_free(&l->picture);
            file_gpu_close_lane(l);
            free(l);
        }
    }
    p->cut.lanes = p->nb_lanes;
    if (p->nb_lanes == 1)
        file_cut_stop(s, "there is one decoder");
    pthread_mutex_unlock(&p->lock);
    if (decoders > 1 && why)
        tachy_msg(s->params.log, TACHY_LOG_VERBOSE, "%s: decoded by one decoder: %s", s->url, why);
    else if (p->nb_lanes > 1)
        tachy_msg(s->params.log, TACHY_LOG_VERBOSE,
                  "%s: decoded by %d decoders side by side%s, at most %lld pictures out of order",
                  s->url, p->nb_lanes, p->gpu.nb > 1 ? " on several GPUs" : "", (long long)window);
    return p->nb_lanes;
}
