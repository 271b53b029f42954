#include "base/memory.h"
#include "media/frame_priv.h"

#include <pthread.h>
#include <stdlib.h>

// The memory that one frame counts for; frames of a pool are alike, so it belongs to no particular one.
struct share {
    struct tachy_block block;
    struct share *next;
};

struct tachy_frame_pool {
    struct tachy_gpu *gpu; // NULL: the host's own memory
    enum tachy_mem mem;
    enum tachy_pix format;
    int width, height;
    pthread_mutex_t lock; // holds what is below
    struct tachy_frame_full **idle;
    size_t nb_idle, capacity; // capacity >= frames that exist, so that a put cannot fail
    size_t out;
    bool closed;
    struct share *shares; // one per frame, where memory is counted

    struct tachy_memory *memory; // NULL: not counted
    struct tachy_cache cache;
};

int tachy_frame_pool_open_mem(tachy_frame_pool **out, struct tachy_gpu *g, enum tachy_mem mem,
                                enum tachy_pix format, int width, int height)
{
    *out = NULL;
    if (!tachy_frame_size_ok(format, width, height) || (mem != TACHY_HOST && !g))
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
    p->gpu = mem == TACHY_HOST ? NULL : tachy_gpu_ref(g);
    p->mem = mem;
    *out = p;
    return TACHY_OK;
}

int tachy_frame_pool_open(tachy_frame_pool **out, enum tachy_pix format, int width, int height)
{
    return tachy_frame_pool_open_mem(out, NULL, TACHY_HOST, format, width, height);
}

int tachy_frame_pool_open_gpu(tachy_frame_pool **out, struct tachy_gpu *g, enum tachy_pix format,
                              int width, int height)
{
    return tachy_frame_pool_open_mem(out, g, g ? TACHY_DEVICE : TACHY_HOST, format, width, height);
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

static void give_share(tachy_frame_pool *p, struct share *s)
{
    tachy_memory_give(p->memory, &s->block);
    free(s);
}

// Frees idle frames worth `want` bytes.
static size_t shrink(void *user, size_t want)
{
    tachy_frame_pool *p = user;
    size_t got = 0;
    while (got < want) {
        pthread_mutex_lock(&p->lock);
        struct tachy_frame_full *f = p->nb_idle ? p->idle[--p->nb_idle] : NULL;
        struct share *s = f ? p->shares : NULL;
        if (s)
            p->shares = s->next;
        pthread_mutex_unlock(&p->lock);
        if (!f)
            break;
        tachy_frame_destroy(f);
        if (s) {
            got += s->block.size;
            give_share(p, s);
        }
    }
    return got;
}

// The kind of memory that its frames count in.
static enum tachy_mem counted_mem(const tachy_frame_pool *p)
{
    return p->mem == TACHY_DEVICE ? tachy_mem_of_gpu(p->gpu->device.ordinal) : p->mem;
}

void tachy_frame_pool_account(tachy_frame_pool *p, struct tachy_memory *m)
{
    if (!m)
        return;
    p->memory = tachy_memory_ref(m);
    p->cache = (struct tachy_cache){.mem = counted_mem(p), .shrink = shrink, .user = p};
    tachy_memory_add_cache(m, &p->cache);
}

// Counts one more frame. NULL with TACHY_OK where nothing is counted.
static int new_share(tachy_frame_pool *p, struct share **out)
{
    *out = NULL;
    if (!p->memory)
        return TACHY_OK;
    struct share *s = calloc(1, sizeof(*s));
    if (!s)
        return TACHY_ERR_NOMEM;
    int err = tachy_memory_reserve(p->memory, &s->block, counted_mem(p), TACHY_MEMORY_FRAMES,
                                   tachy_frame_bytes(p->format, p->width, p->height));
    if (err < 0) {
        free(s);
        return err;
    }
    *out = s;
    return TACHY_OK;
}

// Allocates memory for one more frame, which is counted already; if others fill the GPU, caches are asked to shrink.
static int new_frame(tachy_frame_pool *p, struct tachy_frame_full **out)
{
    size_t bytes = tachy_frame_bytes(p->format, p->width, p->height);
    const struct tachy_log *log = p->memory ? tachy_memory_log(p->memory) : NULL;
    int err = tachy_frame_alloc(out, p->format, p->width, p->height, p->gpu, p->mem, log);
    if (err != TACHY_ERR_NOMEM || !p->memory)
        return err;
    if (tachy_memory_shrink(p->memory, counted_mem(p), bytes))
        err = tachy_frame_alloc(out, p->format, p->width, p->height, p->gpu, p->mem, log);
    return err == TACHY_ERR_NOMEM ? tachy_memory_short(p->memory, counted_mem(p), TACHY_MEMORY_FRAMES, bytes) : err;
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

    struct share *s;
    int err = new_share(p, &s);
    if (err < 0)
        return err;
    err = new_frame(p, &f);
    pthread_mutex_lock(&p->lock);
    if (f && !reserve(p))
        err = TACHY_ERR_NOMEM;
    if (err == TACHY_OK) {
        p->out++;
        if (s) {
            s->next = p->shares;
            p->shares = s;
        }
    }
    pthread_mutex_unlock(&p->lock);
    if (err < 0) {
        if (f)
            tachy_frame_destroy(f);
        if (s)
            give_share(p, s);
        return err;
    }
    f->pool = p;
    *out = &f->pub;
    return TACHY_OK;
}

int tachy_frame_pool_get_like(tachy_frame_pool **p, struct tachy_gpu *g, enum tachy_mem mem, struct tachy_memory *m,
                              const tachy_frame *like, tachy_frame **out)
{
    *out = NULL;
    if (!*p || (*p)->format != like->format || (*p)->width != like->width || (*p)->height != like->height) {
        tachy_frame_pool_close(p);
        int err = tachy_frame_pool_open_mem(p, g, g ? mem : TACHY_HOST, like->format, like->width, like->height);
        if (err < 0)
            return err;
        tachy_frame_pool_account(*p, m);
    }
    return tachy_frame_pool_get(*p, out);
}

static void destroy(tachy_frame_pool *p)
{
    while (p->nb_idle)
        tachy_frame_destroy(p->idle[--p->nb_idle]);
    free(p->idle);
    tachy_gpu_unref(&p->gpu);
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

size_t tachy_frame_pool_out(tachy_frame_pool *p)
{
    pthread_mutex_lock(&p->lock);
    size_t out = p->out;
    pthread_mutex_unlock(&p->lock);
    return out;
}

void tachy_frame_pool_close(tachy_frame_pool **pool)
{
    tachy_frame_pool *p = pool ? *pool : NULL;
    if (!p)
        return;
    *pool = NULL;
    if (p->memory)
        tachy_memory_remove_cache(p->memory, &p->cache);
    while (p->shares) {
        struct share *s = p->shares;
        p->shares = s->next;
        give_share(p, s);
    }
    tachy_memory_close(&p->memory);
    pthread_mutex_lock(&p->lock);
    p->closed = true;
    while (p->nb_idle)
        tachy_frame_destroy(p->idle[--p->nb_idle]);
    bool last = !p->out;
    pthread_mutex_unlock(&p->lock);
    if (last)
        destroy(p);
}
