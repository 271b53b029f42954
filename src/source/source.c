#include "source/source_ops.h"

#include "media/filter.h"
#include "media/side.h"
#include "source/order.h"

#include <math.h>
#include <stdlib.h>

static const struct tachy_source_ops *const sources[] = {
    &tachy_source_null, // takes "null:..." only
    &tachy_source_file, // takes everything else
};

// Seconds, numbers and rates that no file has; larger ones would overflow ticks.
#define MAX_SECONDS 1e9
enum { MAX_THREADS = 256, MAX_RATE = 100000 };
// Limits for out-of-order frames in tachy_source_read().
enum { ORDER_BYTES = 256 << 20, ORDER_FRAMES = 4096 };

static bool gpus_ok(const struct tachy_source_params *p)
{
    const struct tachy_log *log = p->log;
    bool ok = TACHY_CHECK(log, p->gpu >= 0 && p->gpu < TACHY_MAX_GPUS) &&
              TACHY_CHECK(log, p->nb_gpus >= 0 && p->nb_gpus <= TACHY_MAX_GPUS && (p->gpus || !p->nb_gpus)) &&
              TACHY_CHECK(log, p->nb_gpus < 2 || !p->gpu_stream);
    for (int i = 0; i < p->nb_gpus && ok; i++) {
        ok = TACHY_CHECK(log, p->gpus[i] >= 0 && p->gpus[i] < TACHY_MAX_GPUS);
        for (int k = 0; k < i && ok; k++)
            ok = TACHY_CHECK(log, p->gpus[k] != p->gpus[i]);
    }
    return ok;
}

static bool params_ok(const struct tachy_source_params *p)
{
    const struct tachy_log *log = p->log;
    const struct tachy_rational r = p->rate;
    return TACHY_CHECK(log, p->url && p->url[0]) && TACHY_CHECK(log, p->start >= 0 && p->start <= MAX_SECONDS) &&
           TACHY_CHECK(log, p->duration >= 0 && p->duration <= MAX_SECONDS) &&
           TACHY_CHECK(log, p->timeout <= MAX_SECONDS) && TACHY_CHECK(log, p->reconnect >= 0 && p->reconnect <= MAX_SECONDS) && TACHY_CHECK(log, p->max_frames >= 0) && TACHY_CHECK(log, p->every_nth >= 0) &&
           TACHY_CHECK(log, p->threads >= 0 && p->threads <= MAX_THREADS) &&
           TACHY_CHECK(log, p->decoders >= 0 && p->decoders <= MAX_THREADS) &&
           TACHY_CHECK(log, p->decode >= TACHY_DECODE_AUTO && p->decode <= TACHY_DECODE_NVDEC) &&
           TACHY_CHECK(log, p->camera_width >= 0 && p->camera_height >= 0 && !p->camera_width == !p->camera_height) &&
           TACHY_CHECK(log, p->camera_rate.num >= 0 && p->camera_rate.den >= 0 && !p->camera_rate.num == !p->camera_rate.den) &&
           gpus_ok(p) &&
           TACHY_CHECK(log, (int)p->stereo >= TACHY_STEREO_AUTO && p->stereo <= TACHY_STEREO_TB) &&
           TACHY_CHECK(log, (!r.num && !r.den) ||
                                (r.num > 0 && r.den > 0 && r.num / r.den <= MAX_RATE));
}

static const struct tachy_source_ops *choose(const struct tachy_source_params *p)
{
    if (p->sound)
        return &tachy_source_sound;
    if (!p->backend && p->reconnect > 0 && tachy_source_again.probe(p->url))
        return &tachy_source_again;
    for (size_t i = 0; i < TACHY_ARRAY_SIZE(sources); i++)
        if (p->backend ? !strcmp(p->backend, sources[i]->name) : sources[i]->probe(p->url))
            return p->loop && sources[i] == &tachy_source_file ? &tachy_source_again : sources[i];
    tachy_msg(p->log, TACHY_LOG_ERR, "source: there is no backend named \"%s\"; use file or null",
              p->backend);
    return NULL;
}

// Adjusts the info for every_nth and max_frames.
static void thin_info(tachy_source *s)
{
    struct tachy_video_info *i = &s->info;
    int n = s->params.every_nth;
    if (n > 1) {
        i->frames = (i->frames + n - 1) / n;
        if (i->fps.num > 0 && i->fps.den > 0)
            av_reduce(&i->fps.num, &i->fps.den, i->fps.num, (int64_t)i->fps.den * n, INT32_MAX);
    }
    int64_t max = s->params.max_frames;
    if (max && (!i->frames || i->frames > max)) {
        double seconds = i->fps.num > 0 ? (double)max * i->fps.den / i->fps.num : 0;
        if (seconds > 0 && (i->duration <= 0 || i->duration > seconds))
            i->duration = seconds;
        if (i->frames)
            i->frames = max;
    }
}

