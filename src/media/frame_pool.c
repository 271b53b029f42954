#include "media/frame_priv.h"

#include <pthread.h>
#include <stdlib.h>

struct tachy_frame_pool {
    enum tachy_pix format;
    int width, height;
    pthread_mutex_t lock; // holds what is below
    struct tachy_frame_full **idle;
    size_t nb_idle, capacity; // capacity >= frames that exist, so that a put cannot fail
    size_t out;
    bool closed;
};

int tachy_frame_pool_open(tachy_frame_pool **out, enum tachy_pix format, int width, int height)
{
    *out = NULL;
    if (!tachy_frame_size_ok(format, width, height))
        return TACHY_ERR_INVAL;
    tachy_frame_pool *p = calloc(1, sizeof(*p));
    if (!p)
        return TACHY_ERR_NOMEM;
    p->format = format;
    p->width = width;
    p->height = height;
    if (pthread_mutex_init(&p->lock, NULL)) {
        free(p);
        return TACHY_ERR_NOMEM;
    }
    *out = p;
    return TACHY_OK;
}

// Room to take one more frame back; under the lock.
static bool reserve(tachy_frame_pool *p)
{
    size_t need = p->nb_idle + p->out + 1;
    if (need <= p->capacity)
        return true;
    size_t capacity = TACHY_MAX(need, p->capacity * 2);
    void *idle = realloc(p->idle, capacity * sizeof(p->idle[0]));
    if (!idle)
        return false;
    p->idle = idle;
    p->capacity = capacity;
    return true;
}

// A frame that was used before looks like a new one.
static void reset(struct tachy_frame_full *f)
{
    f->pub.id = 0;
    f->pub.pts = 0;
    f->pub.duration = 0;
    f->pub.color = (struct tachy_color){0};
    f->pub.key = false;
    f->pub.discontinuity = 0;
    atomic_store_explicit(&f->refs, 1, memory_order_relaxed);
}

int tachy_frame_pool_get(tachy_frame_pool *p, tachy_frame **out)
{
    *out = NULL;
    struct tachy_frame_full *f = NULL;
    pthread_mutex_lock(&p->lock);
    if (p->nb_idle) {
        f = p->idle[--p->nb_idle]; // the last one back: its memory is the warmest
        p->out++;
    }
    pthread_mutex_unlock(&p->lock);
    if (f) {
        reset(f);
        *out = &f->pub;
        return TACHY_OK;
    }

    f = tachy_frame_alloc(p->format, p->width, p->height);
    if (!f)
        return TACHY_ERR_NOMEM;
    pthread_mutex_lock(&p->lock);
    bool ok = reserve(p);
    if (ok)
        p->out++;
    pthread_mutex_unlock(&p->lock);
    if (!ok) {
        tachy_frame_destroy(f);
        return TACHY_ERR_NOMEM;
    }
    f->pool = p;
    *out = &f->pub;
    return TACHY_OK;
}

static void destroy(tachy_frame_pool *p)
{
    while (p->nb_idle)
        tachy_frame_destroy(p->idle[--p->nb_idle]);
    free(p->idle);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void tachy_frame_pool_put(tachy_frame_pool *p, struct tachy_frame_full *f)
{
    pthread_mutex_lock(&p->lock);
    p->idle[p->nb_idle++] = f;
    p->out--;
    bool last = p->closed && !p->out;
    pthread_mutex_unlock(&p->lock);
    if (last)
        destroy(p);
}

void tachy_frame_pool_close(tachy_frame_pool **pool)
{
    tachy_frame_pool *p = pool ? *pool : NULL;
    if (!p)
        return;
    *pool = NULL;
    pthread_mutex_lock(&p->lock);
    p->closed = true;
    while (p->nb_idle)
        tachy_frame_destroy(p->idle[--p->nb_idle]);
    bool last = !p->out;
    pthread_mutex_unlock(&p->lock);
    if (last)
        destroy(p);
}
