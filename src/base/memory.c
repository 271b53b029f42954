#include "base/memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct tachy_memory {
    atomic_int refs;
    const struct tachy_log *log;
    pthread_mutex_t lock;        // what is below
    struct tachy_memory_stats stats;
    struct tachy_block *blocks;  // taken
    bool told;                   // a shortage was logged
    struct tachy_block lacked;   // the last one; size 0: there was none
    bool limited;                // it was the budget that had no room for it
    struct tachy_mem_ops ops[TACHY_MEM_KINDS];

    pthread_mutex_t cache_lock;  // held while caches shrink, so that none goes away meanwhile
    struct tachy_cache *caches;
};

static const char *use_name(enum tachy_memory_use u)
{
    static const char *const names[] = {"frames", "tensors", "results", "cache"};
    return (unsigned)u < TACHY_MEMORY_USES ? names[u] : "?";
}

static const char *mem_name(enum tachy_mem p)
{
    static const char *const names[TACHY_MEM_KINDS] = {
        "host",     "pinned",   "device",   "device 1",  "device 2",  "device 3",  "device 4",  "device 5",  "device 6",
        "device 7", "device 8", "device 9", "device 10", "device 11", "device 12", "device 13", "device 14", "device 15",
    };
    return (unsigned)p < TACHY_MEM_KINDS ? names[p] : "?";
}

static int host_alloc(void *user, size_t size, void **data)
{
    *data = tachy_aligned_alloc(size);
    return *data ? TACHY_OK : TACHY_ERR_NOMEM;
}

static void host_free(void *user, void *data) { tachy_aligned_free(data); }

int tachy_memory_open(struct tachy_memory **out, const struct tachy_memory_params *p)
{
    struct tachy_memory *m = *out = calloc(1, sizeof(*m));
    if (!m)
        return TACHY_ERR_NOMEM;
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->cache_lock, NULL);
    atomic_init(&m->refs, 1);
    m->log = p->log;
    memcpy(m->stats.budget, p->budget, sizeof(m->stats.budget));
    m->ops[TACHY_HOST] = (struct tachy_mem_ops){.alloc = host_alloc, .free = host_free};
    return TACHY_OK;
}

struct tachy_memory *tachy_memory_ref(struct tachy_memory *m)
{
    atomic_fetch_add(&m->refs, 1);
    return m;
}

static void report_leaks(const struct tachy_memory *m)
{
#ifndef NDEBUG
    for (const struct tachy_block *b = m->blocks; b; b = b->next)
        tachy_msg(m->log, TACHY_LOG_WARN, "memory: %zu bytes of %s memory (%s), taken at %s, were not given back",
                  b->size, mem_name(b->mem), use_name(b->use), b->site);
#endif
}

static void close_mem(struct tachy_mem_ops *ops)
{
    if (ops->close)
        ops->close(ops->user);
}

void tachy_memory_close(struct tachy_memory **pm)
{
    struct tachy_memory *m = *pm;
    *pm = NULL;
    if (!m || atomic_fetch_sub(&m->refs, 1) > 1)
        return;
    report_leaks(m);
    for (int p = 0; p < TACHY_MEM_KINDS; p++)
        close_mem(&m->ops[p]);
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->cache_lock);
    free(m);
}

void tachy_memory_set_ops(struct tachy_memory *m, enum tachy_mem mem,
                            const struct tachy_mem_ops *ops)
{
    close_mem(&m->ops[mem]);
    m->ops[mem] = *ops;
}

bool tachy_memory_has(const struct tachy_memory *m, enum tachy_mem mem) { return m->ops[mem].alloc; }

void tachy_memory_set_budget(struct tachy_memory *m, enum tachy_mem mem, uint64_t bytes)
{
    pthread_mutex_lock(&m->lock);
    m->stats.budget[mem] = bytes;
    pthread_mutex_unlock(&m->lock);
}