// Filters take pictures of the host's memory.
static int filter_on_host(tachy_source *s)
{
    if (s->params.decode == TACHY_DECODE_NVDEC && s->params.on_gpu)
        return tachy_fail(s->params.log, TACHY_ERR_INVAL, "--vf-in works on pictures that the CPU decodes; leave --decode nvdec out");
    s->params.on_gpu = false;
    return TACHY_OK;
}

int tachy_source_open_sized(size_t p_size, tachy_source **out, const struct tachy_source_params *p)
{
    struct tachy_source_params own;
    p = tachy_sized_in(&own, sizeof(own), p, p_size);
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(p, log), out && p) || !params_ok(p))
        return TACHY_ERR_INVAL;
    const struct tachy_source_ops *ops = choose(p);
    if (!ops)
        return TACHY_ERR_INVAL;
    tachy_source *s = calloc(1, sizeof(*s) + ops->priv_size);
    if (!s)
        return TACHY_ERR_NOMEM;
    s->ops = ops;
    s->params = *p;
    s->params.every_nth = TACHY_DEF(p->every_nth, 1);
    s->params.nb_gpus = TACHY_DEF(p->nb_gpus, 1);
    s->params.gpus = s->gpus;
    memcpy(s->gpus, p->nb_gpus ? p->gpus : &p->gpu, (size_t)s->params.nb_gpus * sizeof(int));
    s->url = strdup(p->url);
    int err = s->url ? TACHY_OK : TACHY_ERR_NOMEM;
    if (!err && p->want_side)
        err = tachy_side_new(&s->side);
    if (!err && p->filter)
        err = filter_on_host(s);
    if (!err)
        err = ops->open(s);
    if (!err && p->filter)
        err = tachy_filter_open(&s->filter, p->filter, "--vf-in", &s->info, p->log);
    s->params.url = s->params.backend = s->params.filter = s->params.camera_format = NULL; // the caller's memory
    if (err) {
        tachy_source_close(&s);
        return err;
    }
    thin_info(s);
    *out = s;
    return TACHY_OK;
}

const struct tachy_video_info *tachy_source_info(const tachy_source *s) { return s ? &s->info : NULL; }

tachy_side *tachy_source_side(const tachy_source *s) { return s->side; }

int64_t tachy_source_damaged(const tachy_source *s) { return s ? atomic_load(&s->damaged) : 0; }

static int end(tachy_source *s, int err)
{
    atomic_store(&s->ended, true);
    if (s->side)
        tachy_side_end(s->side);
    return err;
}

static int end_early(tachy_source *s)
{
    source_order_close(&s->order);
    if (s->ops->stop)
        s->ops->stop(s, s->end_s);
    if (s->side)
        tachy_side_trim(s->side, s->end_s);
    return end(s, TACHY_ERR_EOF);
}

// Numbers a frame and remembers its end.
static void number(tachy_source *s, tachy_frame *f)
{
    const struct tachy_video_info *i = &s->info;
    f->id = s->next_id++;
    double tick = (double)i->time_base.num / i->time_base.den;
    double length = f->duration ? (double)f->duration * tick
                    : i->fps.num > 0 ? (double)i->fps.den / i->fps.num
                                     : 0;
    s->end_s = (double)f->pts * tick + length;
}

static int spread(tachy_source *s, int decoders, int64_t window)
{
    s->spread = s->ops->spread && decoders > 1 ? s->ops->spread(s, decoders, window) : 1;
    return s->spread;
}

int tachy_source_spread(tachy_source *s, int decoders, int64_t window)
{
    bool counts = s->params.every_nth > 1 || s->params.max_frames || s->filter;
    if (decoders > 1 && counts)
        tachy_msg(s->params.log, TACHY_LOG_VERBOSE, "%s: decoded by one decoder: its frames are %s", s->url,
                  s->filter ? "filtered in order (--vf-in)" : "counted (--every-nth, --max-frames)");
    return spread(s, counts ? 1 : decoders, window);
}

// The first read decides whether several decoders work for it.
static int open_order(tachy_source *s)
{
    const struct tachy_video_info *i = &s->info;
    size_t bytes = tachy_frame_bytes(i->format, i->width, i->height);
    int64_t window = TACHY_MIN(ORDER_FRAMES, (int64_t)(TACHY_DEF(s->order_bytes, (size_t)ORDER_BYTES) / TACHY_MAX(bytes, (size_t)1)));
    int n = spread(s, s->filter ? 1 : s->params.decoders, window);
    return n > 1 ? source_order_open(&s->order, s, n, window) : TACHY_OK;
}

