#include "media/side.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

// Packets of one stream in the order they came, which is the order of their dts.
struct entry {
    AVPacket *packet;
    double time; // seconds; packets without a time have that of the one before
    struct entry *next;
};

struct fifo {
    struct entry *head, *tail;
    size_t bytes;
    double last_time;
};

struct tachy_side_queue {
    pthread_mutex_t lock; // holds everything here, and given_up of the streams
    struct fifo *fifos;   // one per stream; made at the first put
    int nb_fifos;
    size_t bytes;
    bool ended;
    int failed; // TACHY_ERR_NOMEM: a packet is missing, which the taker is told
    bool forked; // packets go to the copies
    tachy_side *copies;
};

int tachy_side_new(tachy_side **out)
{
    *out = NULL;
    tachy_side *s = calloc(1, sizeof(*s));
    struct tachy_side_queue *q = calloc(1, sizeof(*q));
    if (!s || !q || pthread_mutex_init(&q->lock, NULL)) {
        free(q);
        free(s);
        return TACHY_ERR_NOMEM;
    }
    atomic_init(&s->refs, 1);
    s->queue = q;
    *out = s;
    return TACHY_OK;
}

tachy_side *tachy_side_ref(tachy_side *s)
{
    if (s)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

static AVPacket *pop(struct tachy_side_queue *q, struct fifo *f)
{
    struct entry *e = f->head;
    AVPacket *packet = e->packet;
    f->head = e->next;
    if (!f->head)
        f->tail = NULL;
    f->bytes -= (size_t)packet->size;
    q->bytes -= (size_t)packet->size;
    free(e);
    return packet;
}

static void clear(struct tachy_side_queue *q, struct fifo *f)
{
    while (f->head) {
        AVPacket *packet = pop(q, f);
        av_packet_free(&packet);
    }
}

static void queue_free(struct tachy_side_queue *q)
{
    for (int i = 0; i < q->nb_fifos; i++)
        clear(q, &q->fifos[i]);
    free(q->fifos);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

// The description stays its owner's.
static void free_copy(tachy_side *s)
{
    tachy_side *of = s->of, **at = &of->queue->copies;
    pthread_mutex_lock(&of->queue->lock);
    while (*at && *at != s)
        at = &(*at)->next;
    if (*at)
        *at = s->next;
    pthread_mutex_unlock(&of->queue->lock);
    free(s->streams);
    queue_free(s->queue);
    free(s);
    tachy_side_unref(&of);
}

void tachy_side_unref(tachy_side **side)
{
    tachy_side *s = side ? *side : NULL;
    if (!s)
        return;
    *side = NULL;
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (s->of) {
        free_copy(s);
        return;
    }
    for (int i = 0; i < s->nb_streams; i++) {
        avcodec_parameters_free(&s->streams[i].par);
        av_dict_free(&s->streams[i].metadata);
    }
    free(s->streams);
    av_dict_free(&s->metadata);
    av_dict_free(&s->video_metadata);
    for (int i = 0; i < s->nb_chapters; i++) {
        av_dict_free(&s->chapters[i]->metadata);
        av_freep(&s->chapters[i]);
    }
    av_freep(&s->chapters);
    for (int i = 0; i < s->nb_video_side_data; i++)
        av_freep(&s->video_side_data[i].data);
    av_freep(&s->video_side_data);
    free(s->url);
    queue_free(s->queue);
    free(s);
}

// Under the lock.
static bool make_fifos(tachy_side *s)
{
    struct tachy_side_queue *q = s->queue;
    if (q->nb_fifos >= s->nb_streams)
        return true;
    struct fifo *fifos = realloc(q->fifos, (size_t)s->nb_streams * sizeof(*fifos));
    if (!fifos)
        return false;
    for (int i = q->nb_fifos; i < s->nb_streams; i++)
        fifos[i] = (struct fifo){.last_time = -INFINITY};
    q->fifos = fifos;
    q->nb_fifos = s->nb_streams;
    return true;
}

// The stream that holds most bytes and is not audio is given up as a whole: one with holes
// is worth less. False where only audio is left.
static bool give_up_one(tachy_side *s)
{
    struct tachy_side_queue *q = s->queue;
    int worst = -1;
    for (int i = 0; i < q->nb_fifos; i++)
        if (s->streams[i].par->codec_type != AVMEDIA_TYPE_AUDIO && q->fifos[i].head &&
            (worst < 0 || q->fifos[i].bytes > q->fifos[worst].bytes))
            worst = i;
    if (worst < 0)
        return false;
    clear(q, &q->fifos[worst]);
    s->streams[worst].given_up = true;
    return true;
}

static double packet_time(const tachy_side *s, const AVPacket *p)
{
    int64_t t = p->dts != AV_NOPTS_VALUE ? p->dts : p->pts;
    if (t == AV_NOPTS_VALUE)
        return NAN;
    return (double)t * av_q2d(s->streams[p->stream_index].time_base);
}

// Under the lock.
static int append(tachy_side *s, AVPacket *packet)
{
    struct tachy_side_queue *q = s->queue;
    struct fifo *f = &q->fifos[packet->stream_index];
    double time = packet_time(s, packet);
    struct entry *e = calloc(1, sizeof(*e));
    AVPacket *mine = av_packet_alloc();
    if (!e || !mine) {
        free(e);
        av_packet_free(&mine);
        return TACHY_ERR_NOMEM;
    }
    av_packet_move_ref(mine, packet);
    e->packet = mine;
    e->time = isnan(time) ? f->last_time : time;
    f->last_time = e->time;
    if (f->tail)
        f->tail->next = e;
    else
        f->head = e;
    f->tail = e;
    f->bytes += (size_t)mine->size;
    q->bytes += (size_t)mine->size;
    return TACHY_OK;
}

// To each copy; what is amiss there, its taker is told. Under the lock.
static int put_copies(tachy_side *s, const AVPacket *packet)
{
    for (tachy_side *c = s->queue->copies; c; c = c->next) {
        AVPacket *p = av_packet_clone(packet);
        if (!p) {
            pthread_mutex_lock(&c->queue->lock);
            c->queue->failed = TACHY_ERR_NOMEM;
            pthread_mutex_unlock(&c->queue->lock);
            continue;
        }
        tachy_side_put(c, p);
        av_packet_free(&p);
    }
    return TACHY_OK;
}

int tachy_side_put(tachy_side *s, AVPacket *packet)
{
    struct tachy_side_queue *q = s->queue;
    int err = TACHY_ERR_INVAL;
    if (packet->stream_index < 0 || packet->stream_index >= s->nb_streams)
        goto done;
    pthread_mutex_lock(&q->lock);
    if (q->forked) {
        err = put_copies(s, packet);
    } else if (!make_fifos(s)) {
        err = TACHY_ERR_NOMEM;
    } else {
        // Nobody but the source holds the side: nobody will miss the packet.
        bool over = q->bytes + (size_t)packet->size > TACHY_SIDE_MAX_BYTES;
        err = over && atomic_load(&s->refs) == 1 ? TACHY_ERR_LIMIT : TACHY_OK;
        while (q->bytes + (size_t)packet->size > TACHY_SIDE_MAX_BYTES && err != TACHY_ERR_LIMIT)
            if (!give_up_one(s))
                err = TACHY_ERR_LIMIT;
        if (!err && s->streams[packet->stream_index].given_up)
            err = TACHY_ERR_LIMIT;
        if (!err)
            err = append(s, packet);
    }
    if (err == TACHY_ERR_NOMEM)
        q->failed = err;
    pthread_mutex_unlock(&q->lock);
done:
    av_packet_unref(packet);
    return err;
}

void tachy_side_reset(tachy_side *s)
{
    pthread_mutex_lock(&s->queue->lock);
    for (int i = 0; i < s->queue->nb_fifos; i++) {
        clear(s->queue, &s->queue->fifos[i]);
        s->queue->fifos[i].last_time = -INFINITY;
    }
    pthread_mutex_unlock(&s->queue->lock);
}

void tachy_side_trim(tachy_side *s, double seconds)
{
    struct tachy_side_queue *q = s->queue;
    pthread_mutex_lock(&q->lock);
    for (tachy_side *c = q->copies; c; c = c->next)
        tachy_side_trim(c, seconds);
    for (int i = 0; i < q->nb_fifos; i++) {
        struct fifo kept = {.last_time = q->fifos[i].last_time}, *f = &q->fifos[i];
        while (f->head) {
            struct entry *e = f->head;
            if (e->time >= seconds - 1e-6) { // times are rounded to ticks
                AVPacket *packet = pop(q, f);
                av_packet_free(&packet);
                continue;
            }
            f->head = e->next;
            e->next = NULL;
            if (kept.tail)
                kept.tail->next = e;
            else
                kept.head = e;
            kept.tail = e;
            kept.bytes += (size_t)e->packet->size;
        }
        *f = kept;
    }
    pthread_mutex_unlock(&q->lock);
}

void tachy_side_end(tachy_side *s)
{
    pthread_mutex_lock(&s->queue->lock);
    for (tachy_side *c = s->queue->copies; c; c = c->next)
        tachy_side_end(c);
    s->queue->ended = true;
    pthread_mutex_unlock(&s->queue->lock);
}

bool tachy_side_given_up(tachy_side *s, int stream)
{
    pthread_mutex_lock(&s->queue->lock);
    bool given_up = s->streams[stream].given_up;
    pthread_mutex_unlock(&s->queue->lock);
    return given_up;
}

int tachy_side_take(tachy_side *s, double seconds, AVPacket *packet)
{
    struct tachy_side_queue *q = s->queue;
    AVPacket *taken = NULL;
    pthread_mutex_lock(&q->lock);
    struct fifo *first = NULL;
    bool empty = true;
    for (int i = 0; i < q->nb_fifos; i++) {
        struct fifo *f = &q->fifos[i];
        if (!f->head)
            continue;
        empty = false;
        if (f->head->time <= seconds && (!first || f->head->time < first->head->time))
            first = f;
    }
    int err = q->failed ? q->failed : first ? TACHY_OK : empty && q->ended ? TACHY_ERR_EOF : TACHY_ERR_AGAIN;
    if (err == TACHY_OK)
        taken = pop(q, first);
    pthread_mutex_unlock(&q->lock);
    if (taken) {
        av_packet_move_ref(packet, taken);
        av_packet_free(&taken);
    }
    return err;
}

static int copy_side(tachy_side **out, tachy_side *s)
{
    int err = tachy_side_new(out);
    if (err < 0)
        return err;
    tachy_side *c = *out;
    struct tachy_side_queue *own = c->queue;
    size_t n = (size_t)s->nb_streams;
    struct tachy_side_stream *streams = malloc(TACHY_MAX(n, (size_t)1) * sizeof(*streams)); // given_up is each queue's
    if (!streams) {
        tachy_side_unref(out);
        return TACHY_ERR_NOMEM;
    }
    if (n)
        memcpy(streams, s->streams, n * sizeof(*streams));
    *c = (tachy_side){
        .url = s->url, .streams = streams, .nb_streams = s->nb_streams, .metadata = s->metadata,
        .video_metadata = s->video_metadata, .video_disposition = s->video_disposition, .chapters = s->chapters,
        .nb_chapters = s->nb_chapters, .video_side_data = s->video_side_data,
        .nb_video_side_data = s->nb_video_side_data, .width = s->width, .height = s->height, .queue = own,
        .of = tachy_side_ref(s),
    };
    atomic_init(&c->refs, 1);
    own->ended = s->queue->ended;
    c->next = s->queue->copies;
    s->queue->copies = c;
    return TACHY_OK;
}

int tachy_side_fork(tachy_side *s, tachy_side *copies[], int nb)
{
    struct tachy_side_queue *q = s->queue;
    int err = TACHY_OK;
    memset(copies, 0, (size_t)nb * sizeof(*copies));
    pthread_mutex_lock(&q->lock);
    for (int i = 0; i < nb && err == TACHY_OK; i++)
        err = copy_side(&copies[i], s);
    q->forked = err == TACHY_OK;
    for (int i = 0; i < q->nb_fifos && q->forked; i++) {
        for (const struct entry *e = q->fifos[i].head; e; e = e->next)
            put_copies(s, e->packet);
        clear(q, &q->fifos[i]);
    }
    pthread_mutex_unlock(&q->lock);
    for (int i = 0; i < nb && err < 0; i++)
        tachy_side_unref(&copies[i]);
    return err;
}