// Counts the block if the budget has room for it.
static bool book(struct tachy_memory *m, struct tachy_block *b)
{
    struct tachy_memory_stats *s = &m->stats;
    pthread_mutex_lock(&m->lock);
    uint64_t budget = s->budget[b->mem], total = s->total[b->mem];
    bool fits = !budget || (b->size <= budget && total <= budget - b->size);
    if (fits) {
        s->total[b->mem] = total += b->size;
        s->used[b->mem][b->use] += b->size;
        s->peak[b->mem] = TACHY_MAX(s->peak[b->mem], total);
        b->prev = NULL;
        b->next = m->blocks;
        if (b->next)
            b->next->prev = b;
        m->blocks = b;
    }
    pthread_mutex_unlock(&m->lock);
    return fits;
}

static void unbook(struct tachy_memory *m, struct tachy_block *b)
{
    pthread_mutex_lock(&m->lock);
    m->stats.total[b->mem] -= b->size;
    m->stats.used[b->mem][b->use] -= b->size;
    if (b->prev)
        b->prev->next = b->next;
    else
        m->blocks = b->next;
    if (b->next)
        b->next->prev = b->prev;
    pthread_mutex_unlock(&m->lock);
}

// Books and allocates once.
static int try_take(struct tachy_memory *m, struct tachy_block *b, bool allocate)
{
    const struct tachy_mem_ops *ops = &m->ops[b->mem];
    if (!book(m, b))
        return TACHY_ERR_NOMEM;
    int err = allocate ? ops->alloc(ops->user, b->size, &b->data) : TACHY_OK;
    if (err < 0)
        unbook(m, b);
    return err;
}

// Bytes that the budget lacks for a block; the block's whole size if the system had no more.
static size_t lacking(struct tachy_memory *m, const struct tachy_block *b)
{
    pthread_mutex_lock(&m->lock);
    uint64_t budget = m->stats.budget[b->mem], total = m->stats.total[b->mem];
    uint64_t need = budget && total + b->size > budget ? total + b->size - budget : b->size;
    m->stats.shortages++;
    pthread_mutex_unlock(&m->lock);
    return (size_t)TACHY_MIN(need, (uint64_t)SIZE_MAX);
}

int tachy_memory_short(struct tachy_memory *m, enum tachy_mem mem, enum tachy_memory_use use, size_t size)
{
    pthread_mutex_lock(&m->lock);
    bool told = m->told;
    m->told = true;
    m->lacked = (struct tachy_block){.size = size, .mem = mem, .use = use};
    uint64_t total = m->stats.total[mem], budget = m->stats.budget[mem];
    bool limited = m->limited = budget && (size > budget || total > budget - size);
    pthread_mutex_unlock(&m->lock);
    if (!told && limited)
        tachy_msg(m->log, TACHY_LOG_WARN,
                  "memory: %zu more bytes for %s do not fit: %llu of %llu bytes of %s memory are "
                  "taken; allow more, or use smaller pictures",
                  size, use_name(use), (unsigned long long)total, (unsigned long long)budget,
                  mem_name(mem));
    else if (!told)
        tachy_msg(m->log, TACHY_LOG_WARN,
                  "memory: the system has no %zu bytes of %s memory for %s: close what else uses it, or use smaller "
                  "pictures or fewer workers",
                  size, mem_name(mem), use_name(use));
    return TACHY_ERR_NOMEM;
}

int tachy_memory_explain(struct tachy_memory *m)
{
    pthread_mutex_lock(&m->lock);
    struct tachy_block b = m->lacked;
    double size = (double)b.size / (1 << 20), budget = (double)m->stats.budget[b.mem] / (1 << 20);
    bool limited = m->limited;
    pthread_mutex_unlock(&m->lock);
    const char *mem = mem_name(b.mem), *use = use_name(b.use);
    if (!b.size)
        return TACHY_ERR_NOMEM;
    if (limited)
        return tachy_fail(m->log, TACHY_ERR_LIMIT, "%.1f MiB more %s memory for %s would exceed the %.1f MiB that are allowed; "
                          "use a larger --max-memory, smaller pictures or fewer --workers", size, mem, use, budget);
    return tachy_fail(m->log, TACHY_ERR_NOMEM, "out of memory: the system has no %.1f MiB of %s memory for %s; use smaller "
                      "pictures or fewer --workers", size, mem, use);
}