// The next frame that comes out of the filters.
static int read_filtered(tachy_source *s, tachy_frame **out)
{
    int err;
    while ((err = tachy_filter_receive(s->filter, out)) == TACHY_ERR_AGAIN && !s->filter_ends) {
        tachy_frame *f = NULL;
        err = s->ops->read(s, &f);
        s->filter_ends = err == TACHY_ERR_EOF;
        if (err == TACHY_OK || s->filter_ends)
            err = tachy_filter_send(s->filter, f);
        tachy_frame_unref(&f);
        if (err < 0)
            return err;
    }
    return err == TACHY_ERR_AGAIN ? TACHY_ERR_EOF : err;
}

static int read_next(tachy_source *s, tachy_frame **out)
{
    int err = s->spread ? TACHY_OK : open_order(s);
    if (!err)
        err = s->filter ? read_filtered(s, out) : s->order ? source_order_read(s->order, out) : s->ops->read(s, out);
    if (!err)
        atomic_fetch_add(&s->seen, 1);
    return err;
}

// Reads the frames after `f` that every_nth skips. `f` lasts until the last of them ends, so that the total duration
// stays.
static void leave_out(tachy_source *s, tachy_frame *f)
{
    int64_t last = f->pts, end = av_sat_add64(f->pts, f->duration);
    for (int i = 1; i < s->params.every_nth && !s->ahead_err; i++) {
        tachy_frame *g = NULL;
        s->ahead_err = read_next(s, &g);
        if (s->ahead_err)
            break;
        int64_t length = g->duration ? g->duration : av_sat_sub64(g->pts, last);
        last = g->pts;
        end = TACHY_MAX(end, av_sat_add64(g->pts, length));
        s->discontinuity |= g->discontinuity != 0;
        tachy_frame_unref(&g);
    }
    f->duration = av_sat_sub64(end, f->pts);
}

int tachy_source_read(tachy_source *s, tachy_frame **out)
{
    TACHY_CLEAR(out);
    if (!TACHY_CHECK(TACHY_LOG_OF(s, params.log), s && out))
        return TACHY_ERR_INVAL;
    if (s->ended)
        return TACHY_ERR_EOF;
    if (s->params.max_frames && s->next_id >= s->params.max_frames)
        return end_early(s);
    tachy_frame *f = NULL;
    int err = s->ahead_err ? s->ahead_err : read_next(s, &f);
    if (err)
        return end(s, err);
    if (s->discontinuity)
        f->discontinuity = 1;
    s->discontinuity = false;
    if (s->params.every_nth > 1)
        leave_out(s, f);
    number(s, f);
    *out = f;
    return TACHY_OK;
}

int tachy_source_read_any(tachy_source *s, tachy_frame **out, int64_t *seq, bool *breaks, uint64_t *waited_ns)
{
    *out = NULL;
    *breaks = false;
    if (s->spread <= 1) {
        int err = tachy_source_read(s, out);
        *seq = err ? s->next_id : (*out)->id;
        return err;
    }
    uint64_t waited = 0;
    int err = atomic_load(&s->ended) ? TACHY_ERR_EOF : s->ops->read_any(s, out, seq, breaks, &waited);
    if (waited_ns)
        *waited_ns += waited;
    if (err)
        return end(s, err);
    if (*out) {
        (*out)->id = *seq;
        atomic_fetch_add(&s->seen, 1);
    }
    return TACHY_OK;
}

void tachy_source_drop_side(tachy_source *s) { s->no_side = true; }

int tachy_source_seek(tachy_source *s, int64_t id, int64_t pts)
{
    int err = s->ops->seek && !s->filter ? s->ops->seek(s, pts) : TACHY_ERR_UNSUPPORTED;
    if (err < 0)
        return err;
    s->next_id = id;
    s->seen = id * s->params.every_nth;
    s->ahead_err = TACHY_OK;
    s->ended = s->discontinuity = false;
    return TACHY_OK;
}

void tachy_source_read_side(tachy_source *s, double seconds)
{
    double end = s->params.duration > 0 ? s->params.duration : INFINITY;
    if (s->side && s->ops->stop)
        s->ops->stop(s, TACHY_MIN(seconds, end));
}

void tachy_source_end_side(tachy_source *s, double end_s, bool cut)
{
    tachy_source_read_side(s, cut ? end_s : INFINITY);
    if (s->side && cut)
        tachy_side_trim(s->side, end_s);
    if (s->side)
        tachy_side_end(s->side);
}

bool tachy_source_was_cut(const tachy_source *s)
{
    return s->params.max_frames && s->next_id >= s->params.max_frames;
}

void tachy_source_close(tachy_source **source)
{
    tachy_source *s = source ? *source : NULL;
    if (!s)
        return;
    *source = NULL;
    source_order_close(&s->order);
    tachy_filter_close(&s->filter);
    s->ops->close(s);
    if (s->side)
        tachy_side_end(s->side); // somebody may still wait for packets
    tachy_side_unref(&s->side);
    free(s->url);
    free(s);
}
