#include "source/order.h"

#include <pthread.h>
#include <stdlib.h>

struct place {
    tachy_frame *frame;
    bool given; // also if there is no frame at this position
    bool breaks; // the next frame is a discontinuity
};

struct source_order {
    tachy_source *source;
    int64_t window;
    pthread_t *threads;
    int nb_threads;
    pthread_mutex_t lock; // holds what is below
    pthread_cond_t given, taken;
    struct place *ring; // position n is in n % window
    int64_t next;       // position that the reader takes next
    bool breaks;        // of one before it
    int running, err;
    bool quit, reader_waits;
};

static void put(source_order *o, tachy_frame *f, int64_t seq, bool breaks)
{
    pthread_mutex_lock(&o->lock);
    while (!o->quit && seq >= o->next + o->window)
        pthread_cond_wait(&o->taken, &o->lock);
    if (o->quit) {
        tachy_frame_unref(&f);
    } else {
        o->ring[seq % o->window] = (struct place){f, true, breaks};
        if (o->reader_waits && seq == o->next)
            pthread_cond_signal(&o->given);
    }
    pthread_mutex_unlock(&o->lock);
}

static bool quits(source_order *o)
{
    pthread_mutex_lock(&o->lock);
    bool quit = o->quit;
    pthread_mutex_unlock(&o->lock);
    return quit;
}

static void *order_main(void *arg)
{
    source_order *o = arg;
    tachy_frame *f;
    int64_t seq;
    uint64_t waited = 0;
    bool breaks;
    int err = TACHY_ERR_EOF;
    while (!quits(o) && !(err = o->source->ops->read_any(o->source, &f, &seq, &breaks, &waited)))
        put(o, f, seq, breaks);
    pthread_mutex_lock(&o->lock);
    o->running--;
    if (!o->err || o->err == TACHY_ERR_EOF)
        o->err = err;
    pthread_cond_signal(&o->given);
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

int source_order_open(source_order **out, tachy_source *s, int threads, int64_t window)
{
    *out = NULL;
    source_order *o = calloc(1, sizeof(*o));
    if (!o)
        return TACHY_ERR_NOMEM;
    o->source = s;
    o->window = window;
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->given, NULL);
    pthread_cond_init(&o->taken, NULL);
    o->ring = calloc((size_t)window, sizeof(o->ring[0]));
    o->threads = calloc((size_t)threads, sizeof(o->threads[0]));
    if (!o->ring || !o->threads) {
        source_order_close(&o);
        return TACHY_ERR_NOMEM;
    }
    pthread_mutex_lock(&o->lock); // threads that start at once wait for the count
    for (; o->nb_threads < threads; o->nb_threads++, o->running++)
        if (pthread_create(&o->threads[o->nb_threads], NULL, order_main, o))
            break; // fewer do as well
    bool none = !o->nb_threads;
    pthread_mutex_unlock(&o->lock);
    if (none) {
        source_order_close(&o);
        return tachy_fail(s->params.log, TACHY_ERR_AGAIN,
                          "%s: the system can start no threads for decoding; try again later", s->url);
    }
    *out = o;
    return TACHY_OK;
}

// The next position in order, under the lock.
static tachy_frame *take(source_order *o)
{
    struct place *at = &o->ring[o->next % o->window];
    tachy_frame *f = at->frame;
    if (f && o->breaks)
        f->discontinuity = 1;
    o->breaks = at->breaks || (o->breaks && !f);
    *at = (struct place){0};
    o->next++;
    pthread_cond_broadcast(&o->taken);
    return f;
}

int source_order_read(source_order *o, tachy_frame **out)
{
    int err = TACHY_OK;
    *out = NULL;
    pthread_mutex_lock(&o->lock);
    while (!*out && !err) {
        if (o->ring[o->next % o->window].given) {
            *out = take(o);
        } else if (!o->running) {
            err = o->err;
        } else {
            o->reader_waits = true;
            pthread_cond_wait(&o->given, &o->lock);
            o->reader_waits = false;
        }
    }
    pthread_mutex_unlock(&o->lock);
    return err;
}

void source_order_close(source_order **order)
{
    source_order *o = *order;
    *order = NULL;
    if (!o)
        return;
    pthread_mutex_lock(&o->lock);
    o->quit = true;
    pthread_cond_broadcast(&o->taken);
    pthread_mutex_unlock(&o->lock);
    for (int i = 0; i < o->nb_threads; i++)
        pthread_join(o->threads[i], NULL);
    for (int64_t i = 0; o->ring && i < o->window; i++)
        tachy_frame_unref(&o->ring[i].frame);
    pthread_cond_destroy(&o->given);
    pthread_cond_destroy(&o->taken);
    pthread_mutex_destroy(&o->lock);
    free(o->ring);
    free(o->threads);
    free(o);
}