const struct tachy_log *tachy_memory_log(const struct tachy_memory *m) { return m->log; }

static int take(struct tachy_memory *m, struct tachy_block *b, const struct tachy_block *what,
                bool allocate)
{
    *b = *what;
    if (!TACHY_CHECK(m->log, (unsigned)b->mem < TACHY_MEM_KINDS) ||
        !TACHY_CHECK(m->log, (unsigned)b->use < TACHY_MEMORY_USES) || !TACHY_CHECK(m->log, b->size))
        return TACHY_ERR_INVAL;
    int err = TACHY_OK;
    if (allocate && !m->ops[b->mem].alloc)
        err = tachy_fail(m->log, TACHY_ERR_UNSUPPORTED, "memory: there is no %s memory here",
                         mem_name(b->mem));
    else
        err = try_take(m, b, allocate);
    if (err == TACHY_ERR_NOMEM) {
        size_t want = lacking(m, b);
        err = tachy_memory_shrink(m, b->mem, want) ? try_take(m, b, allocate) : TACHY_ERR_NOMEM;
        if (err == TACHY_ERR_NOMEM)
            err = tachy_memory_short(m, b->mem, b->use, b->size);
    }
    if (err < 0)
        *b = (struct tachy_block){0};
    return err;
}

int tachy_memory_take_at(struct tachy_memory *m, struct tachy_block *b, enum tachy_mem mem,
                         enum tachy_memory_use use, size_t size, const char *site)
{
    return take(m, b, &(struct tachy_block){.size = size, .mem = mem, .use = use, .site = site},
                true);
}

int tachy_memory_reserve_at(struct tachy_memory *m, struct tachy_block *b, enum tachy_mem mem,
                            enum tachy_memory_use use, size_t size, const char *site)
{
    return take(m, b, &(struct tachy_block){.size = size, .mem = mem, .use = use, .site = site},
                false);
}

void tachy_memory_give(struct tachy_memory *m, struct tachy_block *b)
{
    if (!b->size)
        return;
    unbook(m, b);
    if (b->data)
        m->ops[b->mem].free(m->ops[b->mem].user, b->data);
    *b = (struct tachy_block){0};
}

void tachy_memory_add_cache(struct tachy_memory *m, struct tachy_cache *c)
{
    pthread_mutex_lock(&m->cache_lock);
    c->next = m->caches;
    m->caches = c;
    pthread_mutex_unlock(&m->cache_lock);
}

void tachy_memory_remove_cache(struct tachy_memory *m, struct tachy_cache *c)
{
    pthread_mutex_lock(&m->cache_lock);
    for (struct tachy_cache **at = &m->caches; *at; at = &(*at)->next) {
        if (*at != c)
            continue;
        *at = c->next;
        break;
    }
    pthread_mutex_unlock(&m->cache_lock);
}

size_t tachy_memory_shrink(struct tachy_memory *m, enum tachy_mem mem, size_t want)
{
    size_t got = 0;
    pthread_mutex_lock(&m->cache_lock);
    for (struct tachy_cache *c = m->caches; c && got < want; c = c->next)
        if (c->mem == mem)
            got += c->shrink(c->user, want - got);
    pthread_mutex_unlock(&m->cache_lock);
    return got;
}

void tachy_memory_read(struct tachy_memory *m, struct tachy_memory_stats *s)
{
    pthread_mutex_lock(&m->lock);
    *s = m->stats;
    pthread_mutex_unlock(&m->lock);
}

// A control group's limit in bytes; UINT64_MAX if there is none.
static uint64_t group_limit(const char *path)
{
    unsigned long long v = 0;
    FILE *f = fopen(path, "re");
    bool known = f && fscanf(f, "%llu", &v) == 1; // version 2 says "max" for none
    if (f)
        fclose(f);
    return known && v ? v : UINT64_MAX;
}

uint64_t tachy_memory_of_machine(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t all = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : (uint64_t)1 << 30;
    all = TACHY_MIN(all, group_limit("/sys/fs/cgroup/memory.max"));
    return TACHY_MIN(all, group_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
}
