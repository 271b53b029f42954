#include "base/block_pool.h"

#include <stdlib.h>

struct slot {
    struct tachy_block block; // zeroed: gave way
    bool out;   // then `block` is its holder's, and all but the address out of the lock's reach
    void *data; // while it is out
};

struct tachy_block_pool {
    struct tachy_memory *memory;
    struct tachy_cache cache;
    enum tachy_place place;
    enum tachy_memory_use use;
    size_t size;
    pthread_mutex_t lock; // guards the slots
    int count;
    struct slot slot[];
};

// The manager calls it while it holds no lock of ours; giving a block back calls no cache.
static size_t shrink(void *user, size_t want)
{
    struct tachy_block_pool *p = user;
    size_t got = 0;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->count && got < want; i++) {
        struct slot *s = &p->slot[i];
        if (s->out || !s->block.size)
            continue;
        got += s->block.size;
        tachy_memory_give(p->memory, &s->block);
    }
    pthread_mutex_unlock(&p->lock);
    return got;
}

int tachy_block_pool_open(struct tachy_block_pool **out, struct tachy_memory *m, enum tachy_place place,
                          enum tachy_memory_use use, size_t size, int count)
{
    struct tachy_block_pool *p = *out = calloc(1, sizeof(*p) + sizeof(p->slot[0]) * (size_t)count);
    if (!p)
        return TACHY_ERR_NOMEM;
    p->memory = tachy_memory_ref(m);
    p->place = place;
    p->use = use;
    p->size = size;
    p->cache = (struct tachy_cache){.place = place, .shrink = shrink, .user = p};
    pthread_mutex_init(&p->lock, NULL);
    int err = TACHY_OK;
    for (; p->count < count && err == TACHY_OK; p->count += err == TACHY_OK)
        err = tachy_memory_take(m, &p->slot[p->count].block, place, use, size);
    tachy_memory_add_cache(m, &p->cache);
    if (err < 0)
        tachy_block_pool_close(out);
    return err;
}

void tachy_block_pool_close(struct tachy_block_pool **pp)
{
    struct tachy_block_pool *p = *pp;
    *pp = NULL;
    if (!p)
        return;
    tachy_memory_remove_cache(p->memory, &p->cache);
    for (int i = 0; i < p->count; i++)
        tachy_memory_give(p->memory, &p->slot[i].block);
    pthread_mutex_destroy(&p->lock);
    tachy_memory_close(&p->memory);
    free(p);
}

// A free slot, one with a block where there is one, marked as out. NULL: all are out.
static struct slot *claim(struct tachy_block_pool *p)
{
    struct slot *found = NULL;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->count && !(found && found->block.size); i++)
        if (!p->slot[i].out && (!found || p->slot[i].block.size))
            found = &p->slot[i];
    if (found)
        found->out = true;
    pthread_mutex_unlock(&p->lock);
    return found;
}

void *tachy_block_pool_get(struct tachy_block_pool *p)
{
    struct slot *s = claim(p);
    if (!s)
        return NULL;
    // Outside of the lock: the manager may ask this pool's idle blocks to give way.
    bool there = s->block.size || tachy_memory_take(p->memory, &s->block, p->place, p->use, p->size) == TACHY_OK;
    void *data = s->block.data;
    pthread_mutex_lock(&p->lock);
    s->out = there;
    s->data = data;
    pthread_mutex_unlock(&p->lock);
    return data;
}

void tachy_block_pool_put(struct tachy_block_pool *p, void *data)
{
    if (!data)
        return;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->count; i++)
        if (p->slot[i].out && p->slot[i].data == data)
            p->slot[i].out = false;
    pthread_mutex_unlock(&p->lock);
}

int tachy_block_pool_out(struct tachy_block_pool *p)
{
    int n = 0;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->count; i++)
        n += p->slot[i].out;
    pthread_mutex_unlock(&p->lock);
    return n;
}
