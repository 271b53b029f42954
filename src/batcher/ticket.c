#include "batcher/batcher_priv.h"

#include "base/base.h"
#include "base/thread.h"

#include <stdlib.h>
#include <time.h>

tachy_ticket *tachy_ticket_new(const tachy_batcher *b)
{
    tachy_ticket *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    atomic_init(&t->refs, 2);
    t->owner = b;
    t->clock = b->clock;
    pthread_mutex_init(&t->lock, NULL);
    tachy_cond_init(&t->done);
    return t;
}

void tachy_ticket_unref(tachy_ticket *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) > 1)
        return;
    pthread_cond_destroy(&t->done);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void tachy_ticket_close(tachy_ticket **t)
{
    if (!t)
        return;
    tachy_ticket_unref(*t);
    *t = NULL;
}

void tachy_batch_end_item(void *user, const struct batch_ending *e, int err)
{
    if (e->done)
        e->done(user, err);
    if (!e->ticket)
        return;
    pthread_mutex_lock(&e->ticket->lock);
    e->ticket->finished = true;
    e->ticket->err = err;
    pthread_cond_broadcast(&e->ticket->done);
    pthread_mutex_unlock(&e->ticket->lock);
    tachy_ticket_unref(e->ticket);
}

int tachy_ticket_wait(tachy_ticket *t, int64_t timeout_us)
{
    if (!t)
        return TACHY_ERR_INVAL;
    const struct tachy_clock *c = &t->clock;
    uint64_t until = TACHY_NEVER;
    if (timeout_us > 0)
        until = c->now_ns(c->user) + (uint64_t)TACHY_MIN(timeout_us, INT64_MAX / 2000) * 1000;
    pthread_mutex_lock(&t->lock);
    while (!t->finished && timeout_us != 0 &&
           (until == TACHY_NEVER || c->now_ns(c->user) < until))
        c->wait_until(c->user, &t->done, &t->lock, until);
    int err = t->finished ? t->err : TACHY_ERR_AGAIN;
    pthread_mutex_unlock(&t->lock);
    return err;
}
